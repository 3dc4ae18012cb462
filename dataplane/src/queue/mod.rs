//! Egress queue of a class, of three kinds: one FIFO, one FIFO per ingress port (VOQ), or the nested queues of policy
//! OFC.

mod nested;
mod nodes;

pub(crate) use nested::Nested;
pub use nodes::BYTES_PER_SLOT;
pub(crate) use nodes::{Fifo, FrameMeta, NONE, Nodes, Origin, UNCOUNTED};

use xoff_flow_control::settings::QueueKind;
use xoff_wire::units::{Nanos, PortId, PortSet};

use crate::frame::Frame;

#[derive(Debug)]
pub(crate) enum ClassQueue {
    Fifo(Fifo),
    Voq(Box<Voq>),
    Nested(Box<Nested>),
}

impl ClassQueue {
    pub(crate) fn new(kind: QueueKind, ports: usize) -> ClassQueue {
        match kind {
            QueueKind::Fifo => ClassQueue::Fifo(Fifo::default()),
            QueueKind::Voq => ClassQueue::Voq(Box::new(Voq::new(ports))),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, nodes: &mut Nodes, frame: Frame) {
        match self {
            ClassQueue::Fifo(fifo) => fifo.push(nodes, frame),
            ClassQueue::Voq(voq) => voq.push(nodes, frame),
            ClassQueue::Nested(nested) => nested.push(nodes, frame),
        }
    }

    #[inline]
    pub(crate) fn fifo(&mut self) -> Option<&mut Fifo> {
        match self {
            ClassQueue::Fifo(fifo) => Some(fifo),
            ClassQueue::Voq(_) | ClassQueue::Nested(_) => None,
        }
    }

    #[inline]
    pub(crate) fn append(&mut self, nodes: &mut Nodes, mut behind: Fifo) {
        if let Some(fifo) = self.fifo() {
            return fifo.append(nodes, behind);
        }
        while let Some(frame) = behind.pop(nodes) {
            self.push(nodes, frame);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self, nodes: &mut Nodes) -> Option<Frame> {
        match self {
            ClassQueue::Fifo(fifo) => fifo.pop(nodes),
            ClassQueue::Voq(voq) => voq.pop(nodes),
            ClassQueue::Nested(nested) => nested.pop(nodes),
        }
    }

    #[inline]
    pub(crate) fn next_slot(&self) -> Option<u32> {
        match self {
            ClassQueue::Fifo(fifo) => fifo.front_slot(),
            ClassQueue::Voq(_) | ClassQueue::Nested(_) => None,
        }
    }

    pub(crate) fn take_if(&mut self, nodes: &mut Nodes, mut leaves: impl FnMut(&FrameMeta) -> bool) -> Fifo {
        match self {
            ClassQueue::Fifo(fifo) => fifo.take_if(nodes, leaves),
            ClassQueue::Voq(voq) => voq.take_if(nodes, &mut leaves),
            ClassQueue::Nested(nested) => nested.take_if(nodes, leaves),
        }
    }

    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            ClassQueue::Fifo(fifo) => !fifo.is_empty(),
            ClassQueue::Voq(voq) => !voq.backlogged.is_empty(),
            ClassQueue::Nested(nested) => nested.is_ready(),
        }
    }

    pub(crate) fn oldest(&self, nodes: &Nodes) -> Option<Nanos> {
        match self {
            ClassQueue::Fifo(fifo) => fifo.oldest(nodes),
            ClassQueue::Voq(voq) => voq.by_ingress.iter().filter_map(|fifo| fifo.oldest(nodes)).min(),
            ClassQueue::Nested(nested) => nested.oldest(nodes),
        }
    }

    pub(crate) fn frames(&self) -> u32 {
        match self {
            ClassQueue::Fifo(fifo) => fifo.frames(),
            ClassQueue::Voq(voq) => voq.by_ingress.iter().map(Fifo::frames).sum(),
            ClassQueue::Nested(nested) => nested.frames(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Voq {
    by_ingress: Box<[Fifo]>,
    backlogged: PortSet,
    next: PortId,
}

impl Voq {
    fn new(ports: usize) -> Voq {
        let by_ingress = vec![Fifo::default(); ports].into_boxed_slice();
        Voq { by_ingress, backlogged: PortSet::NONE, next: PortId(0) }
    }

    fn push(&mut self, nodes: &mut Nodes, frame: Frame) {
        let ingress = nodes.meta(&frame).ingress;
        self.by_ingress[ingress.index()].push(nodes, frame);
        self.backlogged.insert(ingress);
    }

    fn pop(&mut self, nodes: &Nodes) -> Option<Frame> {
        let ingress = self.backlogged.next_from(self.next)?;
        let fifo = &mut self.by_ingress[ingress.index()];
        let frame = fifo.pop(nodes);
        if fifo.is_empty() {
            self.backlogged.remove(ingress);
        }
        self.next = PortId(ingress.0.wrapping_add(1));
        frame
    }

    fn take_if(&mut self, nodes: &mut Nodes, leaves: &mut impl FnMut(&FrameMeta) -> bool) -> Fifo {
        let mut taken = Fifo::default();
        for ingress in self.backlogged.iter() {
            let fifo = &mut self.by_ingress[ingress.index()];
            let of_ingress = fifo.take_if(nodes, &mut *leaves);
            taken.append(nodes, of_ingress);
            if fifo.is_empty() {
                self.backlogged.remove(ingress);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(queue: &mut ClassQueue, nodes: &mut Nodes) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop(nodes).map(|frame| frame.into_parts().0)).collect()
    }

    #[test] // proves: scheduling
    fn voq_serves_ingress_ports_in_round_robin() {
        let mut nodes = Nodes::new(8);
        let mut queue = ClassQueue::new(QueueKind::Voq, 256);
        for (slot, ingress) in [(0, 2), (1, 2), (2, 2), (3, 255), (4, 0), (5, 255)] {
            let frame = Frame::new(slot, 60);
            nodes.meta_mut(&frame).ingress = PortId(ingress);
            queue.push(&mut nodes, frame);
        }
        assert_eq!(queue.frames(), 6);
        assert_eq!(drain(&mut queue, &mut nodes), [4, 0, 3, 1, 5, 2]);
        assert!(!queue.is_ready());
    }
}

//! State of each frame, indexed by slot. Linked entries form queues of any length.

use xoff_flow_control::policy::NO_FLOW;
use xoff_flow_control::prefetch::prefetch;
use xoff_wire::header::Layout;
use xoff_wire::units::{Bytes, Class, Nanos, PortId};

use crate::frame::Frame;

pub(crate) const NONE: u32 = u32::MAX;

pub(crate) const UNCOUNTED: u32 = NONE - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Frame received by a port. It counts in that port's ingress queue.
    Network,
    /// Frame from the machine's network stack (the host). It counts in its egress queue, and towards the port's limit
    /// of host frames.
    Host,
    /// Control frame made by the switch. It counts in no queue.
    Switch,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameMeta {
    pub since: Nanos,
    /// Length in bytes at ingress, without FCS. Rewriting does not change it, so that counts balance.
    pub len: u32,
    /// Index of the account that counts unsent copies of a flooded frame. [`NONE`] for one destination; [`UNCOUNTED`]
    /// if floods do not count in ingress queues.
    pub(crate) account: u32,
    pub(crate) flow: u32,
    pub vid: u16,
    pub(crate) layout: Layout,
    pub ingress: PortId,
    pub egress: PortId,
    pub class: Class,
    pub origin: Origin,
    /// Bytes of VLAN tags, which do not count against MTUs.
    pub tags: u8,
    pub(crate) is_repeat: bool,
}

impl FrameMeta {
    #[inline]
    pub(crate) const fn new(now: Nanos, port: PortId, class: Class, len: u32) -> FrameMeta {
        FrameMeta {
            since: now,
            len,
            account: NONE,
            flow: NO_FLOW,
            vid: 0,
            layout: Layout::UNKNOWN,
            ingress: port,
            egress: port,
            class,
            origin: Origin::Network,
            tags: 0,
            is_repeat: false,
        }
    }

    pub(crate) fn of_control(now: Nanos, port: PortId, class: Class, frame: &Frame) -> FrameMeta {
        FrameMeta { origin: Origin::Switch, ..FrameMeta::new(now, port, class, frame.len()) }
    }

    #[inline]
    pub(crate) fn is_flooded(&self) -> bool {
        self.account != NONE
    }

    pub(crate) fn is_control(&self) -> bool {
        self.origin == Origin::Switch
    }

    pub(crate) fn counted(&self) -> Bytes {
        Bytes::of_frame(self.len)
    }
}

#[derive(Clone, Copy)]
struct Node {
    meta: FrameMeta,
    len: u32,
    next: u32,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("meta", &self.meta).field("len", &self.len).finish()
    }
}

#[derive(Debug)]
pub(crate) struct Nodes(Box<[Node]>);

/// Memory in bytes that a worker needs per slot.
pub const BYTES_PER_SLOT: usize = size_of::<Node>();
const _: () = assert!(BYTES_PER_SLOT <= 40, "the state of a frame must fit in 40 bytes");

impl Nodes {
    pub(crate) fn new(slots: u32) -> Nodes {
        let meta = FrameMeta::new(Nanos::ZERO, PortId(0), Class::from_low_bits(0), 0);
        Nodes(vec![Node { meta, len: 0, next: NONE }; slots as usize].into_boxed_slice())
    }

    #[inline]
    pub(crate) fn meta(&self, frame: &Frame) -> &FrameMeta {
        &self.0[frame.slot() as usize].meta
    }

    #[inline]
    pub(crate) fn meta_at(&self, slot: u32) -> &FrameMeta {
        &self.0[slot as usize].meta
    }

    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        if let Some(node) = self.0.get(slot as usize) {
            prefetch(node);
            prefetch(&node.next); // every other node extends into the following line
        }
    }

    pub(crate) fn look_at<R>(&self, slot: u32, look: impl FnOnce(&Frame) -> R) -> R {
        let frame = Frame::new(slot, self.0[slot as usize].len);
        let result = look(&frame);
        let _ = frame.into_parts();
        result
    }

    #[inline]
    pub(crate) fn meta_mut(&mut self, frame: &Frame) -> &mut FrameMeta {
        &mut self.0[frame.slot() as usize].meta
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    head: u32,
    tail: u32,
    frames: u32,
}

impl Default for Fifo {
    fn default() -> Fifo {
        Fifo { head: NONE, tail: NONE, frames: 0 }
    }
}

impl Fifo {
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch(&self.head);
        prefetch(&self.frames);
    }

    #[inline]
    pub(crate) fn push(&mut self, nodes: &mut Nodes, frame: Frame) {
        let (slot, len) = frame.into_parts();
        let node = &mut nodes.0[slot as usize];
        node.len = len;
        node.next = NONE;
        match self.head {
            NONE => self.head = slot,
            _ => nodes.0[self.tail as usize].next = slot,
        }
        self.tail = slot;
        self.frames += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self, nodes: &Nodes) -> Option<Frame> {
        if self.head == NONE {
            return None;
        }
        let slot = self.head;
        let node = &nodes.0[slot as usize];
        self.head = node.next;
        self.frames -= 1;
        Some(Frame::new(slot, node.len))
    }

    #[inline]
    pub(crate) fn front_slot(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    pub(crate) fn unpop(&mut self, nodes: &mut Nodes, frame: Frame) {
        let (slot, len) = frame.into_parts();
        let node = &mut nodes.0[slot as usize];
        node.len = len;
        node.next = self.head;
        if self.head == NONE {
            self.tail = slot;
        }
        self.head = slot;
        self.frames += 1;
    }

    #[inline]
    pub(crate) fn front<'a>(&self, nodes: &'a Nodes) -> Option<&'a FrameMeta> {
        (self.head != NONE).then(|| &nodes.0[self.head as usize].meta)
    }

    #[inline]
    pub(crate) fn split_while(
        &mut self,
        nodes: &mut Nodes,
        mut moves: impl FnMut(&mut FrameMeta) -> bool,
    ) -> Fifo {
        let (mut tail, mut frames, mut next) = (NONE, 0, self.head);
        while next != NONE {
            let node = &mut nodes.0[next as usize];
            if !moves(&mut node.meta) {
                break;
            }
            (tail, next) = (next, node.next);
            frames += 1;
        }
        if frames == 0 {
            return Fifo::default();
        }
        nodes.0[tail as usize].next = NONE;
        self.frames -= frames;
        Fifo { head: std::mem::replace(&mut self.head, next), tail, frames }
    }

    pub(crate) fn take_if(&mut self, nodes: &mut Nodes, mut leaves: impl FnMut(&FrameMeta) -> bool) -> Fifo {
        let mut taken = Fifo::default();
        let mut all = std::mem::take(self);
        while let Some(frame) = all.pop(nodes) {
            let to = if leaves(nodes.meta(&frame)) { &mut taken } else { &mut *self };
            to.push(nodes, frame);
        }
        taken
    }

    #[inline]
    pub(crate) fn append(&mut self, nodes: &mut Nodes, behind: Fifo) {
        match (self.is_empty(), behind.is_empty()) {
            (true, _) => *self = behind,
            (false, true) => {}
            (false, false) => {
                nodes.0[self.tail as usize].next = behind.head;
                self.tail = behind.tail;
                self.frames += behind.frames;
            }
        }
    }

    #[inline]
    pub(crate) fn for_each_meta(&self, nodes: &mut Nodes, mut change: impl FnMut(&mut FrameMeta)) {
        let mut slot = self.head;
        for _ in 0..self.frames {
            let node = &mut nodes.0[slot as usize];
            change(&mut node.meta);
            slot = node.next;
        }
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(crate) fn oldest(&self, nodes: &Nodes) -> Option<Nanos> {
        self.front(nodes).map(|meta| meta.since)
    }

    pub(crate) const fn frames(&self) -> u32 {
        self.frames
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn fifo_returns_frames_with_lengths_in_order_of_arrival() {
        let mut nodes = Nodes::new(8);
        let mut fifo = Fifo::default();
        for slot in [3, 0, 7] {
            fifo.push(&mut nodes, Frame::new(slot, 100 + slot));
        }
        let first = fifo.pop(&nodes).unwrap();
        assert_eq!((first.slot(), first.len()), (3, 103));
        fifo.unpop(&mut nodes, first);
        assert_eq!(fifo.frames(), 3);
        let order: Vec<u32> = std::iter::from_fn(|| fifo.pop(&nodes).map(|f| f.into_parts().0)).collect();
        assert_eq!(order, [3, 0, 7]);
        assert!(fifo.is_empty());
    }

    #[test]
    fn appending_a_queue_keeps_order_of_both_queues() {
        let mut nodes = Nodes::new(8);
        let queue = |nodes: &mut Nodes, slots: &[u32]| {
            let mut fifo = Fifo::default();
            slots.iter().for_each(|&slot| fifo.push(nodes, Frame::new(slot, 60)));
            fifo
        };
        for (front, behind) in [(&[][..], &[][..]), (&[1], &[]), (&[], &[2]), (&[3, 1], &[2, 0])] {
            let mut all = queue(&mut nodes, front);
            let other = queue(&mut nodes, behind);
            all.append(&mut nodes, other);
            all.push(&mut nodes, Frame::new(7, 60));
            assert_eq!(all.frames() as usize, front.len() + behind.len() + 1);
            let order: Vec<u32> = std::iter::from_fn(|| all.pop(&nodes).map(|f| f.into_parts().0)).collect();
            assert_eq!(order, [front, behind, &[7]].concat());
        }
    }

    #[test]
    fn moving_some_frames_keeps_order_of_both_queues() {
        let mut nodes = Nodes::new(8);
        for leaving in [0b0000, 0b0110, 0b1001, 0b1111] {
            let mut fifo = Fifo::default();
            (0..4).for_each(|slot| fifo.push(&mut nodes, Frame::new(slot, 60)));
            let mut number = 0;
            let mut taken = fifo.take_if(&mut nodes, |_| {
                number += 1;
                leaving >> (number - 1) & 1 == 1
            });
            taken.push(&mut nodes, Frame::new(6, 60));
            fifo.push(&mut nodes, Frame::new(7, 60));
            let slots = |fifo: &mut Fifo| -> Vec<u32> {
                std::iter::from_fn(|| fifo.pop(&nodes).map(|f| f.into_parts().0)).collect()
            };
            let expected = |bit: u32| (0..4).filter(move |slot| leaving >> slot & 1 == bit);
            assert_eq!(slots(&mut taken), expected(1).chain([6]).collect::<Vec<_>>());
            assert_eq!(slots(&mut fifo), expected(0).chain([7]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn frame_put_back_into_empty_fifo_becomes_head_and_tail() {
        let mut nodes = Nodes::new(2);
        let mut fifo = Fifo::default();
        fifo.push(&mut nodes, Frame::new(0, 60));
        let frame = fifo.pop(&nodes).unwrap();
        fifo.unpop(&mut nodes, frame);
        fifo.push(&mut nodes, Frame::new(1, 60));
        assert_eq!(fifo.pop(&nodes).unwrap().into_parts(), (0, 60));
        assert_eq!(fifo.pop(&nodes).unwrap().into_parts(), (1, 60));
    }
}

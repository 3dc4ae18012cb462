//! State of queues that all workers of a switch decide by: each cell is written by the worker that owns the port, and read by
//! all. Counters are for users; nothing is decided by them.

use xoff_wire::units::{Bytes, CLASSES, Class, PortId};

use crate::counter::Counter;
use crate::prefetch::prefetch;

/// Occupancies of a switch, and which queues are given up.
#[derive(Debug, PartialEq)]
pub struct Occupancy {
    /// Bytes by class, then by egress port, whose owner writes them, then by ingress port: what a class has of an egress is together, in
    /// lines that it has for itself.
    between: [Box<[Line]>; CLASSES],
    queues: Box<[OfPort]>,
}

/// Cells of a cache line.
#[derive(Debug, Default, PartialEq)]
#[repr(align(64))]
struct Line([Counter; LINE]);

const LINE: usize = 8;
const _: () = assert!(size_of::<Line>() == 64);

/// Of one port, in cache lines that no other worker writes.
#[derive(Debug, Default, PartialEq)]
#[repr(align(64))]
struct OfPort([Queue; CLASSES]);

/// Of one class at one port, whose owner writes it.
#[derive(Debug, Default, PartialEq)]
pub struct Queue {
    /// Bytes that wait or are committed.
    pub(crate) egress_bytes: Counter,
    /// Floods that came in here and have not left by all their ports: frames.
    pub flood_frames: Counter,
    /// Their bytes, each flood's once.
    pub flood_bytes: Counter,
    /// 1 while the watchdog drops whatever is for the queue.
    pub given_up: Counter,
}

impl Occupancy {
    /// Of a switch with so many ports: empty.
    pub(crate) fn new(ports: usize) -> Occupancy {
        Occupancy {
            between: [(); CLASSES]
                .map(|()| (0..ports * ports.div_ceil(LINE)).map(|_| Line::default()).collect()),
            queues: (0..ports).map(|_| Default::default()).collect(),
        }
    }

    /// Sets every cell to zero.
    pub(crate) fn clear(&self) {
        let between = self.between.iter().flatten().flat_map(|line| &line.0);
        let queues = self.queues.iter().flat_map(|port| &port.0);
        let queues = queues.flat_map(|queue| {
            [&queue.egress_bytes, &queue.flood_frames, &queue.flood_bytes, &queue.given_up]
        });
        between.chain(queues).for_each(|cell| cell.set(0));
    }

    /// Of one class at one port.
    #[inline]
    pub fn queue(&self, port: PortId, class: Class) -> &Queue {
        &self.queues[port.index()].0[class.index()]
    }

    /// Bytes of `class` that came in through `ingress` and wait or are committed at `egress`.
    #[inline]
    pub(crate) fn between(&self, ingress: PortId, egress: PortId, class: Class) -> &Counter {
        let line = egress.index() * self.lines() + ingress.index() / LINE;
        &self.between[class.index()][line].0[ingress.index() % LINE]
    }

    /// Bytes of `class` that wait or are committed at egress `port`.
    #[inline]
    pub fn egress(&self, port: PortId, class: Class) -> Bytes {
        Bytes(self.queue(port, class).egress_bytes.get())
    }

    /// How many lines each egress has, for all ingress ports.
    #[inline]
    fn lines(&self) -> usize {
        self.queues.len().div_ceil(LINE)
    }

    /// Prefetches what every frame of `class` changes at egress `port`: bytes that came in through the first sixteen ports.
    #[inline]
    pub(crate) fn prefetch(&self, port: PortId, class: Class) {
        let lines = self.lines();
        self.between[class.index()].iter().skip(port.index() * lines).take(lines.min(2)).for_each(prefetch);
        prefetch(self.queue(port, class));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_between_ports_are_kept_apart_and_cleared() {
        for ports in [1, 4, 8, 9, 255] {
            let occupancy = Occupancy::new(ports);
            let ids = || (0..=u8::MAX).map(PortId).take(ports);
            let pairs = || ids().flat_map(|ingress| ids().map(move |egress| (ingress, egress)));
            let all =
                || pairs().flat_map(|(ingress, egress)| Class::ALL.map(|class| (ingress, egress, class)));
            let between = |(ingress, egress, class)| occupancy.between(ingress, egress, class);
            (1..).zip(all()).for_each(|(number, at)| between(at).set(number));
            assert!((1..).zip(all()).all(|(number, at)| between(at).get() == number), "{ports} ports");
            occupancy.clear();
            assert!(all().all(|at| between(at).get() == 0), "{ports} ports");
        }
    }
}

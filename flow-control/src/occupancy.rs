//! Occupancies that all workers compare with thresholds. Only the worker that owns a port writes its values.

use xoff_wire::units::{Bytes, CLASSES, Class, PortId};

use crate::counter::Counter;
use crate::prefetch::prefetch;

/// Occupancies of queues, and flags of queues whose frames the watchdog drops.
#[derive(Debug, PartialEq)]
pub struct Occupancy {
    /// Bytes by class, egress port and ingress port. Each cache line belongs to one egress port, so that only one
    /// worker writes it.
    between: [Box<[Line]>; CLASSES],
    queues: Box<[PortQueues]>,
}

#[derive(Debug, Default, PartialEq)]
#[repr(align(64))]
struct Line([Counter; LINE]);

const LINE: usize = 8;
const _: () = assert!(size_of::<Line>() == 64);

#[derive(Debug, Default, PartialEq)]
#[repr(align(64))]
struct PortQueues([Queue; CLASSES]);

/// Occupancy counters of one class on one port.
#[derive(Debug, Default, PartialEq)]
pub struct Queue {
    pub(crate) egress_bytes: Counter,
    /// Flooded frames received here of which a copy is still unsent.
    pub flood_frames: Counter,
    /// Bytes of the frames in `flood_frames`, each frame counted once.
    pub flood_bytes: Counter,
    /// 1 while the watchdog drops the egress queue's frames.
    pub given_up: Counter,
}

impl Occupancy {
    pub(crate) fn new(ports: usize) -> Occupancy {
        Occupancy {
            between: [(); CLASSES]
                .map(|()| (0..ports * ports.div_ceil(LINE)).map(|_| Line::default()).collect()),
            queues: (0..ports).map(|_| Default::default()).collect(),
        }
    }

    pub(crate) fn clear(&self) {
        let between = self.between.iter().flatten().flat_map(|line| &line.0);
        let queues = self.queues.iter().flat_map(|port| &port.0);
        let queues = queues.flat_map(|queue| {
            [&queue.egress_bytes, &queue.flood_frames, &queue.flood_bytes, &queue.given_up]
        });
        between.chain(queues).for_each(|cell| cell.set(0));
    }

    /// Returns the occupancy counters of a class on a port.
    #[inline]
    pub fn queue(&self, port: PortId, class: Class) -> &Queue {
        &self.queues[port.index()].0[class.index()]
    }

    #[inline]
    pub(crate) fn between(&self, ingress: PortId, egress: PortId, class: Class) -> &Counter {
        let line = egress.index() * self.lines() + ingress.index() / LINE;
        &self.between[class.index()][line].0[ingress.index() % LINE]
    }

    /// Returns bytes of `class` at egress `port`, queued or in the driver.
    #[inline]
    pub fn egress(&self, port: PortId, class: Class) -> Bytes {
        Bytes(self.queue(port, class).egress_bytes.get())
    }

    #[inline]
    fn lines(&self) -> usize {
        self.queues.len().div_ceil(LINE)
    }

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
    fn each_pair_of_ports_has_its_own_occupancy() {
        for ports in [1, 4, 8, 9, 255] {
            let occupancy = Occupancy::new(ports);
            let ids = || (0..=u8::MAX).map(PortId).take(ports);
            let pairs = || ids().flat_map(|ingress| ids().map(move |egress| (ingress, egress)));
            let all =
                || pairs().flat_map(|(ingress, egress)| Class::ALL.map(|class| (ingress, egress, class)));
            let between = |(ingress, egress, class)| occupancy.between(ingress, egress, class);
            (1..).zip(all()).for_each(|(number, at)| between(at).set(number));
            assert!(
                (1..).zip(all()).all(|(number, at)| between(at).get() == number),
                "each pair of {ports} ports must have its own occupancy"
            );
            occupancy.clear();
            assert!(
                all().all(|at| between(at).get() == 0),
                "all occupancies of {ports} ports must be cleared"
            );
        }
    }
}

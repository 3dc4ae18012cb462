//! Egress of a port: eight queues, weighted round robin, and a line that sends at the port's speed.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::defects::{Defect, Defects};
use crate::frame::{CLASSES, Header};

/// Bytes of preamble, FCS and gap of a frame.
const OVERHEAD: u64 = 24;
const FRAME_MIN: u64 = 60;
/// Maximum delay of a poll, in nanoseconds, for which the line makes up by a burst.
const CATCH_UP_NS: u64 = 50_000;
const REORDER_INTERVAL: u64 = 100;
const SHORT: usize = 200;

/// Buffered frame, shared by all egress queues to which it is flooded.
#[derive(Debug)]
pub struct Packet {
    pub bytes: Vec<u8>,
    pub header: Header,
    pub ingress: usize,
    pub class: usize,
    /// Position among all frames that the switch admitted, from 1.
    pub number: u64,
}

#[derive(Clone, Debug)]
pub struct Line {
    speed_bps: u64,
    free_at: u64,
}

impl Line {
    #[must_use]
    pub const fn new(speed_bps: u64) -> Line {
        Line { speed_bps, free_at: 0 }
    }

    #[must_use]
    pub const fn is_free(&self, now: u64) -> bool {
        now >= self.free_at
    }

    /// Occupies the line for a frame of `len` bytes (without FCS).
    pub fn take(&mut self, len: u64, now: u64) {
        let start = self.free_at.max(now.saturating_sub(CATCH_UP_NS));
        self.free_at = start + (len.max(FRAME_MIN) + OVERHEAD) * 8 * 1_000_000_000 / self.speed_bps;
    }

    /// Records that no frame waits for the line, so that no burst makes up for idle time.
    pub fn idle(&mut self, now: u64) {
        self.free_at = self.free_at.max(now);
    }
}

#[derive(Debug)]
pub struct Egress {
    defects: Defects,
    weights: [u32; CLASSES],
    queues: [VecDeque<Rc<Packet>>; CLASSES],
    bytes: [u64; CLASSES],
    turn: usize,
    left: u32,
    queued: u64,
}

impl Egress {
    #[must_use]
    pub fn new(weights: [u32; CLASSES], defects: Defects) -> Egress {
        let queues = std::array::from_fn(|_| VecDeque::new());
        Egress { defects, weights, queues, bytes: [0; CLASSES], turn: 0, left: 0, queued: 0 }
    }

    #[must_use]
    pub const fn bytes(&self, class: usize) -> u64 {
        self.bytes[class]
    }

    pub fn push(&mut self, packet: Rc<Packet>) {
        let queue = &mut self.queues[packet.class];
        self.bytes[packet.class] += packet.bytes.len() as u64;
        self.queued += 1;
        if self.queued.is_multiple_of(REORDER_INTERVAL) && self.defects.has(Defect::Reorders) {
            let predecessor = queue.iter().rposition(|other| other.ingress == packet.ingress);
            queue.insert(predecessor.unwrap_or(queue.len()), packet);
        } else if self.defects.has(Defect::ShortOvertakes)
            && packet.bytes.len() < SHORT
            && queue.back().is_some_and(|last| last.bytes.len() >= SHORT)
        {
            queue.insert(queue.len() - 1, packet);
        } else {
            queue.push_back(packet);
        }
    }

    pub fn pop(&mut self, may_leave: impl Fn(&Packet) -> bool) -> Option<Rc<Packet>> {
        let len_min = if self.defects.has(Defect::LastOfBurst) { 2 } else { 1 };
        let is_ready = |queue: &VecDeque<Rc<Packet>>| {
            queue.len() >= len_min && queue.front().is_some_and(|packet| may_leave(packet))
        };
        let class = if self.defects.has(Defect::OneEgressQueue) {
            let oldest = (0..CLASSES).filter(|&class| !self.queues[class].is_empty());
            oldest
                .min_by_key(|&class| self.queues[class][0].number)
                .filter(|&class| is_ready(&self.queues[class]))
        } else if self.left > 0 && is_ready(&self.queues[self.turn]) {
            Some(self.turn)
        } else {
            (1..=CLASSES)
                .map(|step| (self.turn + step) % CLASSES)
                .find(|&class| is_ready(&self.queues[class]))
        }?;
        if class != self.turn || self.left == 0 {
            (self.turn, self.left) = (class, self.weights[class]);
        }
        self.left -= 1;
        let packet = self.queues[class].pop_front()?;
        self.bytes[class] -= packet.bytes.len() as u64;
        Some(packet)
    }

    pub fn flush(&mut self, class: usize) -> VecDeque<Rc<Packet>> {
        self.bytes[class] = 0;
        std::mem::take(&mut self.queues[class])
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::frame::tests::packet;

    fn egress(defects: &[Defect], classes: &[usize]) -> Egress {
        let mut egress = Egress::new([1, 1, 1, 2, 1, 1, 1, 1], defects.iter().copied().collect());
        for (number, &class) in classes.iter().enumerate() {
            let bytes = packet(1, 2, 0, None);
            let header = Header::parse(&bytes).unwrap();
            egress.push(Rc::new(Packet { bytes, header, ingress: 0, class, number: number as u64 }));
        }
        egress
    }

    fn order(egress: &mut Egress, paused: usize) -> Vec<(usize, u64)> {
        std::iter::from_fn(|| egress.pop(|packet| packet.class != paused))
            .map(|packet| (packet.class, packet.number))
            .collect()
    }

    #[test]
    fn reference_port_serves_classes_round_robin_by_weight() {
        let mut it = egress(&[], &[3, 3, 3, 5, 5, 0]);
        assert_eq!(order(&mut it, 8), [(3, 0), (3, 1), (5, 3), (0, 5), (3, 2), (5, 4)]);
    }

    #[test]
    fn frames_of_paused_class_stay_in_the_port_queue() {
        let mut it = egress(&[], &[3, 5, 3]);
        assert_eq!(order(&mut it, 3), [(5, 1)]);
        assert_eq!(it.bytes(3), 2 * 60);
        assert_eq!(order(&mut it, 8), [(3, 0), (3, 2)]);
        assert_eq!(order(&mut egress(&[Defect::OneEgressQueue], &[3, 5]), 3), []);
    }

    #[test]
    fn reference_port_sends_at_the_speed_of_its_line() {
        let mut line = Line::new(1_000_000_000);
        line.idle(1_000);
        line.take(1_514, 1_000);
        assert!(!line.is_free(1_000 + 12_303) && line.is_free(1_000 + 12_304));
        line.take(40, 20_000); // polled late: this frame follows the first without a gap
        assert!(line.is_free(1_000 + 12_304 + 672));
    }
}

use xoff_wire::units::Nanos;

use super::control::Algorithm;
use super::settings::TcpSettings;

/// Maximum number of SACK blocks in an acknowledgement with a timestamp.
const BLOCKS: usize = 3;
/// Number of segments acknowledged one by one after a first congestion mark, as in Linux.
const QUICK_AFTER_MARK: u32 = 2;

/// SACK blocks, the most recent first. Each has its first segment, and the segment after its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    all: [(u32, u32); BLOCKS],
    len: u8,
}

impl Blocks {
    /// Adds a block, unless there are already three.
    pub fn push(&mut self, block: (u32, u32)) {
        if let Some(free) = self.all.get_mut(usize::from(self.len)) {
            *free = block;
            self.len += 1;
        }
    }

    /// Returns whether the first block reports a segment received twice (RFC 2883): it begins below `next`, or is part
    /// of the second block.
    #[must_use]
    pub fn has_duplicate(&self, next: u32) -> bool {
        match self.as_slice() {
            [(from, to), rest @ ..] => {
                *from < next || rest.first().is_some_and(|around| around.0 <= *from && *to <= around.1)
            }
            [] => false,
        }
    }

    #[must_use]
    pub fn sorted(mut self) -> Blocks {
        self.all[..usize::from(self.len)].sort_unstable();
        self
    }

    #[must_use]
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.all[..usize::from(self.len)]
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Ack {
    /// First segment that has not arrived.
    pub next: u32,
    pub blocks: Blocks,
    /// True if the acknowledgement echoes a congestion mark (ECE).
    pub is_marked: bool,
    /// Timestamp of the first segment that this acknowledgement answers. RFC 7323 would echo an earlier one if that
    /// segment is out of order.
    pub echo: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Arrival {
    pub segment: u32,
    /// True if a switch marked the segment (CE).
    pub is_marked: bool,
    /// True if the sender reports a reduced window (CWR).
    pub is_reduced: bool,
    pub timestamp: u32,
}

#[derive(Clone, Debug)]
pub struct Receiver {
    expected: u32,
    /// Disjoint blocks of segments received after `expected`, the most recent last.
    blocks: Vec<(u32, u32)>,
    pending: u32,
    quick: u32,
    due: Nanos,
    echoes: bool,
    is_dctcp: bool,
    echo: u32,
}

impl Receiver {
    #[must_use]
    pub fn new(settings: &TcpSettings) -> Receiver {
        Receiver {
            expected: 0,
            blocks: Vec::new(),
            pending: 0,
            quick: settings.quick_acks,
            due: Nanos::NEVER,
            echoes: false,
            is_dctcp: settings.control == Algorithm::Dctcp,
            echo: 0,
        }
    }

    #[must_use]
    pub const fn expected(&self) -> u32 {
        self.expected
    }

    #[must_use]
    pub const fn deadline(&self) -> Nanos {
        self.due
    }

    /// Receives a segment. Returns whether it is new, and up to two acknowledgements.
    pub fn receive(
        &mut self,
        settings: &TcpSettings,
        now: Nanos,
        arrival: &Arrival,
    ) -> (bool, [Option<Ack>; 2]) {
        let first = self.note_mark(settings, arrival);
        if self.pending == 0 {
            self.echo = arrival.timestamp;
        }
        let is_new = !self.has(arrival.segment);
        let had_gap = !self.blocks.is_empty();
        if arrival.segment == self.expected {
            self.expected += 1;
            self.absorb();
        } else if is_new {
            self.insert(arrival.segment);
        }
        self.pending += 1;
        let is_in_order = is_new && !had_gap && self.blocks.is_empty();
        let is_due = !is_in_order || self.quick > 0 || self.pending >= settings.ack_every;
        self.quick = self.quick.saturating_sub(1);
        if is_due {
            let duplicate = (!is_new).then_some(arrival.segment);
            return (is_new, [first, Some(self.acknowledge(settings, duplicate))]);
        }
        if self.due == Nanos::NEVER {
            self.due = now.after(settings.ack_delay);
        }
        (is_new, [first, None])
    }

    pub fn expire(&mut self, settings: &TcpSettings, now: Nanos) -> Option<Ack> {
        (self.due <= now && self.pending > 0).then(|| self.acknowledge(settings, None))
    }

    /// Updates the echo of congestion marks. With DCTCP (RFC 8257 section 3.2), returns an acknowledgement of the
    /// earlier segments when marks begin or end.
    fn note_mark(&mut self, settings: &TcpSettings, arrival: &Arrival) -> Option<Ack> {
        if self.is_dctcp {
            let first = (arrival.is_marked != self.echoes && self.pending > 0)
                .then(|| self.acknowledge(settings, None));
            self.echoes = arrival.is_marked;
            return first;
        }
        if arrival.is_reduced {
            self.echoes = false;
        }
        if arrival.is_marked && !std::mem::replace(&mut self.echoes, true) {
            self.quick = self.quick.max(QUICK_AFTER_MARK);
        }
        None
    }

    fn acknowledge(&mut self, settings: &TcpSettings, duplicate: Option<u32>) -> Ack {
        (self.pending, self.due) = (0, Nanos::NEVER);
        let mut ack = Ack { next: self.expected, is_marked: self.echoes, echo: self.echo, ..Ack::default() };
        if settings.sack {
            if let Some(segment) = duplicate {
                ack.blocks.push((segment, segment + 1)); // RFC 2883
            }
            self.blocks.iter().rev().for_each(|block| ack.blocks.push(*block));
        }
        ack
    }

    fn has(&self, segment: u32) -> bool {
        segment < self.expected || self.blocks.iter().any(|(from, to)| (*from..*to).contains(&segment))
    }

    fn absorb(&mut self) {
        if let Some(at) = self.blocks.iter().position(|(from, _)| *from == self.expected) {
            self.expected = self.blocks.remove(at).1;
        }
    }

    fn insert(&mut self, segment: u32) {
        let (mut from, mut to) = (segment, segment + 1);
        self.blocks.retain(|block| {
            let touches = block.1 == segment || block.0 == segment + 1;
            if touches {
                (from, to) = (from.min(block.0), to.max(block.1));
            }
            !touches
        });
        self.blocks.push((from, to));
    }
}

// Tests for SPECIFICATION.md: tcp
#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(segment: u32) -> Arrival {
        Arrival { segment, timestamp: segment + 100, ..Arrival::default() }
    }

    fn settings() -> TcpSettings {
        TcpSettings { quick_acks: 1, ..TcpSettings::default() }
    }

    #[test]
    fn tcp_receiver_delays_acks_and_answers_gaps_at_once() {
        let settings = settings();
        let mut receiver = Receiver::new(&settings);
        let mut take = |segment| {
            let (is_new, acks) = receiver.receive(&settings, Nanos(7), &arrival(segment));
            (is_new, acks[1].map(|ack| (ack.next, ack.echo, ack.blocks.as_slice().to_vec())))
        };
        assert_eq!(take(0), (true, Some((1, 100, vec![]))), "quick");
        assert_eq!([take(1), take(2)], [(true, None), (true, Some((3, 101, vec![])))]);
        assert_eq!(take(5), (true, Some((3, 105, vec![(5, 6)]))));
        assert_eq!(take(9), (true, Some((3, 109, vec![(9, 10), (5, 6)]))));
        assert_eq!(take(4), (true, Some((3, 104, vec![(4, 6), (9, 10)]))));
        assert_eq!(take(5), (false, Some((3, 105, vec![(5, 6), (4, 6), (9, 10)]))), "duplicate block");
        assert_eq!(take(3), (true, Some((6, 103, vec![(9, 10)]))), "the segment fills a gap");
        assert_eq!(take(0), (false, Some((6, 100, vec![(0, 1), (9, 10)]))));
    }

    /// RFC 2883 section 4 (duplicate SACK).
    #[test]
    fn duplicate_segment_is_found_by_first_sack_block() {
        for (all, has_duplicate) in [
            (vec![], false),
            (vec![(12, 14), (20, 22)], false),
            (vec![(8, 9), (20, 22)], true),
            (vec![(21, 22), (20, 22)], true),
            (vec![(22, 23), (20, 22)], false),
        ] {
            let mut blocks = Blocks::default();
            all.iter().for_each(|block| blocks.push(*block));
            assert_eq!(blocks.has_duplicate(10), has_duplicate, "{all:?}");
        }
    }

    #[test]
    fn delayed_ack_is_sent_exactly_at_its_deadline() {
        let settings = settings();
        let mut receiver = Receiver::new(&settings);
        let [now, due] = [Nanos(5), Nanos(40_000_005)];
        (0..2).for_each(|segment| _ = receiver.receive(&settings, now, &arrival(segment)));
        assert_eq!((receiver.deadline(), receiver.expire(&settings, Nanos(due.0 - 1))), (due, None));
        assert_eq!(receiver.expire(&settings, due).map(|ack| ack.next), Some(2));
        assert_eq!((receiver.deadline(), receiver.expire(&settings, due)), (Nanos::NEVER, None));
    }

    /// The receiver repeats ECE until CWR (RFC 3168). With DCTCP, it acknowledges earlier segments at once when marks
    /// begin or end.
    #[test]
    fn ecn_echo_follows_rfc_3168_and_dctcp() {
        for (control, expected) in [
            (Algorithm::Cubic, vec![(1, false), (3, true), (4, true), (6, true), (8, false)]),
            (Algorithm::Dctcp, vec![(1, false), (2, false), (4, true), (6, false), (8, false)]),
        ] {
            let settings = TcpSettings { control, ..settings() };
            let mut receiver = Receiver::new(&settings);
            let mut acks = Vec::new();
            for segment in 0..8 {
                let (is_marked, is_reduced) = ([2, 3].contains(&segment), segment == 6);
                let arrival = Arrival { segment, is_marked, is_reduced, timestamp: 0 };
                acks.extend(receiver.receive(&settings, Nanos(1), &arrival).1.into_iter().flatten());
            }
            let acks: Vec<_> = acks.iter().map(|ack| (ack.next, ack.is_marked)).collect();
            assert_eq!(acks, expected, "{control:?}");
        }
    }
}

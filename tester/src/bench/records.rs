use xoff_host::Tracker;
use xoff_host::payload::span_48;
use xoff_wire::units::{Bytes, Class, Nanos, Quanta};
use xoff_wire::{MacControl, MacControlError, Tci};

use super::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamId(pub u8);

#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub when: Moment,
    pub stream: StreamId,
    pub sequence: u64,
    pub class: Class,
    pub tag: Option<Tci>,
    pub dscp: u8,
    /// ECN bits; 3: marked.
    pub ecn: u8,
    /// Length in bytes, without FCS.
    pub len: u32,
    pub is_intact: bool,
}

#[derive(Clone, Debug)]
pub struct ControlFrame {
    pub when: Moment,
    /// Bytes of the frame, without FCS.
    pub bytes: Vec<u8>,
    pub content: Result<MacControl, MacControlError>,
}

impl ControlFrame {
    /// Returns the pause time that a well-formed PFC frame gives to `class`.
    #[must_use]
    pub fn time(&self, class: Class) -> Option<Quanta> {
        match self.content {
            Ok(MacControl::Pfc(pfc)) if pfc.classes.contains(class) => Some(pfc.times[class.index()]),
            _ => None,
        }
    }

    /// Returns whether the frame can pause or resume a class.
    #[must_use]
    pub(super) fn is_valid(&self) -> bool {
        let Ok(MacControl::Pfc(pfc)) = self.content else { return false };
        let is_resuming = pfc.iter().all(|(_, time)| time == Quanta(0));
        let has_times = self.bytes[18..34].iter().any(|byte| *byte != 0);
        !pfc.classes.is_empty() && self.bytes[16] == 0 && !(is_resuming && has_times)
    }

    #[must_use]
    pub fn is_xoff(&self, class: Class) -> bool {
        self.time(class).is_some_and(|time| time != Quanta(0))
    }

    #[must_use]
    pub fn is_xon(&self, class: Class) -> bool {
        self.time(class) == Some(Quanta(0))
    }
}

/// Received frame that belongs to no stream of the current case.
#[derive(Clone, Debug)]
pub struct OtherFrame {
    pub when: Moment,
    pub bytes: Vec<u8>,
}

pub const OTHER_BYTES_MAX: usize = 1_514;

#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Received frames, duplicates included.
    pub frames: u64,
    /// Bytes on the line, with preambles and gaps.
    pub line_bytes: Bytes,
    pub tracker: Tracker,
    pub damaged: u64,
    pub first: Option<Moment>,
    pub last: Option<Moment>,
    pub delay_total: Nanos,
    /// Longest gap between arrivals that the device must have caused: the least possible time between two successive arrivals, minus the
    /// time between both transmissions. If a frame in between was lost, nothing is subtracted.
    pub longest_gap: Nanos,
    /// Sequence number and time of transmission of the last received frame.
    last_sent: (u64, Nanos),
}

impl Tally {
    #[must_use]
    pub fn lost(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.tracker.distinct())
    }

    pub(super) fn note(&mut self, arrival: &Arrival, sent_at: Nanos) {
        self.frames += 1;
        self.line_bytes += Bytes::on_line(arrival.len);
        self.tracker.record(arrival.sequence);
        self.damaged += u64::from(!arrival.is_intact);
        self.first.get_or_insert(arrival.when);
        if let Some(last) = self.last.replace(arrival.when) {
            let (sequence, before) = self.last_sent;
            let between =
                if arrival.sequence == sequence + 1 { span_48(sent_at, before) } else { Nanos::ZERO };
            self.longest_gap = self.longest_gap.max(arrival.when.at_least_since(last).since(between));
        }
        self.last_sent = (arrival.sequence, sent_at);
        self.delay_total += span_48(arrival.when.latest, sent_at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(sequence: u64, [earliest, latest]: [u64; 2]) -> Arrival {
        Arrival {
            when: Moment { earliest: Nanos(earliest), latest: Nanos(latest) },
            stream: StreamId(0),
            sequence,
            class: Class::default(),
            tag: None,
            dscp: 0,
            ecn: 0,
            len: 60,
            is_intact: true,
        }
    }

    fn longest_gap(frames: &[(u64, u64, [u64; 2])]) -> u64 {
        let mut tally = Tally::default();
        for &(sequence, sent_at, [earliest, latest]) in frames {
            tally.note(&arrival(sequence, [earliest, latest]), Nanos(sent_at));
        }
        tally.longest_gap.0
    }

    #[test]
    fn longest_frame_gap_excludes_uncertain_arrival_times() {
        let frames = [(0, 5, [10, 12]), (1, 5, [20, 25]), (2, 5, [40, 41]), (3, 5, [43, 60])];
        assert_eq!(longest_gap(&frames), 15, "from 25 to 40");
    }

    #[test]
    fn longest_frame_gap_excludes_stalls_of_the_sender() {
        let at = |time| [time; 2];
        assert_eq!(longest_gap(&[(0, 10, at(11)), (1, 90, at(92))]), 1, "sent 80 later, received 81 later");
        assert_eq!(longest_gap(&[(0, 10, at(11)), (1, 12, at(92))]), 79, "the device stalled");
        assert_eq!(longest_gap(&[(0, 10, at(11)), (2, 90, at(92))]), 81, "a frame in between was lost");
    }

    #[test]
    fn frame_delay_is_measured_beyond_48_bits_of_nanoseconds() {
        let time = (1 << 48) + 7;
        let arrival = |sent_at: u64| {
            let mut tally = Tally::default();
            tally.note(&arrival(0, [time, time]), Nanos(sent_at));
            tally.delay_total
        };
        assert_eq!([arrival(2), arrival((1 << 48) - 3)], [Nanos(5), Nanos(10)]);
    }
}

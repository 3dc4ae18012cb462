//! Streams of test frames: headers, pace, and the pattern that fills each frame.

use xoff_host::payload::{Headers, Stamp, Template};
use xoff_wire::Tci;
use xoff_wire::units::{BitRate, Bytes, Class, MacAddr, Nanos};

use super::records::{StreamId, Tally};
use crate::setup::Mark;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    pub from: usize,
    pub to: usize,
    pub class: Class,
    /// Mark that gives the frames their class; `None` takes the mark from the setup file.
    pub mark: Option<Mark>,
    /// Length of each frame in bytes, without FCS.
    pub size: u32,
    /// Rate on the line, with preambles and gaps.
    pub rate: BitRate,
    /// Number of frames; without it the stream does not end.
    pub count: Option<u64>,
    pub ecn: u8,
}

impl Flow {
    /// Creates an endless stream of 500-byte frames at 20 Mb/s.
    #[must_use]
    pub fn new(from: usize, to: usize, class: Class) -> Flow {
        let rate = BitRate::from_mbps(20);
        Flow { from, to, class, mark: None, size: 500, rate, count: None, ecn: 0 }
    }

    #[must_use]
    pub fn mark(self, mark: Mark) -> Flow {
        Flow { mark: Some(mark), ..self }
    }

    #[must_use]
    pub fn size(self, size: u32) -> Flow {
        Flow { size, ..self }
    }

    #[must_use]
    pub fn rate(self, rate: BitRate) -> Flow {
        Flow { rate, ..self }
    }

    #[must_use]
    pub fn count(self, count: u64) -> Flow {
        Flow { count: Some(count), ..self }
    }

    #[must_use]
    pub fn ecn(self, ecn: u8) -> Flow {
        Flow { ecn, ..self }
    }
}

/// Maximum lag that a stream recovers after a stall of the tester.
const CATCH_UP: Nanos = Nanos::from_millis(1);
/// Period of the payload pattern in bytes: a prime number, so that all bytes of a period differ.
const PERIOD: usize = 251;
const PATTERN_LEN: usize = 9_300 + PERIOD;

static PATTERN: [u8; PATTERN_LEN] = pattern();

const fn pattern() -> [u8; PATTERN_LEN] {
    let mut bytes = [0; PATTERN_LEN];
    let mut at = 0;
    while at < PATTERN_LEN {
        bytes[at] = ((at % PERIOD) * 7 % PERIOD).to_le_bytes()[0];
        at += 1;
    }
    bytes
}

fn filling(sequence: u64, len: usize) -> &'static [u8] {
    let start = usize::try_from(sequence % PERIOD as u64).unwrap_or(0);
    &PATTERN[start..(start + len).min(PATTERN_LEN)]
}

#[derive(Debug)]
pub(super) struct Stream {
    pub flow: Flow,
    pub tally: Tally,
    pub sent: u64,
    pub is_stopped: bool,
    epoch: u16,
    id: StreamId,
    template: Template,
    stamp_end: usize,
    interval: Nanos,
    pub due: Nanos,
}

impl Stream {
    pub(super) fn new(
        flow: Flow,
        id: StreamId,
        epoch: u16,
        now: Nanos,
        stations: [Station; 2],
        mark: Mark,
    ) -> Stream {
        let [from, to] = stations;
        let tag = match mark {
            Mark::Pcp(pcp) => Some(Tci(u16::from(pcp) << 13 | from.vlan.unwrap_or(0))),
            Mark::Dscp(_) | Mark::Untagged => from.vlan.map(Tci),
        };
        let template = Template::new(&Headers {
            dst: to.mac,
            via: None,
            src: from.mac,
            tag,
            cn_tag: None,
            dscp: if let Mark::Dscp(dscp) = mark { dscp } else { 0 },
            ecn: flow.ecn,
            source_port: 49_152 + u16::from(id.0),
            destination_port: 9,
        });
        let stamp_end = template.len_min(false);
        let flow = Flow { size: flow.size.max(u32::try_from(stamp_end).unwrap_or(0)), ..flow };
        let interval = flow.rate.time_of(Bytes::on_line(flow.size));
        Stream {
            flow,
            tally: Tally::default(),
            sent: 0,
            is_stopped: false,
            epoch,
            id,
            template,
            stamp_end,
            interval,
            due: now,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_stopped || self.flow.count.is_some_and(|count| self.sent >= count)
    }

    pub(super) fn write(&mut self, now: Nanos, frame: &mut [u8]) {
        let (size, sequence) = (self.flow.size as usize, self.sent);
        let stamp = Stamp {
            sender: self.epoch,
            stream: self.id.0,
            class: self.flow.class,
            end: false,
            sequence,
            sent: now,
            flow: None,
        };
        self.template.write(frame, size, &stamp);
        let rest = &mut frame[self.stamp_end..];
        let len = rest.len().min(size - self.stamp_end);
        rest[..len].copy_from_slice(&filling(sequence, len)[..len]);
        self.sent += 1;
        self.due = Nanos(self.due.0.max(now.0.saturating_sub(CATCH_UP.0))).after(self.interval);
    }
}

/// Returns true if the bytes after the stamp equal the pattern of frame `sequence`.
pub(super) fn is_intact(sequence: u64, stamp_end: usize, bytes: &[u8]) -> bool {
    let rest = bytes.get(stamp_end..).unwrap_or_default();
    let expected = filling(sequence, rest.len());
    rest == &expected[..expected.len().min(rest.len())]
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Station {
    pub mac: MacAddr,
    pub vlan: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_payload_byte_is_detected() {
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        let stations = [1, 2].map(|last| Station { mac: mac(last), vlan: None });
        let flow = Flow::new(0, 1, Class::ALL[3]).size(300);
        let mut stream = Stream::new(flow, StreamId(0), 1, Nanos(5), stations, Mark::Dscp(24));
        let mut frame = [0; 300];
        stream.write(Nanos(5), &mut frame);
        stream.write(Nanos(5), &mut frame);
        assert!(is_intact(1, 60, &frame));
        assert!(!is_intact(0, 60, &frame), "the pattern does not depend on the sequence number");
        frame[299] ^= 1;
        assert!(!is_intact(1, 60, &frame));
    }
}

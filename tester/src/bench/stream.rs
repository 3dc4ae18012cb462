use xoff_host::payload::{HEAD_MAX, Headers, STAMP_LEN, Stamp, Template};
use xoff_host::tcp::wire::checksum;
use xoff_wire::units::{BitRate, Bytes, Class, MacAddr, Nanos};
use xoff_wire::{Header, Tci};

use super::records::{StreamId, Tally};
use crate::setup::Mark;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    pub from: usize,
    pub to: usize,
    pub class: Class,
    /// PCP or DSCP of the frames, or untagged; `None`: the mark to which the setup file's maps give `class`.
    pub mark: Option<Mark>,
    /// Length of each frame in bytes, without FCS.
    pub size: u32,
    /// Length of every second frame, if another.
    pub second: Option<u32>,
    /// Rate on the line, with preambles and gaps.
    pub rate: BitRate,
    /// Number of frames; `None`: the stream does not end.
    pub count: Option<u64>,
    pub ecn: u8,
    /// UDP port of a [socket of this machine](super::Bench::host_socket) to which the frames go.
    pub socket: Option<u16>,
}

impl Flow {
    /// Creates an endless stream of 500-byte frames at 20 Mb/s.
    #[must_use]
    pub fn new(from: usize, to: usize, class: Class) -> Flow {
        let rate = BitRate::from_mbps(20);
        Flow { from, to, class, mark: None, size: 500, second: None, rate, count: None, ecn: 0, socket: None }
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
    pub fn second(self, size: u32) -> Flow {
        Flow { second: Some(size), ..self }
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

    #[must_use]
    pub fn to_socket(self, udp_port: u16) -> Flow {
        Flow { socket: Some(udp_port), ..self }
    }
}

const DISCARD: u16 = 9;
const IPV4_LEN: usize = 20;
const UDP_LEN: usize = 8;
/// Longest delay that a stream catches up after a stall of the tester.
const CATCH_UP: Nanos = Nanos::from_millis(1);
/// Period of the payload pattern in bytes. The bytes are multiples of 7 modulo this prime number, so they differ within a period.
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

/// Source address, TTL, IPv4 addresses and UDP ports.
pub(super) type Endpoints = [u8; 19];

pub(super) fn endpoints(header: &Header, head: &[u8]) -> Option<Endpoints> {
    let ip = header.payload(head);
    let mut endpoints = [0; 19];
    endpoints[..6].copy_from_slice(&header.src.0);
    endpoints[6] = *ip.get(8)?;
    endpoints[7..].copy_from_slice(ip.get(12..IPV4_LEN + 4)?);
    Some(endpoints)
}

#[derive(Debug)]
pub(super) struct Stream {
    pub flow: Flow,
    pub tally: Tally,
    pub sent: u64,
    pub is_stopped: bool,
    pub endpoints: Option<Endpoints>,
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
            destination_port: flow.socket.unwrap_or(DISCARD),
        });
        let stamp_end = template.len_min(false);
        let fit = |size: u32| size.max(u32::try_from(stamp_end).unwrap_or(0));
        let flow = Flow { size: fit(flow.size), second: flow.second.map(fit), ..flow };
        let interval = flow.rate.time_of(Bytes::on_line(flow.size));
        let mut stream = Stream {
            flow,
            tally: Tally::default(),
            sent: 0,
            is_stopped: false,
            endpoints: None,
            epoch,
            id,
            template,
            stamp_end,
            interval,
            due: now,
        };
        let mut head = [0; HEAD_MAX];
        stream.template.write(&mut head, stamp_end, &stream.stamp(now));
        stream.endpoints = Header::parse(&head).ok().and_then(|header| endpoints(&header, &head));
        stream
    }

    fn stamp(&self, now: Nanos) -> Stamp {
        let (sender, stream, class, sequence) = (self.epoch, self.id.0, self.flow.class, self.sent);
        Stamp { sender, stream, class, end: false, sequence, sent: now, flow: None }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_stopped || self.flow.count.is_some_and(|count| self.sent >= count)
    }

    pub(super) fn next_size(&self) -> u32 {
        self.flow.second.filter(|_| self.sent % 2 == 1).unwrap_or(self.flow.size)
    }

    pub(super) fn write(&mut self, now: Nanos, frame: &mut [u8]) {
        let (size, sequence) = (self.next_size() as usize, self.sent);
        self.template.write(frame, size, &self.stamp(now));
        if self.flow.socket.is_some() {
            let udp = self.stamp_end - STAMP_LEN - UDP_LEN;
            broadcast(&mut frame[udp - IPV4_LEN..udp]);
        }
        let rest = &mut frame[self.stamp_end..];
        let len = rest.len().min(size - self.stamp_end);
        rest[..len].copy_from_slice(&filling(sequence, len)[..len]);
        self.sent += 1;
        self.due = Nanos(self.due.0.max(now.0.saturating_sub(CATCH_UP.0))).after(self.interval);
    }
}

/// Makes an IPv4 packet a limited broadcast, which every host accepts.
fn broadcast(ip: &mut [u8]) {
    ip[10..16].fill(0);
    ip[16..20].fill(0xff);
    let checksum = checksum(ip, 0);
    ip[10..12].copy_from_slice(&checksum);
}

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
    fn test_frame_with_changed_payload_byte_is_not_intact() {
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        let stations = [1, 2].map(|last| Station { mac: mac(last), vlan: None });
        let flow = Flow::new(0, 1, Class::ALL[3]).size(300);
        let mut stream = Stream::new(flow, StreamId(0), 1, Nanos(5), stations, Mark::Dscp(24));
        let mut frame = [0; 300];
        stream.write(Nanos(5), &mut frame);
        stream.write(Nanos(5), &mut frame);
        assert!(is_intact(1, 60, &frame));
        assert!(!is_intact(0, 60, &frame), "the payload pattern must depend on the sequence number");
        frame[299] ^= 1;
        assert!(!is_intact(1, 60, &frame));
        let of = |frame: &[u8]| endpoints(&Header::parse(frame).expect("a frame"), frame);
        assert_eq!(of(&frame), stream.endpoints);
        for at in [6, 22, 26, 30, 34, 36] {
            let mut changed = frame;
            changed[at] ^= 1;
            assert_ne!(of(&changed), stream.endpoints, "byte {at}");
        }
    }

    #[test]
    fn test_frame_to_socket_is_ip_broadcast_with_valid_checksum() {
        let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
        let stations = [1, 2].map(|last| Station { mac: mac(last), vlan: None });
        let flow = Flow::new(0, 1, Class::ALL[3]).to_socket(0x1234);
        let mut stream = Stream::new(flow, StreamId(0), 1, Nanos(5), stations, Mark::Dscp(24));
        let mut frame = [0; 500];
        stream.write(Nanos(5), &mut frame);
        assert_eq!(
            (&frame[..6], &frame[26..34]),
            (&[2, 0, 0, 0, 0, 2][..], &[0, 0, 0, 0, 255, 255, 255, 255][..])
        );
        assert_eq!(frame[36..38], [0x12, 0x34]);
        let words =
            frame[14..34].chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }
}

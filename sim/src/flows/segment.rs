//! Layout of the frames of flows that do not use TCP. They have RoCEv2's UDP port and header length, so that switches treat
//! them as RDMA.
//!
//! ```text
//!   0         14      34     42     43        46       50         54      62
//!   | Ethernet | IPv4 | UDP  | kind | (zero)  | number | sequence | sent  | payload
//! ```
//!
//! `number` identifies the flow at the destination. An acknowledgement repeats the time `sent` of its data frame.

use xoff_host::tcp::wire::{HEADER_MAX, TcpHeader, checksum};
use xoff_wire::Cnm;
use xoff_wire::flow::mix;
use xoff_wire::units::{Class, MacAddr};

use crate::host::{address, ip};
use crate::time::Picos;

const HEAD: usize = 62;
const ACK_LEN: u32 = 62;
const CNP_LEN: u32 = 74;
const UDP_PORT: u16 = 4791;
const IP: usize = 34;
pub(super) const UDP: u8 = 17;
pub(super) const TCP: u8 = 6;
const CONGESTED: u8 = 0b11;
const CAPABLE: u8 = 0b10;

/// Kind of a frame. Values are RoCEv2's opcodes, except the NAK's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Data = 0x01,
    Ack = 0x11,
    Nak = 0x12,
    Cnp = 0x81,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Data, Kind::Ack, Kind::Nak, Kind::Cnp];

    pub(super) const fn reply_len(self) -> u32 {
        match self {
            Kind::Cnp => CNP_LEN,
            Kind::Data | Kind::Ack | Kind::Nak => ACK_LEN,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) kind: Kind,
    pub(super) number: u32,
    pub(super) sequence: u32,
    pub(super) sent: Picos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) via: Option<MacAddr>,
    pub(super) class: Class,
    pub(super) port: u16,
    pub(super) is_ecn_capable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Roce(Segment),
    Tcp(TcpHeader),
}

pub(super) const fn port(flow: u32) -> u16 {
    #[allow(clippy::cast_possible_truncation)] // some bits of the hash suffice
    let bits = mix(flow as u64) as u16;
    0xc000 | bits >> 2
}

#[inline]
pub(super) fn link_of((from, to): (u32, u32), port: u16, links: usize) -> usize {
    if links == 1 {
        return 0;
    }
    let hash = mix(mix(u64::from(from) << 32 | u64::from(to)) ^ u64::from(port));
    #[allow(clippy::cast_possible_truncation)] // a host has at most 255 links
    let link = (hash % links as u64) as usize;
    link
}

impl Envelope {
    #[inline]
    fn encode(&self, protocol: u8, identification: [u8; 2], len: u32) -> [u8; IP] {
        let &Envelope { from, to, via, class, is_ecn_capable, .. } = self;
        let mut head = [0; IP];
        head[..6].copy_from_slice(&via.unwrap_or(address(to)).0);
        head[6..12].copy_from_slice(&address(from).0);
        let mark = if is_ecn_capable { CAPABLE } else { 0 };
        let [high, low] = half(len - 14);
        let [a, b] = identification;
        head[12..24].copy_from_slice(&[
            8,
            0,
            0x45,
            class.get() << 5 | mark,
            high,
            low,
            a,
            b,
            0x40,
            0,
            64,
            protocol,
        ]);
        head[26..30].copy_from_slice(&ip(from));
        head[30..34].copy_from_slice(&ip(to));
        let sum = checksum(&head[14..34], 0);
        head[24..26].copy_from_slice(&sum);
        head
    }

    pub(super) fn encode_tcp(&self, header: &TcpHeader, len: u32) -> ([u8; IP + HEADER_MAX], usize) {
        let mut head = [0; IP + HEADER_MAX];
        head[..IP].copy_from_slice(&self.encode(TCP, header.identification(), len));
        let payload = len.saturating_sub(tcp_len(header));
        let (bytes, tcp) = header.encode([ip(self.from), ip(self.to)], payload);
        head[IP..].copy_from_slice(&bytes);
        (head, IP + tcp)
    }
}

pub(super) fn tcp_len(header: &TcpHeader) -> u32 {
    u32::try_from(IP + header.header_len()).unwrap_or(u32::MAX)
}

#[inline]
pub(super) fn parse_tcp(head: &[u8]) -> Option<(TcpHeader, bool)> {
    let header = TcpHeader::parse(head.get(IP..)?, [head[18], head[19]])?;
    Some((header, head[15] & CONGESTED == CONGESTED))
}

impl Segment {
    pub(super) fn encode(&self, envelope: &Envelope, len: u32) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..IP].copy_from_slice(&envelope.encode(UDP, [0; 2], len));
        head[34..36].copy_from_slice(&envelope.port.to_be_bytes());
        head[36..38].copy_from_slice(&UDP_PORT.to_be_bytes());
        head[38..40].copy_from_slice(&half(len - 34));
        head[42] = self.kind as u8;
        head[46..50].copy_from_slice(&self.number.to_be_bytes());
        head[50..54].copy_from_slice(&self.sequence.to_be_bytes());
        head[54..].copy_from_slice(&self.sent.0.to_be_bytes());
        head
    }

    #[inline]
    pub(super) fn class(head: &[u8]) -> Class {
        Class::ALL[usize::from(head[15] >> 5)]
    }

    #[inline]
    pub(super) fn parse(head: &[u8]) -> Option<(Segment, bool)> {
        let head = head.get(..HEAD)?;
        let word = |at: usize| head[at..at + 4].try_into().map(u32::from_be_bytes).ok();
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == head[42])?;
        let sent = head[54..].try_into().map(u64::from_be_bytes).ok()?;
        let segment = Segment { kind, number: word(46)?, sequence: word(50)?, sent: Picos(sent) };
        Some((segment, head[15] & CONGESTED == CONGESTED))
    }
}

pub(super) fn about(cnm: &Cnm) -> Option<(u32, u32)> {
    // Subtract 12 from the frame's offsets: the CNM quotes the frame from its EtherType on.
    let quoted = |at: usize, len: usize| cnm.msdu.as_bytes().get(at - 12..at - 12 + len);
    let word = |at: usize| quoted(at, 4)?.try_into().map(u32::from_be_bytes).ok();
    let to = word(30)?.checked_sub(u32::from_be_bytes(ip(0)))?;
    if quoted(23, 1)? == [TCP] {
        let [[a, b], [c, d]] = [18, 52].map(|at| quoted(at, 2).map_or([0; 2], |half| [half[0], half[1]]));
        return Some((to, u32::from_be_bytes([a, b, c, d])));
    }
    (quoted(42, 1)? == [Kind::Data as u8]).then_some((to, word(46)?))
}

fn half(number: u32) -> [u8; 2] {
    u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::frames::{PAYLOAD_MAX, frame_len};
    use super::*;
    use xoff_wire::ip::{Address, Packet};
    use xoff_wire::units::Class;
    use xoff_wire::{FlowKey, Header, ecn};

    #[test]
    fn segment_decodes_unchanged_and_switch_parses_its_flow_key() {
        let envelope =
            Envelope { from: 1, to: 2, via: None, class: Class::ALL[3], port: port(7), is_ecn_capable: true };
        for kind in Kind::ALL {
            let segment = Segment { kind, number: 70_000, sequence: u32::MAX - 1, sent: Picos(1 << 60) };
            let mut head = segment.encode(&envelope, frame_len(PAYLOAD_MAX));
            assert_eq!(Segment::parse(&head), Some((segment, false)));
            assert_eq!(Segment::class(&head), envelope.class);
            let header = Header::parse(&head).expect("the first bytes must be a valid frame's");
            assert_eq!((header.src, header.dst, header.dscp), (address(1), address(2), Some(24)));
            let key = FlowKey::of(&header, &head);
            let ports = [port(7), 4791];
            assert_eq!(key, FlowKey::V4 { protocol: 17, ports, src: [10, 0, 0, 2], dst: [10, 0, 0, 3] });
            assert!(ecn::mark(&mut head, &header));
            assert_eq!(Segment::parse(&head), Some((segment, true)));
        }
    }

    #[test] // proves: sim-fabrics
    fn routed_frame_has_router_mac_and_receiver_ip() {
        let router = MacAddr([2, 2, 0, 0, 0, 1]);
        for (to, class) in [(0, 0), (2, 3), (70_000, 7)] {
            let (class, via) = (Class::ALL[class], Some(router));
            let envelope = Envelope { from: 1, to, via, class, port: port(7), is_ecn_capable: true };
            let segment = Segment { kind: Kind::Data, number: 0, sequence: 9, sent: Picos(1) };
            let head = segment.encode(&envelope, frame_len(PAYLOAD_MAX));
            let header = Header::parse(&head).expect("the first bytes must be a valid frame's");
            assert_eq!((header.src, header.dst), (address(1), router));
            let packet = Packet::read(header.ether_type, header.payload(&head), 1_500);
            let packet = packet.expect("IPv4").expect("a router must forward the packet");
            let [src, dst] = [1, to].map(|host| Address::V4(u32::from_be_bytes(ip(host))));
            assert_eq!((packet.src, packet.dst, packet.len, packet.hops_left), (src, dst, 1_500, 64));
        }
    }
}

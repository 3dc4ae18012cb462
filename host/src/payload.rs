//! Content of a data frame: Ethernet (with VLAN tag and CN-TAG if configured), IPv4, and UDP with a [`Stamp`].
//!
//! Bytes behind the stamp are arbitrary. The stamp is big-endian and fits into a 64-byte frame:
//!
//! | offset | field |
//! |---|---|
//! | 0-1 | magic 0x786F |
//! | 2-3 | sender |
//! | 4 | stream |
//! | 5 | bit 7: end marker, bit 6: a flow stamp follows, bits 2:0: class |
//! | 6-11 | sequence number from 0; in an end marker: number of data frames |
//! | 12-17 | time of sending, low 48 bits of the monotonic clock in nanoseconds; in an end marker: that of the first frame |
//! | 18-21 | flow number |
//! | 22-25 | bytes of the flow |
//! | 26-29 | frames of the flow |
//! | 30-35 | time at which the flow began |

use std::net::Ipv4Addr;

use pnet_packet::ethernet::{EtherTypes, MutableEthernetPacket};
use pnet_packet::ip::IpNextHeaderProtocols;
use pnet_packet::ipv4::{Ipv4Packet, MutableIpv4Packet};
use pnet_packet::udp::MutableUdpPacket;
use pnet_packet::vlan::{ClassOfService, MutableVlanPacket};
use xoff_wire::units::{Class, MacAddr, Nanos};
use xoff_wire::{CnTag, FlowKey, Header, Tci, cn_tag};

use crate::tcp::wire::checksum;

pub const STAMP_LEN: usize = 18;
pub const FLOW_STAMP_LEN: usize = 18;
/// Maximum number of bytes that [`Template::write`] writes.
pub const HEAD_MAX: usize = ETHERNET + 2 * TAG + IPV4 + UDP + STAMP_LEN + FLOW_STAMP_LEN;
const MASK_48: u64 = (1 << 48) - 1;

const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4: usize = 20;
const UDP: usize = 8;
const MAGIC: u16 = 0x786F;
const FLAG_END: u8 = 0x80;
const FLAG_FLOW: u8 = 0x40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// MAC address of the destination host, from which its IPv4 address is derived.
    pub dst: MacAddr,
    pub via: Option<MacAddr>,
    pub src: MacAddr,
    pub tag: Option<Tci>,
    pub cn_tag: Option<CnTag>,
    pub dscp: u8,
    /// ECN bits: 0 is not capable, 1 is ECT(1), 2 is ECT(0), 3 is marked.
    pub ecn: u8,
    pub source_port: u16,
    pub destination_port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub sender: u16,
    pub stream: u8,
    pub class: Class,
    pub end: bool,
    /// Index of the frame in its stream (48 bits); in an end marker, how many data frames were sent.
    pub sequence: u64,
    /// Time of sending, 48 bits, in nanoseconds; in an end marker, the time of the first frame.
    pub sent: Nanos,
    pub flow: Option<FlowStamp>,
}

/// Flow of a stamped frame: a message whose completion time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStamp {
    pub id: u32,
    /// Bytes of UDP payload in all frames of the flow together.
    pub bytes: u32,
    pub frames: u32,
    /// Time from which on the flow could be sent, 48 bits, in nanoseconds.
    pub began: Nanos,
}

/// Returns the time from `then` (48 bits) to `now`; zero if another machine's clock makes `then` later.
#[must_use]
pub const fn span_48(now: Nanos, then: Nanos) -> Nanos {
    let span = now.0.wrapping_sub(then.0) & MASK_48;
    if span > MASK_48 / 2 { Nanos(0) } else { Nanos(span) }
}

#[derive(Clone, Debug)]
pub struct Template {
    head: [u8; HEAD_MAX],
    ip_at: usize,
    stamp_at: usize,
    /// Sum of the 16-bit words of the IP header, without the total length.
    ip_sum: u32,
}

impl Template {
    #[must_use]
    pub fn new(headers: &Headers) -> Template {
        let tags = usize::from(headers.tag.is_some()) + usize::from(headers.cn_tag.is_some());
        let ip_at = ETHERNET + tags * TAG;
        let stamp_at = ip_at + IPV4 + UDP;
        let mut head = [0; HEAD_MAX];
        write_ethernet(&mut head, headers);
        write_ip_udp(&mut head[ip_at..], headers);
        let ip_sum = head[ip_at..ip_at + IPV4]
            .chunks_exact(2)
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
            .sum();
        Template { head, ip_at, stamp_at, ip_sum }
    }

    #[must_use]
    pub fn len_min(&self, with_flow: bool) -> usize {
        self.stamp_at + STAMP_LEN + if with_flow { FLOW_STAMP_LEN } else { 0 }
    }

    /// Returns the UDP payload, in bytes, of a frame of `frame_len` bytes (without FCS).
    #[must_use]
    pub fn payload_of(&self, frame_len: usize) -> usize {
        frame_len.saturating_sub(self.stamp_at)
    }

    #[must_use]
    pub fn flow(&self) -> FlowKey {
        let header = Header::parse(&self.head).expect("the prepared header must be valid");
        FlowKey::of(&header, &self.head)
    }

    /// Writes headers and stamp of a frame. `frame_len` is without FCS, and at least [`Template::len_min`].
    #[inline]
    pub fn write(&self, frame: &mut [u8], frame_len: usize, stamp: &Stamp) {
        frame[..self.stamp_at].copy_from_slice(&self.head[..self.stamp_at]);
        self.write_lengths(frame, frame_len);
        write_stamp(&mut frame[self.stamp_at..], stamp);
    }

    /// Writes a frame as [`Template::write`] does, but with the UDP source port `source_port`.
    #[inline]
    pub fn write_from_port(&self, frame: &mut [u8], frame_len: usize, stamp: &Stamp, source_port: u16) {
        self.write(frame, frame_len, stamp);
        let udp = self.ip_at + IPV4;
        frame[udp..udp + 2].copy_from_slice(&source_port.to_be_bytes());
    }

    #[inline]
    fn write_lengths(&self, frame: &mut [u8], frame_len: usize) {
        let total = u16::try_from(frame_len - self.ip_at).unwrap_or(u16::MAX);
        let mut sum = self.ip_sum + u32::from(total);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        let checksum = !u16::try_from(sum).unwrap_or(u16::MAX);
        let (ip, udp) = (self.ip_at, self.ip_at + IPV4);
        frame[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
        frame[ip + 10..ip + 12].copy_from_slice(&checksum.to_be_bytes());
        frame[udp + 4..udp + 6].copy_from_slice(&(total - 20).to_be_bytes());
    }
}

fn write_ethernet(head: &mut [u8], headers: &Headers) {
    let mut ethernet =
        MutableEthernetPacket::new(head).expect("the frame must have room for an Ethernet header");
    ethernet.set_destination(headers.via.unwrap_or(headers.dst).0.into());
    ethernet.set_source(headers.src.0.into());
    let inner = if headers.cn_tag.is_some() { cn_tag::CN_TAG } else { EtherTypes::Ipv4 };
    let mut at = ETHERNET;
    if let Some(tag) = headers.tag {
        ethernet.set_ethertype(EtherTypes::Vlan);
        let mut vlan = MutableVlanPacket::new(&mut head[at..]).expect("the frame must have room for a tag");
        vlan.set_priority_code_point(ClassOfService::new(tag.pcp().get()));
        vlan.set_vlan_identifier(tag.vid());
        vlan.set_ethertype(inner);
        at += TAG;
    } else {
        ethernet.set_ethertype(inner);
    }
    if let Some(cn_tag) = headers.cn_tag {
        head[at..at + 2].copy_from_slice(&cn_tag.0.to_be_bytes());
        head[at + 2..at + TAG].copy_from_slice(&EtherTypes::Ipv4.0.to_be_bytes());
    }
}

/// Derives a host's IPv4 address from its MAC address: the byte 10, then the last three bytes.
#[must_use]
pub const fn ip_address(mac: MacAddr) -> Ipv4Addr {
    Ipv4Addr::new(10, mac.0[3], mac.0[4], mac.0[5])
}

fn write_ip_udp(head: &mut [u8], headers: &Headers) {
    let mut ip = MutableIpv4Packet::new(head).expect("the frame must have room for an IPv4 header");
    ip.set_version(4);
    ip.set_header_length(5);
    ip.set_dscp(headers.dscp);
    ip.set_ecn(headers.ecn);
    ip.set_ttl(64);
    ip.set_next_level_protocol(IpNextHeaderProtocols::Udp);
    ip.set_source(ip_address(headers.src));
    ip.set_destination(ip_address(headers.dst));
    let mut udp =
        MutableUdpPacket::new(&mut head[IPV4..]).expect("the frame must have room for a UDP header");
    udp.set_source(headers.source_port);
    udp.set_destination(headers.destination_port);
}

#[inline]
fn write_stamp(at: &mut [u8], stamp: &Stamp) {
    let end = if stamp.end { FLAG_END } else { 0 };
    let flow = if stamp.flow.is_some() { FLAG_FLOW } else { 0 };
    at[0..2].copy_from_slice(&MAGIC.to_be_bytes());
    at[2..4].copy_from_slice(&stamp.sender.to_be_bytes());
    at[4] = stamp.stream;
    at[5] = end | flow | stamp.class.get();
    at[6..12].copy_from_slice(&stamp.sequence.to_be_bytes()[2..]);
    at[12..18].copy_from_slice(&stamp.sent.0.to_be_bytes()[2..]);
    if let Some(flow) = &stamp.flow {
        at[18..22].copy_from_slice(&flow.id.to_be_bytes());
        at[22..26].copy_from_slice(&flow.bytes.to_be_bytes());
        at[26..30].copy_from_slice(&flow.frames.to_be_bytes());
        at[30..36].copy_from_slice(&flow.began.0.to_be_bytes()[2..]);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub stamp: Stamp,
    pub dst: MacAddr,
    pub tag: Option<Tci>,
    pub dscp: u8,
    pub ecn: u8,
    pub payload: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    Data(Arrival),
    /// Data frame with a wrong length or IPv4 checksum.
    Corrupt,
    Other,
}

/// Parses a frame of `frame_len` bytes (without FCS) from its first [`HEAD_MAX`] bytes, `head`.
#[inline]
#[must_use]
pub fn parse(header: &Header, head: &[u8], frame_len: usize) -> Parsed {
    parse_ip(header, head, frame_len).unwrap_or(Parsed::Other)
}

#[inline]
fn parse_ip(header: &Header, head: &[u8], frame_len: usize) -> Option<Parsed> {
    if header.ether_type != EtherTypes::Ipv4 {
        return None;
    }
    let payload = header.payload(head);
    let ip = Ipv4Packet::new(payload)?;
    if ip.get_header_length() != 5 || ip.get_next_level_protocol() != IpNextHeaderProtocols::Udp {
        return None;
    }
    let stamp = read_stamp(payload.get(IPV4 + UDP..)?)?;
    let ip_at = usize::from(header.l3);
    let is_changed = checksum(&payload[..IPV4], 0) != [0, 0];
    if ip_at + usize::from(ip.get_total_length()) != frame_len || is_changed {
        return Some(Parsed::Corrupt);
    }
    Some(Parsed::Data(Arrival {
        stamp,
        dst: header.dst,
        tag: header.tag,
        dscp: ip.get_dscp(),
        ecn: ip.get_ecn(),
        payload: frame_len - ip_at - IPV4 - UDP,
    }))
}

#[inline]
#[must_use]
pub fn read_stamp(at: &[u8]) -> Option<Stamp> {
    let stamp: &[u8; STAMP_LEN] = at.first_chunk()?;
    if stamp[..2] != MAGIC.to_be_bytes() {
        return None;
    }
    let flow = if stamp[5] & FLAG_FLOW == 0 { None } else { Some(read_flow(at.get(STAMP_LEN..)?)?) };
    Some(Stamp {
        sender: u16::from_be_bytes([stamp[2], stamp[3]]),
        stream: stamp[4],
        class: Class::from_low_bits(stamp[5]),
        end: stamp[5] & FLAG_END != 0,
        sequence: read_48(&stamp[6..12]),
        sent: Nanos(read_48(&stamp[12..18])),
        flow,
    })
}

#[inline]
fn read_flow(at: &[u8]) -> Option<FlowStamp> {
    let word = |n: usize| Some(u32::from_be_bytes(*at.get(n..)?.first_chunk()?));
    Some(FlowStamp {
        id: word(0)?,
        bytes: word(4)?,
        frames: word(8)?,
        began: Nanos(read_48(at.get(12..18)?)),
    })
}

#[inline]
fn read_48(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use xoff_explore::explore;

    fn headers() -> impl Strategy<Value = Headers> {
        let tag = prop::option::of(any::<u16>().prop_map(|tci| Tci(tci & 0xefff)));
        let cn_tag = prop::option::of(any::<u16>().prop_map(CnTag));
        let mac = || any::<[u8; 6]>().prop_map(MacAddr);
        let addresses = (mac(), prop::option::of(mac()), mac());
        (addresses, tag, cn_tag, (0..64_u8, 0..4_u8), any::<u16>(), any::<u16>()).prop_map(
            |((dst, via, src), tag, cn_tag, (dscp, ecn), source_port, destination_port)| Headers {
                dst,
                via,
                src,
                tag,
                cn_tag,
                dscp,
                ecn,
                source_port,
                destination_port,
            },
        )
    }

    fn stamps() -> impl Strategy<Value = Stamp> {
        let time = (0..=MASK_48).prop_map(Nanos);
        let flow = (any::<u32>(), any::<u32>(), any::<u32>(), time.clone())
            .prop_map(|(id, bytes, frames, began)| FlowStamp { id, bytes, frames, began });
        (any::<u16>(), any::<u8>(), 0..8_u8, any::<bool>(), 0..=MASK_48, time, prop::option::of(flow))
            .prop_map(|(sender, stream, class, end, sequence, sent, flow)| Stamp {
                sender,
                stream,
                class: Class::new(class).unwrap(),
                end,
                sequence,
                sent,
                flow,
            })
    }

    fn build(headers: &Headers, stamp: &Stamp, frame_len: usize) -> Vec<u8> {
        let template = Template::new(headers);
        let mut frame = vec![0xa5; frame_len];
        template.write(&mut frame, frame_len, stamp);
        frame
    }

    fn parse(frame: &[u8], frame_len: usize) -> Parsed {
        Header::parse(frame).map_or(Parsed::Other, |header| super::parse(&header, frame, frame_len))
    }

    fn plain() -> (Headers, Stamp) {
        let headers = Headers {
            dst: MacAddr([2, 0, 0, 1, 2, 3]),
            via: None,
            src: MacAddr([2, 0, 0, 0, 0, 9]),
            tag: None,
            cn_tag: None,
            dscp: 24,
            ecn: 0,
            source_port: 49152,
            destination_port: 9,
        };
        let stamp = Stamp {
            sender: 9,
            stream: 0,
            class: Class::new(3).unwrap(),
            end: false,
            sequence: 0,
            sent: Nanos(5),
            flow: None,
        };
        (headers, stamp)
    }

    explore! {
        #[test]
        fn parsed_data_frame_has_stamp_and_headers_as_written(headers in headers(), stamp in stamps(), extra in 0..9000_usize) {
            let frame_len = Template::new(&headers).len_min(stamp.flow.is_some()) + extra;
            let frame = build(&headers, &stamp, frame_len);
            let Parsed::Data(arrival) = parse(&frame[..frame_len.min(HEAD_MAX)], frame_len) else {
                panic!("the frame must be data");
            };
            prop_assert_eq!(arrival.stamp, stamp);
            prop_assert_eq!(Header::parse(&frame).unwrap().cn_tag, headers.cn_tag);
            let next = headers.via.unwrap_or(headers.dst);
            prop_assert_eq!((arrival.dst, arrival.tag, arrival.dscp), (next, headers.tag, headers.dscp));
            prop_assert_eq!(arrival.ecn, headers.ecn);
        }

        #[test]
        fn parsing_arbitrary_frames_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, bytes.len());
        }
    }

    #[test] // proves: traffic
    fn routed_frame_has_router_mac_and_destination_ip() {
        let (headers, stamp) = plain();
        let router = MacAddr([2, 0, 0, 7, 7, 7]);
        let direct = build(&headers, &stamp, 100);
        let routed = build(&Headers { via: Some(router), ..headers }, &stamp, 100);
        assert_eq!(routed[..6], router.0);
        assert_eq!(
            routed[6..],
            direct[6..],
            "a routed frame may differ from a direct one only in its MAC destination"
        );
        let Parsed::Data(arrival) = parse(&routed, 100) else { panic!("the frame must be data") };
        assert_eq!((arrival.dst, arrival.stamp), (router, stamp));
        let ip = Ipv4Packet::new(&routed[ETHERNET..]).unwrap();
        assert_eq!(ip.get_destination(), ip_address(headers.dst));
    }

    #[test]
    fn frame_of_minimum_length_holds_a_stamp() {
        let (headers, _) = plain();
        assert_eq!(Template::new(&headers).len_min(false), 60);
    }

    #[test]
    fn frame_with_flipped_bit_or_truncation_is_corrupt() {
        let (headers, stamp) = plain();
        let mut frame = build(&headers, &stamp, 100);
        assert_eq!(parse(&frame, 99), Parsed::Corrupt);
        frame[ETHERNET + 8] ^= 1; // time to live, covered by the checksum only
        assert_eq!(parse(&frame, 100), Parsed::Corrupt);
    }

    #[test]
    fn frames_of_other_programs_are_not_parsed_as_data() {
        let (headers, stamp) = plain();
        let mut frame = build(&headers, &stamp, 100);
        frame[ETHERNET + IPV4 + UDP] ^= 1; // the magic number of the stamp
        assert_eq!(parse(&frame, 100), Parsed::Other);
    }

    #[test]
    fn time_between_two_stamps_is_right_across_48_bit_wrap() {
        assert_eq!(span_48(Nanos(MASK_48 + 11), Nanos(MASK_48 - 9)), Nanos(20));
        assert_eq!(span_48(Nanos(100), Nanos(101)), Nanos(0));
        assert_eq!(span_48(Nanos(101), Nanos(100)), Nanos(1));
    }
}

//! Flow of a frame. The frames of one flow keep their order and path.
//!
//! A flow is identified by IP addresses, protocol and ports; without IP, by MAC addresses and EtherType. Fragments
//! count as having ports 0, because at most the first one carries ports.

use pnet_packet::ethernet::{EtherType, EtherTypes};
use pnet_packet::ip::{IpNextHeaderProtocol, IpNextHeaderProtocols};
use pnet_packet::ipv4::{Ipv4Flags, Ipv4Packet};
use pnet_packet::ipv6::Ipv6Packet;

use super::header::Header;
use super::header::field::IPV6_LEN;
use crate::units::MacAddr;

/// Number of leading bytes from which a frame's flow is read, because some buffers keep no more.
const HEAD: usize = 96;

const ETHER_TYPE_MIN: u16 = 0x0600;

/// Key that all frames of a flow have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it
pub enum FlowKey {
    V4 {
        protocol: u8,
        ports: [u16; 2],
        src: [u8; 4],
        dst: [u8; 4],
    },
    V6 {
        /// IP protocol number, after extension headers.
        protocol: u8,
        ports: [u16; 2],
        src: [u8; 16],
        dst: [u8; 16],
    },
    L2 {
        src: MacAddr,
        dst: MacAddr,
        /// EtherType after the VLAN tag; 0 for an 802.3 length.
        ether_type: u16,
    },
}

impl FlowKey {
    /// Returns the flow of a frame.
    #[must_use]
    pub fn of(header: &Header, head: &[u8]) -> FlowKey {
        let packet = header.payload(until_limit(head));
        Upper::of(header.ether_type, packet)
            .and_then(|upper| FlowKey::of_packet(header.ether_type, packet, &upper))
            .unwrap_or_else(|| FlowKey::of_l2(header))
    }

    /// Returns a well-mixed hash, identical on all machines.
    #[must_use]
    pub fn digest(&self) -> u64 {
        match *self {
            FlowKey::V4 { protocol, ports, src, dst } => {
                let addresses = u64::from(u32::from_be_bytes(src)) << 32 | u64::from(u32::from_be_bytes(dst));
                mix(mix(addresses) ^ pack(4, protocol, ports))
            }
            FlowKey::V6 { protocol, ports, src, dst } => [src, dst]
                .iter()
                .flat_map(|address| address.chunks_exact(8))
                .fold(pack(6, protocol, ports), |digest, half| mix(digest ^ word(half))),
            FlowKey::L2 { src, dst, ether_type } => {
                mix(mix(mac(src) << 16 | u64::from(ether_type)) ^ mac(dst))
            }
        }
    }

    pub(crate) fn of_packet(ether_type: EtherType, packet: &[u8], upper: &Upper) -> Option<FlowKey> {
        let ports = upper.ports(packet);
        let protocol = upper.protocol.0;
        match ether_type {
            EtherTypes::Ipv4 => {
                let ip = Ipv4Packet::new(packet)?;
                let (src, dst) = (ip.get_source().octets(), ip.get_destination().octets());
                Some(FlowKey::V4 { protocol, ports, src, dst })
            }
            EtherTypes::Ipv6 => {
                let ip = Ipv6Packet::new(packet)?;
                let (src, dst) = (ip.get_source().octets(), ip.get_destination().octets());
                Some(FlowKey::V6 { protocol, ports, src, dst })
            }
            _ => None,
        }
    }

    fn of_l2(header: &Header) -> FlowKey {
        let EtherType(ether_type) = header.ether_type;
        let ether_type = if ether_type < ETHER_TYPE_MIN { 0 } else { ether_type };
        FlowKey::L2 { src: header.src, dst: header.dst, ether_type }
    }
}

pub(crate) fn until_limit(head: &[u8]) -> &[u8] {
    head.get(..HEAD).unwrap_or(head)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Upper {
    pub(crate) protocol: IpNextHeaderProtocol,
    start: Option<usize>,
}

impl Upper {
    pub(crate) fn of(ether_type: EtherType, packet: &[u8]) -> Option<Upper> {
        match ether_type {
            EtherTypes::Ipv4 => Upper::of_ipv4(packet),
            EtherTypes::Ipv6 => Upper::of_ipv6(packet),
            _ => None,
        }
    }

    fn of_ipv4(packet: &[u8]) -> Option<Upper> {
        let whole = |ip: &Ipv4Packet<'_>| ip.get_version() == 4 && ip.get_header_length() >= 5;
        let ip = Ipv4Packet::new(packet).filter(whole)?;
        let is_fragment = ip.get_fragment_offset() != 0 || ip.get_flags() & Ipv4Flags::MoreFragments != 0;
        let start = (!is_fragment).then_some(usize::from(ip.get_header_length()) * 4);
        Some(Upper { protocol: ip.get_next_level_protocol(), start })
    }

    fn of_ipv6(packet: &[u8]) -> Option<Upper> {
        const OFFSET_AND_MORE: u16 = 0xfff9;
        let ip = Ipv6Packet::new(packet).filter(|ip| ip.get_version() == 6)?;
        let (mut protocol, mut start) = (ip.get_next_header(), IPV6_LEN);
        while let Some(&[next, len, high, low, ..]) = packet.get(start..start + 8) {
            start += match protocol {
                IpNextHeaderProtocols::Hopopt
                | IpNextHeaderProtocols::Ipv6Route
                | IpNextHeaderProtocols::Ipv6Opts => 8 * (usize::from(len) + 1),
                IpNextHeaderProtocols::Ah => 4 * (usize::from(len) + 2),
                IpNextHeaderProtocols::Ipv6Frag => {
                    if u16::from_be_bytes([high, low]) & OFFSET_AND_MORE != 0 {
                        return Some(Upper { protocol: IpNextHeaderProtocol(next), start: None });
                    }
                    8
                }
                _ => break,
            };
            protocol = IpNextHeaderProtocol(next);
        }
        Some(Upper { protocol, start: Some(start) })
    }

    pub(crate) fn payload<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        self.start.and_then(|start| packet.get(start..)).unwrap_or_default()
    }

    fn ports(&self, packet: &[u8]) -> [u16; 2] {
        let has_ports = matches!(
            self.protocol,
            IpNextHeaderProtocols::Tcp
                | IpNextHeaderProtocols::Udp
                | IpNextHeaderProtocols::Dccp
                | IpNextHeaderProtocols::Sctp
                | IpNextHeaderProtocols::UdpLite
        );
        match *self.payload(packet) {
            [a, b, c, d, ..] if has_ports => [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])],
            _ => [0, 0],
        }
    }
}

fn pack(family: u8, protocol: u8, [src, dst]: [u16; 2]) -> u64 {
    u64::from(family) << 40 | u64::from(protocol) << 32 | u64::from(src) << 16 | u64::from(dst)
}

fn mac(address: MacAddr) -> u64 {
    word(&address.0)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Mixes bits reversibly (last step of splitmix64).
#[inline]
#[must_use]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashSet;

    use pnet_packet::ethernet::MutableEthernetPacket;
    use pnet_packet::ipv4::MutableIpv4Packet;
    use pnet_packet::ipv6::MutableIpv6Packet;
    use pnet_packet::udp::MutableUdpPacket;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::frame_bytes;
    use xoff_explore::explore;

    fn key(bytes: &[u8]) -> FlowKey {
        FlowKey::of(&Header::parse(bytes).unwrap(), bytes)
    }

    fn ipv4_udp(tagged: bool, options: u8, fragment: (u8, u16), ports: [u16; 2]) -> Vec<u8> {
        let mut bytes = vec![0; 120];
        let mut l3 = 14;
        MutableEthernetPacket::new(&mut bytes).unwrap().set_ethertype(EtherTypes::Ipv4);
        if tagged {
            bytes[12..18].copy_from_slice(&[0x81, 0x00, 0x60, 0x05, 0x08, 0x00]);
            l3 = 18;
        }
        let mut ip = MutableIpv4Packet::new(&mut bytes[l3..]).unwrap();
        ip.set_version(4);
        ip.set_header_length(5 + options);
        ip.set_flags(fragment.0);
        ip.set_fragment_offset(fragment.1);
        ip.set_next_level_protocol(IpNextHeaderProtocols::Udp);
        ip.set_source([10, 0, 0, 1].into());
        ip.set_destination([10, 0, 0, 2].into());
        let l4 = l3 + 20 + 4 * usize::from(options);
        let mut udp = MutableUdpPacket::new(&mut bytes[l4..]).unwrap();
        udp.set_source(ports[0]);
        udp.set_destination(ports[1]);
        bytes
    }

    fn v4(ports: [u16; 2]) -> FlowKey {
        FlowKey::V4 { protocol: 17, ports, src: [10, 0, 0, 1], dst: [10, 0, 0, 2] }
    }

    #[test]
    fn ipv4_udp_flow_ignores_tag_and_ip_options() {
        for tagged in [false, true] {
            for options in 0..=10 {
                let bytes = ipv4_udp(tagged, options, (0, 0), [49152, 4791]);
                assert_eq!(key(&bytes), v4([49152, 4791]));
            }
        }
    }

    #[test] // proves: classification
    fn cn_tag_does_not_change_flow() {
        for tagged in [false, true] {
            let mut bytes = ipv4_udp(tagged, 0, (0, 0), [49152, 4791]);
            let at = if tagged { 16 } else { 12 };
            bytes.splice(at..at, [0x22, 0xe9, 0, 7]);
            assert_eq!(key(&bytes), v4([49152, 4791]));
        }
    }

    #[test]
    fn fragments_of_datagram_are_one_flow() {
        let first = key(&ipv4_udp(false, 0, (Ipv4Flags::MoreFragments, 0), [5, 6]));
        let last = key(&ipv4_udp(false, 0, (0, 100), [7, 8]));
        assert_eq!((first, last), (v4([0, 0]), v4([0, 0])));
        assert_eq!(key(&ipv4_udp(false, 0, (Ipv4Flags::DontFragment, 0), [5, 6])), v4([5, 6]));
    }

    #[test]
    fn ipv6_udp_flow_has_addresses_and_ports() {
        let mut bytes = vec![0; 62];
        MutableEthernetPacket::new(&mut bytes).unwrap().set_ethertype(EtherTypes::Ipv6);
        let mut ip = MutableIpv6Packet::new(&mut bytes[14..]).unwrap();
        ip.set_version(6);
        ip.set_next_header(IpNextHeaderProtocols::Udp);
        ip.set_source([1, 2, 3, 4, 5, 6, 7, 8].into());
        ip.set_destination([8, 7, 6, 5, 4, 3, 2, 1].into());
        bytes[54..58].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
        let FlowKey::V6 { protocol: 17, ports, src, dst } = key(&bytes) else {
            panic!("the flow of UDP over IPv6 must be `V6`")
        };
        assert_eq!(ports, [0x1234, 0x5678]);
        assert_eq!((&src[..4], &dst[12..]), (&[0, 1, 0, 2][..], &[0, 2, 0, 1][..]));
    }

    #[test]
    fn flow_of_non_ip_frame_is_its_macs_and_ether_type() {
        let mut bytes = ipv4_udp(false, 0, (0, 0), [5, 6]);
        bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        let (dst, src) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
        assert_eq!(key(&bytes[..38]), v4([5, 6]));
        assert_eq!(key(&bytes[..37]), v4([0, 0]), "truncated ports must not be part of the flow");
        assert_eq!(key(&bytes[..33]), FlowKey::L2 { src, dst, ether_type: 0x0800 });
        bytes[12..14].copy_from_slice(&[0x00, 0x40]);
        assert_eq!(
            key(&bytes),
            FlowKey::L2 { src, dst, ether_type: 0 },
            "an 802.3 length must not count as EtherType"
        );
    }

    #[test]
    fn flow_digests_are_stable_and_spread_evenly() {
        assert_eq!(v4([1, 2]).digest(), v4([1, 2]).digest());
        let digests: Vec<u64> = (0..4096).map(|port| v4([port, 4791]).digest()).collect();
        assert_eq!(digests.iter().collect::<HashSet<_>>().len(), 4096);
        for paths in [2, 3, 8] {
            for path in 0..paths {
                let share = digests.iter().filter(|&&digest| digest % paths == path).count() as u64;
                let even = 4096 / paths;
                assert!(
                    share.abs_diff(even) < even / 5,
                    "path {path} of {paths} gets {share} of 4,096 flows; expected about {even}"
                );
            }
        }
    }

    explore! {
        #[test]
        fn flow_of_arbitrary_frame_is_deterministic(bytes in frame_bytes()) {
            if let Ok(header) = Header::parse(&bytes) {
                prop_assert_eq!(FlowKey::of(&header, &bytes), FlowKey::of(&header, &bytes.clone()));
            }
        }
    }
}

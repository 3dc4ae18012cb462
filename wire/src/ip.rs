//! IP headers for routers (RFC 1812 section 5.2; RFC 8200).

use pnet_packet::ethernet::{EtherType, EtherTypes};

use super::header::field::{IPV4_LEN, IPV6_LEN};

mod ipv4 {
    pub const LENGTH: usize = 2;
    pub const FLAGS: usize = 6;
    pub const TTL: usize = 8;
    pub const CHECKSUM: usize = 10;
    pub const SRC: usize = 12;
    pub const DST: usize = 16;
}

mod ipv6 {
    pub const LENGTH: usize = 4;
    pub const NEXT_HEADER: usize = 6;
    pub const HOP_LIMIT: usize = 7;
    pub const SRC: usize = 8;
    pub const DST: usize = 24;
    pub const HOP_BY_HOP: u8 = 0;
}

/// Upper bits of IPv4-mapped IPv6 addresses (RFC 4291 section 2.5.5.2), which are never valid sources.
const IPV4_MAPPED: u128 = 0xffff;

/// IP address as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names say it
pub enum Address {
    V4(u32),
    V6(u128),
}

impl Address {
    /// Returns the address left-aligned in 128 bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u128 {
        match self {
            Address::V4(address) => (address as u128) << 96,
            Address::V6(address) => address,
        }
    }
}

/// Header fields for routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Packet {
    pub src: Address,
    pub dst: Address,
    /// Packet length in bytes according to its header; MTUs limit this length.
    pub len: u32,
    /// TTL (IPv4) or hop limit (IPv6) of the received packet.
    pub hops_left: u8,
    pub has_options: bool,
    /// True if routers must not forward the packet: its destination is a group, or an address is link-local.
    pub stays_on_link: bool,
}

/// Reason why a packet cannot be routed.
#[allow(missing_docs)] // the messages say it
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unroutable {
    #[error("the IP header is truncated, or has a wrong version, length or checksum")]
    Broken,
    /// Packet whose source or destination address is invalid on a wire (RFC 1812 section 5.3.7; RFC 4291 section 2.5).
    #[error("the IP source or destination address is invalid on a wire")]
    Martian,
}

/// Returns whether routers may fragment the packet: IPv4 without DF (RFC 791 section 3.1).
#[must_use]
pub fn may_be_fragmented(ether_type: EtherType, head: &[u8]) -> bool {
    const DONT_FRAGMENT: u8 = 0x40;
    ether_type == EtherTypes::Ipv4 && head.get(ipv4::FLAGS).is_some_and(|flags| flags & DONT_FRAGMENT == 0)
}

impl Packet {
    /// Reads the header of the packet that begins at `head` and has at most `room` bytes; `None` if it is not IP.
    ///
    /// # Errors
    ///
    /// Fails if no router may forward the packet.
    #[inline]
    pub fn read(ether_type: EtherType, head: &[u8], room: usize) -> Option<Result<Packet, Unroutable>> {
        match ether_type {
            EtherTypes::Ipv4 => Some(Packet::read_ipv4(head, room)),
            EtherTypes::Ipv6 => Some(Packet::read_ipv6(head, room)),
            _ => None,
        }
    }

    #[inline]
    fn read_ipv4(head: &[u8], room: usize) -> Result<Packet, Unroutable> {
        let fixed = head.first_chunk::<IPV4_LEN>().ok_or(Unroutable::Broken)?;
        let header_len = usize::from(fixed[0] & 15) * 4;
        let len = usize::from(be16(fixed, ipv4::LENGTH));
        let is_whole = fixed[0] >> 4 == 4 && (IPV4_LEN..=len).contains(&header_len) && len <= room;
        let header = head.get(..header_len).filter(|_| is_whole).ok_or(Unroutable::Broken)?;
        if ones_complement(words(header)) != 0xffff {
            return Err(Unroutable::Broken);
        }
        let [src, dst] = [ipv4::SRC, ipv4::DST].map(|at| be32(fixed, at));
        let is_on_no_wire = |address: u32| matches!((address >> 24) as u8, 0 | 127);
        if is_on_no_wire(src) || is_on_no_wire(dst) || src >> 28 == 0xe || src == u32::MAX {
            return Err(Unroutable::Martian);
        }
        Ok(Packet {
            src: Address::V4(src),
            dst: Address::V4(dst),
            len: u32::from(be16(fixed, ipv4::LENGTH)),
            hops_left: fixed[ipv4::TTL],
            has_options: header_len > IPV4_LEN,
            stays_on_link: stays_on_link4(src, dst),
        })
    }

    #[inline]
    fn read_ipv6(head: &[u8], room: usize) -> Result<Packet, Unroutable> {
        let fixed = head.first_chunk::<IPV6_LEN>().ok_or(Unroutable::Broken)?;
        let len = usize::from(be16(fixed, ipv6::LENGTH)) + IPV6_LEN;
        if fixed[0] >> 4 != 6 || len > room {
            return Err(Unroutable::Broken);
        }
        let [src, dst] = [ipv6::SRC, ipv6::DST].map(|at| be128(fixed, at));
        let is_on_no_wire = |address: u128| address <= 1; // unspecified or loopback
        let is_no_source = src >> 120 == 0xff || src >> 32 == IPV4_MAPPED;
        if is_on_no_wire(src) && !may_have_no_source(dst) || is_on_no_wire(dst) || is_no_source {
            return Err(Unroutable::Martian);
        }
        Ok(Packet {
            src: Address::V6(src),
            dst: Address::V6(dst),
            len: u32::try_from(len).unwrap_or(u32::MAX),
            hops_left: fixed[ipv6::HOP_LIMIT],
            has_options: fixed[ipv6::NEXT_HEADER] == ipv6::HOP_BY_HOP,
            stays_on_link: stays_on_link6(src, dst),
        })
    }
}

#[inline]
const fn stays_on_link4(src: u32, dst: u32) -> bool {
    dst >> 28 == 0xe || dst == u32::MAX || dst >> 16 == 0xa9fe || src >> 16 == 0xa9fe
}

#[inline]
const fn stays_on_link6(src: u128, dst: u128) -> bool {
    dst >> 120 == 0xff || dst >> 118 == 0xfe80 >> 6 || src >> 118 == 0xfe80 >> 6
}

const fn may_have_no_source(dst: u128) -> bool {
    dst >> 120 == 0xff
}

/// Decrements the TTL or hop limit of a packet that [`Packet::read`] accepted, and updates the IPv4 checksum
/// incrementally (RFC 1624).
#[inline]
pub fn pass(ether_type: EtherType, head: &mut [u8]) {
    match ether_type {
        EtherTypes::Ipv4 => {
            if let Some(header) = head.first_chunk_mut::<IPV4_LEN>() {
                header[ipv4::TTL] = header[ipv4::TTL].saturating_sub(1);
                let checksum = match ones_complement(u32::from(be16(header, ipv4::CHECKSUM)) + 0x0100) {
                    0xffff => 0, // zero has two forms; this is the usual one
                    checksum => checksum,
                };
                let [high, low] = checksum.to_be_bytes();
                [header[ipv4::CHECKSUM], header[ipv4::CHECKSUM + 1]] = [high, low];
            }
        }
        EtherTypes::Ipv6 => {
            if let Some(hop_limit) = head.get_mut(ipv6::HOP_LIMIT) {
                *hop_limit = hop_limit.saturating_sub(1);
            }
        }
        _ => {}
    }
}

#[inline]
pub(crate) fn words(bytes: &[u8]) -> u32 {
    let words = bytes.chunks_exact(2);
    let last = words.remainder().first().map_or(0, |&high| u32::from(high) << 8);
    last + words.map(|word| u32::from(be16(word, 0))).sum::<u32>()
}

/// Folds a sum of 16-bit words to the ones' complement sum, which is all ones if the words include a right checksum.
#[inline]
#[allow(clippy::cast_possible_truncation)] // two folds leave sixteen bits
pub(crate) const fn ones_complement(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub(crate) fn be32(bytes: &[u8; IPV4_LEN], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
pub(crate) fn be128(bytes: &[u8; IPV6_LEN], at: usize) -> u128 {
    u128::from_be_bytes(std::array::from_fn(|index| bytes[at + index]))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pnet_packet::ipv4::{self as pnet_v4, Ipv4Packet, MutableIpv4Packet};
    use proptest::prelude::*;
    use xoff_explore::explore;

    use super::*;

    fn v4(src: [u8; 4], dst: [u8; 4], ttl: u8, options: u8, payload: usize) -> Vec<u8> {
        let header = usize::from(5 + options) * 4;
        let mut bytes = vec![0; header + payload];
        let mut packet = MutableIpv4Packet::new(&mut bytes).unwrap();
        packet.set_version(4);
        packet.set_header_length(5 + options);
        packet.set_total_length(u16::try_from(header + payload).unwrap());
        packet.set_ttl(ttl);
        packet.set_source(src.into());
        packet.set_destination(dst.into());
        let checksum = pnet_v4::checksum(&packet.to_immutable());
        packet.set_checksum(checksum);
        bytes
    }

    fn v6(src: u128, dst: u128, hop_limit: u8, next_header: u8, payload: u16) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend(payload.to_be_bytes());
        bytes.extend([next_header, hop_limit]);
        bytes.extend(src.to_be_bytes());
        bytes.extend(dst.to_be_bytes());
        bytes.resize(40 + usize::from(payload), 0);
        bytes
    }

    fn read4(bytes: &[u8]) -> Result<Packet, Unroutable> {
        Packet::read(EtherTypes::Ipv4, bytes, bytes.len()).unwrap()
    }

    fn read6(bytes: &[u8]) -> Result<Packet, Unroutable> {
        Packet::read(EtherTypes::Ipv6, bytes, bytes.len()).unwrap()
    }

    const A: [u8; 4] = [10, 0, 0, 1];
    const B: [u8; 4] = [10, 1, 0, 2];
    const FD: u128 = 0xfd << 120;

    #[test]
    fn packet_length_excludes_frame_padding() {
        let mut bytes = v4(A, B, 64, 0, 8);
        let packet = Packet {
            src: Address::V4(0x0a00_0001),
            dst: Address::V4(0x0a01_0002),
            len: 28,
            hops_left: 64,
            has_options: false,
            stays_on_link: false,
        };
        assert_eq!(read4(&bytes), Ok(packet));
        bytes.resize(46, 0);
        assert_eq!(read4(&bytes), Ok(packet), "padded");
        assert_eq!(Packet::read(EtherTypes::Ipv4, &bytes[..20], 27).unwrap(), Err(Unroutable::Broken));
        assert_eq!(
            Packet::read(EtherTypes::Ipv4, &bytes[..20], 28).unwrap(),
            Ok(packet),
            "a packet with a complete IP header must be accepted"
        );
        let bytes = v6(FD | 1, FD | 2, 9, 17, 3);
        let packet = Packet {
            src: Address::V6(FD | 1),
            dst: Address::V6(FD | 2),
            len: 43,
            hops_left: 9,
            has_options: false,
            stays_on_link: false,
        };
        assert_eq!(read6(&bytes), Ok(packet));
        assert_eq!(Packet::read(EtherTypes::Ipv6, &bytes[..40], 42).unwrap(), Err(Unroutable::Broken));
        assert_eq!(Packet::read(EtherTypes::Arp, &bytes, 43), None);
    }

    #[test]
    fn ip_options_for_routers_are_reported() {
        assert!(read4(&v4(A, B, 64, 1, 0)).unwrap().has_options);
        assert!(read6(&v6(FD | 1, FD | 2, 9, 0, 8)).unwrap().has_options);
    }

    #[test] // proves: slow-path
    fn ipv4_checksum_detects_every_flipped_bit() {
        for options in [0, 1, 10] {
            let good = v4(A, B, 64, options, 4);
            for bit in 0..usize::from(5 + options) * 32 {
                let mut bytes = good.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(read4(&bytes), Err(Unroutable::Broken), "flipped bit {bit} must be detected");
            }
        }
    }

    #[test]
    fn truncated_packet_or_wrong_version_is_refused() {
        let (four, six) = (v4(A, B, 64, 2, 0), v6(FD | 1, FD | 2, 9, 17, 0));
        for len in 0..four.len() {
            assert_eq!(read4(&four[..len]), Err(Unroutable::Broken), "{len}");
        }
        for len in 0..six.len() {
            assert_eq!(read6(&six[..len]), Err(Unroutable::Broken), "{len}");
        }
        assert_eq!(read6(&four), Err(Unroutable::Broken));
        let mut short = v4(A, B, 64, 0, 0);
        short[0] = 0x44;
        assert_eq!(read4(&short), Err(Unroutable::Broken));
    }

    #[test] // proves: slow-path
    fn packets_with_martian_addresses_are_refused() {
        for on_no_wire in [[0, 0, 0, 0], [0, 1, 2, 3], [127, 0, 0, 1], [127, 255, 255, 255]] {
            assert_eq!(
                read4(&v4(on_no_wire, B, 9, 0, 0)),
                Err(Unroutable::Martian),
                "a packet from {on_no_wire:?} must be refused"
            );
            assert_eq!(
                read4(&v4(A, on_no_wire, 9, 0, 0)),
                Err(Unroutable::Martian),
                "a packet to {on_no_wire:?} must be refused"
            );
        }
        // Class E (240.0.0.0/4) is accepted, because Linux routes it.
        for fine in [
            [1, 0, 0, 0],
            [126, 255, 255, 255],
            [128, 0, 0, 0],
            [223, 255, 255, 255],
            [240, 0, 0, 0],
            [255, 255, 255, 254],
        ] {
            assert!(read4(&v4(fine, B, 9, 0, 0)).is_ok(), "{fine:?}");
            assert!(!read4(&v4(A, fine, 9, 0, 0)).unwrap().stays_on_link, "{fine:?}");
        }
        for group in [[224, 0, 0, 0], [239, 1, 2, 3], [255, 255, 255, 255]] {
            assert_eq!(read4(&v4(group, B, 9, 0, 0)), Err(Unroutable::Martian));
            assert!(read4(&v4(A, group, 9, 0, 0)).unwrap().stays_on_link);
        }
        let groups = 0xff02u128 << 112;
        for (src, dst) in [(0, FD), (1, FD), (FD, 0), (FD, 1), (groups | 1, FD)] {
            assert_eq!(
                read6(&v6(src, dst, 9, 17, 0)),
                Err(Unroutable::Martian),
                "a packet from {src:x} to {dst:x} must be refused"
            );
        }
        assert!(
            read6(&v6(0, groups | 1, 255, 58, 0)).unwrap().stays_on_link,
            "a packet for duplicate address detection must stay on its link"
        );
        let mapped = 0xffff_u128 << 32;
        for (src, is_mapped) in
            [(mapped - 1, false), (mapped, true), (mapped | 0xffff_ffff, true), (mapped + (1 << 32), false)]
        {
            assert_eq!(
                read6(&v6(src, FD, 9, 17, 0)) == Err(Unroutable::Martian),
                is_mapped,
                "a packet from {src:x} must be refused if and only if that source is IPv4-mapped"
            );
        }
    }

    #[test]
    fn link_local_and_group_addresses_keep_packets_on_link() {
        let stays4 = |dst| {
            let back = read4(&v4(dst, A, 9, 0, 0)).map(|packet| packet.stays_on_link);
            let stays = read4(&v4(A, dst, 9, 0, 0)).unwrap().stays_on_link;
            assert!(
                back.is_err() || back == Ok(stays),
                "address {dst:?} must have the same effect on `stays_on_link` as source and as destination"
            );
            stays
        };
        for (dst, stays) in [
            ([169, 253, 255, 255], false),
            ([169, 254, 0, 0], true),
            ([169, 254, 255, 255], true),
            ([169, 255, 0, 0], false),
            ([223, 255, 255, 255], false),
            ([224, 0, 0, 0], true),
        ] {
            assert_eq!(stays4(dst), stays, "{dst:?}");
        }
        let stays6 = |top: u128| {
            let back = read6(&v6(top << 112 | 5, FD | 1, 9, 17, 0)).map(|packet| packet.stays_on_link);
            let stays = read6(&v6(FD | 1, top << 112 | 5, 9, 17, 0)).unwrap().stays_on_link;
            assert!(
                back.is_err() || back == Ok(stays),
                "address {top:x}:: must have the same effect on `stays_on_link` as source and as destination"
            );
            stays
        };
        for (top, stays) in [
            (0xfe7f, false),
            (0xfe80, true),
            (0xfebf, true),
            (0xfec0, false),
            (0xfeff, false),
            (0xff00, true),
        ] {
            assert_eq!(stays6(top), stays, "{top:x}");
        }
    }

    explore! {
        #[test] // proves: routing
        fn ipv4_forwarding_decrements_ttl_and_updates_checksum(
            src in any::<[u8; 4]>(), dst in any::<[u8; 4]>(), ttl in 1u8.., options in 0u8..=10, id in any::<[u8; 2]>()
        ) {
            let mut bytes = v4(src, dst, ttl, options, 3);
            bytes[4..6].copy_from_slice(&id);
            bytes[10..12].copy_from_slice(&[0, 0]);
            let checksum = pnet_v4::checksum(&Ipv4Packet::new(&bytes).unwrap());
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            let before = bytes.clone();
            pass(EtherTypes::Ipv4, &mut bytes);
            let after = Ipv4Packet::new(&bytes).unwrap();
            prop_assert_eq!(after.get_ttl(), ttl - 1);
            prop_assert_eq!(ones_complement(words(&bytes[..usize::from(5 + options) * 4])), 0xffff);
            prop_assert_eq!((&bytes[..8], &bytes[12..]), (&before[..8], &before[12..]));
        }

        #[test]
        fn reading_arbitrary_packet_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..90), room in 0usize..100) {
            for ether_type in [EtherTypes::Ipv4, EtherTypes::Ipv6] {
                let _ = Packet::read(ether_type, &bytes, room);
                pass(ether_type, &mut bytes.clone());
            }
        }
    }

    #[test] // proves: routing
    fn zero_checksum_after_ttl_decrement_matches_kernel() {
        // With this identification field, the checksum is 0xfeff. Decrementing the TTL would make it 0xffff, another
        // zero in ones' complement.
        let mut bytes = v4(A, B, 64, 0, 0);
        let without = u16::from_be_bytes([bytes[10], bytes[11]]);
        bytes[4..6].copy_from_slice(&ones_complement(u32::from(without) + 0x0100).to_be_bytes());
        bytes[10..12].copy_from_slice(&0xfeff_u16.to_be_bytes());
        assert_eq!(ones_complement(words(&bytes)), 0xffff);
        pass(EtherTypes::Ipv4, &mut bytes);
        assert_eq!(pnet_v4::checksum(&Ipv4Packet::new(&bytes).unwrap()), 0);
        assert_eq!(bytes[10..12], [0, 0]);
    }

    #[test]
    fn ipv6_forwarding_decrements_hop_limit() {
        let mut bytes = v6(FD | 1, FD | 2, 64, 17, 0);
        pass(EtherTypes::Ipv6, &mut bytes);
        assert_eq!(bytes, v6(FD | 1, FD | 2, 63, 17, 0));
    }
}

//! Multicast as a snooping bridge reads it (RFC 4541): group addresses, and IGMP, MLD and PIM messages about group
//! members and routers.

mod igmp;
mod mld;

use pnet_packet::ethernet::{EtherType, EtherTypes};

use crate::header::Tci;
use crate::header::field::{self, IPV4_LEN, IPV6_LEN};
use crate::ip::{Address, be16, be32, be128, ones_complement, words};
use crate::units::{MacAddr, Nanos};

/// Kind of a multicast frame, which decides where a snooping bridge sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Role {
    /// Frame that is flooded, because it is not IP, or its group has link-local scope.
    Flooded,
    /// Query or PIM hello, which is flooded. Its sender is a multicast router.
    OfRouter,
    /// Membership report or leave, sent to routers only.
    Report,
    /// Data, sent to members of this group and to routers.
    Data(Address),
}

pub(crate) mod protocol {
    pub const HOP_BY_HOP: u8 = 0;
    pub const IGMP: u8 = 2;
    pub const ICMPV6: u8 = 58;
    pub const PIM: u8 = 103;
}

const PIM_HELLO: u8 = 0x20;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried<'a> {
    pub(crate) protocol: u8,
    pub(crate) src: Address,
    pub(crate) dst: Address,
    /// Rest of the packet from the protocol's first byte on; empty in all fragments but the first.
    pub(crate) rest: &'a [u8],
}

impl<'a> Carried<'a> {
    #[inline]
    fn read(ether_type: EtherType, packet: &'a [u8]) -> Option<Carried<'a>> {
        match ether_type {
            EtherTypes::Ipv4 => {
                const FRAGMENT: u16 = 0x1fff;
                let fixed = packet.first_chunk::<IPV4_LEN>().filter(|fixed| fixed[0] >> 4 == 4)?;
                let is_first = be16(fixed, 6) & FRAGMENT == 0;
                let rest = packet.get(usize::from(fixed[0] & 15) * 4..).filter(|_| is_first);
                let [src, dst] = [12, 16].map(|at| Address::V4(be32(fixed, at)));
                Some(Carried { protocol: fixed[9], src, dst, rest: rest.unwrap_or_default() })
            }
            EtherTypes::Ipv6 => {
                let fixed = packet.first_chunk::<IPV6_LEN>().filter(|fixed| fixed[0] >> 4 == 6)?;
                let [src, dst] = [8, 24].map(|at| Address::V6(be128(fixed, at)));
                let (protocol, rest) = match fixed[6] {
                    protocol::HOP_BY_HOP => {
                        let &[next, len, ..] = &packet[IPV6_LEN..] else { return None };
                        (next, packet.get(IPV6_LEN + 8 * (1 + usize::from(len))..)?)
                    }
                    next => (next, &packet[IPV6_LEN..]),
                };
                Some(Carried { protocol, src, dst, rest })
            }
            _ => None,
        }
    }

    fn is_hello(&self) -> bool {
        let all_routers =
            matches!(self.dst, Address::V4(0xe000_000d)) || self.dst == Address::V6((0xff02 << 112) | 0xd);
        self.protocol == protocol::PIM && all_routers && self.rest.first() == Some(&PIM_HELLO)
    }
}

/// Returns the role of the IP packet in a multicast frame, without checking the packet.
#[inline]
#[must_use]
pub fn role(ether_type: EtherType, packet: &[u8]) -> Role {
    let Some(carried) = Carried::read(ether_type, packet).filter(|it| is_group(it.dst)) else {
        return Role::Flooded;
    };
    let of_message = match carried.protocol {
        protocol::IGMP => igmp::role(carried.rest),
        protocol::ICMPV6 => mld::role(carried.rest),
        _ if carried.is_hello() => Some(Role::OfRouter),
        _ => None,
    };
    of_message.unwrap_or_else(|| match carried.dst {
        dst if is_flooded(dst) => Role::Flooded,
        dst => Role::Data(dst),
    })
}

/// Returns whether the address is a multicast group.
#[must_use]
pub const fn is_group(address: Address) -> bool {
    match address {
        Address::V4(address) => address >> 28 == 0xe,
        Address::V6(address) => address >> 120 == 0xff,
    }
}

/// Returns whether a snooping bridge floods the group: 224.0.0.0/24 (RFC 4541 section 2.1.2), or IPv6 scopes up to
/// link-local.
#[must_use]
pub const fn is_flooded(group: Address) -> bool {
    match group {
        Address::V4(group) => group >> 8 == 0x00e0_0000,
        Address::V6(group) => (group >> 112) & 15 <= 2,
    }
}

/// Reason for ignoring a membership message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MembershipError {
    /// Message that ends early, or whose header has a wrong length.
    Truncated,
    /// Message or header with a wrong checksum.
    Checksum,
    /// Message about an address that is not a group.
    Group,
    /// MLD message with a hop limit other than 1, or a source that is not link-local.
    Source,
    /// MLD message without the Router Alert option in a hop-by-hop header (RFC 2710 section 3, RFC 3810 section 5).
    RouterAlert,
    /// Packet that is not a membership message.
    Other,
}

crate::named! { MembershipError {
    Truncated: "truncated",
    Checksum: "checksum",
    Group: "group",
    Source: "source",
    RouterAlert: "router_alert",
    Other: "other",
} }

/// Membership message: a query, or a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Message<'a> {
    Query(Query),
    Records(Records<'a>),
    Hello,
}

/// Query by a multicast router, or by a bridge in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// IP source address; 0.0.0.0 means that the sender is a bridge and no querier.
    pub source: Address,
    /// Queried group; `None` for all groups.
    pub group: Option<Address>,
    /// True if the query lists sources of the group.
    pub has_sources: bool,
    /// True if other routers must keep their timers (S flag).
    pub suppresses: bool,
    /// Maximum time until a host answers.
    pub max_response: Nanos,
    /// Robustness variable of the querier; `None` if not given.
    pub robustness: Option<u8>,
    /// Interval between general queries; `None` if not given.
    pub interval: Option<Nanos>,
}

/// Change of a host's membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Change {
    Join,
    Leave,
    /// A host left some sources of the group.
    Block,
}

/// Record of a report: a group, and the change of a host's membership in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Record {
    pub group: Address,
    pub change: Change,
}

/// Records of a well-formed report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records<'a> {
    single: Option<Record>,
    list: &'a [u8],
    is_ipv6: bool,
}

impl<'a> Records<'a> {
    pub(crate) fn single(group: Address, change: Change) -> Result<Records<'a>, MembershipError> {
        let single = Some(Record { group, change });
        is_group(group).then_some(Records { single, list: &[], is_ipv6: false }).ok_or(MembershipError::Group)
    }

    pub(crate) fn list(report: &'a [u8], is_ipv6: bool) -> Result<Records<'a>, MembershipError> {
        let (head, list) = report.split_first_chunk::<8>().ok_or(MembershipError::Truncated)?;
        let mut records = Records { single: None, list, is_ipv6 };
        for _ in 0..be16(head, 6) {
            let (group, _) = records.next_of_list().ok_or(MembershipError::Truncated)?;
            if !is_group(group) {
                return Err(MembershipError::Group);
            }
        }
        let list = &list[..list.len() - records.list.len()];
        Ok(Records { single: None, list, is_ipv6 })
    }

    fn next_of_list(&mut self) -> Option<(Address, Option<Change>)> {
        let address_len = if self.is_ipv6 { 16 } else { 4 };
        let &[kind, words, high, low, ref rest @ ..] = self.list else { return None };
        let group = rest.get(..address_len)?;
        let group = match self.is_ipv6 {
            true => Address::V6(u128::from_be_bytes(group.try_into().ok()?)),
            false => Address::V4(u32::from_be_bytes(group.try_into().ok()?)),
        };
        let sources = usize::from(u16::from_be_bytes([high, low]));
        self.list = rest.get(address_len * (1 + sources) + 4 * usize::from(words)..)?;
        let change = match (kind, sources) {
            (3, 0) => Some(Change::Leave),
            (1 | 5, 0) => None,
            (1..=5, _) => Some(Change::Join),
            (6, _) => Some(Change::Block),
            _ => None,
        };
        Some((group, change))
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if let Some(record) = self.single.take() {
            return Some(record);
        }
        loop {
            let (group, change) = self.next_of_list()?;
            if let Some(change) = change {
                return Some(Record { group, change });
            }
        }
    }
}

/// Parses and checks the membership message in an IP packet, which padding may follow.
///
/// # Errors
/// Fails if the packet is malformed, or is not a membership message.
pub fn parse(ether_type: EtherType, packet: &[u8]) -> Result<Message<'_>, MembershipError> {
    use MembershipError::{Checksum, Other, Truncated};
    let len = match (ether_type, packet) {
        (EtherTypes::Ipv4, &[_, _, high, low, ..]) => usize::from(u16::from_be_bytes([high, low])),
        (EtherTypes::Ipv6, &[_, _, _, _, high, low, ..]) => {
            IPV6_LEN + usize::from(u16::from_be_bytes([high, low]))
        }
        _ => return Err(Other),
    };
    let packet = packet.get(..len).ok_or(Truncated)?;
    let carried = Carried::read(ether_type, packet).ok_or(Truncated)?;
    let pseudo_header = match carried.dst {
        Address::V4(_) => {
            let header_len = usize::from(packet[0] & 15) * 4;
            let header = packet.get(..header_len).filter(|it| it.len() >= IPV4_LEN).ok_or(Truncated)?;
            if ones_complement(words(header)) != 0xffff {
                return Err(Checksum);
            }
            0
        }
        Address::V6(_) => {
            let addresses = words(&packet[8..IPV6_LEN]);
            addresses + u32::try_from(carried.rest.len()).unwrap_or(0) + u32::from(carried.protocol)
        }
    };
    if carried.rest.len() < 4 {
        return Err(Truncated);
    }
    if ones_complement(pseudo_header + words(carried.rest)) != 0xffff {
        return Err(Checksum);
    }
    match carried.protocol {
        protocol::IGMP => igmp::parse(carried.src, carried.rest),
        protocol::ICMPV6 => mld::parse(carried.src, packet, carried.rest),
        _ if carried.is_hello() => Ok(Message::Hello),
        _ => Err(Other),
    }
}

/// Decodes a time code with three bits of exponent and `bits` of mantissa (RFC 3376 section 4.1.1; RFC 3810 section
/// 5.1.3).
pub(crate) fn decode_time(code: u16, bits: u32) -> u64 {
    let (mantissa, exponent) = (u64::from(code) & ((1 << bits) - 1), (code >> bits) & 7);
    match code >> (bits + 3) {
        0 => u64::from(code),
        _ => (mantissa | (1 << bits)) << (exponent + 3),
    }
}

pub(crate) fn queried(group: Address) -> Result<Option<Address>, MembershipError> {
    match group {
        Address::V4(0) | Address::V6(0) => Ok(None),
        group if is_group(group) => Ok(Some(group)),
        _ => Err(MembershipError::Group),
    }
}

pub(crate) fn checksum(pseudo_header: u32, bytes: &[u8]) -> [u8; 2] {
    (!ones_complement(pseudo_header + words(bytes))).to_be_bytes()
}

/// Maximum length in bytes of a frame with a query.
pub const QUERY_LEN: usize = field::TAGGED_PAYLOAD as usize + mld::QUERY_LEN;
const FRAME_MIN: usize = 60;

impl Query {
    /// Writes a frame with this query (IGMPv3 or MLDv2, without sources and S flag) into `into`, and returns it.
    #[allow(clippy::cast_possible_truncation)] // IPv4 groups have 32 bits, as the part of IPv6 groups in a MAC address
    pub fn write<'a>(&self, mac: MacAddr, tag: Option<Tci>, into: &'a mut [u8; QUERY_LEN]) -> &'a [u8] {
        let (ipv4, ipv6);
        let (dst, ether_type, packet): (_, _, &[u8]) = match self.source {
            Address::V4(source) => {
                let group = self.group.map_or(0, |group| (group.bits() >> 96) as u32);
                let [_, b, c, d] = if group == 0 { [0, 0, 0, 1] } else { group.to_be_bytes() };
                ipv4 = igmp::query(source, group, self);
                ([1, 0, 0x5e, b & 0x7f, c, d], EtherTypes::Ipv4, &ipv4)
            }
            Address::V6(source) => {
                let group = self.group.map_or(0, Address::bits);
                let [a, b, c, d] = if group == 0 { [0, 0, 0, 1] } else { (group as u32).to_be_bytes() };
                ipv6 = mld::query(source, group, self);
                ([0x33, 0x33, a, b, c, d], EtherTypes::Ipv6, &ipv6)
            }
        };
        into.fill(0);
        into[field::DST].copy_from_slice(&dst);
        into[field::SRC].copy_from_slice(&mac.0);
        let mut at = field::ETHER_TYPE;
        if let Some(Tci(tci)) = tag {
            into[at].copy_from_slice(&EtherTypes::Vlan.0.to_be_bytes());
            into[field::TCI].copy_from_slice(&tci.to_be_bytes());
            at = field::TAGGED_ETHER_TYPE;
        }
        let payload = at.end;
        into[at].copy_from_slice(&ether_type.0.to_be_bytes());
        into[payload..][..packet.len()].copy_from_slice(packet);
        &into[..(payload + packet.len()).max(FRAME_MIN)]
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

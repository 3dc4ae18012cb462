//! MLD (RFC 2710, RFC 3810) for a snooping bridge.

use super::{
    Change, MembershipError, Message, Query, Records, Role, checksum, decode_time, protocol, queried,
};
use crate::header::field::IPV6_LEN;
use crate::ip::{Address, words};
use crate::units::Nanos;

mod kind {
    pub const QUERY: u8 = 130;
    pub const REPORT_V1: u8 = 131;
    pub const DONE: u8 = 132;
    pub const REPORT_V2: u8 = 143;
}

#[inline]
pub(crate) fn role(message: &[u8]) -> Option<Role> {
    match *message.first()? {
        kind::QUERY => Some(Role::OfRouter),
        kind::REPORT_V1 | kind::DONE | kind::REPORT_V2 => Some(Role::Report),
        _ => None,
    }
}

fn has_router_alert(packet: &[u8]) -> bool {
    let Some([_, len, rest @ ..]) = packet.get(IPV6_LEN..).filter(|_| packet[6] == protocol::HOP_BY_HOP)
    else {
        return false;
    };
    let mut options = rest.get(..6 + 8 * usize::from(*len)).unwrap_or_default();
    loop {
        options = match options {
            [5, 2, 0, 0, ..] => return true,
            [0, rest @ ..] => rest,
            [_, len, rest @ ..] => rest.get(usize::from(*len)..).unwrap_or_default(),
            _ => return false,
        };
    }
}

pub(crate) fn parse<'a>(
    source: Address,
    packet: &[u8],
    message: &'a [u8],
) -> Result<Message<'a>, MembershipError> {
    let kind = message.first().copied().ok_or(MembershipError::Truncated)?;
    let is_link_local = matches!(source, Address::V6(source) if source >> 118 == 0xfe80 >> 6);
    // Accept reports without a source address, because a host without an address reports, too (RFC 3590).
    let may_lack_source = kind != kind::QUERY && source == Address::V6(0);
    if role(message).is_some() {
        if packet[7] != 1 || !is_link_local && !may_lack_source {
            return Err(MembershipError::Source);
        }
        if !has_router_alert(packet) {
            return Err(MembershipError::RouterAlert);
        }
    }
    if kind == kind::REPORT_V2 {
        return Records::list(message, true).map(Message::Records);
    }
    let (head, rest) = message.split_first_chunk::<24>().ok_or(MembershipError::Truncated)?;
    let group = Address::V6(u128::from_be_bytes(std::array::from_fn(|at| head[8 + at])));
    match kind {
        kind::REPORT_V1 => Records::single(group, Change::Join).map(Message::Records),
        kind::DONE => Records::single(group, Change::Leave).map(Message::Records),
        kind::QUERY => {
            let code = u16::from_be_bytes([head[4], head[5]]);
            let query = Query {
                source,
                group: queried(group)?,
                has_sources: false,
                suppresses: false,
                max_response: Nanos::from_millis(code.into()),
                robustness: None,
                interval: None,
            };
            Ok(Message::Query(match *rest {
                [] => query,
                [flags, interval, high, low, ..] => Query {
                    has_sources: [high, low] != [0, 0],
                    suppresses: flags & 8 != 0,
                    max_response: Nanos::from_millis(decode_time(code, 12)),
                    robustness: Some(flags & 7).filter(|&count| count > 0),
                    interval: Some(Nanos::from_secs(decode_time(interval.into(), 4))),
                    ..query
                },
                _ => return Err(MembershipError::Truncated),
            }))
        }
        _ => Err(MembershipError::Other),
    }
}

pub(crate) const QUERY_LEN: usize = IPV6_LEN + 8 + 28;

#[allow(clippy::cast_possible_truncation)] // the lengths are constants
pub(crate) fn query(source: u128, group: u128, query: &Query) -> [u8; QUERY_LEN] {
    const ALL_NODES: u128 = (0xff02 << 112) | 1;
    let dst = if group == 0 { ALL_NODES } else { group };
    let mut packet = [0; QUERY_LEN];
    let (header, message) = packet.split_at_mut(IPV6_LEN + 8);
    header[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, (QUERY_LEN - IPV6_LEN) as u8, protocol::HOP_BY_HOP, 1]);
    header[8..24].copy_from_slice(&source.to_be_bytes());
    header[24..40].copy_from_slice(&dst.to_be_bytes());
    header[40..].copy_from_slice(&[protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0]); // Router Alert and padding
    let code = u16::try_from(query.max_response.0 / 1_000_000).unwrap_or(u16::MAX).min(0x7fff);
    let interval = query.interval.unwrap_or_default().0 / 1_000_000_000;
    message[0] = kind::QUERY;
    message[4..6].copy_from_slice(&code.to_be_bytes());
    message[8..24].copy_from_slice(&group.to_be_bytes());
    message[24] = query.robustness.unwrap_or(0) & 7;
    message[25] = u8::try_from(interval).unwrap_or(u8::MAX).min(127);
    let pseudo_header = words(&header[8..40]) + message.len() as u32 + u32::from(protocol::ICMPV6);
    let checked = checksum(pseudo_header, message);
    message[2..4].copy_from_slice(&checked);
    packet
}

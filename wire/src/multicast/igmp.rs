//! IGMP (RFC 1112, RFC 2236, RFC 3376) for a snooping bridge.

use super::{
    Change, MembershipError, Message, Query, Records, Role, checksum, decode_time, protocol, queried,
};
use crate::header::field::IPV4_LEN;
use crate::ip::Address;
use crate::units::Nanos;

mod kind {
    pub const QUERY: u8 = 0x11;
    pub const REPORT_V1: u8 = 0x12;
    pub const REPORT_V2: u8 = 0x16;
    pub const LEAVE: u8 = 0x17;
    pub const REPORT_V3: u8 = 0x22;
}

/// Maximum response time assumed for IGMPv1 queries, which carry none.
const RESPONSE_V1: Nanos = Nanos::from_secs(10);

#[inline]
pub(crate) fn role(message: &[u8]) -> Option<Role> {
    match *message.first()? {
        kind::QUERY => Some(Role::OfRouter),
        kind::REPORT_V1 | kind::REPORT_V2 | kind::LEAVE | kind::REPORT_V3 => Some(Role::Report),
        _ => Some(Role::Flooded),
    }
}

pub(crate) fn parse(source: Address, message: &[u8]) -> Result<Message<'_>, MembershipError> {
    let &[kind, code, _, _, a, b, c, d, ref rest @ ..] = message else {
        return Err(MembershipError::Truncated);
    };
    let group = Address::V4(u32::from_be_bytes([a, b, c, d]));
    match kind {
        kind::REPORT_V1 | kind::REPORT_V2 => Records::single(group, Change::Join).map(Message::Records),
        kind::LEAVE => Records::single(group, Change::Leave).map(Message::Records),
        kind::REPORT_V3 => Records::list(message, false).map(Message::Records),
        kind::QUERY => {
            let group = queried(group)?;
            let tenths = |count: u64| Nanos::from_millis(100 * count);
            let query = Query {
                source,
                group,
                has_sources: false,
                suppresses: false,
                max_response: tenths(code.into()),
                robustness: None,
                interval: None,
            };
            Ok(Message::Query(match *rest {
                [] if code == 0 => Query { max_response: RESPONSE_V1, ..query },
                [] => query,
                [flags, interval, high, low, ..] => Query {
                    has_sources: [high, low] != [0, 0],
                    suppresses: flags & 8 != 0,
                    max_response: tenths(decode_time(code.into(), 4)),
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

pub(crate) const QUERY_LEN: usize = IPV4_LEN + 4 + 12;

#[allow(clippy::cast_possible_truncation)] // the length is a constant
pub(crate) fn query(source: u32, group: u32, query: &Query) -> [u8; QUERY_LEN] {
    const ALL_HOSTS: u32 = 0xe000_0001;
    let dst = if group == 0 { ALL_HOSTS } else { group };
    let mut packet = [0; QUERY_LEN];
    let (header, message) = packet.split_at_mut(IPV4_LEN + 4);
    header[..4].copy_from_slice(&[0x46, 0xc0, 0, QUERY_LEN as u8]);
    header[8..10].copy_from_slice(&[1, protocol::IGMP]); // TTL
    header[12..16].copy_from_slice(&source.to_be_bytes());
    header[16..20].copy_from_slice(&dst.to_be_bytes());
    header[20..24].copy_from_slice(&[0x94, 4, 0, 0]); // Router Alert
    let checked = checksum(0, header);
    header[10..12].copy_from_slice(&checked);
    let code = |span: Nanos, unit: Nanos| u8::try_from(span.0 / unit.0).unwrap_or(u8::MAX).min(127);
    message[0] = kind::QUERY;
    message[1] = code(query.max_response, Nanos::from_millis(100));
    message[4..8].copy_from_slice(&group.to_be_bytes());
    message[8] = query.robustness.unwrap_or(0) & 7;
    message[9] = code(query.interval.unwrap_or_default(), Nanos::from_secs(1));
    let checked = checksum(0, message);
    message[2..4].copy_from_slice(&checked);
    packet
}

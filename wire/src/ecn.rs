//! Explicit congestion notification (ECN) in the IP header (RFC 3168).
//!
//! Marking changes ECT(0) or ECT(1) to CE. A wrong IPv4 checksum stays wrong, because it is updated incrementally.

use pnet_packet::ethernet::EtherTypes;

use super::dscp;
use super::header::Header;

const MASK: u8 = 0b11;

/// Value of the two ECN bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable: bits 00, or not an IP packet.
    NotCapable,
    /// ECN-capable, ECT(0) or ECT(1): bits 10 or 01.
    Capable,
    /// Congestion experienced (CE): bits 11.
    Congested,
}

/// Returns a frame's ECN bits.
#[must_use]
pub fn get(head: &[u8], header: &Header) -> Ecn {
    if header.dscp.is_none() {
        return Ecn::NotCapable;
    }
    let second = head[usize::from(header.l3) + 1];
    let bits = if header.ether_type == EtherTypes::Ipv4 { second } else { second >> 4 } & MASK;
    match bits {
        0b00 => Ecn::NotCapable,
        MASK => Ecn::Congested,
        _ => Ecn::Capable,
    }
}

/// Marks an ECN-capable frame as congested. Returns whether the frame changed.
pub fn mark(head: &mut [u8], header: &Header) -> bool {
    if get(head, header) != Ecn::Capable {
        return false;
    }
    let ip = &mut head[usize::from(header.l3)..];
    if header.ether_type == EtherTypes::Ipv4 {
        let marked = ip[1] | MASK;
        dscp::set_type_of_service(ip, marked);
    } else {
        ip[1] |= MASK << 4;
    }
    true
}

// Tests for SPECIFICATION.md: ecn
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pnet_packet::ipv4::{Ipv4Packet, checksum};
    use pnet_packet::ipv6::Ipv6Packet;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{frame_bytes, ipv4_frame};
    use xoff_explore::explore;

    explore! {
        #[test]
        fn ipv4_ecn_mark_updates_checksum(
            mut rest in any::<[u8; 19]>(), tagged: bool, ect in 1u8..=2
        ) {
            rest[0] = rest[0] & !MASK | ect;
            let (mut bytes, l3) = ipv4_frame(rest, tagged);
            let before = bytes.clone();

            let header = Header::parse(&bytes).unwrap();
            prop_assert_eq!(get(&bytes, &header), Ecn::Capable);
            prop_assert!(mark(&mut bytes, &header));
            prop_assert_eq!(get(&bytes, &header), Ecn::Congested);
            let ip = Ipv4Packet::new(&bytes[l3..]).unwrap();
            prop_assert_eq!(ip.get_checksum(), checksum(&ip));
            prop_assert_eq!(Header::parse(&bytes).unwrap().dscp, header.dscp);
            let mut expected = before;
            expected[l3 + 1] |= MASK;
            expected[l3 + 10..l3 + 12].copy_from_slice(&ip.get_checksum().to_be_bytes());
            prop_assert_eq!(&bytes, &expected, "a mark must change only ECN bits and checksum");
            prop_assert!(!mark(&mut bytes, &header), "a marked frame must not be marked again");
        }

        #[test]
        fn ipv6_mark_changes_only_the_ecn_bits(rest in any::<[u8; 39]>(), low in 0u8..16, ect in 1u8..=2) {
            let mut bytes = vec![2; 12];
            bytes.extend([0x86, 0xdd, 0x60 | low]);
            bytes.extend(rest);
            bytes[15] = bytes[15] & 0xcf | ect << 4;
            let header = Header::parse(&bytes).unwrap();
            let before = bytes.clone();
            prop_assert!(mark(&mut bytes, &header));
            let (old, new) = (Ipv6Packet::new(&before[14..]).unwrap(), Ipv6Packet::new(&bytes[14..]).unwrap());
            prop_assert_eq!(new.get_traffic_class(), old.get_traffic_class() | MASK);
            prop_assert_eq!(old.get_flow_label(), new.get_flow_label());
            prop_assert_eq!(&before[16..], &bytes[16..]);
        }

        #[test]
        fn frame_that_is_not_ecn_capable_is_never_marked(mut bytes in frame_bytes()) {
            let Ok(header) = Header::parse(&bytes) else { return Ok(()) };
            let before = bytes.clone();
            let was = get(&bytes, &header);
            prop_assert_eq!(mark(&mut bytes, &header), was == Ecn::Capable);
            prop_assert!(was == Ecn::Capable || before == bytes);
        }
    }
}

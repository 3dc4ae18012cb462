//! Rewriting of a packet's DSCP.
//!
//! A wrong IPv4 checksum stays wrong, because it is updated incrementally (RFC 1624).

use pnet_packet::ethernet::EtherTypes;

use super::header::Header;

mod field {
    use std::ops::Range;

    /// Bytes of the IP header's first word, which holds the DSCP.
    pub const FIRST_WORD: Range<usize> = 0..2;
    pub const CHECKSUM: Range<usize> = 10..12;
}

/// Sets the DSCP of an IP frame to the low six bits of `dscp`; other frames stay unchanged.
pub fn set(head: &mut [u8], header: &Header, dscp: u8) {
    if header.dscp.is_none() {
        return;
    }
    let dscp = dscp & 63;
    let ip = &mut head[usize::from(header.l3)..];
    if header.ether_type == EtherTypes::Ipv4 {
        let value = dscp << 2 | ip[1] & 0x03;
        set_type_of_service(ip, value);
    } else {
        ip[0] = ip[0] & 0xf0 | dscp >> 2;
        ip[1] = ip[1] & 0x3f | dscp << 6;
    }
}

pub(super) fn set_type_of_service(ip: &mut [u8], value: u8) {
    let before = word(ip, field::FIRST_WORD);
    ip[1] = value;
    let after = word(ip, field::FIRST_WORD);
    let checksum = mended(word(ip, field::CHECKSUM), before, after);
    ip[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
}

fn mended(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) as u16)
}

fn word(ip: &[u8], at: std::ops::Range<usize>) -> u16 {
    u16::from_be_bytes([ip[at.start], ip[at.start + 1]])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pnet_packet::ipv4::{Ipv4Packet, checksum};
    use pnet_packet::ipv6::Ipv6Packet;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::ipv4_frame;
    use xoff_explore::explore;

    explore! {
        #[test]
        fn ipv4_dscp_rewrite_updates_checksum(
            rest in any::<[u8; 19]>(), tagged: bool, dscp in 0u8..64
        ) {
            let (mut bytes, l3) = ipv4_frame(rest, tagged);
            let before = bytes.clone();

            let header = Header::parse(&bytes).unwrap();
            set(&mut bytes, &header, dscp);
            prop_assert_eq!(Header::parse(&bytes).unwrap().dscp, Some(dscp));
            let ip = Ipv4Packet::new(&bytes[l3..]).unwrap();
            prop_assert_eq!(ip.get_checksum(), checksum(&ip));
            set(&mut bytes, &header, header.dscp.unwrap());
            prop_assert_eq!(bytes, before, "the packet must be unchanged after the old DSCP is restored");
        }

        #[test]
        fn ipv6_rewrite_changes_only_the_dscp(rest in any::<[u8; 39]>(), low in 0u8..16, dscp in 0u8..64) {
            let mut bytes = vec![2; 12];
            bytes.extend([0x86, 0xdd, 0x60 | low]);
            bytes.extend(rest);
            let before = bytes.clone();
            let header = Header::parse(&bytes).unwrap();
            set(&mut bytes, &header, dscp);
            prop_assert_eq!(Header::parse(&bytes).unwrap().dscp, Some(dscp));
            let (old, new) = (Ipv6Packet::new(&before[14..]).unwrap(), Ipv6Packet::new(&bytes[14..]).unwrap());
            prop_assert_eq!(old.get_traffic_class() & 3, new.get_traffic_class() & 3, "ECN bits changed");
            prop_assert_eq!(old.get_flow_label(), new.get_flow_label());
            set(&mut bytes, &header, header.dscp.unwrap());
            prop_assert_eq!(bytes, before);
        }
    }

    #[test]
    fn wrong_ipv4_checksum_stays_wrong_after_rewrite() {
        let mut bytes = [0; 34];
        bytes[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x00]);
        bytes[24..26].copy_from_slice(&[0x12, 0x34]);
        let header = Header::parse(&bytes).unwrap();
        set(&mut bytes, &header, 1);
        assert_eq!(bytes[24..26], [0x12, 0x30]);
    }

    #[test]
    fn dscp_rewrite_leaves_non_ip_frame_unchanged() {
        let mut bytes = [7; 64];
        let header = Header::parse(&bytes).unwrap();
        set(&mut bytes, &header, 46);
        assert_eq!(bytes, [7; 64]);
    }
}

//! Parses Ethernet headers, finds the class of a frame, and rewrites the fields that a switch may change.

use crate::defects::{Defect, Defects};

pub type Address = [u8; 6];

pub const CLASSES: usize = 8;
pub const TYPE_VLAN: u16 = 0x8100;
const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const CE: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub destination: Address,
    pub source: Address,
    pub tci: Option<u16>,
    pub ethertype: u16,
    /// Offset of the first byte after the EtherType.
    pub payload: usize,
}

impl Header {
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Header> {
        let destination = bytes.get(0..6)?.try_into().ok()?;
        let source = bytes.get(6..12)?.try_into().ok()?;
        let outer = word(bytes, 12)?;
        let is_tagged = outer == TYPE_VLAN;
        let tci = if is_tagged { Some(word(bytes, 14)?) } else { None };
        let ethertype = if is_tagged { word(bytes, 16)? } else { outer };
        Some(Header { destination, source, tci, ethertype, payload: if is_tagged { 18 } else { 14 } })
    }

    #[must_use]
    pub const fn is_group(&self) -> bool {
        self.destination[0] & 1 == 1
    }

    /// Returns true if bridges must not forward frames to the destination (01:80:c2:00:00:00 to 0f).
    #[must_use]
    pub fn is_link_local(&self) -> bool {
        self.destination[..5] == [0x01, 0x80, 0xc2, 0, 0] && self.destination[5] < 16
    }

    /// Returns the byte with DSCP (upper six bits) and ECN (lower two) of an IP packet.
    #[must_use]
    pub fn traffic_class(&self, bytes: &[u8]) -> Option<u8> {
        match self.ethertype {
            TYPE_IPV4 => bytes.get(self.payload + 1).copied(),
            TYPE_IPV6 => word(bytes, self.payload).map(|word| (word >> 4).to_be_bytes()[1]),
            _ => None,
        }
    }

    /// Replaces the byte with DSCP and ECN of an IP packet, and corrects the IPv4 checksum.
    pub fn set_traffic_class(&self, bytes: &mut [u8], value: u8) {
        let at = self.payload;
        if self.ethertype == TYPE_IPV6 {
            bytes[at] = bytes[at] & 0xf0 | value >> 4;
            bytes[at + 1] = bytes[at + 1] & 0x0f | value << 4;
        } else if self.ethertype == TYPE_IPV4 && bytes.len() >= at + 20 {
            bytes[at + 1] = value;
            bytes[at + 10..at + 12].fill(0);
            let end = (at + 4 * usize::from(bytes[at] & 0xf)).min(bytes.len());
            let sum = checksum(&bytes[at..end]);
            bytes[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
        }
    }

    /// Returns the frame's class: PCP of a tagged frame, DSCP / 8 of an untagged IP packet, else 0.
    #[must_use]
    pub fn class(&self, bytes: &[u8], defects: Defects) -> usize {
        match (self.tci, self.traffic_class(bytes)) {
            (Some(tci), _) => match usize::from(tci >> 13) {
                4 if defects.has(Defect::PcpFourIsThree) => 3,
                pcp => pcp,
            },
            (None, Some(byte)) => {
                let dscp = if defects.has(Defect::DscpShifted) { byte & 0x3f } else { byte >> 2 };
                if dscp == 31 && defects.has(Defect::DscpOneWrong) { 2 } else { usize::from(dscp / 8) }
            }
            (None, None) => 0,
        }
    }

    #[must_use]
    pub fn ingress_class(&self, bytes: &[u8], defects: Defects) -> usize {
        let dscp = self.traffic_class(bytes).filter(|_| self.tci.is_none()).map(|byte| byte >> 2);
        match (dscp, self.tci.map(|tci| tci >> 13)) {
            (Some(27), _) if defects.has(Defect::IngressMapDiffers) => 4,
            (Some(63), _) if defects.has(Defect::Dscp63Wrong) => 3,
            (_, Some(3)) if defects.has(Defect::PcpIngressDiffers) => 4,
            _ => self.class(bytes, defects),
        }
    }

    pub fn mark_congestion(&self, bytes: &mut [u8], defects: Defects) {
        let Some(byte) = self.traffic_class(bytes) else { return };
        if byte & CE != 0 && defects.has(Defect::MarkChecksum) && self.ethertype == TYPE_IPV4 {
            bytes[self.payload + 1] = byte | CE;
        } else if byte & CE != 0 || defects.has(Defect::MarksNotEct) {
            self.set_traffic_class(bytes, byte | CE);
        }
    }

    pub fn rewrite(&self, bytes: &mut Vec<u8>, defects: Defects) {
        if defects.has(Defect::ClearsDscp)
            && let Some(byte) = self.traffic_class(bytes)
        {
            self.set_traffic_class(bytes, byte & CE);
        }
        if defects.has(Defect::ClearsEcn)
            && let Some(byte) = self.traffic_class(bytes)
        {
            self.set_traffic_class(bytes, byte & !CE);
        }
        if self.tci.is_some() && defects.has(Defect::ForgetsPriority) {
            bytes[14] &= 0x1f;
        }
        if self.tci.is_some() && defects.has(Defect::StripsTag) {
            bytes.drain(12..16);
        }
        if bytes.len() > 4_000 && defects.has(Defect::CorruptsJumbo) {
            bytes[3_900] ^= 0x10;
        }
    }
}

#[must_use]
pub fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[allow(clippy::cast_possible_truncation)] // the sum is folded to 16 bits
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub mod tests {
    use super::*;

    /// Builds an IPv4 packet of 60 bytes (64 with a tag) from host number `source` to host number `destination`.
    pub fn packet(source: u8, destination: u8, tos: u8, pcp: Option<u8>) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, source];
        if let Some(pcp) = pcp {
            bytes.extend([0x81, 0, pcp << 5, 5]);
        }
        bytes.extend([8, 0, 0x45, tos, 0, 46, 0, 0, 0, 0, 64, 17]);
        bytes.resize(bytes.len() + 36, 0);
        bytes
    }

    #[test]
    fn tagged_frame_takes_class_from_pcp_and_untagged_from_dscp() {
        for (tos, pcp, expected) in
            [(0, None, 0), (26 << 2, None, 3), (63 << 2, None, 7), (26 << 2, Some(5), 5)]
        {
            let bytes = packet(1, 2, tos, pcp);
            let header = Header::parse(&bytes).unwrap();
            assert_eq!(header.class(&bytes, Defects::default()), expected, "{tos} {pcp:?}");
            assert_eq!(header.ingress_class(&bytes, Defects::default()), expected, "{tos} {pcp:?}");
        }
        let arp = [[0xff; 12].as_slice(), &[8, 6], &[0xff; 40]].concat();
        assert_eq!(Header::parse(&arp).unwrap().class(&arp, Defects::default()), 0);
        assert_eq!(Header::parse(&arp[..13]), None);
    }

    #[test]
    fn ecn_marked_packet_keeps_valid_checksum() {
        for (ecn, marked) in [(0, 0), (1, 3), (2, 3), (3, 3)] {
            let mut bytes = packet(1, 2, 26 << 2 | ecn, None);
            let header = Header::parse(&bytes).unwrap();
            header.set_traffic_class(&mut bytes, 26 << 2 | ecn); // sets a valid checksum
            header.mark_congestion(&mut bytes, Defects::default());
            assert_eq!(header.traffic_class(&bytes), Some(26 << 2 | marked));
            assert_eq!(checksum(&bytes[14..34]), 0);
        }
    }
}

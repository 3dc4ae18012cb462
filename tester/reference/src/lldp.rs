//! Builds a port's LLDP frame with DCBX's TLVs for PFC and applications (IEEE 802.1Q annex D.2.10, D.2.11).

use crate::defects::{Defect, Defects};
use crate::frame::Address;

pub const INTERVAL_NS: u64 = 1_000_000_000;
const DESTINATION: Address = [0x01, 0x80, 0xc2, 0, 0, 0x0e];
const TTL_S: u16 = 4;
const OUI_8021: [u8; 3] = [0x00, 0x80, 0xc2];
const SUBTYPE_PFC: u8 = 0x0b;
const SUBTYPE_APPLICATIONS: u8 = 0x0c;
const SELECTOR_DSCP: u8 = 5;
const CLASSES_MAX: u8 = 8;

#[must_use]
pub fn build(name: &str, source: Address, lossless: u8, defects: Defects) -> Option<Vec<u8>> {
    if defects.has(Defect::LldpSilent) {
        return None;
    }
    let enabled = if defects.has(Defect::LldpOtherClasses) {
        lossless.rotate_left(1)
    } else if defects.has(Defect::LldpAll) {
        0xff
    } else {
        lossless
    };
    let mut bytes = Vec::with_capacity(64);
    bytes.extend(DESTINATION);
    bytes.extend(source);
    bytes.extend([0x88, 0xcc]);
    tlv(&mut bytes, 1, &[&[4], source.as_slice()].concat());
    tlv(&mut bytes, 2, &[&[5], name.as_bytes()].concat());
    tlv(&mut bytes, 3, &TTL_S.to_be_bytes());
    tlv(&mut bytes, 127, &[OUI_8021.as_slice(), &[SUBTYPE_PFC, CLASSES_MAX, enabled]].concat());
    let mut applications = [OUI_8021.as_slice(), &[SUBTYPE_APPLICATIONS, 0]].concat();
    for class in (0..CLASSES_MAX).filter(|class| lossless & 1 << class != 0) {
        applications.extend([class << 5 | SELECTOR_DSCP, 0, class * 8]);
    }
    tlv(&mut bytes, 127, &applications);
    tlv(&mut bytes, 0, &[]);
    bytes.resize(bytes.len().max(60), 0);
    Some(bytes)
}

fn tlv(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = u16::try_from(value.len()).unwrap_or(0) & 0x1ff;
    bytes.extend((kind << 9 | len).to_be_bytes());
    bytes.extend(value);
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lldp_tlvs_list_lossless_classes_and_their_dscp() {
        let bytes = build("p1", [2, 0, 0, 0, 0, 1], 0x18, Defects::default()).unwrap();
        let pfc = [0xfe, 6, 0, 0x80, 0xc2, 0x0b, 8, 0x18];
        let applications = [0xfe, 11, 0, 0x80, 0xc2, 0x0c, 0, 0x65, 0, 24, 0x85, 0, 32, 0, 0];
        let tlvs = [&pfc[..], &applications].concat();
        assert!(bytes.windows(tlvs.len()).any(|window| window == tlvs), "{bytes:02x?}");
        assert_eq!(build("p1", [0; 6], 0x18, [Defect::LldpSilent].into_iter().collect()), None);
    }
}

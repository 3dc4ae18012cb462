//! PFC frames (IEEE 802.1Q clause 36, IEEE 802.3 annex 31D): parser and builder.

use crate::defects::{Defect, Defects};
use crate::frame::{Address, CLASSES, Header, word};

pub const TYPE_MAC_CONTROL: u16 = 0x8808;
const DESTINATION: Address = [0x01, 0x80, 0xc2, 0, 0, 1];
const OPCODE_PAUSE: u16 = 0x0001;
const OPCODE_PFC: u16 = 0x0101;
/// Minimum length of a PFC frame: from the destination address to the last pause time, in bytes.
const LEN_MIN: usize = 34;
const LEN: usize = 60;

/// Classes that a PFC frame enables, and their pause times in quanta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pfc {
    pub vector: u8,
    pub times: [u16; CLASSES],
}

impl Pfc {
    pub const fn set(&mut self, class: usize, time: u16) {
        self.vector |= 1 << class;
        self.times[class] = time;
    }

    #[must_use]
    pub const fn has(&self, class: usize) -> bool {
        self.vector & 1 << class != 0
    }
}

/// Parses a PFC frame that the port must obey; `None` for any other frame.
#[must_use]
pub fn parse(bytes: &[u8], header: &Header, defects: Defects) -> Option<Pfc> {
    if header.destination != DESTINATION && !defects.has(Defect::WrongDestination)
        || header.tci.is_some() && !defects.has(Defect::Tagged)
        || header.ethertype != TYPE_MAC_CONTROL && !defects.has(Defect::WrongType)
    {
        return None;
    }
    let body = &bytes[header.payload..];
    let opcode = word(body, 0)?;
    if opcode == OPCODE_PAUSE && defects.has(Defect::ObeysPause) {
        return Some(Pfc { vector: 0xff, times: [word(body, 2)?; CLASSES] });
    }
    if opcode != OPCODE_PFC && !defects.has(Defect::WrongOpcode) {
        return None;
    }
    if bytes.len() < LEN_MIN && !defects.has(Defect::Truncated)
        || body.get(2)? != &0 && defects.has(Defect::StrictReserved)
        || header.source == [0; 6] && defects.has(Defect::StrictSource)
        || body[20.min(body.len())..].iter().any(|&byte| byte != 0) && defects.has(Defect::StrictPadding)
    {
        return None;
    }
    let mut pfc = Pfc { vector: *body.get(3)?, times: [0; CLASSES] };
    for (class, time) in pfc.times.iter_mut().enumerate() {
        // Frames that lack some pause times get here only with the defect `truncated`.
        *time = word(body, 4 + 2 * class).unwrap_or(u16::MAX);
        if *time > 0 && defects.has(Defect::VectorIgnored) {
            pfc.vector |= 1 << class;
        }
        if defects.has(Defect::TimeSwapped) {
            *time = time.swap_bytes();
        }
        if defects.has(Defect::TimeLowByte) {
            *time &= 0xff;
        }
    }
    if pfc.vector == 0 && defects.has(Defect::EmptyVector) {
        pfc = Pfc { vector: 0xff, times: [u16::MAX; CLASSES] };
    }
    if defects.has(Defect::LowestClassOnly) {
        pfc.vector &= pfc.vector.wrapping_neg();
    }
    Some(pfc)
}

#[must_use]
pub fn build(pfc: &Pfc, source: Address, defects: Defects) -> Vec<u8> {
    let mut destination = DESTINATION;
    if defects.has(Defect::OtherDestination) {
        destination[5] = 2;
    }
    if defects.has(Defect::BroadcastDestination) {
        destination = [0xff; 6];
    }
    let source = match source {
        _ if defects.has(Defect::SourceZero) => [0; 6],
        [first, rest @ ..] if defects.has(Defect::SourceOfOther) => {
            let [a, b, c, d, e] = rest;
            [first | 1, a, b, c, d, e]
        }
        source => source,
    };
    let opcode = if defects.has(Defect::OtherOpcode) { 0x1001 } else { OPCODE_PFC };
    let mut bytes = Vec::with_capacity(LEN + 4);
    bytes.extend(destination);
    bytes.extend(source);
    if defects.has(Defect::SendsTagged) {
        bytes.extend([0x81, 0, 0xe0, 0]);
    }
    bytes.extend(TYPE_MAC_CONTROL.to_be_bytes());
    bytes.extend(opcode.to_be_bytes());
    bytes.extend([u8::from(defects.has(Defect::ReservedSet)), pfc.vector]);
    let mut times = pfc.times;
    if defects.has(Defect::TimeOtherSlot) {
        times.reverse();
    }
    for time in times {
        let time = if defects.has(Defect::TimeSwappedSent) { time.swap_bytes() } else { time };
        bytes.extend(time.to_be_bytes());
    }
    if !defects.has(Defect::ShortPfc) {
        bytes.resize(bytes.len() - LEN_MIN + LEN, if defects.has(Defect::DirtyPadding) { 0xa5 } else { 0 });
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Address = [2, 0, 0, 0, 0, 9];

    fn parsed(bytes: &[u8], defects: &[Defect]) -> Option<Pfc> {
        parse(bytes, &Header::parse(bytes)?, defects.iter().copied().collect())
    }

    fn pfc() -> Pfc {
        let mut pfc = Pfc::default();
        pfc.set(3, 0x1234);
        pfc.set(7, 0);
        pfc
    }

    #[test]
    fn built_pfc_frame_has_the_bytes_of_the_standard() {
        let mut expected = vec![1, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 8, 1, 1, 0, 0b1000_1000];
        expected.extend([0, 0, 0, 0, 0, 0, 0x12, 0x34]);
        expected.resize(60, 0);
        assert_eq!(build(&pfc(), SOURCE, Defects::default()), expected);
        assert_eq!(parsed(&expected, &[]), Some(pfc()));
    }

    #[test]
    fn malformed_pfc_frame_is_ignored_without_a_parser_defect() {
        let changed = |at: usize, value: u8| {
            let mut bytes = build(&pfc(), SOURCE, Defects::default());
            bytes[at] = value;
            bytes
        };
        let tagged = build(&pfc(), SOURCE, [Defect::SendsTagged].into_iter().collect());
        let table = [
            (changed(5, 2), Defect::WrongDestination),
            (changed(13, 9), Defect::WrongType),
            (changed(14, 2), Defect::WrongOpcode),
            (changed(15, 0), Defect::WrongOpcode),
            (tagged, Defect::Tagged),
            (changed(0, 1)[..33].to_vec(), Defect::Truncated),
        ];
        for (bytes, defect) in table {
            assert_eq!(parsed(&bytes, &[]), None, "{defect:?}");
            assert!(parsed(&bytes, &[defect]).is_some(), "{defect:?}");
        }
        for (bytes, strict) in
            [(changed(16, 1), Defect::StrictReserved), (changed(59, 1), Defect::StrictPadding)]
        {
            assert_eq!(parsed(&bytes, &[]), Some(pfc()));
            assert_eq!(parsed(&bytes, &[strict]), None);
        }
    }
}

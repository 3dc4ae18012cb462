//! MAC control: PFC (802.1Qbb) and PAUSE (802.3x).
//!
//! A malformed frame must pause nothing. A zero source address, a known bug of some senders, is accepted. The reserved
//! byte of the class-enable vector, times of disabled classes, and padding are ignored.

use pnet_packet::ethernet::EtherTypes;

use super::header::{Header, field as ethernet};
use crate::units::{CLASSES, Class, ClassSet, MacAddr, Quanta};

/// Length of a MAC control frame in bytes, without FCS.
pub const LEN: usize = 60;
/// Destination of PFC and PAUSE frames.
pub const DESTINATION: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);

mod field {
    use std::ops::Range;

    pub const OPCODE: Range<usize> = 0..2;
    /// Low byte of the class-enable vector, whose high byte is reserved.
    pub const CLASSES: usize = 3;
    pub const TIMES: Range<usize> = 4..20;
    pub const PAUSE_TIME: Range<usize> = 2..4;

    pub const OPCODE_PAUSE: u16 = 0x0001;
    pub const OPCODE_PFC: u16 = 0x0101;
}

/// MAC control frame that the switch understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacControl {
    /// PFC (802.1Qbb): pauses or resumes enabled classes.
    Pfc(Pfc),
    /// PAUSE (802.3x): pauses or resumes the link.
    Pause(Quanta),
}

/// Contents of a PFC frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Pfc {
    pub classes: ClassSet,
    /// Pause time by class; zero resumes. Disabled classes have zero.
    pub times: [Quanta; CLASSES],
}

/// Reason for refusing a MAC control frame.
#[allow(missing_docs)] // the messages say it
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MacControlError {
    #[error("the MAC control frame has a VLAN tag or CN-TAG")]
    Tagged,
    #[error("the MAC control frame has another destination than 01:80:c2:00:00:01")]
    WrongDestination,
    #[error("the MAC control opcode is neither PFC (0x0101) nor PAUSE (0x0001)")]
    UnknownOpcode,
    #[error("the MAC control frame ends before its last field")]
    Truncated,
    #[error("the PFC frame has a malformed OFC list of flows")]
    FlowList,
    /// PFC frame whose rates ([`super::gfc`]) are truncated, below the lowest rate, or combined with a pause.
    #[error("the PFC frame has malformed GFC rates")]
    Rates,
}

impl MacControl {
    /// Returns whether a frame is MAC control, which every station consumes.
    #[inline]
    #[must_use]
    pub fn is_mac_control(header: &Header) -> bool {
        header.ether_type == EtherTypes::FlowControl
    }

    /// Parses a frame that [`MacControl::is_mac_control`] accepts.
    ///
    /// # Errors
    /// Returns the reason if the frame must pause nothing.
    pub fn parse(header: &Header, head: &[u8]) -> Result<MacControl, MacControlError> {
        if header.tag.is_some() || header.cn_tag.is_some() {
            return Err(MacControlError::Tagged);
        }
        if header.dst != DESTINATION {
            return Err(MacControlError::WrongDestination);
        }
        let control = header.payload(head);
        match be16(control, field::OPCODE)? {
            field::OPCODE_PFC => Pfc::parse(control).map(MacControl::Pfc),
            field::OPCODE_PAUSE => Ok(MacControl::Pause(Quanta(be16(control, field::PAUSE_TIME)?))),
            _ => Err(MacControlError::UnknownOpcode),
        }
    }

    /// Encodes a frame with source address `src`.
    #[must_use]
    pub fn encode(&self, src: MacAddr) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[ethernet::DST].copy_from_slice(&DESTINATION.0);
        bytes[ethernet::SRC].copy_from_slice(&src.0);
        bytes[ethernet::ETHER_TYPE].copy_from_slice(&EtherTypes::FlowControl.0.to_be_bytes());
        let control = &mut bytes[ethernet::PAYLOAD.into()..];
        match self {
            MacControl::Pfc(pfc) => {
                control[field::OPCODE].copy_from_slice(&field::OPCODE_PFC.to_be_bytes());
                pfc.encode(control);
            }
            MacControl::Pause(time) => {
                control[field::OPCODE].copy_from_slice(&field::OPCODE_PAUSE.to_be_bytes());
                control[field::PAUSE_TIME].copy_from_slice(&time.0.to_be_bytes());
            }
        }
        bytes
    }
}

impl Pfc {
    /// Adds a class with its pause time to the frame.
    #[must_use]
    pub const fn with(mut self, class: Class, time: Quanta) -> Pfc {
        self.classes.insert(class);
        self.times[class.index()] = time;
        self
    }

    /// Returns the enabled classes with their pause times, lowest class first.
    pub fn iter(&self) -> impl Iterator<Item = (Class, Quanta)> {
        let times = self.times;
        self.classes.iter().map(move |class| (class, times[class.index()]))
    }

    fn parse(control: &[u8]) -> Result<Pfc, MacControlError> {
        let times = control.get(field::TIMES).ok_or(MacControlError::Truncated)?;
        let classes = ClassSet(control[field::CLASSES]);
        let mut pfc = Pfc::default();
        for (class, time) in Class::ALL.into_iter().zip(times.chunks_exact(2)) {
            if classes.contains(class) {
                pfc = pfc.with(class, Quanta(u16::from_be_bytes([time[0], time[1]])));
            }
        }
        Ok(pfc)
    }

    fn encode(&self, control: &mut [u8]) {
        control[field::CLASSES] = self.classes.0;
        for (class, time) in self.iter() {
            let at = field::TIMES.start + 2 * class.index();
            control[at..at + 2].copy_from_slice(&time.0.to_be_bytes());
        }
    }
}

fn be16(control: &[u8], at: std::ops::Range<usize>) -> Result<u16, MacControlError> {
    match control.get(at) {
        Some(&[high, low]) => Ok(u16::from_be_bytes([high, low])),
        _ => Err(MacControlError::Truncated),
    }
}

named! { MacControlError {
    Tagged: "tagged",
    WrongDestination: "wrong_destination",
    UnknownOpcode: "unknown_opcode",
    Truncated: "truncated",
    FlowList: "flow_list",
    Rates: "rates",
} }

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::header::Tci;
    use crate::testing::frame_bytes;
    use xoff_explore::explore;

    const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn parse(bytes: &[u8]) -> Result<MacControl, MacControlError> {
        let header = Header::parse(bytes).unwrap();
        assert!(MacControl::is_mac_control(&header));
        MacControl::parse(&header, bytes)
    }

    fn xoff(class: usize, quanta: u16) -> MacControl {
        MacControl::Pfc(Pfc::default().with(Class::ALL[class], Quanta(quanta)))
    }

    #[test] // proves: pause-frames
    fn pfc_frame_bytes_match_standard() {
        let pfc = Pfc::default().with(Class::ALL[3], Quanta(0x1234)).with(Class::ALL[7], Quanta(0));
        let mut expected = [0; 60];
        expected[..18].copy_from_slice(&[
            0x01,
            0x80,
            0xc2,
            0,
            0,
            1,
            2,
            0,
            0,
            0,
            0,
            9,
            0x88,
            0x08,
            0x01,
            0x01,
            0,
            0b1000_1000,
        ]);
        expected[24..26].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(MacControl::Pfc(pfc).encode(SRC), expected);
    }

    #[test]
    fn pause_frame_bytes_match_standard() {
        let mut expected = [0; 60];
        expected[..18].copy_from_slice(&[
            0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0x00, 0x01, 0xab, 0xcd,
        ]);
        assert_eq!(MacControl::Pause(Quanta(0xabcd)).encode(SRC), expected);
        assert_eq!(parse(&expected), Ok(MacControl::Pause(Quanta(0xabcd))));
    }

    #[test] // "the last value wins": a receiver needs no earlier frame
    fn pfc_frame_keeps_its_pause_times_when_parsed() {
        for quanta in [100, 20, 0] {
            assert_eq!(parse(&xoff(3, quanta).encode(SRC)), Ok(xoff(3, quanta)));
        }
    }

    #[test]
    fn pfc_frame_without_classes_ignores_pause_times() {
        let mut bytes = xoff(0, 0).encode(SRC);
        bytes[17] = 0;
        bytes[18..34].fill(0xff);
        assert_eq!(parse(&bytes), Ok(MacControl::Pfc(Pfc::default())));
    }

    #[test]
    fn pfc_frame_with_zero_times_resumes_all_classes() {
        let mut bytes = xoff(0, 0).encode(SRC);
        bytes[17] = 0xff;
        let Ok(MacControl::Pfc(pfc)) = parse(&bytes) else { panic!("a PFC frame must be parsed as `Pfc`") };
        assert_eq!(pfc.classes, ClassSet::ALL);
        assert!(pfc.iter().all(|(_, time)| time == Quanta(0)));
    }

    #[test]
    fn reserved_byte_of_class_vector_is_ignored_and_sent_zero() {
        let mut bytes = xoff(3, 7).encode(SRC);
        assert_eq!(bytes[16], 0);
        bytes[16] = 0xff;
        assert_eq!(parse(&bytes), Ok(xoff(3, 7)));
    }

    #[test]
    fn pause_time_of_disabled_class_is_ignored() {
        let mut bytes = xoff(3, 7).encode(SRC);
        bytes[18..24].fill(0xff);
        bytes[26..34].fill(0xff);
        assert_eq!(parse(&bytes), Ok(xoff(3, 7)));
    }

    #[test] // a vendor's document has 0x1001
    fn unknown_mac_control_opcode_is_refused() {
        for opcode in [0x0000u16, 0x0002, 0x0100, 0x0102, 0x1001, 0xffff] {
            let mut bytes = xoff(3, 7).encode(SRC);
            bytes[14..16].copy_from_slice(&opcode.to_be_bytes());
            assert_eq!(parse(&bytes), Err(MacControlError::UnknownOpcode), "{opcode:#06x}");
        }
    }

    #[test]
    fn mac_control_to_another_destination_is_refused() {
        for (at, value) in [(0, 0x00), (5, 0x00), (5, 0x02), (5, 0x0e)] {
            let mut bytes = xoff(3, 7).encode(SRC);
            bytes[at] = value;
            assert_eq!(parse(&bytes), Err(MacControlError::WrongDestination));
        }
        let mut bytes = MacControl::Pause(Quanta(9)).encode(SRC);
        bytes[..6].copy_from_slice(&[0xff; 6]);
        assert_eq!(parse(&bytes), Err(MacControlError::WrongDestination));
    }

    #[test]
    fn pause_from_zero_source_address_is_accepted() {
        assert_eq!(parse(&xoff(3, 7).encode(MacAddr([0; 6]))), Ok(xoff(3, 7)));
    }

    #[test]
    fn pause_is_refused_if_truncated_but_not_if_padded() {
        let mut bytes = xoff(7, 7).encode(SRC);
        assert_eq!(parse(&bytes[..33]), Err(MacControlError::Truncated));
        assert_eq!(parse(&bytes[..34]), Ok(xoff(7, 7)));
        assert_eq!(parse(&bytes[..15]), Err(MacControlError::Truncated));
        bytes[34..].fill(0xff);
        assert_eq!(parse(&bytes), Ok(xoff(7, 7)));
        let pause = MacControl::Pause(Quanta(9));
        assert_eq!(parse(&pause.encode(SRC)[..17]), Err(MacControlError::Truncated));
        assert_eq!(parse(&pause.encode(SRC)[..18]), Ok(pause));
    }

    #[test]
    fn pause_with_vlan_tag_is_refused() {
        let plain = xoff(3, 7).encode(SRC);
        for tci in [Tci(0), Tci(0x6000), Tci(0x6005)] {
            let mut bytes = plain[..12].to_vec();
            bytes.extend([0x81, 0x00]);
            bytes.extend(tci.0.to_be_bytes());
            bytes.extend(&plain[12..]);
            assert_eq!(parse(&bytes), Err(MacControlError::Tagged));
        }
    }

    #[test]
    fn pause_with_cn_tag_is_refused() {
        let plain = xoff(3, 7).encode(SRC);
        let bytes = [&plain[..12], &[0x22, 0xe9, 0, 1], &plain[12..]].concat();
        assert_eq!(parse(&bytes), Err(MacControlError::Tagged));
    }

    explore! {
        #[test]
        fn encoded_pfc_frame_is_parsed_unchanged(vector: u8, times: [u16; 8], src: [u8; 6]) {
            let pfc = ClassSet(vector)
                .iter()
                .fold(Pfc::default(), |pfc, class| pfc.with(class, Quanta(times[class.index()])));
            let bytes = MacControl::Pfc(pfc).encode(MacAddr(src));
            prop_assert_eq!(parse(&bytes), Ok(MacControl::Pfc(pfc)));
            prop_assert_eq!(&bytes[6..12], &src);
            prop_assert!(bytes[34..].iter().all(|&byte| byte == 0));
        }

        #[test] // proves: configuration
        fn only_untagged_frame_to_reserved_address_is_a_pause(bytes in frame_bytes()) {
            if let Ok(header) = Header::parse(&bytes) {
                let read = MacControl::parse(&header, &bytes);
                prop_assert!(read.is_err() || header.dst == DESTINATION && header.tag.is_none());
            }
        }

        #[test]
        fn pause_with_unknown_opcode_is_never_parsed(contents in prop::collection::vec(any::<u8>(), 0..50)) {
            let mut bytes = MacControl::Pause(Quanta(0)).encode(SRC)[..14].to_vec();
            bytes.extend(&contents);
            let is_valid = [[0x00u8, 0x01], [0x01, 0x01]].iter().any(|opcode| contents.starts_with(opcode));
            if !is_valid {
                prop_assert!(parse(&bytes).is_err());
            }
        }
    }
}

//! LACP (IEEE 802.1AX clause 6.4.2): the two ends of a link agree on its aggregation (LAG). Also markers (clause 6.5),
//! to which an end responds.

use pnet_packet::ethernet::EtherType;

use super::Header;
use super::header::field;
use crate::units::MacAddr;

/// EtherType of slow protocols.
pub const SLOW_PROTOCOLS: EtherType = EtherType(0x8809);

/// Destination of slow protocols.
pub const SLOW_PROTOCOLS_ADDRESS: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x02]);

/// Length of an LACP or marker frame in bytes, without FCS.
pub const LEN: usize = 124;

const SUBTYPE: u8 = 1;
const MARKER_SUBTYPE: u8 = 2;
const VERSION: u8 = 1;

mod offset {
    pub const SUBTYPE: usize = 14;
    pub const VERSION: usize = 15;
    pub const ACTOR: usize = 16;
    pub const PARTNER: usize = 36;
    pub const COLLECTOR: usize = 56;
    pub const MARKER: usize = 16;
}

mod tlv {
    pub const ACTOR: [u8; 2] = [1, 20];
    pub const PARTNER: [u8; 2] = [2, 20];
    pub const COLLECTOR: [u8; 2] = [3, 16];
    pub const MARKER: [u8; 2] = [1, 16];
    pub const MARKER_RESPONSE: [u8; 2] = [2, 16];
}

/// Returns whether an untagged frame is LACP or a marker.
#[must_use]
pub fn is_lacp(header: &Header, head: &[u8]) -> bool {
    header.ether_type == SLOW_PROTOCOLS
        && header.dst == SLOW_PROTOCOLS_ADDRESS
        && header.l3 == field::PAYLOAD
        && matches!(header.payload(head), [SUBTYPE | MARKER_SUBTYPE, ..])
}

/// Returns whether a frame accepted by [`is_lacp`] is a marker or a response to one.
#[must_use]
pub fn is_marker(frame: &[u8]) -> bool {
    frame.get(offset::SUBTYPE) == Some(&MARKER_SUBTYPE)
}

/// Returns the response to a [marker](is_marker), from a port with MAC address `src`; `None` if the frame is no
/// request.
#[must_use]
pub fn marker_response(frame: &[u8], src: MacAddr) -> Option<[u8; LEN]> {
    let mut response = *frame.first_chunk::<LEN>()?;
    if response[offset::MARKER..][..2] != tlv::MARKER {
        return None;
    }
    response[6..12].copy_from_slice(&src.0);
    response[offset::MARKER..][..2].copy_from_slice(&tlv::MARKER_RESPONSE);
    Some(response)
}

/// Reason for rejecting an LACP frame.
#[allow(missing_docs)] // the messages say it
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LacpError {
    #[error("the LACP frame is shorter than 124 bytes")]
    Truncated,
    #[error("actor or partner of the LACP frame has a wrong type or length")]
    Layout,
}

named! { LacpError {
    Truncated: "truncated",
    Layout: "layout",
} }

/// State of a port, one bit for each property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State(pub u8);

impl State {
    /// The port sends LACP even to a passive partner.
    pub const ACTIVITY: State = State(1);
    /// The port requests a frame each second, and times out after three seconds.
    pub const SHORT_TIMEOUT: State = State(1 << 1);
    /// The port may be aggregated with others.
    pub const AGGREGATION: State = State(1 << 2);
    /// The port has joined the right aggregation group.
    pub const SYNCHRONIZATION: State = State(1 << 3);
    /// The port accepts data.
    pub const COLLECTING: State = State(1 << 4);
    /// The port sends data.
    pub const DISTRIBUTING: State = State(1 << 5);
    /// The port has received no frame, and assumes defaults about its partner.
    pub const DEFAULTED: State = State(1 << 6);
    /// The last frame from the port's partner is too old.
    pub const EXPIRED: State = State(1 << 7);

    const NAMES: [(State, &'static str); 8] = [
        (State::ACTIVITY, "active"),
        (State::SHORT_TIMEOUT, "short"),
        (State::AGGREGATION, "aggregatable"),
        (State::SYNCHRONIZATION, "in_sync"),
        (State::COLLECTING, "collecting"),
        (State::DISTRIBUTING, "distributing"),
        (State::DEFAULTED, "defaulted"),
        (State::EXPIRED, "expired"),
    ];

    /// Returns whether all of these bits are set.
    #[must_use]
    pub const fn has(self, bits: State) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Returns the state with these bits set or cleared.
    #[must_use]
    pub const fn with(self, bits: State, is_set: bool) -> State {
        State(if is_set { self.0 | bits.0 } else { self.0 & !bits.0 })
    }

    /// Returns the names of the bits that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        State::NAMES.into_iter().filter(move |(bit, _)| self.has(*bit)).map(|(_, name)| name)
    }
}

/// One end of a link, as LACP describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub struct End {
    /// Priority and address of the system; the system with the lower value decides about the aggregation.
    pub system: (u16, MacAddr),
    /// Aggregation key of the port: ports of one system with equal keys may be aggregated.
    pub key: u16,
    /// Priority and number of the port.
    pub port: (u16, u16),
    pub state: State,
}

impl End {
    /// Returns whether this end does not aggregate its port with other ports.
    #[must_use]
    pub const fn is_individual(&self) -> bool {
        !self.state.has(State::AGGREGATION)
    }
}

/// LACP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacpdu {
    /// End that sent the frame.
    pub actor: End,
    /// Other end of the link, as the sender knows it.
    pub partner: End,
}

impl Lacpdu {
    /// Parses a frame accepted by [`is_lacp`]. Later versions begin with the fields of version 1.
    ///
    /// # Errors
    /// Fails if the frame is too short, or the TLV of an end has a wrong type or length.
    pub fn parse(frame: &[u8]) -> Result<Lacpdu, LacpError> {
        let frame = frame.first_chunk::<LEN>().ok_or(LacpError::Truncated)?;
        let actor = End::read(frame, offset::ACTOR, tlv::ACTOR)?;
        let partner = End::read(frame, offset::PARTNER, tlv::PARTNER)?;
        Ok(Lacpdu { actor, partner })
    }

    /// Encodes the frame, from a port with MAC address `src`.
    #[must_use]
    pub fn frame(&self, src: MacAddr) -> [u8; LEN] {
        let mut frame = [0; LEN];
        frame[..6].copy_from_slice(&SLOW_PROTOCOLS_ADDRESS.0);
        frame[6..12].copy_from_slice(&src.0);
        frame[12..14].copy_from_slice(&SLOW_PROTOCOLS.0.to_be_bytes());
        (frame[offset::SUBTYPE], frame[offset::VERSION]) = (SUBTYPE, VERSION);
        self.actor.write(&mut frame, offset::ACTOR, tlv::ACTOR);
        self.partner.write(&mut frame, offset::PARTNER, tlv::PARTNER);
        frame[offset::COLLECTOR..][..2].copy_from_slice(&tlv::COLLECTOR);
        frame
    }
}

impl End {
    fn read(frame: &[u8; LEN], at: usize, tlv: [u8; 2]) -> Result<End, LacpError> {
        let be16 = |offset: usize| u16::from_be_bytes([frame[at + offset], frame[at + offset + 1]]);
        if frame[at..at + 2] != tlv {
            return Err(LacpError::Layout);
        }
        Ok(End {
            system: (be16(2), MacAddr(std::array::from_fn(|byte| frame[at + 4 + byte]))),
            key: be16(10),
            port: (be16(12), be16(14)),
            state: State(frame[at + 16]),
        })
    }

    fn write(&self, frame: &mut [u8; LEN], at: usize, tlv: [u8; 2]) {
        let mut put = |offset: usize, bytes: &[u8]| {
            frame[at + offset..][..bytes.len()].copy_from_slice(bytes);
        };
        put(0, &tlv);
        put(2, &self.system.0.to_be_bytes());
        put(4, &self.system.1.0);
        put(10, &self.key.to_be_bytes());
        put(12, &self.port.0.to_be_bytes());
        put(14, &self.port.1.to_be_bytes());
        put(16, &[self.state.0]);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use xoff_explore::explore;

    use super::*;

    /// Start of an LACP frame composed by scapy; its other bytes are zero.
    const SCAPY: [u8; 58] = [
        0x01, 0x80, 0xc2, 0, 0, 2, 2, 0, 0, 0, 0, 0x0a, 0x88, 0x09, 1, 1, 1, 20, 0x80, 0, 2, 0, 0, 0, 0, 1,
        0, 7, 0, 0xff, 0, 3, 0x3d, 0, 0, 0, 2, 20, 0x12, 0x34, 2, 0, 0, 0, 0, 2, 0, 9, 0x80, 1, 0, 5, 0x0f,
        0, 0, 0, 3, 16,
    ];

    #[test] // proves: lacp
    fn lacp_frame_equals_frame_written_by_scapy() {
        let mut bytes = [0; LEN];
        bytes[..SCAPY.len()].copy_from_slice(&SCAPY);
        let end = |priority, system, key, port, state| End {
            system: (priority, MacAddr([2, 0, 0, 0, 0, system])),
            key,
            port,
            state: State(state),
        };
        let pdu = Lacpdu {
            actor: end(0x8000, 1, 7, (0xff, 3), 0x3d),
            partner: end(0x1234, 2, 9, (0x8001, 5), 0x0f),
        };
        assert_eq!(Lacpdu::parse(&bytes), Ok(pdu));
        assert_eq!(pdu.frame(MacAddr([2, 0, 0, 0, 0, 10])), bytes);
        let names: Vec<&str> = pdu.actor.state.names().collect();
        assert_eq!(names, ["active", "aggregatable", "in_sync", "collecting", "distributing"]);
        assert!(is_lacp(&Header::parse(&bytes).unwrap(), &bytes));
        bytes[14] = 3;
        assert!(!is_lacp(&Header::parse(&bytes).unwrap(), &bytes));
        for (at, error) in [(16, LacpError::Layout), (17, LacpError::Layout), (36, LacpError::Layout)] {
            let mut wrong = pdu.frame(MacAddr::default());
            wrong[at] ^= 1;
            assert_eq!(Lacpdu::parse(&wrong), Err(error));
        }
        assert_eq!(Lacpdu::parse(&bytes[..LEN - 1]), Err(LacpError::Truncated));
    }

    #[test] // proves: lacp
    fn lacp_marker_is_answered_by_marker_response() {
        let mut marker = [0; LEN];
        marker[..14].copy_from_slice(&SCAPY[..14]);
        marker[14..34].copy_from_slice(&[2, 1, 1, 16, 0, 3, 2, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 0]);
        assert!(is_lacp(&Header::parse(&marker).unwrap(), &marker) && is_marker(&marker));
        let response = marker_response(&marker, MacAddr([2; 6])).unwrap();
        let mut expected = marker;
        expected[6..12].fill(2);
        expected[16] = 2;
        assert_eq!(response, expected);
        assert_eq!(
            marker_response(&response, MacAddr([2; 6])),
            None,
            "a marker response must not be answered"
        );
        assert_eq!(marker_response(&marker[..LEN - 1], MacAddr([2; 6])), None);
    }

    #[test] // proves: lacp
    fn lacp_frame_behind_tag_is_ignored() {
        for tag in [[0x81, 0, 0, 0], [0x22, 0xe9, 0, 1]] {
            let bytes = [&SCAPY[..12], &tag, &SCAPY[12..]].concat();
            assert!(!is_lacp(&Header::parse(&bytes).unwrap(), &bytes), "{tag:x?}");
        }
    }

    explore! {
        #[test]
        fn arbitrary_bytes_parse_as_lacp_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..140)) {
            let _ = Lacpdu::parse(&bytes);
        }
    }
}

//! Congestion notification message (CNM; 802.1Qau, now 802.1Q clauses 30 to 33).
//!
//! A CNM repeats the VLAN tag and CN-TAG of the sampled frame, so that it reaches the sender's rate limiter. It quotes
//! the start of the sampled frame (its MSDU), from the EtherType after the tags (802.1AC). Reserved bits and padding
//! are ignored.

use pnet_packet::ethernet::EtherType;

use super::cn_tag::{CN_TAG, CnTag};
use super::header::{Header, Tci};
use crate::units::{Class, MacAddr};

/// EtherType of a CNM.
pub const CNM: EtherType = EtherType(0x22e7);
/// Maximum number of bytes of the sampled frame that a CNM quotes.
pub const MSDU_MAX: usize = MSDU_MAX_U8 as usize;
const MSDU_MAX_U8: u8 = 64;
/// Maximum length of a CNM in bytes without FCS.
pub const LEN_MAX: usize = 22 + field::MSDU + MSDU_MAX;
const LEN_MIN: usize = 60;
/// Maximum quantized feedback (six bits).
pub const FEEDBACK_MAX: u8 = 63;

mod field {
    use std::ops::Range;

    /// Version (4 bits), reserved bits (6), quantized feedback (6).
    pub const FEEDBACK: Range<usize> = 0..2;
    pub const CONGESTION_POINT: Range<usize> = 2..10;
    pub const Q_OFFSET: Range<usize> = 10..12;
    pub const Q_DELTA: Range<usize> = 12..14;
    /// Priority of the sampled frame, in the top three bits.
    pub const PRIORITY: Range<usize> = 14..16;
    pub const DESTINATION: Range<usize> = 16..22;
    pub const MSDU_LEN: Range<usize> = 22..24;
    pub const MSDU: usize = 24;
}

/// Congestion notification message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Cnm {
    pub feedback: u8,
    pub congestion_point: CongestionPointId,
    /// Queue length minus set point at the congestion point, in units of 64 bytes.
    pub q_offset: i16,
    /// Growth of the queue since the previous sample, in units of 64 bytes.
    pub q_delta: i16,
    pub priority: Class,
    pub destination: MacAddr,
    pub msdu: Msdu,
}

/// Identifier of a congestion point: its port's MAC address, its class, and a zero byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CongestionPointId(pub [u8; 8]);

/// First bytes of a frame behind its tags (MSDU), at most [`MSDU_MAX`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Msdu {
    bytes: [u8; MSDU_MAX],
    len: u8,
}

/// Addresses and tags of a CNM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Envelope {
    /// Destination of the CNM, which is the source of the sampled frame.
    pub dst: MacAddr,
    /// Source of the CNM, which is the congestion point's port.
    pub src: MacAddr,
    pub tag: Option<Tci>,
    pub cn_tag: Option<CnTag>,
}

/// Encoded CNM frame.
#[derive(Clone, Copy)]
pub struct CnmFrame {
    bytes: [u8; LEN_MAX],
    len: usize,
}

/// Reason for ignoring a received CNM.
#[allow(missing_docs)] // the messages say it
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CnmError {
    #[error("the CNM is addressed to a group")]
    GroupAddress,
    #[error("the CNM has less than 24 bytes")]
    Truncated,
    #[error("the CNM has another version than 0")]
    UnknownVersion,
    #[error("the CNM carries an MSDU of more than 64 bytes")]
    MsduTooLong,
    #[error("the CNM ends within the MSDU that it carries")]
    MsduTruncated,
}

impl CongestionPointId {
    /// Returns the identifier for `class` at port address `port`.
    #[must_use]
    pub const fn new(port: MacAddr, class: Class) -> CongestionPointId {
        let [a, b, c, d, e, f] = port.0;
        CongestionPointId([a, b, c, d, e, f, class.get(), 0])
    }
}

impl Msdu {
    /// Copies the first [`MSDU_MAX`] bytes of `bytes`, the sampled frame after its tags.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Msdu {
        let len = u8::try_from(bytes.len()).map_or(MSDU_MAX_U8, |len| len.min(MSDU_MAX_U8));
        let mut msdu = Msdu { bytes: [0; MSDU_MAX], len };
        let len = usize::from(len);
        msdu.bytes[..len].copy_from_slice(&bytes[..len]);
        msdu
    }

    /// Returns the quoted bytes of the sampled frame.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Debug for Msdu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().fmt(f)
    }
}

impl CnmFrame {
    /// Returns the bytes of the CNM frame, without FCS.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl std::fmt::Debug for CnmFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().fmt(f)
    }
}

impl Cnm {
    /// Returns whether a frame is a CNM, well-formed or not.
    #[inline]
    #[must_use]
    pub fn is_cnm(header: &Header) -> bool {
        header.ether_type == CNM
    }

    /// Parses a frame that [`Cnm::is_cnm`] accepts.
    ///
    /// # Errors
    /// Returns the reason if the CNM must be ignored.
    pub fn parse(header: &Header, head: &[u8]) -> Result<Cnm, CnmError> {
        if header.dst.is_group() {
            return Err(CnmError::GroupAddress);
        }
        let pdu = header.payload(head);
        let fixed = pdu.first_chunk::<{ field::MSDU }>().ok_or(CnmError::Truncated)?;
        let first = be16(fixed, field::FEEDBACK.start);
        if first >> 12 != 0 {
            return Err(CnmError::UnknownVersion);
        }
        let len = usize::from(be16(fixed, field::MSDU_LEN.start));
        if len > MSDU_MAX {
            return Err(CnmError::MsduTooLong);
        }
        let msdu = pdu.get(field::MSDU..field::MSDU + len).ok_or(CnmError::MsduTruncated)?;
        let mut congestion_point = CongestionPointId([0; 8]);
        congestion_point.0.copy_from_slice(&fixed[field::CONGESTION_POINT]);
        let mut destination = MacAddr([0; 6]);
        destination.0.copy_from_slice(&fixed[field::DESTINATION]);
        Ok(Cnm {
            feedback: fixed[field::FEEDBACK.end - 1] & FEEDBACK_MAX,
            congestion_point,
            q_offset: be16(fixed, field::Q_OFFSET.start).cast_signed(),
            q_delta: be16(fixed, field::Q_DELTA.start).cast_signed(),
            priority: Class::from_low_bits(fixed[field::PRIORITY.start] >> 5),
            destination,
            msdu: Msdu::of(msdu),
        })
    }

    /// Encodes the message as a frame.
    #[must_use]
    pub fn encode(&self, envelope: &Envelope) -> CnmFrame {
        let mut frame = CnmFrame { bytes: [0; LEN_MAX], len: 0 };
        frame.push(&envelope.dst.0);
        frame.push(&envelope.src.0);
        if let Some(tci) = envelope.tag {
            frame.push(&pnet_packet::ethernet::EtherTypes::Vlan.0.to_be_bytes());
            frame.push(&tci.0.to_be_bytes());
        }
        if let Some(cn_tag) = envelope.cn_tag {
            frame.push(&CN_TAG.0.to_be_bytes());
            frame.push(&cn_tag.0.to_be_bytes());
        }
        frame.push(&CNM.0.to_be_bytes());
        frame.push(&self.pdu());
        frame.push(self.msdu.as_bytes());
        frame.len = frame.len.max(LEN_MIN);
        frame
    }

    fn pdu(&self) -> [u8; field::MSDU] {
        let mut pdu = [0; field::MSDU];
        pdu[field::FEEDBACK.end - 1] = self.feedback.min(FEEDBACK_MAX);
        pdu[field::CONGESTION_POINT].copy_from_slice(&self.congestion_point.0);
        pdu[field::Q_OFFSET].copy_from_slice(&self.q_offset.to_be_bytes());
        pdu[field::Q_DELTA].copy_from_slice(&self.q_delta.to_be_bytes());
        pdu[field::PRIORITY.start] = self.priority.get() << 5;
        pdu[field::DESTINATION].copy_from_slice(&self.destination.0);
        pdu[field::MSDU_LEN].copy_from_slice(&u16::from(self.msdu.len).to_be_bytes());
        pdu
    }
}

fn be16(pdu: &[u8; field::MSDU], at: usize) -> u16 {
    u16::from_be_bytes([pdu[at], pdu[at + 1]])
}

named! { CnmError {
    GroupAddress: "group_address",
    Truncated: "truncated",
    UnknownVersion: "unknown_version",
    MsduTooLong: "msdu_too_long",
    MsduTruncated: "msdu_truncated",
} }

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

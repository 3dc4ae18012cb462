//! Frames of the test bed's hosts: priority tag, CN-TAG if rate-limited, stream number, sequence number, and a body in which changed bytes
//! are detected.

use xoff_wire::CnTag;
use xoff_wire::header::{Header, Tci};
use xoff_wire::units::{Class, MacAddr};

/// Minimum frame length in bytes: addresses, tags and EtherType, then stream and sequence number.
pub const LEN_MIN: u32 = 22 + 4 + 8;
/// EtherType of the test bed's frames.
pub const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];

/// Identity of a frame: its class and stream, and its position in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Mark {
    pub class: Class,
    pub cn_tag: Option<CnTag>,
    pub stream: u32,
    /// Position in the stream, from zero.
    pub sequence: u64,
}

/// Encodes a frame of `len` bytes.
pub fn encode(dst: MacAddr, src: MacAddr, mark: Mark, len: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len as usize);
    bytes.extend(dst.0);
    bytes.extend(src.0);
    bytes.extend([0x81, 0x00]);
    bytes.extend(Tci::new(mark.class, false, 0).0.to_be_bytes());
    if let Some(cn_tag) = mark.cn_tag {
        bytes.extend([0x22, 0xe9]);
        bytes.extend(cn_tag.0.to_be_bytes());
    }
    bytes.extend(ETHER_TYPE);
    bytes.extend(mark.stream.to_be_bytes());
    bytes.extend(mark.sequence.to_be_bytes());
    bytes.extend((bytes.len()..len as usize).map(|at| filling(mark.sequence, at)));
    bytes
}

/// Decodes a frame's identity; `None` if no host of the test bed sent the frame.
///
/// # Panics
///
/// If the frame was changed on its way.
pub fn decode(bytes: &[u8]) -> Option<Mark> {
    let header = Header::parse(bytes).ok()?;
    if header.ether_type.0.to_be_bytes() != ETHER_TYPE {
        return None;
    }
    let l3 = usize::from(header.l3);
    let mark = Mark {
        class: header.tag?.pcp(),
        cn_tag: header.cn_tag,
        stream: u32::from_be_bytes(*bytes.get(l3..)?.first_chunk()?),
        sequence: u64::from_be_bytes(*bytes.get(l3 + 4..)?.first_chunk()?),
    };
    let body = bytes.iter().enumerate().skip(l3 + 12);
    let whole = body.into_iter().all(|(at, &byte)| byte == filling(mark.sequence, at));
    assert!(whole, "a frame of stream {} was changed on its way", mark.stream);
    Some(mark)
}

/// Returns the class in a frame's priority tag; `None` if the frame has a CN-TAG, or if no host of the test bed sent it.
pub fn class_of(bytes: &[u8]) -> Option<Class> {
    let is_of_the_bed = bytes.get(12..14) == Some(&[0x81, 0x00]) && bytes.get(16..18) == Some(&ETHER_TYPE);
    is_of_the_bed.then(|| Class::from_low_bits(bytes[14] >> 5))
}

fn filling(sequence: u64, at: usize) -> u8 {
    sequence.wrapping_mul(31).wrapping_add(at as u64).to_le_bytes()[0]
}

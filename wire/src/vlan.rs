//! 802.1Q tag in the head of a frame, read and rewritten in place.

use super::header::{Tci, field};

/// Returns the 802.1Q tag in a complete Ethernet header, if any.
#[inline]
#[must_use]
pub fn get(head: &[u8]) -> Option<Tci> {
    match head.get(field::ETHER_TYPE.start..field::TCI.end) {
        Some(&[0x81, 0x00, high, low]) => Some(Tci(u16::from_be_bytes([high, low]))),
        _ => None,
    }
}

/// Overwrites the TCI of a frame that has an 802.1Q tag.
pub fn set(head: &mut [u8], tci: Tci) {
    head[field::TCI].copy_from_slice(&tci.0.to_be_bytes());
}

//! Access to a frame's 802.1Q tag in place.

use super::header::{Tci, field};

/// Returns the frame's 802.1Q tag, if any. The Ethernet header must be complete.
#[inline]
#[must_use]
pub fn get(head: &[u8]) -> Option<Tci> {
    match head.get(field::ETHER_TYPE.start..field::TCI.end) {
        Some(&[0x81, 0x00, high, low]) => Some(Tci(u16::from_be_bytes([high, low]))),
        _ => None,
    }
}

/// Overwrites the TCI in a frame's 802.1Q tag.
pub fn set(head: &mut [u8], tci: Tci) {
    head[field::TCI].copy_from_slice(&tci.0.to_be_bytes());
}

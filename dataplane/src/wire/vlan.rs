//! 802.1Q tags put in, taken out and rewritten in place.
//!
//! A tag sits between the source address and the EtherType. To put one in or take one out only the
//! twelve bytes of addresses move; the rest of the frame stays and its start moves by four.

use pnet_packet::ethernet::EtherTypes;

use super::header::{Tci, field};
use crate::frame::{Frame, FrameStore};

const ADDRESSES: usize = field::ETHER_TYPE.start;
const TAG_LEN: usize = field::TAG_LEN as usize;

/// Puts a tag into a frame that holds Ethernet's header. False, and the frame unchanged, where its
/// slot has no room in front.
#[must_use]
pub fn insert<S: FrameStore>(store: &mut S, frame: &mut Frame, tci: Tci) -> bool {
    if !store.move_start(frame, -i32::from(field::TAG_LEN)) {
        return false;
    }
    let head = store.head_mut(frame);
    head.copy_within(TAG_LEN..TAG_LEN + ADDRESSES, 0);
    head[field::ETHER_TYPE].copy_from_slice(&EtherTypes::Vlan.0.to_be_bytes());
    set(head, tci);
    true
}

/// Takes the tag out of a frame that has one. False, and the frame unchanged in meaning, where the
/// store cannot move its start.
#[must_use]
pub fn remove<S: FrameStore>(store: &mut S, frame: &mut Frame) -> bool {
    let addresses = *store.head(frame).first_chunk::<ADDRESSES>().expect("a tagged frame holds addresses");
    if !store.move_start(frame, field::TAG_LEN.into()) {
        return false;
    }
    store.head_mut(frame)[..ADDRESSES].copy_from_slice(&addresses);
    true
}

/// The tag in the head of a frame that holds Ethernet's header, if there is one.
#[inline]
#[must_use]
pub fn get(head: &[u8]) -> Option<Tci> {
    match head.get(field::ETHER_TYPE.start..field::TCI.end) {
        Some(&[0x81, 0x00, high, low]) => Some(Tci(u16::from_be_bytes([high, low]))),
        _ => None,
    }
}

/// Overwrites the TCI in the head of a tagged frame.
pub fn set(head: &mut [u8], tci: Tci) {
    head[field::TCI].copy_from_slice(&tci.0.to_be_bytes());
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::OneSlot;

    #[test]
    fn a_tag_put_in_and_taken_out_leaves_the_frame_as_it_was() {
        let plain: Vec<u8> = (0..64).collect();
        let (mut store, mut frame) = OneSlot::holding(&plain, 4);
        assert!(insert(&mut store, &mut frame, Tci(0x6005)));
        let mut tagged = plain[..12].to_vec();
        tagged.extend([0x81, 0x00, 0x60, 0x05]);
        tagged.extend(&plain[12..]);
        assert_eq!((store.head(&frame), frame.len()), (&tagged[..], 68));
        set(store.head_mut(&frame), Tci(0x2fff));
        assert_eq!(get(store.head(&frame)), Some(Tci(0x2fff)));
        assert!(remove(&mut store, &mut frame));
        assert_eq!((store.head(&frame), frame.len()), (&plain[..], 64));
        assert_eq!(get(store.head(&frame)), None);
        store.free(frame);
    }

    #[test]
    fn a_slot_without_room_keeps_its_frame() {
        let plain: Vec<u8> = (0..64).collect();
        let (mut store, mut frame) = OneSlot::holding(&plain, 3);
        assert!(!insert(&mut store, &mut frame, Tci(5)));
        assert_eq!((store.head(&frame), frame.len()), (&plain[..], 64));
        store.free(frame);
    }
}

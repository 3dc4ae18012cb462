//! Rewriting of VLAN tag, PCP and DSCP at egress.
//!
//! * A tagged member of a VLAN sends each frame with the VLAN's VID, in the frame's tag or in a new tag with the
//!   class as PCP.
//! * An untagged member removes the tag, except a priority tag (VID 0): without its PCP the next hop would treat
//!   lossless frames as best effort. (802.1Q's bridges remove it.)
//! * Configured maps overwrite the PCP of tagged frames and the DSCP of IP packets by class.

use pnet_packet::ethernet::EtherTypes;
use xoff_flow_control::settings::PortSettings;
use xoff_wire::header::{Header, Layout, Tci, field};
use xoff_wire::units::{CLASSES, Class};
use xoff_wire::{dscp, vlan};

use crate::frame::{Frame, FrameStore};

const ADDRESSES: usize = field::ETHER_TYPE.start;
const TAG_LEN: usize = field::TAG_LEN as usize;

#[derive(Clone, Debug)]
pub struct Rewriter {
    pcp: Option<[Class; CLASSES]>,
    dscp: Option<[u8; CLASSES]>,
}

impl Rewriter {
    #[must_use]
    pub fn new(port: &PortSettings) -> Rewriter {
        Rewriter { pcp: port.rewrite_pcp.map(|pcp| pcp.map(Class::from_low_bits)), dscp: port.rewrite_dscp }
    }

    /// Returns whether frames with this header layout always leave unchanged.
    #[inline]
    #[must_use]
    pub const fn has_nothing_to_do(&self, layout: Layout, tagged: bool) -> bool {
        let keeps_pcp = self.pcp.is_none() || !layout.has_tag();
        layout.names_vlan() == tagged && keeps_pcp && self.dscp.is_none()
    }

    /// Rewrites a leaving frame of VLAN `vid`. Returns false if a new tag does not fit; the frame must then not be
    /// sent.
    #[must_use]
    pub fn apply<S: FrameStore>(
        &self,
        store: &mut S,
        frame: &mut Frame,
        vid: u16,
        tagged: bool,
        class: Class,
    ) -> bool {
        if let Some(dscps) = &self.dscp {
            let head = store.head_mut(frame);
            if let Ok(header) = Header::parse(head) {
                dscp::set(head, &header, dscps[class.index()]);
            }
        }
        match (vlan::get(store.head(frame)), tagged) {
            (None, false) => true,
            (None, true) => {
                let pcp = self.pcp.map_or(class, |pcps| pcps[class.index()]);
                insert_tag(store, frame, Tci::new(pcp, false, vid))
            }
            (Some(tci), false) if tci.vid() != 0 => remove_tag(store, frame),
            (Some(tci), _) => {
                let pcp = self.pcp.map_or(tci.pcp(), |pcps| pcps[class.index()]);
                let vid = if tagged { vid } else { 0 };
                let new = tci.with_pcp(pcp).with_vid(vid);
                if new != tci {
                    vlan::set(store.head_mut(frame), new);
                }
                true
            }
        }
    }
}

fn insert_tag<S: FrameStore>(store: &mut S, frame: &mut Frame, tci: Tci) -> bool {
    if !store.move_start(frame, -i32::from(field::TAG_LEN)) {
        return false;
    }
    let head = store.head_mut(frame);
    head.copy_within(TAG_LEN..TAG_LEN + ADDRESSES, 0);
    head[field::ETHER_TYPE].copy_from_slice(&EtherTypes::Vlan.0.to_be_bytes());
    vlan::set(head, tci);
    true
}

fn remove_tag<S: FrameStore>(store: &mut S, frame: &mut Frame) -> bool {
    let addresses = *store
        .head(frame)
        .first_chunk::<ADDRESSES>()
        .expect("a tagged frame must have all bytes of its MAC addresses");
    if !store.move_start(frame, field::TAG_LEN.into()) {
        return false;
    }
    store.head_mut(frame)[..ADDRESSES].copy_from_slice(&addresses);
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{OneSlot, port_settings};

    const CLASS: Class = Class::ALL[3];

    fn frame(tci: Option<u16>) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        if let Some(tci) = tci {
            bytes.extend([0x81, 0x00]);
            bytes.extend(tci.to_be_bytes());
        }
        bytes.extend([0x08, 0x00, 0x45, 8 << 2]);
        bytes.resize(64, 7);
        bytes
    }

    fn sent(rewriter: &Rewriter, tci: Option<u16>, tagged: bool) -> (Option<u16>, Option<u8>) {
        let bytes = frame(tci);
        let (mut store, mut frame) = OneSlot::holding(&bytes, 4);
        assert!(rewriter.apply(&mut store, &mut frame, 5, tagged, CLASS));
        let layout = Header::parse(&bytes).unwrap().layout();
        if rewriter.has_nothing_to_do(layout, tagged) {
            assert_eq!(store.head(&frame), bytes, "a frame to which no rule applies must leave unchanged");
        }
        let header = Header::parse(store.head(&frame)).unwrap();
        assert_eq!(store.head(&frame)[..12], bytes[..12]);
        assert_eq!(store.head(&frame).len(), frame.len() as usize);
        store.free(frame);
        (header.tag.map(|tag| tag.0), header.dscp)
    }

    #[test]
    fn egress_without_rewrite_maps_changes_only_vlan_tag() {
        let plain = Rewriter::new(&port_settings(0));
        assert_eq!(sent(&plain, None, false), (None, Some(8)));
        assert_eq!(sent(&plain, None, true), (Some(0x6005), Some(8)), "a new tag must have class 3 as PCP");
        assert_eq!(sent(&plain, Some(0xf005), false), (None, Some(8)));
        assert_eq!(sent(&plain, Some(0xf005), true), (Some(0xf005), Some(8)), "PCP and DEI must not change");
        assert_eq!(
            sent(&plain, Some(0xe000), false),
            (Some(0xe000), Some(8)),
            "a priority tag must not change"
        );
        assert_eq!(
            sent(&plain, Some(0xe000), true),
            (Some(0xe005), Some(8)),
            "a priority tag must get the VID at a tagged member"
        );
    }

    #[test]
    fn rewrite_maps_replace_pcp_and_dscp_by_values_of_class() {
        let mapped = Rewriter::new(&PortSettings {
            rewrite_pcp: Some([0, 1, 2, 6, 4, 5, 3, 7]),
            rewrite_dscp: Some([0, 0, 0, 26, 0, 0, 0, 0]),
            ..port_settings(0)
        });
        assert_eq!(sent(&mapped, None, false), (None, Some(26)));
        assert_eq!(sent(&mapped, None, true), (Some(0xc005), Some(26)));
        assert_eq!(sent(&mapped, Some(0x3005), true), (Some(0xd005), Some(26)));
        assert_eq!(sent(&mapped, Some(0x2000), false), (Some(0xc000), Some(26)));
    }

    #[test]
    fn pcp_map_changes_only_tagged_frames() {
        let mapped =
            Rewriter::new(&PortSettings { rewrite_pcp: Some([0, 1, 2, 6, 4, 5, 3, 7]), ..port_settings(0) });
        assert_eq!(sent(&mapped, None, false), (None, Some(8)));
        assert_eq!(sent(&mapped, Some(0x2000), false), (Some(0xc000), Some(8)));
        assert_eq!(sent(&mapped, Some(0x3005), true), (Some(0xd005), Some(8)));
    }

    #[test]
    fn rewriter_refuses_frame_whose_slot_is_too_small_for_tag() {
        let (mut store, mut frame) = OneSlot::holding(&frame(None), 3);
        let plain = Rewriter::new(&port_settings(0));
        assert!(!plain.apply(&mut store, &mut frame, 5, true, CLASS));
        store.free(frame);
    }

    #[test]
    fn removing_inserted_tag_restores_original_frame() {
        let plain: Vec<u8> = (0..64).collect();
        let (mut store, mut frame) = OneSlot::holding(&plain, 4);
        assert!(insert_tag(&mut store, &mut frame, Tci(0x6005)));
        let mut tagged = plain[..12].to_vec();
        tagged.extend([0x81, 0x00, 0x60, 0x05]);
        tagged.extend(&plain[12..]);
        assert_eq!((store.head(&frame), frame.len()), (&tagged[..], 68));
        vlan::set(store.head_mut(&frame), Tci(0x2fff));
        assert_eq!(vlan::get(store.head(&frame)), Some(Tci(0x2fff)));
        assert!(remove_tag(&mut store, &mut frame));
        assert_eq!((store.head(&frame), frame.len()), (&plain[..], 64));
        assert_eq!(vlan::get(store.head(&frame)), None);
        store.free(frame);
    }

    #[test]
    fn failed_tag_insertion_leaves_frame_unchanged() {
        let plain: Vec<u8> = (0..64).collect();
        let (mut store, mut frame) = OneSlot::holding(&plain, 3);
        assert!(!insert_tag(&mut store, &mut frame, Tci(5)));
        assert_eq!((store.head(&frame), frame.len()), (&plain[..], 64));
        store.free(frame);
    }
}

//! What a port writes into frames on their way out: the VLAN tag, PCP and DSCP.
//!
//! * A member that sends the VLAN tagged gets a tag: the frame's own with the VLAN's VID, or a new one,
//!   whose PCP is the frame's class unless the port has a map of its own.
//! * A member that sends it untagged gets none, with one exception: a priority tag (VID 0) stays. It
//!   names no VLAN, so that there is nothing to hide, and it carries the PCP: a switch that took it out
//!   would turn the next hop's lossless frames into best effort. (802.1Q's bridges do take it out;
//!   Open vSwitch leaves the choice to its `priority-tags` option.)
//! * Maps by class overwrite the PCP of frames that leave with a tag, and the DSCP of IP packets.

use crate::frame::{Frame, FrameStore};
use crate::settings::PortSettings;
use crate::units::{CLASSES, Class};
use crate::wire::header::{Header, Layout, Tci};
use crate::wire::{dscp, vlan};

/// One port's way with outgoing frames.
#[derive(Clone, Debug)]
pub struct Rewriter {
    pcp: Option<[Class; CLASSES]>,
    dscp: Option<[u8; CLASSES]>,
}

impl Rewriter {
    /// As `port` is configured.
    #[must_use]
    pub fn new(port: &PortSettings) -> Rewriter {
        Rewriter { pcp: port.rewrite_pcp.map(|pcp| pcp.map(Class::from_low_bits)), dscp: port.rewrite_dscp }
    }

    /// Whether every frame that came with this layout, and is to leave `tagged` or not, leaves as it came.
    #[inline]
    #[must_use]
    pub const fn has_nothing_to_do(&self, layout: Layout, tagged: bool) -> bool {
        let keeps_pcp = self.pcp.is_none() || !layout.has_tag();
        layout.names_vlan() == tagged && keeps_pcp && self.dscp.is_none()
    }

    /// Makes a frame of VLAN `vid` ready to leave, `tagged` as the port's membership says. False
    /// where the frame should get a tag and its slot has no room for one; the frame must not be sent
    /// then.
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
                vlan::insert(store, frame, Tci::new(pcp, false, vid))
            }
            (Some(tci), false) if tci.vid() != 0 => vlan::remove(store, frame),
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::{OneSlot, port_settings};

    const CLASS: Class = Class::ALL[3];

    /// An IPv4 frame with DSCP 8, tagged where `tci` says so.
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

    /// (TCI, DSCP) of the frame after it has left.
    fn sent(rewriter: &Rewriter, tci: Option<u16>, tagged: bool) -> (Option<u16>, Option<u8>) {
        let bytes = frame(tci);
        let (mut store, mut frame) = OneSlot::holding(&bytes, 4);
        assert!(rewriter.apply(&mut store, &mut frame, 5, tagged, CLASS));
        let layout = Header::parse(&bytes).unwrap().layout();
        if rewriter.has_nothing_to_do(layout, tagged) {
            assert_eq!(store.head(&frame), bytes, "as it came");
        }
        let header = Header::parse(store.head(&frame)).unwrap();
        assert_eq!(store.head(&frame)[..12], bytes[..12]);
        assert_eq!(store.head(&frame).len(), frame.len() as usize);
        store.free(frame);
        (header.tag.map(|tag| tag.0), header.dscp)
    }

    #[test]
    fn without_maps_only_the_tag_follows_the_membership() {
        let plain = Rewriter::new(&port_settings(0));
        assert_eq!(sent(&plain, None, false), (None, Some(8)));
        assert_eq!(sent(&plain, None, true), (Some(0x6005), Some(8)), "class 3 as PCP");
        assert_eq!(sent(&plain, Some(0xf005), false), (None, Some(8)));
        assert_eq!(sent(&plain, Some(0xf005), true), (Some(0xf005), Some(8)), "PCP and DEI kept");
        assert_eq!(sent(&plain, Some(0xe000), false), (Some(0xe000), Some(8)), "priority tag kept");
        assert_eq!(sent(&plain, Some(0xe000), true), (Some(0xe005), Some(8)), "and given its VID");
    }

    #[test]
    fn maps_write_the_pcp_and_dscp_of_the_class() {
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
    fn a_map_of_pcps_alone_writes_what_has_a_tag_and_leaves_all_else() {
        let mapped =
            Rewriter::new(&PortSettings { rewrite_pcp: Some([0, 1, 2, 6, 4, 5, 3, 7]), ..port_settings(0) });
        assert_eq!(sent(&mapped, None, false), (None, Some(8)));
        assert_eq!(sent(&mapped, Some(0x2000), false), (Some(0xc000), Some(8)));
        assert_eq!(sent(&mapped, Some(0x3005), true), (Some(0xd005), Some(8)));
    }

    #[test]
    fn no_room_for_a_tag_is_told() {
        let (mut store, mut frame) = OneSlot::holding(&frame(None), 3);
        let plain = Rewriter::new(&port_settings(0));
        assert!(!plain.apply(&mut store, &mut frame, 5, true, CLASS));
        store.free(frame);
    }
}

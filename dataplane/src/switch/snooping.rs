//! Multicast of snooped VLANs: floods that leave only by ports with listeners, and copies of membership messages for
//! the control plane.

use std::sync::Arc;

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_wire::header::Header;
use xoff_wire::units::{PortSet, Site};

use super::{Batch, Switch};
use crate::forward::MulticastTable;
use crate::frame::{Frame, FrameStore};
use crate::queue::{FrameMeta, Origin};

impl Batch<'_> {
    /// Replaces the multicast table. Waiting frames are then forwarded by the new table.
    #[must_use = "the returned old multicast table may be large: drop it outside the packet loop"]
    pub fn set_multicast(&mut self, table: Arc<MulticastTable>) -> Arc<MulticastTable> {
        let switch = &mut *self.switch;
        switch.end_run();
        let before = switch.bridge.set_multicast(table);
        switch.pipeline.try_again(switch.now);
        before
    }
}

impl Switch {
    pub(super) fn wanting<S: FrameStore>(&self, ports: PortSet, frame: &Frame, store: &S) -> PortSet {
        let &FrameMeta { vid, layout, .. } = self.nodes.meta(frame);
        let table = self.bridge.multicast();
        if !table.is_snooped(vid) {
            return ports;
        }
        let head = store.head(frame);
        let header = Header::read(layout, head);
        table.exits(vid, header.ether_type, header.payload(head)).map_or(ports, |wanting| ports.and(&wanting))
    }

    pub(super) fn is_membership<S: FrameStore>(&self, frame: &Frame, store: &S) -> bool {
        let &FrameMeta { vid, layout, .. } = self.nodes.meta(frame);
        let head = store.head(frame);
        let header = Header::read(layout, head);
        header.dst.is_group() && self.bridge.multicast().wants(vid, header.ether_type, header.payload(head))
    }

    /// Drops a multicast frame for which the table has no port, unless the control plane or the VLAN's router receives it.
    #[cold]
    pub(super) fn end_unwanted<S: FrameStore>(&mut self, reason: DropReason, frame: Frame, store: &mut S) {
        let &FrameMeta { vid, origin, .. } = self.nodes.meta(&frame);
        let site = Site::Vlan(vid);
        match origin {
            Origin::Network if self.is_membership(&frame, store) => {
                self.leave_pipeline(&frame);
                self.punt_admitted(site, PuntReason::Membership, frame, store);
            }
            Origin::Network if self.bridge.router(vid).is_some() => self.decide_routed(site, frame, store),
            _ => self.end_here(reason, frame, store),
        }
    }
}

//! A frame with several destinations: copies of it, which share its account at the ingress ([`super::accounts`]).

use super::Switch;
use crate::drop_reason::DropReason;
use crate::frame::{Frame, FrameStore};
use crate::queue::{FrameMeta, Origin};
use crate::routing::Hop;
use crate::settings::Flooded;
use crate::units::{Bytes, PortId, PortSet};

impl Switch {
    /// A frame goes to each of `ports`, or waits for room: at a group, for that of any member that it may take. It is written for `hop`,
    /// where the router sends it.
    pub(super) fn flood<S: FrameStore>(
        &mut self,
        ports: PortSet,
        kind: Flooded,
        hop: Option<Hop>,
        frame: Frame,
        store: &mut S,
    ) {
        let meta = *self.nodes.meta(&frame);
        let mut ports = self.with_members(ports, &frame, store);
        let mut missed = PortSet::NONE;
        if self.when_full.waits() && !self.have_room_together(ports, &meta) {
            (ports, missed) = self.where_room_may_be(ports, &meta);
        }
        if let Some(full) = self.must_wait_for_one_of(ports, &meta) {
            let group = self.bridge.groups().of(full);
            let others = group.map_or(PortSet::NONE, |group| self.may_take_instead(group, &frame));
            return self.wait_for_one_of(full, others, frame);
        }
        self.paths.take(&ports, self.bridge.groups());
        self.show_router(&frame, store);
        self.leave_pipeline(&frame);
        if let Some(hop) = hop {
            self.readdress(&frame, &hop, store);
        }
        let storm_control = &mut self.ports[meta.ingress.index()].ingress.storm_control;
        if meta.origin == Origin::Network && !storm_control.allows(self.now, kind, Bytes::on_line(meta.len)) {
            return self.drop_admitted(meta.ingress, DropReason::StormLimit, frame, store);
        }
        for egress in missed.iter() {
            self.see_dropped(egress, DropReason::FloodPaused, &frame, store);
            self.counters.class(egress, meta.class).drops[DropReason::FloodPaused.index()].add(1);
        }
        let copies = u32::try_from(ports.len()).unwrap_or(u32::MAX);
        let mut may_be_made = self.open_flood(&frame, copies);
        let meta = *self.nodes.meta(&frame);
        let mut rest = ports;
        while let Some(egress) = rest.first_from(PortId(0)) {
            rest.remove(egress);
            if rest.is_empty() {
                self.enqueue(egress, frame, store);
                return;
            }
            match if may_be_made > 0 { store.copy(&frame) } else { None } {
                Some(copy) => {
                    may_be_made -= 1;
                    self.ledger.copied += 1;
                    *self.nodes.meta_mut(&copy) = meta;
                    self.enqueue(egress, copy, store);
                }
                None => self.count_missing_copy(egress, &meta, &frame, store),
            }
        }
    }

    /// `ports` of a flood whose copies have no room together, with those members of their groups that take least of it; and those
    /// of them that it misses because they stand still, where the others have room without them.
    #[cold]
    fn where_room_may_be(&self, ports: PortSet, meta: &FrameMeta) -> (PortSet, PortSet) {
        let ports = self.with_leanest_members(ports, meta);
        let still = self.standing_still(&ports, meta.class);
        let rest = ports.without(&still);
        let misses = meta.origin == Origin::Network
            && !rest.is_empty()
            && !self.have_room_together(ports, meta)
            && self.have_room_together(rest, meta);
        if misses { (rest, still) } else { (ports, PortSet::NONE) }
    }

    /// A copy that should have gone to `egress` could not be made.
    #[cold]
    fn count_missing_copy<S: FrameStore>(
        &mut self,
        egress: PortId,
        meta: &FrameMeta,
        frame: &Frame,
        store: &S,
    ) {
        let at = if self.workers.owns(egress) { egress } else { meta.ingress };
        self.see_dropped(at, DropReason::NoFrames, frame, store);
        self.counters.class(at, meta.class).drops[DropReason::NoFrames.index()].add(1);
        self.settle(meta);
    }
}

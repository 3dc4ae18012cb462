//! Flooding: frames with several destinations, whose copies count once at ingress, together ([`super::accounts`]).

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{Flooded, WhenFull};
use xoff_wire::units::{Bytes, PortId, PortSet};

use super::Switch;
use crate::frame::{Frame, FrameStore};
use crate::queue::{FrameMeta, Origin};
use crate::routing::Hop;

impl Switch {
    pub(super) fn flood<S: FrameStore>(
        &mut self,
        ports: PortSet,
        kind: Flooded,
        hop: Option<Hop>,
        frame: Frame,
        store: &mut S,
    ) {
        let meta = *self.nodes.meta(&frame);
        let wanting = match kind {
            Flooded::Multicast => self.wanting(ports, &frame, store),
            Flooded::Broadcast | Flooded::Unknown => ports,
        };
        if wanting.is_empty() {
            let reason = if ports.is_empty() { DropReason::NoDestination } else { DropReason::NoListener };
            return self.end_unwanted(reason, frame, store);
        }
        let ports = self.with_members(wanting, &frame, store);
        let (ports, missed, full) = self.find_room(ports, &meta);
        if let Some(full) = full {
            return self.wait_for_room(full, frame);
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
        if meta.origin == Origin::Network && kind == Flooded::Unknown {
            self.counters.class(meta.ingress, meta.class).flooded_unknown.add(1);
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

    /// Returns the ports that get a copy of the flood, those that get none, and a full port, if any, for which the
    /// whole flood must wait.
    fn find_room(&self, ports: PortSet, meta: &FrameMeta) -> (PortSet, PortSet, Option<PortId>) {
        if self.when_full == WhenFull::Drop {
            return (ports, PortSet::NONE, None);
        }
        let joined = self.joined(ports, meta);
        if self.have_room_together(&joined, meta) {
            return (ports, PortSet::NONE, self.first_full(&joined, meta));
        }
        self.find_room_together(ports, meta)
    }

    #[cold]
    fn find_room_together(&self, ports: PortSet, meta: &FrameMeta) -> (PortSet, PortSet, Option<PortId>) {
        let ports = self.with_leanest_members(ports, meta);
        let joined = self.joined(ports, meta);
        let still = self.standing_still(&joined, meta.class);
        let (mut fits, mut missed) = (joined.without(&still), PortSet::NONE);
        if !self.have_room_together(&fits, meta) {
            let first = fits.first_from(PortId(0)).filter(|_| meta.origin == Origin::Network);
            return (ports, missed, self.first_full(&fits, meta).or(first));
        }
        for port in still.iter() {
            let mut with_it = fits;
            with_it.insert(port);
            if self.have_room_together(&with_it, meta) {
                fits = with_it;
            } else {
                missed.insert(port);
            }
        }
        (ports.without(&missed), missed, self.first_full(&fits, meta))
    }

    fn have_room_together(&self, joined: &PortSet, meta: &FrameMeta) -> bool {
        self.buffer.egresses_have_room(joined.iter(), meta.class, meta.counted())
    }

    fn first_full(&self, joined: &PortSet, meta: &FrameMeta) -> Option<PortId> {
        joined.iter().find(|egress| self.must_wait(*egress, meta))
    }

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

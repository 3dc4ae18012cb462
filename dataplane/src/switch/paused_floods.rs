//! Limits for floods to a port at a standstill, whose peer pauses a class nearly all the time ([`Standstill`]).
//!
//! A flood counts in its ingress queue until its last copy has left, so one such port could pause all senders. Hence
//! floods to it may use only 1 / [`PARTS`] of the space below the ingress queue's XON threshold. Under policies that
//! use egress lengths, the same holds for the egress queue. Each sample drops queued floods beyond these limits;
//! further floods are not queued ([`DropReason::FloodPaused`]).
//!
//! * All floods of the ingress port count, even to unpaused ports, because the switch does not record where copies of a flood
//!   remain.
//! * The oldest floods are dropped first, so that several paused ports drop the same floods.
//! * A flood to a port at a standstill does not halt the pipeline ([`WhenFull`]).

use xoff_flow_control::buffer::Load;
use xoff_flow_control::drop_reason::DropReason;
#[cfg(doc)]
use xoff_flow_control::occupancy::Occupancy;
#[cfg(doc)]
use xoff_flow_control::pause::Standstill;
use xoff_flow_control::settings::{Accounting, WhenFull};
use xoff_wire::units::{Bytes, Class, ClassSet, PORTS_MAX, PortId, PortSet};

use super::Switch;
use super::port::Peer;
use crate::frame::{Frame, FrameStore};
use crate::queue::{FrameMeta, Origin, UNCOUNTED};

const PARTS: u32 = 4;

impl Switch {
    fn has_floods(&self) -> bool {
        self.ports.len() > 2 || self.bridge.has_routers()
    }

    pub(super) fn open_flood(&mut self, frame: &Frame, copies: u32) -> u32 {
        if !self.has_floods() {
            return 0;
        }
        let meta = self.nodes.meta_mut(frame);
        if self.accounting == Accounting::UntilForwarded && meta.origin != Origin::Host {
            meta.account = UNCOUNTED;
            return copies - 1;
        }
        let (account, may_be_made) = self.accounts.open(meta.class, copies);
        meta.account = account;
        if meta.origin == Origin::Network {
            let queue = self.occupancy.queue(meta.ingress, meta.class);
            queue.flood_frames.add(1);
            queue.flood_bytes.add(meta.counted().0);
        }
        may_be_made
    }

    pub(super) fn close_flood(&mut self, meta: &FrameMeta) -> bool {
        let is_last = self.accounts.leave(meta.class, meta.account);
        if is_last && meta.origin == Origin::Network {
            let queue = self.occupancy.queue(meta.ingress, meta.class);
            queue.flood_frames.sub(1);
            queue.flood_bytes.sub(meta.counted().0);
        }
        is_last
    }

    pub(super) fn standing_still(&self, ports: &PortSet, class: Class) -> PortSet {
        let stands_still = |port: &PortId| self.ports[port.index()].peer.lets_nothing_pass().contains(class);
        if self.has_floods() { ports.iter().filter(stands_still).collect() } else { PortSet::NONE }
    }

    #[inline]
    pub(super) fn is_bounded(&self, egress: PortId, meta: &FrameMeta) -> bool {
        meta.is_flooded() && self.ports[egress.index()].peer.lets_nothing_pass().contains(meta.class)
    }

    #[inline]
    pub(super) fn misses(&self, egress: PortId, meta: &FrameMeta) -> bool {
        meta.is_flooded() && self.flood_misses(egress, meta)
    }

    pub(super) fn flood_misses(&self, egress: PortId, meta: &FrameMeta) -> bool {
        let (class, size) = (meta.class, meta.counted());
        self.has_floods()
            && self.ports[egress.index()].peer.lets_nothing_pass().contains(class)
            && (meta.origin == Origin::Network && self.beyond_part(meta.ingress, class) != Load::NONE
                || self.buffer.egress(egress, class) + size > self.egress_part(egress, class)
                || self.when_full == WhenFull::Stop && !self.buffer.egress_has_room(egress, class, size))
    }

    fn beyond_part(&self, ingress: PortId, class: Class) -> Load {
        if !self.accounts.bounds(class) {
            return Load::NONE;
        }
        let part = self.buffer.part_of_xon(ingress, class, PARTS);
        let queue = self.occupancy.queue(ingress, class);
        let frames = u32::try_from(queue.flood_frames.get()).unwrap_or(u32::MAX);
        Load {
            frames: frames.saturating_sub(part.frames),
            bytes: Bytes(queue.flood_bytes.get()).saturating_sub(part.bytes),
        }
    }

    fn egress_part(&self, egress: PortId, class: Class) -> Bytes {
        if !self.policy(class).goes_by_egress() {
            return Bytes(u64::MAX);
        }
        let settings = &self.ports[egress.index()].settings.classes[class.index()];
        Bytes(settings.egress_xon.0 / u64::from(PARTS))
    }

    /// Samples which classes the peer of `port` pauses, to find those paused nearly all the time. Call it before
    /// expired pauses are ended, because a sample covers the time until now.
    pub(super) fn look_for_standstill<S: FrameStore>(&mut self, port: PortId, store: &mut S) {
        let Peer { standstill, paused, .. } = &mut self.ports[port.index()].peer;
        if self.now < standstill.next_look() {
            return;
        }
        let before = standstill.classes(); // a class that resumed may not be found any more
        standstill.look(self.now, paused.blocked());
        let found = ClassSet(before.0 | standstill.classes().0);
        for class in self.ports[port.index()].peer.lets_nothing_pass().iter() {
            self.drop_of_vlans(port, class, store);
            self.drop_floods_beyond(port, class, store);
        }
        if !found.is_empty() {
            self.pipeline.try_again(self.now); // classes resumed since then cause no event
        }
    }

    fn drop_floods_beyond<S: FrameStore>(&mut self, port: PortId, class: Class, store: &mut S) {
        let mut beyond = [Load::NONE; PORTS_MAX];
        for (ingress, beyond) in (0..=u8::MAX).map(PortId).zip(&mut beyond[..self.ports.len()]) {
            *beyond = self.beyond_part(ingress, class);
        }
        let mut beyond_here = self.buffer.egress(port, class).saturating_sub(self.egress_part(port, class));
        if beyond_here == Bytes::ZERO && beyond.iter().all(|beyond| *beyond == Load::NONE) {
            return;
        }
        let leaves = |meta: &FrameMeta| {
            let beyond = &mut beyond[meta.ingress.index()];
            let leaves = meta.is_flooded() && (beyond_here > Bytes::ZERO || *beyond != Load::NONE);
            if leaves {
                beyond.frames = beyond.frames.saturating_sub(1);
                beyond.bytes = beyond.bytes.saturating_sub(meta.counted());
                beyond_here = beyond_here.saturating_sub(meta.counted());
            }
            leaves
        };
        self.drop_queued(port, class, DropReason::FloodPaused, leaves, store);
    }
}

impl Peer {
    #[inline]
    pub(super) fn lets_nothing_pass(&self) -> ClassSet {
        ClassSet(self.standstill.classes().0 & self.paused.blocked().0)
    }
}

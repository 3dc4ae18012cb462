//! Floods, and ports that stand still because their peers let nothing pass.
//!
//! A flood counts where it came in until the last of its copies has left. One port that is paused for ever would
//! hold all that was ever flooded to it, and with that, by a pause of our own, whoever floods: what that sends to
//! others would stop, too. So where a class of a port stands still ([`Standstill`]), floods from an ingress queue
//! fill a part of what is below its XON, one in [`PARTS`], by bytes and by frames; a pause for any other reason can end
//! then, and there is room for other frames. What waits beyond that is dropped at each look that finds the class so,
//! and what comes later joins no queue that is paused then ([`DropReason::FloodPaused`]). The others get it. Where
//! a policy goes by the length of egress queues, whatever is in them, a flood must leave the same room below
//! their XON. What has one known destination waits for it, as ever; so do floods where pauses come and go,
//! as they do where there is congestion.
//!
//! * All floods from the ingress port count, those on their way to ports that are not paused, too: which copies a
//!   flood still has is not known, and another worker's queues are not either. Their [`Occupancy`] is read: so the port
//!   that is paused decides, whoever its owner is. Beside a port that is merely slow, one that stands still may so
//!   get none.
//! * The oldest go first: they are the same at several paused ports, so that their last copies go.
//! * What a VLAN's router sends takes no part in it: nothing of that waits at such a port ([`super::host`]).
//! * A pipeline that waits for room in a full queue ([`WhenFull`]) does not wait for a flood at such a port.

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

/// Floods that wait for ports that stand still fill at most one part of so many of what is below XON.
const PARTS: u32 = 4;

impl Switch {
    /// Whether a frame with several destinations, or one that may have several, is treated as a flood. Not in a switch of
    /// two ports, unless its router sends by both: nobody else is there to be held up, and it waits for a paused port as all else
    /// does.
    fn has_floods(&self) -> bool {
        self.ports.len() > 2 || self.bridge.has_routers()
    }

    /// A frame becomes a flood of `copies`, and counts as one where it came in. Answers how many copies may be made of
    /// it.
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

    /// A copy of a flood is no longer in the switch. True with the last.
    pub(super) fn close_flood(&mut self, meta: &FrameMeta) -> bool {
        let is_last = self.accounts.leave(meta.class, meta.account);
        if is_last && meta.origin == Origin::Network {
            let queue = self.occupancy.queue(meta.ingress, meta.class);
            queue.flood_frames.sub(1);
            queue.flood_bytes.sub(meta.counted().0);
        }
        is_last
    }

    /// Those of `ports`, as far as they are this worker's, where floods of `class` are bounded because nothing passes.
    pub(super) fn standing_still(&self, ports: &PortSet, class: Class) -> PortSet {
        let stands_still = |port: &PortId| self.ports[port.index()].peer.lets_nothing_pass().contains(class);
        if self.has_floods() { ports.iter().filter(stands_still).collect() } else { PortSet::NONE }
    }

    /// Whether a frame is one of a flood for a port that stands still.
    #[inline]
    pub(super) fn is_bounded(&self, egress: PortId, meta: &FrameMeta) -> bool {
        meta.is_flooded() && self.ports[egress.index()].peer.lets_nothing_pass().contains(meta.class)
    }

    /// Whether a frame misses `egress` because it is one of a flood.
    #[inline]
    pub(super) fn misses(&self, egress: PortId, meta: &FrameMeta) -> bool {
        meta.is_flooded() && self.flood_misses(egress, meta)
    }

    /// Whether a frame misses `egress` if it is flooded.
    pub(super) fn flood_misses(&self, egress: PortId, meta: &FrameMeta) -> bool {
        let (class, size) = (meta.class, meta.counted());
        self.has_floods()
            && self.ports[egress.index()].peer.lets_nothing_pass().contains(class)
            && (meta.origin == Origin::Network && self.beyond_part(meta.ingress, class) != Load::NONE
                || self.buffer.egress(egress, class) + size > self.egress_part(egress, class)
                || self.when_full == WhenFull::Stop && !self.buffer.egress_has_room(egress, class, size))
    }

    /// What floods from `ingress` fill beyond their part.
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

    /// What the egress queue may hold where floods join it in spite of a pause.
    fn egress_part(&self, egress: PortId, class: Class) -> Bytes {
        if !self.policy(class).goes_by_egress() {
            return Bytes(u64::MAX);
        }
        let settings = &self.ports[egress.index()].settings.classes[class.index()];
        Bytes(settings.egress_xon.0 / u64::from(PARTS))
    }

    /// Where a look at `port` is due; before pauses end that are over by now: what counts is whether something could be
    /// sent until now. Floods that wait where a class stands still are made to fit.
    pub(super) fn look_for_standstill<S: FrameStore>(&mut self, port: PortId, store: &mut S) {
        let Peer { standstill, paused, .. } = &mut self.ports[port.index()].peer;
        if self.now < standstill.next_look() {
            return;
        }
        let before = standstill.classes(); // one that moves again may be found no more
        standstill.look(self.now, paused.blocked());
        let found = ClassSet(before.0 | standstill.classes().0);
        for class in self.ports[port.index()].peer.lets_nothing_pass().iter() {
            self.drop_of_vlans(port, class, store);
            self.drop_floods_beyond(port, class, store);
        }
        if !found.is_empty() {
            self.pipeline.try_again(self.now); // what has been let go since tells nobody
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
    /// Classes that stand still, but for those that were let go since that was found.
    #[inline]
    pub(super) fn lets_nothing_pass(&self) -> ClassSet {
        ClassSet(self.standstill.classes().0 & self.paused.blocked().0)
    }
}

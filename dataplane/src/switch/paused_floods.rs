//! Floods, and ports whose peers have paused them.
//!
//! A flood counts where it came in until the last of its copies has left. One port that is paused for ever would
//! hold all that was ever flooded to it, and with that, by a pause of our own, whoever floods: what that sends to
//! others would stop, too. So floods may fill a part of what is below XON of their ingress queue while they wait
//! for paused ports, one in [`PARTS`], by bytes and by frames; a pause for any other reason can end then, and
//! there is room for other frames. A flood beyond that joins no queue whose peer has paused it, and is dropped
//! there ([`DropReason::FloodPaused`]). The others get it. Where a policy goes by the length of egress queues,
//! whatever is in them, a flood must leave the same room below their XON. What has one known destination waits
//! for it, as ever.
//!
//! * All floods from the ingress port count, those on their way to ports that are not paused, too: which copies a
//!   flood still has is not known, and another worker's queues are not either. Its counters are read: so the port
//!   that is paused decides, whoever its owner is.
//! * What waits when a pause begins may be more. It is no loss as long as the pause may be a short one; after
//!   [`PATIENCE`], once for each pause, the oldest floods of the queue go, until all fits. The oldest: they are the
//!   same at several paused ports, so that their last copies go.
//! * A pipeline that stops for a full queue ([`WhenFull::Stop`]) does not stop for a flood at a paused one.

use super::Switch;
use super::port::Peer;
use crate::buffer::Load;
use crate::drop_reason::DropReason;
use crate::frame::{Frame, FrameStore};
use crate::queue::{FrameMeta, UNCOUNTED};
use crate::settings::{Accounting, WhenFull};
use crate::units::{Bytes, CLASSES, Class, Nanos, PORTS_MAX, PortId};

/// Floods that wait for paused ports fill at most one part of so many of what is below XON.
const PARTS: u32 = 4;
/// For so long more may wait than that, at a port that was not paused when it came.
const PATIENCE: Nanos = Nanos::from_millis(10);

/// Which pauses of a port's peer have outlasted [`PATIENCE`]: by class, when the last of them began.
#[derive(Debug, Default)]
pub(super) struct Outlasted([Option<Nanos>; CLASSES]);

impl Peer {
    /// When the next pause in force will have outlasted [`PATIENCE`].
    pub(super) fn floods_due(&self) -> Nanos {
        let pauses = self.paused.blocked().iter().filter_map(|class| self.lasts_since(class));
        pauses.map(|since| since.after(PATIENCE)).min().unwrap_or(Nanos::NEVER)
    }

    /// Since when a pause of `class` lasts that has not been found to outlast [`PATIENCE`].
    fn lasts_since(&self, class: Class) -> Option<Nanos> {
        self.paused.since(class).filter(|since| self.outlasted.0[class.index()] != Some(*since))
    }
}

impl Switch {
    /// A frame becomes a flood of `copies`, and counts as one where it came in. Answers how many copies may be made of
    /// it. In a switch of two ports it is no flood: nobody else is there to be held up.
    pub(super) fn open_flood(&mut self, frame: &Frame, copies: u32) -> u32 {
        if self.ports.len() == 2 {
            return 0;
        }
        let meta = self.nodes.meta_mut(frame);
        if self.accounting == Accounting::UntilForwarded {
            meta.group = UNCOUNTED;
            return copies - 1;
        }
        let (group, may_be_made) = self.groups.open(meta.class, copies);
        meta.group = group;
        let counters = self.counters.class(meta.ingress, meta.class);
        counters.flood_frames.add(1);
        counters.flood_bytes.add(meta.counted().0);
        may_be_made
    }

    /// A copy of a flood is no longer in the switch. True with the last.
    pub(super) fn close_flood(&mut self, meta: &FrameMeta) -> bool {
        let is_last = self.groups.leave(meta.class, meta.group);
        if is_last {
            let counters = self.counters.class(meta.ingress, meta.class);
            counters.flood_frames.sub(1);
            counters.flood_bytes.sub(meta.counted().0);
        }
        is_last
    }

    /// Whether a frame is one of a flood, for a port that is paused.
    #[inline]
    pub(super) fn meets_pause(&self, egress: PortId, meta: &FrameMeta) -> bool {
        meta.is_flooded() && self.is_blocked(egress, meta.class)
    }

    /// Whether a frame misses `egress` because it is one of a flood and the port is paused.
    #[inline]
    pub(super) fn misses(&self, egress: PortId, meta: &FrameMeta) -> bool {
        meta.is_flooded() && self.flood_misses(egress, meta)
    }

    /// Whether a frame misses `egress` if it is flooded.
    pub(super) fn flood_misses(&self, egress: PortId, meta: &FrameMeta) -> bool {
        self.is_blocked(egress, meta.class) && self.has_no_part_left(egress, meta)
    }

    #[inline]
    fn is_blocked(&self, egress: PortId, class: Class) -> bool {
        self.ports[egress.index()].peer.paused.blocked().contains(class)
    }

    #[cold]
    fn has_no_part_left(&self, egress: PortId, meta: &FrameMeta) -> bool {
        let (class, size) = (meta.class, meta.counted());
        let waits_for_room = self.when_full == WhenFull::Stop;
        self.beyond_part(meta.ingress, class) != Load::NONE
            || self.buffer.egress(egress, class) + size > self.egress_part(egress, class)
            || waits_for_room && !self.buffer.egress_has_room(egress, class, size)
    }

    /// What floods from `ingress` fill beyond their part.
    fn beyond_part(&self, ingress: PortId, class: Class) -> Load {
        if !self.groups.bounds(class) {
            return Load::NONE;
        }
        let part = self.buffer.part_of_xon(ingress, class, PARTS);
        let counters = self.counters.class(ingress, class);
        let frames = u32::try_from(counters.flood_frames.get()).unwrap_or(u32::MAX);
        Load {
            frames: frames.saturating_sub(part.frames),
            bytes: Bytes(counters.flood_bytes.get()).saturating_sub(part.bytes),
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

    /// The peer of `port` has paused it, or has let it go. Floods that wait for room there do not any more.
    pub(super) fn floods_meet_pause(&mut self, port: PortId) {
        self.agenda.look_by(self.ports[port.index()].peer.floods_due());
        if !self.agenda.awaited.contains(port) {
            return;
        }
        for class in self.ports[port.index()].peer.paused.blocked().iter() {
            let waiting = std::mem::take(&mut self.ports[port.index()].egress.awaiting_room[class.index()]);
            for ingress in waiting.iter() {
                self.ports[ingress.index()].ingress.waits_for_room.remove(class);
                self.agenda.ingress_ready.insert(ingress);
            }
        }
        if !self.ports[port.index()].egress.is_awaited() {
            self.agenda.awaited.remove(port);
        }
    }

    /// Where a pause of `port` has outlasted [`PATIENCE`], the floods that wait are made to fit.
    pub(super) fn fit_floods<S: FrameStore>(&mut self, port: PortId, store: &mut S) {
        if self.now < self.ports[port.index()].peer.floods_due() {
            return;
        }
        for class in self.ports[port.index()].peer.paused.blocked().iter() {
            let at = &mut self.ports[port.index()].peer;
            if let Some(since) = at.lasts_since(class)
                && since.after(PATIENCE) <= self.now
            {
                at.outlasted.0[class.index()] = Some(since);
                self.drop_floods_beyond(port, class, store);
            }
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
        let mut leaves = |meta: &FrameMeta| {
            let beyond = &mut beyond[meta.ingress.index()];
            let leaves = meta.is_flooded() && (beyond_here > Bytes::ZERO || *beyond != Load::NONE);
            if leaves {
                beyond.frames = beyond.frames.saturating_sub(1);
                beyond.bytes = beyond.bytes.saturating_sub(meta.counted());
                beyond_here = beyond_here.saturating_sub(meta.counted());
            }
            leaves
        };
        let at = &mut self.ports[port.index()].egress;
        let queue = &mut at.queues[class.index()];
        let mut queued = queue.take_if(&mut self.nodes, &mut leaves);
        let mut waiting = at.taken_over[class.index()].take_if(&mut self.nodes, &mut leaves);
        if !queue.is_ready() {
            at.backlogged.remove(class);
        }
        while let Some(frame) = queued.pop(&self.nodes) {
            self.count_flow_out(port, class, &frame);
            let meta = *self.nodes.meta(&frame);
            self.leave_egress(port, &meta);
            self.drop_admitted(port, DropReason::FloodPaused, frame, store);
        }
        while let Some(frame) = waiting.pop(&self.nodes) {
            self.drop_admitted(port, DropReason::FloodPaused, frame, store); // it counts at no egress yet
        }
        self.room_at(port, class, store);
    }
}

//! Several workers, one switch: who owns which port, and what they pass to each other.
//!
//! A port belongs to exactly one worker, with its counters and its queues; nothing is locked. A frame
//! whose egress port is another worker's is handed over; when it has left, its slot and its account
//! come back to the worker that owns its ingress port, so that every ingress counter has one writer:
//!
//! ```text
//!   owner of ingress                     owner of egress
//!   receive, forward --- Handover --->   take_over: egress queue
//!                                        transmit, release
//!   take_back        <--- Return -----   (frame, ingress port, class, bytes)
//! ```
//!
//! Both wait in the sender's `Switch` until the driver has room for them on the way. The frame counts
//! at its ingress all the while, so a slow worker makes its neighbours' peers pause, and nothing is
//! dropped on the way between workers. (`until-forwarded` accounting ends when the frame is handed over.) Never: a frame that is handed
//! over twice, a slot that is freed by a worker other than its owner, an egress queue that a frame enters without having been counted at an
//! ingress.
//!
//! Each worker's bridge knows what all have learned: it tells the others ([`super::Batch::next_learned`]), and
//! hears from them ([`super::Batch::hear_learned`]).

use std::collections::VecDeque;

use xoff_wire::units::{PortId, PortSet};

use super::{Batch, Switch};
use crate::forward::FdbUpdate;
use crate::frame::{Frame, FrameStore};
use crate::queue::{Fifo, FrameMeta};

/// Most that a worker keeps to tell the others, beside what is on the way to them. What is beyond is left
/// out: until the station is learned anew the others flood for it, or, where it has moved, send to where it was.
const LEARNED_MAX: usize = 1024;

/// A worker, from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkerId(pub u8);

impl WorkerId {
    /// As an index into tables per worker.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Who owns which port, as one of the workers sees it.
#[derive(Clone, Debug)]
pub struct Workers {
    owners: Box<[WorkerId]>,
    me: WorkerId,
}

impl Workers {
    /// One worker that owns all `ports`.
    #[must_use]
    pub fn single(ports: usize) -> Workers {
        Workers::new(vec![WorkerId(0); ports].into_boxed_slice(), WorkerId(0))
    }

    /// `owners`: by port. `me`: the worker whose `Switch` this is for.
    #[must_use]
    pub const fn new(owners: Box<[WorkerId]>, me: WorkerId) -> Workers {
        Workers { owners, me }
    }

    /// How many workers there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.owners.iter().chain([&self.me]).map(|worker| worker.index() + 1).max().unwrap_or(1)
    }

    /// The worker that owns `port`.
    #[inline]
    #[must_use]
    pub fn owner(&self, port: PortId) -> WorkerId {
        self.owners[port.index()]
    }

    /// The ports that this worker owns.
    #[must_use]
    pub fn own(&self) -> PortSet {
        let ports = (0..=u8::MAX).map(PortId).take(self.owners.len());
        ports.filter(|&port| self.owns(port)).collect()
    }

    /// Whether this worker owns `port`.
    #[inline]
    #[must_use]
    pub fn owns(&self, port: PortId) -> bool {
        self.owner(port) == self.me
    }
}

/// Maximum lossy frames in a worker's outboxes, for each port of its own: they count at no queue before another worker has them. What one
/// turn receives from four queues fits.
pub const HANDOVERS_MAX: u32 = 512;

/// A frame on its way to the worker that owns its egress port.
#[derive(Debug)]
pub struct Handover {
    /// The frame.
    pub frame: Frame,
    meta: FrameMeta,
}

/// A frame's slot and account on their way home. The frame itself has left or was dropped.
#[derive(Debug)]
pub struct Return {
    /// The slot, as a frame to be freed by its owner.
    pub frame: Frame,
    meta: FrameMeta,
}

/// What waits for room on its way to other workers.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) by_worker: Box<[Outbound]>,
    /// Frames of lossy classes in all of them, and the maximum.
    lossy: u32,
    lossy_max: u32,
    /// What their bridges have yet to hear; stays empty with one worker.
    learned: VecDeque<FdbUpdate>,
}

/// Frames on their way to the ports of a worker, and slots on their way home.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    pub(super) frames: Fifo,
    pub(super) returns: Fifo,
}

impl Outbox {
    pub(super) fn new(workers: usize, own_ports: usize) -> Outbox {
        Outbox {
            lossy: 0,
            lossy_max: u32::try_from(own_ports).map_or(u32::MAX, |ports| ports.saturating_mul(HANDOVERS_MAX)),
            by_worker: (0..workers).map(|_| Outbound::default()).collect(),
            learned: VecDeque::with_capacity(LEARNED_MAX),
        }
    }

    /// Makes room for one more lossy frame. False where there is none.
    #[inline]
    pub(super) fn takes_lossy(&mut self) -> bool {
        let takes = self.lossy < self.lossy_max;
        self.lossy += u32::from(takes);
        takes
    }

    /// Other classes are lossy from now on: frames that wait were counted by the old ones, and leave within a turn or two.
    pub(super) fn revise(&mut self) {
        self.lossy = 0;
    }
}

/// Between workers.
impl Batch<'_> {
    /// The slot of the next frame for `worker`.
    #[must_use]
    pub fn next_handover(&self, worker: WorkerId) -> Option<u32> {
        self.switch.outbox.by_worker[worker.index()].frames.front_slot()
    }

    /// The next frame for `worker`. The driver must have room for it on the way.
    pub fn hand_over(&mut self, worker: WorkerId) -> Option<Handover> {
        let frame = self.switch.outbox.by_worker[worker.index()].frames.pop(&self.switch.nodes)?;
        self.switch.ledger.handed_over += 1;
        let meta = *self.switch.nodes.meta(&frame);
        let is_lossy = self.switch.buffer.is_lossy(meta.class);
        let outbox = &mut self.switch.outbox;
        outbox.lossy = outbox.lossy.saturating_sub(is_lossy.into());
        Some(Handover { frame, meta })
    }

    /// Takes a frame over that another worker received; it enters the queue of its egress port.
    pub fn take_over<S: FrameStore>(&mut self, handover: Handover, store: &mut S) {
        let Handover { frame, meta } = handover;
        self.switch.ledger.taken_over += 1;
        let egress = self.switch.open_member(&meta);
        *self.switch.nodes.meta_mut(&frame) = FrameMeta { egress, ..meta };
        self.switch.enqueue(egress, frame, store);
    }

    /// The next slot that goes home to `worker`. The driver must have room for it on the way.
    pub fn give_back(&mut self, worker: WorkerId) -> Option<Return> {
        let frame = self.switch.outbox.by_worker[worker.index()].returns.pop(&self.switch.nodes)?;
        let meta = *self.switch.nodes.meta(&frame);
        Some(Return { frame, meta })
    }

    /// Takes a slot back whose frame has left by another worker's port, or was dropped there.
    pub fn take_back<S: FrameStore>(&mut self, back: Return, store: &mut S) {
        let Return { frame, meta } = back;
        self.switch.settle(&meta);
        store.free(frame);
    }

    /// The next that this worker's bridge has learned: every other worker is to [hear](Batch::hear_learned) of it. The
    /// driver must have room for it on the way to each.
    pub fn next_learned(&mut self) -> Option<FdbUpdate> {
        self.switch.outbox.learned.pop_front()
    }

    /// Another worker's bridge has learned something.
    pub fn hear_learned(&mut self, update: &FdbUpdate) {
        self.switch.bridge.apply_remote(update);
        self.switch.agenda.look_by(self.switch.bridge.next_deadline());
    }
}

impl Switch {
    /// This worker's bridge has learned something.
    #[cold]
    pub(super) fn spread(&mut self, update: FdbUpdate) {
        self.agenda.look_by(self.bridge.next_deadline());
        if self.workers.count() > 1 && self.outbox.learned.len() < LEARNED_MAX {
            self.outbox.learned.push_back(update);
        }
    }

    /// Whether something waits for room on its way to another worker, or home. Nobody tells when there is
    /// some: the driver is to look again soon.
    #[must_use]
    pub fn waits_for_workers(&self) -> bool {
        let mut outbound = self.outbox.by_worker.iter();
        !self.outbox.learned.is_empty()
            || outbound.any(|out| !out.frames.is_empty() || !out.returns.is_empty())
    }
}

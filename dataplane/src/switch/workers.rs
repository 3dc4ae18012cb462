//! Workers of a switch: ownership of ports, and messages between workers.
//!
//! Each port belongs to one worker. The owner of the ingress port hands a frame over to the owner of the egress port.
//! After release, the frame's slot and counts return, so that every ingress counter has one writer and needs no lock.
//!
//! Handovers and returns wait in the sender's `Switch` until the driver has space. Meanwhile a lossless frame counts at
//! ingress, so a slow worker causes pauses, not drops. A frame is never handed over twice, and only its owner frees a
//! slot.

use std::collections::VecDeque;

use xoff_wire::units::{PortId, PortSet};

use super::{Batch, Switch};
use crate::forward::FdbUpdate;
use crate::frame::{Frame, FrameStore};
use crate::queue::{Fifo, FrameMeta};

/// Maximum number of learned addresses that wait to be sent to other workers. Further ones are discarded: other workers then
/// flood frames to them, or use their old ports.
const LEARNED_MAX: usize = 1024;

/// Number of a worker, from zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkerId(pub u8);

impl WorkerId {
    /// Returns the worker's number as a table index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Owners of all ports, and the number of this worker.
#[derive(Clone, Debug)]
pub struct Workers {
    owners: Box<[WorkerId]>,
    me: WorkerId,
}

impl Workers {
    /// Creates a single worker that owns all `ports`.
    #[must_use]
    pub fn single(ports: usize) -> Workers {
        Workers::new(vec![WorkerId(0); ports].into_boxed_slice(), WorkerId(0))
    }

    /// Creates worker `me`; `owners` has each port's worker.
    #[must_use]
    pub const fn new(owners: Box<[WorkerId]>, me: WorkerId) -> Workers {
        Workers { owners, me }
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.owners.iter().chain([&self.me]).map(|worker| worker.index() + 1).max().unwrap_or(1)
    }

    /// Returns the worker that owns `port`.
    #[inline]
    #[must_use]
    pub fn owner(&self, port: PortId) -> WorkerId {
        self.owners[port.index()]
    }

    /// Returns this worker's ports.
    #[must_use]
    pub fn own(&self) -> PortSet {
        let ports = (0..=u8::MAX).map(PortId).take(self.owners.len());
        ports.filter(|&port| self.owns(port)).collect()
    }

    /// Returns whether this worker owns `port`.
    #[inline]
    #[must_use]
    pub fn owns(&self, port: PortId) -> bool {
        self.owner(port) == self.me
    }
}

/// Maximum number of lossy frames on their way from a worker to others, for each of its ports.
pub const HANDOVERS_MAX: u32 = 512;

/// Frame on its way to the worker of its egress port.
#[derive(Debug)]
#[allow(missing_docs)]
pub struct Handover {
    pub frame: Frame,
    meta: FrameMeta,
}

/// Slot and counts of a frame that left by another worker's port, on their way to the slot's owner.
#[derive(Debug)]
pub struct Return {
    /// Handle of the frame's slot, which the slot's owner must free.
    pub frame: Frame,
    meta: FrameMeta,
}

#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) by_worker: Box<[Outbound]>,
    lossy: u32,
    lossy_max: u32,
    learned: VecDeque<FdbUpdate>,
}

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

    #[inline]
    pub(super) fn takes_lossy(&mut self) -> bool {
        let takes = self.lossy < self.lossy_max;
        self.lossy += u32::from(takes);
        takes
    }

    pub(super) fn revise(&mut self) {
        self.lossy = 0;
    }
}

impl Batch<'_> {
    /// Returns the slot of the next frame to hand over to `worker`.
    #[must_use]
    pub fn next_handover(&self, worker: WorkerId) -> Option<u32> {
        self.switch.outbox.by_worker[worker.index()].frames.front_slot()
    }

    /// Takes the next frame to hand over to `worker`. The driver must have space for it.
    pub fn hand_over(&mut self, worker: WorkerId) -> Option<Handover> {
        let frame = self.switch.outbox.by_worker[worker.index()].frames.pop(&self.switch.nodes)?;
        self.switch.ledger.handed_over += 1;
        let meta = *self.switch.nodes.meta(&frame);
        let is_lossy = self.switch.buffer.is_lossy(meta.class);
        let outbox = &mut self.switch.outbox;
        outbox.lossy = outbox.lossy.saturating_sub(is_lossy.into());
        Some(Handover { frame, meta })
    }

    /// Queues a frame that another worker handed over, at the frame's egress port.
    pub fn take_over<S: FrameStore>(&mut self, handover: Handover, store: &mut S) {
        let Handover { frame, meta } = handover;
        self.switch.ledger.taken_over += 1;
        let egress = self.switch.open_member(&meta);
        *self.switch.nodes.meta_mut(&frame) = FrameMeta { egress, ..meta };
        self.switch.enqueue(egress, frame, store);
    }

    /// Takes the next slot to return to `worker`. The driver must have space for it.
    pub fn give_back(&mut self, worker: WorkerId) -> Option<Return> {
        let frame = self.switch.outbox.by_worker[worker.index()].returns.pop(&self.switch.nodes)?;
        let meta = *self.switch.nodes.meta(&frame);
        Some(Return { frame, meta })
    }

    /// Frees a frame that another worker has sent or dropped, and removes it from all counts.
    pub fn take_back<S: FrameStore>(&mut self, back: Return, store: &mut S) {
        let Return { frame, meta } = back;
        self.switch.settle(&meta);
        store.free(frame);
    }

    /// Takes the next update of this worker's forwarding database, which every other worker must
    /// [apply](Batch::apply_learned).
    pub fn next_learned(&mut self) -> Option<FdbUpdate> {
        self.switch.outbox.learned.pop_front()
    }

    /// Applies another worker's update to this worker's forwarding database.
    pub fn apply_learned(&mut self, update: &FdbUpdate) {
        self.switch.bridge.apply_remote(update);
        self.switch.ready.schedule_by(self.switch.bridge.next_deadline());
    }
}

impl Switch {
    #[cold]
    pub(super) fn spread(&mut self, update: FdbUpdate) {
        self.ready.schedule_by(self.bridge.next_deadline());
        if self.workers.count() > 1 && self.outbox.learned.len() < LEARNED_MAX {
            self.outbox.learned.push_back(update);
        }
    }

    /// Returns whether messages wait for space in other workers' queues. No event reports such space, so drivers must retry soon.
    #[must_use]
    pub fn waits_for_workers(&self) -> bool {
        let mut outbound = self.outbox.by_worker.iter();
        !self.outbox.learned.is_empty()
            || outbound.any(|out| !out.frames.is_empty() || !out.returns.is_empty())
    }
}

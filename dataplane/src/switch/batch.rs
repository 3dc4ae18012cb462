//! A driver takes frames in batches. Those of a batch that take the same step on the same way, one right after
//! the other, are a run, and are counted together.
//!
//! The first frame of a run is counted by itself. Before the second is, the switch looks how many bytes may
//! follow with nothing to be decided ([`Switch::quiet`]): every limit and threshold is farther away than that,
//! and no policy would have anything to say. As far as it reaches frames are only tallied, and the tally
//! is counted at once when the run is over. Near a threshold nothing is quiet, and each frame is
//! counted by itself: what a switch decides, and in which order, does not depend on batches.
//!
//! Only counting is put off (occupancies, counters, what is committed, events for policies); frames move as they
//! always do, though several may move at once ([`super::train`]). A run is open only while a [`Batch`] is in hand, which lets nobody else look at the switch;
//! and whatever inside it looks at counts, or changes them in another way, has the run settled before.

use super::Switch;
use crate::buffer::Load;
use crate::frame::{Frame, FrameStore};
use crate::policy::Event;
use crate::queue::FrameMeta;
use crate::settings::{Accounting, WhenFull};
use crate::units::{Bytes, Class, Nanos, PortId};

/// The four steps, for several frames at one time. What they count shows when the batch is dropped.
#[derive(Debug)]
pub struct Batch<'switch> {
    switch: &'switch mut Switch,
}

impl Batch<'_> {
    /// See [`Switch::receive`].
    #[inline]
    pub fn receive<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.receive(self.switch.run.now, port, frame, store);
    }

    /// See [`Switch::forward`]; what follows that frame may come along.
    #[inline]
    pub fn forward<S: FrameStore>(&mut self, store: &mut S) -> bool {
        self.switch.forward(self.switch.run.now, store)
    }

    /// Gives `send` the frames that may leave by `port` now, `most` at most, and says how many there were. See
    /// [`Switch::transmit`].
    #[inline]
    pub fn transmit<S: FrameStore>(
        &mut self,
        port: PortId,
        store: &mut S,
        most: u32,
        mut send: impl FnMut(&mut S, Frame),
    ) -> u32 {
        let mut sent = 0;
        while sent < most
            && let Some(frame) = self.switch.transmit(self.switch.run.now, port, store)
        {
            send(store, frame);
            sent += 1;
            let mut train = self.switch.transmit_train(port, most - sent).unwrap_or_default();
            sent += train.frames();
            while let Some(frame) = train.pop(&self.switch.nodes) {
                send(store, frame);
            }
        }
        sent
    }

    /// See [`Switch::release`].
    #[inline]
    pub fn release<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.release(self.switch.run.now, port, frame, store);
    }

    /// See [`Switch::give_up`].
    pub fn give_up<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.switch.give_up(self.switch.run.now, port, frame, store);
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.switch.settle();
        self.switch.run = Run::NONE;
    }
}

/// What frames have in common that are counted together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) step: Step,
    pub(super) ingress: PortId,
    pub(super) egress: PortId,
    pub(super) class: Class,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No frame's: there is no run.
    None,
    Receive,
    Enqueue,
    /// From whichever ingress.
    Transmit,
    Release,
}

impl Way {
    const NONE: Way =
        Way { step: Step::None, ingress: PortId(0), egress: PortId(0), class: Class::from_low_bits(0) };
}

impl PartialEq for Way {
    /// All at once.
    #[inline]
    fn eq(&self, other: &Way) -> bool {
        let key =
            |way: &Way| u32::from_ne_bytes([way.step as u8, way.ingress.0, way.egress.0, way.class.get()]);
        key(self) == key(other)
    }
}

/// Frames that take the same way.
#[derive(Debug)]
pub(super) struct Run {
    in_batch: bool,
    /// Of the batch.
    pub(super) now: Nanos,
    way: Way,
    /// Of frames that are transmitted: what the first was.
    pub(super) like: Like,
    /// Bytes that may still follow, once it was looked.
    quiet: Bytes,
    looked: bool,
    /// The last way that was not quiet: not looked at again in this batch.
    loud: Way,
    /// Not yet counted.
    tallied: Load,
}

/// What transmitted frames must have in common, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Like {
    pub(super) since: Nanos,
    pub(super) vid: u16,
    pub(super) tags: u8,
}

impl Like {
    pub(super) const fn of(meta: &FrameMeta) -> Like {
        Like { since: meta.since, vid: meta.vid, tags: meta.tags }
    }
}

impl Run {
    /// None, and no batch.
    pub(super) const NONE: Run = Run {
        in_batch: false,
        now: Nanos::ZERO,
        way: Way::NONE,
        like: Like { since: Nanos::ZERO, vid: 0, tags: 0 },
        quiet: Bytes::ZERO,
        looked: false,
        loud: Way::NONE,
        tallied: Load { frames: 0, bytes: Bytes::ZERO },
    };

    /// The way of its frames.
    #[inline]
    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// The way that frames transmitted at `port` take.
    #[inline]
    pub(super) fn transmits(&self, port: PortId) -> Option<Way> {
        (self.way.step == Step::Transmit && self.way.egress == port).then_some(self.way)
    }
}

impl Switch {
    /// For several frames at `now`.
    pub fn batch(&mut self, now: Nanos) -> Batch<'_> {
        self.run = Run { in_batch: true, now, ..Run::NONE };
        Batch { switch: self }
    }

    /// Tallies a frame that counts for `size` and goes on with the run. False where it does not, or must not:
    /// then it is to be counted by itself, and nothing is left to be settled.
    #[inline]
    pub(super) fn goes_on(&mut self, way: Way, size: Bytes) -> bool {
        if self.run.way == way && (size <= self.run.quiet || self.finds_quiet(way, size)) {
            self.tally(size);
            return true;
        }
        self.settle();
        false
    }

    /// Bytes of frames that may go on with the run now, the next of which counts for `size`.
    #[inline]
    pub(super) fn quiet_for(&mut self, way: Way, size: Bytes) -> Bytes {
        if !self.run.looked {
            self.finds_quiet(way, size);
        }
        self.run.quiet
    }

    /// Frames go on with the run, no more bytes than are [quiet](Self::quiet_for).
    #[inline]
    pub(super) fn tally(&mut self, load: impl Into<Load>) {
        let load = load.into();
        self.run.quiet -= load.bytes;
        self.run.tallied.frames += load.frames;
        self.run.tallied.bytes += load.bytes;
    }

    /// A frame has taken `way`, counted by itself: others may follow.
    #[inline]
    pub(super) fn begin_run(&mut self, way: Way) {
        if self.run.in_batch && self.run.loud != way {
            self.run.way = way;
        }
    }

    /// A frame like this has been transmitted, counted by itself: others may follow.
    #[inline]
    pub(super) fn begin_run_of(&mut self, like: Like, way: Way) {
        if self.run.in_batch {
            self.run.like = like;
        }
        self.begin_run(way);
    }

    /// Ends the run. Everything is counted.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.run.way.step == Step::None {
            return;
        }
        if !self.is_settled() {
            self.count_run();
        }
        (self.run.way, self.run.quiet, self.run.looked) = (Way::NONE, Bytes::ZERO, false);
    }

    /// Whether every frame is counted.
    pub(super) fn is_settled(&self) -> bool {
        self.run.tallied.frames == 0
    }

    #[inline(never)]
    fn count_run(&mut self) {
        let Run { way: Way { step, ingress, egress, class }, now, like, .. } = self.run;
        let load = std::mem::take(&mut self.run.tallied);
        match step {
            Step::None => (),
            Step::Receive => {
                self.count_received(ingress, class, load);
                self.buffer.enter_ingress(ingress, class, load).expect("what is quiet has room");
            }
            Step::Enqueue => self.buffer.enter_egress(ingress, egress, class, load),
            Step::Transmit => self.commit(now, like.since, egress, class, load),
            Step::Release => {
                self.count_sent(egress, class, load);
                self.buffer.leave_egress(ingress, egress, class, load);
                if self.accounting == Accounting::UntilTransmitted {
                    self.buffer.leave_ingress(ingress, class, load);
                }
            }
        }
    }

    /// Looks how many bytes may take `way`, if that was not done for this run. Whether there are `size`.
    #[inline(never)]
    fn finds_quiet(&mut self, way: Way, size: Bytes) -> bool {
        if self.run.looked {
            return false;
        }
        (self.run.looked, self.run.quiet) = (true, self.quiet(way));
        let is_quiet = size <= self.run.quiet;
        if !is_quiet {
            self.run.loud = way;
        }
        is_quiet
    }

    /// Bytes of frames that may take `way`, one after the other, with nothing to be decided.
    fn quiet(&self, way: Way) -> Bytes {
        let Way { step, ingress, egress, class } = way;
        let of_policy = |event| self.policies[class.index()].quiet(event, &self.buffer);
        let (sampled_in, sampled_out) = (self.congestion.ingress(), self.congestion.egress());
        match step {
            _ if !self.shadows.is_empty() || self.when_full == WhenFull::Stop => Bytes::ZERO,
            Step::Receive if sampled_in.contains(class) => Bytes::ZERO,
            Step::Receive => {
                self.buffer.quiet_ingress(ingress, class).min(of_policy(Event::Received { ingress }))
            }
            Step::Enqueue if sampled_out.contains(class) => Bytes::ZERO,
            Step::Enqueue if self.ports[egress.index()].drops_early.contains(class) => Bytes::ZERO,
            Step::Enqueue => {
                let event = Event::Enqueued { ingress, egress, size: Bytes::ZERO };
                self.buffer.quiet_egress(egress, class).min(of_policy(event))
            }
            Step::Transmit if sampled_in.contains(class) || sampled_out.contains(class) => Bytes::ZERO,
            Step::Transmit => self.quiet_line(egress, class),
            Step::Release if !self.workers.owns(ingress) => Bytes::ZERO,
            Step::Release => {
                of_policy(Event::Dequeued { egress }).min(of_policy(Event::Released { ingress }))
            }
            Step::None => Bytes::ZERO,
        }
    }
}

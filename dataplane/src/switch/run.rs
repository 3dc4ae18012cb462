//! Frames that take the same step of their journey, from the same port to the same port in the same class, one right
//! after the other, are a run, and are counted together.
//!
//! The first frame of a run is counted by itself. Before the second is, the switch looks how many may follow with nothing
//! to be decided: every limit and threshold is farther away than that [`Margin`], and no policy would have
//! anything to say. As far as it reaches frames are only tallied, and the tally is counted at once when the run is
//! over. Near a threshold there is no margin, and each frame is counted by itself: what a switch decides, and
//! in which order, does not depend on batches.
//!
//! Only counting is put off (occupancies, counters, what is committed, events for policies); frames move as they
//! always do. A run is open only within a [`super::Batch`], which lets nobody else look at the switch; and whatever
//! inside looks at counts, or changes them in another way, ends the run before.

use xoff_flow_control::buffer::{Load, Margin};
use xoff_flow_control::policy::Event;
use xoff_flow_control::settings::{Accounting, WhenFull};
use xoff_wire::units::{Bytes, Class, PortId};

use super::Switch;

/// What frames have in common that are counted together: the step that they take, from which port to which port, and
/// their class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    pub(super) step: Step,
    pub(super) ingress: PortId,
    pub(super) egress: PortId,
    pub(super) class: Class,
}

/// The steps that count frames one by one. (Those that leave together are counted by [`Switch::transmit`] as they
/// do.)
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// No frame's.
    None,
    Receive,
    Enqueue,
    Release,
}

impl Passage {
    const NONE: Passage =
        Passage { step: Step::None, ingress: PortId(0), egress: PortId(0), class: Class::ALL[0] };
}

impl PartialEq for Passage {
    /// All is compared at once, in one number.
    #[inline]
    fn eq(&self, other: &Passage) -> bool {
        let number = |it: &Passage| [it.step as u8, it.ingress.0, it.egress.0, it.class.get()];
        u32::from_ne_bytes(number(self)) == u32::from_ne_bytes(number(other))
    }
}

/// The run that is open, if one is.
#[derive(Debug)]
pub(super) struct Run {
    passage: Passage,
    /// How much may be tallied; zero until it was looked.
    margin: Bytes,
    /// The last passage that had no margin: not looked at again in this batch.
    without_margin: Passage,
    /// Not yet counted.
    tally: Load,
}

impl Run {
    pub(super) const NONE: Run =
        Run { passage: Passage::NONE, margin: Bytes::ZERO, without_margin: Passage::NONE, tally: Load::NONE };

    /// Tallies a frame of `size` that takes the same passage, if there is margin.
    #[inline]
    pub(super) fn takes(&mut self, size: Bytes) -> bool {
        let with_it = self.tally + size.into();
        let is_within = with_it.bytes <= self.margin;
        if is_within {
            self.tally = with_it;
        }
        is_within
    }
}

impl Switch {
    /// Tallies a frame of `size` that takes this passage in the run that is open. False where it does not, or must not:
    /// then it is to be counted by itself, and everything before is.
    #[inline]
    pub(super) fn joins_run(&mut self, passage: Passage, size: Bytes) -> bool {
        if self.run.passage == passage && (self.run.takes(size) || self.look_for_margin(passage, size)) {
            return true;
        }
        self.end_run();
        false
    }

    /// A frame has taken this passage, counted by itself: others may follow.
    #[inline]
    pub(super) fn begin_run(&mut self, passage: Passage) {
        if self.run.without_margin != passage {
            self.run.passage = passage;
        }
    }

    /// Everything is counted, and no run is open.
    #[inline]
    pub(super) fn end_run(&mut self) {
        if self.run.tally.frames > 0 {
            self.count_run();
        }
        (self.run.passage, self.run.margin) = (Passage::NONE, Bytes::ZERO);
    }

    /// Whether every frame is counted.
    pub(super) fn is_counted(&self) -> bool {
        self.run.tally.frames == 0
    }

    #[inline(never)]
    fn count_run(&mut self) {
        let load = std::mem::take(&mut self.run.tally);
        let Passage { step, ingress, egress, class } = self.run.passage;
        match step {
            Step::None => (),
            Step::Receive => {
                self.count_received(ingress, class, load);
                self.buffer.enter_ingress(ingress, class, load).expect("below XOFF there is room");
            }
            Step::Enqueue => self.buffer.enter_egress(ingress, egress, class, load),
            Step::Release => {
                self.count_sent(egress, class, load);
                self.ports[egress.index()].egress.take_back(load);
                self.buffer.leave_egress(ingress, egress, class, load);
                self.buffer.leave_ingress(ingress, class, load);
            }
        }
    }

    /// Looks for a margin, where that has yet to be done, and tallies a frame of `size` if there is.
    #[inline(never)]
    fn look_for_margin(&mut self, passage: Passage, size: Bytes) -> bool {
        if self.run.margin > Bytes::ZERO {
            return false;
        }
        self.run.margin = self.margin(passage).in_bytes();
        if size > self.run.margin {
            self.run.without_margin = passage;
        }
        self.run.takes(size)
    }

    /// How much may take this passage with nothing to be decided, and nobody who is to see each frame.
    fn margin(&self, Passage { step, ingress, egress, class }: Passage) -> Margin {
        let is_each_seen = !self.policies.shadows.is_empty()
            || self.when_full == WhenFull::Stop
            || !self.pipeline.is_default()
            || self.accounting == Accounting::UntilForwarded;
        if is_each_seen {
            return Margin::NONE;
        }
        let drops_early = self.ports[egress.index()].egress.drops_early;
        let of_policy = |event| self.policies.acting[class.index()].margin(event, &self.buffer);
        match step {
            Step::Receive if !self.congestion.ingress().contains(class) => {
                self.buffer.margin_below_xoff(ingress, class).min(of_policy(Event::Received { ingress }))
            }
            Step::Enqueue if !self.congestion.egress().contains(class) && !drops_early.contains(class) => {
                let event = Event::Enqueued { ingress, egress, size: Bytes::ZERO };
                self.buffer.egress_room(egress, class).min(of_policy(event))
            }
            Step::Release if self.workers.owns(ingress) => {
                of_policy(Event::Dequeued { egress }).min(of_policy(Event::Released { ingress }))
            }
            Step::None | Step::Receive | Step::Enqueue | Step::Release => Margin::NONE,
        }
    }
}

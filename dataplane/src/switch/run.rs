//! Frames that take the same step of their journey, from the same port to the same port in the same class, one right
//! after the other, are a run, and are counted together.
//!
//! The first frame of a run is counted by itself. Before the second is, the switch looks how many may follow with nothing
//! to be decided: every limit and threshold is farther away than that [`Margin`], and no policy would have
//! anything to say. As far as it reaches frames are only tallied, and the tally is counted at once when the run is
//! over. Near a threshold there is no margin, and each frame is counted by itself: what a switch decides, and
//! in which order, does not depend on batches.
//!
//! Only counting is put off (occupancies, counters, events for policies); frames move as they always do. A run is open only
//! within a [`super::Batch`], which lets nobody else look at the switch; and whatever inside looks at counts, or
//! changes them in another way, ends the run before.

use super::Switch;
use crate::buffer::{Load, Margin};
use crate::units::{Bytes, Class, PortId};

/// What frames have in common that are counted together: the step that they take, from which port to which port, and
/// their class. In one number, so that two are compared at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Passage(u32);

/// The steps that count frames one by one. (Those that leave together are counted by [`Switch::transmit`] as they
/// do.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No frame's.
    None,
    Receive,
    Enqueue,
    Release,
}

impl Passage {
    const NONE: Passage = Passage::new(Step::None, PortId(0), PortId(0), Class::from_low_bits(0));

    #[inline]
    pub(super) const fn new(step: Step, ingress: PortId, egress: PortId, class: Class) -> Passage {
        Passage(u32::from_ne_bytes([step as u8, ingress.0, egress.0, class.get()]))
    }

    fn step(self) -> Step {
        let steps = [Step::None, Step::Receive, Step::Enqueue, Step::Release];
        steps[usize::from(self.0.to_ne_bytes()[0])]
    }

    #[inline]
    pub(super) const fn ingress(self) -> PortId {
        PortId(self.0.to_ne_bytes()[1])
    }

    #[inline]
    pub(super) const fn egress(self) -> PortId {
        PortId(self.0.to_ne_bytes()[2])
    }

    #[inline]
    pub(super) const fn class(self) -> Class {
        Class::from_low_bits(self.0.to_ne_bytes()[3])
    }
}

impl std::fmt::Debug for Passage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?} {:?} {:?}", self.step(), self.ingress(), self.egress(), self.class())
    }
}

/// The run that is open, if one is.
#[derive(Debug)]
pub(super) struct Run {
    passage: Passage,
    /// Bytes that may still follow, once it was looked.
    margin: Bytes,
    looked: bool,
    /// The last passage that had no margin: not looked at again in this batch.
    without_margin: Passage,
    /// Not yet counted.
    tally: Load,
}

impl Run {
    pub(super) const NONE: Run = Run {
        passage: Passage::NONE,
        margin: Bytes::ZERO,
        looked: false,
        without_margin: Passage::NONE,
        tally: Load::NONE,
    };
}

impl Switch {
    /// Tallies a frame that counts for `load`, or several, and takes this passage in the run that is open. False where it
    /// does not, or must not: then it is to be counted by itself, and everything before is.
    #[inline]
    pub(super) fn joins_run(&mut self, passage: Passage, load: Load) -> bool {
        if self.run.passage == passage && load.bytes <= self.run_margin(passage, load.bytes) {
            self.run.margin -= load.bytes;
            self.run.tally += load;
            return true;
        }
        self.end_run();
        false
    }

    /// Bytes that may join the run, to which this passage belongs; `next` come next.
    #[inline]
    pub(super) fn run_margin(&mut self, passage: Passage, next: Bytes) -> Bytes {
        if !self.run.looked {
            self.look_for_margin(passage, next);
        }
        self.run.margin
    }

    /// Whether frames that take this passage now would join the run that is open.
    #[inline]
    pub(super) fn is_in_run(&self, passage: Passage) -> bool {
        self.run.passage == passage
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
        if self.run.passage == Passage::NONE {
            return;
        }
        if !self.run.tally.is_none() {
            self.count_run();
        }
        (self.run.passage, self.run.looked) = (Passage::NONE, false);
    }

    /// Whether every frame is counted.
    pub(super) fn is_counted(&self) -> bool {
        self.run.tally.is_none()
    }

    #[inline(never)]
    fn count_run(&mut self) {
        let (passage, load) = (self.run.passage, std::mem::take(&mut self.run.tally));
        match passage.step() {
            Step::None => (),
            Step::Receive => self.count_received_run(passage, load),
            Step::Enqueue => self.count_enqueued_run(passage, load),
            Step::Release => self.count_released_run(passage, load),
        }
    }

    #[inline(never)]
    fn look_for_margin(&mut self, passage: Passage, next: Bytes) {
        let margin = match passage.step() {
            _ if self.has_duties_for_each_frame() => Margin::NONE,
            Step::None => Margin::NONE,
            Step::Receive => self.receive_margin(passage),
            Step::Enqueue => self.enqueue_margin(passage),
            Step::Release => self.release_margin(passage),
        };
        (self.run.margin, self.run.looked) = (margin.in_bytes(), true);
        if next > self.run.margin {
            self.run.without_margin = passage;
        }
    }
}

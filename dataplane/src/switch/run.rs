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
use crate::units::{Class, PortId};

/// What frames have in common that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) step: Step,
    pub(super) ingress: PortId,
    pub(super) egress: PortId,
    pub(super) class: Class,
}

/// The steps that count frames one by one. (Those that leave together are counted by [`Switch::transmit`] as they
/// do.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Receive,
    Enqueue,
    Release,
}

/// The run that is open, if one is.
#[derive(Debug)]
pub(super) struct Run {
    passage: Option<Passage>,
    /// How much may still follow, once it was looked.
    margin: Option<Margin>,
    /// The last passage that had no margin: not looked at again in this batch.
    without_margin: Option<Passage>,
    /// Not yet counted.
    tally: Load,
}

impl Run {
    pub(super) const NONE: Run = Run { passage: None, margin: None, without_margin: None, tally: Load::NONE };
}

impl Switch {
    /// Tallies a frame that counts for `load`, or several, and takes this passage in the run that is open. False where it
    /// does not, or must not: then it is to be counted by itself, and everything before is.
    #[inline]
    pub(super) fn joins_run(&mut self, passage: Passage, load: impl Into<Load>) -> bool {
        let load = load.into();
        if self.run.passage == Some(passage) && self.run_margin(passage, load).allows(load) {
            self.tally(load);
            return true;
        }
        self.end_run();
        false
    }

    /// How much may join the run, to which this passage belongs, the next of it `load`.
    #[inline]
    pub(super) fn run_margin(&mut self, passage: Passage, load: Load) -> Margin {
        match self.run.margin {
            Some(margin) => margin,
            None => self.look_for_margin(passage, load),
        }
    }

    #[inline]
    fn tally(&mut self, load: Load) {
        if let Some(margin) = &mut self.run.margin {
            margin.spend(load);
        }
        self.run.tally += load;
    }

    /// Whether frames that take this passage now would join the run that is open.
    #[inline]
    pub(super) fn is_in_run(&self, passage: Passage) -> bool {
        self.run.passage == Some(passage)
    }

    /// A frame has taken this passage, counted by itself: others may follow.
    #[inline]
    pub(super) fn begin_run(&mut self, passage: Passage) {
        if self.run.without_margin != Some(passage) {
            self.run.passage = Some(passage);
        }
    }

    /// Everything is counted, and no run is open.
    #[inline]
    pub(super) fn end_run(&mut self) {
        let Some(passage) = self.run.passage.take() else { return };
        self.run.margin = None;
        if !self.run.tally.is_none() {
            self.count_run(passage);
        }
    }

    /// Whether every frame is counted.
    pub(super) fn is_counted(&self) -> bool {
        self.run.tally.is_none()
    }

    #[inline(never)]
    fn count_run(&mut self, passage: Passage) {
        let load = std::mem::take(&mut self.run.tally);
        match passage.step {
            Step::Receive => self.count_received_run(passage, load),
            Step::Enqueue => self.count_enqueued_run(passage, load),
            Step::Release => self.count_released_run(passage, load),
        }
    }

    #[inline(never)]
    fn look_for_margin(&mut self, passage: Passage, load: Load) -> Margin {
        let margin = match passage.step {
            Step::Receive => self.receive_margin(passage),
            Step::Enqueue => self.enqueue_margin(passage),
            Step::Release => self.release_margin(passage),
        };
        if !margin.allows(load) {
            self.run.without_margin = Some(passage);
        }
        self.run.margin = Some(margin);
        margin
    }
}

//! Shadow policies: they see what the acting policy sees, want what they want, and are not heard.
//!
//! A shadow watches traffic that the acting policy has shaped, so that it answers one question: faced
//! with these frames, when would it have paused whom? How the traffic would have gone on from there, a
//! simulation has to say. A frame that was lost for want of room counts against a shadow if at that
//! moment it had not asked the frame's sender to pause.

use super::{Intent, Policy};
use crate::counter::Counter;
use crate::units::{CLASSES, Class, ClassSet, Nanos, PortId};

/// A policy that is not heard, in all classes.
#[derive(Debug)]
pub(crate) struct Shadow {
    pub(crate) policies: [Policy; CLASSES],
    /// By port and class, whose policies want it held.
    demands: Box<[[ClassSet; CLASSES]]>,
}

/// What a shadow would have done at one port and class.
#[derive(Debug, Default)]
pub struct ShadowCounters {
    /// Times that the peer would have been told to stop.
    pub xoff: Counter,
    /// How long it would have been held, in nanoseconds: finished pauses only.
    pub pausing_nanos: Counter,
    /// Since when it would be held now (driver's clock, ns); zero when it would not.
    pub pausing_since: Counter,
    /// Frames that came in here and were lost for want of room while it had not asked for a pause.
    pub lost: Counter,
    /// When the first of them was (driver's clock, ns); zero while there is none.
    pub first_loss: Counter,
}

impl ShadowCounters {
    /// A frame was lost for want of room, unasked.
    pub(crate) fn lose(&self, now: Nanos) {
        self.lost.add(1);
        if self.first_loss.get() == 0 {
            self.first_loss.set(now.0.max(1));
        }
    }
}

impl Shadow {
    pub(crate) fn new(policies: [Policy; CLASSES], ports: usize) -> Shadow {
        Shadow { policies, demands: vec![[ClassSet::NONE; CLASSES]; ports].into_boxed_slice() }
    }

    /// Whether it would hold the peer of `port` for `class` now.
    pub(crate) fn holds(&self, port: PortId, class: Class) -> bool {
        !self.demands[port.index()][class.index()].is_empty()
    }

    /// Takes note of what its policy of class `by` wants; `shown`: its counters by port.
    pub(crate) fn note(
        &mut self,
        now: Nanos,
        by: Class,
        intent: Intent,
        shown: &[[ShadowCounters; CLASSES]],
    ) {
        match intent {
            Intent::Xoff { port, class, .. } => {
                let demands = &mut self.demands[port.index()][class.index()];
                if demands.is_empty() {
                    let shown = &shown[port.index()][class.index()];
                    shown.xoff.add(1);
                    shown.pausing_since.set(now.0.max(1));
                }
                demands.insert(by);
            }
            Intent::TellFlows { .. } | Intent::Rate { .. } => (),
            Intent::Xon { port, class } => {
                let demands = &mut self.demands[port.index()][class.index()];
                demands.remove(by);
                if demands.is_empty() {
                    let shown = &shown[port.index()][class.index()];
                    shown.pausing_nanos.add(now.0.saturating_sub(shown.pausing_since.get()));
                    shown.pausing_since.set(0);
                }
            }
        }
    }
}

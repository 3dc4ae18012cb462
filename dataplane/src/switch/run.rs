//! Runs: consecutive frames with the same [step](RunStep), ports and class, counted together.
//!
//! The first frame of a run is counted by itself. Before the second, the switch computes the [`Margin`] within which no
//! limit or threshold is reached and no policy acts. Frames within this margin are counted together when the run ends,
//! at the latest when the [`super::Batch`] ends. Code that reads or changes counts must end the run first.

use xoff_flow_control::buffer::{Load, Margin};
use xoff_flow_control::policy::Event;
use xoff_flow_control::settings::{Accounting, WhenFull};
use xoff_wire::units::{Bytes, Class, PortId};

use super::Switch;

#[derive(Clone, Copy, Debug)]
pub(super) struct RunKey {
    pub(super) step: RunStep,
    pub(super) ingress: PortId,
    pub(super) egress: PortId,
    pub(super) class: Class,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RunStep {
    None,
    Receive,
    Enqueue,
    Release,
}

impl RunKey {
    const NONE: RunKey =
        RunKey { step: RunStep::None, ingress: PortId(0), egress: PortId(0), class: Class::ALL[0] };
}

impl PartialEq for RunKey {
    #[inline]
    fn eq(&self, other: &RunKey) -> bool {
        let number = |it: &RunKey| [it.step as u8, it.ingress.0, it.egress.0, it.class.get()];
        u32::from_ne_bytes(number(self)) == u32::from_ne_bytes(number(other))
    }
}

#[derive(Debug)]
pub(super) struct Run {
    key: RunKey,
    margin: Bytes,
    without_margin: RunKey,
    tally: Load,
}

impl Run {
    pub(super) const NONE: Run =
        Run { key: RunKey::NONE, margin: Bytes::ZERO, without_margin: RunKey::NONE, tally: Load::NONE };

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
    /// Adds a frame to the open run. Returns false if it cannot join; the caller must then count it.
    #[inline]
    pub(super) fn joins_run(&mut self, key: RunKey, size: Bytes) -> bool {
        if self.run.key == key && (self.run.takes(size) || self.look_for_margin(key, size)) {
            return true;
        }
        self.end_run();
        false
    }

    #[inline]
    pub(super) fn begin_run(&mut self, key: RunKey) {
        if self.run.without_margin != key {
            self.run.key = key;
        }
    }

    #[inline]
    pub(super) fn end_run(&mut self) {
        if self.run.tally.frames > 0 {
            self.count_run();
        }
        (self.run.key, self.run.margin) = (RunKey::NONE, Bytes::ZERO);
    }

    pub(super) fn is_counted(&self) -> bool {
        self.run.tally.frames == 0
    }

    #[inline(never)]
    fn count_run(&mut self) {
        let load = std::mem::take(&mut self.run.tally);
        let RunKey { step, ingress, egress, class } = self.run.key;
        match step {
            RunStep::None => (),
            RunStep::Receive => {
                self.count_received(ingress, class, load);
                self.buffer
                    .enter_ingress(ingress, class, load)
                    .expect("the buffer must have room for frames within the run's computed margin");
            }
            RunStep::Enqueue => self.buffer.enter_egress(ingress, egress, class, load),
            RunStep::Release => {
                self.count_sent(egress, class, load);
                self.ports[egress.index()].egress.take_back(load);
                self.buffer.leave_egress(ingress, egress, class, load);
                self.buffer.leave_ingress(ingress, class, load);
            }
        }
    }

    #[inline(never)]
    fn look_for_margin(&mut self, key: RunKey, size: Bytes) -> bool {
        if self.run.margin > Bytes::ZERO {
            return false;
        }
        self.run.margin = self.margin(key).in_bytes();
        if size > self.run.margin {
            self.run.without_margin = key;
        }
        self.run.takes(size)
    }

    fn margin(&self, RunKey { step, ingress, egress, class }: RunKey) -> Margin {
        let is_counted_singly = !self.policies.shadows.is_empty()
            || self.when_full == WhenFull::Stop
            || !self.pipeline.is_default()
            || self.accounting == Accounting::UntilForwarded;
        if is_counted_singly {
            return Margin::NONE;
        }
        let drops_early = self.ports[egress.index()].egress.drops_early;
        let of_policy = |event| self.policies.acting[class.index()].margin(event, &self.buffer);
        match step {
            RunStep::Receive if !self.congestion.ingress().contains(class) => {
                self.buffer.margin_below_xoff(ingress, class).min(of_policy(Event::Received { ingress }))
            }
            RunStep::Enqueue if !self.congestion.egress().contains(class) && !drops_early.contains(class) => {
                let event = Event::Enqueued { ingress, egress, size: Bytes::ZERO };
                self.buffer.egress_room(egress, class).min(of_policy(event))
            }
            RunStep::Release if self.workers.owns(ingress) => {
                of_policy(Event::Dequeued { egress }).min(of_policy(Event::Released { ingress }))
            }
            RunStep::None | RunStep::Receive | RunStep::Enqueue | RunStep::Release => Margin::NONE,
        }
    }
}

use std::collections::VecDeque;

use xoff_host::Gate;
use xoff_wire::units::{CLASSES, ClassSet, MacAddr, Nanos};

use super::intake::Intake;
use super::segment::Content;
use super::transport::HostSettings;
use crate::ends::Line;
use crate::time::{Pace, Picos};

#[derive(Clone, Copy, Debug)]
pub(super) struct Reply {
    pub(super) content: Content,
    pub(super) to: u32,
    pub(super) port: u16,
}

#[derive(Debug)]
pub(super) struct HostLink {
    pub(super) is_free: bool,
    pub(super) has_data: ClassSet,
    pub(super) has_replies: ClassSet,
    pub(super) paused: ClassSet,
    pub(super) turn: usize,
    pub(super) gate_change: Nanos,
    pub(super) pace: Pace,
    pub(super) gateway: Option<MacAddr>,
    pub(super) held: u32,
    pub(super) turns: [VecDeque<u32>; CLASSES],
    pub(super) replies: [VecDeque<Reply>; CLASSES],
    pub(super) gate: Box<Gate>,
    pub(super) intake: Option<Box<Intake>>,
}

impl HostLink {
    pub(super) fn new(line: Line, gateway: Option<MacAddr>, settings: &HostSettings) -> HostLink {
        let mut gate = Gate::new(line.rate, settings.obedience, false);
        if settings.obeys_flows {
            gate = gate.obeying_flows(line.rate);
        }
        if settings.obeys_rates {
            gate = gate.obeying_rates(line.rate);
        }
        HostLink {
            is_free: true,
            has_data: ClassSet::NONE,
            has_replies: ClassSet::NONE,
            paused: ClassSet::NONE,
            turn: 0,
            gate_change: Nanos::NEVER,
            pace: Pace::of(line.rate),
            gateway,
            held: 0,
            turns: Default::default(),
            replies: Default::default(),
            gate: Box::new(gate),
            intake: None,
        }
    }

    pub(super) fn wakeup(&mut self, now: Nanos) -> Picos {
        let next = self.intake.as_mut().map_or(Picos::NEVER, |intake| intake.next(now));
        let waits = ClassSet((self.has_data.0 | self.has_replies.0) & self.paused.0);
        // A busy line needs no wakeup, because the host checks the gate when the line's frame ends.
        let is_blocked = self.is_free && (!waits.is_empty() || self.held > 0);
        if is_blocked && self.gate_change < Nanos::NEVER {
            next.min(Picos::from(self.gate_change))
        } else {
            next
        }
    }
}

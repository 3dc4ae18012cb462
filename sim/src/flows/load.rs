//! What a fabric with flows asks of whoever says what is sent in it.

use super::FlowPlan;
use crate::time::Picos;

/// A load. It is deterministic: what it draws comes from the seed that it was made with.
pub trait Load {
    /// The flows that it begins with, whenever they start.
    fn begin(&mut self, asked: &mut Asked);

    /// Whether it has to hear of the end of its flows, since others follow, or it notes when. Where no load does, much more can happen
    /// together.
    fn listens(&self) -> bool;

    /// A flow with its tag has ended, now: its last byte has come. What follows may start now or later. Who does not listen is not told.
    fn ended(&mut self, flow: u32, plan: &FlowPlan, asked: &mut Asked) {
        let _ = (flow, plan, asked);
    }

    /// Queries that it has asked, where it asks any.
    fn queries(&self) -> &[Query] {
        &[]
    }
}

/// What a load asks for.
#[derive(Debug)]
pub struct Asked<'fabric> {
    now: Picos,
    first: u32,
    flows: &'fabric mut Vec<FlowPlan>,
}

impl Asked<'_> {
    /// Flows are numbered from `first`.
    pub fn new(now: Picos, first: u32, flows: &mut Vec<FlowPlan>) -> Asked<'_> {
        Asked { now, first, flows }
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Another flow; answers its number in the run. Its tag is written by whom it is asked of.
    pub fn add(&mut self, plan: FlowPlan) -> u32 {
        let flow = self.first + u32::try_from(self.flows.len()).expect("flows are counted in 32 bits");
        self.flows.push(plan);
        flow
    }

    /// What was asked for until now.
    pub(crate) fn flows(&mut self) -> &mut [FlowPlan] {
        self.flows
    }
}

/// What became of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Who asked.
    pub asker: u32,
    /// When.
    pub start: Picos,
    /// When the last answer had come; `None`: not yet.
    pub finish: Option<Picos>,
    /// It is of no use later.
    pub deadline: Option<Picos>,
    /// Answers that have yet to come.
    pub open: u32,
}

impl Query {
    /// Whether it ended in time; where it has no deadline, whether it ended.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.finish.is_some_and(|finish| self.deadline.is_none_or(|deadline| finish <= deadline))
    }
}

use super::FlowPlan;
use crate::time::Picos;

/// Choice of flows, deterministic by its seed.
pub trait Load {
    /// Adds the initial flows, whatever their start times.
    fn begin(&mut self, new_flows: &mut NewFlows);

    /// Returns true if [`Load::ended`] must be called, which costs speed.
    fn listens(&self) -> bool;

    /// Adds the flows that follow the end of a flow of this load.
    fn ended(&mut self, flow: u32, plan: &FlowPlan, new_flows: &mut NewFlows) {
        let _ = (flow, plan, new_flows);
    }

    /// Returns the load's queries.
    fn queries(&self) -> &[Query] {
        &[]
    }
}

/// Collector of a load's new flows.
#[derive(Debug)]
pub struct NewFlows<'fabric> {
    now: Picos,
    first: u32,
    flows: &'fabric mut Vec<FlowPlan>,
}

impl NewFlows<'_> {
    /// Creates a collector; flows are numbered from `first`.
    pub fn new(now: Picos, first: u32, flows: &mut Vec<FlowPlan>) -> NewFlows<'_> {
        NewFlows { now, first, flows }
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Adds a flow; returns its number in the run. The fabric sets its tag.
    pub fn add(&mut self, plan: FlowPlan) -> u32 {
        let flow = self.first + u32::try_from(self.flows.len()).expect("flows are counted in 32 bits");
        self.flows.push(plan);
        flow
    }

    pub(crate) fn flows(&mut self) -> &mut [FlowPlan] {
        self.flows
    }
}

/// Result of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Host that sent the query.
    pub asker: u32,
    /// Start time.
    pub start: Picos,
    /// Arrival of the last answer.
    pub finish: Option<Picos>,
    /// Time by which all answers are useful.
    pub deadline: Option<Picos>,
    /// Missing answers.
    pub open: u32,
}

impl Query {
    /// Returns true if all answers arrived, within any deadline.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.finish.is_some_and(|finish| self.deadline.is_none_or(|deadline| finish <= deadline))
    }
}

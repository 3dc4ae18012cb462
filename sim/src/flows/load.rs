use super::FlowPlan;
use crate::time::Picos;

/// Generator of a run's flows. Its seed fully determines these flows.
pub trait Load {
    /// Adds the initial flows, which may start later.
    fn begin(&mut self, new_flows: &mut NewFlows);

    /// Returns whether the load reacts to [`Load::ended`]. If so, runs are slower, because the fabric stops whenever a
    /// flow ends.
    fn listens(&self) -> bool;

    /// Reacts to the end of one of this load's flows; may add flows.
    fn ended(&mut self, flow: u32, plan: &FlowPlan, new_flows: &mut NewFlows) {
        let _ = (flow, plan, new_flows);
    }

    /// Returns the incast queries; empty for other loads.
    fn queries(&self) -> &[Query] {
        &[]
    }
}

/// Collector for flows that a load adds.
#[derive(Debug)]
pub struct NewFlows<'fabric> {
    now: Picos,
    first: u32,
    flows: &'fabric mut Vec<FlowPlan>,
}

impl NewFlows<'_> {
    /// Creates a collector that appends to `flows`, whose first flow has the number `first`.
    pub fn new(now: Picos, first: u32, flows: &mut Vec<FlowPlan>) -> NewFlows<'_> {
        NewFlows { now, first, flows }
    }

    /// Returns the simulated time.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Adds a flow, and returns its number. The fabric sets the flow's tag.
    pub fn add(&mut self, plan: FlowPlan) -> u32 {
        let flow =
            self.first + u32::try_from(self.flows.len()).expect("the number of flows must fit into 32 bits");
        self.flows.push(plan);
        flow
    }

    pub(crate) fn flows(&mut self) -> &mut [FlowPlan] {
        self.flows
    }
}

/// Incast query: one host asks several servers, which all answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Query {
    pub asker: u32,
    pub start: Picos,
    /// Arrival of the last answer; `None` while one is missing.
    pub finish: Option<Picos>,
    pub deadline: Option<Picos>,
    /// Number of missing answers.
    pub open: u32,
}

impl Query {
    /// Returns whether all answers have arrived, by the deadline if the query has one.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.finish.is_some_and(|finish| self.deadline.is_none_or(|deadline| finish <= deadline))
    }
}

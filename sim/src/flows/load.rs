use super::FlowPlan;
use crate::time::Picos;

/// Source of a run's flows. The seed determines these flows.
pub trait Load {
    /// Adds the initial flows, which may start later.
    fn begin(&mut self, new_flows: &mut NewFlows);

    /// Returns true if the load reacts to [`Load::ended`], which makes runs slower.
    fn listens(&self) -> bool;

    /// Reacts to the end of a flow of this load; may add flows.
    fn ended(&mut self, flow: u32, plan: &FlowPlan, new_flows: &mut NewFlows) {
        let _ = (flow, plan, new_flows);
    }

    /// Returns the load's queries, if any.
    fn queries(&self) -> &[Query] {
        &[]
    }
}

/// Collector of flows that a load adds.
#[derive(Debug)]
pub struct NewFlows<'fabric> {
    now: Picos,
    first: u32,
    flows: &'fabric mut Vec<FlowPlan>,
}

impl NewFlows<'_> {
    /// Creates a collector; `first` is the first flow's number.
    pub fn new(now: Picos, first: u32, flows: &mut Vec<FlowPlan>) -> NewFlows<'_> {
        NewFlows { now, first, flows }
    }

    /// Returns the simulated time.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.now
    }

    /// Adds a flow; returns its number. The fabric sets the tag.
    pub fn add(&mut self, plan: FlowPlan) -> u32 {
        let flow = self.first + u32::try_from(self.flows.len()).expect("more flows than 32 bits can count");
        self.flows.push(plan);
        flow
    }

    pub(crate) fn flows(&mut self) -> &mut [FlowPlan] {
        self.flows
    }
}

/// Query of a host, which several servers answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Query {
    /// Querying host.
    pub asker: u32,
    pub start: Picos,
    /// Arrival of the last answer, if all answers have arrived.
    pub finish: Option<Picos>,
    /// Time by which all answers must arrive.
    pub deadline: Option<Picos>,
    /// Number of missing answers.
    pub open: u32,
}

impl Query {
    /// Returns true if all answers have arrived, by the deadline if there is one.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.finish.is_some_and(|finish| self.deadline.is_none_or(|deadline| finish <= deadline))
    }
}

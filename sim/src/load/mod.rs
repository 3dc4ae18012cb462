//! Who sends what to whom, and when: loads of a fabric with flows.
//!
//! An open load is a list that is made beforehand ([`Listed`]): arrivals at random ([`poisson`]), a permutation, a file. A closed one is
//! asked again when one of its flows has ended, and answers with those that follow.

mod closed;
mod incast;
mod list;
mod poisson;
mod sizes;

pub use closed::{OnOff, Replies, Times};
pub use incast::{Incast, IncastSettings, Query};
pub use list::{Listed, ParseError, parse_flows, permutation, ring};
pub use poisson::{Poisson, mean_on_line, poisson};
pub use sizes::{Between, Sizes, SizesError};

use crate::flows::FlowPlan;
use crate::time::Picos;

/// A load. It is deterministic: what it draws comes from the seed that it was made with.
pub trait Load {
    /// The flows that it begins with, whenever they start.
    fn begin(&mut self, asked: &mut Asked);

    /// A flow with its tag has ended, now: its last byte has come. What follows may start now or later.
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
}

use std::collections::HashMap;

use xoff_wire::units::Class;

use super::{Load, NewFlows};
use crate::ends::NodeId;
use crate::flows::FlowPlan;
use crate::seed::{Purpose, Seed, exponential};
use crate::time::Picos;
use xoff_host::sizes::Sizes;

/// Fixed or random duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Always the same duration.
    Fixed(Picos),
    /// Exponentially distributed duration with this mean.
    Mean(Picos),
}

impl Times {
    pub(super) fn draw(self, rng: &mut fastrand::Rng) -> Picos {
        match self {
            Times::Fixed(time) => time,
            Times::Mean(mean) => exponential(mean.0 as f64, rng),
        }
    }
}

/// Load of bursts between pairs of hosts; a gap follows each burst.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names say it
pub struct OnOff {
    pub pairs: Vec<(u32, u32)>,
    pub class: Class,
    pub sizes: Sizes,
    pub off: Times,
    pub from: Picos,
    pub until: Picos,
    rngs: Vec<fastrand::Rng>,
    open: HashMap<u32, usize>,
}

impl OnOff {
    /// Creates an on-off load, whose bursts begin between `from` and `until`.
    #[must_use]
    pub fn new(
        pairs: Vec<(u32, u32)>,
        class: Class,
        sizes: Sizes,
        off: Times,
        [from, until]: [Picos; 2],
        seed: Seed,
    ) -> OnOff {
        let rng = |pair: u32| fastrand::Rng::with_seed(seed.number(NodeId(pair), Purpose::Start));
        let rngs = (0..).map(rng).take(pairs.len()).collect();
        OnOff { pairs, class, sizes, off, from, until, rngs, open: HashMap::new() }
    }

    fn next(&mut self, pair: usize, silent: Picos, new_flows: &mut NewFlows) {
        let (from, to) = self.pairs[pair];
        let rng = &mut self.rngs[pair];
        let start = silent.after(self.off.draw(rng));
        let bytes = self.sizes.draw(rng);
        if start < self.until {
            let flow = new_flows.add(FlowPlan { from, to, class: self.class, bytes, start, tag: 0 });
            self.open.insert(flow, pair);
        }
    }
}

impl Load for OnOff {
    fn begin(&mut self, new_flows: &mut NewFlows) {
        let from = self.from.max(new_flows.now());
        (0..self.pairs.len()).for_each(|pair| self.next(pair, from, new_flows));
    }

    fn listens(&self) -> bool {
        true
    }

    fn ended(&mut self, flow: u32, _: &FlowPlan, new_flows: &mut NewFlows) {
        if let Some(pair) = self.open.remove(&flow) {
            self.next(pair, new_flows.now(), new_flows);
        }
    }
}

/// Load that adds a reply to each flow of another load.
#[derive(Clone, Debug)]
pub struct Replies<L> {
    load: L,
    sizes: Sizes,
    thought: Times,
    rng: fastrand::Rng,
    answers: HashMap<u32, ()>,
}

impl<L: Load> Replies<L> {
    /// Adds replies to the flows of `load`. A reply starts at its flow's end plus the time `thought`.
    #[must_use]
    pub fn new(load: L, sizes: Sizes, thought: Times, seed: Seed) -> Replies<L> {
        let rng = seed.stream(Purpose::Load);
        Replies { load, sizes, thought, rng, answers: HashMap::new() }
    }
}

impl<L: Load> Load for Replies<L> {
    fn begin(&mut self, new_flows: &mut NewFlows) {
        self.load.begin(new_flows);
    }

    fn listens(&self) -> bool {
        true
    }

    fn ended(&mut self, flow: u32, plan: &FlowPlan, new_flows: &mut NewFlows) {
        if self.answers.remove(&flow).is_some() {
            return;
        }
        let start = new_flows.now().after(self.thought.draw(&mut self.rng));
        let bytes = self.sizes.draw(&mut self.rng);
        let answer = FlowPlan { from: plan.to, to: plan.from, bytes, start, ..*plan };
        self.answers.insert(new_flows.add(answer), ());
        self.load.ended(flow, plan, new_flows);
    }
}

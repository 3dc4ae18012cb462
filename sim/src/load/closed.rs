//! Loads that go on when a flow has ended: bursts with pauses between them, and answers to questions.

use std::collections::HashMap;

use xoff_dataplane::units::Class;

use super::sizes::Sizes;
use super::{Asked, Load};
use crate::ends::NodeId;
use crate::flows::FlowPlan;
use crate::seed::{Purpose, Seed, exponential};
use crate::time::Picos;

/// How long something takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Always as long.
    Fixed(Picos),
    /// As long on average, and as likely to end at any time (exponential).
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

/// Pairs of hosts that send in bursts: the next begins some time after the one before has come whole.
#[derive(Clone, Debug)]
pub struct OnOff {
    /// From whom to whom.
    pub pairs: Vec<(u32, u32)>,
    /// The class of all bursts.
    pub class: Class,
    /// How large they are.
    pub sizes: Sizes,
    /// How long nothing is sent between them, and before the first.
    pub off: Times,
    /// No burst begins before.
    pub from: Picos,
    /// No burst begins at this time or later.
    pub until: Picos,
    /// By pair.
    rngs: Vec<fastrand::Rng>,
    /// By flow that has not ended, its pair.
    open: HashMap<u32, usize>,
}

impl OnOff {
    /// Bursts by the seed; each pair draws its own.
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

    /// The next burst of a pair that has been silent from then on.
    fn next(&mut self, pair: usize, silent: Picos, asked: &mut Asked) {
        let (from, to) = self.pairs[pair];
        let rng = &mut self.rngs[pair];
        let start = silent.after(self.off.draw(rng));
        let bytes = self.sizes.draw(rng);
        if start < self.until {
            let flow = asked.add(FlowPlan { from, to, class: self.class, bytes, start, tag: 0 });
            self.open.insert(flow, pair);
        }
    }
}

impl Load for OnOff {
    fn begin(&mut self, asked: &mut Asked) {
        let from = self.from.max(asked.now());
        (0..self.pairs.len()).for_each(|pair| self.next(pair, from, asked));
    }

    fn listens(&self) -> bool {
        true
    }

    fn ended(&mut self, flow: u32, _: &FlowPlan, asked: &mut Asked) {
        if let Some(pair) = self.open.remove(&flow) {
            self.next(pair, asked.now(), asked);
        }
    }
}

/// Flows of any load that are answered: as soon as one has come, its receiver sends one back.
#[derive(Clone, Debug)]
pub struct Replies<L> {
    /// Who asks.
    load: L,
    /// How large answers are.
    sizes: Sizes,
    /// How long it takes to find one.
    thought: Times,
    rng: fastrand::Rng,
    /// Flows that are answers, and have not ended.
    answers: HashMap<u32, ()>,
}

impl<L: Load> Replies<L> {
    /// Each flow of `load` is answered.
    #[must_use]
    pub fn new(load: L, sizes: Sizes, thought: Times, seed: Seed) -> Replies<L> {
        let rng = seed.stream(Purpose::Load);
        Replies { load, sizes, thought, rng, answers: HashMap::new() }
    }
}

impl<L: Load> Load for Replies<L> {
    fn begin(&mut self, asked: &mut Asked) {
        self.load.begin(asked);
    }

    fn listens(&self) -> bool {
        true
    }

    fn ended(&mut self, flow: u32, plan: &FlowPlan, asked: &mut Asked) {
        if self.answers.remove(&flow).is_some() {
            return;
        }
        let start = asked.now().after(self.thought.draw(&mut self.rng));
        let bytes = self.sizes.draw(&mut self.rng);
        let answer = FlowPlan { from: plan.to, to: plan.from, bytes, start, ..*plan };
        self.answers.insert(asked.add(answer), ());
        self.load.ended(flow, plan, asked);
    }
}

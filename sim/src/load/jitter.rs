use super::{Load, NewFlows, Query};
use crate::flows::FlowPlan;
use crate::seed::{Purpose, Seed};
use crate::time::Picos;

/// Load that delays the flows of another load at random.
pub struct Jittered {
    load: Box<dyn Load + Send>,
    within: Picos,
    rng: fastrand::Rng,
}

impl Jittered {
    /// Delays each flow of `load` by a uniformly distributed time up to `within`.
    #[must_use]
    pub fn new(load: Box<dyn Load + Send>, within: Picos, seed: Seed) -> Jittered {
        Jittered { load, within, rng: seed.stream(Purpose::Start) }
    }

    fn delay(&mut self, new_flows: &mut NewFlows) {
        if self.within > Picos::ZERO {
            for plan in new_flows.flows() {
                plan.start = plan.start.after(Picos(self.rng.u64(..self.within.0)));
            }
        }
    }
}

impl Load for Jittered {
    fn begin(&mut self, new_flows: &mut NewFlows) {
        self.load.begin(new_flows);
        self.delay(new_flows);
    }

    fn listens(&self) -> bool {
        self.load.listens()
    }

    fn ended(&mut self, flow: u32, plan: &FlowPlan, new_flows: &mut NewFlows) {
        self.load.ended(flow, plan, new_flows);
        self.delay(new_flows);
    }

    fn queries(&self) -> &[Query] {
        self.load.queries()
    }
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::Class;

    use super::*;
    use crate::load::{Listed, ring};

    fn starts(within: Picos, seed: u64) -> Vec<Picos> {
        let listed = ring(100, 1, Class::ALL[3], 1_000, Picos(500));
        let mut flows = Vec::new();
        Jittered::new(Box::new(Listed(listed)), within, Seed(seed)).begin(&mut NewFlows::new(
            Picos::ZERO,
            0,
            &mut flows,
        ));
        flows.iter().map(|plan| plan.start).collect()
    }

    #[test] // proves: sim-results
    fn jitter_delays_flows_within_limit_depending_on_seed() {
        assert_eq!(starts(Picos::ZERO, 1), [Picos(500); 100]);
        let first = starts(Picos(1_000), 1);
        assert!(first.iter().all(|start| (500..1_500).contains(&start.0)));
        assert!(first.iter().any(|start| start.0 < 750) && first.iter().any(|start| start.0 >= 1_250));
        assert_eq!(first, starts(Picos(1_000), 1));
        assert_ne!(first, starts(Picos(1_000), 2));
    }
}

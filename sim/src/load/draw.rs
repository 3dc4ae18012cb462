use xoff_wire::units::Class;

use crate::flows::FlowPlan;
use crate::seed::{Purpose, Seed};
use crate::time::Picos;
use xoff_host::sizes::Sizes;

/// Parameters of flows distributed randomly among pairs of hosts.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names say it
pub struct Draw {
    pub pairs: Vec<(u32, u32)>,
    pub flows: u32,
    pub class: Class,
    pub sizes: Sizes,
    pub start: Picos,
}

/// Distributes a load's flows among its pairs of hosts. All combinations of flow counts per pair are equally likely.
#[must_use]
pub fn draw(load: &Draw, seed: Seed) -> Vec<FlowPlan> {
    let mut rng = seed.stream(Purpose::Load);
    let parts = shared(load.flows, load.pairs.len(), &mut rng);
    let mut flows = Vec::with_capacity(load.flows as usize);
    for (&(from, to), part) in load.pairs.iter().zip(parts) {
        for _ in 0..part {
            let bytes = load.sizes.draw(&mut rng);
            flows.push(FlowPlan { from, to, class: load.class, bytes, start: load.start, tag: 0 });
        }
    }
    flows
}

fn shared(whole: u32, parts: usize, rng: &mut fastrand::Rng) -> Vec<u32> {
    let bars = parts.saturating_sub(1);
    let places = whole as usize + bars;
    let mut at = rng.choose_multiple(0..places, bars);
    at.sort_unstable();
    at.push(places);
    let mut before = 0;
    at.into_iter()
        .map(|bar| {
            let part = bar - before;
            before = bar + 1;
            u32::try_from(part).unwrap_or(whole)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn load(flows: u32) -> Draw {
        let pairs = vec![(0, 1), (1, 2), (2, 0)];
        Draw { pairs, flows, class: Class::ALL[3], sizes: Sizes::fixed(1_000), start: Picos(5) }
    }

    #[test] // proves: sim-fabrics
    fn draw_makes_all_flow_counts_per_pair_equally_likely() {
        let mut counts: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        let mut rng = fastrand::Rng::with_seed(1);
        (0..6_000).for_each(|_| *counts.entry(shared(2, 3, &mut rng)).or_default() += 1);
        let ways = [[0, 0, 2], [0, 1, 1], [0, 2, 0], [1, 0, 1], [1, 1, 0], [2, 0, 0]];
        assert!(counts.keys().eq(ways.iter().map(|way| way.as_slice())), "{counts:?}");
        assert!(counts.values().all(|times| (850..1_150).contains(times)), "{counts:?}");
    }

    #[test] // proves: sim-fabrics
    fn drawn_flows_have_requested_count_and_depend_on_seed() {
        for flows in [0, 1, 240] {
            assert_eq!(draw(&load(flows), Seed(1)).len(), flows as usize);
        }
        assert_eq!(draw(&load(240), Seed(1)), draw(&load(240), Seed(1)));
        assert_ne!(draw(&load(240), Seed(1)), draw(&load(240), Seed(2)));
        assert!(draw(&load(240), Seed(1)).iter().all(|flow| (flow.bytes, flow.start) == (1_000, Picos(5))));
    }
}

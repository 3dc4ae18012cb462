//! The same broken promise in less: fewer deeds, faults, flows, frames, switches, as long as it is still broken.

use super::ordeal;
use super::report::{Breach, Shrunk};
use super::scenario::Scenario;
use crate::bed::Promise;

/// Runs that may be spent on it.
const TRIALS: u32 = 300;

/// What is left of a scenario in which `promise` is broken.
pub(super) fn shrink(scenario: Scenario, promise: Promise, events_max: u64) -> Shrunk {
    let mut best = broken(scenario, promise, events_max).expect("a seed takes the same path again");
    let mut trials = 0;
    'smaller: loop {
        for candidate in smaller(&best.0) {
            trials += 1;
            if trials > TRIALS {
                break 'smaller;
            }
            if let Some(better) = broken(candidate, promise, best.1) {
                best = better;
                continue 'smaller;
            }
        }
        break;
    }
    let (scenario, event, breach) = best;
    Shrunk { scenario: format!("{scenario:#?}"), event, breach }
}

fn broken(scenario: Scenario, promise: Promise, events_max: u64) -> Option<(Scenario, u64, Breach)> {
    let outcome = ordeal::run(&scenario, events_max);
    let breach = outcome.breach.filter(|breach| breach.promise == promise)?;
    Some((scenario, outcome.tally.events, breach))
}

/// Scenarios with a little less, those with much less first.
fn smaller(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Scenario)| {
        let mut less = scenario.clone();
        change(&mut less);
        all.push(less);
    };
    if scenario.has_twins {
        with(&|less| less.has_twins = false);
    }
    if scenario.unruly.is_some() {
        with(&|less| less.unruly = None);
    }
    for (from, to) in halves(scenario.deeds.len()) {
        with(&|less| _ = less.deeds.drain(from..to));
    }
    for (from, to) in halves(scenario.faults.len()) {
        with(&|less| _ = less.faults.drain(from..to));
    }
    for (from, to) in halves(scenario.flows.len()) {
        with(&|less| _ = less.flows.drain(from..to));
    }
    if let Some(leaf) = scenario.leaf_of_nobody() {
        with(&|less| less.cut(leaf));
    }
    for flow in 0..scenario.flows.len() {
        if scenario.flows[flow].count > 1 {
            with(&|less| less.flows[flow].count /= 2);
        }
    }
    all
}

/// Parts of a list: halves, and each of its items.
fn halves(len: usize) -> Vec<(usize, usize)> {
    let mut parts = if len > 2 { vec![(0, len / 2), (len / 2, len)] } else { Vec::new() };
    parts.extend((0..len).map(|at| (at, at + 1)));
    parts
}

//! Shrinks a failing scenario: removes actions, faults, flows, frames and switches while the same promise stays broken.

use super::report::Shrunk;
use super::scenario::Scenario;
use super::scenario_run;
use crate::bed::Promise;

const TRIALS: u32 = 300;

pub(super) fn shrink(scenario: Scenario, promise: Promise, events_max: u64) -> Shrunk {
    let (scenario, event, breach) = smallest(scenario, events_max, |scenario, events_max| {
        let outcome = scenario_run::run(scenario, events_max);
        let breach = outcome.breach.filter(|breach| breach.promise == promise)?;
        Some((outcome.tally.events, breach))
    });
    Shrunk { scenario: format!("{scenario:#?}"), event, breach }
}

fn smallest<T>(
    scenario: Scenario,
    events_max: u64,
    mut breaks: impl FnMut(&Scenario, u64) -> Option<(u64, T)>,
) -> (Scenario, u64, T) {
    let mut broken = |scenario: Scenario, events_max| {
        let (event, what) = breaks(&scenario, events_max)?;
        Some((scenario, event, what))
    };
    let mut best = broken(scenario, events_max).expect("a second run of the seed must find the breach again");
    let mut trials = 0;
    'smaller: loop {
        for candidate in smaller(&best.0) {
            trials += 1;
            if trials > TRIALS {
                break 'smaller;
            }
            if let Some(better) = broken(candidate, best.1) {
                best = better;
                continue 'smaller;
            }
        }
        break;
    }
    best
}

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
    if !scenario.shadows.is_empty() {
        with(&|less| less.shadows.clear());
    }
    if scenario.understand {
        with(&|less| less.understand = false);
    }
    if scenario.workers > 1 {
        with(&|less| less.workers = 1);
    }
    if scenario.unruly.is_some() {
        with(&|less| less.unruly = None);
    }
    for (from, to) in halves(scenario.actions.len()) {
        with(&|less| _ = less.actions.drain(from..to));
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

fn halves(len: usize) -> Vec<(usize, usize)> {
    let mut parts = if len > 2 { vec![(0, len / 2), (len / 2, len)] } else { Vec::new() };
    parts.extend((0..len).map(|at| (at, at + 1)));
    parts
}

#[cfg(test)]
mod tests {
    use super::super::scenario::Action;
    use super::*;

    #[test] // proves: chaos
    fn shrunk_chaos_scenario_keeps_only_causes_of_the_breach() {
        let takes = |scenario: &Scenario| {
            let frames = scenario.flows.iter().map(|flow| flow.count).max().unwrap_or(0);
            let flaps = scenario.actions.iter().any(|(_, action)| matches!(action, Action::Flap(0, ..)));
            flaps && frames >= 100
        };
        let mut tried = 0;
        for seed in 0..200 {
            let scenario = Scenario::of(seed);
            if !takes(&scenario) {
                continue;
            }
            let (least, ..) = smallest(scenario, 1_000, |scenario, _| takes(scenario).then_some((7, ())));
            assert_eq!(
                (least.flows.len(), least.actions.len(), least.faults.len()),
                (1, 1, 0),
                "seed {seed}"
            );
            assert!(least.flows[0].count < 200 && least.unruly.is_none() && least.shadows.is_empty());
            assert!(!least.has_twins && !least.understand && least.workers == 1);
            tried += 1;
        }
        assert!(tried > 20, "{tried} seeds");
    }

    #[test] // proves: chaos
    fn shrinking_stops_after_a_bounded_number_of_trials() {
        let mut trials = 0_u32;
        let mut before = 1_000;
        let mut by_event = |_: &Scenario, events_max: u64| {
            assert!(events_max <= before);
            trials += 1;
            before = events_max;
            trials.is_multiple_of(2).then_some((events_max - 1, ())).or((trials == 1).then_some((999, ())))
        };
        let _ = smallest(Scenario::of(0), 1_000, &mut by_event);
        assert!(trials <= TRIALS + 1);
    }
}

//! Chaos tests: random fabrics, loads, policies and faults from a seed. After every event, every [`Promise`](crate::Promise) of the
//! switches is checked.
//!
//! [`run`] stops at the first broken promise, reports seed and event, and shrinks the scenario.
//!
//! ```no_run
//! let report = xoff_testkit::chaos::run(0..100, 2);
//! assert!(report.found.is_none(), "{report}");
//! ```
//!
//! ```text
//!   run --> scenario     switches, streams and faults, as plain values
//!    |        |
//!   shrink -> scenario_run --> bed  the scenario as it runs
//! ```

mod report;
mod scenario;
mod scenario_run;
mod shrink;

pub use report::{Breach, Finding, Report, Shrunk, Tally};

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use scenario::Scenario;

/// Default of the maximum number of events in a run.
pub const EVENTS_MAX: u64 = 100_000;

/// Runs a scenario for each seed until a promise is broken, up to `jobs` in parallel.
#[must_use]
pub fn run(seeds: Range<u64>, jobs: usize) -> Report {
    run_for(seeds, jobs, EVENTS_MAX, |_| ())
}

/// Runs seeds as [`run`] does, with at most `events_max` events each. Calls `progress` after each run.
#[must_use]
pub fn run_for(seeds: Range<u64>, jobs: usize, events_max: u64, mut progress: impl FnMut(&Tally)) -> Report {
    let next = AtomicU64::new(seeds.start);
    let first_broken = AtomicU64::new(seeds.end);
    let mut outcomes = Vec::new();
    thread::scope(|scope| {
        let (ended, endings) = mpsc::channel();
        for _ in 0..jobs.max(1) {
            let (ended, next, first_broken) = (ended.clone(), &next, &first_broken);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first_broken.load(Ordering::Relaxed) {
                        break;
                    }
                    let outcome = scenario_run::run(&Scenario::of(seed), events_max);
                    if outcome.breach.is_some() {
                        first_broken.fetch_min(seed, Ordering::Relaxed);
                    }
                    let _ = ended.send((seed, outcome)); // cannot fail: the receiver outlives this scope
                }
            });
        }
        drop(ended);
        outcomes.extend(endings.into_iter().inspect(|(_, outcome)| progress(&outcome.tally)));
    });
    let last = first_broken.into_inner();
    outcomes.retain(|(seed, _)| *seed <= last); // drop later runs, whose number depends on `jobs`
    outcomes.sort_by_key(|(seed, _)| *seed);
    let mut report = Report { events_max, ..Report::default() };
    for (seed, outcome) in outcomes {
        report.tally.add(&outcome.tally);
        if let Some(breach) = outcome.breach {
            let shrunk = shrink::shrink(Scenario::of(seed), breach.promise, events_max);
            report.found = Some(Finding { seed, event: outcome.tally.events, breach, shrunk });
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use xoff_flow_control::settings::PolicyKind;

    use super::*;

    #[test] // proves: chaos
    fn shadow_policies_do_not_change_a_chaos_run() {
        for seed in xoff_explore::seeds(0..6) {
            let alone = Scenario { shadows: Vec::new(), ..Scenario::of(seed) };
            let watched =
                Scenario { shadows: vec![PolicyKind::CaPfcStopMax, PolicyKind::GPfc], ..alone.clone() };
            let digests = [alone, watched].map(|scenario| scenario_run::run(&scenario, 10_000).tally.digest);
            assert_eq!(digests[0], digests[1], "seed {seed}");
        }
    }
}

//! Whatever goes wrong: random fabrics, loads, policies and faults, by a seed each, and every promise looked at after every event.
//!
//! [`run`] stops at the first promise that is broken, says with which seed and at which event, and makes the scenario smaller as long
//! as that promise is broken in it. A seed takes the same path in every run, with any number of jobs.
//!
//! ```no_run
//! let report = xoff_conformance::chaos::run(0..100, 2);
//! assert!(report.found.is_none(), "{report}");
//! ```
//!
//! ```text
//!   run --> scenario     what there is, what is sent, what goes wrong and when: plain values
//!    |        |
//!   shrink -> ordeal --> bed     the scenario as it runs
//! ```

mod ordeal;
mod report;
mod scenario;
mod shrink;

pub use report::{Breach, Finding, Report, Shrunk, Tally};

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{panic, thread};

use ordeal::Outcome;
use scenario::Scenario;

/// Events of a run, unless everything is over before.
pub const EVENTS_MAX: u64 = 100_000;

/// Runs every seed, `jobs` at a time, up to the first in which a promise is broken.
#[must_use]
pub fn run(seeds: Range<u64>, jobs: usize) -> Report {
    run_for(seeds, jobs, EVENTS_MAX)
}

/// The same with other lengths of runs, in events.
#[must_use]
pub fn run_for(seeds: Range<u64>, jobs: usize, events_max: u64) -> Report {
    let before = panic::take_hook();
    panic::set_hook(Box::new(|_| ())); // a panic is a finding, and told as such
    let next = AtomicU64::new(seeds.start);
    let first_broken = AtomicU64::new(seeds.end);
    let outcomes = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first_broken.load(Ordering::Relaxed) {
                        break;
                    }
                    let outcome = ordeal::run(&Scenario::of(seed), events_max);
                    if outcome.breach.is_some() {
                        first_broken.fetch_min(seed, Ordering::Relaxed);
                    }
                    outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((seed, outcome));
                }
            });
        }
    });
    let last = first_broken.into_inner();
    let mut outcomes: Vec<(u64, Outcome)> = outcomes.into_inner().unwrap_or_default();
    outcomes.retain(|(seed, _)| *seed <= last); // others that had begun meanwhile depend on the number of jobs
    outcomes.sort_by_key(|(seed, _)| *seed);
    let mut report = Report { events_max, ..Report::default() };
    for (seed, outcome) in outcomes {
        report.tally.add(&outcome.tally);
        if let Some(breach) = outcome.breach {
            let shrunk = shrink::shrink(Scenario::of(seed), breach.promise, events_max);
            report.found = Some(Finding { seed, event: outcome.tally.events, breach, shrunk });
        }
    }
    panic::set_hook(before);
    report
}

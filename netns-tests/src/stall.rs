//! Machines that stall.
//!
//! A switch promises to lose nothing as long as none of its threads is kept from running for longer
//! than its stall budget. A loaded virtual machine breaks that condition now and then, and what comes
//! of it proves nothing about the switch, which says itself that it was stalled.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

use serde_json::Value;
use xoff::control::status::Status;
use xoff_hosts::HostReport;

/// How often a test may find the machine stalled.
const ATTEMPTS: u32 = 5;

thread_local! {
    static STALLED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test, and once more where it failed while the machine stalled a switch for longer than its
/// budget, or a host for longer than its rings hold frames.
pub fn unstalled(test: impl Fn()) {
    for _ in 1..ATTEMPTS {
        STALLED.set(false);
        match panic::catch_unwind(AssertUnwindSafe(&test)) {
            Ok(()) => return,
            Err(_) if STALLED.get() => eprintln!("the machine stalled for too long; once more"),
            Err(cause) => panic::resume_unwind(cause),
        }
    }
    test();
}

/// Switches of `xoff demo` and `xoff experiment` are configured to bridge so much.
const STALL_BUDGET_MS: f64 = 25.0;

/// Notes whether switches or hosts were that `xoff demo` or `xoff experiment` says this of.
pub fn note_lab(said: &Value) {
    let stalled = said["longest_stall_ms"].as_f64().is_some_and(|ms| ms > STALL_BUDGET_MS);
    note_stall(stalled || said["xdp_drops"] != 0);
}

fn note_stall(stalled: bool) {
    if stalled {
        STALLED.set(true);
    }
}

/// Notes whether a switch was stalled.
pub(crate) fn note_switch(status: &Status) {
    note_stall(status.workers.iter().any(|worker| worker.stalls > 0));
}

/// Notes whether a host was.
pub(crate) fn note_host(report: &HostReport) {
    note_stall(report.drops.total > 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "3 stalls")]
    fn only_what_a_stall_explains_is_tried_again() {
        let runs = Cell::new(0);
        unstalled(|| {
            runs.set(runs.get() + 1);
            STALLED.set(runs.get() <= 3);
            assert!(runs.get() == 4, "{} stalls", runs.get());
        });
        unstalled(|| panic!("{} stalls", runs.get() - 1));
    }
}

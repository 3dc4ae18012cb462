// Tests for SPECIFICATION.md: chaos

use std::ops::Range;

use xoff_flow_control::cause::Trigger;
use xoff_flow_control::drop_reason::DropReason;
use xoff_testkit::chaos::{self, Report};

const EVENTS: u64 = 20_000;

fn run(seeds: Range<u64>, jobs: usize) -> Report {
    chaos::run_for(seeds, jobs, EVENTS, |_| ())
}

#[test]
fn chaos_runs_break_no_promise_of_the_switch() {
    let begin = xoff_explore::fresh() >> 1;
    let report = run(begin..begin + 8, 2);
    assert!(report.found.is_none(), "{report}");
}

#[test]
fn chaos_runs_contain_faults_and_every_drop_reason() {
    let report = run(0..96, 2);
    assert!(report.found.is_none(), "{report}");
    let tally = report.tally;
    assert_eq!(tally.seeds, 96);
    assert!(tally.frames > 0 && tally.xoffs > 0 && tally.came_to_rest > 0, "{tally:?}");
    assert!(tally.lost > 0 && tally.late > 0 && tally.harmed > 0, "{tally:?}");
    let lost = DropReason::ALL.into_iter().filter(|reason| tally.drops[reason.index()] > 0);
    let expected = [
        DropReason::LinkDown,
        DropReason::IngressFull,
        DropReason::HeadroomExhausted,
        DropReason::EgressFull,
        DropReason::PausedDiscard,
    ];
    assert_eq!(lost.collect::<Vec<_>>(), expected, "reasons of dropped frames");
    let causes = Trigger::NAMES.into_iter().zip(tally.causes).filter(|(_, count)| *count > 0);
    assert_eq!(causes.map(|(name, _)| name).collect::<Vec<_>>(), ["ingress", "egress", "higher"]);
    // All lossless drops must be in runs whose faults may cause drops.
    let exhausted = tally.drops[DropReason::HeadroomExhausted.index()];
    assert!(exhausted > 0 && tally.exempt_losses >= exhausted, "{report}");
}

#[test]
fn chaos_results_do_not_depend_on_number_of_parallel_jobs() {
    assert_eq!(run(40..46, 1), run(40..46, 3));
}

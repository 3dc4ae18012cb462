//! Chaos finds nothing, and finds it in the same way again.

use xoff_conformance::chaos;

/// Shorter than runs by hand, so that debug builds are through with them.
const EVENTS: u64 = 20_000;

#[test]
fn nothing_is_broken_whatever_goes_wrong() {
    for seed in xoff_explore::seeds(0..24).map(|seed| seed >> 1) {
        let report = chaos::run_for(seed..seed + 1, 1, EVENTS);
        assert!(report.found.is_none(), "{report}");
    }
}

#[test]
fn much_goes_wrong() {
    let tally = chaos::run_for(0..24, 2, EVENTS).tally;
    assert_eq!(tally.seeds, 24);
    assert!(tally.frames > 0 && tally.xoffs > 0 && tally.came_to_rest > 0, "{tally:?}");
    assert!(tally.lost > 0 && tally.late > 0 && tally.harmed > 0, "{tally:?}");
}

#[test]
fn the_number_of_jobs_changes_nothing() {
    assert_eq!(chaos::run_for(40..46, 1, 5_000), chaos::run_for(40..46, 3, 5_000));
}

//! Repeats tests that failed while the machine stalled.
//!
//! A switch promises losslessness only while no thread stalls longer than its stall budget, a host only while its rings
//! hold the arriving frames. A failed test runs again only if a longer stall was measured, never because of losses.
//!
//! Each repetition is a line in the file that `XOFF_STALLS` names, or in a file beside the test binary.

use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;
use xoff_host::HostReport;
use xoff_switch::control::status::Status;

const ATTEMPTS: u32 = 3;
/// Maximum repetitions of failed tests in a test run; tests that fail later are not repeated.
const REPETITIONS_MAX: usize = 6;
/// Stall budget assumed for a switch whose status reports none.
const STALL_BUDGET: Duration = Duration::from_millis(200);
/// Stall budget of the switch in `xoff demo` and `xoff experiment`.
const LAB_BUDGET: Duration = Duration::from_millis(25);
/// Stall that hosts in `xoff demo` and `xoff experiment` tolerate: their rings hold 4096 frames, 50 ms at 1 Gb/s (the fastest line).
const LAB_HOST_BUDGET: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StallReport {
    stalled: bool,
    budget: Duration,
}

impl StallReport {
    const NONE: StallReport = StallReport { stalled: false, budget: STALL_BUDGET };
}

thread_local! {
    static STALL_REPORT: Cell<StallReport> = const { Cell::new(StallReport::NONE) };
}

/// Runs a test, and repeats it if it failed while the machine stalled longer than a stall budget.
pub fn unstalled(test: impl Fn()) {
    attempt(&TestRun::current(), test);
}

fn attempt(run: &TestRun, test: impl Fn()) {
    for attempt in 1..=ATTEMPTS {
        STALL_REPORT.set(StallReport::NONE);
        let monitor = WakeupMonitor::start();
        let outcome = panic::catch_unwind(AssertUnwindSafe(&test));
        let (longest, report) = (monitor.longest(), STALL_REPORT.get());
        let Err(cause) = outcome else { return };
        if attempt == ATTEMPTS || !(report.stalled || longest > report.budget) {
            panic::resume_unwind(cause);
        }
        run.note(&format!(
            "attempt {attempt} failed while the machine stalled and is repeated: a core woke {longest:?} late, \
             the budget is {:?}, stall reported by a program: {}",
            report.budget, report.stalled
        ));
    }
}

struct TestRun {
    file: PathBuf,
}

impl TestRun {
    fn current() -> TestRun {
        let beside = || {
            let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| std::process::id().to_string());
            let binary = std::env::current_exe().unwrap();
            binary.with_file_name(format!("stalls-{run}"))
        };
        TestRun { file: std::env::var_os("XOFF_STALLS").map_or_else(beside, PathBuf::from) }
    }

    fn note(&self, what: &str) {
        let test = thread::current().name().unwrap_or("unnamed test").to_owned();
        eprintln!("{test}: {what}");
        let mut file = OpenOptions::new().create(true).append(true).open(&self.file).unwrap();
        file.write_all(format!("{test}: {what}\n").as_bytes()).unwrap();
        let noted = fs::read_to_string(&self.file).unwrap();
        let repetitions = noted.lines().count();
        assert!(
            repetitions <= REPETITIONS_MAX,
            "the machine stalled in {repetitions} tests, too often to prove anything; run the tests on an idle machine\n{noted}"
        );
    }
}

struct WakeupMonitor {
    stop: Arc<AtomicBool>,
    longest: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl WakeupMonitor {
    const NAP: Duration = Duration::from_millis(1);

    fn start() -> WakeupMonitor {
        let (stop, longest) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let own = Pid::from_raw(0);
        let allowed = sched_getaffinity(own).unwrap();
        let cores = (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap());
        let sleeper = |core| {
            let (stop, longest) = (Arc::clone(&stop), Arc::clone(&longest));
            thread::spawn(move || {
                let mut one = CpuSet::new();
                one.set(core).unwrap();
                sched_setaffinity(own, &one).unwrap();
                loop {
                    let begin = Instant::now();
                    thread::sleep(WakeupMonitor::NAP);
                    let late = begin.elapsed().saturating_sub(WakeupMonitor::NAP);
                    longest.fetch_max(u64::try_from(late.as_nanos()).unwrap(), Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            })
        };
        let threads = cores.map(sleeper).collect();
        WakeupMonitor { stop, longest, threads }
    }

    fn longest(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        Duration::from_nanos(self.longest.load(Ordering::Relaxed))
    }
}

pub fn note_lab(report: &Value) {
    let beyond = |key: &str, budget: Duration| {
        report[key].as_f64().is_some_and(|ms| Duration::from_secs_f64(ms / 1e3) > budget)
    };
    let host = beyond("longest_host_gap_ms", LAB_HOST_BUDGET);
    // A report without judged runs means that the machine stalled in every run.
    let unjudged = report["runs_judged"] == 0;
    note(beyond("longest_stall_ms", LAB_BUDGET) || host || unjudged, LAB_BUDGET);
}

pub fn note_switch(status: &Status) {
    for worker in &status.workers {
        note(worker.stalls > 0, Duration::from_nanos(worker.stall_budget_nanos));
    }
}

pub(crate) fn note_host(report: &HostReport, ring: u32) {
    const LONGEST_FRAME_BITS: f64 = 1538.0 * 8.0;
    let budget = Duration::from_secs_f64(f64::from(ring) * LONGEST_FRAME_BITS / (report.line_mbps * 1e6));
    note(Duration::from_nanos(report.longest_gap_ns) > budget, budget);
}

fn note(stalled: bool, budget: Duration) {
    let report = STALL_REPORT.get();
    STALL_REPORT.set(StallReport { stalled: report.stalled || stalled, budget: report.budget.min(budget) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts_until(run: &TestRun, passes: u32, stalled: bool) -> (u32, bool) {
        attempts(run, passes, StallReport { stalled, budget: Duration::MAX })
    }

    fn attempts(run: &TestRun, passes: u32, report: StallReport) -> (u32, bool) {
        let runs = Cell::new(0);
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            attempt(run, || {
                runs.set(runs.get() + 1);
                STALL_REPORT.set(report);
                assert!(runs.get() == passes, "attempt {}", runs.get());
            });
        }));
        (runs.get(), outcome.is_ok())
    }

    #[test]
    fn test_that_fails_in_stalls_gets_at_most_three_attempts() {
        let directory = tempfile::tempdir().unwrap();
        let run = TestRun { file: directory.path().join("stalls") };
        assert_eq!(attempts_until(&run, 1, true), (1, true));
        assert_eq!(attempts_until(&run, 2, true), (2, true));
        assert_eq!(
            attempts_until(&run, 9, false),
            (1, false),
            "a test that failed without a stall must not be repeated"
        );
        assert_eq!(
            attempts_until(&run, 9, true),
            (3, false),
            "a test that fails in a stall each time must be attempted three times"
        );
        assert_eq!(fs::read_to_string(&run.file).unwrap().lines().count(), 3);
    }

    #[test]
    fn thread_woken_later_than_budget_counts_as_stall() {
        let directory = tempfile::tempdir().unwrap();
        let run = TestRun { file: directory.path().join("stalls") };
        assert_eq!(attempts(&run, 2, StallReport { stalled: false, budget: Duration::ZERO }), (2, true));
        assert_eq!(attempts(&run, 2, StallReport { stalled: false, budget: Duration::MAX }), (1, false));
    }

    #[test]
    fn stall_report_is_reset_between_attempts_of_a_test() {
        let directory = tempfile::tempdir().unwrap();
        let run = TestRun { file: directory.path().join("stalls") };
        let runs = Cell::new(0);
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            attempt(&run, || {
                runs.set(runs.get() + 1);
                note(runs.get() == 1, Duration::MAX);
                STALL_REPORT.set(StallReport { budget: Duration::MAX, ..STALL_REPORT.get() });
                panic!("attempt {}", runs.get());
            });
        }));
        assert_eq!((runs.get(), outcome.is_err()), (2, true));
    }

    #[test]
    fn merged_stall_report_keeps_any_stall_and_smallest_budget() {
        STALL_REPORT.set(StallReport::NONE);
        for (stalled, ms) in [(false, 100), (true, 50), (false, 80)] {
            note(stalled, Duration::from_millis(ms));
        }
        assert_eq!(STALL_REPORT.get(), StallReport { stalled: true, budget: Duration::from_millis(50) });
    }

    #[test]
    fn lost_frames_without_stall_are_not_reported_as_stall() {
        let status = |stalls: u64| -> Status {
            let spread = serde_json::json!({
                "count": 0, "sum_nanos": 0, "p50_nanos": null, "p99_nanos": null
            });
            let worker = serde_json::json!({
                "core": null, "ports": [], "state": "running", "loops": 9, "longest_gap_nanos": 1, "stalls": stalls,
                "stall_budget_nanos": 5_000_000, "gaps": spread, "send_reaction": spread, "obey_reaction": spread,
                "frames_free": 0, "cells_free": 0, "ledger": null
            });
            let status = serde_json::json!({
                "name": "s1", "version": "0", "uptime_nanos": 1, "ledger": null, "policies": vec!["pfc"; 8],
                "ports": [], "workers": [worker], "fdb": [],
                "verdict": {
                    "lossless": false, "promise": "not-kept", "lossless_lost": 7, "unseen_lost": 7,
                    "headroom_free_min_bytes": 0, "ledger_balanced": true
                }
            });
            serde_json::from_value(status).unwrap()
        };
        let report_of = |stalls| {
            STALL_REPORT.set(StallReport::NONE);
            note_switch(&status(stalls));
            STALL_REPORT.get()
        };
        let budget = Duration::from_millis(5);
        assert_eq!(
            [report_of(0), report_of(1)],
            [false, true].map(|stalled| StallReport { stalled, budget })
        );
    }

    #[test]
    fn failed_test_is_not_repeated_beyond_limit_of_its_test_run() {
        let directory = tempfile::tempdir().unwrap();
        let run = TestRun { file: directory.path().join("stalls") };
        for _ in 0..REPETITIONS_MAX {
            assert_eq!(attempts_until(&run, 2, true), (2, true));
        }
        assert_eq!(attempts_until(&run, 2, true), (1, false));
    }

    #[test]
    fn only_stalls_above_budget_in_lab_report_count_as_stall() {
        let has_stalled = |value: &Value| {
            STALL_REPORT.set(StallReport::NONE);
            note_lab(value);
            STALL_REPORT.get().stalled
        };
        let of = |switch: f64, host: f64, drops: u64| serde_json::json!({ "longest_stall_ms": switch, "longest_host_gap_ms": host, "xdp_drops": drops });
        assert_eq!(
            [of(25.0, 50.0, 9), of(25.1, 0.0, 0), of(0.0, 50.1, 0)].map(|it| has_stalled(&it)),
            [false, true, true]
        );
        let judged = |runs: u64| has_stalled(&serde_json::json!({ "runs_judged": runs }));
        assert_eq!([judged(1), judged(0)], [false, true]);
        let host = |longest_gap_ns, lost| {
            STALL_REPORT.set(StallReport::NONE);
            let mut report = HostReport { line_mbps: 123.04, longest_gap_ns, ..HostReport::default() };
            report.drops.total = lost;
            note_host(&report, 100);
            STALL_REPORT.get().stalled
        };
        assert_eq!(
            [host(10_000_000, 7), host(10_000_001, 0)],
            [false, true],
            "a ring of 100 frames at 123.04 Mb/s must cover a stall of 10 ms"
        );
    }
}

//! An examination: runs cases, repeats runs that a stall disturbed, and collects the report.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use xoff_xdp::XdpError;

use crate::accuracy;
use crate::bench::{Bench, Void};
use crate::cases::{self, Case};
use crate::report::{Accuracy, CaseReport, Report, Verdict};
use crate::setup::Setup;

/// Lowest real-time priority.
const PRIORITY: i32 = 1;
/// Maximum number of runs of a case that a stall disturbs.
const ATTEMPTS_MAX: u32 = 6;
/// Number of runs that must all be late before a case fails.
const LATE_RUNS: u32 = 3;

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Patterns of case ids; empty for all cases.
    pub only: Vec<String>,
    /// Number of results of each case.
    pub repeat: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error(transparent)]
    Port(#[from] XdpError),
    #[error("the examination cannot begin: {0}")]
    Start(String),
    #[error("the examination ended early: {0}")]
    Ended(String),
}

/// Returns the cases that match one of the patterns, or all cases if there is no pattern.
#[must_use]
pub fn selected(only: &[String]) -> Vec<&'static Case> {
    let is_selected = |case: &&Case| only.is_empty() || only.iter().any(|pattern| case.matches(pattern));
    cases::all().filter(is_selected).collect()
}

/// Gives the calling thread, which polls the ports, real-time priority.
pub fn use_real_time() -> io::Result<()> {
    xoff_xdp::host::run_in_real_time(PRIORITY)
}

/// Examines the device of `setup`. Calls `progress` after each case. Setting `interrupt` ends the examination.
pub fn examine(
    setup: Setup,
    options: &Options,
    interrupt: Arc<AtomicBool>,
    progress: &mut dyn FnMut(&CaseReport),
) -> Result<Report, TestError> {
    let begin = Instant::now();
    let started_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut bench = Bench::open(setup, interrupt)?;
    bench.accuracy = accuracy::measure(&mut bench).map_err(|void| TestError::Start(void.to_string()))?;
    let mut reports = Vec::new();
    for case in selected(&options.only) {
        for _ in 0..options.repeat.max(1) {
            let report = examine_case(&mut bench, case)?;
            progress(&report);
            reports.push(report);
        }
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_s,
        duration_s: begin.elapsed().as_secs_f64(),
        device: bench.setup.describe(),
        accuracy: Accuracy {
            longest_stall_ns: bench.longest_stall(Default::default()).0,
            ..bench.accuracy.clone()
        },
        cases: reports,
    })
}

fn examine_case(bench: &mut Bench, case: &Case) -> Result<CaseReport, TestError> {
    let ports = bench.ports().len();
    let mut report = CaseReport {
        id: case.id.to_owned(),
        title: case.title.to_owned(),
        source: case.source.to_owned(),
        verdict: Verdict::NotRun,
        reason: String::new(),
        attempts: 0,
        measurements: Vec::new(),
        figures: Vec::new(),
    };
    if ports < case.ports {
        report.reason = format!("the case needs {} test ports, and the file has {ports}", case.ports);
        return Ok(report);
    }
    let mut late = 0;
    while report.attempts < ATTEMPTS_MAX {
        report.attempts += 1;
        let run = bench.begin_case().and_then(|()| (case.run)(bench));
        let ended =
            if matches!(run, Err(Void::Interrupted | Void::Removed(_))) { Ok(()) } else { bench.end_case() };
        match ended.and(run) {
            Ok(judgement) => {
                report.verdict = judgement.verdict();
                report.reason = judgement.reason();
                late += u32::from(judgement.is_only_late());
                let is_final = !judgement.is_only_late() || late >= LATE_RUNS;
                (report.measurements, report.figures) = (judgement.measurements, judgement.figures);
                if is_final {
                    return Ok(report);
                }
            }
            Err(Void::Disturbed(reason)) => (report.verdict, report.reason) = (Verdict::CannotTell, reason),
            Err(Void::NotPossible(reason)) => {
                (report.verdict, report.reason) = (Verdict::NotRun, reason);
                return Ok(report);
            }
            Err(end @ (Void::Removed(_) | Void::Interrupted)) => {
                return Err(TestError::Ended(end.to_string()));
            }
        }
    }
    report.verdict = Verdict::CannotTell;
    Ok(report)
}

//! Runs the cases of an examination, repeats runs that a stall disturbed, and builds the report.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use xoff_wire::units::Nanos;

use crate::accuracy;
use crate::bench::{Bench, OpenError, Void};
use crate::cases::{Ability, BASIC, Case, JUDGED_WITHOUT, matches};
use crate::dcbx;
use crate::pressure::{self, Pressure};
use crate::report::{Accuracy, CaseReport, Report, Verdict};
use crate::setup::Setup;

const PRIORITY: i32 = 1;
const ATTEMPTS_MAX: u32 = 8;
/// Number of runs with a late reaction after which a case fails; fewer may be due to stalls.
const LATE_RUNS: u32 = 3;
const REPEATS_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum TestError {
    #[error(transparent)]
    Port(#[from] OpenError),
    #[error("the examination cannot begin: {0}")]
    Start(String),
}

#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    Case(&'a CaseReport),
    Note(&'a str),
}

pub fn select(all: impl IntoIterator<Item = &'static Case>, only: &[String]) -> Vec<&'static Case> {
    let matches = |case: &Case| only.iter().any(|pattern| case.matches(pattern));
    all.into_iter().filter(|case| only.is_empty() || matches(case)).collect()
}

/// Returns why ports and settings do not permit the case; `None` if they do.
#[must_use]
pub fn obstacle(case: &Case, setup: &Setup) -> Option<String> {
    let ports = setup.ports.len();
    if ports < case.ports {
        return Some(format!("the case needs {} test ports, and the setup file has {ports}", case.ports));
    }
    match (case.run)(&mut Bench::closed(setup.clone())) {
        Err(Void::NotPossible(reason)) => Some(reason),
        _ => None,
    }
}

pub fn use_real_time() -> io::Result<()> {
    xoff_xdp::host::run_in_real_time(PRIORITY)
}

/// Runs each of `cases` `repeat` times. Setting `interrupt`, or the removal of an interface, ends the examination early.
pub fn examine(
    setup: Setup,
    cases: &[&Case],
    repeat: u32,
    interrupt: Arc<AtomicBool>,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report, TestError> {
    let begin = Instant::now();
    let started_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut bench = Bench::open(setup, interrupt)?;
    let begun = dcbx::adopt(&mut bench, &mut |note| progress(Progress::Note(note)))
        .and_then(|()| accuracy::measure(&mut bench));
    bench.accuracy = begun.map_err(|void| TestError::Start(void.to_string()))?;
    let (mut reports, mut ended_early) = (Vec::<CaseReport>::new(), None);
    let runs = cases.iter().flat_map(|case| (0..repeat.max(1)).map(move |_| case));
    for case in runs {
        let mut report = match examine_case(&mut bench, case) {
            Ok(report) => report,
            Err(void) => {
                ended_early = Some(void);
                break;
            }
        };
        excuse_by_basic_case(&mut report, &reports, |ability| match ability {
            Ability::ObeysPauses => bench.has_paused(),
            Ability::SendsValidPfc => bench.has_received_invalid_pfc(),
        });
        progress(Progress::Case(&report));
        reports.push(report);
        if bench.is_interrupted() {
            ended_early = Some(Void::Interrupted);
            break;
        }
    }
    let ended_early = ended_early.map(|void| match reports.last() {
        Some(last) => format!("{void}, after {}", last.id),
        None => format!("{void}, before the end of the first case"),
    });
    Ok(Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_s,
        duration_s: begin.elapsed().as_secs_f64(),
        device: bench.setup.describe(),
        accuracy: Accuracy {
            longest_stall_ns: bench.longest_stall(Default::default()).0,
            ..bench.accuracy.clone()
        },
        ended_early,
        cases: reports,
    })
}

/// Replaces the verdict "fail" by "cannot tell", if the case `relies` on an ability and a basic case that examines this ability has failed.
fn excuse_by_basic_case(report: &mut CaseReport, earlier: &[CaseReport], relies: impl Fn(Ability) -> bool) {
    if report.verdict != Verdict::Fail || BASIC.iter().any(|(basic, _)| *basic == report.id) {
        return;
    }
    let has_failed = |id: &str| earlier.iter().any(|case| case.id == id && case.verdict == Verdict::Fail);
    let is_judged = |basic| {
        JUDGED_WITHOUT.iter().any(|(case, without)| matches(case, &report.id) && matches(without, basic))
    };
    let mut basics = BASIC.iter().filter(|(id, ability)| relies(*ability) && !is_judged(id));
    if let Some((id, ability)) = basics.find(|(id, _)| has_failed(id)) {
        let cause = match ability {
            Ability::ObeysPauses => "disobeys pauses",
            Ability::SendsValidPfc => "sends invalid PFC frames",
        };
        report.verdict = Verdict::CannotTell;
        report.reason = format!("the device {cause} ({id} failed); {}", report.reason);
        report.excused_by = Some((*id).to_owned());
    }
}

fn examine_case(bench: &mut Bench, case: &Case) -> Result<CaseReport, Void> {
    let mut report = CaseReport {
        id: case.id.to_owned(),
        title: case.title.to_owned(),
        source: case.source.to_owned(),
        verdict: Verdict::NotRun,
        reason: String::new(),
        excused_by: None,
        attempts: 0,
        measurements: Vec::new(),
        figures: Vec::new(),
    };
    if let Some(reason) = obstacle(case, &bench.setup) {
        report.reason = reason;
        return Ok(report);
    }
    bench.limit_pauses(case.pause_max(&bench.setup.device));
    let is_local = pressure::is_local(&bench.setup.ports);
    let (begin, limit) = (Instant::now(), case.limit(&bench.setup));
    let (mut late, mut is_late) = (0, false);
    while report.attempts < ATTEMPTS_MAX && (is_late || begin.elapsed() < REPEATS_MAX) {
        if report.attempts > 0 && bench.is_interrupted() {
            break;
        }
        report.attempts += 1;
        (report.measurements, report.figures) = Default::default();
        let pressure = Pressure::begin();
        let losses = bench.own_losses();
        bench.limit(limit);
        let run = bench.begin_case().and_then(|()| (case.run)(bench));
        bench.limit(Nanos::NEVER);
        let timelines = bench.timelines();
        let ended = match run {
            Err(Void::Interrupted | Void::Removed(_)) => Ok(()),
            _ => bench.end_case().or_else(|void| if void == Void::Interrupted { Ok(()) } else { Err(void) }),
        };
        let own = bench.own_losses().saturating_sub(losses);
        let run = match ended.and(run) {
            Ok(_) if own > 0 => Err(Void::Disturbed(format!("the tester's own ports lost {own} frames"))),
            run => run,
        };
        let failure = match &run {
            Ok(judgement) if judgement.may_be_stall() => Some(judgement.reason()),
            Err(Void::Failed(reason)) => Some(reason.clone()),
            _ => None,
        };
        let cause = match bench.device_stall() {
            Nanos::NEVER => Some("no frame crossed the device".to_owned()),
            stall if stall > bench.stall_limit() => {
                Some(format!("the device stalled for {} us", stall.0 / 1_000))
            }
            _ => pressure.excess_percent().filter(|_| is_local).map(|percent| {
                format!("programs on this machine waited for a processor {percent} % of the time")
            }),
        };
        let run = match failure.zip(cause) {
            Some((reason, cause)) => Err(Void::Disturbed(format!("{cause}; {reason}"))),
            None => run,
        };
        is_late = false;
        match run {
            Ok(judgement) => {
                report.verdict = judgement.verdict();
                report.reason = judgement.reason();
                is_late = judgement.is_only_late();
                late += u32::from(is_late);
                let is_final = !is_late || late >= LATE_RUNS;
                (report.measurements, report.figures) = (judgement.measurements, judgement.figures);
                report.figures.extend(timelines);
                if is_final {
                    return Ok(report);
                }
            }
            Err(Void::Disturbed(reason)) => (report.verdict, report.reason) = (Verdict::CannotTell, reason),
            Err(Void::Failed(reason)) => {
                (report.verdict, report.reason) = (Verdict::Fail, reason);
                (is_late, late) = (true, late + 1);
                if late >= LATE_RUNS {
                    return Ok(report);
                }
            }
            Err(Void::NotPossible(reason)) => {
                (report.verdict, report.reason) = (Verdict::NotRun, reason);
                return Ok(report);
            }
            Err(end @ (Void::Removed(_) | Void::Interrupted)) => return Err(end),
        }
    }
    report.verdict = Verdict::CannotTell;
    if is_late {
        report.reason = format!(
            "{late} of {} runs had this delay; a failure needs {LATE_RUNS}: {}",
            report.attempts, report.reason
        );
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::all;

    fn report(id: &str, verdict: Verdict) -> CaseReport {
        CaseReport {
            id: id.to_owned(),
            title: String::new(),
            source: String::new(),
            verdict,
            reason: "lost frames".to_owned(),
            excused_by: None,
            attempts: 1,
            measurements: Vec::new(),
            figures: Vec::new(),
        }
    }

    #[test] // proves: conformance
    fn failure_after_failed_basic_case_becomes_cannot_tell() {
        let judged = |id: &str, verdict, failed: &str, relies: Ability| {
            let mut case = report(id, verdict);
            let earlier = [report("receive.refresh", Verdict::Fail), report(failed, Verdict::Fail)];
            excuse_by_basic_case(&mut case, &earlier, |ability| ability == relies);
            (case.verdict, case.excused_by, case.reason)
        };
        let excused = |by: &str, reason: &str| {
            (Verdict::CannotTell, Some(by.to_owned()), format!("the device {reason}; lost frames"))
        };
        assert_eq!(
            judged("headroom.size", Verdict::Fail, "receive.xon", Ability::ObeysPauses),
            excused("receive.xon", "disobeys pauses (receive.xon failed)")
        );
        assert_eq!(
            judged("send.incast", Verdict::Fail, "send.format", Ability::SendsValidPfc),
            excused("send.format", "sends invalid PFC frames (send.format failed)")
        );
        for (id, verdict, failed, relies) in [
            ("headroom.size", Verdict::Pass, "receive.xon", Ability::ObeysPauses),
            ("headroom.size", Verdict::Fail, "send.xon", Ability::ObeysPauses),
            ("headroom.size", Verdict::Fail, "receive.xon", Ability::SendsValidPfc),
            ("receive.expiry", Verdict::Fail, "receive.xon", Ability::ObeysPauses),
            ("send.source", Verdict::Fail, "send.format", Ability::SendsValidPfc),
            ("watchdog.detection", Verdict::Fail, "receive.xon", Ability::ObeysPauses),
            ("counters.pfc", Verdict::Fail, "receive.xon", Ability::ObeysPauses),
            ("losslessness.storm", Verdict::Fail, "receive.stops-class", Ability::ObeysPauses),
            ("isolation.other-class", Verdict::Fail, "receive.timers", Ability::ObeysPauses),
        ] {
            assert_eq!(
                judged(id, verdict, failed, relies),
                (verdict, None, "lost frames".to_owned()),
                "{id}"
            );
        }
    }

    #[test]
    fn test_case_obstacles_follow_from_ports_and_settings() {
        let obstacle_of = |id: &str, device: &str, ports: &str| {
            let port =
                |name| format!("[[port]]\ndevice = \"{name}\"\nspeed = \"1G\"\nconnected = \"{name}\"\n");
            let ports: String = ports.split(' ').map(port).collect();
            let setup = Setup::from_toml("dut.toml", &format!("[device]\n{device}\n{ports}")).expect("valid");
            obstacle(all().find(|case| case.id == id).expect("the case exists"), &setup)
        };
        let counters = "counters = \"exit 1\"";
        for (id, device, ports, part) in [
            ("receive.expiry", "", "a b", None),
            ("losslessness.flap", "", "a b", None),
            ("counters.frames", counters, "a b", None),
            ("isolation.floods", "", "a b", Some("needs 3 test ports, and the setup file has 2")),
            ("isolation.floods", "", "a b c", None),
            ("losslessness.two-classes", "lossless = [3]", "a b c", Some("one lossless class only")),
            ("receive.timers", "lossless = [3]", "a b", None),
            ("map.dscp", "obeys = []", "a b", Some("no class that the case could examine")),
            ("map.pcp", "", "a b", Some("does not depend on the PCP")),
            ("watchdog.detection", "", "a b", Some("no `watchdog`")),
            ("lldp.present", "", "a b", Some("set `dcbx`")),
            ("counters.drops", counters, "a b", Some("needs `xoff` and `headroom`")),
        ] {
            let found = obstacle_of(id, device, ports);
            let is_expected = match (&found, part) {
                (Some(found), Some(part)) => found.contains(part),
                (found, part) => found.is_none() && part.is_none(),
            };
            assert!(is_expected, "{id}: {found:?}");
        }
    }

    #[test]
    fn basic_test_cases_run_before_cases_that_rely_on_them() {
        for (case, basic) in JUDGED_WITHOUT {
            assert!(all().any(|it| it.matches(case)) && BASIC.iter().any(|(id, _)| matches(basic, id)));
        }
        for (id, ability) in BASIC {
            let is_earlier = |case: &&Case| match ability {
                Ability::ObeysPauses => case.id.starts_with("receive."),
                Ability::SendsValidPfc => case.id.starts_with("receive.") || case.id == id,
            };
            assert!(all().take_while(is_earlier).any(|case| case.id == id), "{id}");
        }
    }
}

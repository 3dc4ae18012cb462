use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use xoff_testkit::chaos::{self, Report};

use crate::cli;

/// Check a switch's guarantees in random simulated fabrics.
///
/// Each seed gives a random fabric with loads, policies and faults; guarantees of SPECIFICATION.md are checked after every event. The first
/// violation ends the command with exit code 1, and is printed with the seed, the events before it, and the smallest failing scenario
/// found.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Seeds of the runs, from the first to the last.
    #[arg(long, value_name = "A..B", value_parser = cli::seeds, default_value = "0..99")]
    seeds: (u64, u64),
    /// Number of parallel runs [default: one per core].
    #[arg(long, value_name = "COUNT", value_parser = cli::number(1..=1_024_usize))]
    jobs: Option<usize>,
    /// Maximum number of events of each run.
    #[arg(long, value_name = "COUNT", value_parser = cli::number(1..=1_000_000_000_u64), default_value_t = chaos::EVENTS_MAX)]
    events: u64,
}

const PROGRESS_EVERY: Duration = Duration::from_secs(5);

pub fn run(args: &Args) -> miette::Result<ExitCode> {
    let jobs = args.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, std::num::NonZero::get));
    let (from, end) = (args.seeds.0, args.seeds.1 + 1);
    let begin = Instant::now();
    let (mut runs, mut events, mut reported_at) = (0, 0, Duration::ZERO);
    let report = chaos::run_for(from..end, jobs, args.events, |run| {
        (runs, events) = (runs + 1, events + run.events);
        let elapsed = begin.elapsed();
        if elapsed >= reported_at + PROGRESS_EVERY {
            reported_at = elapsed;
            cli::tell(progress(runs, end - from, events, elapsed));
        }
    });
    cli::tell(format_args!(
        "{:.0} events a second",
        report.tally.events as f64 / begin.elapsed().as_secs_f64()
    ));
    cli::print(render(&report, args.events))?;
    Ok(if report.found.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn progress(runs: u64, all: u64, events: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = events as f64 / seconds / 1e6;
    let left = seconds * (all - runs) as f64 / runs as f64;
    format!("{runs} of {all} runs, {rate:.2} million events a second, {left:.0} s left")
}

fn render(report: &Report, events: u64) -> String {
    let mut text = report.to_string();
    if let Some(found) = &report.found {
        let seed = found.seed;
        let length = if events == chaos::EVENTS_MAX { String::new() } else { format!(" --events {events}") };
        text.push_str(&format!("\nrepeat this run with: xoff sim chaos --seeds {seed}..{seed}{length}\n"));
    }
    text
}

// Tests for SPECIFICATION.md: chaos
#[cfg(test)]
mod tests {
    use xoff_flow_control::drop_reason::DropReason;
    use xoff_testkit::Promise;
    use xoff_testkit::chaos::{Breach, Finding, Shrunk, Tally};
    use xoff_wire::units::Nanos;

    use super::*;

    #[test]
    fn chaos_progress_shows_completed_runs_event_rate_and_time_left() {
        let line = progress(250, 1_000, 20_000_000, Duration::from_secs(10));
        assert_eq!(line, "250 of 1000 runs, 2.00 million events a second, 30 s left");
    }

    #[test]
    fn violated_guarantee_is_printed_with_command_to_repeat_run() {
        let breach = |what: &str| Breach {
            promise: Promise::Ledger,
            at: Nanos(7),
            what: what.into(),
            last: vec!["6 ns: switch 0 is woken".into()],
        };
        let shrunk = Shrunk { scenario: "Scenario {}".into(), event: 3, breach: breach("one frame") };
        let found = Finding { seed: 53, event: 99, breach: breach("two frames"), shrunk };
        let report = Report { found: Some(found), ..Report::default() };
        let text = render(&report, chaos::EVENTS_MAX);
        for part in ["seed 53, event 99", "two frames", "6 ns: switch 0 is woken", "one frame", "Scenario {}"]
        {
            assert!(text.contains(part), "the report lacks {part}: {text}");
        }
        assert!(text.ends_with("\nrepeat this run with: xoff sim chaos --seeds 53..53\n"), "{text}");
        assert!(render(&report, 500).ends_with("--seeds 53..53 --events 500\n"));
        let clean = render(&Report::default(), 500);
        assert!(clean.contains("no promise was broken") && !clean.contains("repeat this run"), "{clean}");
    }

    #[test]
    fn permitted_drops_of_lossless_frames_are_reported() {
        let tally = Tally { seeds: 1, exempt_runs: 1, exempt_losses: 7, ..Tally::default() };
        let text = render(&Report { tally, ..Report::default() }, 500);
        let reason = "7 of the dropped frames were lossless, all in the 1 of 1 runs that may lose frames";
        assert!(text.contains(reason) && text.ends_with("no promise was broken\n"), "{text}");
        assert!(!render(&Report::default(), 500).contains("loss"));
        let mut drops = [0; DropReason::COUNT];
        drops[DropReason::EgressFull.index()] = 12;
        drops[DropReason::Hairpin.index()] = 3;
        let text = render(&Report { tally: Tally { drops, ..tally }, ..Report::default() }, 500);
        assert!(
            text.contains("5 of the dropped frames were in lossy classes, and 3 had no egress port"),
            "{text}"
        );
    }

    #[test]
    fn switch_guarantees_hold_in_random_fabrics_of_a_few_seeds() {
        let args = Args { seeds: (0, 3), jobs: Some(2), events: 2_000 };
        assert_eq!(run(&args).expect("the report must be written"), ExitCode::SUCCESS);
    }
}

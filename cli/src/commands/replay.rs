use std::path::PathBuf;
use std::process::ExitCode;

use miette::IntoDiagnostic as _;
use xoff_config::OwnPolicy;
use xoff_recording::{Ending, Outcome, Replayed};

use crate::cli;

/// Replay a recording of `xoff run --record` and compare.
///
/// Needs neither root nor devices. A dataplane with the same settings gets the recorded calls. Sent frames, bytes of
/// pause frames, drops with their reasons, and counters must be identical.
///
/// Exits with 0 if they are, with 1 and the first difference if not, and with 2 if the file cannot be replayed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Recording file to replay.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub fn run(args: &Args, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
    let replayed = xoff_recording::replay(&args.file, own).into_diagnostic()?;
    cli::print(describe(&replayed))?;
    Ok(if replayed.is_identical() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn describe(replayed: &Replayed) -> String {
    let early = match replayed.ended {
        Ending::Stopped if replayed.has_books => String::new(),
        Ending::Stopped => {
            "the recorded switch did not end normally, so its counters are not compared\n".into()
        }
        why => format!("the recording ended before the recorded switch did: {}\n", why.describe()),
    };
    match (&replayed.outcome, &replayed.books) {
        (Outcome::Identical { calls, frames }, None) => {
            let books = if replayed.has_books { ", and all counters" } else { "" };
            format!("identical: {calls} calls, {frames} frames{books}\n{early}")
        }
        (Outcome::Identical { calls, frames }, Some((recorded, now))) => format!(
            "not identical: {calls} calls and {frames} frames are equal, but final counters differ\n\
             recorded: {recorded}\n     now: {now}\n"
        ),
        (Outcome::Differs(difference), _) => {
            let before: String = difference.before.iter().map(|call| format!("  {call}\n")).collect();
            format!(
                "not identical: the first difference is at call {}, at {} ns of the switch's clock\n\
                 the last calls, with the differing call at the end:\n{before}recorded: {}\n     now: {}\n{early}",
                difference.call, difference.at.0, difference.recorded, difference.replayed
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::Nanos;

    use super::*;
    use xoff_recording::Difference;

    fn description(outcome: Outcome, books: Option<(&str, &str)>, ended: Ending, has_books: bool) -> String {
        let books = books.map(|(recorded, now)| (recorded.to_owned(), now.to_owned()));
        describe(&Replayed { outcome, books, ended, has_books })
    }

    #[test] // proves: recording
    fn replay_reports_identical_runs_or_their_first_difference() {
        let identical = Outcome::Identical { calls: 7, frames: 3 };
        let all = description(identical.clone(), None, Ending::Stopped, true);
        assert_eq!(all, "identical: 7 calls, 3 frames, and all counters\n");
        let early = description(identical.clone(), None, Ending::Overrun, false);
        assert_eq!(
            early,
            "identical: 7 calls, 3 frames\n\
             the recording ended before the recorded switch did: records came faster than the file could be written (overrun)\n"
        );
        let unknown = description(identical.clone(), None, Ending::Stopped, false);
        assert!(unknown.ends_with("so its counters are not compared\n"), "{unknown}");
        let books = description(identical, Some(("a = 1", "a = 2")), Ending::Stopped, true);
        assert!(books.ends_with("final counters differ\nrecorded: a = 1\n     now: a = 2\n"), "{books}");
        let difference = Difference {
            call: 9,
            at: Nanos(12),
            before: vec!["one".into(), "two".into()],
            recorded: "this".into(),
            replayed: "that".into(),
        };
        assert_eq!(
            description(Outcome::Differs(Box::new(difference)), None, Ending::Stopped, true),
            "not identical: the first difference is at call 9, at 12 ns of the switch's clock\n\
             the last calls, with the differing call at the end:\n  one\n  two\nrecorded: this\n     now: that\n"
        );
    }
}

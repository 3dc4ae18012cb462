//! `xoff demo`: see it work, without a file, in half a minute.

use std::process::ExitCode;

use miette::IntoDiagnostic as _;

use crate::cli;
use xoff_experiments::demo;

/// Four senders congest one port of a switch, in namespaces that vanish afterwards. Shows what became of
/// every frame; exits with 0 only where the lossless class lost, duplicated and reordered nothing and
/// every frame is accounted for, with 1 where not, and with 3 where something that could tell of a loss cannot be read.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON object on standard output; progress goes to standard error.
    #[arg(long)]
    json: bool,
    /// How long traffic is offered.
    #[arg(long, value_name = "SECONDS", default_value_t = 12, value_parser = cli::number(1..=3600_u64))]
    seconds: u64,
}

/// Runs the demo.
///
/// # Errors
/// What kept it from running.
pub fn run(args: &Args) -> miette::Result<ExitCode> {
    let report = demo::run(args.seconds, &mut |line| cli::tell(line))?;
    if args.json {
        cli::print(serde_json::to_string(&report).into_diagnostic()? + "\n")?;
    } else {
        cli::print(&report)?;
    }
    Ok(cli::exit_code(report.promise()))
}

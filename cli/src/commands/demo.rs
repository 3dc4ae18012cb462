use std::process::ExitCode;

use miette::IntoDiagnostic as _;

use crate::cli;
use xoff_experiments::experiment::demo;

/// Congest a switch in namespaces and account for every frame.
///
/// Four senders congest one port; the namespaces are removed afterwards. Exits with 0 if every frame is accounted
/// for, and the lossless class lost, duplicated and reordered nothing; with 1 if not; with 3 if a counter cannot be
/// read.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON object; progress goes to standard error.
    #[arg(long)]
    json: bool,
    /// Duration of the traffic, in whole seconds.
    #[arg(long, value_name = "TIME", default_value = "12s", value_parser = cli::whole_seconds(1..=3600))]
    duration: u32,
}

pub fn run(args: &Args) -> miette::Result<ExitCode> {
    let report = demo::run(args.duration.into(), &mut |line| cli::tell(line))?;
    if args.json {
        cli::print(serde_json::to_string(&report).into_diagnostic()? + "\n")?;
    } else {
        cli::print(&report)?;
    }
    Ok(cli::exit_code(report.promise()))
}

//! `xoff test`: examines switches and NICs that claim PFC.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use miette::{IntoDiagnostic as _, miette};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use xoff_tester::examination::{selected, use_real_time};
use xoff_tester::report::{CaseReport, Report, Verdict};
use xoff_tester::{Options, Setup, examine};

use crate::cli::{self, EXIT_NOT_PROVED};

/// Examine a switch or NIC that claims PFC (IEEE 802.1Qbb).
///
/// Interfaces of this machine are connected to ports of the device. The tester sends, pauses, and judges what arrives. Exits with 0 if all
/// cases pass, with 1 if one fails, and with 3 if one has no verdict because the machine disturbed it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File that describes the device and the test ports (TOML).
    file: Option<PathBuf>,
    /// Print the cases and exit.
    #[arg(long)]
    list: bool,
    /// Run only cases that match PATTERN, such as receive.*
    ///
    /// May be repeated.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,
    /// Number of runs of each case.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = cli::number(1..=1000_u32))]
    repeat: u32,
    /// Print one JSON object; progress goes to standard error.
    #[arg(long)]
    json: bool,
    /// Run without real-time priority.
    #[arg(long)]
    no_real_time: bool,
}

pub fn run(args: &Args) -> miette::Result<ExitCode> {
    let cases = selected(&args.only);
    if cases.is_empty() {
        return Err(miette!(
            help = "`xoff test --list` prints the cases; `*` in a pattern stands for any text",
            "no case matches {}",
            args.only.join(", ")
        ));
    }
    if args.list {
        cases.iter().try_for_each(|case| cli::print(format_args!("{:<32} {}\n", case.id, case.title)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.file.as_ref().ok_or_else(|| {
        miette!(
            help = "write [device] and two [[port]] to a file, and give its name",
            "no file describes the device and the test ports"
        )
    })?;
    let setup = Setup::load(file)?;
    let interrupt = interrupted()?;
    if !args.no_real_time
        && let Err(error) = use_real_time()
    {
        cli::tell(format_args!("without real-time priority, times are less exact: {error}"));
    }
    let options = Options { only: args.only.clone(), repeat: args.repeat };
    let report = examine(setup, &options, interrupt, &mut |case| cli::tell(line(case))).into_diagnostic()?;
    if args.json {
        cli::print(serde_json::to_string(&report).into_diagnostic()? + "\n")?;
    }
    Ok(exit_code(&report))
}

/// Returns a flag that the first signal sets. A second signal ends the process.
fn interrupted() -> miette::Result<Arc<AtomicBool>> {
    let interrupt: Arc<AtomicBool> = Arc::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_default(signal, Arc::clone(&interrupt)).into_diagnostic()?;
        flag::register(signal, Arc::clone(&interrupt)).into_diagnostic()?;
    }
    Ok(interrupt)
}

fn line(case: &CaseReport) -> String {
    let verdict = match case.verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "FAIL",
        Verdict::CannotTell => "cannot tell",
        Verdict::NotRun => "not run",
    };
    let separator = if case.reason.is_empty() { "" } else { ": " };
    format!("{verdict:<12} {}{separator}{}", case.id, case.reason)
}

/// Returns 1 if a case failed, 3 if one has no verdict or none was run, and 0 if all passed.
fn exit_code(report: &Report) -> ExitCode {
    let has = |verdict| report.cases.iter().any(|case| case.verdict == verdict);
    if has(Verdict::Fail) {
        ExitCode::FAILURE
    } else if has(Verdict::CannotTell) || !has(Verdict::Pass) {
        ExitCode::from(EXIT_NOT_PROVED)
    } else {
        ExitCode::SUCCESS
    }
}

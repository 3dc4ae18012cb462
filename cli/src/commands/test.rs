use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Subcommand;
use miette::{IntoDiagnostic as _, miette};
use signal_hook::flag;
use xoff_config::{quantity, visible};
use xoff_flow_control::settings::Trust;
use xoff_host::values;
use xoff_tester::cases::{self, Case};
use xoff_tester::examination::{Progress, obstacle, select, use_real_time};
use xoff_tester::report::{CaseReport, Report, Verdict, compare};
use xoff_tester::setup::DeviceSettings;
use xoff_tester::{Setup, examine};
use xoff_wire::units::{BitRate, ClassSet, Nanos};

use crate::cli::{self, EXIT_NOT_PROVED};

/// Examine a switch or NIC that claims PFC (IEEE 802.1Qbb).
///
/// Interfaces of this machine are connected to ports of the device. The tester sends, pauses, and judges the frames
/// that arrive. Exits with 0 if all cases that were run pass, with 1 if one fails, with 2 if the examination cannot
/// begin or ends early, and with 3 if a case has no verdict ("cannot tell") or none was run.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// File that describes the device and the test ports (TOML).
    file: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Option<TestCommand>,
}

#[derive(Debug, Subcommand)]
enum TestCommand {
    Nic(NicArgs),
    Compare(CompareArgs),
}

/// Examine a NIC of this machine.
///
/// Example: xoff test nic eth0 --peer eth1
///
/// A cable connects the two interfaces. The tester sends through the kernel's queues of the NIC, so that `xoff nic`
/// can take part, and sends pauses from the other end.
#[derive(Debug, clap::Args)]
struct NicArgs {
    /// Interface of the NIC that must obey PFC.
    nic: String,
    /// Interface at the other end of the cable.
    #[arg(long, value_name = "INTERFACE")]
    peer: String,
    /// Speed of the line [default: as reported by the NIC].
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    speed: Option<BitRate>,
    /// Lossless classes: the NIC obeys and sends PFC for these only [default: 3].
    #[arg(long, value_name = "CLASSES", value_parser = values::classes)]
    lossless: Option<ClassSet>,
    /// Header field that gives the class of a frame.
    #[arg(long, value_name = "dscp|pcp", default_value = "dscp", value_parser = trust)]
    trust: Trust,
    /// Extra time to obey a pause, added to the standard's limit; 0s for hardware.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::duration)]
    response_allowance: Nanos,
    #[command(flatten)]
    options: Options,
}

/// Compare two reports.
///
/// Exits with 1 if a case has a worse verdict in the second report.
#[derive(Debug, clap::Args)]
struct CompareArgs {
    /// File report.json, or its directory.
    first: PathBuf,
    /// File report.json of a later examination, or its directory.
    second: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Print the cases and exit; with FILE also whether it permits each.
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
    /// Duration of the case losslessness.soak [default: 3s].
    #[arg(long, value_name = "TIME", value_parser = cli::whole_seconds(1..=31_536_000))]
    soak: Option<u32>,
    /// Write the report as HTML, JSON and text to DIR.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object; progress goes to standard error.
    #[arg(long)]
    json: bool,
    /// Run without real-time priority.
    #[arg(long)]
    no_real_time: bool,
}

fn trust(text: &str) -> Result<Trust, String> {
    match text {
        "dscp" => Ok(Trust::Dscp),
        "pcp" => Ok(Trust::Pcp),
        _ => Err("the field must be dscp or pcp".to_owned()),
    }
}

pub fn run(args: &Args) -> miette::Result<ExitCode> {
    match &args.command {
        Some(TestCommand::Nic(nic)) => run_nic(nic),
        Some(TestCommand::Compare(reports)) => run_compare(reports),
        None => {
            let cases = chosen(cases::all(), &args.options)?;
            match &args.file {
                Some(file) if args.options.list => list_permitted(&cases, &Setup::load(file)?),
                Some(file) => run_cases(Setup::load(file)?, &cases, &args.options),
                None if args.options.list => list(&cases),
                None => Err(miette!(
                    help = "write [device] and two [[port]] to a file, and give its name",
                    "no file describes the device and the test ports"
                )),
            }
        }
    }
}

fn run_nic(args: &NicArgs) -> miette::Result<ExitCode> {
    let cases = chosen(cases::of_nic(), &args.options)?;
    if args.options.list {
        return list(&cases);
    }
    let lossless = args.lossless.unwrap_or(xoff_config::defaults::LOSSLESS);
    let device = DeviceSettings {
        trust: args.trust,
        response_allowance: args.response_allowance,
        ..DeviceSettings::new(&args.nic, lossless)
    };
    let speed = args.speed.map_or_else(|| speed(&args.nic), Ok)?;
    run_cases(Setup::of_nic(&args.nic, &args.peer, speed, device), &cases, &args.options)
}

fn speed(nic: &str) -> miette::Result<BitRate> {
    let unknown = |why: String| {
        miette!(
            help = "give --speed, such as --speed 10G; a line without a link has no speed",
            "the speed of {} is unknown: {why}",
            visible(nic)
        )
    };
    let reported = xoff_xdp::host::speed(nic).map_err(|error| unknown(error.to_string()))?;
    let reported = reported.ok_or_else(|| unknown("its driver reports none".to_owned()))?;
    cli::tell(format_args!("{}: {}, as its driver reports", visible(nic), quantity::rate(reported)));
    Ok(reported)
}

fn run_compare(args: &CompareArgs) -> miette::Result<ExitCode> {
    let (first, second) = (Report::read(&args.first)?, Report::read(&args.second)?);
    let comparison = compare(&first, &second);
    if args.json {
        cli::print(serde_json::to_string(&comparison).into_diagnostic()? + "\n")?;
    } else {
        cli::print(&comparison)?;
    }
    Ok(if comparison.is_worse() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn chosen(
    all: impl IntoIterator<Item = &'static Case>,
    options: &Options,
) -> miette::Result<Vec<&'static Case>> {
    let cases = select(all, &options.only);
    match cases.is_empty() {
        true => Err(miette!(
            help = "--list prints the cases; `*` in a pattern stands for any text",
            "no case matches {}",
            options.only.join(", ")
        )),
        false => Ok(cases),
    }
}

fn list(cases: &[&Case]) -> miette::Result<ExitCode> {
    cases.iter().try_for_each(|case| cli::print(format_args!("{:<32} {}\n", case.id, case.title)))?;
    Ok(ExitCode::SUCCESS)
}

fn list_permitted(cases: &[&Case], setup: &Setup) -> miette::Result<ExitCode> {
    if setup.device.from_dcbx.is_some() {
        let lossless = setup.device.lossless;
        cli::tell(format_args!("the lossless classes come from DCBX; this list assumes {lossless:?}"));
    }
    for case in cases {
        let (run, reason) = match obstacle(case, setup) {
            Some(reason) => ("not run", format!(": {reason}")),
            None => ("run", String::new()),
        };
        cli::print(format_args!("{run:<8} {:<28} {}{reason}\n", case.id, case.title))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_cases(setup: Setup, cases: &[&Case], options: &Options) -> miette::Result<ExitCode> {
    let setup =
        Setup { soak: options.soak.map_or(setup.soak, |seconds| Nanos::from_secs(seconds.into())), ..setup };
    let interrupt = interrupted()?;
    if !options.no_real_time
        && let Err(error) = use_real_time()
    {
        cli::tell(format_args!("without real-time priority, times are less exact: {error}"));
    }
    let mut progress = |progress: Progress<'_>| match progress {
        Progress::Case(case) => cli::tell(line(case)),
        Progress::Note(note) => cli::tell(note),
    };
    let report = examine(setup, cases, options.repeat, interrupt, &mut progress).into_diagnostic()?;
    if let Some(directory) = &options.report {
        report.write(directory)?;
    }
    cli::print(if options.json { report.to_json() } else { report.to_text() })?;
    if let Some(why) = &report.ended_early {
        return Err(miette!("the examination ended early: {why}"));
    }
    Ok(match report.verdict() {
        Verdict::Pass => ExitCode::SUCCESS,
        Verdict::Fail => ExitCode::FAILURE,
        Verdict::CannotTell | Verdict::NotRun => ExitCode::from(EXIT_NOT_PROVED),
    })
}

fn interrupted() -> miette::Result<Arc<AtomicBool>> {
    let interrupt: Arc<AtomicBool> = Arc::default();
    for signal in cli::ending_signals() {
        flag::register_conditional_default(signal, Arc::clone(&interrupt)).into_diagnostic()?;
        flag::register(signal, Arc::clone(&interrupt)).into_diagnostic()?;
    }
    Ok(interrupt)
}

fn line(case: &CaseReport) -> String {
    let separator = if case.reason.is_empty() { "" } else { ": " };
    format!("{:<12} {}{separator}{}", case.verdict, case.id, case.reason)
}

mod status;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use clap::Subcommand;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use miette::{IntoDiagnostic as _, miette};
use signal_hook::low_level::pipe;
use xoff_config::shell::HttpAt;
use xoff_config::{Choice as _, quantity};
use xoff_flow_control::congestion::ReactionSettings;
use xoff_flow_control::settings::{Dcbx, Trust};
use xoff_host::limiter::parse_reaction;
use xoff_host::values;
use xoff_nic::egress::{self, Egress, EgressError, Removed};
use xoff_nic::facts::{Facts, MacControl};
use xoff_nic::serve::RunningAgent;
use xoff_nic::{
    Agent, AgentError, NicSettings, NicView, NicWishes, await_device, class_map, guard, own_name,
};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos, Quanta};

use crate::cli::{self, EXIT_CANNOT};
use xoff_switch::confine::Confinement;
use xoff_switch::control::service;
use xoff_switch::control::{self, ControlHandle, logging};
use xoff_switch::descriptors::Allowed;

/// Make this Linux host obey its switch's pauses.
///
/// The agent works beside the kernel's own network stack.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    agent: AgentArgs,
    #[command(subcommand)]
    command: Option<NicCommand>,
}

#[derive(Debug, Subcommand)]
enum NicCommand {
    Check(CheckArgs),
    Restore(RestoreArgs),
    Status(status::Args),
}

#[derive(Debug, clap::Args)]
struct AgentArgs {
    /// Configuration file (TOML); the command line overrides it.
    #[arg(value_parser = PathBufValueParser::new().try_map(no_action))]
    file: Option<PathBuf>,
    /// Network interface.
    #[arg(long, value_name = "INTERFACE")]
    device: Option<String>,
    /// Speed of the line, the same as at the switch's port.
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    speed: Option<BitRate>,
    /// Classes that obey pauses [default: 3].
    #[arg(long, value_name = "CLASSES", value_parser = values::classes)]
    lossless: Option<ClassSet>,
    /// Header field that gives the class of a frame [default: dscp].
    #[arg(long, value_name = "dscp|pcp", value_parser = trust)]
    trust: Option<Trust>,
    /// Class of frames without the field of --trust [default: 0].
    #[arg(long, value_name = "CLASS", value_parser = class)]
    default_class: Option<Class>,
    /// Class by PCP, as in 5=3,6-7=4 [default: class = PCP].
    #[arg(long, value_name = "PCP=CLASS,...", value_parser = class_map::<8>)]
    pcp_map: Option<[Option<Class>; 8]>,
    /// Class by DSCP, as in 26=3,40-47=5 [default: class = DSCP / 8].
    #[arg(long, value_name = "DSCP=CLASS,...", value_parser = class_map::<64>)]
    dscp_map: Option<[Option<Class>; 64]>,
    /// Announce classes by LLDP; compare or adopt the switch's classes [default: off].
    ///
    /// With compare, the agent reports where its classes differ from the switch's. With willing, it uses the switch's
    /// lossless classes and DSCP map, while exactly one neighbor announces DCBX.
    #[arg(long, value_name = "off|compare|willing", value_parser = dcbx)]
    dcbx: Option<Dcbx>,
    /// Let congestion notifications (CNMs) set the rate of their class.
    ///
    /// Parameters override the standard's, as in gd=128,recovery=5,bytes=150KB,time=15ms,ai=5M,hai=50M,min=10M,jitter=15
    #[arg(long, value_name = "KEY=VALUE,...", num_args = 0..=1, default_missing_value = "", require_equals = true,
          value_parser = parse_reaction)]
    qcn: Option<ReactionSettings>,
    /// Obey the rates that the switch requests (GFC), class by class.
    #[arg(long)]
    obey_rates: bool,
    /// Pause the switch while a UDP socket has BYTES of unread data.
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pause_above: Option<Bytes>,
    /// Pause time sent by --pause-above, in quanta [default: 65535].
    #[arg(long, value_name = "QUANTA", value_parser = cli::number(1..=65_535_u16))]
    pause_time: Option<u16>,
    /// Response time configured at the switch's port; warn above it.
    ///
    /// This is `peer_response` of the switch's port: the maximum time to obey a pause.
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    peer_response: Option<Nanos>,
    /// Use neither real-time priority nor locked memory.
    #[arg(long)]
    no_real_time: bool,
    /// Wait for the interface if it is missing at the start or deleted.
    #[arg(long)]
    wait: bool,
    /// HTTP server: address, unix:PATH or off [default: 127.0.0.1:9465].
    ///
    /// It serves /metrics, /status and /healthz.
    #[arg(long, value_name = "ADDRESS|unix:PATH|off", value_parser = http)]
    http: Option<Http>,
}

/// Check what kernel and device support, and change nothing.
///
/// Exits with 0 if the agent would start, and with 2 if not.
#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// Configuration file (TOML); the command line overrides it.
    file: Option<PathBuf>,
    /// Network interface.
    #[arg(long, value_name = "INTERFACE")]
    device: Option<String>,
    /// Speed of the line, the same as at the switch's port.
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    speed: Option<BitRate>,
    /// Assume neither real-time priority nor locked memory.
    #[arg(long)]
    no_real_time: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Undo changes that a killed agent or switch left at an interface.
#[derive(Debug, clap::Args)]
struct RestoreArgs {
    /// Network interface.
    #[arg(long, value_name = "INTERFACE")]
    device: String,
}

const AFTER_HELP: &str = "\
What it does to the device is undone when it ends, however it ends. docs/hosts.md says more.

Exit codes: 0 stopped, nothing lossless dropped in this host; 1 its queues dropped lossless frames, or still had \
some at the end, or another program changed them and it may not have obeyed; 2 bad usage, or an interface that cannot be used, or was deleted.";

/// Reopen queues that a failed agent left stopped; started by `xoff nic`.
#[derive(Debug, clap::Args)]
pub struct GuardArgs {
    /// Network interface.
    #[arg(long)]
    device: String,
    /// Index of the interface; a new name does not change it.
    #[arg(long)]
    index: i32,
}

const GUARD: &str = "nic-guard";

/// Refuses a configuration file named like a subcommand.
///
/// The user probably wrote options before the subcommand.
fn no_action(file: PathBuf) -> Result<PathBuf, String> {
    match file.to_str() {
        Some(name @ ("check" | "restore" | "status")) => Err(format!(
            "write the subcommand before its options, as in `xoff nic {name} --help`; for a file of that name, write ./{name}"
        )),
        _ => Ok(file),
    }
}

#[derive(Clone, Debug)]
struct Http(Option<HttpAt>);

fn http(text: &str) -> Result<Http, String> {
    match text {
        "off" => Ok(Http(None)),
        at => at.parse().map(|at| Http(Some(at))).map_err(|error: String| format!("{error}, or off")),
    }
}

fn trust(text: &str) -> Result<Trust, String> {
    match text {
        "dscp" => Ok(Trust::Dscp),
        "pcp" => Ok(Trust::Pcp),
        _ => Err("dscp or pcp".into()),
    }
}

fn class(text: &str) -> Result<Class, String> {
    text.parse().ok().and_then(Class::new).ok_or_else(|| "a class from 0 to 7".into())
}

fn dcbx(text: &str) -> Result<Dcbx, String> {
    let choice = Dcbx::WORDS.iter().find(|(word, _)| *word == text);
    choice.map(|(_, choice)| *choice).ok_or_else(|| "off, compare or willing".into())
}

impl AgentArgs {
    fn wishes(&self) -> NicWishes {
        NicWishes {
            device: self.device.clone(),
            speed: self.speed,
            lossless: self.lossless,
            trust: self.trust,
            default_class: self.default_class,
            pcp_map: self.pcp_map,
            dscp_map: self.dscp_map,
            dcbx: self.dcbx,
            qcn: self.qcn,
            obey_rates: self.obey_rates.then_some(true),
            pause_above: self.pause_above.map(Some),
            pause_time: self.pause_time.map(Quanta),
            peer_response: self.peer_response.map(Some),
            real_time: self.no_real_time.then_some(false),
            http: self.http.clone().map(|Http(at)| at),
            ..NicWishes::default()
        }
    }
}

impl CheckArgs {
    fn wishes(&self) -> NicWishes {
        NicWishes {
            device: self.device.clone(),
            speed: self.speed,
            real_time: self.no_real_time.then_some(false),
            ..NicWishes::default()
        }
    }
}

fn settings(wishes: NicWishes, file: Option<&Path>) -> miette::Result<NicSettings> {
    let file = file.map(NicWishes::load).transpose()?;
    wishes.over(file.unwrap_or_default()).settings().into_diagnostic()
}

pub fn run(args: &Args) -> miette::Result<ExitCode> {
    match &args.command {
        None => obey(&settings(args.agent.wishes(), args.agent.file.as_deref())?, args.agent.wait),
        Some(NicCommand::Check(args)) => check(&settings(args.wishes(), args.file.as_deref())?, args.json),
        Some(NicCommand::Restore(args)) => restore(&args.device),
        Some(NicCommand::Status(args)) => status::run(args).map(|()| ExitCode::SUCCESS),
    }
}

pub fn run_guard(args: &GuardArgs) -> miette::Result<ExitCode> {
    guard::run_guard(&args.device, args.index).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

fn restore(device: &str) -> miette::Result<ExitCode> {
    let device = &own_name(device);
    let ifindex = egress::index_of(device).into_diagnostic()?;
    let Some(removed) = Egress::restore(ifindex).into_diagnostic()? else {
        cli::print(format!("nothing to restore: no killed xoff has left settings at {device}\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    removed.warnings.iter().for_each(|warning| cli::tell(format_args!("warning: {warning}")));
    let left: u64 = removed.lost.iter().sum();
    cli::print(format!(
        "restored the earlier settings of {device}; {left} frames in its queues were lost\n"
    ))?;
    Ok(if removed.warnings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CANNOT) })
}

fn obey(settings: &NicSettings, waits: bool) -> miette::Result<ExitCode> {
    let log = logging::start(settings.log, settings.log_format, &Confinement::default()).into_diagnostic()?;
    Allowed::raise().and_then(|files| files.suffices_for_agent(settings.http.is_some())).into_diagnostic()?;
    let (stop, signalled) = UnixStream::pair().into_diagnostic()?;
    for signal in cli::ending_signals() {
        pipe::register(signal, signalled.try_clone().into_diagnostic()?).into_diagnostic()?;
    }
    let running = xoff_nic::serve::notify_service_manager();
    let mut has_fault = false;
    let outcome = loop {
        let tell_waiting = || service::runs(&format!("waiting for {}", settings.device));
        if waits && !await_device(&settings.device, stop.as_fd(), tell_waiting).into_diagnostic()? {
            break Ok(());
        }
        let outcome = match start(settings)? {
            Ok((agent, control)) => {
                let (view, outcome) = (agent.view(), obey_once(agent, control, &running, stop.as_fd()));
                log.flush(); // makes room for the conclusion
                has_fault |= conclude(&view, &outcome.0);
                outcome.1
            }
            Err(error) => Err(error),
        };
        match outcome {
            Err(error @ (AgentError::NoDevice(_) | AgentError::DeviceRemoved(_))) if waits => {
                tracing::error!("{error}")
            }
            outcome => break outcome,
        }
    };
    service::ends();
    outcome.into_diagnostic()?;
    Ok(if has_fault { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn start(settings: &NicSettings) -> miette::Result<Result<(Agent, Option<ControlHandle>), AgentError>> {
    // Use the device's main name, because an alternative name may be removed while the agent runs.
    let settings = &NicSettings { device: own_name(&settings.device), ..settings.clone() };
    let index = match egress::index_of(&settings.device) {
        Ok(index) => index.to_string(),
        Err(EgressError::NoSuchDevice { device }) => return Ok(Err(AgentError::NoDevice(device))),
        Err(error) => return Ok(Err(error.into())),
    };
    let http = settings.http.as_ref().map(|at| control::listen(at, None, &settings.http_hosts));
    let http = http.transpose().map_err(|error| {
        miette!("{error}. Give each agent of a network namespace its own address, such as --http 127.0.0.1:9466, or --http off")
    })?;
    let program = std::env::current_exe().into_diagnostic()?;
    let mut guard = Command::new(program);
    guard.args([GUARD, "--device", &settings.device, "--index", &index]);
    let agent = match Agent::open(settings, guard) {
        Ok(agent) => agent,
        Err(error) => return Ok(Err(error)),
    };
    let view = agent.view();
    let control = http.map(|http| xoff_nic::serve::serve(Arc::clone(&view), http));
    let control = control.transpose().into_diagnostic()?;
    let served = control.as_ref().and_then(ControlHandle::at);
    let served = served.map_or_else(|| "off".to_owned(), HttpAt::to_string);
    tracing::info!(device = %settings.device, leaf = view.leaf, http = %served, "obeying");
    Ok(Ok((agent, control)))
}

fn obey_once(
    agent: Agent,
    control: Option<ControlHandle>,
    running: &RunningAgent,
    stop: BorrowedFd<'_>,
) -> (Removed, Result<(), AgentError>) {
    let view = agent.view();
    service::runs(&format!("obeying on {}", view.settings.device));
    running.set(Some(view));
    let outcome = agent.run(stop);
    running.set(None);
    if let Some(Err(error)) = control.map(ControlHandle::stop) {
        tracing::error!("{error}");
    }
    outcome
}

fn conclude(view: &NicView, removed: &Removed) -> bool {
    let dropped = view.dropped_lossless();
    let left: u64 = view.ever_lossless().iter().map(|class| removed.lost[class.index()]).sum();
    if left > 0 {
        tracing::error!(left, "removing the agent's queues dropped queued frames of lossless classes");
    }
    let at = |quantile| view.response.quantile(quantile).map_or_else(|| "-".to_owned(), quantity::time);
    tracing::info!(
        pauses = view.response.times().count(),
        p50 = %at(0.5),
        p99 = %at(0.99),
        longest = %quantity::time(view.response.longest()),
        peer_response = %quantity::time(view.peer_response()),
        left = removed.lost.iter().sum::<u64>(),
        dropped,
        "stopped"
    );
    let faults = [view.disobedience(), view.broken(), view.deletions()];
    for fault in faults.iter().flatten() {
        tracing::error!("{fault}");
    }
    dropped + left > 0 || faults.iter().any(Option::is_some)
}

fn check(settings: &NicSettings, json: bool) -> miette::Result<ExitCode> {
    let facts = Facts::of(settings).into_diagnostic()?;
    if json {
        let text = serde_json::to_string_pretty(&facts).map_err(|error| miette!("{error}"))?;
        cli::print(text + "\n")?;
    } else {
        cli::print(render(&facts))?;
    }
    Ok(if facts.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_CANNOT) })
}

fn render(facts: &Facts) -> String {
    let mac_control = match facts.mac_control {
        MacControl::Received => "reaches this host",
        MacControl::Swallowed => "does not reach this host",
        MacControl::Unknown if facts.xdp_program.is_some() => {
            "unknown: an XDP program may consume MAC control frames"
        }
        MacControl::Unknown => "no known obstacle to MAC control",
    };
    let lines = [
        ("device", facts.device.as_str()),
        ("driver", facts.driver.as_deref().unwrap_or("unknown")),
        (
            "stopped by",
            facts.leaf.unwrap_or("nothing: this kernel lacks a queueing discipline that stops a class"),
        ),
        ("offloads", &facts.offloads),
        ("MAC control", mac_control),
        ("real time", if facts.real_time { "allowed" } else { "not allowed" }),
        ("peer_response", &facts.peer_response),
    ];
    let lines = lines.map(|(name, value)| format!("{name:<14} {value}\n"));
    let transports = "transports     pauses must be shorter than their timeouts: for RoCE a timeout of 18 or more (4.096 us x 2^18 = 1.07 s; \
                      14 is 67 ms); TCP repeats after 200 ms at the earliest\n";
    let remarks = facts.errors.iter().map(|error| format!("error: {error}\n"));
    let remarks = remarks.chain(facts.warnings.iter().map(|warning| format!("warning: {warning}\n")));
    lines.concat() + transports + &remarks.collect::<String>()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        nic: Args,
    }

    fn parse(args: &[&str]) -> Result<Args, clap::Error> {
        Cli::try_parse_from([&["nic"], args].concat()).map(|cli| cli.nic)
    }

    #[test]
    fn nic_options_give_same_settings_as_equivalent_file() {
        let line = "--device eth0 --speed 1G --lossless 3,4 --trust pcp --default-class 1 --pcp-map 5=3 --dscp-map 26=4,40-47=5 --dcbx willing --qcn=ai=1M --obey-rates --pause-above 64KB --http off";
        let args = parse(&line.split(' ').collect::<Vec<_>>()).unwrap();
        let file = "[nic]\ndevice = \"eth0\"\nspeed = \"1G\"\nlossless = [3, 4]\ntrust = \"pcp\"\ndefault_class = 1\npcp_map = { 5 = 3 }\ndscp_map = { 26 = 4, 40-47 = 5 }\ndcbx = \"willing\"\nobey_rates = true\n\
                    pause_above = \"64KB\"\nhttp = false\n[qcn]\nai = \"1M\"";
        assert_eq!(args.agent.wishes(), NicWishes::from_toml("nic.toml", file).unwrap());
    }

    #[test]
    fn invalid_nic_flags_are_refused() {
        for wrong in [
            "--trust both",
            "--dcbx yes",
            "--dscp-map 64=3",
            "--pcp-map 3",
            "--http here",
            "--lossless 8",
            "--pause-time 0",
            "--check",
            "--device eth0 status",
        ] {
            assert!(parse(&wrong.split(' ').collect::<Vec<_>>()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nic_subcommands_refuse_options_of_the_agent() {
        let of = |line: &str| parse(&line.split(' ').collect::<Vec<_>>()).map(|args| args.command);
        let Ok(Some(NicCommand::Check(check))) = of("check nic.toml --device eth0 --speed 1G --json") else {
            panic!("not check")
        };
        assert_eq!((check.file.as_deref(), check.json), (Some(Path::new("nic.toml")), true));
        assert_eq!(check.wishes().speed, Some(BitRate::from_gbps(1)));
        assert!(
            matches!(of("restore --device eth0"), Ok(Some(NicCommand::Restore(args))) if args.device == "eth0")
        );
        assert!(matches!(of("status --json --url unix:/s"), Ok(Some(NicCommand::Status(_)))));
        for wrong in ["check --lossless 3", "restore", "restore --device eth0 --json", "status --device eth0"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nic_check_prints_device_facts_with_errors_and_warnings() {
        let facts = Facts {
            device: "eth0".into(),
            leaf: Some("tbf"),
            errors: vec!["no".into()],
            warnings: vec!["slow".into()],
            peer_response: "5ms".into(),
            ..Facts::default()
        };
        let text = render(&facts);
        for part in [
            "stopped by     tbf\n",
            "peer_response  5ms\n",
            "error: no\n",
            "warning: slow\n",
            "timeout of 18",
        ] {
            assert!(text.contains(part), "the facts lack {part}: {text}");
        }
    }
}

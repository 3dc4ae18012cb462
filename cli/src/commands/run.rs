use std::path::{self, Path, PathBuf};
use std::process::ExitCode;

use miette::IntoDiagnostic as _;
use nix::sys::signal::Signal;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;
use xoff_config::shell::HttpAt;
use xoff_config::written::grouped;
use xoff_config::{Config, Machine, OwnPolicy, Problem, Sighup};

use crate::cli;
use xoff_switch::Promise;
use xoff_switch::RecordingFile;
use xoff_switch::confine::{Confinement, User};
use xoff_switch::control::logging;
use xoff_switch::control::reload::Source;
use xoff_switch::control::service;
use xoff_switch::control::status::{Status, Verdict};
use xoff_switch::machine;
use xoff_switch::run::{self, Privileges, ThreadError};

const EXIT_CONTROL_ENDED: u8 = 4;

/// Run a switch from a configuration until it gets a signal.
///
/// SIGINT, SIGTERM and SIGHUP end the switch; with `sighup = "reload"`, SIGHUP reloads the configuration. Under `nohup`,
/// SIGHUP does not end it.
///
/// Exits with 0 if no lossless frame was lost and every frame is accounted for; with 1 if not, or if a worker ended
/// unexpectedly; with 2 if the switch could not start; with 3 if no loss is known, but a counter cannot be read
/// (device gone, XDP program detached); with 4 if HTTP and link monitoring ended unexpectedly.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file (TOML).
    file: PathBuf,
    /// Record all decisions of the switch for `xoff sim replay`.
    ///
    /// The recording has each call of the dataplane with its results, headers of frames, and all MAC control frames.
    /// Wireshark opens it. Requires one worker and no routing.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

pub fn run(args: &Args, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
    let machine = Machine { own_policy: own.cloned(), ..machine::here() };
    let name = args.file.display().to_string();
    let text = Config::text(&args.file)?;
    let config = Config::from_toml(&name, &text, machine)?;
    let record = args
        .record
        .as_deref()
        .map(|path| RecordingFile::create(path, (&name, &text)))
        .transpose()
        .into_diagnostic()?;
    let user = config.shell.user.as_deref().map(User::named).transpose().into_diagnostic()?;
    let removable = match &config.shell.http {
        Some(HttpAt::Unix(path)) => path.parent().map(Path::to_owned),
        _ => None,
    };
    let confinement = Confinement { user, readable: directory(&args.file), removable };
    let log = logging::start(&config.shell.log, config.shell.log_format, &confinement).into_diagnostic()?;
    let placed = |problem: &Problem| {
        let place =
            problem.position.map(|(line, column)| format!("{}:{line}:{column}: ", args.file.display()));
        format!("{}{problem}", place.unwrap_or_default())
    };
    config.warnings.iter().for_each(|warning| tracing::warn!("{}", placed(warning)));
    config.notes.iter().for_each(|note| tracing::info!("{}", placed(note)));
    let reloads_on_sighup = config.shell.sighup == Sighup::Reload;
    let mut signals = Signals::new(cli::ending_signals()).into_diagnostic()?;
    if reloads_on_sighup {
        signals.add_signal(SIGHUP).into_diagnostic()?;
    }
    let path = std::path::absolute(&args.file).into_diagnostic()?;
    let own = own.cloned();
    let load = move |path: &Path, machine| Config::load(path, Machine { own_policy: own.clone(), ..machine });
    let source = Source::new(path, load);
    let running =
        run::start_from(Some(source), &config, record, &Privileges::Drop(confinement)).into_diagnostic()?;
    let http = running.http().map_or_else(|| "off".to_owned(), ToString::to_string);
    tracing::info!(ports = config.switch.ports.len(), %http, "running");
    service::runs(&format!("{} ports", config.switch.ports.len()));
    let end = running.end();
    let reloads = running.reloads().filter(|_| reloads_on_sighup).cloned();
    let watch = xoff_xdp::spawn(move || {
        for signal in signals.forever() {
            match &reloads {
                Some(reloads) if signal == SIGHUP => reloads.now(),
                Some(_) | None => {
                    let signal = Signal::try_from(signal).map_or("a signal", Signal::as_str);
                    tracing::info!("{signal} ends the switch");
                    end.now();
                }
            }
        }
    });
    watch.into_diagnostic()?; // dropping the switch stops it
    running.wait();
    service::ends();
    let outcome = running.stop();
    log.flush(); // makes room for the conclusion
    Ok(conclude(outcome))
}

fn directory(file: &Path) -> Vec<PathBuf> {
    let parents = [path::absolute(file), file.canonicalize()].into_iter().flatten();
    parents.filter_map(|file| file.parent().map(Path::to_owned)).collect()
}

fn conclude(outcome: Result<Status, ThreadError>) -> ExitCode {
    match outcome {
        Ok(status) => report(&status),
        Err(error) => {
            tracing::error!("{error}");
            match error {
                ThreadError::Control { status, .. } => {
                    report(&status);
                    ExitCode::from(EXIT_CONTROL_ENDED)
                }
                ThreadError::System { .. }
                | ThreadError::Panicked { .. }
                | ThreadError::CustomPolicy { .. } => ExitCode::FAILURE,
            }
        }
    }
}

fn report(status: &Status) -> ExitCode {
    let Verdict {
        promise,
        unproved,
        acknowledged,
        lossless_lost,
        lossless_flooded_unknown,
        unseen_lost,
        unseen_at_least,
        unseen_lossy_at,
        headroom_free_min_bytes,
        ledger_balanced,
        ..
    } = &status.verdict;
    let headroom = headroom_free_min_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let unproved = unproved.join("; ");
    let acknowledged = Some(acknowledged.join("; ")).filter(|gaps| !gaps.is_empty());
    unseen_lossy_at.iter().for_each(|lost| tracing::warn!("{lost}; the promise of losslessness holds"));
    let flooded = Some(*lossless_flooded_unknown).filter(|frames| *frames > 0);
    if let Some(frames) = flooded {
        tracing::info!(
            "{frames} lossless frames were flooded because no port was known for their destination; no loss"
        );
    }
    match promise {
        Promise::Kept => {
            tracing::info!(
                acknowledged,
                "stopped: 0 lossless frames lost, frame ledger balanced, least headroom left {headroom} bytes"
            );
        }
        Promise::NotProved => {
            tracing::error!(
                "stopped: no lossless frame is known to be lost, but a loss cannot be excluded: {unproved}; least headroom left \
                 {headroom} bytes"
            );
        }
        Promise::NotKept => {
            tracing::error!(
                lossless_lost,
                unseen_lost,
                balanced = *ledger_balanced == Some(true),
                unproved,
                "stopped, not lossless: {} lossless frames were dropped, {}{} of classes that may be lossless were \
                 lost in the NIC or kernel; least headroom left {headroom} bytes",
                grouped(*lossless_lost),
                if *unseen_at_least { "at least " } else { "" },
                grouped(*unseen_lost),
            );
        }
    }
    cli::exit_code(*promise)
}

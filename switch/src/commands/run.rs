//! `xoff run`: the switch, until SIGINT or SIGTERM.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use miette::IntoDiagnostic as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use xoff_config::{Config, Machine, OwnPolicy};

use crate::cli;
use crate::control::logging;
use crate::control::status::{Promise, Status, Verdict};
use crate::machine;
use crate::run::{self, Privileges, ThreadError};

/// Exit code of a switch whose control thread ended by itself.
const EXIT_CONTROL_ENDED: u8 = 4;

/// Runs the switch that a configuration describes, until SIGINT or SIGTERM. Exits with 0 where the
/// lossless classes lost nothing and every frame is accounted for, with 1 where not or where a worker
/// ended by itself, with 2 where it could not start, with 3 where no loss is known but a counter
/// that could tell of one cannot be read: a device is gone, or an XDP program was taken off, and with 4
/// where HTTP and link following ended by themselves.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration, a TOML file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs the switch, in a program with this policy of its own.
///
/// # Errors
/// What kept it from starting.
pub fn run(args: &Args, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
    let machine = Machine { own_policy: own.cloned(), ..machine::here() };
    let config = Config::load(&args.config, machine)?;
    let log = logging::start(&config.shell.log).into_diagnostic()?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let mut signals = Signals::new([SIGINT, SIGTERM]).into_diagnostic()?;
    let running = run::start(&config, Privileges::Drop).into_diagnostic()?;
    tracing::info!(ports = config.switch.ports.len(), http = ?running.http(), "running");
    let end = running.end();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            end.now();
        }
    });
    running.wait();
    let outcome = running.stop();
    log.flush(); // so that there is room for what follows
    Ok(conclude(outcome))
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
        lossless_lost,
        unseen_lost,
        headroom_free_min_bytes,
        ledger_balanced,
        ..
    } = &status.verdict;
    let headroom = headroom_free_min_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let unproved = unproved.join("; ");
    match promise {
        Promise::Kept => {
            tracing::info!(
                "stopped: 0 lossless frames lost, ledger balanced, least headroom left {headroom} bytes"
            );
        }
        Promise::NotProved => {
            tracing::error!(
                "stopped: no loss is known, but it is not proved that there was none: {unproved}; least headroom left \
                 {headroom} bytes"
            );
        }
        Promise::NotKept => {
            tracing::error!(
                lossless_lost,
                unseen_lost,
                balanced = *ledger_balanced == Some(true),
                unproved,
                "stopped, and the promise was not kept (a frame may be in two of the drop counters that unseen_lost \
                 adds up); least headroom left {headroom} bytes"
            );
        }
    }
    cli::exit_code(*promise)
}

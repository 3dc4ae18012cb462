//! `xoff lab up`: runs the network in a background process, whose standard output reports the start or an error.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use miette::IntoDiagnostic as _;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use xoff_lab::config::Network;

use super::keep::Kept;
use crate::cli;
use xoff_lab::network::control::make_directory;
use xoff_lab::network::{NetworkError, log_file};

const UP: &str = "up\n";

pub(super) fn start(network: &Network, file: Option<&Path>) -> Result<(), NetworkError> {
    let what = || NetworkError::io("start the background process of the lab");
    let this = std::env::current_exe().map_err(what())?;
    let file = file.map(std::path::absolute).transpose().map_err(what())?;
    let log = log_file(&network.name);
    make_directory()?;
    let errors = File::options()
        .create(true)
        .append(true)
        .open(&log)
        .map_err(NetworkError::io(format!("write {}", log.display())))?;
    let mut child = Command::new(this)
        .args(["lab", "keep"])
        .args(file)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .map_err(what())?;
    let mut output = String::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_string(&mut output).map_err(what())?;
    }
    if output == UP {
        return Ok(());
    }
    let _ = child.wait();
    if output.is_empty() {
        output = format!("the background process of the lab ended; see its log {}", log.display());
    }
    Err(NetworkError::NotUp { output: output.trim().to_owned() })
}

pub(super) fn keep(load: impl FnOnce() -> Result<Network, NetworkError>) -> miette::Result<ExitCode> {
    let _ = nix::unistd::setsid(); // fails only for a session leader
    // End this process by SIGTERM if `xoff lab up` ends before the network is up.
    set_pdeathsig(Signal::SIGTERM).into_diagnostic()?;
    let made = load().map_err(miette::Report::from).and_then(Kept::new);
    let kept = match made {
        Ok(made) => made,
        Err(report) => {
            cli::print(format_args!("{}", error_text(&report)))?;
            return Ok(ExitCode::from(cli::EXIT_CANNOT));
        }
    };
    set_pdeathsig(None).into_diagnostic()?;
    let mut stdout = io::stdout();
    if stdout.write_all(UP.as_bytes()).and_then(|()| stdout.flush()).is_err() {
        // End the network: `xoff lab up` has ended before it learned of the start, so nobody knows of the
        // network.
        return Ok(ExitCode::from(cli::EXIT_CANNOT));
    }
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(nowhere);
    }
    let account = kept.until_down();
    Ok(cli::exit_code(account.verdict.promise))
}

fn error_text(report: &miette::Report) -> String {
    match report.help() {
        Some(help) => format!("{report}\n{help}"),
        None => report.to_string(),
    }
}

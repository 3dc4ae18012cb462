//! The command line, and the commands of `xoff`, one file each: its arguments, and `run`. What a command's
//! failure looks like: one report on standard error, exit code 2.

pub mod acknowledge;
pub mod capture;
pub mod chaos;
pub mod check;
pub mod demo;
pub mod documents;
pub mod experiment;
pub mod lab;
pub mod nic;
pub mod policy;
pub mod reload;
pub mod replay;
pub mod run;
pub mod sim;
pub mod status;
pub mod traffic;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use miette::{IntoDiagnostic as _, MietteHandlerOpts};
use xoff_config::OwnPolicy;

use crate::cli::{EXIT_CANNOT, tell};

/// A lossless Ethernet switch in userspace over AF_XDP that speaks IEEE 802.1Qbb.
#[derive(Debug, Parser)]
#[command(name = "xoff", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Runs what the command line asks for.
#[must_use]
pub fn main() -> ExitCode {
    main_of(None)
}

/// The same in a program that brings a flow-control policy along: it is called `"custom"` wherever policies have names.
#[must_use]
pub fn main_with(own: OwnPolicy) -> ExitCode {
    main_of(Some(&own))
}

fn main_of(own: Option<&OwnPolicy>) -> ExitCode {
    // Every message names its cause itself; the chain would say it again. Lines are left to the terminal: a name
    // or command that is broken in two cannot be copied or searched for.
    let opts = || MietteHandlerOpts::new().without_cause_chain().wrap_lines(false);
    miette::set_hook(Box::new(move |_| Box::new(opts().build()))).expect("nobody else sets a hook");
    match Cli::parse().command.run(own) {
        Ok(code) => code,
        Err(report) => {
            tell(format_args!("{report:?}"));
            ExitCode::from(EXIT_CANNOT)
        }
    }
}

/// A command and its arguments.
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // each `Args` says it, and `xoff help` prints that
pub enum Command {
    Acknowledge(acknowledge::Args),
    Capture(capture::Args),
    Check(check::Args),
    Completions(documents::CompletionsArgs),
    Demo(demo::Args),
    Experiment(experiment::Args),
    Lab(lab::Args),
    Manual(documents::ManualArgs),
    Nic(Box<nic::Args>),
    #[command(hide = true)]
    NicGuard(nic::GuardArgs),
    Policy(policy::Args),
    Reload(reload::Args),
    Run(run::Args),
    Sim(Box<sim::Args>),
    Status(status::Args),
    Traffic(Box<traffic::Args>),
}

impl Command {
    /// Does it, in a program with this policy of its own.
    ///
    /// # Errors
    /// What kept it from starting.
    pub fn run(self, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
        match self {
            Command::Acknowledge(args) => acknowledge::run(&args).map(|()| ExitCode::SUCCESS),
            Command::Capture(args) => capture::run(&args),
            Command::Check(args) => check::run(&args, own),
            Command::Completions(args) => documents::completions(&args).map(|()| ExitCode::SUCCESS),
            Command::Manual(args) => documents::manual(&args).map(|()| ExitCode::SUCCESS),
            Command::Demo(args) => demo::run(&args),
            Command::Experiment(args) => experiment::run(&args, own),
            Command::Nic(args) => nic::run(&args),
            Command::NicGuard(args) => nic::run_guard(&args),
            Command::Lab(args) => lab::run(&args, own),
            Command::Traffic(args) => traffic::run(&args),
            Command::Reload(args) => reload::run(&args).map(|()| ExitCode::SUCCESS),
            Command::Policy(args) => policy::run(&args).map(|()| ExitCode::SUCCESS),
            Command::Run(args) => run::run(&args, own),
            Command::Sim(args) => sim::run(&args, own),
            Command::Status(args) => status::run(&args).into_diagnostic().map(|()| ExitCode::SUCCESS),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

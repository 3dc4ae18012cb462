//! The commands of `xoff`, one file each: its arguments, and `run`.

mod agent;
pub mod check;
pub mod demo;
pub mod experiment;
pub mod policy;
pub mod run;
pub mod status;
pub mod traffic;

use std::process::ExitCode;

use clap::Subcommand;
use miette::IntoDiagnostic as _;

/// A command and its arguments.
#[derive(Debug, Subcommand)]
#[allow(missing_docs)] // each `Args` says it, and `xoff help` prints that
pub enum Command {
    Check(check::Args),
    Demo(demo::Args),
    Experiment(experiment::Args),
    Policy(policy::Args),
    Run(run::Args),
    Status(status::Args),
    Traffic(Box<traffic::Args>),
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// What kept it from starting.
    pub fn run(self) -> miette::Result<ExitCode> {
        match self {
            Command::Check(args) => check::run(&args),
            Command::Demo(args) => demo::run(&args),
            Command::Experiment(args) => experiment::run(&args),
            Command::Traffic(args) => traffic::run(&args),
            Command::Policy(args) => policy::run(&args).map(|()| ExitCode::SUCCESS),
            Command::Run(args) => run::run(&args),
            Command::Status(args) => status::run(&args).into_diagnostic().map(|()| ExitCode::SUCCESS),
        }
    }
}

pub mod acknowledge;
pub mod capture;
#[cfg(feature = "experiments")]
pub mod chaos;
pub mod check;
#[cfg(feature = "experiments")]
pub mod demo;
pub mod documents;
#[cfg(feature = "experiments")]
pub mod experiment;
pub mod import;
#[cfg(feature = "lab")]
pub mod lab;
#[cfg(feature = "nic")]
pub mod nic;
pub mod policy;
pub mod reload;
#[cfg(feature = "experiments")]
pub mod replay;
pub mod run;
#[cfg(feature = "experiments")]
pub mod sim;
pub mod status;
#[cfg(feature = "tester")]
pub mod test;
#[cfg(feature = "traffic")]
pub mod traffic;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use miette::{IntoDiagnostic as _, MietteHandlerOpts};
use xoff_config::OwnPolicy;

use crate::cli::{EXIT_CANNOT, tell};

/// A lossless Ethernet switch in userspace over AF_XDP (IEEE 802.1Qbb).
#[derive(Debug, Parser)]
#[command(name = "xoff", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[must_use]
pub fn main() -> ExitCode {
    main_of(None)
}

/// Runs `xoff` in a program with its own flow-control policy, called `"custom"`.
#[must_use]
pub fn main_with(own: OwnPolicy) -> ExitCode {
    main_of(Some(&own))
}

fn main_of(own: Option<&OwnPolicy>) -> ExitCode {
    // Print no chain of causes, because each message names its cause. Do not wrap lines, so that users can search for a
    // message.
    let opts = || MietteHandlerOpts::new().without_cause_chain().wrap_lines(false);
    miette::set_hook(Box::new(move |_| Box::new(opts().build())))
        .expect("only one hook for error reports may be installed");
    match Cli::parse().command.run(own) {
        Ok(code) => code,
        Err(report) => {
            tell(format_args!("{report:?}"));
            ExitCode::from(EXIT_CANNOT)
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Acknowledge(acknowledge::Args),
    Capture(capture::Args),
    Check(check::Args),
    Completions(documents::CompletionsArgs),
    #[cfg(feature = "experiments")]
    Demo(demo::Args),
    #[cfg(feature = "experiments")]
    Experiment(experiment::Args),
    Import(import::Args),
    #[cfg(feature = "lab")]
    Lab(lab::Args),
    Manual(documents::ManualArgs),
    #[cfg(feature = "nic")]
    Nic(Box<nic::Args>),
    #[cfg(feature = "nic")]
    #[command(hide = true)]
    NicGuard(nic::GuardArgs),
    Policy(policy::Args),
    Reload(reload::Args),
    Run(run::Args),
    #[cfg(feature = "experiments")]
    Sim(Box<sim::Args>),
    Status(status::Args),
    #[cfg(feature = "tester")]
    Test(test::Args),
    #[cfg(feature = "traffic")]
    Traffic(Box<traffic::Args>),
}

impl Command {
    pub fn run(self, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
        match self {
            Command::Acknowledge(args) => acknowledge::run(&args).map(|()| ExitCode::SUCCESS),
            Command::Capture(args) => capture::run(&args),
            Command::Check(args) => check::run(&args, own),
            Command::Completions(args) => documents::completions(&args).map(|()| ExitCode::SUCCESS),
            Command::Manual(args) => documents::manual(&args).map(|()| ExitCode::SUCCESS),
            #[cfg(feature = "experiments")]
            Command::Demo(args) => demo::run(&args),
            #[cfg(feature = "experiments")]
            Command::Experiment(args) => experiment::run(&args, own),
            #[cfg(feature = "nic")]
            Command::Nic(args) => nic::run(&args),
            #[cfg(feature = "nic")]
            Command::NicGuard(args) => nic::run_guard(&args),
            #[cfg(feature = "lab")]
            Command::Lab(args) => lab::run(&args, own),
            #[cfg(feature = "tester")]
            Command::Test(args) => test::run(&args),
            #[cfg(feature = "traffic")]
            Command::Traffic(args) => traffic::run(&args),
            Command::Import(args) => import::run(&args).map(|()| ExitCode::SUCCESS),
            Command::Reload(args) => reload::run(&args).map(|()| ExitCode::SUCCESS),
            Command::Policy(args) => policy::run(&args).map(|()| ExitCode::SUCCESS),
            Command::Run(args) => run::run(&args, own),
            #[cfg(feature = "experiments")]
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
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}

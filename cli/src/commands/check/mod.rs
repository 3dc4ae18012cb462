//! `xoff check`: is a configuration valid, and what follows from it? Interfaces are only asked how
//! many queues they have.

mod print;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use xoff_config::{Config, ConfigError, Machine, OwnPolicy};

use crate::cli::{self, EXIT_CANNOT};
use xoff_switch::machine;

pub use print::{memory_table, print, warnings};
pub use report::{
    ClassReport, CongestedReport, MemoryReport, PortReport, ProblemReport, Report, Spread, WorkerReport,
};

/// Validate a configuration and print what follows from it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration, a TOML file.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// The file is for another machine: do not look at this one's memory, cores and interfaces.
    #[arg(long)]
    pub elsewhere: bool,
}

/// Prints what follows from the configuration, in a program with this policy of its own; exit code 0 with or without
/// warnings.
///
/// # Errors
/// The configuration is invalid, or nothing can be printed.
pub fn run(args: &Args, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
    let machine = if args.elsewhere { Machine::default() } else { machine::here() };
    let machine = Machine { own_policy: own.cloned(), ..machine };
    let file = args.config.display().to_string();
    match Config::load(&args.config, machine.clone()) {
        Ok(config) if args.json => print_json(&Report::of(&file, &config, &machine))?,
        Ok(config) => cli::print(print(&Report::of(&file, &config, &machine)))?,
        Err(ConfigError::Invalid(invalid)) if args.json => {
            let errors: Vec<ProblemReport> = invalid.problems().iter().map(ProblemReport::of).collect();
            print_json(&serde_json::json!({ "file": file, "valid": false, "errors": errors }))?;
            return Ok(ExitCode::from(EXIT_CANNOT));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(value: &impl serde::Serialize) -> miette::Result<()> {
    cli::print(serde_json::to_string_pretty(value).expect("reports have string keys only") + "\n")
}

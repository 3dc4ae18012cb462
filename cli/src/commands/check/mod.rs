mod table;
#[cfg(test)]
mod tests;
mod text;
pub(super) mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use xoff_config::{Config, ConfigError, Machine, OwnPolicy};
use xoff_switch::machine;

use crate::cli::{self, EXIT_CANNOT};

/// Validate a configuration and print its derived settings.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file (TOML).
    pub file: PathBuf,
    /// Print every setting of ports and classes, and the memory plan.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print one JSON object with every setting.
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,
    /// Do not check memory, cores and interfaces of this machine.
    #[arg(long)]
    pub elsewhere: bool,
}

pub fn run(args: &Args, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
    let machine = if args.elsewhere { Machine::default() } else { machine::here() };
    let machine = Machine { own_policy: own.cloned(), ..machine };
    let file = args.file.display().to_string();
    match Config::load(&args.file, machine.clone()) {
        Ok(config) => {
            let view = view::view(&file, &config, &machine);
            if args.json { print_json(&view)? } else { cli::print(text::text(&view, args.verbose))? }
        }
        Err(error) if args.json => return print_errors(&file, &error),
        Err(error) => return Err(error.into()),
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print_errors(file: &str, error: &ConfigError) -> miette::Result<ExitCode> {
    let errors = view::problems(&error.problems());
    print_json(&json!({ "file": file, "valid": false, "errors": errors }))?;
    Ok(ExitCode::from(EXIT_CANNOT))
}

pub(super) fn print_json(value: &Value) -> miette::Result<()> {
    cli::print(format_args!("{value:#}\n"))
}

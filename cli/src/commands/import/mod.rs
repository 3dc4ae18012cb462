mod sonic;
mod written;

use std::path::PathBuf;

use clap::Subcommand;
use miette::miette;
use serde_json::Value;
use xoff_config::file::{FileKind, WRITTEN_MAX, read_text};
use xoff_config::{Config, Machine};

use crate::cli;

const CONFIG_DB: FileKind = FileKind {
    name: "the configuration of SONiC",
    help: "give the path of a config_db.json; `sonic-cfggen -d --print-data` prints the running one",
    bytes_max: WRITTEN_MAX,
};

/// Convert the configuration of another switch.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, Subcommand)]
enum From {
    /// Convert the QoS tables of a SONiC switch to a configuration of xoff.
    ///
    /// Comments at the top of the output name the settings that xoff does not have.
    Sonic {
        /// File config_db.json of SONiC.
        file: PathBuf,
    },
}

/// Replaces JSON numbers, which some tools write, by strings, as SONiC writes them.
fn with_texts(value: Value) -> Value {
    match value {
        Value::Number(number) => number.to_string().into(),
        Value::Object(entries) => entries.into_iter().map(|(key, value)| (key, with_texts(value))).collect(),
        other => other,
    }
}

pub fn run(Args { from: From::Sonic { file } }: &Args) -> miette::Result<()> {
    let name = file.display();
    let text = read_text(file, CONFIG_DB)?;
    let db = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| miette!("{name} is not JSON, which a config_db.json has to be: {error}"))?;
    let text = sonic::converted(&with_texts(db)).map_err(|why| miette!("{name}: {why}"))?;
    cli::print(&text)?;
    // Check without this machine's limits, because the configuration is for another machine.
    Config::from_toml("the converted configuration", &text, Machine::default())?;
    Ok(())
}

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};
use miette::miette;

use super::Cli;
use crate::cli;

/// Print the completion script for a shell.
///
/// Source the output, or write it to the directory where the shell looks for completions.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// Shell to complete for.
    shell: Shell,
}

/// Write manual pages, one for each command.
#[derive(Debug, clap::Args)]
pub struct ManualArgs {
    /// Output directory; created if missing.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub fn completions(args: &CompletionsArgs) -> miette::Result<()> {
    let mut text = Vec::new();
    generate(args.shell, &mut Cli::command(), "xoff", &mut text);
    cli::print(String::from_utf8_lossy(&text))
}

pub fn manual(args: &ManualArgs) -> miette::Result<()> {
    let write = || -> io::Result<()> {
        fs::create_dir_all(&args.out)?;
        clap_mangen::generate_to(Cli::command(), &args.out)
    };
    write().map_err(|error| miette!("cannot write manual pages to {}: {error}", args.out.display()))
}

// Tests for SPECIFICATION.md: integrations
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn every_command_has_a_manual_page() {
        let directory = tempfile::tempdir().unwrap();
        manual(&ManualArgs { out: directory.path().join("man") }).unwrap();
        let page =
            |name: &str| fs::read_to_string(directory.path().join("man").join(name)).unwrap_or_default();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let text = page(&format!("xoff-{}.1", command.get_name()));
            assert!(text.contains(".SH SYNOPSIS"), "{}: {text}", command.get_name());
        }
        assert!(page("xoff.1").contains("lossless Ethernet switch"));
        assert!(page("xoff-run.1").contains("Configuration file (TOML)"));
    }

    #[test]
    fn systemd_units_use_valid_command_lines() {
        for unit in ["xoff@", "xoff-nic@"] {
            let path = format!("{}/../packaging/{unit}.service", env!("CARGO_MANIFEST_DIR"));
            let text = fs::read_to_string(path).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
            Cli::try_parse_from(line.replace("%i", "leaf1").split(' ')).unwrap();
        }
    }

    #[test]
    fn completions_list_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            generate(shell, &mut Cli::command(), "xoff", &mut text);
            let text = String::from_utf8(text).unwrap();
            for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
                assert!(text.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}

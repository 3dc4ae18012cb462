//! xoff's configuration: a TOML file becomes validated types, and every default stands in one place.
//!
//! ```text
//! text --read--> Document (what stands where) --build--> Config (what the switch is)
//! ```
//!
//! Nothing stops at the first mistake: [`Config::from_toml`] either finds all that is wrong, each with
//! its place in the file, or yields a configuration and a list of warnings. The keys that there are,
//! and how each is read, stand in `document`; [`defaults`] has what is not given; `sizing`,
//! `thresholds` and [`memory`] compute what follows from it.

#![forbid(unsafe_code)]

mod bridge;
mod build;
pub mod defaults;
mod document;
#[cfg(test)]
mod documentation;
mod ecn;
pub mod memory;
mod ofc;
mod parse;
mod problem;
mod profile;
mod qcn;
pub mod quantity;
mod read;
pub mod shell;
mod sizing;
mod sockets;
mod thresholds;
mod watchdog;

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;

use xoff_dataplane::headroom::Headroom;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{BitRate, Bytes, CLASSES};

use crate::document::Document;
use crate::problem::Problems;

pub use problem::{ConfigError, Invalid, Problem};
pub use shell::{Mode, Poll, PortShell, Queues, Rings, ShellSettings, Worker, Workers, ZeroCopy};

/// A validated configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// For the dataplane. Ports' MAC addresses are zero until the shell has seen the devices.
    pub switch: SwitchSettings,
    /// For the shell around it.
    pub shell: ShellSettings,
    /// Headroom as computed, by port and class; `None` where a class is lossy.
    pub headroom: Vec<[Option<Headroom>; CLASSES]>,
    /// What is doubtful about it.
    pub warnings: Vec<Problem>,
}

/// What a configuration must fit into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Memory; `None`: any amount.
    pub memory: Option<Bytes>,
    /// Cores that the process may use; zero is as good as one.
    pub cores: u16,
}

impl Machine {
    /// This one, as far as it tells.
    #[must_use]
    pub fn here() -> Machine {
        let field = |text: String| {
            let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        };
        let kib = fs::read_to_string("/proc/meminfo").ok().and_then(field);
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Machine { memory: kib.map(|kib| Bytes(kib * 1_024)), cores: u16::try_from(cores).unwrap_or(u16::MAX) }
    }
}

impl Config {
    /// Reads the file at `path` for `machine`.
    ///
    /// # Errors
    /// The file cannot be read, or [`Config::from_toml`] finds it wrong.
    pub fn load(path: &Path, machine: Machine) -> Result<Config, ConfigError> {
        let read = fs::read_to_string(path);
        let text = read.map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
        Config::from_toml(&path.display().to_string(), &text, machine)
    }

    /// Reads `text`, which is called `name` in messages, for `machine`.
    ///
    /// # Errors
    /// All that is wrong with it; where it is not TOML, the first thing that is not.
    pub fn from_toml(name: &str, text: &str, machine: Machine) -> Result<Config, ConfigError> {
        let mut problems = Problems::default();
        let config = match toml_span::parse(text) {
            Ok(root) => {
                let document = Document::read(&root, &mut problems);
                build::build(&document, &mut problems)
            }
            Err(error) => {
                problems.push(Problem::error(format!("not TOML: {error}")).at(error.span, "here"));
                None
            }
        };
        if let Some(config) = &config {
            config.fits(machine, &mut problems);
        }
        let warnings = problems.finish(name, text)?;
        let config = config.expect("a configuration without errors is complete");
        Ok(Config { warnings, ..config })
    }

    /// The threads of this switch on a machine with so many cores.
    #[must_use]
    pub fn workers(&self, cores: u16) -> Vec<Worker> {
        let rates: Vec<BitRate> = self.switch.ports.iter().map(|port| port.speed).collect();
        self.shell.workers.assign(&rates, cores)
    }

    fn fits(&self, machine: Machine, problems: &mut Problems) {
        let Some(available) = machine.memory else { return };
        let needed = self.memory(&self.workers(machine.cores), &[]).total;
        let (needs, has) = (needed.0 >> 20, available.0 >> 20);
        let help = "shorten stall_budget, raise smallest_frame, or make fewer classes lossless; `xoff check` shows what takes how much";
        if needed > available {
            problems.push(
                Problem::error(format!("the switch needs {needs} MiB of memory, the machine has {has} MiB"))
                    .help(help),
            );
        } else if needed.0 > available.0 / 2 {
            problems.push(
                Problem::warning(format!("the switch takes {needs} of the machine's {has} MiB of memory"))
                    .help(help),
            );
        }
    }
}

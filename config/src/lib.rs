//! xoff's configuration: a TOML file becomes validated types, and every default stands in one place.
//!
//! ```text
//! text --read--> Document (what stands where) --build--> Config (what the switch is)
//! ```
//!
//! Nothing stops at the first mistake: [`Config::from_toml`] either finds all that is wrong, each with
//! its place in the file, or yields a configuration and a list of warnings. The keys that there are,
//! and how each is read, stand in `keys`; [`defaults`] has what is not given; `sizing`,
//! `thresholds` and [`memory`] compute what follows from it.

#![forbid(unsafe_code)]

mod bridge;
mod build;
pub mod defaults;
mod document;
#[cfg(test)]
mod documentation;
mod draft;
mod ecn;
mod keys;
pub mod memory;
mod ofc;
mod own;
mod parse;
mod pipeline;
mod problem;
mod profile;
mod qcn;
pub mod quantity;
mod read;
mod shared;
pub mod shell;
mod sizing;
mod sockets;
mod thresholds;
mod watchdog;
pub mod written;

use std::fs;
use std::path::Path;

use xoff_dataplane::headroom::Headroom;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::units::{BitRate, Bytes, CLASSES};

use crate::document::Document;
use crate::problem::{Problems, Remarks};

pub use own::{OwnPolicy, Parameters, no_own_policy};
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
    /// What is meant so, and has a price.
    pub notes: Vec<Problem>,
}

/// What a configuration must fit into: a machine, and the program that runs there. The default is a machine of which
/// nothing is known, where everything fits, and a program with no policy but the built-in ones.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Memory; `None`: any amount.
    pub memory: Option<Bytes>,
    /// Numbers of the cores that the process may use, ascending; empty: not known.
    pub cores: Vec<u16>,
    /// How many receive queues a device has, by its name; `None`: not known.
    pub queues: fn(&str) -> Option<u32>,
    /// The policy that the program brings along.
    pub own_policy: Option<OwnPolicy>,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine { memory: None, cores: Vec::new(), queues: |_| None, own_policy: None }
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
                let document = Document::read(&root, machine.own_policy.as_ref(), &mut problems);
                build::build(&document, &mut problems)
            }
            Err(error) => {
                problems.push(Problem::error(format!("not TOML: {error}")).at(error.span, "here"));
                None
            }
        };
        if let Some(config) = &config {
            config.misfits(&machine).into_iter().for_each(|problem| problems.push(problem));
        }
        let Remarks { warnings, notes } = problems.finish(name, text)?;
        let config = config.expect("a configuration without errors is complete");
        Ok(Config { warnings, notes, ..config })
    }

    /// The threads of this switch on a machine with these cores.
    #[must_use]
    pub fn workers(&self, cores: &[u16]) -> Vec<Worker> {
        let rates: Vec<BitRate> = self.switch.ports.iter().map(|port| port.speed).collect();
        self.shell.workers.assign(&rates, cores.len())
    }

    /// How many hardware queues of each port get a socket. Where the file gives no list and `machine` does
    /// not know the device it is `None`, and one is assumed for sizes.
    #[must_use]
    pub fn queues(&self, machine: &Machine) -> Vec<Option<u32>> {
        let count = |port: &PortShell| match &port.queues {
            Queues::List(list) => u32::try_from(list.len()).ok(),
            Queues::All => (machine.queues)(&port.device),
        };
        self.shell.ports.iter().map(count).collect()
    }

    /// What of it `machine` does not have: errors, and warnings where it only just does.
    #[must_use]
    pub fn misfits(&self, machine: &Machine) -> Vec<Problem> {
        let Machine { memory, cores, .. } = machine;
        let workers = self.workers(cores);
        let pinned = workers.iter().filter_map(|worker| worker.core);
        let foreign = pinned.filter(|core| !cores.is_empty() && !cores.contains(core)).map(|core| {
            let allowed = written::ranges(cores);
            Problem::error(format!("core {core} is none that xoff may use here: those are {allowed}")).help(
                "give another `core` in `workers`, or none; `taskset` and cpusets limit which there are",
            )
        });
        let needed = self.memory(&workers, &self.queues(machine)).needed();
        foreign.chain(memory.and_then(|available| shortage(needed, available))).collect()
    }
}

fn shortage(needed: Bytes, available: Bytes) -> Option<Problem> {
    let (needs, has) = (needed.0 >> 20, available.0 >> 20);
    let problem = if needed > available {
        Problem::error(format!("the switch needs {needs} MiB of memory, the machine has {has} MiB"))
    } else if needed.0 > available.0 / 2 {
        Problem::warning(format!("the switch takes {needs} of the machine's {has} MiB of memory"))
    } else {
        return None;
    };
    Some(problem.help(
        "shorten stall_budget, raise smallest_frame, list fewer `queues`, or make fewer classes lossless; \
         `xoff check` shows what takes how much",
    ))
}

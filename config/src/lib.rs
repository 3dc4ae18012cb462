//! Configuration of a switch: parses a TOML file into validated types.
//!
//! ```text
//! text --reader, keys--> Document (values and their places) --build--> Config (the switch)
//! ```
//!
//! [`Config::from_toml`] reports every mistake with its place, or returns a configuration with warnings.

#![forbid(unsafe_code)]

mod bridge;
mod budget;
mod build;
mod changes;
mod choices;
pub mod defaults;
mod document;
#[cfg(test)]
mod documentation;
mod draft;
mod ecn;
pub mod file;
pub mod format;
mod groups;
mod hardware;
mod keys;
mod lldp;
mod machine;
pub mod memory;
mod multicast;
mod ofc;
mod own;
mod pipeline;
mod profile;
mod qcn;
pub mod quantity;
pub mod reader;
mod remedies;
mod router;
mod shared;
pub mod shell;
mod shortage;
mod sizing;
mod sockets;
mod spare;
mod thresholds;
mod unreached;
mod uses;
mod visible;
mod watchdog;
pub mod written;

use std::path::Path;

use toml_span::Value;
use xoff_flow_control::headroom::Headroom;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{BitRate, CLASSES, Nanos, PortId};

use crate::document::Document;
use crate::memory::Plan;
use crate::reader::{Problems, Purpose, Remarks};

pub use changes::{Change, Changes};
pub use choices::{Choice, SpreadKind};
pub use hardware::Hardware;
pub use machine::{AvailableMemory, CpuQuota, Device, Machine};
pub use own::{OwnPolicy, Parameters, no_own_policy};
pub use reader::problem::{ConfigError, Invalid, Problem};
pub use remedies::Remedy;
pub use shell::{
    LogFormat, Mode, Poll, PortShell, Queues, ReceiveChunks, Rings, Router, ShellSettings, Sighup, Worker,
    Workers, ZeroCopy,
};
pub use uses::Uses;
pub use visible::visible;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Settings of the dataplane. MAC addresses are zero until the switch reads them from its devices.
    pub switch: SwitchSettings,
    pub shell: ShellSettings,
    /// Headroom by port and class; `None` for lossy classes.
    pub headroom: Vec<[Option<Headroom>; CLASSES]>,
    /// Propagation delay of each port's cable, one way.
    pub cables: Vec<Nanos>,
    pub warnings: Vec<Problem>,
    /// Notes about intentional settings that have a cost.
    pub notes: Vec<Problem>,
}

impl Config {
    pub const TABLES: &[&str] = document::TOP;

    pub fn load(path: &Path, machine: Machine) -> Result<Config, ConfigError> {
        Config::from_toml(&path.display().to_string(), &Config::text(path)?, machine)
    }

    pub fn text(path: &Path) -> Result<String, ConfigError> {
        Ok(file::read_text(path, file::CONFIGURATION)?)
    }

    /// Validates a configuration, called `name` in messages.
    ///
    /// # Errors
    /// Returns all errors, or the first syntax error.
    pub fn from_toml(name: &str, text: &str, machine: Machine) -> Result<Config, ConfigError> {
        Config::from_toml_on(Hardware::Software, name, text, machine)
    }

    pub fn from_toml_on(
        hardware: Hardware,
        name: &str,
        text: &str,
        machine: Machine,
    ) -> Result<Config, ConfigError> {
        let (config, Remarks { warnings, notes }) = reader::read(name, text, |root, problems| {
            let is_possible = Purpose::Switch.is_possible(&root, problems);
            is_possible.then(|| Config::of_document(&root, hardware, &machine, problems))?
        })?;
        Ok(Config { warnings, notes, ..config })
    }

    /// Builds the configuration from a document, possibly a [part](reader::rearrange) of a file. Returns `None` only after reporting an
    /// error in `problems`.
    pub fn of_document(
        root: &Value<'_>,
        hardware: Hardware,
        machine: &Machine,
        problems: &mut Problems,
    ) -> Option<Config> {
        let mut document = Document::read(root, hardware, machine.own_policy.as_ref(), problems);
        document.running.clone_from(&machine.running);
        let mut config = build::build(&document, problems)?;
        budget::apply(&mut config, machine, &document, problems)?;
        let misfits = machine::misfits(&config, machine, Some(&document)).into_iter();
        misfits.chain(shortage::of(&config, machine, &document)).for_each(|problem| problems.push(problem));
        Some(config)
    }

    /// Returns changes of single keys that save memory and cause no error, the largest saving first.
    #[must_use]
    pub fn remedies(root: &Value<'_>, hardware: Hardware, machine: &Machine) -> Vec<Remedy> {
        let own = machine.own_policy.as_ref();
        budget::remedies(&Document::read(root, hardware, own, &mut Problems::default()), machine)
    }

    #[must_use]
    pub fn workers(&self, cores: &[u16]) -> Vec<Worker> {
        let rates: Vec<BitRate> = self.switch.ports.iter().map(|port| port.speed).collect();
        self.shell.workers.assign(&rates, cores.len())
    }

    #[must_use]
    pub fn plan(&self, machine: &Machine) -> Plan {
        let placed = self.with_spare_places();
        placed.memory(&placed.workers(&machine.cores), &placed.queues(machine))
    }

    /// Returns the requirements that the machine does not meet, except for memory.
    #[must_use]
    pub fn misfits(&self, machine: &Machine) -> Vec<Problem> {
        machine::misfits(self, machine, None)
    }

    #[must_use]
    pub fn misfit(&self, port: PortId, device: &Device) -> Option<Problem> {
        self.device_problems(port, device).into_iter().find(Problem::is_error)
    }

    #[must_use]
    pub fn device_problems(&self, port: PortId, device: &Device) -> Vec<Problem> {
        let (shell, settings) = (&self.shell.ports[port.index()], &self.switch.ports[port.index()]);
        machine::of_device(shell, settings, device, None)
    }

    /// Returns the number of AF_XDP sockets of each port; `None` if unknown (memory plans then count one).
    #[must_use]
    pub fn queues(&self, machine: &Machine) -> Vec<Option<u32>> {
        let of = |port: &PortShell| sockets(port, || (machine.device)(&port.device));
        let ports: Vec<Option<u32>> = self.shell.ports.iter().map(of).collect();
        let most = ports.iter().copied().max().flatten();
        let of_place = |(index, queues)| if self.is_spare(index) { most } else { queues };
        ports.into_iter().enumerate().map(of_place).collect()
    }
}

fn sockets(port: &PortShell, device: impl FnOnce() -> Device) -> Option<u32> {
    match &port.queues {
        Queues::List(list) => u32::try_from(list.len()).ok(),
        Queues::All => match device() {
            Device::Has { queues, .. } => Some(queues),
            Device::Missing | Device::Unknown => None,
        },
    }
}

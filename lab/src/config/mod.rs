//! A network of hosts and switches in one file: what `xoff lab` makes.
//!
//! ```text
//! text --keys--> what stands where --names, wires--> who is connected to whom --plan--> addresses
//!                                  --switches--> a configuration for each switch, as from a file of its own
//! ```
//!
//! A switch is configured by the same keys as in a file of its own, and what is wrong with them is said with the place in
//! this file. As there, everything that is wrong is found at once.

mod circles;
mod keys;
mod needs;
mod plan;
mod switches;
#[cfg(test)]
mod tests;
mod wires;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use toml_span::Value;
use xoff_config::file::{FileKind, WRITTEN_MAX, read_text};
use xoff_config::reader::{self, Problems, Table};
use xoff_config::{Config, ConfigError, Machine, Problem};
use xoff_dataplane::units::{BitRate, MacAddr};

pub use needs::{AGENT, Needs};
pub use wires::variable;

const NETWORK: FileKind = FileKind {
    name: "the network",
    help: "give the path of a TOML file; lab/examples has some to start from",
    bytes_max: WRITTEN_MAX,
};

/// A network that can be made.
#[derive(Clone, Debug)]
pub struct Network {
    /// Its name.
    pub name: String,
    /// Its hosts, in the order in which the file first names them.
    pub hosts: Vec<Host>,
    /// Its switches, in the order of the file.
    pub switches: Vec<SwitchNode>,
    /// Its wires, in the order of the file.
    pub links: Vec<Link>,
    /// What is doubtful about its switches.
    pub warnings: Vec<Problem>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Where it lives.
    pub place: Place,
    /// What the agent that obeys pauses for it is told (`xoff nic`); `None`: there is none.
    pub nic: Option<NicSettings>,
    /// Its devices, one for each of its wires, in the order of the wires.
    pub interfaces: Vec<Interface>,
}

/// Where a host lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// In a namespace that the lab makes.
    #[default]
    Fresh,
    /// In a network namespace that `ip netns` knows.
    Netns(String),
    /// In the namespaces of a process.
    Pid(i32),
    /// In a container that docker or podman knows.
    Container(String),
    /// In a virtual machine behind this TAP device.
    Tap(String),
}

/// Arguments of `xoff nic`, without their dashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicSettings(pub Vec<(String, String)>);

/// One end of a wire at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name of the device.
    pub device: String,
    /// Index of the wire.
    pub link: usize,
    /// Devices with the same number hear each other's broadcasts.
    pub segment: usize,
    /// Its address.
    pub mac: MacAddr,
    /// Its IPv4 address and the length of the prefix.
    pub ipv4: (Ipv4Addr, u8),
    /// The same for IPv6.
    pub ipv6: (Ipv6Addr, u8),
}

/// A switch.
#[derive(Clone, Debug)]
pub struct SwitchNode {
    /// Its name.
    pub name: String,
    /// All that a switch is told. Ports and their devices have the same names.
    pub config: Config,
}

/// A wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its ends.
    pub ends: [End; 2],
    /// Its rate.
    pub speed: BitRate,
    /// Payload bytes of the longest frames.
    pub mtu: u32,
}

/// One end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At a host: indexes of the host, and of its interface.
    Host {
        /// In [`Network::hosts`].
        host: usize,
        /// In [`Host::interfaces`].
        interface: usize,
    },
    /// At a switch.
    Port {
        /// In [`Network::switches`].
        switch: usize,
        /// In the switch's configuration.
        port: usize,
    },
}

impl Network {
    /// Reads the file at `path` for `machine`. A network that the file gives no name is called after the file.
    ///
    /// # Errors
    /// The file cannot be read, or something in it cannot be.
    pub fn load(path: &Path, machine: &Machine) -> Result<Network, ConfigError> {
        let text = read_text(path, NETWORK)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let fine = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        let name: String = stem.chars().map(fine).take(keys::LAB_NAME_LEN_MAX).collect();
        let mut network = Network::from_toml(&path.display().to_string(), &text, &name, machine)?;
        // Agents run elsewhere.
        let settings =
            network.hosts.iter_mut().filter_map(|host| host.nic.as_mut()).flat_map(|nic| &mut nic.0);
        for (_, value) in settings.filter(|(key, _)| key == "config") {
            let beside = path.parent().unwrap_or(Path::new("")).join(&*value);
            let beside = std::path::absolute(&beside).unwrap_or(beside);
            *value = beside.display().to_string();
        }
        Ok(network)
    }

    /// Reads `text`, which is called `file` in messages; a network without a name is called `name`.
    ///
    /// # Errors
    /// All that is wrong with it; where it is not TOML, the first thing that is not.
    pub fn from_toml(file: &str, text: &str, name: &str, machine: &Machine) -> Result<Network, ConfigError> {
        let (network, remarks) =
            reader::read(file, text, |root, problems| read(&root, text, name, machine, problems))?;
        Ok(Network { warnings: remarks.warnings, ..network })
    }
}

fn read(
    root: &Value<'_>,
    text: &str,
    name: &str,
    machine: &Machine,
    problems: &mut Problems,
) -> Option<Network> {
    let root = Table::of("", root, problems)?;
    let file = keys::File::read(&root, problems);
    let wiring = wires::Wiring::of(&file, problems);
    let hosts = plan::hosts(&file, &wiring, problems);
    // Memory is for all switches together.
    let alone = Machine { memory: None, ..machine.clone() };
    let configs = switches::configs(text, &file, &wiring, &alone, problems);
    if problems.has_errors() {
        return None;
    }
    let names: Vec<&str> = file
        .switches
        .iter()
        .map(|switch| switch.name.as_ref().map_or("", |name| name.value.as_str()))
        .collect();
    circles::refuse(&wiring, &configs, &names, problems);
    if problems.has_errors() {
        return None;
    }
    let switch = |(switch, config): (&keys::Switch, Option<Config>)| {
        let name = switch.name.as_ref()?.value.clone();
        Some(SwitchNode { name, config: config? })
    };
    let network = Network {
        name: file.name.as_ref().map_or_else(|| name.to_owned(), |name| name.value.clone()),
        hosts,
        switches: file.switches.iter().zip(configs).map(switch).collect::<Option<_>>()?,
        links: wiring.wires.clone(),
        warnings: Vec::new(),
    };
    let remedies = || switches::remedies(text, &file, &wiring, &alone);
    let shortage = network.needs(machine).shortage(machine, remedies);
    shortage.into_iter().for_each(|problem| problems.push(problem));
    Some(network)
}

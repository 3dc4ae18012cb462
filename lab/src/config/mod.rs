//! The file of a network of hosts and switches for `xoff lab`.
//!
//! ```text
//! text --keys--> tables and values --names, wires--> topology --plan--> addresses
//!                                  --switches--> a configuration for each switch, as from a file of its own
//! ```
//!
//! A switch has the keys of a switch's own file. All errors are reported at once, at their place in this file.

mod keys;
mod loops;
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
use xoff_wire::units::{BitRate, MacAddr};

pub use needs::{AGENT, Needs};
pub use wires::variable;

const NETWORK: FileKind = FileKind {
    name: "the network",
    help: "give the path of a TOML file; lab/examples has some to start from",
    bytes_max: WRITTEN_MAX,
};

/// A valid network.
#[derive(Clone, Debug)]
pub struct Network {
    /// Name of the network.
    pub name: String,
    /// Hosts, in the order of their first mention.
    pub hosts: Vec<Host>,
    /// Switches, in the order of the file.
    pub switches: Vec<SwitchNode>,
    /// Wires, in the order of the file.
    pub links: Vec<Link>,
    /// Warnings about switches.
    pub warnings: Vec<Problem>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name of the host.
    pub name: String,
    /// Namespaces in which the host lives.
    pub place: Place,
    /// Arguments of the host's agent (`xoff nic`); `None` disables it.
    pub nic: Option<NicSettings>,
    /// Devices, one for each wire of the host, in order.
    pub interfaces: Vec<Interface>,
}

/// Namespaces in which a host lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// A namespace that the lab creates.
    #[default]
    Fresh,
    /// A network namespace of `ip netns`, by name.
    Netns(String),
    /// The namespaces of a process, by id.
    Pid(i32),
    /// A container of docker or podman, by name.
    Container(String),
    /// A virtual machine behind the TAP device of this name.
    Tap(String),
}

/// Arguments of `xoff nic`, without their dashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicSettings(pub Vec<(String, String)>);

/// A host's end of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name of the device.
    pub device: String,
    /// Index of the wire in [`Network::links`].
    pub link: usize,
    /// Number of the broadcast domain.
    pub segment: usize,
    /// MAC address.
    pub mac: MacAddr,
    /// IPv4 address and prefix length.
    pub ipv4: (Ipv4Addr, u8),
    /// IPv6 address and prefix length.
    pub ipv6: (Ipv6Addr, u8),
}

/// A switch.
#[derive(Clone, Debug)]
pub struct SwitchNode {
    /// Name of the switch.
    pub name: String,
    /// Configuration of the switch, whose ports and devices have the same names.
    pub config: Config,
}

/// A wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Ends of the wire.
    pub ends: [End; 2],
    /// Rate of the wire.
    pub speed: BitRate,
    /// Maximum payload bytes of a frame.
    pub mtu: u32,
}

/// An end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// End at a host.
    Host {
        /// Index in [`Network::hosts`].
        host: usize,
        /// Index in [`Host::interfaces`].
        interface: usize,
    },
    /// End at a switch.
    Port {
        /// Index in [`Network::switches`].
        switch: usize,
        /// Index of the port in the switch's configuration.
        port: usize,
    },
}

impl Network {
    /// Reads the file at `path` for `machine`. The file's name is the default name of the network.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is invalid.
    pub fn load(path: &Path, machine: &Machine) -> Result<Network, ConfigError> {
        let text = read_text(path, NETWORK)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let fine = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        let name: String = stem.chars().map(fine).take(keys::LAB_NAME_LEN_MAX).collect();
        let mut network = Network::from_toml(&path.display().to_string(), &text, &name, machine)?;
        // Relative paths become absolute, because agents run in other directories.
        let settings =
            network.hosts.iter_mut().filter_map(|host| host.nic.as_mut()).flat_map(|nic| &mut nic.0);
        for (_, value) in settings.filter(|(key, _)| key == "config") {
            let beside = path.parent().unwrap_or(Path::new("")).join(&*value);
            let beside = std::path::absolute(&beside).unwrap_or(beside);
            *value = beside.display().to_string();
        }
        Ok(network)
    }

    /// Parses `text`, which messages call `file`. `name` is the default name of the network.
    ///
    /// # Errors
    /// Returns all problems of the text, or its first syntax error.
    pub fn from_toml(file: &str, text: &str, name: &str, machine: &Machine) -> Result<Network, ConfigError> {
        let (network, remarks) =
            reader::read(file, text, |root, problems| read(&root, name, machine, problems))?;
        Ok(Network { warnings: remarks.warnings, ..network })
    }
}

fn read(root: &Value<'_>, name: &str, machine: &Machine, problems: &mut Problems) -> Option<Network> {
    let file = keys::File::read(&Table::of("", root, problems)?, problems);
    let wiring = wires::Wiring::of(&file, problems);
    let hosts = plan::hosts(&file, &wiring, problems);
    // Memory is checked for all switches together below.
    let alone = Machine { memory: None, ..machine.clone() };
    let configs = switches::configs(root, &file, &wiring, &alone, problems);
    if problems.has_errors() {
        return None;
    }
    let names: Vec<&str> = file
        .switches
        .iter()
        .map(|switch| switch.name.as_ref().map_or("", |name| name.value.as_str()))
        .collect();
    loops::refuse(&wiring, &configs, &names, problems);
    if problems.has_errors() {
        return None;
    }
    let switch = |(switch, config): (&keys::SwitchTable, Option<Config>)| {
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
    let remedies = || switches::remedies(root, &file, &wiring, &alone);
    let shortage = network.needs(machine).shortage(machine, remedies);
    shortage.into_iter().for_each(|problem| problems.push(problem));
    Some(network)
}

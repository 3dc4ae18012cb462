//! The file of a network of hosts and switches for `xoff lab`.
//!
//! ```text
//! text --keys--> tables and values --names, wires--> topology --plan--> addresses
//!                                 --switches--> a configuration for each switch, as from a file of its own
//! ```
//!
//! All errors are reported at once, with their places.

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

pub(crate) use keys::AGENT_FILE;
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
    /// Network name.
    pub name: String,
    /// Hosts in order of first mention.
    pub hosts: Vec<Host>,
    /// Switches in file order.
    pub switches: Vec<SwitchNode>,
    /// Wires in file order.
    pub links: Vec<Link>,
    /// Warnings about switches.
    pub warnings: Vec<Problem>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Namespaces of the host.
    pub place: Place,
    /// Arguments of the agent (`xoff nic`); `None` disables it.
    pub nic: Option<NicSettings>,
    /// Devices, one per wire, in order.
    pub interfaces: Vec<Interface>,
}

/// Namespaces of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// New namespace.
    #[default]
    Fresh,
    /// Name of an `ip netns` namespace.
    Netns(String),
    /// Process id.
    Pid(i32),
    /// Name of a docker or podman container.
    Container(String),
    /// TAP device of a virtual machine.
    Tap(String),
}

/// Arguments of `xoff nic`, without their dashes; `file` is the agent's configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicSettings(pub Vec<(String, String)>);

/// A host's end of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Device name.
    pub device: String,
    /// Index of the wire in [`Network::links`].
    pub link: usize,
    /// Broadcast domain.
    pub segment: usize,
    /// MAC address.
    pub mac: MacAddr,
    /// IPv4 address, prefix length.
    pub ipv4: (Ipv4Addr, u8),
    /// IPv6 address, prefix length.
    pub ipv6: (Ipv6Addr, u8),
}

/// A switch.
#[derive(Clone, Debug)]
pub struct SwitchNode {
    /// Switch name.
    pub name: String,
    /// Configuration; devices are named after ports.
    pub config: Config,
}

/// A wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Both ends.
    pub ends: [End; 2],
    /// Line rate.
    pub speed: BitRate,
    /// Maximum payload of a frame, bytes.
    pub mtu: u32,
}

/// An end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A host's end.
    Host {
        /// Index in [`Network::hosts`].
        host: usize,
        /// Index in [`Host::interfaces`].
        interface: usize,
    },
    /// A switch's end.
    Port {
        /// Index in [`Network::switches`].
        switch: usize,
        /// Index of the port in the configuration.
        port: usize,
    },
}

impl Network {
    /// Reads the file at `path`, whose name is the network's default name.
    ///
    /// # Errors
    /// Fails if the file is unreadable or invalid.
    pub fn load(path: &Path, machine: &Machine) -> Result<Network, ConfigError> {
        let text = read_text(path, NETWORK)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let fine = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        let name: String = stem.chars().map(fine).take(keys::LAB_NAME_LEN_MAX).collect();
        let mut network = Network::from_toml(&path.display().to_string(), &text, &name, machine)?;
        // Agents run in other directories.
        let settings =
            network.hosts.iter_mut().filter_map(|host| host.nic.as_mut()).flat_map(|nic| &mut nic.0);
        for (_, value) in settings.filter(|(key, _)| key == AGENT_FILE) {
            let beside = path.parent().unwrap_or(Path::new("")).join(&*value);
            let beside = std::path::absolute(&beside).unwrap_or(beside);
            *value = beside.display().to_string();
        }
        Ok(network)
    }

    /// Parses `text` of `file`; `name` is the network's default name.
    ///
    /// # Errors
    /// Returns all problems, or the first syntax error.
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
    // Memory of all switches together is checked below.
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

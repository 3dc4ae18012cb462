//! File of a network for `xoff lab`. All errors are reported at once, with their places.

mod classes;
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
    help: "give the path of a TOML file; lab/examples contains examples",
    bytes_max: WRITTEN_MAX,
};

#[derive(Clone, Debug)]
pub struct Network {
    pub name: String,
    pub hosts: Vec<Host>,
    pub switches: Vec<SwitchNode>,
    pub links: Vec<Link>,
    pub warnings: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub place: Place,
    /// Arguments of the agent (`xoff nic`), if one runs.
    pub nic: Option<NicSettings>,
    pub interfaces: Vec<Interface>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// New namespace, made by the lab.
    #[default]
    Fresh,
    /// Namespace of `ip netns`.
    Netns(String),
    /// Namespaces of the process with this id.
    Pid(i32),
    /// Namespaces of a docker or podman container.
    Container(String),
    /// Virtual machine behind this TAP device.
    Tap(String),
}

/// Names and values of arguments of `xoff nic`, without dashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicSettings(pub Vec<(String, String)>);

/// Network device of a host, one end of a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub device: String,
    pub link: usize,
    pub segment: usize,
    pub mac: MacAddr,
    pub ipv4: (Ipv4Addr, u8),
    pub ipv6: (Ipv6Addr, u8),
}

#[derive(Clone, Debug)]
pub struct SwitchNode {
    pub name: String,
    pub config: Config,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub ends: [End; 2],
    pub speed: BitRate,
    pub mtu: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Host { host: usize, interface: usize },
    Port { switch: usize, port: usize },
}

impl Network {
    /// Reads the network's file, whose name is the network's default name.
    pub fn load(path: &Path, machine: &Machine) -> Result<Network, ConfigError> {
        let text = read_text(path, NETWORK)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let fine = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        let name: String = stem.chars().map(fine).take(keys::LAB_NAME_LEN_MAX).collect();
        let mut network = Network::from_toml(&path.display().to_string(), &text, &name, machine)?;
        // Make the paths absolute, because agents run in other directories.
        let settings =
            network.hosts.iter_mut().filter_map(|host| host.nic.as_mut()).flat_map(|nic| &mut nic.0);
        for (_, value) in settings.filter(|(key, _)| key == AGENT_FILE) {
            let beside = path.parent().unwrap_or(Path::new("")).join(&*value);
            let beside = std::path::absolute(&beside).unwrap_or(beside);
            *value = beside.display().to_string();
        }
        Ok(network)
    }

    /// Parses `text`; `name` is the network's default name.
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
    // No memory limit for a single switch, because the memory of all switches together is checked below.
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

//! Reads the lab file, which describes a network for `xoff lab`. All errors are reported at once, with their lines.

mod classes;
mod keys;
mod lines;
mod loops;
mod needs;
mod plan;
mod rates;
mod switches;
#[cfg(test)]
mod tests;
mod wires;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use toml_span::Value;
use xoff_config::file::{FileKind, WRITTEN_MAX, read_text};
use xoff_config::reader::{self, Problems, Purpose, Table};
use xoff_config::{Config, ConfigError, Machine, OwnPolicy, Problem};
use xoff_wire::units::{BitRate, MacAddr};

use crate::line::Impairment;

pub(crate) use keys::AGENT_FILE;
pub(crate) use lines::line_device;
pub use needs::{AGENT, Needs};
pub use rates::{LinkRates, Rates};
pub use wires::variable;

const NETWORK: FileKind = FileKind {
    name: "the network",
    help: "give the path of a TOML file; lab/examples contains examples",
    bytes_max: WRITTEN_MAX,
};

/// Example file: two hosts at a switch.
pub const START: &str = include_str!("../../examples/start.toml");
pub const START_NAME: &str = "lab";

#[derive(Clone, Debug)]
pub struct Network {
    pub name: String,
    pub hosts: Vec<Host>,
    pub switches: Vec<SwitchNode>,
    pub links: Vec<Link>,
    pub warnings: Vec<Problem>,
    pub notes: Vec<Problem>,
    pub file: Option<PathBuf>,
    pub own_policy: Option<OwnPolicy>,
    pub rates: Rates,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub name: String,
    pub place: Place,
    pub nic: Option<NicSettings>,
    pub interfaces: Vec<Interface>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Fresh,
    Netns(String),
    Pid(i32),
    Container(String),
    Tap(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicSettings(pub Vec<(String, String)>);

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
    pub line: Option<[Impairment; 2]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Host { host: usize, interface: usize },
    Port { switch: usize, port: usize },
}

impl Network {
    pub fn load(path: &Path, machine: &Machine) -> Result<Network, ConfigError> {
        Network::load_like(None, path, machine)
    }

    /// Reads the lab file. On a reload, it may differ from the running network `like` only in settings of switches.
    pub fn load_like(like: Option<&Network>, path: &Path, machine: &Machine) -> Result<Network, ConfigError> {
        let text = read_text(path, NETWORK)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let fine = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        let name: String = stem.chars().map(fine).take(keys::LAB_NAME_LEN_MAX).collect();
        let (mut network, remarks) = reader::read(&path.display().to_string(), &text, |root, problems| {
            let rates = like.map(|like| like.rates.clone()).unwrap_or_default();
            let mut network = read(&root, &name, machine, rates, problems)?;
            like.into_iter().for_each(|like| network.refresh_as(like));
            network.place_agent_files(path);
            like.map_or(Some(()), |like| network.is_like(like, problems).then_some(()))?;
            Some(network)
        })?;
        (network.warnings, network.notes) = (remarks.warnings, remarks.notes);
        network.file = std::path::absolute(path).ok();
        Ok(network)
    }

    fn place_agent_files(&mut self, path: &Path) {
        let settings = self.hosts.iter_mut().filter_map(|host| host.nic.as_mut()).flat_map(|nic| &mut nic.0);
        for (_, value) in settings.filter(|(key, _)| key == AGENT_FILE) {
            let beside = path.parent().unwrap_or(Path::new("")).join(&*value);
            let beside = std::path::absolute(&beside).unwrap_or(beside);
            *value = beside.display().to_string();
        }
    }

    /// Returns whether the network differs from `running` only in settings of switches; reports other differences.
    fn is_like(&self, running: &Network, problems: &mut Problems) -> bool {
        let names = |network: &Network| network.switches.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        let ports = |network: &Network| -> Vec<Vec<String>> {
            let ports =
                |it: &SwitchNode| it.config.switch.ports.iter().map(|port| port.name.clone()).collect();
            network.switches.iter().map(ports).collect()
        };
        let same_nodes =
            self.hosts == running.hosts && self.links == running.links && ports(self) == ports(running);
        let different = [
            ("the network's name", self.name != running.name),
            ("hosts", self.hosts != running.hosts),
            ("switches", names(self) != names(running)),
            ("links", self.links != running.links || ports(self) != ports(running)),
            (
                "lossless classes, `trust`, default class and maps that agents or delay lines take from switch ports",
                same_nodes && self.shared_classes() != running.shared_classes(),
            ),
        ];
        let different: Vec<&str> = different.iter().filter(|(_, is)| *is).map(|(what, _)| *what).collect();
        if !different.is_empty() {
            problems.push(
                Problem::error(format!("a reload cannot change {}", different.join(", ")))
                    .help("change only settings of switches, or start the network again by `xoff lab down` and `xoff lab up`"),
            );
        }
        different.is_empty()
    }

    pub fn start(machine: &Machine) -> Result<Network, ConfigError> {
        Network::from_toml("the network without a file", START, START_NAME, machine)
    }

    /// Returns the names of the nodes that can run programs: all except virtual machines.
    #[must_use]
    pub fn nodes_of_programs(&self) -> Vec<String> {
        let hosts = self.hosts.iter().filter(|host| !matches!(host.place, Place::Tap(_)));
        let hosts = hosts.map(|host| host.name.clone());
        hosts.chain(self.switches.iter().map(|switch| switch.name.clone())).collect()
    }

    /// Parses `text` of `file`. The network is called `name` unless the text gives another name.
    pub fn from_toml(file: &str, text: &str, name: &str, machine: &Machine) -> Result<Network, ConfigError> {
        let (network, remarks) = reader::read(file, text, |root, problems| {
            read(&root, name, machine, Rates::default(), problems)
        })?;
        Ok(Network { warnings: remarks.warnings, notes: remarks.notes, ..network })
    }
}

fn read(
    root: &Value<'_>,
    name: &str,
    machine: &Machine,
    rates: Rates,
    problems: &mut Problems,
) -> Option<Network> {
    if !Purpose::Network.is_possible(root, problems) {
        return None;
    }
    let file = keys::File::read(&Table::of("", root, problems)?, problems);
    let wiring = wires::Wiring::of(&file, problems);
    let hosts = plan::hosts(&file, &wiring, problems);
    // Set no memory limit for one switch, because the memory of all switches together is checked below.
    let alone = Machine { memory: None, ..machine.clone() };
    let configs = switches::configs(root, &file, &wiring, &rates, &alone, problems);
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
    let mut network = Network {
        name: file.name.as_ref().map_or_else(|| name.to_owned(), |name| name.value.clone()),
        hosts,
        switches: file.switches.iter().zip(configs).map(switch).collect::<Option<_>>()?,
        links: wiring.wires.clone(),
        warnings: Vec::new(),
        notes: Vec::new(),
        file: None,
        own_policy: machine.own_policy.clone(),
        rates,
    };
    network.refresh_before_jitter(problems);
    let remedies = || switches::remedies(root, &file, &wiring, &network.rates, &alone);
    let shortage = network.needs(machine).shortage(machine, remedies);
    shortage.into_iter().for_each(|problem| problems.push(problem));
    Some(network)
}

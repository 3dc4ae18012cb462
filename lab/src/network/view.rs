use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::runtime;

use super::agents;
use super::links::{self, DroppedAt, EndStatus, LinkChange, LinkStatus, Refusal, Wire};
use super::names::Entrance;
use super::places::Origin;
use crate::config::{End, Host, Network, Place, SwitchNode};
use crate::switches::SwitchHandle;
use xoff_wire::units::BitRate;

use crate::{Device, LabError, Tie, parallel};
use xoff_nic::serve::NicStatus;
use xoff_switch::control::reload::{Reloaded, Reloads};
use xoff_switch::control::status::Status;
use xoff_switch::control::{self, Answer, SwitchView};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkStatus {
    pub name: String,
    pub uptime_nanos: u64,
    pub hosts: Vec<HostStatus>,
    pub links: Vec<LinkStatus>,
    pub switches: Vec<Status>,
    #[serde(default)]
    pub restarts: Vec<Restart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartedPart {
    Switch,
    Host,
    Agent,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restart {
    pub node: String,
    pub part: RestartedPart,
    pub at_nanos: u64,
    /// Frames that were queued in the stopped switch, or at the host's devices, and are lost.
    pub queued: u64,
    /// Frames lost because no switch ran when they arrived.
    pub arrived_meanwhile: u64,
    /// `arrived_meanwhile` by port.
    #[serde(default)]
    pub arrived_at: BTreeMap<String, u64>,
    pub programs: usize,
    /// Lossless frames that the host's queueing disciplines dropped before its agent ended.
    pub queue_dropped: u64,
    pub switch: Option<Box<Status>>,
    pub failed: Vec<String>,
}

impl NetworkStatus {
    pub(crate) fn statuses(&self) -> impl Iterator<Item = &Status> {
        self.switches.iter().chain(self.restarts.iter().filter_map(|restart| restart.switch.as_deref()))
    }

    pub(super) fn all_of(&self, switch: &Status) -> impl Iterator<Item = &Status> {
        self.statuses().filter(|status| status.name == switch.name)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostStatus {
    pub name: String,
    /// Kind and name of the host's namespace: `namespace`, `netns NAME`, `pid N`, `container NAME` or `tap NAME`.
    pub place: String,
    /// Reason why new programs do not reach the lab's devices: the host's namespace is gone or replaced.
    #[serde(default)]
    pub lost_namespace: Option<String>,
    /// True if the host should have an agent.
    pub nic: bool,
    pub interfaces: Vec<InterfaceStatus>,
    /// Datagrams dropped because a socket's receive buffer was full; zero for a virtual machine.
    pub socket_drops: u64,
}

impl HostStatus {
    #[must_use]
    pub fn lacks_agent(&self) -> bool {
        self.nic && self.interfaces.iter().any(|interface| interface.agent.is_none())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InterfaceStatus {
    pub device: String,
    pub mac: String,
    pub ipv4: String,
    pub ipv6: String,
    pub counters: Option<InterfaceCounters>,
    pub agent: Option<NicStatus>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceCounters {
    pub tx_frames: u64,
    pub tx_bytes: u64,
    pub rx_frames: u64,
    pub rx_bytes: u64,
    pub tx_dropped: u64,
    /// Frames that the device lost on receipt, except control frames to hosts without agent.
    pub rx_dropped: u64,
    /// Frames dropped by the device's queueing discipline; excludes lossy frames if an agent separates classes.
    pub queue_dropped: u64,
    pub queue_dropped_lossy: u64,
}

impl InterfaceCounters {
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.tx_dropped + self.rx_dropped + self.queue_dropped
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    pub name: String,
    pub variables: BTreeMap<String, String>,
    pub entrances: BTreeMap<String, Entrance>,
    /// Virtual machines, in which xoff cannot start programs.
    pub guests: BTreeSet<String>,
    /// Hosts whose namespace is gone or was replaced, each with the reason.
    #[serde(default)]
    pub lost_namespaces: BTreeMap<String, String>,
    pub links: Vec<LinkStatus>,
    pub page: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum SwitchState {
    Running(Arc<SwitchView>, Option<Reloads>),
    /// Last status of a stopped switch, because a `SwitchView` would keep its sockets open.
    Ended(Box<Status>),
}

impl From<SwitchHandle> for SwitchState {
    fn from((view, reloads): SwitchHandle) -> SwitchState {
        SwitchState::Running(view, reloads)
    }
}

#[derive(Debug)]
pub struct NetworkView {
    pub(super) network: Network,
    pub(super) entrances: Vec<Entrance>,
    /// Files that name the hosts' namespaces, if these existed before the network.
    pub(super) origins: Vec<Option<Origin>>,
    pub(super) devices: Vec<Vec<Device>>,
    pub(super) socket_drops_before: Vec<u64>,
    pub(super) ties: Vec<Tie>,
    pub(super) wires: Vec<Wire>,
    pub(super) switches: RwLock<Vec<SwitchState>>,
    pub(super) restarts: Mutex<Vec<Restart>>,
    pub(super) changing_speed: Mutex<()>,
    pub(super) since: Instant,
    pub page: OnceLock<String>,
}

impl NetworkView {
    #[must_use]
    pub fn description(&self) -> Description {
        let hosts = self.network.hosts.iter().map(|host| &host.name);
        let names = hosts.chain(self.network.switches.iter().map(|switch| &switch.name));
        Description {
            name: self.network.name.clone(),
            variables: super::names::variables(&self.network, &self.entrances),
            guests: self.guests().map(|host| host.name.clone()).collect(),
            lost_namespaces: self.lost_namespaces(),
            entrances: names.cloned().zip(self.entrances.iter().cloned()).collect(),
            links: self.links(),
            page: self.page.get().cloned(),
        }
    }

    pub(crate) fn running_switch(&self, name: &str) -> Option<Arc<SwitchView>> {
        let index = self.network.switches.iter().position(|switch| switch.name == name)?;
        match self.switches().swap_remove(index) {
            SwitchState::Running(view, _) => Some(view),
            SwitchState::Ended(_) => None,
        }
    }

    /// Reloads all switches from the lab file, or none if a dry run of any switch fails.
    ///
    /// # Errors
    /// Returns the reasons of the first switch that refuses.
    pub fn reload(&self, dry_run: bool) -> Result<Vec<(String, Reloaded)>, String> {
        let all = |dry_run| {
            let switches = self.network.switches.iter().zip(self.switches());
            let reload = |(switch, state): (&SwitchNode, SwitchState)| {
                let reloads = match &state {
                    SwitchState::Ended(_) => return Err(format!("switch {} does not run", switch.name)),
                    SwitchState::Running(_, None) => {
                        return Err("the network was started without a file to reload".into());
                    }
                    SwitchState::Running(_, Some(reloads)) => reloads,
                };
                let reloaded =
                    reloads.wait(dry_run).map_err(|why| format!("switch {}: {why}", switch.name))?;
                Ok((switch.name.clone(), reloaded))
            };
            switches.map(reload).collect::<Result<Vec<_>, String>>()
        };
        let planned = all(true)?;
        if dry_run { Ok(planned) } else { all(false) }
    }

    pub fn status(&self) -> std::io::Result<NetworkStatus> {
        let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
        let ask = |switch: SwitchState| match switch {
            SwitchState::Running(view, _) => {
                let answers = runtime.block_on(control::ask(&view));
                control::snapshot(&view, &answers)
            }
            SwitchState::Ended(status) => *status,
        };
        Ok(self.status_with(self.switches().into_iter().map(ask).collect()))
    }

    #[must_use]
    pub fn status_with(&self, switches: Vec<Status>) -> NetworkStatus {
        let hosts = parallel::each((0..self.network.hosts.len()).collect(), |host| self.host(host));
        NetworkStatus {
            name: self.network.name.clone(),
            uptime_nanos: self.uptime_nanos(),
            hosts,
            links: self.links(),
            switches,
            restarts: self.restarts.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    pub(super) fn switches(&self) -> Vec<SwitchState> {
        self.switches.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_switch(&self, index: usize, state: SwitchState) {
        self.switches.write().unwrap_or_else(PoisonError::into_inner)[index] = state;
    }

    pub(super) fn restart(&self, node: &str, part: RestartedPart) -> Restart {
        Restart {
            node: node.to_owned(),
            part,
            at_nanos: self.uptime_nanos(),
            queued: 0,
            arrived_meanwhile: 0,
            arrived_at: BTreeMap::new(),
            programs: 0,
            queue_dropped: 0,
            switch: None,
            failed: Vec::new(),
        }
    }

    pub(super) fn restarted(&self, restart: Restart) {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner).push(restart);
    }

    pub(super) fn queue_dropped(&self, host: usize) -> u64 {
        let interfaces = self.host(host).interfaces.into_iter().filter_map(|interface| interface.counters);
        interfaces.map(|counters| counters.queue_dropped).sum()
    }

    fn uptime_nanos(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn change_link(&self, link: usize, change: &LinkChange) -> Result<Vec<String>, Refusal> {
        let links = self.links();
        let (wire, status) = self
            .wires
            .get(link)
            .zip(links.get(link))
            .ok_or_else(|| Refusal::new("the lab has no such link", "`xoff lab link` lists the links"))?;
        // Check the change first, so that a refused change leaves the link unchanged.
        let mut warnings = wire.check(change, status)?;
        if let Some(rate) = change.speed_bits_per_second.and_then(BitRate::new) {
            warnings.extend(self.change_speed(link, change.sending_end(status)?, rate, &status.name())?);
        }
        warnings.extend(wire.change(change, status, || self.dropped(link))?);
        Ok(warnings)
    }

    fn guests(&self) -> impl Iterator<Item = &Host> {
        self.network.hosts.iter().filter(|host| matches!(host.place, Place::Tap(_)))
    }

    pub(super) fn end_status(&self, end: End) -> EndStatus {
        let network = &self.network;
        match end {
            End::Host { host, interface } => EndStatus {
                node: network.hosts[host].name.clone(),
                port: network.hosts[host].interfaces[interface].device.clone(),
                is_switch: false,
            },
            End::Port { switch, port } => EndStatus {
                node: network.switches[switch].name.clone(),
                port: network.switches[switch].config.switch.ports[port].name.clone(),
                is_switch: true,
            },
        }
    }

    pub(super) fn links(&self) -> Vec<LinkStatus> {
        let network = &self.network;
        let link = |(index, (link, wire)): (usize, (&crate::config::Link, &Wire))| LinkStatus {
            ends: link.ends.map(|end| self.end_status(end)),
            speed_bits_per_second: network.rates.of(index, link).speed.bits_per_second(),
            sending_bits_per_second: network.sending(index).map(|rates| rates.map(BitRate::bits_per_second)),
            line: wire.directions(),
            failure: wire.failure(),
            downs: wire.downs(|| self.dropped(index)),
        };
        network.links.iter().zip(&self.wires).enumerate().map(link).collect()
    }

    fn dropped(&self, link: usize) -> DroppedAt {
        let mut dropped = DroppedAt { line: self.wires[link].line_unseen(), ..DroppedAt::default() };
        for (at, end) in self.network.links[link].ends.iter().enumerate() {
            match *end {
                End::Host { host, interface } => {
                    let counters = self.interface(host, interface).counters;
                    dropped.ends[at] = counters.map_or(0, |counters| counters.dropped());
                }
                End::Port { switch, port } => {
                    let SwitchNode { name, config } = &self.network.switches[switch];
                    let port = &config.switch.ports[port].name;
                    let now = match self.switches().swap_remove(switch) {
                        SwitchState::Running(view, _) => {
                            Box::new(control::snapshot(&view, &vec![Answer::Silent; view.workers.len()]))
                        }
                        SwitchState::Ended(status) => status,
                    };
                    let restarts = self.restarts.lock().unwrap_or_else(PoisonError::into_inner);
                    let before = restarts.iter().filter_map(|restart| restart.switch.as_deref());
                    let statuses = before.filter(|status| status.name == *name).chain([&*now]);
                    for status in statuses {
                        let here = status.ports.iter().filter(|it| it.name == *port);
                        dropped.ends[at] += here.map(|port| port.unseen.lossless).sum::<u64>();
                        dropped.link_down[at] += links::link_down_lossless(status);
                    }
                }
            }
        }
        dropped
    }

    #[must_use]
    pub fn lost_namespaces(&self) -> BTreeMap<String, String> {
        let hosts = self.network.hosts.iter().enumerate();
        hosts.filter_map(|(index, host)| Some((host.name.clone(), self.lost_namespace(index)?))).collect()
    }

    pub(super) fn lost_namespace(&self, host: usize) -> Option<String> {
        let loss = self.origins[host].as_ref()?.loss()?;
        let host = &self.network.hosts[host];
        Some(format!(
            "the namespace of host {} ({}) {loss}, so new programs of this host lack the lab's devices",
            host.name,
            place(host)
        ))
    }

    fn host(&self, index: usize) -> HostStatus {
        let host = &self.network.hosts[index];
        HostStatus {
            name: host.name.clone(),
            place: place(host),
            lost_namespace: self.lost_namespace(index),
            nic: host.nic.is_some(),
            interfaces: (0..host.interfaces.len()).map(|number| self.interface(index, number)).collect(),
            socket_drops: socket_drops(host, &self.devices[index])
                .saturating_sub(self.socket_drops_before[index]),
        }
    }

    fn interface(&self, host: usize, number: usize) -> InterfaceStatus {
        let (device, host) = (&self.devices[host][number], &self.network.hosts[host]);
        let interface = &host.interfaces[number];
        let status = |_| agents::status(&self.network.name, host, number, device.namespace());
        let agent = host.nic.as_ref().and_then(status);
        InterfaceStatus {
            device: interface.device.clone(),
            mac: interface.mac.to_string(),
            ipv4: interface.ipv4.0.to_string(),
            ipv6: interface.ipv6.0.to_string(),
            counters: self.counters(host, device, agent.as_ref()).ok(),
            agent,
        }
    }

    /// Reads a device's counters; for a TAP, includes losses towards its guest.
    fn counters(
        &self,
        host: &Host,
        device: &Device,
        agent: Option<&NicStatus>,
    ) -> Result<InterfaceCounters, LabError> {
        let counted = device.counters()?;
        let lost = |agent: &NicStatus, lossless| {
            agent
                .classes
                .iter()
                .filter(|class| class.lossless == lossless)
                .map(|class| class.lost)
                .sum::<u64>()
        };
        let dropped = device.queue()?.dropped;
        let lossy = agent.map_or(0, |agent| lost(agent, false)).min(dropped);
        let tap = match &host.place {
            Place::Tap(name) => self.ties.iter().find(|tie| tie.tap().name() == name),
            _ => None,
        };
        let tap = tap.map(Tie::counters).transpose()?.unwrap_or_default();
        Ok(InterfaceCounters {
            tx_frames: counted.tx_packets,
            tx_bytes: counted.tx_bytes,
            rx_frames: counted.rx_packets,
            rx_bytes: counted.rx_bytes,
            tx_dropped: counted.tx_dropped + tap.rx_dropped,
            rx_dropped: counted.rx_dropped + tap.tx_dropped,
            queue_dropped: dropped - lossy,
            queue_dropped_lossy: lossy,
        })
    }
}

pub(super) fn place(host: &Host) -> String {
    match &host.place {
        Place::Fresh => "namespace".into(),
        Place::Netns(name) => format!("netns {name}"),
        Place::Pid(pid) => format!("pid {pid}"),
        Place::Container(name) => format!("container {name}"),
        Place::Tap(name) => format!("tap {name}"),
    }
}

pub(super) fn socket_drops(host: &Host, devices: &[Device]) -> u64 {
    let here = !matches!(host.place, Place::Tap(_));
    let Some(device) = devices.first().filter(|_| here) else { return 0 };
    device.namespace().on_keeper(|| {
        let snmp = fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default();
        let snmp6 = fs::read_to_string("/proc/thread-self/net/snmp6").unwrap_or_default();
        receive_buffer_errors(&snmp) + receive_buffer_errors6(&snmp6)
    })
}

fn receive_buffer_errors(snmp: &str) -> u64 {
    let mut udp = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (Some(names), Some(values)) = (udp.next(), udp.next()) else { return 0 };
    let mut both = names.split(' ').zip(values.split(' '));
    both.find(|(name, _)| *name == "RcvbufErrors").and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

fn receive_buffer_errors6(snmp6: &str) -> u64 {
    let value = snmp6.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors"));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_dropped_by_full_sockets_are_read_from_proc_file() {
        let snmp = "Tcp: A B\nTcp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 5 0 3 7 3 0\n";
        assert_eq!(receive_buffer_errors(snmp), 3);
        assert_eq!(receive_buffer_errors6("Udp6InErrors  \t9\nUdp6RcvbufErrors                \t4\n"), 4);
        assert_eq!((receive_buffer_errors(""), receive_buffer_errors6("")), (0, 0));
    }
}

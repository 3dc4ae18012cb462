use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use xoff_config::{Config, ConfigError, Machine};
use xoff_wire::units::MacAddr;

use super::account::Account;
use super::agents::Agents;
use super::conflicts;
use super::leftovers::{self, Mark};
use super::links::{LinkStatus, Wire};
use super::names::{self, Entrance};
use super::places::{self, Held, Origin};
use super::sinks::ControlSink;
use super::view::{SwitchState, socket_drops};
use super::{NetworkError, NetworkView};
use crate::config::{End, Host, Interface, Network, Place, line_device};
use crate::line::Line;
use crate::{Device, Lab, LabError, Namespace, Switches, Tie, VethOptions, parallel, set_mark};
use xoff_switch::control::reload::Source;
use xoff_switch::control::{Answer, snapshot};

const SETTLE_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Device group of all switch ports, deleted by one request.
const PORTS: u32 = 1;
const DISCARD: u16 = 9;

#[derive(Debug)]
pub struct RunningNetwork {
    pub(super) view: Arc<NetworkView>,
    pub(super) agents: Agents,
    pub(super) switches: Switches,
    made: BTreeSet<u64>,
    _sinks: Vec<ControlSink>,
    // Drop delay lines before the wires are deleted, because a delay line restores its devices.
    lines: Vec<Option<Line>>,
    _wires: Wires,
    // Drop these namespaces after the wires, because they contain the wires' devices.
    _nodes: Vec<Namespace>,
    _held: Vec<Option<Held>>,
}

/// Wires of the lab. Dropping them deletes their devices, which the kernel would do late or never.
#[derive(Debug)]
struct Wires {
    lab: Lab,
    switches: Vec<Namespace>,
}

impl Drop for Wires {
    fn drop(&mut self) {
        for switch in &self.switches {
            let _ = switch.delete_group(PORTS); // fails if there is none yet
        }
        for device in self.lab.devices() {
            let _ = device.delete(); // fails if the other end or the namespace is gone
        }
    }
}

struct NodeNamespaces {
    namespace: Namespace,
    entrance: Entrance,
    held: Option<Held>,
    origin: Option<Origin>,
}

impl RunningNetwork {
    /// Starts the network; gives up when `is_stopped` returns true.
    ///
    /// # Errors
    /// Fails with [`NetworkError::Stopped`] if it gave up, or if a part cannot be created. Then no part remains.
    pub fn new(
        network: Network,
        is_stopped: &mut dyn FnMut() -> bool,
    ) -> Result<RunningNetwork, NetworkError> {
        let mark = Mark::of(&network.name).map_err(NetworkError::io("read /proc"))?.to_string();
        let names = names::hosts_file(&network, &fs::read_to_string("/etc/hosts").unwrap_or_default());
        let hosts = parallel::each(network.hosts.iter().collect(), |host| place(host, &mark, &names));
        let hosts = hosts.into_iter().collect::<Result<Vec<NodeNamespaces>, _>>()?;
        conflicts::refuse(&network, hosts.iter().map(|node| &node.namespace))?;
        let configs: Vec<Config> = network.switches.iter().map(|switch| switch.config.clone()).collect();
        let nodes = parallel::each(network.switches.iter().collect(), |it| fresh(&it.name, &mark, &names));
        let nodes = nodes.into_iter().collect::<Result<Vec<NodeNamespaces>, _>>()?;
        let entrances = hosts.iter().chain(&nodes).map(|node| node.entrance.clone()).collect();
        let is_made = |(host, _): &(&Host, &NodeNamespaces)| host.place == Place::Fresh;
        let made = network.hosts.iter().zip(&hosts).filter(is_made).map(|(_, node)| node).chain(&nodes);
        let made = made.map(|node| node.namespace.inode()).collect();
        let origins = hosts.iter().map(|node| node.origin.clone()).collect();
        let switches: Vec<(Namespace, Config)> =
            nodes.into_iter().map(|node| node.namespace).zip(configs).collect();
        let (hosts, held): (Vec<Namespace>, Vec<Option<Held>>) =
            hosts.into_iter().map(|node| (node.namespace, node.held)).unzip();
        let mut wires = Wires {
            switches: switches.iter().map(|(namespace, _)| namespace.clone()).collect(),
            lab: Lab::new(),
        };
        let Wired { devices, ties, ends, lines } = wire(&network, &mut wires.lab, &mark, &hosts, &switches)?;
        // Start agents before switches: agents change offloads, which the driver refuses once a switch has opened the other end of the
        // wire.
        let agents = Agents::start(&network, &devices, is_stopped)?;
        let lines = lines.into_iter().enumerate().map(|(link, line)| match line {
            None => Ok(None),
            Some(line) => start_line(&network, link, &line, &ends[link]).map(Some),
        });
        let lines = lines.collect::<Result<Vec<_>, LabError>>()?;
        let receives_control = |host: &Host| host.nic.is_some() || matches!(host.place, Place::Tap(_));
        let without_agent = network.hosts.iter().zip(&devices).filter(|(host, _)| !receives_control(host));
        let sinks =
            without_agent.flat_map(|(_, devices)| devices).map(ControlSink::at).collect::<Result<_, _>>()?;
        let running =
            Switches::start_from(&switches, |name| source(&network, name)).map_err(|(index, error)| {
                NetworkError::Run { switch: network.switches[index].name.clone(), error: Box::new(error) }
            })?;
        // Send the hosts' first frames after the switches have started, because switches learn addresses from them.
        introduce(&network, &devices)?;
        let since = Instant::now();
        let switch_states = running.handles().into_iter().map(SwitchState::from).collect();
        let socket_drops_before =
            network.hosts.iter().zip(&devices).map(|(host, devices)| socket_drops(host, devices)).collect();
        let wire = |(link, (ends, line)): (usize, ([Device; 2], &Option<Line>))| {
            Wire::new(&network, link, ends, line.as_ref().map(|line| Arc::clone(line.state())))
        };
        let links = ends.into_iter().zip(&lines).enumerate().map(wire).collect();
        let view = Arc::new(NetworkView {
            network,
            entrances,
            origins,
            devices,
            socket_drops_before,
            ties,
            wires: links,
            switches: RwLock::new(switch_states),
            restarts: Mutex::default(),
            changing_speed: Mutex::default(),
            since,
            page: OnceLock::new(),
        });
        let nodes = hosts.into_iter().chain(switches.into_iter().map(|(namespace, _)| namespace)).collect();
        Ok(RunningNetwork {
            view,
            agents,
            switches: running,
            made,
            _sinks: sinks,
            lines,
            _wires: wires,
            _nodes: nodes,
            _held: held,
        })
    }

    #[must_use]
    pub fn view(&self) -> &Arc<NetworkView> {
        &self.view
    }

    #[must_use]
    pub fn down(mut self) -> Account {
        leftovers::end_members(&self.made, &self.agents.pids());
        let deadline = Instant::now() + SETTLE_WITHIN;
        let mut waiting = self.waiting();
        while !waiting.is_empty() && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
            waiting = self.waiting();
        }
        // Read the counters of hosts and links now, because they are gone after the agents' end.
        let with_agents = self.view.status().map(|status| (status.hosts, status.links));
        let mut failed = Vec::new();
        // Stop switches before agents, so that senders in containers stay paused until their switch has ended.
        let states = self.view.switches();
        let ended = self.switches.stop().into_iter().zip(states).map(|(ended, state)| match (ended, state) {
            (Some(Ok(status)), _) => status,
            (_, SwitchState::Ended(status)) => *status,
            (ended, SwitchState::Running(view, _)) => {
                if let Some(Err(error)) = ended {
                    failed.push(format!("{}: {error}", view.name));
                }
                snapshot(&view, &vec![Answer::Silent; view.workers.len()])
            }
        });
        let ended = ended.collect();
        failed.extend(self.agents.end());
        let mut network = self.view.status_with(ended);
        if let Ok((hosts, links)) = with_agents {
            network.hosts = hosts;
            for (link, before) in network.links.iter_mut().zip(links) {
                for end in (0..2).filter(|end| !before.ends[*end].is_switch) {
                    link.downs.dropped.ends[end] = before.downs.dropped.ends[end];
                }
            }
        }
        failed.extend(network.links.iter().filter_map(LinkStatus::failure_text));
        Account::of(network, failed, waiting)
    }

    fn waiting(&self) -> Vec<String> {
        let hosts = self.view.network.hosts.iter().zip(&self.view.devices);
        let devices = hosts.flat_map(|(host, devices)| devices.iter().map(move |device| (host, device)));
        let at_hosts = parallel::each(devices.collect(), |(host, device): (&Host, &Device)| {
            let waiting = device.queue().ok()?.waiting;
            (waiting > 0).then(|| {
                format!("{}: {waiting} frames were still queued at {} at the end", host.name, device.name())
            })
        });
        let switches = self.view.switches();
        let in_switches = switches.iter().filter_map(|switch| {
            let SwitchState::Running(view, _) = switch else { return None };
            let waiting: u64 = view.classes().map(|(_, _, counters)| counters.egress_bytes.get()).sum();
            (waiting > 0).then(|| {
                format!("{}: {waiting} bytes were still queued in this switch at the end", view.name)
            })
        });
        let links = self.view.links();
        let on_lines = links.iter().filter_map(|link| {
            let waiting: u64 = link.line.iter().flatten().map(|direction| direction.carried.waiting).sum();
            let name = link.name();
            (waiting > 0).then(|| format!("{name}: {waiting} frames were still on this link at the end"))
        });
        at_hosts.into_iter().flatten().chain(in_switches).chain(on_lines).collect()
    }
}

impl Drop for RunningNetwork {
    fn drop(&mut self) {
        drop(std::mem::take(&mut self.agents));
        leftovers::end_members(&self.made, &BTreeSet::new());
        drop(std::mem::take(&mut self.switches));
        // Detach TAP devices explicitly, because a thread that keeps the view would keep them attached.
        self.view.ties.iter().for_each(Tie::untie);
        self.lines.iter().flatten().for_each(Line::stop);
        self.lines.clear();
    }
}

pub(super) fn source(network: &Network, name: &str) -> Option<Source> {
    let running = Arc::new(Network { warnings: Vec::new(), ..network.clone() });
    let (path, name) = (network.file.clone()?, name.to_owned());
    Some(Source::new(path, move |path, machine| switch_config(&running, path, &name, machine)))
}

pub(super) fn switch_config(
    running: &Network,
    path: &Path,
    name: &str,
    machine: Machine,
) -> Result<Config, ConfigError> {
    let machine = Machine { own_policy: running.own_policy.clone(), ..machine };
    let network = Network::load_like(Some(running), path, &machine)?;
    let switch = network.switches.into_iter().find(|switch| switch.name == name);
    Ok(switch.expect("the reloaded network lacks a switch of the running one").config)
}

fn introduce(network: &Network, devices: &[Vec<Device>]) -> Result<(), NetworkError> {
    let of = |(host, devices): (&'_ Host, &'_ Vec<Device>)| {
        host.interfaces.iter().cloned().zip(devices.iter().cloned()).collect::<Vec<_>>()
    };
    let hosts = network.hosts.iter().zip(devices).filter(|(host, _)| !matches!(host.place, Place::Tap(_)));
    let all: Vec<_> = hosts.flat_map(of).collect();
    let furnish = |(interface, device): &(Interface, Device)| {
        device.add_address(interface.ipv4.0.into(), interface.ipv4.1)?;
        device.add_address(interface.ipv6.0.into(), interface.ipv6.1)?;
        let others = all.iter().map(|(other, _)| other);
        let others = others.filter(|other| other.segment == interface.segment && other.mac != interface.mac);
        device.add_stale_neighbours(
            others.flat_map(|other| [(other.ipv4.0.into(), other.mac), (other.ipv6.0.into(), other.mac)]),
        )
    };
    parallel::each(all.iter().collect(), furnish).into_iter().collect::<Result<(), LabError>>()?;
    parallel::each(all.iter().collect(), |(interface, device): &(Interface, Device)| {
        let sent = device.namespace().try_run(|| -> io::Result<()> {
            let socket = UdpSocket::bind((interface.ipv4.0, 0))?;
            socket.set_broadcast(true)?;
            let (address, prefix) = interface.ipv4;
            let host_bits = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
            let everybody = Ipv4Addr::from_bits(address.to_bits() | host_bits);
            socket.send_to(&[], (everybody, DISCARD)).map(drop)
        });
        // Ignore an error: if this broadcast fails, switches learn the host's address from its first frame.
        let _ = sent;
    });
    Ok(())
}

fn place(host: &Host, mark: &str, names: &str) -> Result<NodeNamespaces, NetworkError> {
    let Some(found) = places::find(host)? else { return fresh(&host.name, mark, names) };
    let namespace = Namespace::existing(&host.name, found.net)?;
    let origin = found.origin;
    match found.programs {
        Some(held) => Ok(NodeNamespaces { namespace, entrance: held.entrance(), held: Some(held), origin }),
        None => Ok(NodeNamespaces { origin, ..furnished(namespace, names)? }),
    }
}

fn fresh(name: &str, mark: &str, names: &str) -> Result<NodeNamespaces, NetworkError> {
    let namespace = Lab::new().namespace(name)?;
    // A node reaches its own IPv6 addresses through lo. A kernel without IPv6 lacks the setting.
    let _ = namespace.sysctl("ipv6/conf/lo/disable_ipv6", "0");
    set_mark(&namespace, "lo", mark)?;
    furnished(namespace, names)
}

fn furnished(namespace: Namespace, names: &str) -> Result<NodeNamespaces, NetworkError> {
    namespace.furnish(names.to_owned())?;
    let entrance = Entrance::below(&namespace.entrance());
    Ok(NodeNamespaces { entrance, namespace, held: None, origin: None })
}

struct Wired {
    devices: Vec<Vec<Device>>,
    ties: Vec<Tie>,
    ends: Vec<[Device; 2]>,
    lines: Vec<Option<[Device; 2]>>,
}

fn wire(
    network: &Network,
    lab: &mut Lab,
    mark: &str,
    hosts: &[Namespace],
    switches: &[(Namespace, Config)],
) -> Result<Wired, LabError> {
    let place = |end: &End| match *end {
        End::Host { host, interface } => {
            let (of, interface) = (&network.hosts[host], &network.hosts[host].interfaces[interface]);
            (&hosts[host], places::lab_device(of, interface), interface.mac)
        }
        End::Port { switch, port } => {
            let (namespace, config) = &switches[switch];
            let numbers = [switch, port].map(|number| u8::try_from(number).unwrap_or(u8::MAX));
            let mac = MacAddr([0x02, 0, 1, numbers[0], 0, numbers[1]]);
            (namespace, config.shell.ports[port].device.clone(), mac)
        }
    };
    let places: Vec<_> = network.links.iter().map(|link| link.ends.each_ref().map(place)).collect();
    let has_lines = network.links.iter().any(|link| link.line.is_some());
    let lines = has_lines.then(|| Lab::new().namespace("lines")).transpose()?;
    let line_names: Vec<_> =
        (0..network.links.len()).map(|link| [0, 1].map(|end| line_device(link, end))).collect();
    let pairs = network.links.iter().enumerate().flat_map(|(index, link)| {
        let options = VethOptions { mtu: link.mtu, ..VethOptions::default() };
        let [a, b] = std::array::from_fn(|at| {
            let (namespace, device, mac) = &places[index][at];
            let end = namespace.end(device).mac(*mac);
            if matches!(link.ends[at], End::Port { .. }) { end.group(PORTS) } else { end }
        });
        match lines.as_ref().filter(|_| link.line.is_some()) {
            None => vec![(a, b, options)],
            Some(namespace) => {
                let [near, far] = line_names[index].each_ref().map(|name| namespace.end(name));
                vec![(a, near, options.clone()), (b, far, options)]
            }
        }
    });
    let mut pairs = lab.veths(pairs.collect())?.into_iter();
    let mut pair = || pairs.next().expect("a veth pair is missing");
    let (mut ends, mut lines) = (Vec::new(), Vec::new());
    for link in &network.links {
        let (a, b) = pair();
        let (both, line) = match link.line {
            None => ([a, b], None),
            Some(_) => {
                let (far, far_line) = pair();
                ([a, far], Some([b, far_line]))
            }
        };
        ends.push(both);
        lines.push(line);
    }
    let at_hosts = network.links.iter().zip(&ends).flat_map(|(link, devices)| {
        link.ends.iter().zip(devices).filter_map(move |(end, device)| match *end {
            End::Host { host, interface } => Some((link, host, interface, device.clone())),
            End::Port { .. } => None,
        })
    });
    let finished = parallel::each(at_hosts.collect(), |(link, host, interface, device)| {
        let place = &network.hosts[host].place;
        if *place != Place::Fresh {
            set_mark(&hosts[host], device.name(), mark)?;
        }
        device.finish_frames()?;
        let tie = match place {
            Place::Tap(tap) => Some(Tie::new(Device::find(&hosts[host], tap)?, &device, link.speed)?),
            _ => None,
        };
        Ok(((host, interface), device, tie))
    });
    let mut finished = finished.into_iter().collect::<Result<Vec<_>, LabError>>()?;
    finished.sort_by_key(|(place, ..)| *place);
    let mut devices = vec![Vec::new(); hosts.len()];
    let mut ties = Vec::new();
    for ((host, _), device, tie) in finished {
        devices[host].push(device);
        ties.extend(tie);
    }
    Ok(Wired { devices, ties, ends, lines })
}

fn start_line(
    network: &Network,
    link: usize,
    line: &[Device; 2],
    nodes: &[Device; 2],
) -> Result<Line, LabError> {
    let settings = network.line_settings(link, xoff_xdp::has_small_chunks());
    Line::start(line.each_ref(), nodes.each_ref(), settings.expect("the link has a delay line"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test] // proves: lab-lifecycle
    fn node_of_lab_reaches_its_own_ipv6_address() {
        let mark = Mark::of("itself").unwrap().to_string();
        let [node, other] = ["itself", "other"].map(|name| fresh(name, &mark, "").unwrap().namespace);
        let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
        let mut lab = Lab::new();
        let (device, _) = lab
            .veth(node.end("eth0").address(address, 64), other.end("eth0"), &VethOptions::default())
            .unwrap();
        let received = device.namespace().try_run(|| {
            let socket = UdpSocket::bind((address, 0))?;
            socket.set_read_timeout(Some(SETTLE_WITHIN))?;
            socket.send_to(b"hello", socket.local_addr()?)?;
            socket.recv(&mut [0; 16])
        });
        assert_eq!(received.map_err(|error: io::Error| error.to_string()), Ok(5));
    }
}

//! A network comes up: namespaces, wires, switches, addresses; and goes down again, when nothing of it is left.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use xoff_config::Config;
use xoff_dataplane::units::MacAddr;

use super::account::Account;
use super::agents::Agents;
use super::leftovers::{self, Mark};
use super::names::{self, Entrance};
use super::places::{self, Held};
use super::seen::socket_drops;
use super::unheard::Unheard;
use super::{NetworkError, Seen};
use crate::config::{End, Host, Network, Place};
use crate::{Device, Lab, LabError, Namespace, Switches, Tie, VethOptions, set_mark};
use xoff_switch::control::{Answer, snapshot};

/// How long frames that wait in switches have to leave before these are stopped.
const SETTLE_WITHIN: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The port at which nobody listens (RFC 863).
const DISCARD: u16 = 9;

/// A network that is up. Dropping it takes it down without an account.
#[derive(Debug)]
pub struct Up {
    seen: Arc<Seen>,
    agents: Agents,
    switches: Switches,
    /// Namespaces that the lab made, by inode.
    made: BTreeSet<u64>,
    _unheard: Vec<Unheard>,
    _wires: Wires,
    // Last, because the namespaces hold the devices.
    _nodes: Vec<Namespace>,
    _held: Vec<Option<Held>>,
}

/// Wires, which go with this. The kernel takes its time with a namespace that is gone, and a host that was there before is to be as it
/// was.
#[derive(Debug, Default)]
struct Wires(Lab);

impl Drop for Wires {
    fn drop(&mut self) {
        for device in self.0.devices() {
            let _ = device.delete(); // the other end of the same wire was, or its namespace is gone
        }
    }
}

impl Up {
    /// Makes it, unless `is_stopped` says meanwhile that somebody wants it to end.
    ///
    /// # Errors
    /// What the machine refuses; [`NetworkError::Stopped`]. Nothing is left of it then.
    pub fn new(network: Network, is_stopped: &mut dyn FnMut() -> bool) -> Result<Up, NetworkError> {
        let mark = Mark::of(&network.name).map_err(NetworkError::io("read /proc"))?.to_string();
        let mut wires = Wires::default();
        let mut made = BTreeSet::new();
        let mut fresh = |lab: &Lab, name: &str| -> Result<Namespace, LabError> {
            let namespace = lab.namespace(name)?;
            set_mark(&namespace, "lo", &mark)?;
            made.insert(namespace.inode());
            Ok(namespace)
        };
        let (mut hosts, mut held) = (Vec::new(), Vec::new());
        for host in &network.hosts {
            let (namespace, programs) = match places::find(host)? {
                None => (fresh(&wires.0, &host.name)?, None),
                Some(found) => (Namespace::existing(&host.name, found.net)?, found.programs),
            };
            hosts.push(namespace);
            held.push(programs);
        }
        let mut switches: Vec<(Namespace, Config)> = Vec::new();
        for switch in &network.switches {
            switches.push((fresh(&wires.0, &switch.name)?, switch.config.clone()));
        }
        let entrances = furnish(&network, &hosts, &held, &switches)?;
        let mut ties = Vec::new();
        let devices = wire(&network, &mut wires.0, &mark, &hosts, &switches, &mut ties)?;
        // Before a program is at the other end, for the sake of offloads, as `finish_frames`.
        let agents = Agents::start(&network, &devices, is_stopped)?;
        let hears = |host: &Host| host.nic.is_some() || matches!(host.place, Place::Tap(_));
        let without_agent = network.hosts.iter().zip(&devices).filter(|(host, _)| !hears(host));
        let unheard =
            without_agent.flat_map(|(_, devices)| devices).map(Unheard::at).collect::<Result<_, _>>()?;
        let running = Switches::start(&switches).map_err(|(index, error)| NetworkError::Run {
            switch: network.switches[index].name.clone(),
            error: Box::new(error),
        })?;
        // Only now: what a host says when it gets an address is forwarded, and not lost.
        introduce(&network, &devices)?;
        let (views, since) = (running.views(), Instant::now());
        let socket_drops_before =
            network.hosts.iter().zip(&devices).map(|(host, devices)| socket_drops(host, devices)).collect();
        let seen = Arc::new(Seen { network, entrances, devices, socket_drops_before, ties, views, since });
        let nodes = hosts.into_iter().chain(switches.into_iter().map(|(namespace, _)| namespace)).collect();
        Ok(Up {
            seen,
            agents,
            switches: running,
            made,
            _unheard: unheard,
            _wires: wires,
            _nodes: nodes,
            _held: held,
        })
    }

    /// What can be seen of it.
    #[must_use]
    pub fn seen(&self) -> &Arc<Seen> {
        &self.seen
    }

    /// Ends it: programs in its namespaces, then the switches, when nothing waits in them any more.
    #[must_use]
    pub fn down(mut self) -> Account {
        leftovers::end_members(&self.made, &self.agents.pids());
        let deadline = Instant::now() + SETTLE_WITHIN;
        let mut waiting = self.waiting();
        while !waiting.is_empty() && Instant::now() < deadline {
            thread::sleep(LOOK_EVERY);
            waiting = self.waiting();
        }
        // Their queues and what these counted go with the agents.
        let with_agents = self.seen.status().map(|status| status.hosts);
        let mut failed = Vec::new();
        // Before the agents: who still sends in a container is held as long as anybody counts.
        let ended = self.switches.stop().into_iter().zip(&self.seen.views);
        let ended = ended.map(|(ended, view)| {
            ended.unwrap_or_else(|error| {
                failed.push(format!("{}: {error}", view.name));
                snapshot(view, &vec![Answer::Silent; view.workers.len()])
            })
        });
        let ended = ended.collect();
        failed.extend(self.agents.end());
        let mut network = self.seen.status_with(ended);
        if let Ok(hosts) = with_agents {
            network.hosts = hosts;
        }
        Account::of(network, failed, waiting)
        // And the wires go, as wherever this is dropped.
    }

    /// What waits in queues, a line for each place: it is lost when these go, and nobody counts it.
    fn waiting(&self) -> Vec<String> {
        let hosts = self.seen.network.hosts.iter().zip(&self.seen.devices);
        let devices = hosts.flat_map(|(host, devices)| devices.iter().map(move |device| (host, device)));
        let at_hosts = devices.filter_map(|(host, device)| {
            let waiting = device.queue().ok()?.waiting;
            (waiting > 0).then(|| {
                format!(
                    "{}: {waiting} frames still waited in the queue of {} in the end",
                    host.name,
                    device.name()
                )
            })
        });
        let in_switches = self.seen.views.iter().filter_map(|view| {
            let waiting: u64 = view.classes().map(|(_, _, counters)| counters.egress_bytes.get()).sum();
            (waiting > 0)
                .then(|| format!("{}: {waiting} bytes still waited in its queues in the end", view.name))
        });
        at_hosts.chain(in_switches).collect()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        drop(std::mem::take(&mut self.agents));
        leftovers::end_members(&self.made, &BTreeSet::new());
        drop(std::mem::take(&mut self.switches));
        // Others may look at what is seen for longer than this lives.
        self.seen.ties.iter().for_each(Tie::untie);
        // And the wires.
    }
}

/// Gives every host its addresses, tells it where the others are, and all switches where it is.
fn introduce(network: &Network, devices: &[Vec<Device>]) -> Result<(), NetworkError> {
    let of = |(host, devices): (&'_ Host, &'_ Vec<Device>)| {
        host.interfaces.iter().cloned().zip(devices.iter().cloned()).collect::<Vec<_>>()
    };
    // A guest gives itself its addresses.
    let hosts = network.hosts.iter().zip(devices).filter(|(host, _)| !matches!(host.place, Place::Tap(_)));
    let all: Vec<_> = hosts.flat_map(of).collect();
    for (interface, device) in &all {
        device.add_address(interface.ipv4.0.into(), interface.ipv4.1)?;
        device.add_address(interface.ipv6.0.into(), interface.ipv6.1)?;
        let others = all.iter().map(|(other, _)| other);
        for other in others.filter(|other| other.segment == interface.segment && other.mac != interface.mac) {
            device.add_stale_neighbour(other.ipv4.0.into(), other.mac)?;
            device.add_stale_neighbour(other.ipv6.0.into(), other.mac)?;
        }
    }
    for (interface, device) in &all {
        let heard = device.namespace().run(|| -> io::Result<()> {
            let socket = UdpSocket::bind((interface.ipv4.0, 0))?;
            socket.set_broadcast(true)?;
            let (address, prefix) = interface.ipv4;
            let host_bits = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
            let everybody = Ipv4Addr::from_bits(address.to_bits() | host_bits);
            socket.send_to(&[], (everybody, DISCARD)).map(drop)
        });
        // A prefix may leave no address for everybody; then switches learn where it is when it sends.
        let _ = heard;
    }
    Ok(())
}

/// Gives every node its names, and says where it is.
fn furnish(
    network: &Network,
    hosts: &[Namespace],
    held: &[Option<Held>],
    switches: &[(Namespace, Config)],
) -> Result<Vec<Entrance>, NetworkError> {
    let of_machine = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let text = names::hosts_file(network, &of_machine);
    let own = |namespace: &Namespace| -> Result<Entrance, LabError> {
        namespace.furnish(text.clone())?;
        Ok(Entrance::below(&namespace.entrance()))
    };
    let mut entrances = Vec::new();
    for (namespace, held) in hosts.iter().zip(held) {
        entrances.push(held.as_ref().map_or_else(|| own(namespace), |held| Ok(held.entrance()))?);
    }
    for (namespace, _) in switches {
        entrances.push(own(namespace)?);
    }
    Ok(entrances)
}

/// Makes the wires; the devices of each host.
fn wire(
    network: &Network,
    lab: &mut Lab,
    mark: &str,
    hosts: &[Namespace],
    switches: &[(Namespace, Config)],
    ties: &mut Vec<Tie>,
) -> Result<Vec<Vec<Device>>, LabError> {
    let mut devices: Vec<Vec<Option<Device>>> =
        network.hosts.iter().map(|host| vec![None; host.interfaces.len()]).collect();
    let place = |end: &End| match *end {
        End::Host { host, interface } => {
            let interface = &network.hosts[host].interfaces[interface];
            // A TAP has its name already.
            let device = match &network.hosts[host].place {
                Place::Tap(tap) => format!("x-{tap:.13}"),
                _ => interface.device.clone(),
            };
            (&hosts[host], device, interface.mac)
        }
        End::Port { switch, port } => {
            let (namespace, config) = &switches[switch];
            let numbers = [switch, port].map(|number| u8::try_from(number).unwrap_or(u8::MAX));
            let mac = MacAddr([0x02, 0, 1, numbers[0], 0, numbers[1]]);
            (namespace, config.shell.ports[port].device.clone(), mac)
        }
    };
    for link in &network.links {
        let options = VethOptions { mtu: link.mtu, ..VethOptions::default() };
        let places = link.ends.each_ref().map(place);
        let [a, b] = places.each_ref().map(|(namespace, device, mac)| namespace.end(device).mac(*mac));
        let (a, b) = lab.veth(a, b, &options)?;
        for (end, device) in link.ends.iter().zip([a, b]) {
            if let End::Host { host, interface } = *end {
                if network.hosts[host].place != Place::Fresh {
                    set_mark(&hosts[host], device.name(), mark)?;
                }
                // Before a program is at the other end: with one the driver refuses it.
                device.finish_frames()?;
                if let Place::Tap(tap) = &network.hosts[host].place {
                    ties.push(Tie::new(Device::find(&hosts[host], tap)?, &device, link.speed)?);
                }
                devices[host][interface] = Some(device);
            }
        }
    }
    Ok(devices.into_iter().map(|of| of.into_iter().flatten().collect()).collect())
}

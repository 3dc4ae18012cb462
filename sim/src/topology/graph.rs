use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use xoff_flow_control::settings::{GroupSettings, Member, Spread, SwitchSettings};
use xoff_wire::units::{ClassSet, MacAddr, PORTS_MAX, PortId};

use crate::ends::Line;
use crate::host::{address, ip};
use crate::ideal::Ideal;
use crate::paths::distances;
use crate::plan::{At, Forwarding, Plan, SwitchKind};
use crate::router::Router;

type Kinds<'a> = dyn Fn(&[Line], u8) -> Arc<SwitchKind> + 'a;

type Made = (Vec<Line>, u8, Arc<SwitchKind>);

/// Settings of a fabric's switches.
pub struct Build<'a> {
    kind: Box<Kinds<'a>>,
    spread: Box<dyn Fn(u8) -> Spread + 'a>,
}

impl<'a> Build<'a> {
    /// Creates switches with the settings that `kind` returns for a switch's lines (by port) and layer; layer 0 has the
    /// hosts. All frames of a flow take one path.
    #[must_use]
    pub fn new(kind: impl Fn(&[Line], u8) -> Arc<SwitchKind> + 'a) -> Build<'a> {
        Build { kind: Box::new(kind), spread: Box::new(|_| Spread::Flow) }
    }

    /// Creates [ideal](Ideal) switches, in which class 3 is lossless.
    #[must_use]
    pub fn ideal() -> Build<'static> {
        Build::cached(|lines, _| Ideal::of(lines, ClassSet::NONE))
    }

    /// Creates switches as [`Build::new`] does, but calls `kind` once per combination of lines and layer.
    #[must_use]
    pub fn cached(kind: impl Fn(&[Line], u8) -> SwitchKind + 'a) -> Build<'a> {
        let cache: Mutex<Vec<Made>> = Mutex::default();
        Build::new(move |lines, layer| {
            let mut cache = cache.lock().expect("another thread panicked while it made a switch");
            let found = cache.iter().find(|(of, at, _)| (of.as_slice(), *at) == (lines, layer));
            if let Some((.., kind)) = found {
                return Arc::clone(kind);
            }
            let made = Arc::new(kind(lines, layer));
            cache.push((lines.to_vec(), layer, Arc::clone(&made)));
            made
        })
    }

    /// Sets how the switches of a layer spread frames over equal-cost paths.
    #[must_use]
    pub fn spreading(self, spread: impl Fn(u8) -> Spread + 'a) -> Build<'a> {
        Build { spread: Box::new(spread), ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbour {
    Switch(u32, u8),
    Host,
}

type HostLink = (u32, u8, Line);

struct Toward<'a> {
    direct: Vec<u8>,
    /// Ports to the next switches on shortest paths to the host; none at the host's own switches.
    onward: &'a [u8],
    switch: u32,
}

#[derive(Clone, Debug, Default)]
struct GraphSwitch {
    layer: u8,
    ports: Vec<(Neighbour, Line)>,
}

/// Graph of a fabric's switches, hosts and links. Ports are numbered in the order of addition. Methods panic if a host
/// or switch does not exist, or a switch has no free port number.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    switches: Vec<GraphSwitch>,
    hosts: Vec<Vec<HostLink>>,
    links: Vec<(At, At, Line)>,
}

impl Graph {
    /// Adds a switch in a layer (layer 0 has the hosts); returns the switch's number.
    pub fn add_switch(&mut self, layer: u8) -> u32 {
        self.switches.push(GraphSwitch { layer, ports: Vec::new() });
        number(self.switches.len() - 1)
    }

    /// Adds a host at a switch; returns the host's number.
    pub fn add_host(&mut self, switch: u32, line: Line) -> u32 {
        self.hosts.push(Vec::new());
        let host = number(self.hosts.len() - 1);
        self.attach(host, switch, line);
        host
    }

    /// Adds another link of a host. A flow's sender chooses among its links by a hash.
    pub fn attach(&mut self, host: u32, switch: u32, line: Line) {
        let port = self.port(switch, Neighbour::Host, line);
        self.hosts[host as usize].push((switch, port, line));
    }

    /// Adds a link between two switches.
    pub fn link(&mut self, a: u32, b: u32, line: Line) {
        let [next_a, next_b] = [a, b].map(|switch| self.next_port(switch));
        let (at_a, at_b) = (
            self.port(a, Neighbour::Switch(b, next_b), line),
            self.port(b, Neighbour::Switch(a, next_a), line),
        );
        self.links.push((At::Switch(a, at_a), At::Switch(b, at_b), line));
    }

    fn port(&mut self, switch: u32, end: Neighbour, line: Line) -> u8 {
        let port = self.next_port(switch);
        self.switches[switch as usize].ports.push((end, line));
        port
    }

    fn next_port(&self, switch: u32) -> u8 {
        let count = self.switches[switch as usize].ports.len();
        assert!(count < PORTS_MAX, "switch {switch} needs more than {PORTS_MAX} ports");
        u8::try_from(count).expect("PORTS_MAX is 256")
    }

    /// Returns the number of hosts.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        number(self.hosts.len())
    }

    /// Builds the plan with shortest paths.
    ///
    /// Switches with routed ports route to the network of each host, over all equal-cost paths.
    ///
    /// Other switches bridge, with a group of ports toward every other switch with hosts. For a host at several switches,
    /// the group leads to the nearest. If two groups overlap without being equal, each uses a single port.
    ///
    /// Do not mix routed and bridging switches: bridges do not know routers' addresses.
    #[must_use]
    pub fn plan(&self, build: &Build) -> Plan {
        let distances: BTreeMap<Vec<u32>, Vec<u32>> =
            self.places().into_iter().map(|place| (place.clone(), self.distances(&place))).collect();
        self.plan_by(build, |at, to| {
            let distances = &distances[to];
            let is_nearer = |(_, (end, _)): &(u8, &(Neighbour, Line))| match end {
                Neighbour::Switch(next, _) => distances[*next as usize] < distances[at as usize],
                Neighbour::Host => false,
            };
            let ports = (0..=u8::MAX).zip(&self.switches[at as usize].ports);
            ports.filter(is_nearer).map(|(port, _)| port).collect()
        })
    }

    /// Builds the plan with custom paths. `paths(switch, targets)` returns the switch's ports toward the nearest target
    /// switch.
    #[must_use]
    pub fn plan_by(&self, build: &Build, paths: impl Fn(u32, &[u32]) -> Vec<u8>) -> Plan {
        let places = self.places();
        let of_host: Vec<usize> =
            self.hosts.iter().map(|links| places.binary_search(&place(links)).unwrap_or_default()).collect();
        let mut plan = Plan::default();
        for (at, drawn) in (0..).zip(&self.switches) {
            let lines: Vec<Line> = drawn.ports.iter().map(|(_, line)| *line).collect();
            let kind = (build.kind)(&lines, drawn.layer);
            let to_place = |to: &Vec<u32>| if to.contains(&at) { Vec::new() } else { paths(at, to) };
            let by_place: Vec<Vec<u8>> = places.iter().map(to_place).collect();
            let toward = |(links, to): (&Vec<HostLink>, &usize)| Toward {
                direct: ports_at(links, at),
                onward: &by_place[*to],
                switch: links[0].0,
            };
            let by_host: Vec<Toward<'_>> = self.hosts.iter().zip(&of_host).map(toward).collect();
            let is_router = kind.settings.ports.iter().any(|port| port.routed);
            let forwarding = match is_router {
                true => self.routing(at, &kind.settings, build, &by_host),
                false => self.bridging(at, build, &by_place, &by_host),
            };
            plan.add_switch(&kind, forwarding);
        }
        for links in &self.hosts {
            let mut host = None;
            for &(switch, port, line) in links {
                match host {
                    None => host = Some(plan.add_host(switch, port, line)),
                    Some(host) => plan.attach(host, switch, port, line),
                }
            }
        }
        self.links.iter().for_each(|&(a, b, line)| plan.link(a, b, line));
        plan
    }

    fn places(&self) -> Vec<Vec<u32>> {
        let all: BTreeSet<Vec<u32>> = self.hosts.iter().map(|links| place(links)).collect();
        all.into_iter().collect()
    }

    fn routing(
        &self,
        at: u32,
        settings: &SwitchSettings,
        build: &Build,
        by_host: &[Toward<'_>],
    ) -> Forwarding {
        let drawn = &self.switches[at as usize];
        let ports = (0..=u8::MAX).take(drawn.ports.len());
        let mut router = Router::new(settings, ports.map(|port| router_address(at, port)));
        let next = |port: &u8| match drawn.ports[usize::from(*port)].0 {
            Neighbour::Switch(next, there) => Some((PortId(*port), router_address(next, there))),
            Neighbour::Host => None,
        };
        for (host, toward) in (0..).zip(by_host) {
            let direct = toward.direct.iter().map(|port| (PortId(*port), address(host)));
            let stations: Vec<_> = direct.chain(toward.onward.iter().filter_map(next)).collect();
            if !stations.is_empty() {
                router.lead((ip(host).into(), 32), stations);
            }
        }
        let fib = router.fib((build.spread)(drawn.layer));
        Forwarding { fib: Some(Arc::new(fib)), ..Forwarding::default() }
    }

    fn bridging(&self, at: u32, build: &Build, by_place: &[Vec<u8>], by_host: &[Toward<'_>]) -> Forwarding {
        let to_hosts = by_host.iter().map(|toward| &toward.direct[..]).filter(|set| set.len() > 1);
        let to_places = by_place.iter().map(|set| &set[..]).filter(|set| !set.is_empty());
        let mut sets: Vec<&[u8]> = to_places.chain(to_hosts).collect();
        sets.sort_unstable();
        sets.dedup();
        let is_alone = |set: &[u8]| {
            sets.iter()
                .filter(|other| **other != set)
                .all(|other| !other.iter().any(|port| set.contains(port)))
        };
        let grouped: Vec<&[u8]> = sets.iter().copied().filter(|set| set.len() > 1 && is_alone(set)).collect();
        let drawn = &self.switches[at as usize];
        let is_up = |port: &u8| match drawn.ports[usize::from(*port)].0 {
            Neighbour::Switch(next, _) => self.switches[next as usize].layer > drawn.layer,
            Neighbour::Host => false,
        };
        let group = |(number, set): (usize, &&[u8])| {
            let uplinks = set.iter().all(is_up);
            let name = if grouped.len() == 1 && uplinks { "up".to_owned() } else { format!("group{number}") };
            let members = set.iter().map(|port| Member { port: PortId(*port), weight: 1 }).collect();
            GroupSettings { name, members, spread: (build.spread)(drawn.layer), uplinks, lacp: None, salt: 0 }
        };
        let port = |(host, toward): (u32, &Toward<'_>)| {
            let set = if toward.direct.is_empty() { toward.onward } else { &toward.direct[..] };
            let port = match set.len() {
                0 => return None,
                _ if grouped.contains(&set) => set[0],
                count => set[toward.switch as usize % count],
            };
            Some((address(host), PortId(port)))
        };
        Forwarding {
            statics: (0..).zip(by_host).filter_map(port).collect(),
            groups: grouped.iter().enumerate().map(group).collect(),
            fib: None,
        }
    }

    fn distances(&self, to: &[u32]) -> Vec<u32> {
        let neighbors = |at: usize| {
            self.switches[at].ports.iter().filter_map(|(end, _)| match *end {
                Neighbour::Switch(other, _) => Some(other as usize),
                Neighbour::Host => None,
            })
        };
        distances(self.switches.len(), to.iter().map(|switch| *switch as usize), neighbors)
    }
}

fn place(links: &[HostLink]) -> Vec<u32> {
    links.iter().map(|(switch, ..)| *switch).collect::<BTreeSet<_>>().into_iter().collect()
}

fn ports_at(links: &[HostLink], at: u32) -> Vec<u8> {
    links.iter().filter(|(switch, ..)| *switch == at).map(|(_, port, _)| *port).collect()
}

fn router_address(switch: u32, port: u8) -> MacAddr {
    let [_, a, b, c] = switch.to_be_bytes();
    MacAddr([2, 2, a, b, c, port])
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("the number of nodes must fit into 32 bits")
}

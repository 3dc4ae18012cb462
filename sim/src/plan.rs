use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use xoff_dataplane::routing::Fib;
use xoff_flow_control::settings::{GroupSettings, SwitchSettings};
use xoff_wire::units::{Bytes, MacAddr, PortId, Site};

use crate::ends::{End, Line, NodeId};
use crate::event::NUMBERS_MAX;
use crate::switch_node::SlotCounts;

/// Settings that several switches of a fabric share.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names say it
pub struct SwitchKind {
    pub settings: SwitchSettings,
    pub slots: SlotCounts,
}

/// Forwarding tables of a switch.
#[derive(Clone, Debug, Default)]
pub struct Forwarding {
    /// Static MAC addresses, each with its port, or the first port of its equal-cost group.
    pub statics: Vec<(MacAddr, PortId)>,
    /// Groups of ports with equal-cost paths to the same destination.
    pub groups: Vec<GroupSettings>,
    /// Routing table of a switch with routed ports (see [`Router`](crate::Router)).
    pub fib: Option<Arc<Fib>>,
}

#[derive(Debug)]
struct PlannedSwitch {
    kind: Arc<SwitchKind>,
    forwarding: Forwarding,
}

/// Link end in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Index of a switch, and number of its port.
    Switch(u32, u8),
    /// Index of a host, and index of its link.
    Host(u32, u8),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Switch(number, port) => write!(f, "port {port} of switch {number}"),
            At::Host(number, 0) => write!(f, "host {number}"),
            At::Host(number, link) => write!(f, "link {link} of host {number}"),
        }
    }
}

#[allow(missing_docs)] // the messages say it
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    #[error("{0} has no link; every port must have exactly one")]
    Unlinked(At),
    #[error("{0} has two links; every port must have exactly one")]
    LinkedTwice(At),
    #[error("a link ends at {0}, which does not exist")]
    NoSuchEnd(At),
    #[error("the plan has {0} link ends; at most {max} are allowed", max = NUMBERS_MAX - 1)]
    TooManyEnds(usize),
}

/// Plan of a fabric: links, hosts, and switches with settings and forwarding tables.
#[derive(Debug, Default)]
pub struct Plan {
    smallest: Option<Bytes>,
    switches: Vec<PlannedSwitch>,
    hosts: Vec<u8>,
    links: Vec<(At, At, Line)>,
}

impl Plan {
    /// Adds a switch; returns its number.
    pub fn add_switch(&mut self, kind: &Arc<SwitchKind>, forwarding: Forwarding) -> u32 {
        self.switches.push(PlannedSwitch { kind: Arc::clone(kind), forwarding });
        number(self.switches.len()) - 1
    }

    /// Adds a host at a switch's port; returns its number.
    pub fn add_host(&mut self, switch: u32, port: u8, line: Line) -> u32 {
        self.hosts.push(0);
        let host = self.hosts() - 1;
        self.attach(host, switch, port, line);
        host
    }

    /// Adds a link between a host and a switch's port. Panics if the host does not exist, or has 255 links.
    pub fn attach(&mut self, host: u32, switch: u32, port: u8, line: Line) {
        let links = &mut self.hosts[host as usize];
        let link = *links;
        *links = link.checked_add(1).expect("a host has at most 255 links");
        self.link(At::Host(host, link), At::Switch(switch, port), line);
    }

    /// Adds a link. Both directions have the rate and delay of `line`.
    pub fn link(&mut self, a: At, b: At, line: Line) {
        self.links.push((a, b, line));
    }

    pub(crate) fn set_smallest(&mut self, smallest: Bytes) {
        self.smallest = Some(smallest);
    }

    pub(crate) fn smallest(&self) -> Bytes {
        self.smallest.unwrap_or(Bytes::on_line(0))
    }

    /// Returns the number of hosts.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        number(self.hosts.len())
    }

    pub(crate) fn links_of_hosts(&self) -> impl Iterator<Item = u8> {
        self.hosts.iter().copied()
    }

    /// Returns the number of switches.
    #[must_use]
    pub fn switches(&self) -> u32 {
        number(self.switches.len())
    }

    /// Returns all links, each once (not per direction).
    #[must_use]
    pub fn links(&self) -> &[(At, At, Line)] {
        &self.links
    }

    /// Returns the settings of the switch's kind. Panics if the switch does not exist.
    #[must_use]
    pub fn kind(&self, switch: u32) -> &SwitchKind {
        &self.switches[switch as usize].kind
    }

    /// Yields the switches' forwarding tables.
    pub fn forwarding(&self) -> impl Iterator<Item = &Forwarding> {
        self.switches.iter().map(|switch| &switch.forwarding)
    }

    pub(crate) fn gateways(&self) -> Vec<Vec<Option<MacAddr>>> {
        let mut gateways: Vec<_> = self.links_of_hosts().map(|links| vec![None; links.into()]).collect();
        for &(a, b, _) in &self.links {
            if let (At::Host(host, link), At::Switch(switch, port))
            | (At::Switch(switch, port), At::Host(host, link)) = (a, b)
            {
                let fib = self.switches[switch as usize].forwarding.fib.as_ref();
                let interface = fib.and_then(|fib| fib.interface(Site::Port(PortId(port))));
                gateways[host as usize][usize::from(link)] = interface.map(|interface| interface.mac);
            }
        }
        gateways
    }

    pub(crate) fn settings(&self) -> impl Iterator<Item = (SwitchSettings, SlotCounts)> {
        let completed = |(number, of): (u32, &PlannedSwitch)| {
            (self.complete_settings(number, &of.kind.settings), of.kind.slots.clone())
        };
        (0..).zip(&self.switches).map(completed)
    }

    pub(crate) fn complete_settings(&self, switch: u32, of_kind: &SwitchSettings) -> SwitchSettings {
        let forwarding = &self.switches[switch as usize].forwarding;
        let mut settings = of_kind.clone();
        let statics = forwarding.statics.iter().map(|&(mac, port)| (VLAN, mac, port));
        settings.fdb.statics.extend(statics);
        settings.fdb.capacity = settings.fdb.capacity.max(settings.fdb.statics.len());
        settings.groups.extend(forwarding.groups.iter().cloned());
        settings
    }

    /// Adds a static MAC address at a port, or at the equal-cost group that begins with this port. Panics if the switch
    /// does not exist.
    pub fn lead(&mut self, switch: u32, station: MacAddr, port: PortId) {
        self.switches[switch as usize].forwarding.statics.push((station, port));
    }

    /// Checks that a fabric can be built from this plan.
    ///
    /// # Errors
    /// If a port has no link or several, a link's end does not exist, or there are too many links.
    pub fn check(&self) -> Result<(), PlanError> {
        self.directions().map(drop)
    }

    pub(crate) fn directions(&self) -> Result<Vec<(End, End, Line)>, PlanError> {
        let both = |&(a, b, line): &(At, At, Line)| {
            let (a, b) = (self.end(a), self.end(b));
            [(a, b, line), (b, a, line)]
        };
        let ends = || self.links.iter().flat_map(|(a, b, _)| [*a, *b]);
        if let Some(nowhere) = ends().find(|at| !self.has(*at)) {
            return Err(PlanError::NoSuchEnd(nowhere));
        }
        let mut directions: Vec<_> = self.links.iter().flat_map(both).collect();
        directions.sort_unstable_by_key(|(from, ..)| *from);
        if directions.len() >= NUMBERS_MAX as usize {
            return Err(PlanError::TooManyEnds(directions.len()));
        }
        if let Some(twice) = directions.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(PlanError::LinkedTwice(self.at(twice[0].0)));
        }
        let mut linked = directions.iter().map(|(from, ..)| *from).peekable();
        match self.ends().find(|end| linked.next_if_eq(end).is_none()) {
            Some(unlinked) => Err(PlanError::Unlinked(self.at(unlinked))),
            None => Ok(directions),
        }
    }

    fn has(&self, at: At) -> bool {
        match at {
            At::Switch(number, port) => self
                .switches
                .get(number as usize)
                .is_some_and(|switch| usize::from(port) < switch.kind.settings.ports.len()),
            At::Host(number, link) => self.hosts.get(number as usize).is_some_and(|links| link < *links),
        }
    }

    fn at(&self, end: End) -> At {
        match end.node.0.checked_sub(self.switches()) {
            Some(host) => At::Host(host, end.port.0),
            None => At::Switch(end.node.0, end.port.0),
        }
    }

    fn ends(&self) -> impl Iterator<Item = End> {
        let ports = self.switches.iter().map(|switch| switch.kind.settings.ports.len());
        let ports = ports.chain(self.links_of_hosts().map(usize::from));
        (0..).map(NodeId).zip(ports).flat_map(|(node, count)| {
            (0..=u8::MAX).map(PortId).take(count).map(move |port| End { node, port })
        })
    }

    fn end(&self, at: At) -> End {
        match at {
            At::Switch(number, port) => End { node: NodeId(number), port: PortId(port) },
            At::Host(host, link) => End { node: NodeId(self.switches() + host), port: PortId(link) },
        }
    }
}

const VLAN: u16 = 1;

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("the number of nodes must fit into 32 bits")
}

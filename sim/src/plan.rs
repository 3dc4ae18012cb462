//! What a fabric is made of, before it is made: kinds of switches, switches, hosts, and the links between them, as values.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use xoff_dataplane::routing::Fib;
use xoff_dataplane::settings::{GroupSettings, SwitchSettings};
use xoff_dataplane::units::{MacAddr, PortId, Site};

use crate::ends::{End, Line, NodeId};
use crate::event::NUMBERS_MAX;
use crate::switch_node::SlotCounts;

/// What is the same for all switches of a kind.
#[derive(Clone, Debug)]
pub struct SwitchKind {
    /// What each is told at its start, but for where it forwards to.
    pub settings: SwitchSettings,
    /// Its packet memory.
    pub slots: SlotCounts,
}

/// Where a switch forwards to.
#[derive(Clone, Debug, Default)]
pub struct Forwarding {
    /// Stations, and the port or the first port of the group that leads there.
    pub statics: Vec<(MacAddr, PortId)>,
    /// Ports that lead to the same place.
    pub groups: Vec<GroupSettings>,
    /// What it routes by, where its ports are routed (see [`Router`](crate::Router)).
    pub fib: Option<Arc<Fib>>,
}

#[derive(Debug)]
struct PlannedSwitch {
    kind: Arc<SwitchKind>,
    forwarding: Forwarding,
}

/// An end of a link of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// This port of this switch.
    Switch(u32, u8),
    /// This host.
    Host(u32),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Switch(number, port) => write!(f, "port {port} of switch {number}"),
            At::Host(number) => write!(f, "host {number}"),
        }
    }
}

/// Why there is no fabric as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// A port without a link.
    #[error("every port has one link: {0} has none")]
    Unlinked(At),
    /// A port with several.
    #[error("every port has one link: {0} has two")]
    LinkedTwice(At),
    /// A link leads nowhere.
    #[error("a link ends at {0}, which there is not")]
    NoSuchEnd(At),
    /// More than the simulator counts.
    #[error("{0} ends of links; there may be {max} at most", max = NUMBERS_MAX - 1)]
    TooManyEnds(usize),
}

/// A fabric to be.
#[derive(Debug, Default)]
pub struct Plan {
    switches: Vec<PlannedSwitch>,
    hosts: u32,
    links: Vec<(At, At, Line)>,
}

impl Plan {
    /// Another switch; answers its number.
    pub fn add_switch(&mut self, kind: &Arc<SwitchKind>, forwarding: Forwarding) -> u32 {
        self.switches.push(PlannedSwitch { kind: Arc::clone(kind), forwarding });
        number(self.switches.len()) - 1
    }

    /// Another host at this port of a switch; answers its number.
    pub fn add_host(&mut self, switch: u32, port: u8, line: Line) -> u32 {
        let host = self.hosts;
        self.hosts += 1;
        self.link(At::Host(host), At::Switch(switch, port), line);
        host
    }

    /// A link, the same in both directions.
    pub fn link(&mut self, a: At, b: At, line: Line) {
        self.links.push((a, b, line));
    }

    /// How many hosts there are.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// How many switches there are.
    #[must_use]
    pub fn switches(&self) -> u32 {
        number(self.switches.len())
    }

    /// Each link, once.
    #[must_use]
    pub fn links(&self) -> &[(At, At, Line)] {
        &self.links
    }

    /// What kind of switch one is.
    ///
    /// # Panics
    /// If there is no such switch.
    #[must_use]
    pub fn kind(&self, switch: u32) -> &SwitchKind {
        &self.switches[switch as usize].kind
    }

    /// Where each switch forwards to.
    pub fn forwarding(&self) -> impl Iterator<Item = &Forwarding> {
        self.switches.iter().map(|switch| &switch.forwarding)
    }

    /// By host, the router that its frames are addressed to; `None`: its switch bridges.
    pub(crate) fn gateways(&self) -> Vec<Option<MacAddr>> {
        let mut gateways = vec![None; self.hosts as usize];
        for &(a, b, _) in &self.links {
            if let (At::Host(host), At::Switch(switch, port)) | (At::Switch(switch, port), At::Host(host)) =
                (a, b)
            {
                let fib = self.switches[switch as usize].forwarding.fib.as_ref();
                let interface = fib.and_then(|fib| fib.interface(Site::Port(PortId(port))));
                gateways[host as usize] = interface.map(|interface| interface.mac);
            }
        }
        gateways
    }

    /// What each switch is told, and its packet memory.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (SwitchSettings, SlotCounts)> {
        let told = |(number, of): (u32, &PlannedSwitch)| {
            (self.told(number, &of.kind.settings), of.kind.slots.clone())
        };
        (0..).zip(&self.switches).map(told)
    }

    /// What a switch is told that is of such a kind, and forwards as planned: with room for all static addresses.
    pub(crate) fn told(&self, switch: u32, of_kind: &SwitchSettings) -> SwitchSettings {
        let forwarding = &self.switches[switch as usize].forwarding;
        let mut settings = of_kind.clone();
        let statics = forwarding.statics.iter().map(|&(mac, port)| (VLAN, mac, port));
        settings.fdb.statics.extend(statics);
        settings.fdb.capacity = settings.fdb.capacity.max(settings.fdb.statics.len());
        settings.groups.extend(forwarding.groups.iter().cloned());
        settings
    }

    /// Frames for `station` leave a switch by this port, or by the group that begins with it.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn lead(&mut self, switch: u32, station: MacAddr, port: PortId) {
        self.switches[switch as usize].forwarding.statics.push((station, port));
    }

    /// Whether a fabric can be made of it.
    ///
    /// # Errors
    /// Where a port has no link, or two, or a link leads to what there is not, or there are too many.
    pub fn check(&self) -> Result<(), PlanError> {
        self.directions().map(drop)
    }

    /// By the end that sends, nodes and their ports in order: its link's other end and line.
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

    /// Whether there is such an end.
    fn has(&self, at: At) -> bool {
        match at {
            At::Switch(number, port) => self
                .switches
                .get(number as usize)
                .is_some_and(|switch| usize::from(port) < switch.kind.settings.ports.len()),
            At::Host(number) => number < self.hosts,
        }
    }

    fn at(&self, end: End) -> At {
        match end.node.0.checked_sub(self.switches()) {
            Some(host) => At::Host(host),
            None => At::Switch(end.node.0, end.port.0),
        }
    }

    /// All ends that there must be.
    fn ends(&self) -> impl Iterator<Item = End> {
        let ports = self.switches.iter().map(|switch| switch.kind.settings.ports.len());
        let ports = ports.chain((0..self.hosts).map(|_| 1));
        (0..).map(NodeId).zip(ports).flat_map(|(node, count)| {
            (0..=u8::MAX).map(PortId).take(count).map(move |port| End { node, port })
        })
    }

    fn end(&self, at: At) -> End {
        match at {
            At::Switch(number, port) => End { node: NodeId(number), port: PortId(port) },
            At::Host(host) => End { node: NodeId(self.switches() + host), port: PortId(0) },
        }
    }
}

/// The VLAN that all is in.
const VLAN: u16 = 1;

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("nodes are counted in 32 bits")
}

//! What a fabric is made of, before it is made: kinds of switches, switches, hosts, and the links between them, as values.

use std::sync::Arc;

use xoff_dataplane::settings::{GroupSettings, SwitchSettings};
use xoff_dataplane::units::{MacAddr, PortId};

use crate::ends::{End, Line, NodeId};
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
    pub(crate) fn links(&self) -> &[(At, At, Line)] {
        &self.links
    }

    /// Where each switch forwards to.
    pub(crate) fn forwarding(&self) -> impl Iterator<Item = &Forwarding> {
        self.switches.iter().map(|switch| &switch.forwarding)
    }

    /// What each switch is told, and its packet memory.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (SwitchSettings, SlotCounts)> {
        self.switches.iter().map(|PlannedSwitch { kind, forwarding }| {
            let mut settings = kind.settings.clone();
            let statics = forwarding.statics.iter().map(|&(mac, port)| (VLAN, mac, port));
            settings.fdb.statics.extend(statics);
            settings.fdb.capacity = settings.fdb.capacity.max(settings.fdb.statics.len());
            settings.groups.extend(forwarding.groups.iter().cloned());
            (settings, kind.slots)
        })
    }

    /// By the end that sends, nodes and their ports in order: its link's other end and line.
    ///
    /// # Panics
    /// If a port has no link, or two.
    pub(crate) fn directions(&self) -> Vec<(End, End, Line)> {
        let both = |&(a, b, line): &(At, At, Line)| {
            let (a, b) = (self.end(a), self.end(b));
            [(a, b, line), (b, a, line)]
        };
        let mut directions: Vec<_> = self.links.iter().flat_map(both).collect();
        directions.sort_unstable_by_key(|(from, ..)| *from);
        let ends = directions.iter().map(|(from, ..)| *from);
        assert!(ends.eq(self.ends()), "every port has one link");
        directions
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

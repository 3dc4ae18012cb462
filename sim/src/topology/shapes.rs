//! Fabrics of one layer or two.

use super::graph::{Build, Graph};
use crate::ends::Line;
use crate::plan::Plan;

/// Leaves with hosts, and spines that each have a line to every leaf.
///
/// Leaves are numbered before spines, hosts by leaf. At a leaf hosts come before spines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeafSpine {
    /// Switches with hosts.
    pub leaves: u8,
    /// Switches between them.
    pub spines: u8,
    /// Hosts of a leaf.
    pub hosts: u8,
    /// Between a host and its leaf.
    pub host_line: Line,
    /// Between a leaf and a spine.
    pub spine_line: Line,
    /// Lines that there are not, by leaf and spine: failed ones. What they leave may lead down and up again, and so in circles of buffers
    /// that wait for each other.
    pub without: Vec<(u8, u8)>,
}

impl LeafSpine {
    /// As a plan.
    #[must_use]
    pub fn plan(&self, build: &Build) -> Plan {
        let mut graph = Graph::default();
        let leaves: Vec<u32> = (0..self.leaves).map(|_| graph.add_switch(0)).collect();
        let spines: Vec<u32> = (0..self.spines).map(|_| graph.add_switch(1)).collect();
        for leaf in &leaves {
            (0..self.hosts).for_each(|_| _ = graph.add_host(*leaf, self.host_line));
        }
        for (leaf, at) in (0..=u8::MAX).zip(&leaves) {
            for (spine, to) in (0..=u8::MAX).zip(&spines) {
                if !self.without.contains(&(leaf, spine)) {
                    graph.link(*at, *to, self.spine_line);
                }
            }
        }
        graph.plan(build)
    }
}

/// Two switches with hosts and one line between them: hosts on the left come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dumbbell {
    /// Hosts on the left, at switch 0.
    pub left: u8,
    /// Hosts on the right, at switch 1.
    pub right: u8,
    /// Between a host and its switch.
    pub host_line: Line,
    /// Between the switches.
    pub trunk: Line,
}

impl Dumbbell {
    /// As a plan.
    #[must_use]
    pub fn plan(&self, build: &Build) -> Plan {
        let mut graph = Graph::default();
        let [left, right] = [(); 2].map(|()| graph.add_switch(0));
        (0..self.left).for_each(|_| _ = graph.add_host(left, self.host_line));
        (0..self.right).for_each(|_| _ = graph.add_host(right, self.host_line));
        graph.link(left, right, self.trunk);
        graph.plan(build)
    }
}

/// Switches in a circle, each with hosts. All frames go round in the order of numbers, so that buffers may wait for each other in a
/// circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Three or more.
    pub switches: u8,
    /// Hosts of each.
    pub hosts: u8,
    /// Between a host and its switch.
    pub host_line: Line,
    /// Between switches.
    pub ring_line: Line,
}

impl Ring {
    /// As a plan.
    ///
    /// # Panics
    /// If there are less than three switches.
    #[must_use]
    pub fn plan(&self, build: &Build) -> Plan {
        assert!(self.switches >= 3, "a ring of {} switches", self.switches);
        let mut graph = Graph::default();
        let switches: Vec<u32> = (0..self.switches).map(|_| graph.add_switch(0)).collect();
        for switch in &switches {
            (0..self.hosts).for_each(|_| _ = graph.add_host(*switch, self.host_line));
        }
        for (at, next) in switches.iter().zip(switches.iter().cycle().skip(1)) {
            graph.link(*at, *next, self.ring_line);
        }
        // The line to the next switch is the second in the ring at all but the first, which has it first.
        let ahead = |at: u32| if at == 0 { self.hosts } else { self.hosts + 1 };
        graph.plan_by(build, |at, _| vec![ahead(at)])
    }
}

/// Fig. 1 of the paper on OFC: three switches in a row and ten hosts, with the same line everywhere (there 40 Gb/s and 20 ns).
///
/// Host 0 (F0) and host 1 (F1) are at the first switch, hosts 2 to 7 (F2 to F7) at the third, and there are host 8, to which F0 goes,
/// and host 9, to which all others do.
#[must_use]
pub fn ofc_fig1(line: Line, build: &Build) -> Plan {
    let mut graph = Graph::default();
    let [a, b, c] = [(); 3].map(|()| graph.add_switch(0));
    (0..2).for_each(|_| _ = graph.add_host(a, line));
    (2..10).for_each(|_| _ = graph.add_host(c, line));
    graph.link(a, b, line);
    graph.link(b, c, line);
    graph.plan(build)
}

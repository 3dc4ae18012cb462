use super::graph::{Build, Graph};
use crate::ends::Line;
use crate::plan::Plan;

/// Leaf-spine fabric: every leaf has a line to every spine.
///
/// Leaves are numbered before spines, ports to hosts before those to spines, hosts by leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct LeafSpine {
    pub leaves: u8,
    pub spines: u8,
    pub hosts: u8,
    pub host_line: Line,
    pub spine_line: Line,
    /// Pairs (leaf, spine) without a line. Paths may then lead down and up again, so flows can deadlock.
    pub without: Vec<(u8, u8)>,
}

impl LeafSpine {
    /// Builds the plan, with shortest paths.
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

/// Dumbbell: two switches with hosts, joined by one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Dumbbell {
    pub left: u8,
    pub right: u8,
    pub host_line: Line,
    pub trunk: Line,
}

impl Dumbbell {
    /// Builds the plan, with shortest paths.
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

/// Ring of switches, in which frames travel in one direction only; flows can deadlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Ring {
    pub switches: u8,
    pub hosts: u8,
    pub host_line: Line,
    pub ring_line: Line,
}

impl Ring {
    /// Builds the plan. Panics if the ring has fewer than three switches.
    #[must_use]
    pub fn plan(&self, build: &Build) -> Plan {
        assert!(self.switches >= 3, "a ring has {} switches; it needs at least three", self.switches);
        let mut graph = Graph::default();
        let switches: Vec<u32> = (0..self.switches).map(|_| graph.add_switch(0)).collect();
        for switch in &switches {
            (0..self.hosts).for_each(|_| _ = graph.add_host(*switch, self.host_line));
        }
        for (at, next) in switches.iter().zip(switches.iter().cycle().skip(1)) {
            graph.link(*at, *next, self.ring_line);
        }
        // Port order at switch 0: hosts, next, previous. At other switches: hosts, previous, next.
        let ahead = |at: u32| if at == 0 { self.hosts } else { self.hosts + 1 };
        graph.plan_by(build, |at, _| vec![ahead(at)])
    }
}

/// Builds the OFC paper's Fig. 1: three switches in a row, ten hosts, equal lines.
///
/// Hosts 0 and 1 are at the first switch, 2 to 9 at the third. In the paper, host 0 sends flow F0 to host 8; all other
/// flows go to host 9.
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

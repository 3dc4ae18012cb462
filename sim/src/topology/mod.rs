//! Topologies of simulated fabrics.

mod edges;
mod fat_tree;
mod graph;
mod shapes;

pub use edges::{EdgeError, Name, edge_list};
pub(crate) use edges::{Edges, line_of};
pub use fat_tree::FatTree;
pub use graph::{Build, Graph};
pub use shapes::{Dumbbell, LeafSpine, Ring, ofc_fig1};

use crate::ends::Line;
use crate::plan::Plan;

/// Builds one ideal switch with `hosts` hosts.
#[must_use]
pub fn single(hosts: u8, line: Line) -> Plan {
    let mut graph = Graph::default();
    let switch = graph.add_switch(0);
    (0..hosts).for_each(|_| {
        graph.add_host(switch, line);
    });
    graph.plan(&Build::ideal())
}

/// Builds a row of ideal switches with a host at each end.
#[must_use]
pub fn chain(switches: u32, line: Line) -> Plan {
    let mut graph = Graph::default();
    let first = graph.add_switch(0);
    graph.add_host(first, line);
    let mut last = first;
    for _ in 1..switches {
        let next = graph.add_switch(0);
        graph.link(last, next, line);
        last = next;
    }
    graph.add_host(last, line);
    graph.plan(&Build::ideal())
}

/// Builds [`FatTree::regular`] of ideal switches.
#[must_use]
pub fn fat_tree(k: u8, line: Line) -> Plan {
    FatTree::regular(k, line).plan(&Build::ideal())
}

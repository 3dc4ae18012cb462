//! Fabrics: which switches, hosts and lines there are, and which ways lead where.
//!
//! All of them are made in one way: a [`Graph`] is drawn, and [`Graph::plan`] makes a plan of it, in which every way is a shortest one and
//! ports that lead to the same places are a group. What its switches are is said from outside ([`Build`]); the functions that take a
//! line only make them of ideal ones.

mod edges;
mod fat_tree;
mod graph;
mod shapes;

pub use edges::{EdgeError, edge_list};
pub(crate) use edges::{Edges, Name, line_of};
pub use fat_tree::FatTree;
pub use graph::{Build, Graph};
pub use shapes::{Dumbbell, LeafSpine, Ring, ofc_fig1};

use crate::ends::Line;
use crate::plan::Plan;

/// One switch with so many hosts.
#[must_use]
pub fn single(hosts: u8, line: Line) -> Plan {
    let mut graph = Graph::default();
    let switch = graph.add_switch(0);
    (0..hosts).for_each(|_| {
        graph.add_host(switch, line);
    });
    graph.plan(&Build::ideal())
}

/// So many switches in a row, with host 0 at the first of them and host 1 at the last.
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

/// Three layers of switches with `k` ports each: `k` pods of `k / 2` edge and as many aggregation switches, `k² / 4` core switches,
/// `k³ / 4` hosts. See [`FatTree`].
///
/// # Panics
/// If `k` is odd, or less than 4 or more than 128.
#[must_use]
pub fn fat_tree(k: u8, line: Line) -> Plan {
    FatTree::regular(k, line).plan(&Build::ideal())
}

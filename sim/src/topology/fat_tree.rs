use xoff_wire::units::BitRate;

use super::graph::{Build, Graph};
use crate::ends::Line;
use crate::plan::Plan;

/// Fat-tree of pods below a core. Each edge switch has lines to all aggregation switches of its pod; each core switch
/// has a line to one aggregation switch of every pod.
///
/// Switches are numbered by layer, then pod; hosts by edge switch. Ports toward hosts come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct FatTree {
    pub pods: u8,
    pub edges: u8,
    pub aggregations: u8,
    /// Number of core switches, a multiple of `aggregations`.
    pub cores: u16,
    pub hosts: u8,
    pub host_line: Line,
    pub edge_line: Line,
    pub core_line: Line,
}

impl FatTree {
    /// Returns the fat-tree of `k`-port switches: `k` pods, `k² / 4` core switches, `k³ / 4` hosts. Panics if `k` is
    /// odd, or not between 4 and 128.
    #[must_use]
    pub fn regular(k: u8, line: Line) -> FatTree {
        assert!(
            k.is_multiple_of(2) && (4..=128).contains(&k),
            "k is {k}; a fat-tree needs an even number from 4 to 128"
        );
        let half = k / 2;
        FatTree {
            pods: k,
            edges: half,
            aggregations: half,
            cores: u16::from(half) * u16::from(half),
            hosts: half,
            host_line: line,
            edge_line: line,
            core_line: line,
        }
    }

    /// Returns the fat-tree of the OFC paper's evaluation: 8 pods, 256 servers, 2 : 1 oversubscribed at the edge.
    /// Panics if the rate of `line` exceeds 800 Gb/s.
    #[must_use]
    pub fn ofc(line: Line) -> FatTree {
        let twice =
            BitRate::new(2 * line.rate.bits_per_second()).expect("uplinks, twice as fast, exceed 1.6 Tb/s");
        let up = Line { rate: twice, ..line };
        FatTree {
            pods: 8,
            edges: 2,
            aggregations: 4,
            cores: 32,
            hosts: 16,
            host_line: line,
            edge_line: up,
            core_line: up,
        }
    }

    /// Returns the number of hosts.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        u32::from(self.pods) * u32::from(self.edges) * u32::from(self.hosts)
    }

    /// Builds the graph of switches and links. Panics if `cores` is not a multiple of `aggregations`.
    #[must_use]
    pub fn graph(&self) -> Graph {
        let each = self.cores.checked_div(self.aggregations.into()).unwrap_or_default();
        let are_shared = each * u16::from(self.aggregations) == self.cores;
        assert!(
            are_shared,
            "{} core switches cannot be divided equally among {} aggregation switches of a pod",
            self.cores, self.aggregations
        );
        let mut graph = Graph::default();
        let in_layer = |count: u8| u32::from(self.pods) * u32::from(count);
        let (edges, aggregations) = (in_layer(self.edges), in_layer(self.aggregations));
        (0..edges).for_each(|_| _ = graph.add_switch(0));
        (0..aggregations).for_each(|_| _ = graph.add_switch(1));
        (0..self.cores).for_each(|_| _ = graph.add_switch(2));
        for edge in 0..edges {
            (0..self.hosts).for_each(|_| _ = graph.add_host(edge, self.host_line));
        }
        let edge = |pod: u8, place: u8| u32::from(pod) * u32::from(self.edges) + u32::from(place);
        let aggregation =
            |pod: u8, place: u8| edges + u32::from(pod) * u32::from(self.aggregations) + u32::from(place);
        for pod in 0..self.pods {
            for one in 0..self.edges {
                for other in 0..self.aggregations {
                    graph.link(edge(pod, one), aggregation(pod, other), self.edge_line);
                }
            }
        }
        for pod in 0..self.pods {
            for one in 0..self.aggregations {
                for other in 0..each {
                    let core = edges + aggregations + u32::from(one) * u32::from(each) + u32::from(other);
                    graph.link(aggregation(pod, one), core, self.core_line);
                }
            }
        }
        graph
    }

    /// Builds the plan of [`FatTree::graph`], with shortest paths.
    #[must_use]
    pub fn plan(&self, build: &Build) -> Plan {
        self.graph().plan(build)
    }
}

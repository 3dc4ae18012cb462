//! Three layers of switches.

use xoff_dataplane::units::BitRate;

use super::graph::{Build, Graph};
use crate::ends::Line;
use crate::plan::Plan;

/// Pods of edge and aggregation switches below a core. Within a pod each edge switch has a line to each aggregation switch; the core
/// switches are shared out among the aggregation switches of a pod, and each has a line to every pod. A flow takes one of the ways up by
/// its hash, at the edge and once more at the aggregation; down there is one.
///
/// Within a layer switches are numbered by pod; edge switches come first, then aggregation, then core. Hosts are numbered by edge
/// switch. At each switch ports down come before ports up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// How many pods there are.
    pub pods: u8,
    /// Edge switches of a pod.
    pub edges: u8,
    /// Aggregation switches of a pod.
    pub aggregations: u8,
    /// Core switches, of all: a multiple of `aggregations`.
    pub cores: u16,
    /// Hosts of an edge switch.
    pub hosts: u8,
    /// Between a host and its edge switch.
    pub host_line: Line,
    /// Between edge and aggregation.
    pub edge_line: Line,
    /// Between aggregation and core.
    pub core_line: Line,
}

impl FatTree {
    /// That of switches with `k` ports: `k` pods, `k / 2` of each in a pod, `k² / 4` core switches, `k³ / 4` hosts; all lines are alike.
    ///
    /// # Panics
    /// If `k` is odd, or less than 4 or more than 128.
    #[must_use]
    pub fn regular(k: u8, line: Line) -> FatTree {
        assert!(k.is_multiple_of(2) && (4..=128).contains(&k), "a fat-tree of {k} ports");
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

    /// That of OFC's evaluation: 8 pods, 16 edge, 32 aggregation and 32 core switches, 256 servers. Its oversubscription of 2 : 1 is at
    /// the edge, by the rate of the lines: 16 servers share four lines up, which are twice as fast as theirs.
    ///
    /// # Panics
    /// If the rate of `line` is beyond 800 Gb/s.
    #[must_use]
    pub fn ofc(line: Line) -> FatTree {
        let twice = BitRate::new(2 * line.rate.bits_per_second()).expect("a rate within range");
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

    /// Hosts, of all.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        u32::from(self.pods) * u32::from(self.edges) * u32::from(self.hosts)
    }

    /// As a graph.
    ///
    /// # Panics
    /// If the core switches cannot be shared out among the aggregation switches of a pod.
    #[must_use]
    pub fn graph(&self) -> Graph {
        let each = self.cores.checked_div(self.aggregations.into()).unwrap_or_default();
        let are_shared = each * u16::from(self.aggregations) == self.cores;
        assert!(are_shared, "{} core switches among {} of a pod", self.cores, self.aggregations);
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

    /// As a plan.
    ///
    /// # Panics
    /// As [`FatTree::graph`].
    #[must_use]
    pub fn plan(&self, build: &Build) -> Plan {
        self.graph().plan(build)
    }
}

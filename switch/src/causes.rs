//! Causes of pauses across several switches: the path from each XOFF to its root, which is the queue of a slow line, or
//! a station that pauses a queue.
//!
//! Switches report their states some milliseconds apart, so only a lasting cycle of pauses is a deadlock.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use petgraph::Direction;
use petgraph::algo::tarjan_scc;
use petgraph::dot::{Config, Dot};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef as _;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    pub switch: String,
    pub ports: Vec<PortWaits>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortWaits {
    pub name: String,
    pub mac: String,
    pub pause_peer: Option<String>,
    pub classes: Vec<ClassWaits>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassWaits {
    pub class: u8,
    /// True while the port pauses its peer in this class.
    pub holds: bool,
    pub culprits: Vec<FullQueue>,
    /// True while the peer pauses the port's egress queue of this class, or a flow in it.
    pub is_held: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullQueue {
    pub port: String,
    pub class: u8,
    /// Bytes in this egress queue that came in through the pausing port.
    pub bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CauseNode {
    Port {
        switch: String,
        port: String,
        class: u8,
    },
    Queue {
        switch: String,
        port: String,
        class: u8,
    },
    /// Device that sends pauses, but is no port of the given switches.
    Station {
        mac: String,
        class: u8,
    },
}

impl std::fmt::Display for CauseNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CauseNode::Port { switch, port, class } => {
                write!(f, "{switch} pauses the peer of {port}, class {class}")
            }
            CauseNode::Queue { switch, port, class } => {
                write!(f, "egress queue {switch} {port}, class {class}")
            }
            CauseNode::Station { mac, class } => write!(f, "station {mac}, class {class}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "lowercase")]
pub enum WaitReason {
    Holds {
        /// Bytes in the queue that came in through the pausing port.
        bytes: u64,
    },
    Paused,
}

impl std::fmt::Display for WaitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WaitReason::Holds { bytes } => write!(f, "{bytes} bytes"),
            WaitReason::Paused => write!(f, "paused by"),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Causes {
    graph: DiGraph<CauseNode, WaitReason>,
    places: BTreeMap<CauseNode, NodeIndex>,
}

impl Causes {
    pub fn of<T: Into<Waits>>(switches: impl IntoIterator<Item = T>) -> Causes {
        let switches: Vec<Waits> = switches.into_iter().map(Into::into).collect();
        let mut causes = Causes::default();
        for switch in &switches {
            for (port, class) in
                switch.ports.iter().flat_map(|port| port.classes.iter().map(move |class| (port, class)))
            {
                causes.add_held(switch, port, class);
                causes.add_queue(&switches, switch, port, class);
            }
        }
        causes
    }

    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<CauseNode>> {
        let knots = tarjan_scc(&self.graph).into_iter().filter(|knot| knot.len() > 1);
        knots.map(|knot| self.round(&knot)).collect()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.graph.node_count() == 0
    }

    #[must_use]
    pub fn text(&self) -> String {
        if self.is_empty() {
            return "no peer is paused\n".into();
        }
        let mut text = String::new();
        let mut printed = vec![false; self.graph.node_count()];
        let roots: Vec<NodeIndex> = self.graph.externals(Direction::Incoming).collect();
        for root in roots.into_iter().chain(self.graph.node_indices()) {
            if !printed[root.index()] {
                self.write_tree(root, None, 0, &mut printed, &mut text);
            }
        }
        for cycle in self.cycles() {
            let names: Vec<String> = cycle.iter().map(CauseNode::to_string).collect();
            let _ = writeln!(text, "CYCLE, a deadlock if it lasts: {} -> {}", names.join(" -> "), names[0]);
        }
        text
    }

    #[must_use]
    pub fn dot(&self) -> String {
        let in_circle: Vec<NodeIndex> =
            tarjan_scc(&self.graph).into_iter().filter(|knot| knot.len() > 1).flatten().collect();
        let edge = |_, _| String::new();
        let node = |_, (index, place): (NodeIndex, &CauseNode)| {
            let shape = match place {
                CauseNode::Port { .. } => "box",
                CauseNode::Queue { .. } => "cylinder",
                CauseNode::Station { .. } => "ellipse",
            };
            let color = if in_circle.contains(&index) { "red" } else { "black" };
            format!("shape={shape} color={color}")
        };
        Dot::with_attr_getters(&self.graph, &[] as &[Config], &edge, &node).to_string()
    }

    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let edges = self.graph.edge_references().map(|edge| {
            serde_json::json!({
                "from": self.graph[edge.source()],
                "to": self.graph[edge.target()],
                "because": edge.weight(),
            })
        });
        serde_json::json!({ "edges": edges.collect::<Vec<_>>(), "cycles": self.cycles() })
    }

    fn place(&mut self, place: CauseNode) -> NodeIndex {
        let graph = &mut self.graph;
        *self.places.entry(place).or_insert_with_key(|place| graph.add_node(place.clone()))
    }

    fn add_held(&mut self, switch: &Waits, port: &PortWaits, class: &ClassWaits) {
        if !class.holds {
            return;
        }
        let held = self.place(of_port(switch, port, class));
        for culprit in &class.culprits {
            let (port, class) = (culprit.port.clone(), culprit.class);
            let queue = self.place(CauseNode::Queue { switch: switch.switch.clone(), port, class });
            self.graph.add_edge(held, queue, WaitReason::Holds { bytes: culprit.bytes });
        }
    }

    fn add_queue(&mut self, switches: &[Waits], switch: &Waits, port: &PortWaits, class: &ClassWaits) {
        let Some(mac) = port.pause_peer.as_ref().filter(|_| class.is_held) else { return };
        let queue =
            CauseNode::Queue { switch: switch.switch.clone(), port: port.name.clone(), class: class.class };
        let peer = switches.iter().find_map(|peer| {
            let port = peer.ports.iter().find(|port| port.mac == *mac)?;
            let held = port.classes.iter().find(|held| held.class == class.class)?;
            Some(of_port(peer, port, held))
        });
        let holder = peer.unwrap_or_else(|| CauseNode::Station { mac: mac.clone(), class: class.class });
        let (queue, holder) = (self.place(queue), self.place(holder));
        self.graph.add_edge(queue, holder, WaitReason::Paused);
    }

    fn write_tree(
        &self,
        at: NodeIndex,
        because: Option<&WaitReason>,
        depth: usize,
        printed: &mut [bool],
        text: &mut String,
    ) {
        let again = std::mem::replace(&mut printed[at.index()], true);
        let because = because.map_or(String::new(), |because| format!("{because}: "));
        let mut next: Vec<_> = self.graph.edges(at).collect();
        next.reverse(); // petgraph returns the newest first
        let note = match &self.graph[at] {
            _ if again => ", see above",
            CauseNode::Queue { .. } if next.is_empty() => ", limited by its line",
            _ => "",
        };
        let _ = writeln!(text, "{:indent$}{because}{}{note}", "", self.graph[at], indent = 2 * depth);
        if !again {
            next.iter().for_each(|edge| {
                self.write_tree(edge.target(), Some(edge.weight()), depth + 1, printed, text)
            });
        }
    }

    fn round(&self, knot: &[NodeIndex]) -> Vec<CauseNode> {
        let mut path = vec![knot[knot.len() - 1]];
        loop {
            let here = path[path.len() - 1];
            let onward = self.graph.neighbors(here).find(|next| knot.contains(next));
            let next = onward.expect("each node of a cycle must wait for another node of that cycle");
            if let Some(begin) = path.iter().position(|place| *place == next) {
                return path[begin..].iter().map(|&place| self.graph[place].clone()).collect();
            }
            path.push(next);
        }
    }
}

fn of_port(switch: &Waits, port: &PortWaits, class: &ClassWaits) -> CauseNode {
    CauseNode::Port { switch: switch.switch.clone(), port: port.name.clone(), class: class.class }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn switch(number: u8) -> Waits {
        let class = |class| ClassWaits { class, holds: false, culprits: Vec::new(), is_held: false };
        let port = |(name, end): (&str, u8)| PortWaits {
            name: name.into(),
            mac: mac(number, end),
            pause_peer: None,
            classes: (0..8).map(class).collect(),
        };
        Waits { switch: format!("s{number}"), ports: [("left", 1), ("right", 2)].map(port).into() }
    }

    fn mac(number: u8, end: u8) -> String {
        format!("02:00:00:00:{number:02}:{end:02}")
    }

    fn hold(waits: &mut Waits, bytes: u64) {
        let class = &mut waits.ports[0].classes[3];
        class.holds = true;
        class.culprits = vec![FullQueue { port: "right".into(), class: class.class, bytes }];
    }

    fn held_by(waits: &mut Waits, peer: String) {
        waits.ports[1].pause_peer = Some(peer);
        waits.ports[1].classes[3].is_held = true;
    }

    #[test] // proves: causes
    fn cause_chain_leads_from_paused_peer_to_slow_line() {
        let (mut first, mut second) = (switch(1), switch(2));
        hold(&mut first, 5_000);
        held_by(&mut first, mac(2, 1));
        hold(&mut second, 9_000);
        let causes = Causes::of([second, first]);
        let expected = "\
            s1 pauses the peer of left, class 3\n  \
              5000 bytes: egress queue s1 right, class 3\n    \
                paused by: s2 pauses the peer of left, class 3\n      \
                  9000 bytes: egress queue s2 right, class 3, limited by its line\n";
        assert_eq!(causes.text(), expected);
        assert!(causes.cycles().is_empty());
        assert!(causes.dot().contains("cylinder") && !causes.dot().contains("red"));
    }

    #[test]
    fn cause_graph_shows_unknown_pause_sender_as_station() {
        let mut only = switch(1);
        hold(&mut only, 1);
        held_by(&mut only, "02:00:00:00:00:99".into());
        let text = Causes::of([only]).text();
        assert!(text.ends_with("    paused by: station 02:00:00:00:00:99, class 3\n"), "{text}");
    }

    #[test] // proves: causes
    fn cause_graph_shows_all_ports_and_queues_of_deadlock_cycle() {
        let mut ring: Vec<Waits> = (1..=3).map(switch).collect();
        for (number, waits) in (1..=3_u8).zip(&mut ring) {
            hold(waits, 1_000);
            held_by(waits, mac(number % 3 + 1, 1));
        }
        let causes = Causes::of(ring);
        let cycles = causes.cycles();
        assert_eq!(
            (cycles.len(), cycles[0].len()),
            (1, 6),
            "the cycle must contain three ports and three queues"
        );
        assert!(causes.text().contains("CYCLE"), "{}", causes.text());
        assert_eq!(causes.dot().matches("red").count(), 6);
        assert_eq!(causes.json()["cycles"][0].as_array().unwrap().len(), 6);
    }

    #[test]
    fn empty_cause_graph_prints_that_no_peer_is_paused() {
        assert_eq!(Causes::of([switch(1)]).text(), "no peer is paused\n");
    }
}

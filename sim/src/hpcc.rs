//! Reads topologies and flows in the format of HPCC's ns-3 simulator (SIGCOMM 2019), which other simulators share.
//!
//! ```text
//!   topology                                   flows
//!   nodes switches links                       flows
//!   number of each switch                      from to class port bytes start     repeated for each flow
//!   a b rate delay error_rate   for each link
//! ```
//!
//! Line breaks are ignored, and so are words after the announced number of entries. Switches and hosts share one
//! numbering from 0. Interfaces count from 1 at each node, in the order of links.

use std::fmt;
use std::str::FromStr;
use std::str::{Lines, SplitWhitespace};

use thiserror::Error;
use xoff_wire::units::Class;

use crate::flows::{FLOW_BYTES_MAX, FlowPlan};
use crate::plan::{At, Plan};
use crate::time::Picos;
use crate::topology::{Build, EdgeError, Edges, Name, line_of};

/// Maximum number of nodes, because host addresses have 16 bits for a node's number.
const NODES_MAX: u32 = 65_536;

/// Error in an imported file, with the line number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct ImportError {
    line: usize,
    what: String,
}

/// Fabric that was read from a file.
#[derive(Debug)]
#[allow(missing_docs)] // the names say it
pub struct Imported {
    pub plan: Plan,
    pub nodes: Nodes,
    /// Sending ends of lossy links, each with its share of lost frames.
    pub lossy: Vec<(At, f64)>,
}

/// Translation of node numbers between file and plan. The file numbers all nodes together, the plan hosts and switches
/// separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    names: Vec<Name>,
    hosts: Vec<u32>,
    switches: Vec<u32>,
    interfaces: Vec<Vec<u32>>,
}

impl Nodes {
    fn new(nodes: u32, is_switch: &[bool]) -> Nodes {
        let mut of =
            Nodes { names: Vec::new(), hosts: Vec::new(), switches: Vec::new(), interfaces: Vec::new() };
        for id in 0..nodes {
            let ids = if is_switch[id as usize] { &mut of.switches } else { &mut of.hosts };
            let number = u32::try_from(ids.len()).expect("more nodes than 32 bits can count");
            ids.push(id);
            of.names.push(if is_switch[id as usize] { Name::Switch(number) } else { Name::Host(number) });
        }
        of
    }

    /// Returns a node's number in the file.
    ///
    /// # Panics
    /// Without such an end.
    #[must_use]
    pub fn id(&self, at: At) -> u32 {
        match at {
            At::Host(host) => self.hosts[host as usize],
            At::Switch(switch, _) => self.switches[switch as usize],
        }
    }

    /// Returns an interface's number in the file, from 1 at each node.
    ///
    /// # Panics
    /// Without such an end.
    #[must_use]
    pub fn interface(&self, at: At) -> u32 {
        match at {
            At::Host(_) => 1,
            At::Switch(switch, port) => self.interfaces[switch as usize][usize::from(port)],
        }
    }

    /// Returns the number of hosts.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        u32::try_from(self.hosts.len()).expect("more nodes than 32 bits can count")
    }

    fn id_of(&self, name: Name) -> u32 {
        match name {
            Name::Host(host) => self.id(At::Host(host)),
            Name::Switch(switch) => self.id(At::Switch(switch, 0)),
        }
    }
}

/// Reads a topology, with shortest paths.
///
/// # Errors
/// Names the first invalid line.
pub fn topology(text: &str, build: &Build) -> Result<Imported, ImportError> {
    let mut tokens = Tokens::new(text);
    let count: u32 = tokens.number("the total number of nodes")?;
    let switches: u32 = tokens.number("the number of switches")?;
    let links: u32 = tokens.number("the number of links")?;
    if count > NODES_MAX || switches > count {
        return Err(tokens.wrong(format!(
            "{switches} switches among {count} nodes; at most {NODES_MAX} nodes are allowed, \
                 and no more switches than nodes"
        )));
    }
    let mut is_switch = vec![false; count as usize];
    for _ in 0..switches {
        let id: u32 = tokens.number("the node number of a switch")?;
        let flag = is_switch.get_mut(id as usize);
        let flag = flag.ok_or_else(|| tokens.wrong(no_node(id, count)))?;
        if std::mem::replace(flag, true) {
            return Err(tokens.wrong(format!("switch {id} is listed twice")));
        }
    }
    let mut nodes = Nodes::new(count, &is_switch);
    let mut edges = Edges::default();
    let (mut used, mut ends, mut shares) = (vec![0_u32; count as usize], Vec::new(), Vec::new());
    for _ in 0..links {
        let mut node = || {
            let id: u32 = tokens.number("the node number of a link's end")?;
            nodes.names.get(id as usize).copied().ok_or_else(|| tokens.wrong(no_node(id, count)))
        };
        let (a, b) = (node()?, node()?);
        let (rate, delay) = (tokens.quantity(&RATES, RATE)?, tokens.quantity(&TIMES, DELAY)?);
        let line = line_of(rate, delay).ok_or_else(|| {
            tokens.wrong("a link must have a rate from 1 Mb/s to 1.6 Tb/s and a delay of at most 5 ms".into())
        })?;
        let share: f64 = tokens.number("the share of lost frames of a link")?;
        if !(0.0..=1.0).contains(&share) {
            return Err(
                tokens.wrong(format!("the share of lost frames of a link is {share}; allowed: 0 to 1"))
            );
        }
        edges.add(tokens.line, a, b, line).map_err(|error| tokens.wrong(describe(&nodes, &error)))?;
        let [at_a, at_b] = [a, b].map(|end| {
            let used = &mut used[nodes.id_of(end) as usize];
            *used += 1;
            *used
        });
        ends.extend([(a, b, at_a), (b, a, at_b)]);
        shares.push(share);
    }
    if let Some((id, _)) = (0..count).zip(&used).find(|(_, used)| **used == 0) {
        return Err(tokens.wrong(format!("node {id} has no link")));
    }
    nodes.interfaces = interfaces(switches, &ends);
    let graph = edges.graph().map_err(|error| tokens.wrong(error.to_string()))?;
    let plan = graph.plan(build);
    let at = |name: Name, interface: u32| match name {
        Name::Host(host) => At::Host(host),
        Name::Switch(switch) => {
            let ports = &nodes.interfaces[switch as usize];
            let port =
                ports.iter().position(|own| *own == interface).expect("a link of the switch has no port");
            At::Switch(switch, u8::try_from(port).expect("PORTS_MAX is 256"))
        }
    };
    let both = shares.iter().zip(ends.chunks(2)).filter(|(share, _)| **share > 0.0);
    let lossy = both.flat_map(|(share, ends)| ends.iter().map(move |end| (end, *share)));
    let lossy = lossy.map(|(&(from, _, interface), share)| (at(from, interface), share)).collect();
    Ok(Imported { plan, nodes, lossy })
}

fn interfaces(switches: u32, ends: &[(Name, Name, u32)]) -> Vec<Vec<u32>> {
    let mut by_switch: Vec<Vec<(bool, u32, u32)>> = vec![Vec::new(); switches as usize];
    for &(from, to, interface) in ends {
        if let Name::Switch(switch) = from {
            by_switch[switch as usize].push(match to {
                Name::Host(host) => (false, host, interface),
                Name::Switch(_) => (true, interface, interface),
            });
        }
    }
    by_switch.iter_mut().for_each(|ports| ports.sort_unstable());
    by_switch.iter().map(|ports| ports.iter().map(|(.., interface)| *interface).collect()).collect()
}

fn no_node(id: u32, count: u32) -> String {
    format!("node {id} does not exist; nodes are numbered from 0 to {}", count.saturating_sub(1))
}

fn describe(nodes: &Nodes, error: &EdgeError) -> String {
    match *error {
        EdgeError::Twice { host, .. } => {
            format!("host {} has a second link; a host can have only one", nodes.id_of(Name::Host(host)))
        }
        EdgeError::Ports { switch, .. } => {
            format!(
                "switch {} has more than 256 links; a switch has at most 256 ports",
                nodes.id_of(Name::Switch(switch))
            )
        }
        _ => "the link connects two hosts, or a switch with itself; a link must connect two switches, or a switch and a host".into(),
    }
}

/// Flow read from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct ImportedFlow {
    pub plan: FlowPlan,
    /// UDP port of the receiver, which is only repeated in results.
    pub port: u16,
}

/// Reads flows between the hosts of a topology.
///
/// # Errors
/// Names the first invalid line.
pub fn flows(text: &str, nodes: &Nodes) -> Result<Vec<ImportedFlow>, ImportError> {
    let mut tokens = Tokens::new(text);
    let count: u32 = tokens.number("the number of flows")?;
    let mut flows = Vec::new();
    for _ in 0..count {
        let mut host = |what: &str| {
            let id: u32 = tokens.number(what)?;
            match nodes.names.get(id as usize) {
                Some(Name::Host(host)) => Ok(*host),
                Some(Name::Switch(_)) => {
                    Err(tokens.wrong(format!("node {id} is a switch; only hosts send and receive flows")))
                }
                None => Err(tokens.wrong(no_node(id, u32::try_from(nodes.names.len()).unwrap_or(u32::MAX)))),
            }
        };
        let (from, to) =
            (host("the node number of a flow's sender")?, host("the node number of a flow's receiver")?);
        let group: u8 = tokens.number("the priority group of a flow")?;
        let class = Class::new(group).ok_or_else(|| {
            tokens.wrong(format!("the priority group of a flow is {group}; allowed: 0 to 7"))
        })?;
        let port = tokens.number("the port of a flow's receiver")?;
        let bytes: u64 = tokens.number("the size of a flow in bytes")?;
        let start: f64 = tokens.number("the start of a flow in seconds")?;
        if from == to {
            return Err(tokens.wrong(format!(
                "node {} sends a flow to itself; name another receiver",
                nodes.id(At::Host(from))
            )));
        }
        if !(1..=FLOW_BYTES_MAX).contains(&bytes) || !(0.0..=SECONDS_MAX).contains(&start) {
            return Err(
                tokens.wrong("a flow must have 1 byte to 128 GiB and start within the first hour".into())
            );
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within SECONDS_MAX
        let start = Picos((start * 1e12).round() as u64);
        flows.push(ImportedFlow { plan: FlowPlan { from, to, class, bytes, start, tag: 0 }, port });
    }
    Ok(flows)
}

const SECONDS_MAX: f64 = 3_600.0;
const RATE: &str = "the rate of a link, such as 100Gbps";
const DELAY: &str = "the delay of a link, such as 1us or 0.001ms";

const RATES: [(&str, f64); 24] = [
    ("", 1.0),
    ("bps", 1.0),
    ("b/s", 1.0),
    ("Bps", 8.0),
    ("B/s", 8.0),
    ("kbps", 1e3),
    ("kb/s", 1e3),
    ("Kbps", 1e3),
    ("Kb/s", 1e3),
    ("kBps", 8e3),
    ("kB/s", 8e3),
    ("KBps", 8e3),
    ("KB/s", 8e3),
    ("Kib/s", 1024.0),
    ("Mbps", 1e6),
    ("Mb/s", 1e6),
    ("MBps", 8e6),
    ("MB/s", 8e6),
    ("Mib/s", 1_048_576.0),
    ("Gbps", 1e9),
    ("Gb/s", 1e9),
    ("GBps", 8e9),
    ("GB/s", 8e9),
    ("Gib/s", 1_073_741_824.0),
];
const TIMES: [(&str, f64); 7] =
    [("", 1.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("ps", 1e-12), ("fs", 1e-15)];

struct Tokens<'a> {
    lines: Lines<'a>,
    rest: SplitWhitespace<'a>,
    line: usize,
}

impl<'a> Tokens<'a> {
    fn new(text: &'a str) -> Tokens<'a> {
        Tokens { lines: text.lines(), rest: "".split_whitespace(), line: 0 }
    }

    fn next(&mut self, wanted: &dyn fmt::Display) -> Result<&'a str, ImportError> {
        loop {
            if let Some(word) = self.rest.next() {
                return Ok(word);
            }
            let Some(line) = self.lines.next() else {
                return Err(ImportError {
                    line: self.line.max(1),
                    what: format!("the file ends too early: {wanted} is missing"),
                });
            };
            self.line += 1;
            self.rest = line.split_whitespace();
        }
    }

    fn number<T: FromStr>(&mut self, wanted: &str) -> Result<T, ImportError> {
        let word = self.next(&wanted)?;
        word.parse().map_err(|_| self.wrong(format!("{word:?} is not {wanted}")))
    }

    fn quantity(&mut self, units: &[(&str, f64)], wanted: &str) -> Result<f64, ImportError> {
        let word = self.next(&wanted)?;
        let number = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == '/');
        let unit = units.iter().find(|(unit, _)| *unit == &word[number.len()..]);
        let quantity = unit.and_then(|(_, factor)| Some(number.parse::<f64>().ok()? * factor));
        quantity.ok_or_else(|| self.wrong(format!("{word:?} is not {wanted}")))
    }

    fn wrong(&self, what: String) -> ImportError {
        ImportError { line: self.line, what }
    }
}

// proves: sim-fabrics
#[cfg(test)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;
    use crate::ends::Line;

    const TOPOLOGY: &str =
        "5 2 4\n4 1\n1 4 400Gbps 1us 0\n2 1 100Gbps 0.001ms 0\n0 1 25Gb/s 500ns 0.25\n4 3 1GBps 2us 0\n";

    fn read(text: &str) -> Result<Imported, String> {
        topology(text, &Build::ideal()).map_err(|error| error.to_string())
    }

    #[test]
    fn hpcc_topology_file_yields_nodes_lines_and_interfaces() {
        let made = read(TOPOLOGY).expect("the topology is invalid");
        let (plan, nodes) = (&made.plan, &made.nodes);
        assert_eq!((plan.hosts(), plan.switches(), plan.check()), (3, 2, Ok(())));
        assert_eq!([0, 1, 2].map(|host| nodes.id(At::Host(host))), [0, 2, 3]);
        assert_eq!([0, 1].map(|switch| nodes.id(At::Switch(switch, 0))), [1, 4]);
        // Host 0 is at port 0, although its link is the third one of switch 1 in the file.
        assert_eq!([0, 1, 2].map(|port| nodes.interface(At::Switch(0, port))), [3, 2, 1]);
        assert_eq!([0, 1].map(|port| nodes.interface(At::Switch(1, port))), [2, 1]);
        let line = |gbps, nanos| Line { rate: BitRate::from_gbps(gbps), delay: Picos::from_nanos(nanos) };
        let of = |from: At| {
            plan.links().iter().find(|(a, b, _)| *a == from || *b == from).expect("the host has no link").2
        };
        assert_eq!(of(At::Host(0)), line(25, 500));
        assert_eq!(of(At::Host(1)), line(100, 1_000));
        assert_eq!(of(At::Host(2)), line(8, 2_000));
        assert_eq!(of(At::Switch(1, 1)), line(400, 1_000));
        assert_eq!(made.lossy, [(At::Host(0), 0.25), (At::Switch(0, 0), 0.25)]);
    }

    #[test]
    fn hpcc_flow_file_yields_flows_between_hosts() {
        let nodes = read(TOPOLOGY).expect("the topology is invalid").nodes;
        let text = "2\n0 3 3 100 1000 2.000001\n3 2 1 200 5\n2\n0 1 nobody reads this";
        let parsed = flows(text, &nodes).expect("flows");
        let plan = |from, to, class: usize, bytes, micros| FlowPlan {
            from,
            to,
            class: Class::ALL[class],
            bytes,
            start: Picos::from_micros(micros),
            tag: 0,
        };
        assert_eq!(parsed[0], ImportedFlow { plan: plan(0, 2, 3, 1_000, 2_000_001), port: 100 });
        assert_eq!(parsed[1], ImportedFlow { plan: plan(2, 1, 1, 5, 2_000_000), port: 200 });
        assert_eq!(parsed.len(), 2);
        let why = |text: &str| flows(text, &nodes).expect_err("no flows").to_string();
        assert_eq!(why(""), "line 1: the file ends too early: the number of flows is missing");
        assert_eq!(
            why("2\n0 3 3 100 9 2\n"),
            "line 2: the file ends too early: the node number of a flow's sender is missing"
        );
        assert_eq!(why("1\n0 1 3 100 9 2"), "line 2: node 1 is a switch; only hosts send and receive flows");
        assert_eq!(why("1\n0 5 3 100 9 2"), "line 2: node 5 does not exist; nodes are numbered from 0 to 4");
        assert_eq!(why("1\n0 0 3 100 9 2"), "line 2: node 0 sends a flow to itself; name another receiver");
        assert_eq!(why("1\n\n0 3 8 100 9 2"), "line 3: the priority group of a flow is 8; allowed: 0 to 7");
        assert_eq!(why("1\n0 3 3 65536 9 2"), "line 2: \"65536\" is not the port of a flow's receiver");
        for wrong in ["0 2", "9 -1", "9 3601"] {
            let why = why(&format!("1\n0 3 3 100 {wrong}"));
            assert_eq!(why, "line 2: a flow must have 1 byte to 128 GiB and start within the first hour");
        }
        let of = |bytes: u64| flows(&format!("1\n0 3 3 100 {bytes} 2"), &nodes);
        assert!(of(FLOW_BYTES_MAX).is_ok() && of(FLOW_BYTES_MAX + 1).is_err());
    }

    #[test]
    fn invalid_topology_is_refused_with_its_line() {
        let why = |text: &str| read(text).expect_err("no fabric");
        assert_eq!(why("5 2"), "line 1: the file ends too early: the number of links is missing");
        assert_eq!(
            why("5 6 1"),
            "line 1: 6 switches among 5 nodes; at most 65536 nodes are allowed, and no more switches than nodes"
        );
        assert_eq!(why("3 1 2\n3\n"), "line 2: node 3 does not exist; nodes are numbered from 0 to 2");
        assert_eq!(why("3 2 2\n1\n1\n"), "line 3: switch 1 is listed twice");
        let links = |links: &str| why(&format!("4 1 3\n0\n{links}"));
        assert_eq!(links("1 0 fast 1us 0"), format!("line 3: \"fast\" is not {RATE}"));
        assert_eq!(links("1 0 1Gbps 1min 0"), format!("line 3: \"1min\" is not {DELAY}"));
        assert_eq!(
            links("1 0 1Gbps 1us 2"),
            "line 3: the share of lost frames of a link is 2; allowed: 0 to 1"
        );
        assert_eq!(
            links("1 0 1Gbps 1us"),
            "line 3: the file ends too early: the share of lost frames of a link is missing"
        );
        for wrong in ["0bps 1us", "1601Gbps 1us", "1Gbps 5.1ms"] {
            let why = links(&format!("1 0 {wrong} 0"));
            assert_eq!(
                why,
                "line 3: a link must have a rate from 1 Mb/s to 1.6 Tb/s and a delay of at most 5 ms"
            );
        }
        assert_eq!(
            links("1 2 1Gbps 1us 0"),
            "line 3: the link connects two hosts, or a switch with itself; a link must connect two switches, or a switch and a host"
        );
        let line = "1Gbps 1us 0\n";
        let twice = links(&format!("1 0 {line}1 0 {line}"));
        assert_eq!(twice, "line 4: host 1 has a second link; a host can have only one");
        let few = why(&format!("4 1 2\n0\n1 0 {line}2 0 {line}"));
        assert_eq!(few, "line 4: node 3 has no link");
    }
}

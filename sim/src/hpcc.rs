//! Reads topologies and flows in the format of HPCC's ns-3 simulator (SIGCOMM 2019), which other simulators share.
//!
//! ```text
//!   topology                                   flows
//!   nodes switches links                       flows
//!   number of each switch                      from to class port bytes start     a line for each flow
//!   a b rate delay error_rate   for each link
//! ```
//!
//! Switches and hosts share one numbering from 0. Each node's interfaces count from 1.
//!
//! SimAI's topologies begin with `nodes gpus_per_server nvlink_switches switches links gpu_type`, and list NVLink
//! switches first. ConWeave's flows have no port.

mod flows;
mod tokens;

pub use flows::{ImportedFlow, ImportedFlows, flows};

use std::collections::BTreeMap;

use thiserror::Error;

use crate::plan::{At, Plan};
use crate::topology::{Build, EdgeError, Edges, Name, line_of};
use tokens::{DELAY, RATE, RATES, TIMES, Tokens};

/// Maximum number of nodes: host addresses have 16 bits for a node's number.
const NODES_MAX: u32 = 65_536;

/// Error in an imported topology or flow file, with the line number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct ImportError {
    line: usize,
    what: String,
}

/// Fabric read from a topology file.
#[derive(Debug)]
#[allow(missing_docs)] // the names say it
pub struct Imported {
    pub plan: Plan,
    pub nodes: Nodes,
    /// Sending ends of lossy links, each with its share of lost frames (0 to 1).
    pub lossy: Vec<(At, f64)>,
    /// Messages about parts of the file that the plan leaves out.
    pub notes: Vec<String>,
}

/// Numbers of nodes in a topology file, which numbers hosts and switches together, unlike a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    names: Vec<Option<Name>>,
    hosts: Vec<FileNode>,
    switches: Vec<FileNode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileNode {
    id: u32,
    interfaces: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Switch,
    NvLink,
}

impl Nodes {
    fn new(kinds: &[Kind]) -> Nodes {
        let mut of = Nodes { names: Vec::new(), hosts: Vec::new(), switches: Vec::new() };
        for (id, kind) in (0..).zip(kinds) {
            let (nodes, name): (_, fn(u32) -> Name) = match kind {
                Kind::Host => (&mut of.hosts, Name::Host),
                Kind::Switch => (&mut of.switches, Name::Switch),
                Kind::NvLink => {
                    of.names.push(None);
                    continue;
                }
            };
            of.names.push(Some(name(u32::try_from(nodes.len()).expect("NODES_MAX fits 32 bits"))));
            nodes.push(FileNode { id, interfaces: Vec::new() });
        }
        of
    }

    fn node(&self, name: Name) -> &FileNode {
        match name {
            Name::Host(host) => &self.hosts[host as usize],
            Name::Switch(switch) => &self.switches[switch as usize],
        }
    }

    /// Returns a node's number in the file. Panics if the node does not exist.
    #[must_use]
    pub fn id(&self, at: At) -> u32 {
        self.node(end(at).0).id
    }

    /// Returns an interface's number in the file, from 1 at each node. Panics if no link ends at `at`.
    #[must_use]
    pub fn interface(&self, at: At) -> u32 {
        let (name, port) = end(at);
        self.node(name).interfaces[usize::from(port)]
    }

    /// Returns the number of hosts in the file.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        u32::try_from(self.hosts.len()).expect("NODES_MAX fits 32 bits")
    }

    fn at(&self, name: Name, interface: u32) -> At {
        let port = self.node(name).interfaces.iter().position(|own| *own == interface);
        let port = port.and_then(|port| u8::try_from(port).ok()).expect("a link has no port");
        match name {
            Name::Host(host) => At::Host(host, port),
            Name::Switch(switch) => At::Switch(switch, port),
        }
    }
}

fn end(at: At) -> (Name, u8) {
    match at {
        At::Host(host, link) => (Name::Host(host), link),
        At::Switch(switch, port) => (Name::Switch(switch), port),
    }
}

struct Header<'a> {
    count: u32,
    nvlink: u32,
    switches: u32,
    links: u32,
    gpu: Option<&'a str>,
}

impl<'a> Header<'a> {
    fn read(tokens: &mut Tokens<'a>) -> Result<Header<'a>, ImportError> {
        let first = tokens.next_line();
        let is_simai = first.len() == 6 && first.last().is_some_and(|word| word.parse::<f64>().is_err());
        let count: u32 = tokens.number("the total number of nodes")?;
        let mut nvlink: u32 = 0;
        if is_simai {
            let _: u32 = tokens.number("the number of GPUs in a server")?;
            nvlink = tokens.number("the number of NVLink switches")?;
        }
        let switches: u32 = tokens.number("the number of switches")?;
        let links: u32 = tokens.number("the number of links")?;
        let gpu = if is_simai { Some(tokens.next(&"the type of GPUs")?) } else { None };
        if count > NODES_MAX || nvlink.saturating_add(switches) > count {
            return Err(tokens.wrong(format!(
                "{} switches among {count} nodes; at most {NODES_MAX} nodes are allowed, \
                 and no more switches than nodes",
                nvlink.saturating_add(switches)
            )));
        }
        Ok(Header { count, nvlink, switches, links, gpu })
    }

    fn kinds(&self, tokens: &mut Tokens<'_>) -> Result<Vec<Kind>, ImportError> {
        let mut kinds = vec![Kind::Host; self.count as usize];
        for number in 0..self.nvlink + self.switches {
            let id: u32 = tokens.number("the node number of a switch")?;
            let kind = kinds.get_mut(id as usize);
            let kind = kind.ok_or_else(|| tokens.wrong(no_node(id, self.count)))?;
            if *kind != Kind::Host {
                return Err(tokens.wrong(format!("switch {id} is listed twice")));
            }
            *kind = if number < self.nvlink { Kind::NvLink } else { Kind::Switch };
        }
        Ok(kinds)
    }
}

struct FileLink {
    ends: [(Name, u32); 2],
    lost: f64,
}

/// Reads a topology file, with forwarding on shortest paths.
///
/// # Errors
/// Names the first invalid line.
pub fn topology(text: &str, build: &Build) -> Result<Imported, ImportError> {
    let mut tokens = Tokens::new(text);
    let header = Header::read(&mut tokens)?;
    let count = header.count;
    let mut nodes = Nodes::new(&header.kinds(&mut tokens)?);
    let mut edges = Edges::default();
    let (mut used, mut links, mut omitted) = (vec![0_u32; count as usize], Vec::new(), 0);
    for _ in 0..header.links {
        let mut node = || {
            let id: u32 = tokens.number("the node number of a link's end")?;
            let name = nodes.names.get(id as usize).ok_or_else(|| tokens.wrong(no_node(id, count)))?;
            let used = &mut used[id as usize];
            *used += 1;
            Ok((*name, *used))
        };
        let (a, b) = (node()?, node()?);
        let (rate, delay) = (tokens.quantity(&RATES, RATE)?, tokens.quantity(&TIMES, DELAY)?);
        let lost: f64 = tokens.number("the share of lost frames of a link")?;
        let ((Some(name_a), at_a), (Some(name_b), at_b)) = (a, b) else {
            omitted += 1;
            continue;
        };
        let line = line_of(rate, delay).ok_or_else(|| {
            tokens.wrong("a link must have a rate from 1 Mb/s to 1.6 Tb/s and a delay of at most 5 ms".into())
        })?;
        if !(0.0..=1.0).contains(&lost) {
            return Err(
                tokens.wrong(format!("the share of lost frames of a link is {lost}; allowed: 0 to 1"))
            );
        }
        edges
            .add(tokens.line(), name_a, name_b, line)
            .map_err(|error| tokens.wrong(describe(&nodes, &error)))?;
        links.push(FileLink { ends: [(name_a, at_a), (name_b, at_b)], lost });
    }
    set_interfaces(&mut nodes, &links);
    let all = nodes.hosts.iter().chain(&nodes.switches);
    if let Some(id) = all.filter(|node| node.interfaces.is_empty()).map(|node| node.id).min() {
        let besides = if header.nvlink > 0 { " besides NVLink" } else { "" };
        return Err(
            tokens.wrong(format!("node {id} has no link{besides}; each host and switch must have one"))
        );
    }
    let graph = edges.graph().map_err(|error| tokens.wrong(error.to_string()))?;
    let plan = graph.plan(build);
    let lossy = links.iter().filter(|link| link.lost > 0.0);
    let lossy =
        lossy.flat_map(|link| link.ends.map(|(name, interface)| (nodes.at(name, interface), link.lost)));
    let lossy = lossy.collect();
    let mut notes = Vec::new();
    if let Some(gpu) = header.gpu {
        notes.push(format!(
            "the topology is SimAI's: its {} NVLink switches and {omitted} NVLink links are left out, so flows within \
             a server take the network; the GPU type {gpu} has no effect",
            header.nvlink
        ));
    }
    let more = tokens.following(5);
    if more > 0 {
        notes.push(format!(
            "the topology announces {} links, and {more} more follow, which are not read",
            header.links
        ));
    }
    Ok(Imported { plan, nodes, lossy, notes })
}

fn set_interfaces(nodes: &mut Nodes, links: &[FileLink]) {
    let mut ports = BTreeMap::<Name, Vec<(u32, u32)>>::new();
    for FileLink { ends: [a, b], .. } in links {
        for ((from, interface), (to, _)) in [(a, b), (b, a)] {
            let host = match to {
                Name::Host(host) => *host,
                Name::Switch(_) => u32::MAX,
            };
            ports.entry(*from).or_default().push((host, *interface));
        }
    }
    for (name, mut ports) in ports {
        ports.sort_unstable();
        let node = match name {
            Name::Host(host) => &mut nodes.hosts[host as usize],
            Name::Switch(switch) => &mut nodes.switches[switch as usize],
        };
        node.interfaces = ports.into_iter().map(|(_, interface)| interface).collect();
    }
}

fn no_node(id: u32, count: u32) -> String {
    format!("node {id} does not exist; nodes are numbered from 0 to {}", count.saturating_sub(1))
}

fn describe(nodes: &Nodes, error: &EdgeError) -> String {
    match *error {
        EdgeError::Ports { node, .. } => {
            format!("node {} has more than {} links", nodes.node(node).id, node.links_max())
        }
        _ => "the link connects two hosts, or a switch with itself; a link must connect two switches, or a switch and a host".into(),
    }
}

// Tests for SPECIFICATION.md: sim-fabrics
#[cfg(test)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;
    use crate::ends::Line;
    use crate::time::Picos;

    const TOPOLOGY: &str =
        "5 2 4\n4 1\n1 4 400Gbps 1us 0\n2 1 100Gbps 0.001ms 0\n0 1 25Gb/s 500ns 0.25\n4 3 1GBps 2us 0\n";

    fn read(text: &str) -> Result<Imported, String> {
        topology(text, &Build::ideal()).map_err(|error| error.to_string())
    }

    #[test]
    fn hpcc_topology_file_yields_nodes_lines_and_interfaces() {
        let made = read(TOPOLOGY).expect("the topology must be valid");
        let (plan, nodes) = (&made.plan, &made.nodes);
        assert_eq!((plan.hosts(), plan.switches(), plan.check()), (3, 2, Ok(())));
        assert_eq!([0, 1, 2].map(|host| nodes.id(At::Host(host, 0))), [0, 2, 3]);
        assert_eq!([0, 1].map(|switch| nodes.id(At::Switch(switch, 0))), [1, 4]);
        assert_eq!([0, 1, 2].map(|port| nodes.interface(At::Switch(0, port))), [3, 2, 1]);
        assert_eq!([0, 1].map(|port| nodes.interface(At::Switch(1, port))), [2, 1]);
        let line = |gbps, nanos| Line { rate: BitRate::from_gbps(gbps), delay: Picos::from_nanos(nanos) };
        let of = |from: At| {
            plan.links().iter().find(|(a, b, _)| *a == from || *b == from).expect("the host has no link").2
        };
        assert_eq!(of(At::Host(0, 0)), line(25, 500));
        assert_eq!(of(At::Host(1, 0)), line(100, 1_000));
        assert_eq!(of(At::Host(2, 0)), line(8, 2_000));
        assert_eq!(of(At::Switch(1, 1)), line(400, 1_000));
        assert_eq!(made.lossy, [(At::Host(0, 0), 0.25), (At::Switch(0, 0), 0.25)]);
    }

    #[test]
    fn dual_homed_hosts_have_a_port_per_link() {
        let line = |ends: &str| format!("{ends} 25Gbps 1us 0\n");
        let links = ["0 3", "1 3", "0 4", "3 2", "4 2", "1 4", "0 3"].map(line).concat();
        let made = read(&format!("5 3 7\n2 3 4\n{links}")).expect("the topology must be valid");
        assert_eq!((made.plan.hosts(), made.plan.check()), (2, Ok(())));
        let end =
            |a: At| made.plan.links().iter().find(|(from, ..)| *from == a).expect("a link is missing").1;
        let ends = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)].map(|(host, link)| end(At::Host(host, link)));
        assert_eq!(
            ends,
            [(1, 0), (2, 0), (1, 1), (1, 2), (2, 1)].map(|(switch, port)| At::Switch(switch, port))
        );
        assert_eq!([0, 1, 2].map(|port| made.nodes.interface(At::Switch(1, port))), [1, 4, 2]);
        assert_eq!([0, 1, 2].map(|link| made.nodes.interface(At::Host(0, link))), [1, 2, 3]);
    }

    /// Link 0 of each GPU leads to an NVLink switch.
    #[test]
    fn simai_topology_is_read_without_nvlink() {
        let text = include_str!("../tests/field/simai-header.txt");
        let made = read(text).expect("the topology must be valid");
        assert_eq!((made.plan.hosts(), made.plan.switches(), made.plan.check()), (4, 4, Ok(())));
        assert_eq!([0, 3].map(|switch| made.nodes.id(At::Switch(switch, 0))), [6, 9]);
        assert_eq!(made.nodes.interface(At::Host(3, 0)), 2);
        assert_eq!(
            made.notes,
            [
                "the topology is SimAI's: its 2 NVLink switches and 4 NVLink links are left out, so flows within a server \
              take the network; the GPU type A100 has no effect"
            ]
        );
        let flow = |from: u32| flows(&format!("1\n{from} 3 3 100 1000 2\n"), &made.nodes);
        assert!(flow(0).is_ok());
        let error = flow(5).expect_err("an NVLink switch must not send flows").to_string();
        assert_eq!(error, "line 2: node 5 is a switch; only hosts send and receive flows");
        let alone = read("3 2 1 0 2 H20\n2\n0 2 2400Gbps 0ms 0\n1 2 2400Gbps 0ms 0\n");
        assert_eq!(
            alone.err().as_deref(),
            Some("line 4: node 0 has no link besides NVLink; each host and switch must have one")
        );
    }

    #[test]
    fn topology_note_counts_links_beyond_announced_number() {
        let more = read(&format!("{TOPOLOGY}0 1 25Gb/s 500ns 0\nnumber of a link's ends: a and b\n"));
        assert_eq!(
            more.expect("the topology must be valid").notes,
            ["the topology announces 4 links, and 1 more follow, which are not read"]
        );
        assert!(read(TOPOLOGY).expect("the topology must be valid").notes.is_empty());
    }

    #[test]
    fn error_for_invalid_hpcc_topology_names_the_line() {
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
        let hosts: String =
            (0..4_000).map(|host| format!("{host} {} {line}", 4_000 + host / 1_000)).collect();
        let many = why(&format!("4004 4 4000\n4000 4001 4002 4003\n{hosts}"));
        assert_eq!(many, "line 259: node 4000 has more than 256 links");
        let few = why(&format!("4 1 2\n0\n1 0 {line}2 0 {line}"));
        assert_eq!(few, "line 4: node 3 has no link; each host and switch must have one");
    }
}

use std::collections::BTreeMap;

use toml_span::Span;
use xoff_config::Problem;
use xoff_config::reader::{Problems, closest};
use xoff_wire::units::BitRate;

use super::keys::{EndName, File, HostKeys, HostsKey};
use super::{End, Link, Place};
use crate::line::Impairment;

pub(super) const SPEED: BitRate = BitRate::from_gbps(1);
pub(super) const MTU: u32 = xoff_config::defaults::MTU;
pub(super) const DEVICES_MAX: u16 = u16::MAX - 1;

#[derive(Debug)]
pub(super) struct HostName {
    pub(super) name: String,
    pub(super) span: Span,
    nth: usize,
    pub(super) table: Option<usize>,
    pub(super) links: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) link: usize,
    pub(super) span: Span,
}

#[derive(Clone, Copy)]
enum NodeIndex {
    Host(usize),
    Switch(usize),
}

struct PlannedWire {
    ends: [EndName; 2],
    speed: BitRate,
    mtu: u32,
    line: Option<[Impairment; 2]>,
    span: Span,
}

#[derive(Debug, Default)]
pub(super) struct Wiring {
    pub(super) hosts: Vec<HostName>,
    pub(super) ports: Vec<Vec<Port>>,
    pub(super) wires: Vec<Link>,
    pub(super) segments: Vec<usize>,
    pub(super) closing: Vec<(usize, Span)>,
}

impl Wiring {
    pub(super) fn of(file: &File, problems: &mut Problems) -> Wiring {
        let mut planned = Vec::new();
        let mut wiring = Wiring { ports: vec![Vec::new(); file.switches.len()], ..Wiring::default() };
        wiring.hosts = hosts(file, &mut planned, problems);
        planned.extend(links(file, problems));
        planned.sort_by_key(|wire| wire.span.start);
        let Some(nodes) = wiring.nodes(file, problems) else { return wiring };
        let mut islands: Vec<usize> = (0..file.switches.len()).collect();
        for wire in planned {
            wiring.add(&wire, file, &nodes, &mut islands, problems);
        }
        wiring.number_segments(&islands);
        if problems.has_errors() {
            return wiring; // wires may be missing only because of errors reported above
        }
        for host in wiring.hosts.iter().filter(|host| host.links.is_empty()) {
            problems.push(
                Problem::error(format!("host {:?} has no wire", host.name))
                    .at(host.span, "without a wire")
                    .help(
                        "give the host `switch = \"s1\"`, or connect the host to another node by a [[link]]",
                    ),
            );
        }
        let unused = file.switches.iter().zip(&wiring.ports).filter(|(_, ports)| ports.is_empty());
        for (switch, _) in unused {
            let name = switch.name.as_ref().map_or("", |name| &name.value);
            problems.push(
                Problem::error(format!("switch {name:?} has no wire"))
                    .at(heading(switch.span), "without a wire")
                    .help("give the switch `hosts = 2`, or connect the switch to another node by a [[link]]"),
            );
        }
        wiring.warn_of_parts(file, problems);
        wiring
    }

    fn warn_of_parts(&self, file: &File, problems: &mut Problems) {
        let hosts = self.hosts.len();
        let mut parts: Vec<usize> = (0..hosts + file.switches.len()).collect();
        let node = |end: &End| match *end {
            End::Host { host, .. } => host,
            End::Port { switch, .. } => hosts + switch,
        };
        for link in &self.wires {
            let [from, to] = link.ends.each_ref().map(|end| parts[node(end)]);
            parts.iter_mut().filter(|part| **part == from).for_each(|part| *part = to);
        }
        let name = |switch: usize| file.switches[switch].name.as_ref().map_or("", |name| name.value.as_str());
        let apart = (1..file.switches.len()).filter(|switch| parts[hosts + switch] != parts[hosts]);
        for switch in apart.filter(|switch| !parts[hosts..hosts + switch].contains(&parts[hosts + switch])) {
            let (first, other) = (name(0), name(switch));
            problems.push(
                Problem::warning(format!("no link connects switch {other:?} to switch {first:?}"))
                    .at(heading(file.switches[switch].span), "not connected to any switch listed above it")
                    .help(format!("add a link: [[link]] with between = [{first:?}, {other:?}]")),
            );
        }
    }

    fn nodes(&self, file: &File, problems: &mut Problems) -> Option<BTreeMap<String, NodeIndex>> {
        let (mut nodes, mut distinct) = (BTreeMap::new(), true);
        let mut first_spans: BTreeMap<String, Span> = BTreeMap::new();
        let switches = file.switches.iter().enumerate();
        let switches =
            switches.filter_map(|(index, switch)| Some((switch.name.as_ref()?, NodeIndex::Switch(index))));
        let switches = switches.map(|(name, node)| (name.value.clone(), name.span, node));
        let hosts = self.hosts.iter().enumerate();
        let hosts = hosts.map(|(index, host)| (host.name.clone(), host.span, NodeIndex::Host(index)));
        for (name, span, node) in switches.chain(hosts) {
            // Node names that give the same environment variable count as equal.
            let key = variable(&name);
            match first_spans.get(&key) {
                Some(&first) => {
                    distinct = false;
                    problems.push(
                        Problem::error(format!("two nodes have the name {name:?}, or nearly the same name"))
                            .at(span, "given again")
                            .at(first, "first given here")
                            .help("rename one node: names that differ only in case, or in '-' and '_', count as equal"),
                    );
                }
                None => {
                    first_spans.insert(key, span);
                    nodes.insert(name, node);
                }
            }
        }
        distinct.then_some(nodes)
    }

    fn add(
        &mut self,
        wire: &PlannedWire,
        file: &File,
        nodes: &BTreeMap<String, NodeIndex>,
        islands: &mut [usize],
        problems: &mut Problems,
    ) {
        let [Some(a), Some(b)] = [0, 1].map(|end| find_node(&wire.ends[end], wire.span, nodes, problems))
        else {
            return;
        };
        if let (NodeIndex::Switch(from), NodeIndex::Switch(to)) = (a, b) {
            let (from, to) = (islands[from], islands[to]);
            if from == to {
                self.closing.push((self.wires.len(), wire.span));
            }
            islands.iter_mut().filter(|island| **island == from).for_each(|island| *island = to);
        }
        let link = self.wires.len();
        let ends = [(a, 0, 1), (b, 1, 0)].map(|(node, near, far)| {
            self.end(node, &wire.ends[near], &wire.ends[far].node, (link, wire.span), file, problems)
        });
        self.wires.push(Link { ends, speed: wire.speed, mtu: wire.mtu, line: wire.line });
    }

    fn end(
        &mut self,
        node: NodeIndex,
        named: &EndName,
        far: &str,
        (link, span): (usize, Span),
        file: &File,
        problems: &mut Problems,
    ) -> End {
        match node {
            NodeIndex::Host(host) => {
                let of = &mut self.hosts[host];
                if let Some(port) = &named.port {
                    problems.push(
                        Problem::error(format!(
                            "{} is a host; only switches have ports such as {port:?}",
                            of.name
                        ))
                        .at(span, "port of a host")
                        .help(format!(
                            "write {:?} alone; the lab names devices of hosts eth0, eth1, ...",
                            of.name
                        )),
                    );
                }
                let place = of.table.map_or(&Place::Fresh, |table| &file.hosts[table].place);
                if let (Place::Tap(tap), false) = (place, of.links.is_empty()) {
                    problems.push(
                        Problem::error(format!(
                            "host {:?} has two wires, but a virtual machine behind one TAP device can have only one",
                            of.name
                        ))
                        .at(span, "second wire")
                        .help(format!(
                            "remove a wire of {tap}, or add a second host with a second TAP device"
                        )),
                    );
                }
                of.links.push(link);
                End::Host { host, interface: of.links.len() - 1 }
            }
            NodeIndex::Switch(switch) => {
                let ports = &mut self.ports[switch];
                let find = |name: &str| ports.iter().position(|port| port.name == name);
                let name = match &named.port {
                    Some(port) => port.clone(),
                    None => {
                        let numbered = (2..).map(|number| format!("{far:.11}-{number}"));
                        let mut names = std::iter::once(far.to_owned()).chain(numbered);
                        names.find(|name| find(name).is_none()).expect("some port name must be free")
                    }
                };
                if let Some(port) = find(&name) {
                    problems.push(
                        Problem::error(format!("two wires lead to port {}:{name}", named.node))
                            .at(span, "second wire")
                            .at(ports[port].span, "first wire")
                            .help("give each wire its own port name, or none: the lab then chooses one"),
                    );
                    return End::Port { switch, port };
                }
                ports.push(Port { name, link, span });
                End::Port { switch, port: ports.len() - 1 }
            }
        }
    }

    fn number_segments(&mut self, islands: &[usize]) {
        let mut domains: Vec<Option<usize>> = Vec::new();
        for link in &self.wires {
            let island = link.ends.iter().find_map(|end| match end {
                End::Port { switch, .. } => Some(islands[*switch]),
                End::Host { .. } => None,
            });
            let before = island.and_then(|_| domains.iter().position(|other| *other == island));
            self.segments.push(before.unwrap_or_else(|| {
                domains.push(island);
                domains.len() - 1
            }));
        }
    }
}

#[must_use]
pub fn variable(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

fn heading(span: Span) -> Span {
    Span::new(span.start, span.end.min(span.start + 10))
}

fn find_node(
    end: &EndName,
    span: Span,
    nodes: &BTreeMap<String, NodeIndex>,
    problems: &mut Problems,
) -> Option<NodeIndex> {
    let node = nodes.get(&end.node).copied();
    if node.is_none() {
        let names: Vec<&str> = nodes.keys().map(String::as_str).collect();
        let help = match closest(&end.node, &names) {
            Some(close) => format!("did you mean {close:?}?"),
            None if names.is_empty() => "add a [[switch]] and hosts to the network".into(),
            None => {
                format!("nodes of this network: {}; a [[host]] or [[switch]] adds another", names.join(", "))
            }
        };
        problems.push(
            Problem::error(format!("there is no node {:?}", end.node)).at(span, "unknown node").help(help),
        );
    }
    node
}

fn hosts(file: &File, planned: &mut Vec<PlannedWire>, problems: &mut Problems) -> Vec<HostName> {
    let speed = file.defaults.speed.as_ref().map_or(SPEED, |speed| speed.value);
    let mtu = file.defaults.mtu.as_ref().map_or(MTU, |mtu| mtu.value);
    let mut hosts: Vec<HostName> = Vec::new();
    for (index, host) in file.hosts.iter().enumerate() {
        let Some(name) = &host.keys.name else { continue };
        if let Some(switch) = &host.keys.switch {
            let ends = [EndName { node: name.value.clone(), port: None }, switch.value.clone()];
            let speed = host.keys.speed.as_ref().map_or(speed, |speed| speed.value);
            let mtu = host.keys.mtu.as_ref().map_or(mtu, |mtu| mtu.value);
            let line = host.keys.line().or(file.defaults.line()).line(None);
            unused_line_keys(
                line,
                host.keys.mac_control.as_ref().map(|key| key.span),
                "mac_control",
                problems,
            );
            planned.push(PlannedWire { ends, speed, mtu, line, span: switch.span });
        }
        let name = HostName {
            name: name.value.clone(),
            span: name.span,
            nth: 0,
            table: Some(index),
            links: Vec::new(),
        };
        hosts.push(name);
    }
    let mut number = 0_u16;
    for switch in &file.switches {
        let (Some(name), Some(key)) = (&switch.name, &switch.hosts) else { continue };
        let named: Vec<(String, Span)> = match &key.value {
            HostsKey::Names(names) => names.clone(),
            HostsKey::Count(count) => {
                let Some(last) = number.checked_add(*count).filter(|last| *last <= DEVICES_MAX) else {
                    problems.push(
                        Problem::error(format!("the network has more than {DEVICES_MAX} hosts"))
                            .at(key.span, "too many hosts for the available addresses")
                            .help("divide the network into several labs"),
                    );
                    planned.clear();
                    return Vec::new();
                };
                let numbers = number + 1..=last;
                number = last;
                numbers.map(|number| (format!("h{number}"), key.span)).collect()
            }
        };
        for (nth, (host, span)) in named.into_iter().enumerate() {
            let table = hosts.iter_mut().find(|entry| entry.name == host && entry.table.is_some());
            let of = table.as_ref().and_then(|entry| entry.table).map(|table| &file.hosts[table].keys);
            if let Some(twice) = of.and_then(|keys| keys.switch.as_ref()) {
                problems.push(
                    Problem::error(format!("host {host:?} is connected by `switch` and by `hosts`"))
                        .at(twice.span, "connected by `switch` here")
                        .at(span, "connected by `hosts` here")
                        .help("remove one of these keys; for a second wire of the host add a [[link]]"),
                );
            }
            let speed = of.and_then(|keys| keys.speed.as_ref()).map_or(speed, |speed| speed.value);
            let mtu = of.and_then(|keys| keys.mtu.as_ref()).map_or(mtu, |mtu| mtu.value);
            let ends = [&host, &name.value].map(|node| EndName { node: node.clone(), port: None });
            let line = of.map(HostKeys::line).unwrap_or_default().or(file.defaults.line()).line(None);
            let mac_control = of.and_then(|keys| keys.mac_control.as_ref());
            unused_line_keys(line, mac_control.map(|key| key.span), "mac_control", problems);
            planned.push(PlannedWire { ends, speed, mtu, line, span });
            match table {
                Some(entry) if entry.span.start > span.start => (entry.span, entry.nth) = (span, nth),
                Some(_) => {}
                None => hosts.push(HostName { name: host, span, nth, table: None, links: Vec::new() }),
            }
        }
    }
    hosts.sort_by_key(|host| (host.span.start, host.nth));
    hosts
}

fn links(file: &File, problems: &mut Problems) -> Vec<PlannedWire> {
    let speed = file.defaults.speed.as_ref().map_or(SPEED, |speed| speed.value);
    let mtu = file.defaults.mtu.as_ref().map_or(MTU, |mtu| mtu.value);
    let planned = file.links.iter().filter_map(|link| {
        let between = link.between.as_ref()?;
        let from = link.from.as_ref().and_then(|from| {
            let end = between.value.iter().position(|end| end.node == from.value);
            if end.is_none() {
                let [a, b] = &between.value;
                problems.push(
                    Problem::error(format!("{:?} is no end of this link", from.value))
                        .at(from.span, "unknown end")
                        .help(format!("write {:?} or {:?}, or remove the key", a.node, b.node)),
                );
            }
            end
        });
        let line = link.line().or(file.defaults.line()).line(from);
        unused_line_keys(line, link.mac_control.as_ref().map(|key| key.span), "mac_control", problems);
        unused_line_keys(line, link.from.as_ref().map(|key| key.span), "from", problems);
        Some(PlannedWire {
            ends: between.value.clone(),
            speed: link.speed.as_ref().map_or(speed, |speed| speed.value),
            mtu: link.mtu.as_ref().map_or(mtu, |mtu| mtu.value),
            line,
            span: between.span,
        })
    });
    planned.collect()
}

fn unused_line_keys(line: Option<[Impairment; 2]>, span: Option<Span>, key: &str, problems: &mut Problems) {
    let Some(span) = span.filter(|_| line.is_none()) else { return };
    problems.push(
        Problem::warning(format!("`{key}` has no effect without `delay`, `jitter` or `loss`"))
            .at(span, "without effect")
            .help(format!("add one of these keys, such as delay = \"0s\", or remove `{key}`")),
    );
}

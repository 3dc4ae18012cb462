//! Writes results in the formats of HPCC's ns-3 simulator.
//!
//! | file | a line |
//! |---|---|
//! | `fct` | hexadecimal addresses of sender and receiver, their ports, bytes; in ns: start, completion time, and ideal completion time |
//! | `pfc` | time in ns, node, 0 for a host and 1 for a switch, interface, 1 for a pause and 0 for its end, as received there |
//! | `qlen` | `time: ` and ns; then for each interface of a switch its node, its number, and sample counts for queues of 0, 1, 2.. kB |
//!
//! docs/simulation.md lists the differences.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use xoff_sim::flows::FlowRecord;
use xoff_sim::{At, Pace, Picos};
use xoff_wire::units::{Bytes, Class, PortId};

use super::build::{AnyFabric, Import};
use super::pauses::Pauses;

const PORT_FIRST: u32 = 10_000;
const PAUSE_LEN: u32 = 60;
const LENGTH_STEP: u64 = 1_000;

#[derive(Debug, Default)]
pub struct QueueLengths {
    last: Picos,
    counts: Vec<Vec<Vec<u32>>>,
}

impl QueueLengths {
    pub fn sample(&mut self, fabric: &AnyFabric, now: Picos) {
        let switches = fabric.fabric().switches();
        self.last = now;
        self.counts.resize_with(switches.len(), Vec::new);
        for (switch, counts) in switches.iter().zip(&mut self.counts) {
            let counters = switch.counters();
            counts.resize_with(counters.ports(), Vec::new);
            for (port, counts) in (0..=u8::MAX).map(PortId).zip(counts) {
                let of_class = |class| counters.class(port, class).egress_bytes.get();
                let bytes: u64 = Class::ALL.into_iter().map(of_class).sum();
                let step =
                    usize::try_from(bytes / LENGTH_STEP).expect("the length of a queue must fit into usize");
                counts.resize(counts.len().max(step + 1), 0);
                counts[step] += 1;
            }
        }
    }
}

pub fn texts(
    import: &Import,
    records: &[FlowRecord],
    pauses: &[Pauses],
    lengths: &QueueLengths,
) -> Vec<(&'static str, String)> {
    let [fct, pfc, qlen] = NAMES;
    vec![(fct, flows(import, records)), (pfc, pfcs(import, pauses)), (qlen, queues(import, lengths))]
}

pub const NAMES: [&str; 3] = ["fct", "pfc", "qlen"];

fn address(node: u32) -> u32 {
    0x0b00_0001 + (node / 256) * 0x1_0000 + (node % 256) * 0x100
}

fn flows(import: &Import, records: &[FlowRecord]) -> String {
    let mut next_port: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut next_of_load = vec![0; import.ports.len()];
    let mut lines = Vec::new();
    for record in records {
        let [from, to] = [record.from, record.to].map(|host| import.nodes.id(At::Host(host, 0)));
        let port_from = next_port.entry((from, to)).or_insert(PORT_FIRST);
        let place = usize::from(record.tag);
        let port_to = import.ports[place].get(next_of_load[place]).copied().unwrap_or(0);
        next_of_load[place] += 1;
        if let Some((finish, took)) = record.finish.zip(record.took()) {
            let [start, took, alone] = [record.start, took, record.ideal].map(|time| time.floor().0);
            let (sender, receiver) = (address(from), address(to));
            let line = format!(
                "{sender:08x} {receiver:08x} {port_from} {port_to} {} {start} {took} {alone}\n",
                record.bytes
            );
            lines.push((finish, line));
        }
        *port_from += 1;
    }
    lines.sort_by_key(|(finish, _)| *finish);
    lines.into_iter().map(|(_, line)| line).collect()
}

fn pfcs(import: &Import, pauses: &[Pauses]) -> String {
    let mut lines = Vec::new();
    for (switch, pauses) in pauses.iter().enumerate() {
        for pause in pauses.all() {
            let (peer, line) = import.ends[switch][pause.port.index()];
            let on_the_way = Pace::of(line.rate).time_of(Bytes::on_line(PAUSE_LEN)).after(line.delay);
            let kind = u8::from(matches!(peer, At::Switch(..)));
            let (node, interface) = (import.nodes.id(peer), import.nodes.interface(peer));
            let events = [(Some(pause.start), 1), (pause.end, 0)];
            for (at, what) in events.into_iter().filter_map(|(at, what)| Some((at?, what))) {
                let time = Picos::from(at).after(on_the_way).floor().0;
                lines.push((time, format!("{time} {node} {kind} {interface} {what}\n")));
            }
        }
    }
    lines.sort_by_key(|(time, _)| *time);
    lines.into_iter().map(|(_, line)| line).collect()
}

fn queues(import: &Import, lengths: &QueueLengths) -> String {
    let mut all = BTreeMap::new();
    for (switch, ports) in (0..).zip(&lengths.counts) {
        for (port, counts) in (0..=u8::MAX).zip(ports) {
            let at = At::Switch(switch, port);
            all.insert((import.nodes.id(at), import.nodes.interface(at)), counts);
        }
    }
    let mut text = String::new();
    if !all.is_empty() {
        let _ = writeln!(text, "time: {}", lengths.last.floor().0);
    }
    for ((node, interface), counts) in all {
        let _ = write!(text, "{node} {interface}");
        counts.iter().for_each(|count| _ = write!(text, " {count}"));
        text.push('\n');
    }
    text
}

use std::collections::BTreeSet;
use std::path::PathBuf;

use toml_span::{Spanned, Value};
use xoff_config::reader::{Parsed, Problems, Table, parse, value};
use xoff_config::{Choice, Problem, SpreadKind, defaults};
use xoff_flow_control::settings::Spread;
use xoff_sim::scheduled::Scheduled;
use xoff_wire::units::{BitRate, Nanos};

use super::keys::{file, kinds};
use super::of_kind;

pub(super) const DELAY: Nanos = Nanos(500);
pub(super) const RATE: BitRate = BitRate::from_gbps(100);

// Defaults from the paper on QCN at the inputs (section II); `SPINE_BUFFER` counts cells of an input or output buffer,
// the others bytes.
const CELL: u32 = 256;
const OUTPUT_BUFFER: u32 = 150_000;
const SPINE_BUFFER: u8 = 16;

xoff_config::keys! {
    struct TopologyKeys {
        kind: TopologyKind = parse::choice(TopologyKind::WORDS);
        hosts: u32 = parse::integer(1..=65_536);
        switches: u32 = parse::integer(1..=4_096);
        k: u8 = parse::integer(4..=128);
        pods: u32 = parse::integer(1..=128);
        edges: u32 = parse::integer(1..=128);
        aggregations: u32 = parse::integer(1..=128);
        cores: u32 = parse::integer(1..=4_096);
        leaves: u32 = parse::integer(1..=256);
        spines: u32 = parse::integer(1..=256);
        rate: BitRate = parse::rate;
        delay: Nanos = parse::time(Nanos::ZERO..=Nanos::from_millis(5));
        host_rate: BitRate = parse::rate;
        host_delay: Nanos = parse::time(Nanos::ZERO..=Nanos::from_millis(5));
        core_rate: BitRate = parse::rate;
        core_delay: Nanos = parse::time(Nanos::ZERO..=Nanos::from_millis(5));
        failed: Vec<(u8, u8)> = lines;
        spread: SpreadKind = parse::choice(SpreadKind::WORDS);
        routed: bool = parse::boolean;
        cell: u32 = parse::integer(64..=4_096);
        credits: u32 = parse::integer(1..=65_536);
        spine_buffer: u8 = parse::integer(1..=255);
        file: PathBuf = file;
    }
}

fn lines(value: &Value<'_>) -> Parsed<Vec<(u8, u8)>> {
    let number = parse::integer(0..=u8::MAX);
    let pair = |entry: &Value<'_>| match parse::list(entry, &number).as_deref() {
        Some(&[leaf, spine]) => Ok((leaf, spine)),
        _ => Err(String::new()),
    };
    parse::list(value, pair)
        .ok_or_else(|| "a list of lines by leaf and spine, such as [[2, 1], [3, 0]]".into())
}

kinds! {
    TopologyKind {
        Single = "single", ["hosts"], [];
        Chain = "chain", ["switches"], [];
        Dumbbell = "dumbbell", ["hosts"], ["host_rate", "host_delay"];
        Ring = "ring", ["switches"], ["host_rate", "host_delay"];
        OfcFig1 = "ofc-fig1", [], [];
        LeafSpine = "leaf-spine", ["leaves", "spines", "hosts"], ["host_rate", "host_delay", "failed", "spread"];
        Scheduled = "scheduled", ["leaves", "spines", "hosts"],
            ["host_rate", "host_delay", "cell", "credits", "spine_buffer"];
        FatTree = "fat-tree", [],
            ["k", "pods", "edges", "aggregations", "cores", "hosts", "host_rate", "host_delay", "core_rate", "core_delay", "spread"];
        Edges = "edges", ["file"], ["spread"];
        Hpcc = "hpcc", ["file"], ["spread"];
    }
}

impl TopologyKind {
    pub const fn switches(self) -> &'static [&'static str] {
        match self {
            TopologyKind::LeafSpine | TopologyKind::Scheduled => &["leaf", "spine"],
            TopologyKind::FatTree => &["edge", "aggregation", "core"],
            _ => &["switch"],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortLine {
    pub rate: BitRate,
    pub delay: Nanos,
    pub ofc: bool,
    pub gfc: bool,
}

/// Settings of `[topology]`; keys that its kind lacks have their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    pub kind: TopologyKind,
    /// Hosts at the single switch, on each side, or at each leaf or edge switch.
    pub hosts: u32,
    pub switches: u32,
    pub leaves: u32,
    pub spines: u32,
    pub pods: u32,
    pub edges: u32,
    pub aggregations: u32,
    pub cores: u32,
    pub host: PortLine,
    pub fabric: PortLine,
    pub core: PortLine,
    pub spread: Spread,
    pub routed: bool,
    /// Maximum frame bytes in a cell; `credits` and `spine_buffer` count cells.
    pub cell: u32,
    pub credits: u32,
    pub spine_buffer: u8,
    pub failed: Vec<(u8, u8)>,
    pub file: PathBuf,
}

impl Topology {
    pub fn scheduled(&self) -> Option<Scheduled> {
        let few = |count: u32| u8::try_from(count).unwrap_or(u8::MAX);
        (self.kind == TopologyKind::Scheduled).then(|| Scheduled {
            leaves: few(self.leaves),
            spines: few(self.spines),
            hosts: few(self.hosts),
            cell: self.cell,
            credits: self.credits,
            spine_buffer: self.spine_buffer,
        })
    }
}

pub(super) fn read(table: &Table<'_, '_>, problems: &mut Problems) -> Option<Topology> {
    table.no_others(&[TopologyKeys::KEYS], problems);
    let keys = TopologyKeys::read(table, problems);
    let Some(kind) = &keys.kind else {
        if table.value("kind").is_none() {
            problems.push(Problem::missing("[topology]", "kind", "kind = \"leaf-spine\"", table.span));
        }
        return None;
    };
    let kind = kind.value;
    let (required, optional) = kind.keys();
    let is_of_file = matches!(kind, TopologyKind::Edges | TopologyKind::Hpcc);
    let lines: &[&str] = if is_of_file { &["kind"] } else { &["kind", "rate", "delay"] };
    let routed: &[&str] = if kind == TopologyKind::Scheduled { &[] } else { &["routed"] };
    let optional = [optional, lines, routed].concat();
    of_kind(table, "[topology]", kind.word(), TopologyKeys::KEYS, (required, &optional), problems);
    let line = |rate: &Option<Spanned<BitRate>>, delay: &Option<Spanned<Nanos>>| {
        let (all_rate, all_delay) = (value(keys.rate.as_ref(), RATE), value(keys.delay.as_ref(), DELAY));
        let [rate, delay] =
            [value(rate.as_ref(), all_rate).bits_per_second(), value(delay.as_ref(), all_delay).0];
        let rate = BitRate::new(rate).unwrap_or(all_rate);
        PortLine { rate, delay: Nanos(delay), ofc: false, gfc: false }
    };
    let trunk = |line: PortLine| PortLine { ofc: true, gfc: true, ..line };
    let number = |key: &Option<Spanned<u32>>, default: u32| value(key.as_ref(), default);
    let half = fat_tree_half(&keys, kind, problems);
    let fat = kind == TopologyKind::FatTree;
    let cell = value(keys.cell.as_ref(), CELL);
    Some(Topology {
        kind,
        hosts: number(&keys.hosts, if fat { half } else { 1 }),
        switches: number(&keys.switches, 1),
        leaves: number(&keys.leaves, 1),
        spines: number(&keys.spines, 1),
        pods: number(&keys.pods, 2 * half),
        edges: number(&keys.edges, half),
        aggregations: number(&keys.aggregations, half),
        cores: number(&keys.cores, half * half),
        host: line(&keys.host_rate, &keys.host_delay),
        fabric: trunk(line(&None, &None)),
        core: trunk(line(&keys.core_rate, &keys.core_delay)),
        failed: failed(&keys, problems),
        file: value(keys.file.as_ref(), PathBuf::new()),
        routed: value(keys.routed.as_ref(), false),
        cell,
        credits: value(keys.credits.as_ref(), OUTPUT_BUFFER.div_ceil(cell)),
        spine_buffer: value(keys.spine_buffer.as_ref(), SPINE_BUFFER),
        spread: match value(keys.spread.as_ref(), SpreadKind::Flow) {
            SpreadKind::Flow => Spread::Flow,
            SpreadKind::Frame => Spread::Frame(Default::default()),
            SpreadKind::Adaptive => {
                Spread::Adaptive { low: defaults::SPREAD_LOW, high: defaults::SPREAD_HIGH }
            }
        },
    })
}

fn failed(keys: &TopologyKeys, problems: &mut Problems) -> Vec<(u8, u8)> {
    let Some(failed) = &keys.failed else { return Vec::new() };
    let [leaves, spines] = [&keys.leaves, &keys.spines].map(|count| value(count.as_ref(), 0));
    let is_one = |(leaf, spine): &&(u8, u8)| u32::from(*leaf) < leaves && u32::from(*spine) < spines;
    if let Some((leaf, spine)) = failed.value.iter().find(|line| !is_one(line)) {
        problems.push(
            Problem::error(format!("there is no line from leaf {leaf} to spine {spine}"))
                .at(failed.span, "no such line")
                .help("leaves and spines are numbered from 0"),
        );
    }
    let fails = |spine: &u32| {
        let lines = failed.value.iter().filter(|(_, of)| u32::from(*of) == *spine);
        lines.map(|(leaf, _)| leaf).collect::<BTreeSet<_>>().len() == leaves as usize
    };
    if let Some(spine) = (0..spines).find(|spine| leaves > 0 && fails(spine)) {
        problems.push(
            Problem::error(format!("all lines of spine {spine} have failed"))
                .at(failed.span, "spine without lines")
                .help("keep at least one line of this spine, or remove the spine"),
        );
    }
    failed.value.clone()
}

fn fat_tree_half(keys: &TopologyKeys, kind: TopologyKind, problems: &mut Problems) -> u32 {
    if kind != TopologyKind::FatTree {
        return 1;
    }
    let counts = [
        ("pods", &keys.pods),
        ("edges", &keys.edges),
        ("aggregations", &keys.aggregations),
        ("cores", &keys.cores),
        ("hosts", &keys.hosts),
    ];
    match &keys.k {
        Some(k) => {
            if k.value % 2 == 1 {
                problems.push(
                    Problem::error(format!("`k` is {}, but has to be even", k.value))
                        .at(k.span, "odd number of ports"),
                );
            }
            u32::from(k.value / 2)
        }
        None => {
            let absent: Vec<&str> =
                counts.iter().filter(|(_, key)| key.is_none()).map(|(name, _)| *name).collect();
            if !absent.is_empty()
                && let Some(kind) = &keys.kind
            {
                problems.push(
                    Problem::error(format!("a fat-tree needs `k`, or {}", absent.join(", ")))
                        .at(kind.span, "size is missing")
                        .help("k = 8 makes 8 pods of 4 edge and 4 aggregation switches, 16 core switches, and 4 hosts at each edge switch"),
                );
            }
            1
        }
    }
}

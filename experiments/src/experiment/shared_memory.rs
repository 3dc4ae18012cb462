//! Experiment `shared-memory`: CaPFC's evaluation of a switch with shared memory (section IV-B.7, scenario 1).

use std::time::Duration;

use fastrand::Rng;
use serde::Serialize;
use xoff_host::{STREAMS_MAX, Stream};
use xoff_wire::units::{Bytes, Class, Nanos};

use super::report::{NONE_COMPLETED, completion, ms, number, table_of};
use super::{
    Compared, Conduct, Experiment, Findings, Headline, Length, Promises, Request, Tell, Variant, compare,
    named,
};
use crate::plot::{Content, Figure, Panel};
use crate::statistics::Spread;
use crate::statistics::p50;
use crate::{Account, FabricError, HostId, Line, Load, Plan, Settings, Setup, lossless};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "shared-memory",
    about: "long flows, short messages and queries in a shared memory as in CaPFC's paper: completion times, losses",
    length: Length::Fixed(6),
    policies: &[
        "pfc-wdrop",
        "pfc-wstop",
        "capfc-max-wdrop",
        "capfc-max-wstop",
        "capfc-calibrate-wdrop",
        "capfc-calibrate-wstop",
    ],
    settings,
    plans: |_, line| vec![plan(line).0],
    routed: None,
    promises: Promises::Nobody,
    measure,
};

const HEADLINES: &[Headline<SharedMemoryResults>] = &[
    Headline::of("query, ms\nmedian", |of| p50(of.query.completion_ms)),
    Headline::of("query, ms\nmost", |of| Some(of.query.completion_ms?.max)),
    Headline::of("short, ms\nmedian", |of| p50(of.short.completion_ms)),
    Headline::of("short, ms\nmost", |of| Some(of.short.completion_ms?.max)),
    Headline::of("long, ms\nmost", |of| Some(of.long.completion_ms?.max)),
    Headline::of("frames lost", |of| Some(of.frames_lost as f64)),
];

const HOSTS: usize = 8;
const SEND: Nanos = Nanos::from_millis(3000);
const LONG_PERCENT: u64 = 30;
const SHORT_PERCENT: u64 = 15;
const QUERY_EVERY: Nanos = Nanos::from_millis(30);
const SIZES: [(&str, u64); 12] = [
    ("memory.pool", 350),
    ("memory.port_limit", 100),
    ("memory.egress_port_limit", 100),
    ("class.3.ingress_reserve", 8),
    ("class.3.xoff", 30 - 8),
    ("class.3.xon", 20 - 8),
    ("class.3.headroom", 58),
    ("class.3.egress_reserve", 8),
    ("class.3.egress_max", 88),
    ("class.3.egress_xoff", 50),
    ("class.3.egress_xon", 35),
    ("class.3.egress_warn", 35),
];
const SAMPLE_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Long,
    Query,
    Short,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Long, Kind::Query, Kind::Short];

    const fn class(self) -> Class {
        match self {
            Kind::Long => Class::ALL[2],
            Kind::Query => Class::ALL[3],
            Kind::Short => Class::ALL[4],
        }
    }

    fn frames(self, line: Line) -> u64 {
        let frames = match self {
            Kind::Long => 660,
            Kind::Query => 11,
            Kind::Short => 45,
        };
        line.size(Bytes(frames)).0.max(frames)
    }

    fn stream(self, line: Line, to: HostId, start: Nanos) -> Stream {
        let class = self.class();
        Stream { class, dscp: 8 * class.get(), start, count: Some(self.frames(line)), ..lossless(to) }
    }
}

#[derive(Debug, Serialize)]
struct FlowResults {
    completion_ms: Option<Spread>,
    broken: usize,
}

#[derive(Debug, Serialize)]
struct SharedMemoryResults {
    long: FlowResults,
    query: FlowResults,
    short: FlowResults,
    frames_lost: u64,
    xoff_sent: u64,
    held_ms: f64,
    port_bytes_peak: u64,
}

struct SharedMemoryRun {
    account: Account,
    load: Load,
    flows: Vec<DrawnFlow>,
    port_bytes_peak: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DrawnFlow {
    kind: Kind,
    from: HostId,
    to: HostId,
    stream: u8,
    start: Nanos,
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let conduct = |_: &Variant, runs: &[SharedMemoryRun]| -> Conduct {
        let classes = Kind::ALL.map(Kind::class);
        runs.iter().map(|run| Conduct::of_classes(&run.account, &classes)).sum()
    };
    let (findings, all) =
        compare(&EXPERIMENT, (request, tell), run, conduct, SharedMemoryResults::of, HEADLINES)?;
    Ok(findings.with(text(request, &all), figure(request, &all)))
}

/// Returns the settings of a policy. On slow lines, sizes equal the paper's: scaled ones could be smaller than a frame.
fn settings(variant: &Variant, line: Line) -> Settings {
    let size = |kilobytes: u64| line.size(Bytes(kilobytes * 1000)).max(Bytes(kilobytes * 1000));
    let mut settings = Settings::default();
    settings.set("defaults.lossless", &[2, 3, 4][..]).set("switch.when_full", "stop");
    settings.extend(&variant.settings(line));
    settings
        .set("switch.accounting", "until-forwarded")
        .set("memory.model", "shared")
        .set("memory.egress_limits", "all")
        .set("memory.headroom", "pool")
        .set("memory.alpha_log2", "none");
    for (key, kilobytes) in SIZES {
        settings.set(key, size(kilobytes));
    }
    settings.copy("class.3", "class.2").copy("class.3", "class.4").set("class.4.weight", "strict");
    settings
}

fn plan(line: Line) -> (Plan, Vec<HostId>) {
    let mut plan = Plan::new(line);
    let switch = plan.switch("switch");
    let hosts = (1..=HOSTS).map(|number| plan.host(&format!("host-{number}"), switch)).collect();
    (plan, hosts)
}

fn draw(line: Line, hosts: &[HostId], seed: u64) -> Vec<DrawnFlow> {
    numbered(drawn(line, hosts, seed), hosts)
}

type PlannedFlow = (Nanos, Kind, HostId, HostId);

fn drawn(line: Line, hosts: &[HostId], seed: u64) -> Vec<PlannedFlow> {
    let mut rng = Rng::with_seed(seed);
    let frame = line.time_of(Bytes::on_line(Stream::default().frame_len())).0;
    let mut drawn: Vec<PlannedFlow> = Vec::new();
    let send = line.span(SEND);
    for (kind, percent) in [(Kind::Long, LONG_PERCENT), (Kind::Short, SHORT_PERCENT)] {
        let interval = Nanos(frame * kind.frames(line) * 100 / percent);
        for &from in hosts {
            for start in arrivals(&mut rng, interval, send) {
                drawn.push((start, kind, from, other(&mut rng, hosts, from)));
            }
        }
    }
    for start in arrivals(&mut rng, line.span(QUERY_EVERY), send) {
        let client = hosts[rng.usize(..hosts.len())];
        let answers = hosts.iter().filter(|&&host| host != client);
        drawn.extend(answers.map(|&from| (start, Kind::Query, from, client)));
    }
    drawn.sort_by_key(|&(start, ..)| start);
    drawn
}

/// Numbers each host's flows; drops those beyond [`STREAMS_MAX`].
fn numbered(drawn: Vec<PlannedFlow>, hosts: &[HostId]) -> Vec<DrawnFlow> {
    let mut counts = vec![0; hosts.len()];
    let number = |(start, kind, from, to): PlannedFlow| {
        let count = &mut counts[hosts.iter().position(|&host| host == from)?];
        let stream = u8::try_from(*count).ok().filter(|_| *count < STREAMS_MAX)?;
        *count += 1;
        Some(DrawnFlow { kind, from, to, stream, start })
    };
    drawn.into_iter().filter_map(number).collect()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a float cast saturates
fn arrivals(rng: &mut Rng, interval: Nanos, until: Nanos) -> Vec<Nanos> {
    let mut times = Vec::new();
    let mut now = 0.0;
    loop {
        now -= (1.0 - rng.f64()).ln() * interval.0 as f64;
        if now >= until.0 as f64 {
            return times;
        }
        times.push(Nanos(now as u64));
    }
}

fn other(rng: &mut Rng, hosts: &[HostId], than: HostId) -> HostId {
    loop {
        let host = hosts[rng.usize(..hosts.len())];
        if host != than {
            return host;
        }
    }
}

fn run(setup: &Setup<'_>) -> Result<SharedMemoryRun, FabricError> {
    let line = setup.line;
    let (plan, hosts) = plan(line);
    let flows = draw(line, &hosts, setup.settings.seed);
    let mut load = Load::default();
    for flow in &flows {
        load.send(flow.from, flow.kind.stream(line, flow.to, flow.start));
    }
    let ports: Vec<_> = hosts.iter().map(|&host| plan.port_of(host)).collect();
    let fabric = setup.build(plan)?;
    let (port_bytes_peak, account) = fabric.run(&load, PATIENCE, |live| {
        let mut peak = 0;
        live.every(SAMPLE_EVERY, PATIENCE, |_| {
            let bytes = |&port: &_| -> u64 {
                Kind::ALL.iter().map(|kind| live.class(port, kind.class()).egress_bytes.get()).sum()
            };
            peak = ports.iter().map(bytes).max().unwrap_or(0).max(peak);
        });
        peak
    })?;
    Ok(SharedMemoryRun { account, load, flows, port_bytes_peak })
}

impl SharedMemoryRun {
    fn completions(&self, kind: Kind) -> impl Iterator<Item = Option<f64>> {
        self.flows.iter().filter(move |flow| flow.kind == kind).map(|flow| {
            let taken = self.load.completion(&self.account, flow.from, flow.to, flow.stream);
            taken.map(|taken| taken.0 as f64 / 1e6)
        })
    }
}

impl FlowResults {
    fn of(runs: &[SharedMemoryRun], kind: Kind) -> FlowResults {
        let all = || runs.iter().flat_map(|run| run.completions(kind));
        FlowResults {
            completion_ms: Spread::of(all().flatten()),
            broken: all().filter(Option::is_none).count(),
        }
    }
}

impl SharedMemoryResults {
    fn of(runs: &[SharedMemoryRun]) -> SharedMemoryResults {
        let each = || runs.iter().flat_map(|run| Kind::ALL.map(|kind| (run, kind.class())));
        let lost = |(run, class): (&SharedMemoryRun, Class)| {
            run.account.received(class).map(|of| of.lost).sum::<u64>()
        };
        let held: u64 = each().map(|(run, class)| run.account.sum(class, |of| &of.held_nanos)).sum();
        SharedMemoryResults {
            long: FlowResults::of(runs, Kind::Long),
            query: FlowResults::of(runs, Kind::Query),
            short: FlowResults::of(runs, Kind::Short),
            frames_lost: each().map(lost).sum(),
            xoff_sent: each().map(|(run, class)| run.account.sum(class, |of| &of.xoff_sent)).sum(),
            held_ms: held as f64 / 1e6,
            port_bytes_peak: runs.iter().map(|run| run.port_bytes_peak).max().unwrap_or(0),
        }
    }
}

type PolicyResults = [Compared<SharedMemoryRun, SharedMemoryResults>];

fn title(request: &Request) -> String {
    let line = request.line;
    format!(
        "Shared memory: {HOSTS} hosts, long flows, short messages and queries, {line} lines, runs: {}",
        request.runs
    )
}

fn text(request: &Request, all: &PolicyResults) -> String {
    let broken = |of: &SharedMemoryResults| {
        [of.query.broken, of.short.broken, of.long.broken].map(|count| count.to_string()).join(" / ")
    };
    let table = table_of(
        all.iter().map(Compared::row),
        &[
            ("queries, ms\nmin / p25 / p50 / p75 / max", &|of| completion(of.query.completion_ms, 1)),
            ("short messages, ms\nmin / p25 / p50 / p75 / max", &|of| completion(of.short.completion_ms, 1)),
            ("long flows, ms\nmin / p25 / p50 / p75 / max", &|of| completion(of.long.completion_ms, 0)),
            ("broken: query\n/ short / long", &broken),
            ("XOFF", &|of| of.xoff_sent.to_string()),
            ("hosts held\nms", &|of| number(of.held_ms, 0)),
            ("longest queue\nof a port, KB", &|of| number(of.port_bytes_peak as f64 / 1e3, 1)),
        ],
    );
    format!(
        "{}\n\n{table}\nFlows begin in the first {} ms. The totals below cover all three classes; here no policy promises losslessness.",
        title(request),
        ms(request.line.span(SEND))
    )
}

fn figure(request: &Request, all: &PolicyResults) -> Figure {
    let spreads = |title: &str, of: fn(&SharedMemoryResults) -> &FlowResults| {
        let content = Content::Spreads(named(all, |all| of(&all.measured).completion_ms));
        Panel::new(title, "completion time (ms)", "", content).absent(NONE_COMPLETED)
    };
    let bars = |title: &str, x: &str, of: fn(&SharedMemoryResults) -> f64| {
        Panel::new(title, x, "", Content::Spans(named(all, |all| vec![(0.0, of(&all.measured))])))
    };
    Figure {
        title: title(request),
        panels: vec![
            spreads("Queries, 16 KB from each of seven hosts at once", |of| &of.query),
            spreads("Short messages, 64 KB, served first", |of| &of.short),
            spreads("Long flows, 1 MB", |of| &of.long),
            bars("Hosts held", "pause time, all hosts and runs (ms)", |of| of.held_ms),
        ],
    }
}

// Tests for SPECIFICATION.md: experiments
#[cfg(test)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;

    #[test]
    fn shared_memory_load_with_same_seed_has_same_flows() {
        for line in [5, 100, 130, 1000].map(|mbps| Line::from(BitRate::from_mbps(mbps))) {
            let (_, hosts) = plan(line);
            let drawn = |seed| draw(line, &hosts, seed);
            assert_eq!(drawn(3), drawn(3));
            assert_ne!(drawn(3), drawn(4));
            let mut load = Load::default();
            for flow in drawn(5) {
                assert!(flow.from != flow.to && flow.start < SEND);
                load.send(flow.from, flow.kind.stream(line, flow.to, flow.start)); // panics if the stream cannot be sent
            }
        }
    }

    #[test]
    fn number_of_drawn_flows_per_host_stays_within_limit() {
        for line in [5, 50, 100, 130, 1000].map(|mbps| Line::from(BitRate::from_mbps(mbps))) {
            let (_, hosts) = plan(line);
            for seed in 0..200 {
                let drawn = drawn(line, &hosts, seed);
                assert_eq!(draw(line, &hosts, seed).len(), drawn.len(), "{line:?}, seed {seed}");
            }
        }
        let (_, hosts) = plan(BitRate::from_mbps(100).into());
        let too_many = vec![(Nanos::ZERO, Kind::Query, hosts[0], hosts[1]); STREAMS_MAX + 1];
        assert_eq!(numbered(too_many, &hosts).len(), STREAMS_MAX);
    }

    #[test]
    fn each_flow_kind_offers_its_configured_mean_load() {
        let line = Line::from(BitRate::from_mbps(100));
        let (_, hosts) = plan(line);
        let frame = line.time_of(Bytes::on_line(Stream::default().frame_len())).0;
        let runs: u64 = 40;
        let mut busy = [0.0; 3];
        for flow in (0..runs).flat_map(|seed| draw(line, &hosts, seed)) {
            let place = Kind::ALL.iter().position(|&kind| kind == flow.kind).unwrap_or_default();
            busy[place] += (flow.kind.frames(line) * frame) as f64;
        }
        let percent = busy.map(|busy| 100.0 * busy / (SEND.0 * runs * HOSTS as u64) as f64);
        // Every 30 ms, one of eight hosts sends a query, and gets seven answers of 11 frames each.
        let query = 100.0 * (7 * 11 * frame) as f64 / (QUERY_EVERY.0 * HOSTS as u64) as f64;
        for (of, expected) in percent.into_iter().zip([LONG_PERCENT as f64, query, SHORT_PERCENT as f64]) {
            assert!((of - expected).abs() < expected / 10.0, "{percent:?}");
        }
    }
}

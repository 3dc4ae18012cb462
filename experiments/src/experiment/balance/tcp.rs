//! Kernel TCP over the paths of experiment `balance`.
//!
//! The class is lossless, so every retransmission is unnecessary. Spreading by flow reorders no segments, so methods
//! of loss detection are compared only under the other spreads.

use serde::Serialize;
use xoff_flow_control::counter::Counter;
use xoff_wire::units::Nanos;

use super::paths::{self, ADAPTIVE, FLOW, FRAME, HOSTS, SPREADS, SpreadCase};
use crate::experiment::Conduct;
use crate::experiment::kernel_hosts::{Bulk, TransferResults, one_class, receive_buffer, sender};
use crate::experiment::report::{low_middle_high, median, median_and_least, number, table_of};
use crate::namespaces::{Counts, Ecn, LossDetection, Options};
use crate::plot::{Content, Limits, Panel, nice_top};
use crate::statistics::{Spread, p50};
use crate::{FabricError, HostId, LOSSLESS, Line, Plan, PortOf, Setup, jain};

#[derive(Clone, Copy, Debug)]
struct Case {
    spread: SpreadCase,
    detection: LossDetection,
}

const fn case(spread: SpreadCase, detection: LossDetection) -> Case {
    Case { spread, detection }
}

const CASES: [Case; 7] = [
    case(FLOW, LossDetection::Rack),
    case(FRAME, LossDetection::Rack),
    case(FRAME, LossDetection::Dupack),
    case(FRAME, LossDetection::Timeout),
    case(ADAPTIVE, LossDetection::Rack),
    case(ADAPTIVE, LossDetection::Dupack),
    case(ADAPTIVE, LossDetection::Timeout),
];
const LASTS: Nanos = Nanos::from_millis(2500);
const SETTLED: Nanos = Nanos::from_millis(500);

#[derive(Debug, Serialize)]
pub(super) struct TcpPoint {
    spread: &'static str,
    detection: &'static str,
    congestion_control: &'static str,
    goodput_mbps: Option<Spread>,
    flow_mbps: Option<Spread>,
    fairness: Option<Spread>,
    uplink_kilobytes: Option<Spread>,
    xoff_sent: u64,
    paused_ms: f64,
    segments: u64,
    out_of_order_segments: u64,
    out_of_order_percent: f64,
    retransmitted_segments: u64,
    retransmitted_percent: f64,
    dupack_recoveries: u64,
    sack_recoveries: u64,
    timeouts: u64,
    refused_segments: u64,
    bytes_written: u64,
    bytes_read: u64,
}

pub(super) struct TcpRun {
    case: Case,
    carried: TransferResults,
    waiting: Vec<f64>,
}

struct TcpScene {
    flows: Vec<(HostId, HostId)>,
    uplinks: Vec<PortOf>,
}

pub(super) fn plans(line: Line) -> impl Iterator<Item = Plan> {
    let spreads = if line.is_simulated() { &[] } else { &SPREADS[..] };
    spreads.iter().map(move |spread| plan(line, spread).0)
}

fn plan(line: Line, spread: &SpreadCase) -> (Plan, TcpScene) {
    let mut plan = Plan::new(line);
    let leaves = paths::leaves(&mut plan);
    let flow = |number: usize| {
        let (from, _) = sender(&mut plan, number, leaves[0]);
        (from, plan.kernel_host(&format!("receiver-{number}"), leaves[1]))
    };
    let flows = (1..=HOSTS).map(flow).collect();
    let uplinks = paths::spread(&mut plan, leaves, spread);
    for switch in plan.switches() {
        one_class(plan.settings_of(switch));
    }
    (plan, TcpScene { flows, uplinks })
}

pub(super) fn run(setup: &Setup<'_>) -> Result<Vec<TcpRun>, FabricError> {
    let line = setup.line;
    let cases = if line.is_simulated() { &[] } else { &CASES[..] };
    cases.iter().map(|&case| run_case(setup, case)).collect()
}

fn run_case(setup: &Setup<'_>, case: Case) -> Result<TcpRun, FabricError> {
    let line = setup.line;
    let (plan, scene) = plan(line, &case.spread);
    let plan = plan.at_point(format!("tcp={} spread={}", case.detection.name(), case.spread.name));
    let fabric = setup.build(plan)?;
    let options =
        Options { ecn: Ecn::Incapable, detection: case.detection, receive_buffer: receive_buffer(line) };
    let bulk = Bulk { flows: scene.flows, options, lasts: LASTS };
    let mut waiting = Vec::new();
    let carried = bulk.run(&fabric, |live, now| {
        if now >= SETTLED {
            let bytes = scene.uplinks.iter().map(|&uplink| live.class(uplink, LOSSLESS).egress_bytes.get());
            waiting.extend(bytes.map(|bytes| bytes as f64 / 1e3));
        }
    })?;
    Ok(TcpRun { case, carried, waiting })
}

impl TcpRun {
    pub(super) fn conduct(&self) -> Conduct {
        self.carried.conduct(self.case.spread.reorders)
    }
}

pub(super) fn points(runs: &[&[TcpRun]]) -> Vec<TcpPoint> {
    let point =
        |place: usize| TcpPoint::of(CASES[place], &runs.iter().map(|run| &run[place]).collect::<Vec<_>>());
    let cases = runs.first().map_or(0, |run| run.len());
    (0..cases).map(point).collect()
}

impl TcpPoint {
    fn of(case: Case, runs: &[&TcpRun]) -> TcpPoint {
        let rates: Vec<Vec<f64>> = runs.iter().filter_map(|run| run.carried.rates(SETTLED)).collect();
        let volumes = || runs.iter().flat_map(|run| &run.carried.watched.volumes);
        let sum = |of| runs.iter().map(|run| run.carried.account.sum(LOSSLESS, of)).sum::<u64>();
        let held: u64 = sum(|class| -> &Counter { &class.held_nanos });
        let at_senders = runs.iter().map(|run| run.carried.at_senders).sum::<Counts>();
        let at_receivers = runs.iter().map(|run| run.carried.at_receivers).sum::<Counts>();
        let percent = |segments: u64| 100.0 * segments as f64 / at_senders.segments.max(1) as f64;
        let control = runs.first().map(|run| run.carried.watched.congestion_control);
        TcpPoint {
            spread: case.spread.name,
            detection: case.detection.name(),
            congestion_control: control.unwrap_or_default(),
            goodput_mbps: Spread::of(rates.iter().map(|flows| flows.iter().sum())),
            flow_mbps: Spread::of(rates.iter().flatten().copied()),
            fairness: Spread::of(rates.iter().filter_map(|flows| jain(flows))),
            uplink_kilobytes: Spread::of(runs.iter().flat_map(|run| run.waiting.iter().copied())),
            xoff_sent: sum(|class| &class.xoff_sent),
            paused_ms: held as f64 / 1e6,
            segments: at_senders.segments,
            out_of_order_segments: at_receivers.out_of_order,
            out_of_order_percent: percent(at_receivers.out_of_order),
            retransmitted_segments: at_senders.retransmitted,
            retransmitted_percent: percent(at_senders.retransmitted),
            dupack_recoveries: at_senders.dupack_recoveries,
            sack_recoveries: at_senders.sack_recoveries,
            timeouts: at_senders.timeouts,
            refused_segments: at_receivers.refused,
            bytes_written: volumes().map(|flow| flow.written).sum(),
            bytes_read: volumes().map(|flow| flow.read).sum(),
        }
    }
}

pub(super) fn goodput(points: &[TcpPoint], by: &SpreadCase, detection: LossDetection) -> Option<f64> {
    let is_it = |of: &&TcpPoint| (of.spread, of.detection) == (by.name, detection.name());
    p50(points.iter().find(is_it)?.goodput_mbps)
}

type All<'a> = [(&'a str, &'a [TcpPoint])];

pub(super) fn text(all: &All<'_>) -> String {
    let goodput = |of: &TcpPoint| {
        format!("{} / {}", median(of.goodput_mbps, 1), number(of.flow_mbps.map(|of| of.min), 1))
    };
    let again = |of: &TcpPoint| format!("{} / {:.1}", of.retransmitted_segments, of.retransmitted_percent);
    let slowed = |of: &TcpPoint| format!("{} / {}", of.dupack_recoveries + of.sack_recoveries, of.timeouts);
    let table = table_of(
        all.iter().flat_map(|(name, points)| points.iter().map(move |of| (*name, of))),
        &[
            ("spread", &|of| of.spread.to_owned()),
            ("loss\ndetection", &|of| of.detection.to_owned()),
            ("goodput Mb/s\nall / slowest flow", &goodput),
            ("fairness\nmedian (least)", &|of| median_and_least(of.fairness, 3)),
            ("uplink, kB\np50 / p75 / max", &|of| low_middle_high(of.uplink_kilobytes)),
            ("XOFF", &|of| of.xoff_sent.to_string()),
            ("held\nms", &|of| number(of.paused_ms, 0)),
            ("out of order\n%", &|of| number(of.out_of_order_percent, 1)),
            ("retransmitted\nsegments / %", &again),
            ("recoveries by\nacks / time-outs", &slowed),
        ],
    );
    let refused: u64 = all.iter().flat_map(|(_, points)| points.iter()).map(|of| of.refused_segments).sum();
    let but = match refused {
        0 => String::new(),
        some => format!(", except {some} segments that full receive buffers refused"),
    };
    format!(
        "{table}\nTCP of the kernel, one flow from each host to its own receiver, {} ms; rates and queues from {} ms on. Retransmissions \
         are spurious, because no frame was lost{but}.",
        LASTS.0 / 1_000_000,
        SETTLED.0 / 1_000_000
    )
}

pub(super) fn panels(all: &All<'_>) -> Vec<Panel> {
    let ways = [
        (LossDetection::Rack, "TCP, losses detected by RACK"),
        (LossDetection::Dupack, "TCP, losses detected by three duplicate acknowledgements"),
        (LossDetection::Timeout, "TCP, losses detected by time-outs alone"),
    ];
    let rows = |way: LossDetection| {
        let named = |of: &TcpPoint, policy: &str| format!("{policy} {}", of.spread);
        let places = CASES.iter().enumerate().filter(move |(_, case)| case.detection == way);
        let points = places.flat_map(|(place, _)| all.iter().map(move |(name, of)| (*name, &of[place])));
        points.map(move |(name, of)| (named(of, name), of)).collect::<Vec<_>>()
    };
    let points = || all.iter().flat_map(|(_, points)| points.iter());
    let to = |most: f64| Limits { x: Some((0.0, most)), top: None };
    let goodput_limits = to(nice_top(points().filter_map(|of| of.goodput_mbps).map(|of| of.max)));
    let again_limits = to(nice_top(points().map(|of| of.retransmitted_percent)));
    let goodput = ways.iter().map(|&(way, title)| {
        let rows = rows(way).into_iter().map(|(name, of)| (name, of.goodput_mbps)).collect();
        let x = "goodput of all flows (Mb/s)";
        Panel::new(title, x, "", Content::Spreads(rows)).within(goodput_limits).absent("not measured")
    });
    let again = ways.iter().filter(|(way, _)| *way != LossDetection::Timeout).map(|&(way, title)| {
        let rows = rows(way).into_iter().map(|(name, of)| (name, vec![(0.0, of.retransmitted_percent)]));
        let x = "retransmitted segments (% of all)";
        Panel::new(title, x, "", Content::Spans(rows.collect())).within(again_limits)
    });
    goodput.chain(again).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_config::Machine;
    use xoff_flow_control::settings::{PortSettings, Trust};
    use xoff_wire::units::{BitRate, CLASSES};

    use super::*;
    use crate::experiment::{Experiment, LINES, Verdict};
    use crate::{Account, Settings, Totals};

    #[test]
    fn tcp_configurations_put_all_frames_into_lossless_class() {
        let policies = Experiment::find("balance").unwrap().default_policies();
        for plan in [*LINES.start(), *LINES.end()].into_iter().map(Line::from).flat_map(plans) {
            for (variant, switch) in policies.iter().flat_map(|of| plan.switches().map(move |at| (of, at))) {
                let config = plan.config(switch, &variant.settings(plan.line()), Machine::default());
                let what = format!("{} under {}", plan.switch_name(switch), variant.name);
                let config = config.unwrap_or_else(|error| panic!("{what}: {error:?}"));
                assert!(config.warnings.is_empty(), "{what}: {:?}", config.warnings);
                let takes_all =
                    |port: &PortSettings| (port.trust, port.default_class) == (Trust::Port, LOSSLESS);
                assert!(config.switch.ports.iter().all(takes_all), "{what}");
            }
        }
    }

    #[test] // proves: experiments
    fn all_host_pairs_share_the_same_uplinks() {
        let (plan, scene) = plan(BitRate::from_mbps(100).into(), &ADAPTIVE);
        let mut ends: Vec<HostId> = scene.flows.iter().flat_map(|&(from, to)| [from, to]).collect();
        ends.sort();
        ends.dedup();
        assert_eq!((scene.flows.len(), ends.len()), (HOSTS, 2 * HOSTS));
        let config = plan.config(scene.uplinks[0].switch, &Settings::default(), Machine::default()).unwrap();
        let [group] = &config.switch.groups[..] else { panic!("one") };
        let members: Vec<_> = group.members.iter().map(|member| member.port).collect();
        assert_eq!(members, scene.uplinks.iter().map(|uplink| uplink.port).collect::<Vec<_>>());
    }

    #[test] // proves: experiments
    fn reordering_breaks_guarantee_only_under_flow_spreading() {
        let verdict = |case: Case, reordered, lost| {
            let totals = Totals { sent: 10, received: 10 - lost, lost, reordered, ..Totals::default() };
            let account = Account::of_hosts(Vec::new(), [0; CLASSES]);
            TcpRun { case, carried: TransferResults::of(account, totals), waiting: Vec::new() }
                .conduct()
                .verdict
        };
        let [flow, frame] = [CASES[0], CASES[1]];
        assert_eq!([flow, frame].map(|case| verdict(case, 0, 0)), [Verdict::Kept; 2]);
        assert_eq!([flow, frame].map(|case| verdict(case, 1, 0)), [Verdict::Broken, Verdict::Kept]);
        let lost = [flow, frame].map(|case| verdict(case, 1, 1));
        assert_eq!(lost, [Verdict::Lossy; 2], "losses must be reported as losses, not as reordering");
    }
}

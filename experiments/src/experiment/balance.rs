//! Experiment `balance`: messages over the four paths between two leaves.

mod paths;
mod tcp;

use std::time::Duration;

use fastrand::Rng;
use serde::Serialize;
use xoff_flow_control::counter::Counter;
use xoff_host::Stream;
use xoff_wire::units::{Bytes, Nanos};

use paths::{ADAPTIVE, FLOW, FRAME, HOSTS, SPINES, SPREADS, SpreadCase};

use super::report::{NONE_COMPLETED, low_middle_high, median, number, table_of};
use super::{
    Compared, Conduct, Experiment, Findings, Headline, Length, Promises, Request, Tell, Variant, compare,
    named,
};
use crate::namespaces::LossDetection;
use crate::plot::{Content, Figure, Limits, Panel, Point as PlotPoint};
use crate::statistics::{Spread, quantile, sorted};
use crate::{
    Account, FabricError, HostId, LOSSLESS, Line, Live, Load, Plan, PortOf, Setup, Totals, jain, lossless,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "balance",
    about: "two leaves with four paths between them: messages and TCP, spread over the paths by flow, frame or queue length",
    length: Length::Fixed(38),
    policies: &["pfc", "capfc-stop-max", "capfc-stop-calibrate"],
    settings: Variant::settings,
    plans: |_, line| SPREADS.iter().map(|spread| plan(line, spread).0).chain(tcp::plans(line)).collect(),
    routed: None,
    promises: Promises::Variants,
    measure,
};

const HEADLINES: &[Headline<BalanceResults>] = &[
    Headline::of("p99, ms\nflow", |of| of.by(&FLOW)?.p99_ms),
    Headline::of("frame", |of| of.by(&FRAME)?.p99_ms),
    Headline::of("adaptive", |of| of.by(&ADAPTIVE)?.p99_ms),
    Headline::of("p99 ratio\nflow / adaptive", |of| of.p99_flow_by_adaptive),
    Headline::of("p99 ratio\nframe / adaptive", |of| of.p99_frame_by_adaptive),
    Headline::of("TCP, Mb/s\nflow", |of| tcp::goodput(&of.tcp, &FLOW, LossDetection::Rack)),
    Headline::of("adaptive\nRACK", |of| tcp::goodput(&of.tcp, &ADAPTIVE, LossDetection::Rack)),
    Headline::of("adaptive\ndupack", |of| tcp::goodput(&of.tcp, &ADAPTIVE, LossDetection::Dupack)),
];

const LOAD: u64 = 60;
const MESSAGES: u64 = 120;
const FRAMES: u64 = 90;
const SAMPLE_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Serialize)]
struct BalancePoint {
    spread: &'static str,
    completion_ms: Option<Spread>,
    p99_ms: Option<f64>,
    goodput_mbps: Option<Spread>,
    fairness: Option<Spread>,
    path_fairness: Option<Spread>,
    uplink_kilobytes: Option<Spread>,
    xoff_sent: u64,
    paused_ms: f64,
    reordered_percent: f64,
    broken: u64,
}

#[derive(Debug, Serialize)]
struct BalanceResults {
    spreads: Vec<BalancePoint>,
    p99_flow_by_adaptive: Option<f64>,
    p99_frame_by_adaptive: Option<f64>,
    tcp: Vec<tcp::TcpPoint>,
}

impl BalanceResults {
    fn by(&self, spread: &SpreadCase) -> Option<&BalancePoint> {
        self.spreads.iter().find(|point| point.spread == spread.name)
    }
}

struct BalanceRun {
    messages: Vec<Messages>,
    tcp: Vec<tcp::TcpRun>,
}

struct Messages {
    load: Load,
    scene: BalanceScene,
    account: Account,
    waiting: Vec<f64>,
}

struct BalanceScene {
    senders: Vec<HostId>,
    receivers: Vec<HostId>,
    uplinks: Vec<PortOf>,
    line: Line,
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let conduct = |_: &Variant, runs: &[BalanceRun]| runs.iter().map(BalanceRun::conduct).sum();
    let (findings, all) = compare(&EXPERIMENT, (request, tell), run, conduct, BalanceResults::of, HEADLINES)?;
    Ok(findings.with(text(request, &all), figure(request, &all)))
}

fn run(setup: &Setup<'_>) -> Result<BalanceRun, FabricError> {
    let messages = SPREADS.iter().map(|spread| send_messages(setup, spread));
    let messages = messages.collect::<Result<_, _>>()?;
    Ok(BalanceRun { messages, tcp: tcp::run(setup)? })
}

fn send_messages(setup: &Setup<'_>, spread: &SpreadCase) -> Result<Messages, FabricError> {
    let line = setup.line;
    let (plan, scene) = plan(line, spread);
    let plan = plan.at_point(format!("spread={}", spread.name));
    let load = scene.load(setup.settings.seed);
    let fabric = setup.build(plan)?;
    let (waiting, account) = fabric.run(&load, PATIENCE, |live| scene.watch(live))?;
    Ok(Messages { load, scene, account, waiting })
}

fn plan(line: Line, spread: &SpreadCase) -> (Plan, BalanceScene) {
    let mut plan = Plan::new(line);
    let leaves = paths::leaves(&mut plan);
    let [senders, receivers] = [(0, "sender"), (1, "receiver")].map(|(leaf, kind): (usize, &str)| {
        (1..=HOSTS).map(|n| plan.host(&format!("{kind}-{n}"), leaves[leaf])).collect::<Vec<_>>()
    });
    let uplinks = paths::spread(&mut plan, leaves, spread);
    (plan, BalanceScene { senders, receivers, uplinks, line })
}

impl BalanceScene {
    fn load(&self, seed: u64) -> Load {
        let mut load = Load::default();
        let frames = self.line.size(Bytes(FRAMES)).0.max(FRAMES);
        let takes = self.line.time_of(Bytes::on_line(Stream::default().frame_len())).0 * frames;
        let every = takes * 100 / LOAD;
        let mut rng = Rng::with_seed(seed);
        for (&sender, &receiver) in self.senders.iter().zip(&self.receivers) {
            for n in 0..MESSAGES {
                let start = Nanos(n * every + rng.u64(..=every - takes));
                load.send(sender, Stream { start, count: Some(frames), ..lossless(receiver) });
            }
        }
        load
    }

    fn watch(&self, live: &Live<'_>) -> Vec<f64> {
        let mut waiting = Vec::new();
        live.every(SAMPLE_EVERY, PATIENCE, |_| {
            let bytes = self.uplinks.iter().map(|&uplink| live.class(uplink, LOSSLESS).egress_bytes.get());
            waiting.extend(bytes.map(|bytes| bytes as f64 / 1e3));
        });
        waiting
    }
}

impl BalanceRun {
    fn conduct(&self) -> Conduct {
        let messages = SPREADS.iter().zip(&self.messages).map(|(spread, run)| run.conduct(spread));
        messages.chain(self.tcp.iter().map(tcp::TcpRun::conduct)).sum()
    }
}

impl Messages {
    fn conduct(&self, way: &SpreadCase) -> Conduct {
        let totals = Totals::of(self.account.received(LOSSLESS));
        let reordered = if way.reorders { 0 } else { totals.reordered };
        Conduct::new(&self.account, Totals { reordered, ..totals }, self.account.held[LOSSLESS.index()])
    }

    fn completions(&self) -> Vec<Option<f64>> {
        let hosts = self.scene.senders.iter().zip(&self.scene.receivers);
        let numbers = (0..=u8::MAX).take(usize::try_from(MESSAGES).unwrap_or(usize::MAX));
        let all = hosts.flat_map(|(&from, &to)| numbers.clone().map(move |number| (from, to, number)));
        let took = |(from, to, number)| self.load.completion(&self.account, from, to, number);
        all.map(|message| took(message).map(|took| took.0 as f64 / 1e6)).collect()
    }

    fn goodput_mbps(&self) -> Option<f64> {
        let streams = || self.account.received(LOSSLESS).filter(|stream| stream.frames > 0);
        let first = streams().map(|stream| stream.first_ns).min()?;
        let last = streams().map(|stream| stream.last_ns).max().filter(|last| *last > first)?;
        let frames: u64 = streams().map(|stream| stream.frames - stream.duplicated).sum();
        let bits = 8 * frames * Bytes::on_line(Stream::default().frame_len()).0;
        Some(bits as f64 * 1e3 / (last - first) as f64)
    }

    fn path_fairness(&self) -> Option<f64> {
        let carried = |port: &PortOf| self.account.class(*port, LOSSLESS).tx_bytes.get() as f64;
        jain(&self.scene.uplinks.iter().map(carried).collect::<Vec<_>>())
    }
}

fn completions(runs: &[BalanceRun], place: usize) -> Vec<f64> {
    runs.iter().flat_map(|run| run.messages[place].completions()).flatten().collect()
}

fn shares(times: &[f64]) -> Vec<PlotPoint> {
    let times = sorted(times.iter().copied());
    let count = times.len().max(1) as f64;
    let step = times.len().div_ceil(200).max(1);
    let point = |(place, time): (usize, &f64)| (*time, Some(100.0 * (place + 1) as f64 / count));
    let last = times.len().saturating_sub(1);
    times.iter().enumerate().filter(|(place, _)| place % step == 0 || *place == last).map(point).collect()
}

impl BalanceResults {
    fn of(runs: &[BalanceRun]) -> BalanceResults {
        let point = |(place, way): (usize, &SpreadCase)| {
            let of_way: Vec<&Messages> = runs.iter().map(|run| &run.messages[place]).collect();
            BalancePoint::of(way, &of_way)
        };
        let spreads: Vec<BalancePoint> = SPREADS.iter().enumerate().map(point).collect();
        let by_adaptive = |place: usize| Some(spreads[place].p99_ms? / spreads[2].p99_ms?);
        BalanceResults {
            p99_flow_by_adaptive: by_adaptive(0),
            p99_frame_by_adaptive: by_adaptive(1),
            spreads,
            tcp: tcp::points(&runs.iter().map(|run| &run.tcp[..]).collect::<Vec<_>>()),
        }
    }
}

impl BalancePoint {
    fn of(way: &SpreadCase, runs: &[&Messages]) -> BalancePoint {
        let each: Vec<Vec<Option<f64>>> = runs.iter().map(|run| run.completions()).collect();
        let complete = || each.iter().flatten().copied().flatten();
        let rates =
            |of: &Vec<Option<f64>>| jain(&of.iter().flatten().map(|took| 1.0 / took).collect::<Vec<_>>());
        let totals = runs.iter().map(|run| Totals::of(run.account.received(LOSSLESS)));
        let totals = totals.sum::<Totals>();
        let sum = |of| runs.iter().map(|run| run.account.sum(LOSSLESS, of)).sum::<u64>();
        let held: u64 = sum(|class| -> &Counter { &class.held_nanos });
        BalancePoint {
            spread: way.name,
            completion_ms: Spread::of(complete()),
            p99_ms: quantile(&sorted(complete()), 99),
            goodput_mbps: Spread::of(runs.iter().filter_map(|run| run.goodput_mbps())),
            fairness: Spread::of(each.iter().filter_map(rates)),
            path_fairness: Spread::of(runs.iter().filter_map(|run| run.path_fairness())),
            uplink_kilobytes: Spread::of(runs.iter().flat_map(|run| run.waiting.iter().copied())),
            xoff_sent: sum(|class| &class.xoff_sent),
            paused_ms: held as f64 / 1e6,
            reordered_percent: 100.0 * totals.reordered as f64 / totals.received.max(1) as f64,
            broken: each.iter().flatten().filter(|took| took.is_none()).count() as u64,
        }
    }
}

type PolicyResults = [Compared<BalanceRun, BalanceResults>];

fn title(request: &Request) -> String {
    let line = request.line;
    format!(
        "Balance: {HOSTS} hosts at each of two leaves, {SPINES} paths between them, {line} each; messages, {LOAD} % load{}",
        if line.is_simulated() { "" } else { ", and TCP" }
    )
}

fn text(request: &Request, all: &PolicyResults) -> String {
    let complete = |of: &BalancePoint| {
        of.completion_ms.map_or_else(
            || NONE_COMPLETED.to_owned(),
            |Spread { p50, max, .. }| [Some(p50), of.p99_ms, Some(max)].map(|ms| number(ms, 1)).join(" / "),
        )
    };
    let fairness =
        |of: &BalancePoint| format!("{} / {}", median(of.fairness, 3), median(of.path_fairness, 3));
    let points = all.iter().flat_map(|of| of.measured.spreads.iter().map(|point| (of.name.as_str(), point)));
    let table = table_of(
        points,
        &[
            ("spread", &|of| of.spread.to_owned()),
            ("complete, ms\np50 / p99 / max", &complete),
            ("goodput\nMb/s", &|of| median(of.goodput_mbps, 1)),
            ("fairness\nmessages / paths", &fairness),
            ("uplink, kB\np50 / p75 / max", &|of| low_middle_high(of.uplink_kilobytes)),
            ("XOFF", &|of| of.xoff_sent.to_string()),
            ("held\nms", &|of| number(of.paused_ms, 0)),
            ("reordered\n%", &|of| number(of.reordered_percent, 1)),
            ("broken", &|of| of.broken.to_string()),
        ],
    );
    let of_tcp = if request.line.is_simulated() {
        "TCP is not simulated, because the simulator has no kernel; omit --simulated to measure TCP\n"
            .to_owned()
    } else {
        tcp::text(&of_tcp(all))
    };
    format!(
        "{}\n\n{table}\nEach host sends {MESSAGES} messages to its own receiver, one at a time, {LOAD} % of its line. Reordering under \
         `frame` and `adaptive` is expected, and not counted against a policy.\n\n{}",
        title(request),
        of_tcp
    )
}

fn of_tcp(all: &PolicyResults) -> Vec<(&str, &[tcp::TcpPoint])> {
    all.iter().map(|all| (all.name.as_str(), &all.measured.tcp[..])).collect()
}

fn figure(request: &Request, all: &PolicyResults) -> Figure {
    let longest = all.iter().flat_map(|all| &all.measured.spreads);
    let longest = longest.filter_map(|of| of.completion_ms).map(|of| of.max).fold(0.0, f64::max);
    let panel = |(place, way): (usize, &SpreadCase)| {
        let content = Content::Lines(named(all, |of| shares(&completions(&of.runs, place))));
        let title = format!("Messages, spread by {}", way.name);
        Panel::new(&title, "completion time (ms)", "messages complete (%)", content)
            .within(Limits { x: Some((0.0, longest)), top: Some(104.0) })
            .absent(NONE_COMPLETED)
    };
    let messages = SPREADS.iter().enumerate().map(panel);
    let of_tcp = if request.line.is_simulated() { Vec::new() } else { tcp::panels(&of_tcp(all)) };
    Figure { title: title(request), panels: messages.chain(of_tcp).collect() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_config::Machine;
    use xoff_flow_control::settings::Spread as Spreading;

    use xoff_wire::units::BitRate;

    use super::*;
    use crate::Settings;

    #[test] // proves: experiments
    fn each_leaf_spreads_flows_over_all_spines() {
        let spreads = SPREADS.iter().map(|way| {
            let (plan, scene) = plan(BitRate::from_mbps(100).into(), way);
            let leaf = scene.uplinks[0].switch;
            let config = plan.config(leaf, &Settings::default(), Machine::default()).unwrap();
            let [group] = &config.switch.groups[..] else { panic!("one") };
            let members: Vec<_> = group.members.iter().map(|member| member.port).collect();
            assert_eq!(members, scene.uplinks.iter().map(|uplink| uplink.port).collect::<Vec<_>>());
            let at_group = config.switch.fdb.statics.iter().filter(|(.., port)| members.contains(port));
            assert_eq!(
                at_group.count(),
                HOSTS,
                "the leaf must spread frames to the other leaf over all its uplinks"
            );
            group.spread
        });
        let spreads: Vec<Spreading> = spreads.collect();
        assert!(matches!(spreads[..], [Spreading::Flow, Spreading::Frame(_), Spreading::Adaptive { .. }]));
    }

    #[test] // proves: experiments
    fn start_times_of_messages_depend_on_the_seed() {
        let scene = plan(BitRate::from_mbps(100).into(), &SPREADS[0]).1;
        let [one, other] = [1, 2].map(|seed| format!("{:?}", scene.load(seed)));
        assert_eq!(format!("{:?}", scene.load(1)), one);
        assert_ne!(one, other);
        for line in [5, 100, 1000].map(|mbps| Line::from(BitRate::from_mbps(mbps))) {
            let _ = plan(line, &SPREADS[0]).1.load(7); // panics if a host has too many streams
        }
    }

    #[test]
    fn plotted_share_of_completed_messages_ends_at_100_percent() {
        assert_eq!(shares(&[]), []);
        assert_eq!(shares(&[3.0, 1.0]), [(1.0, Some(50.0)), (3.0, Some(100.0))]);
        let many = shares(&(0..1_001).map(f64::from).collect::<Vec<_>>());
        assert!(many.len() <= 202);
        assert_eq!(many.last(), Some(&(1_000.0, Some(100.0))));
    }
}

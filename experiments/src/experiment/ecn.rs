//! Experiment `ecn`: kernel TCP from four hosts into one port, with and without ECN marks.

use serde::Serialize;
use xoff_flow_control::counters::ClassCounters;
use xoff_wire::units::Nanos;

use super::kernel_hosts::{Bulk, TransferResults, one_class, receive_buffer, sender};
use super::report::{median, median_and_least, number, table_of};
use super::variant::WITHOUT_ECN;
use super::{
    Compared, Experiment, Findings, Headline, Length, Promises, Request, Tell, Variant, compare, named,
};
use crate::namespaces::{Ecn, LossDetection, Options};
use crate::plot::{Content, Figure, Panel, Point};
use crate::statistics::{Spread, mean, p50};
use crate::{FabricError, HostId, LOSSLESS, Line, Pfc, Plan, PortOf, Settings, Setup, jain};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ecn",
    about: "TCP of the kernel into one port, with and without ECN marks: queue, pauses, drops, goodput, fairness",
    length: Length::Default(4),
    policies: &["pfc", "pfc-ecn", "pfc-ecn-step", "lossy", "lossy-ecn", WITHOUT_ECN],
    settings,
    plans: |_, line| vec![plan(line).0],
    routed: None,
    promises: Promises::Variants,
    measure,
};

const HEADLINES: &[Headline<EcnResults>] = &[
    Headline::of("goodput\nMb/s", |of| p50(of.goodput_mbps)),
    Headline::of("fairness", |of| p50(of.fairness)),
    Headline::of("mean queue\nbytes", |of| Some(of.queue_bytes.as_ref()?.mean)),
    Headline::of("senders paused\n%", |of| of.paused_percent),
];

const SENDERS: usize = 4;
const SETTLED: Nanos = Nanos::from_millis(1000);
const STEP: Nanos = Nanos::from_millis(50);

#[derive(Debug, Serialize)]
struct EcnResults {
    congestion_control: &'static str,
    goodput_mbps: Option<Spread>,
    flow_mbps: Option<Spread>,
    fairness: Option<Spread>,
    queue_bytes: Option<EcnQueue>,
    paused_percent: Option<f64>,
    frames: u64,
    marked_frames: u64,
    received_marks: u64,
    dropped_frames: u64,
    retransmitted_segments: u64,
    bytes_written: u64,
    bytes_read: u64,
}

#[derive(Debug, Serialize)]
struct EcnQueue {
    mean: f64,
    #[serde(flatten)]
    spread: Spread,
    peak: u64,
}

struct EcnRun {
    carried: TransferResults,
    scene: EcnScene,
    queue: Vec<(Nanos, f64)>,
}

struct EcnScene {
    senders: Vec<HostId>,
    receiver: HostId,
    inputs: Vec<PortOf>,
    congested: PortOf,
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let conduct = |_: &Variant, runs: &[EcnRun]| runs.iter().map(|run| run.carried.conduct(false)).sum();
    let run = |setup: &Setup<'_>| run(setup, request);
    let (findings, all) = compare(&EXPERIMENT, (request, tell), run, conduct, EcnResults::of, HEADLINES)?;
    Ok(findings.with(text(request, &all), figure(request, &all)))
}

fn settings(variant: &Variant, line: Line) -> Settings {
    let mut settings = variant.settings(line);
    one_class(&mut settings);
    settings
}

fn run(setup: &Setup<'_>, request: &Request) -> Result<EcnRun, FabricError> {
    let (plan, scene) = plan(request.line);
    let fabric = setup.build(plan)?;
    let ecn = if setup.settings.policy == Some(WITHOUT_ECN) { Ecn::Incapable } else { Ecn::Capable };
    let bulk = Bulk {
        flows: scene.senders.iter().map(|&sender| (sender, scene.receiver)).collect(),
        options: Options {
            ecn,
            detection: LossDetection::Rack,
            receive_buffer: receive_buffer(request.line),
        },
        lasts: Nanos::from_millis(u64::from(request.seconds) * 1000),
    };
    let mut queue = Vec::new();
    let carried = bulk.run(&fabric, |live, now| {
        queue.push((now, live.class(scene.congested, LOSSLESS).egress_bytes.get() as f64));
    })?;
    Ok(EcnRun { carried, scene, queue })
}

fn plan(line: Line) -> (Plan, EcnScene) {
    let mut plan = Plan::new(line);
    let switch = plan.switch("switch");
    let receiver = plan.kernel_host("receiver", switch);
    let (senders, inputs) = (1..=SENDERS).map(|number| sender(&mut plan, number, switch)).unzip();
    let congested = plan.port_of(receiver);
    (plan, EcnScene { senders, receiver, inputs, congested })
}

impl EcnResults {
    fn of(runs: &[EcnRun]) -> EcnResults {
        let rates: Vec<Vec<f64>> = runs.iter().filter_map(|run| run.carried.rates(SETTLED)).collect();
        let queue = || runs.iter().flat_map(EcnRun::settled_queue);
        let volumes = || runs.iter().flat_map(|run| &run.carried.watched.volumes);
        EcnResults {
            congestion_control: runs
                .first()
                .map(|run| run.carried.watched.congestion_control)
                .unwrap_or_default(),
            goodput_mbps: Spread::of(rates.iter().map(|flows| flows.iter().sum())),
            flow_mbps: Spread::of(rates.iter().flatten().copied()),
            fairness: Spread::of(rates.iter().filter_map(|flows| jain(flows))),
            queue_bytes: EcnQueue::of(queue(), runs),
            paused_percent: mean(runs.iter().filter_map(EcnRun::paused_percent)),
            frames: runs.iter().map(|run| run.congested().tx_frames.get()).sum(),
            marked_frames: runs.iter().map(|run| run.congested().ecn_marked_frames.get()).sum(),
            received_marks: runs.iter().map(|run| run.carried.at_receivers.marked).sum(),
            dropped_frames: runs.iter().map(|run| run.carried.account.dropped(LOSSLESS)).sum(),
            retransmitted_segments: runs.iter().map(|run| run.carried.at_senders.retransmitted).sum(),
            bytes_written: volumes().map(|flow| flow.written).sum(),
            bytes_read: volumes().map(|flow| flow.read).sum(),
        }
    }

    fn percent(&self, frames: u64) -> f64 {
        100.0 * frames as f64 / (self.frames + self.dropped_frames).max(1) as f64
    }
}

impl EcnQueue {
    fn of(samples: impl Iterator<Item = f64>, runs: &[EcnRun]) -> Option<EcnQueue> {
        let samples: Vec<f64> = samples.collect();
        Some(EcnQueue {
            mean: mean(samples.iter().copied())?,
            spread: Spread::of(samples)?,
            peak: runs.iter().map(|run| run.congested().egress_watermark.get()).max()?,
        })
    }
}

impl EcnRun {
    fn congested(&self) -> &ClassCounters {
        self.carried.account.class(self.scene.congested, LOSSLESS)
    }

    fn settled_queue(&self) -> impl Iterator<Item = f64> {
        self.queue.iter().filter(|sample| sample.0 >= SETTLED).map(|sample| sample.1)
    }

    fn queue_over_time(&self) -> Vec<Point> {
        let step = |at: Nanos| at.0 / STEP.0;
        let steps = self.queue.chunk_by(|a, b| step(a.0) == step(b.0));
        let point = |samples: &[(Nanos, f64)]| {
            let middle = (step(samples[0].0) * STEP.0 + STEP.0 / 2) as f64;
            (middle / 1e9, mean(samples.iter().map(|sample| sample.1 / 1e3)))
        };
        steps.map(point).collect()
    }

    fn paused_percent(&self) -> Option<f64> {
        let inputs = self.scene.inputs.iter();
        let paused = inputs.map(|&port| self.carried.account.class(port, LOSSLESS).held_nanos.get());
        // A pause may end shortly after the run, so paused time may exceed 100 % of the run.
        let lasted = self.carried.watched.lasted.0 as f64;
        Some((100.0 * mean(paused.map(|nanos| nanos as f64))? / lasted).min(100.0))
    }
}

type EcnPolicy = Compared<EcnRun, EcnResults>;
type PolicyResults = [EcnPolicy];

fn title(request: &Request) -> String {
    let line = request.line;
    format!("ECN: TCP of the kernel from {SENDERS} hosts into one {line} port, {} s", request.seconds)
}

fn text(request: &Request, all: &PolicyResults) -> String {
    let goodput = |of: &EcnPolicy| {
        let flow = |value: fn(Spread) -> f64| number(of.measured.flow_mbps.map(value), 1);
        let flows = [flow(|flow| flow.min), flow(|flow| flow.p50), flow(|flow| flow.max)];
        format!("{} / {}", median(of.measured.goodput_mbps, 1), flows.join(" / "))
    };
    let queue = |of: &EcnPolicy| {
        let queue = |value: fn(&EcnQueue) -> f64| {
            number(of.measured.queue_bytes.as_ref().map(|queue| value(queue) / 1e3), 1)
        };
        [queue(|of| of.mean), queue(|of| of.spread.p50), queue(|of| of.peak as f64)].join(" / ")
    };
    let paused = |of: &EcnPolicy| {
        let xoff_sent: u64 = of.runs.iter().map(|run| Pfc::from(&run.carried.account).xoff_sent).sum();
        format!("{} / {}", xoff_sent, number(of.measured.paused_percent, 1))
    };
    let pair = |one: u64, other: u64| format!("{one} / {other}");
    let table = table_of(
        all.iter().map(|of| (of.name.as_str(), of)),
        &[
            ("TCP", &|of| of.measured.congestion_control.to_owned()),
            ("goodput Mb/s\nall / a flow: min / p50 / max", &goodput),
            ("fairness\nmedian (least)", &|of| median_and_least(of.measured.fairness, 3)),
            ("queue KB\nmean / p50 / peak", &queue),
            ("senders paused\ntimes / % of time", &paused),
            ("marked\nby switch / seen by TCP", &|Compared { measured: of, .. }| {
                pair(of.marked_frames, of.received_marks)
            }),
            ("dropped /\nretransmitted", &|Compared { measured: of, .. }| {
                pair(of.dropped_frames, of.retransmitted_segments)
            }),
        ],
    );
    format!(
        "{}\n\n{table}\nRates and queue lengths are measured from {} ms on, all else from the beginning. The totals below count frames of \
         TCP, including acknowledgements.",
        title(request),
        SETTLED.0 / 1_000_000
    )
}

fn figure(request: &Request, all: &PolicyResults) -> Figure {
    let spreads = |title: &str, x: &str, of: &dyn Fn(&EcnResults) -> Option<Spread>| {
        Panel::new(title, x, "", Content::Spreads(named(all, |all| of(&all.measured)))).absent("not measured")
    };
    let bars = |title: &str, x: &str, of: &dyn Fn(&EcnResults) -> Option<f64>| {
        let bar = |all: &EcnPolicy| of(&all.measured).map(|value| (0.0, value)).into_iter().collect();
        Panel::new(title, x, "", Content::Spans(named(all, bar)))
    };
    let lines = named(all, |all| all.runs.first().map(EcnRun::queue_over_time).unwrap_or_default());
    let over_time = Panel::new(
        "Queue at the congested port, first run",
        "time (s)",
        &format!("mean of {} ms (KB)", STEP.0 / 1_000_000),
        Content::Lines(lines),
    );
    Figure {
        title: title(request),
        panels: vec![
            over_time,
            spreads("Queue at the congested port, all runs, after TCP has settled", "bytes (KB)", &|of| {
                of.queue_bytes.as_ref().map(|queue| queue.spread.in_units_of(1e3))
            }),
            bars("Senders held", "time in pause, mean of senders (%)", &|of| of.paused_percent),
            spreads("Goodput of each flow", "TCP payload (Mb/s)", &|of| of.flow_mbps),
            bars("Marked", "marked frames, of all for the receiver (%)", &|of| {
                Some(of.percent(of.marked_frames))
            }),
        ],
    }
}

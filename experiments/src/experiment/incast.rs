//! Experiment `incast`: N senders start at the same time, and send equal numbers of bytes into one port.

use std::time::Duration;

use serde::Serialize;
use xoff_host::Stream;
use xoff_host::report::ReceivedStream;
use xoff_wire::units::{Bytes, Nanos};

use super::report::{NONE_COMPLETED, NOTHING_ARRIVED, completion, median_and_least, number, table_of};
use super::variant::ON_ONE_SWITCH;
use super::{
    Compared, Conduct, Experiment, Findings, Headline, Length, Promises, Request, Tell, Variant, compare,
    named,
};
use crate::plot::{Content, Figure, Panel};
use crate::statistics::{Spread, mean, p50};
use crate::{Account, FabricError, HostId, LOSSLESS, Line, Load, Plan, PortOf, Setup, jain, lossless};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "incast",
    about: "N senders into one port at the same time, for several N: goodput, fairness, completion times, pauses, queue",
    length: Length::Fixed(4),
    policies: ON_ONE_SWITCH,
    settings: Variant::settings,
    plans: |_, line| SENDERS.map(|count| plan(line, count).0).into(),
    routed: None,
    promises: Promises::Variants,
    measure,
};

const HEADLINES: &[Headline<IncastResults>] = &[
    Headline::of("goodput, Mb/s\n8 senders", |of| p50(of.with(8)?.goodput_mbps)),
    Headline::of("completion, ms\n2 senders", |of| p50(of.with(2)?.completion_ms)),
    Headline::of("4 senders", |of| p50(of.with(4)?.completion_ms)),
    Headline::of("8 senders", |of| p50(of.with(8)?.completion_ms)),
    Headline::of("mean queue, bytes\n8 senders", |of| of.with(8)?.queue_bytes.mean),
    Headline::of("XOFF per GB\n8 senders", |of| of.with(8)?.xoff_per_gb),
];

const SENDERS: [u8; 3] = [2, 4, 8];
const ROUNDS: u8 = 4;
const FRAMES: u64 = 256;
const SAMPLE_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(5);
const HEADERS: u64 = 18 + 20 + 8;

#[derive(Debug, Serialize)]
struct IncastPoint {
    senders: u8,
    /// Goodput of a round: UDP payload of its flows, divided by the duration that it would have without transmission
    /// credit ([`crate::credit`]).
    goodput_mbps: Option<Spread>,
    fairness: Option<Spread>,
    completion_ms: Option<Spread>,
    broken: usize,
    xoff_per_gb: Option<f64>,
    paused_ms: f64,
    queue_bytes: IncastQueue,
}

#[derive(Debug, Serialize)]
struct IncastQueue {
    mean: Option<f64>,
    peak: u64,
}

#[derive(Debug, Serialize)]
struct IncastResults {
    sweep: Vec<IncastPoint>,
}

struct IncastRun {
    rounds: Vec<Round>,
    queue: Vec<f64>,
    congested: PortOf,
    account: Account,
}

#[derive(Debug, PartialEq)]
struct Round {
    goodput_mbps: Option<f64>,
    fairness: Option<f64>,
    completion_ms: Vec<f64>,
    broken: usize,
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let run = |setup: &Setup<'_>| -> Result<Vec<IncastRun>, FabricError> {
        SENDERS.iter().map(|&senders| run(setup, senders)).collect()
    };
    let conduct =
        |_: &Variant, runs: &[Vec<IncastRun>]| Conduct::of(runs.iter().flatten().map(|run| &run.account));
    let (findings, all) = compare(&EXPERIMENT, (request, tell), run, conduct, IncastResults::of, HEADLINES)?;
    Ok(findings.with(text(request, &all), figure(request, &all)))
}

impl IncastResults {
    fn of(runs: &[Vec<IncastRun>]) -> IncastResults {
        let of = |(place, &senders)| point(senders, &runs.iter().map(|run| &run[place]).collect::<Vec<_>>());
        IncastResults { sweep: SENDERS.iter().enumerate().map(of).collect() }
    }

    fn with(&self, senders: u8) -> Option<&IncastPoint> {
        self.sweep.iter().find(|point| point.senders == senders)
    }
}

fn plan(line: Line, count: u8) -> (Plan, Vec<HostId>, HostId) {
    let mut plan = Plan::new(line).at_point(format!("senders={count}"));
    let switch = plan.switch("switch");
    let senders = (1..=count).map(|n| plan.host(&format!("sender-{n}"), switch)).collect();
    let receiver = plan.host("receiver", switch);
    (plan, senders, receiver)
}

fn run(setup: &Setup<'_>, count: u8) -> Result<IncastRun, FabricError> {
    let line = setup.line;
    let (plan, senders, receiver) = plan(line, count);
    let congested = plan.port_of(receiver);
    let load = load(line, &senders, receiver);
    let fabric = setup.build(plan)?;
    let frame = Bytes::on_line(Stream::default().frame_len());
    let (queue, account) = fabric.run(&load, PATIENCE, |live| {
        let mut queue = Vec::new();
        live.every(SAMPLE_EVERY, PATIENCE, |_| {
            queue.push(live.class(congested, LOSSLESS).egress_bytes.get() as f64);
        });
        queue
    })?;
    let round = |number: u8| {
        let first = |sender: &HostId| Some(account.host(*sender).sent.get(usize::from(number))?.first_ns);
        let begin = senders.iter().filter_map(first).filter(|&first| first > 0).min()?;
        let flows = senders.iter().filter_map(|&sender| account.stream(sender, receiver, number));
        let credit = |frames| fabric.credit(congested, frame, frames);
        Some(Round::of(Nanos(begin), credit, &flows.collect::<Vec<_>>()))
    };
    let rounds = (0..ROUNDS).filter_map(round).collect();
    Ok(IncastRun { rounds, queue, congested, account })
}

fn load(line: Line, senders: &[HostId], receiver: HostId) -> Load {
    let frame = line.time_of(Bytes::on_line(Stream::default().frame_len()));
    let every = Nanos(frame.0 * FRAMES * senders.len() as u64 * 5 / 4);
    let mut load = Load::default();
    for number in 0..u64::from(ROUNDS) {
        let start = Nanos(every.0 * number);
        for &sender in senders {
            load.send(sender, Stream { count: Some(FRAMES), start, ..lossless(receiver) });
        }
    }
    load
}

impl Round {
    fn of(begin: Nanos, credit: impl Fn(u64) -> Nanos, flows: &[&ReceivedStream]) -> Round {
        let payload = u64::from(Stream::default().size) - HEADERS;
        let bits = |flow: &ReceivedStream| (flow.distinct() * payload * 8) as f64;
        let ms = |time: Nanos| time.since(begin).0 as f64 / 1e6;
        let rate = |flow: &&ReceivedStream| {
            if flow.frames == 0 { 0.0 } else { bits(flow) / ms(Nanos(flow.last_ns)) / 1e3 }
        };
        let rates: Vec<f64> = flows.iter().map(rate).collect();
        let last = flows.iter().filter(|flow| flow.frames > 0).map(|flow| Nanos(flow.last_ns)).max();
        let all: f64 = flows.iter().copied().map(bits).sum();
        let credit = credit(flows.iter().map(|flow| flow.distinct()).sum());
        Round {
            goodput_mbps: last.map(|last| all / ms(last.after(credit)) / 1e3),
            fairness: jain(&rates),
            completion_ms: flows.iter().filter_map(|flow| flow.completed(FRAMES)).map(ms).collect(),
            broken: flows.iter().filter(|flow| flow.lost > 0).count(),
        }
    }
}

fn point(senders: u8, runs: &[&IncastRun]) -> IncastPoint {
    let rounds = || runs.iter().flat_map(|run| &run.rounds);
    let gigabytes: f64 = runs
        .iter()
        .flat_map(|run| run.account.received(LOSSLESS))
        .map(|stream| stream.bytes as f64 / 1e9)
        .sum();
    let pauses = Conduct::of(runs.iter().map(|run| &run.account)).pfc;
    let peak = |run: &&IncastRun| run.account.class(run.congested, LOSSLESS).egress_watermark.get();
    IncastPoint {
        senders,
        goodput_mbps: Spread::of(rounds().filter_map(|round| round.goodput_mbps)),
        fairness: Spread::of(rounds().filter_map(|round| round.fairness)),
        completion_ms: Spread::of(rounds().flat_map(|round| round.completion_ms.iter().copied())),
        broken: rounds().map(|round| round.broken).sum(),
        xoff_per_gb: (gigabytes > 0.0).then(|| pauses.xoff_sent as f64 / gigabytes),
        paused_ms: pauses.paused_ms,
        queue_bytes: IncastQueue {
            mean: mean(runs.iter().flat_map(|run| run.queue.iter().copied())),
            peak: runs.iter().map(peak).max().unwrap_or(0),
        },
    }
}

fn title(request: &Request) -> String {
    let line = request.line;
    let rounds = u32::from(ROUNDS) * request.runs;
    format!("Incast: N senders, {FRAMES} frames of 1518 bytes each, into one {line} port ({rounds} rounds)")
}

type PolicyResults = [Compared<Vec<IncastRun>, IncastResults>];

fn text(request: &Request, all: &PolicyResults) -> String {
    let kilobytes = |bytes: f64| bytes / 1e3;
    let points = all.iter().flat_map(|of| of.measured.sweep.iter().map(|point| (of.name.as_str(), point)));
    let table = table_of(
        points,
        &[
            ("senders", &|of| of.senders.to_string()),
            ("goodput Mb/s\nmedian (least)", &|of| median_and_least(of.goodput_mbps, 1)),
            ("fairness\nmedian (least)", &|of| median_and_least(of.fairness, 3)),
            ("completion ms\nmin / p25 / p50 / p75 / max", &|of| completion(of.completion_ms, 1)),
            ("broken\nflows", &|of| of.broken.to_string()),
            ("XOFF\nper GB", &|of| number(of.xoff_per_gb, 0)),
            ("paused\nms", &|of| number(of.paused_ms, 0)),
            ("queue KB\nmean / peak", &|of| {
                let IncastQueue { mean, peak } = of.queue_bytes;
                format!("{} / {:.1}", number(mean.map(kilobytes), 1), kilobytes(peak as f64))
            }),
        ],
    );
    format!(
        "{}\n\n{table}\nGoodput counts received frames; completion times are those of completely received flows.",
        title(request)
    )
}

fn figure(request: &Request, all: &PolicyResults) -> Figure {
    let over_senders = |title: &str, y: &str, of: fn(&IncastPoint) -> Option<f64>| {
        let point = |point: &IncastPoint| (f64::from(point.senders), of(point));
        let lines = named(all, |of| of.measured.sweep.iter().map(point).collect());
        Panel::new(title, "senders", y, Content::Lines(lines)).absent(NOTHING_ARRIVED)
    };
    let last = named(all, |of| of.measured.sweep.last().and_then(|point| point.completion_ms));
    let most = SENDERS[SENDERS.len() - 1];
    let completion = Panel::new(
        &format!("Completion times of complete flows, {most} senders"),
        "time from the round's first frame (ms)",
        "",
        Content::Spreads(last),
    );
    let mean_queue = |point: &IncastPoint| point.queue_bytes.mean.map(|mean| mean / 1e3);
    Figure {
        title: title(request),
        panels: vec![
            over_senders("Goodput, median of rounds", "UDP payload (Mb/s)", |p| p50(p.goodput_mbps)),
            over_senders("Fairness, median of rounds", "Jain's index", |p| p50(p.fairness)),
            completion.absent(NONE_COMPLETED),
            over_senders("Mean queue at the congested port", "bytes (KB)", mean_queue),
            over_senders("XOFFs sent", "XOFF per GB received", |p| p.xoff_per_gb),
            over_senders("Pause time, all senders and rounds", "time (ms)", |p| Some(p.paused_ms)),
        ],
    }
}

// Tests for SPECIFICATION.md: experiments
#[cfg(test)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;

    const BEGIN: Nanos = Nanos::from_millis(100);

    fn flow(frames: u64, last: Nanos) -> ReceivedStream {
        let mut flow = ReceivedStream { frames, last_ns: BEGIN.after(last).0, ..ReceivedStream::default() };
        flow.settle(FRAMES);
        flow
    }

    #[test]
    fn incast_goodput_excludes_credit_saved_by_sender() {
        let line = Line::from(BitRate::from_mbps(100));
        let frame = Bytes::on_line(Stream::default().frame_len());
        let credit = line.time_of(Bytes(33 * frame.0));
        for senders in SENDERS.map(u64::from) {
            // The fastest possible port shortens the round by all its transmission credit.
            let last = line.time_of(Bytes(senders * FRAMES * frame.0)).since(credit);
            let flows: Vec<_> = (0..senders).map(|_| flow(FRAMES, last)).collect();
            let round = Round::of(BEGIN, |_| credit, &flows.iter().collect::<Vec<_>>());
            let goodput = round.goodput_mbps.unwrap_or_default();
            assert!((goodput - 100.0 * 1472.0 / 1538.0).abs() < 1e-3, "{senders} senders: {goodput}");
        }
    }

    #[test]
    fn slow_pipeline_limits_incast_goodput() {
        let frames = 2 * FRAMES;
        let took = Nanos::from_millis(100);
        let flows = [flow(FRAMES, took), flow(FRAMES, took)];
        let credited_frames = std::cell::Cell::new(0);
        let credit = |frames| {
            credited_frames.set(frames);
            Nanos::ZERO
        };
        let round = Round::of(BEGIN, credit, &flows.each_ref());
        let payload = (frames * 1_472 * 8) as f64;
        assert!((round.goodput_mbps.unwrap_or_default() - payload / 100e3).abs() < 1e-9);
        assert_eq!(credited_frames.get(), frames, "the time saved by credit must be that of all flows");
    }

    #[test]
    fn incast_goodput_counts_only_received_frames() {
        let goodput = |frames| {
            let flow = flow(frames, Nanos::from_millis(60));
            Round::of(BEGIN, |_| Nanos::ZERO, &[&flow]).goodput_mbps.unwrap_or_default()
        };
        assert!((goodput(FRAMES) / goodput(FRAMES / 2) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn incast_flow_with_lost_frame_never_completes() {
        let (whole, broken) = (flow(FRAMES, Nanos::from_millis(60)), flow(FRAMES - 1, Nanos::from_millis(9)));
        let round = Round::of(BEGIN, |_| Nanos::ZERO, &[&whole, &broken]);
        assert_eq!((round.completion_ms, round.broken), (vec![60.0], 1));
    }

    #[test]
    fn incast_round_without_arrivals_has_no_results() {
        let nothing = flow(0, Nanos::ZERO);
        let expected = Round { goodput_mbps: None, fairness: None, completion_ms: Vec::new(), broken: 2 };
        assert_eq!(Round::of(BEGIN, |_| Nanos::ZERO, &[&nothing, &nothing]), expected);
        let some = Round::of(BEGIN, |_| Nanos::ZERO, &[&nothing, &flow(FRAMES, Nanos::from_millis(60))]);
        assert_eq!(
            some.fairness,
            Some(0.5),
            "if one of two flows receives everything, the fairness index must be 0.5"
        );
    }
}

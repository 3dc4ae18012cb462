//! `incast`: N senders start at the same moment, each with as many bytes, into one port.
//!
//! Rounds of it, one after the other. What is called a round begins with its first frame and ends with
//! its last; a flow is what one sender sends in a round.

use std::time::Duration;

use serde::Serialize;
use xoff_dataplane::units::{BitRate, Bytes, Nanos};
use xoff_hosts::Stream;

use super::plot::{Content, Limits, Panel};
use super::report::{add_row, table};
use super::statistics::mean;
use super::{Conduct, Experiment, Figure, Findings, Length, Request, Spread, Tell, Variant, compare};
use crate::fabric::{
    Account, Fabric, FabricError, HostId, LOSSLESS, Load, Plan, PortOf, Settings, jain, lossless,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "incast",
    about: "N senders into one port at once, for several N: goodput, fairness, completion times, pauses, queue",
    length: Length::Fixed(4),
    policies: &["pfc", "capfc-stop-max", "capfc-stop-calibrate", "ofc", "p-pfc", "pfc-wdrop", "pfc-wstop"],
    settings: Variant::settings,
    measure,
};

/// Numbers of senders.
const SENDERS: [u8; 3] = [2, 4, 8];
/// Rounds of each run.
const ROUNDS: u8 = 4;
/// Frames of one flow: 31.5 ms of a line of 100 Mb/s.
const FRAMES: u64 = 256;
/// The queue is looked at so often.
const LOOK: Duration = Duration::from_millis(1);
/// A round that takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Ethernet, IPv4 and UDP headers and the FCS of a frame.
const HEADERS: u64 = 18 + 20 + 8;

/// One number of senders under one policy, all rounds of all runs.
#[derive(Debug, Serialize)]
struct Point {
    senders: u8,
    /// UDP payload that arrived, by the time of the round; one value for each round.
    goodput_mbps: Spread,
    /// Jain's index over the rates of a round's flows.
    fairness: Spread,
    /// From the round's first frame to the flow's last; one value for each flow.
    completion_ms: Spread,
    /// Times that a sender was told to stop, for each 10^9 bytes that arrived.
    xoff_per_gb: f64,
    /// Time that senders were held, all of them and all rounds added up.
    paused_ms: f64,
    /// The congested egress queue.
    queue_bytes: Queue,
}

#[derive(Debug, Serialize)]
struct Queue {
    /// Over all looks that found something in it.
    mean: f64,
    /// Most at a time.
    peak: u64,
}

#[derive(Debug, Serialize)]
struct Measured {
    sweep: Vec<Point>,
}

/// What one run of one number of senders came to.
struct Run {
    rounds: Vec<Round>,
    queue: Vec<f64>,
    congested: PortOf,
    account: Account,
}

struct Round {
    goodput_mbps: f64,
    fairness: f64,
    completion_ms: Vec<f64>,
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let measured = compare(&EXPERIMENT, request, tell, |_, settings| {
        SENDERS.iter().map(|&senders| run(settings, request.line, senders)).collect::<Result<Vec<Run>, _>>()
    })?;
    let mut findings = Findings::default();
    let mut all = Vec::new();
    for (variant, runs) in measured {
        let conduct = Conduct::of(runs.iter().flatten().map(|run| &run.account));
        let sweep = SENDERS
            .iter()
            .enumerate()
            .map(|(place, &senders)| point(senders, &runs.iter().map(|run| &run[place]).collect::<Vec<_>>()));
        let measured = Measured { sweep: sweep.collect() };
        findings.add(variant, conduct, &measured);
        all.push((variant, measured));
    }
    findings.text = text(request, &all);
    findings.figure = figure(request, &all);
    Ok(findings)
}

fn run(settings: &Settings, line: BitRate, count: u8) -> Result<Run, FabricError> {
    let mut plan = Plan::new(line);
    let switch = plan.switch("switch");
    let senders: Vec<HostId> = (1..=count).map(|n| plan.host(&format!("sender-{n}"), switch)).collect();
    let receiver = plan.host("receiver", switch);
    let congested = plan.port_of(receiver);
    let load = load(line, &senders, receiver);
    let fabric = Fabric::build(plan, settings)?;
    let (queue, account) = fabric.run(&load, PATIENCE, |live| {
        let mut queue = Vec::new();
        live.every(LOOK, PATIENCE, |_| match live.class(congested, LOSSLESS).egress_bytes.get() {
            0 => {}
            bytes => queue.push(bytes as f64),
        });
        queue
    })?;
    let rounds = (0..ROUNDS).filter_map(|number| round(&account, &senders, receiver, number)).collect();
    Ok(Run { rounds, queue, congested, account })
}

/// Stream `n` of each sender is its flow of round `n`. Rounds come so far apart that each has a
/// quarter more time than it needs.
fn load(line: BitRate, senders: &[HostId], receiver: HostId) -> Load {
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

fn round(account: &Account, senders: &[HostId], receiver: HostId, number: u8) -> Option<Round> {
    let begin =
        senders.iter().map(|&sender| account.host(sender).sent[usize::from(number)].first_ns).min()?;
    let flows: Vec<_> =
        senders.iter().filter_map(|&sender| account.stream(sender, receiver, number)).collect();
    let completion: Vec<f64> =
        flows.iter().map(|flow| flow.last_ns.saturating_sub(begin) as f64 / 1e6).collect();
    let bits = |bytes: u64, frames: u64| (bytes - HEADERS * frames) as f64 * 8.0;
    let rates: Vec<f64> =
        flows.iter().zip(&completion).map(|(flow, ms)| bits(flow.bytes, flow.frames) / ms).collect();
    let all: f64 = flows.iter().map(|flow| bits(flow.bytes, flow.frames)).sum();
    let longest = completion.iter().copied().fold(0.0, f64::max);
    (longest > 0.0).then(|| Round {
        goodput_mbps: all / longest / 1e3,
        fairness: jain(&rates),
        completion_ms: completion,
    })
}

fn point(senders: u8, runs: &[&Run]) -> Point {
    let rounds = || runs.iter().flat_map(|run| &run.rounds);
    let gigabytes: f64 = runs
        .iter()
        .flat_map(|run| run.account.received(LOSSLESS))
        .map(|stream| stream.bytes as f64 / 1e9)
        .sum();
    let pauses = Conduct::of(runs.iter().map(|run| &run.account)).pfc;
    let peak = |run: &&Run| run.account.class(run.congested, LOSSLESS).egress_watermark.get();
    Point {
        senders,
        goodput_mbps: Spread::of(rounds().map(|round| round.goodput_mbps)),
        fairness: Spread::of(rounds().map(|round| round.fairness)),
        completion_ms: Spread::of(rounds().flat_map(|round| round.completion_ms.iter().copied())),
        xoff_per_gb: if gigabytes > 0.0 { pauses.xoff_sent as f64 / gigabytes } else { 0.0 },
        paused_ms: pauses.paused_ms,
        queue_bytes: Queue {
            mean: mean(runs.iter().flat_map(|run| run.queue.iter().copied())),
            peak: runs.iter().map(peak).max().unwrap_or(0),
        },
    }
}

fn title(request: &Request) -> String {
    let mbps = request.line.bits_per_second() / 1_000_000;
    let rounds = u32::from(ROUNDS) * request.runs;
    format!(
        "Incast: N senders, {FRAMES} frames of 1518 bytes each, into one {mbps} Mb/s port ({rounds} rounds)"
    )
}

fn text(request: &Request, all: &[(&Variant, Measured)]) -> String {
    let mut table = table(&[
        "policy",
        "senders",
        "goodput Mb/s\nmedian (least)",
        "fairness\nmedian (least)",
        "completion ms\nmin / p25 / p50 / p75 / max",
        "XOFF\nper GB",
        "paused\nms",
        "queue KB\nmean / peak",
    ]);
    for (variant, measured) in all {
        for point in &measured.sweep {
            let (goodput, fairness, completion) = (point.goodput_mbps, point.fairness, point.completion_ms);
            let Spread { min, p25, p50, p75, max, .. } = completion;
            let Queue { mean, peak } = point.queue_bytes;
            add_row(
                &mut table,
                [
                    variant.name.to_owned(),
                    point.senders.to_string(),
                    format!("{:.1} ({:.1})", goodput.p50, goodput.min),
                    format!("{:.3} ({:.3})", fairness.p50, fairness.min),
                    format!("{min:.1} / {p25:.1} / {p50:.1} / {p75:.1} / {max:.1}"),
                    format!("{:.0}", point.xoff_per_gb),
                    format!("{:.0}", point.paused_ms),
                    format!("{:.1} / {:.1}", mean / 1e3, peak as f64 / 1e3),
                ],
            );
        }
    }
    let lossy = all.iter().any(|(variant, _)| !variant.lossless);
    let note = if lossy {
        "\nWhere frames are dropped, a flow ends with the last frame that got through."
    } else {
        ""
    };
    format!("{}\n\n{table}{note}", title(request))
}

fn figure(request: &Request, all: &[(&Variant, Measured)]) -> Figure {
    let over_senders = |title: &str, y: &str, of: fn(&Point) -> f64| {
        let line = |(variant, measured): &(&Variant, Measured)| {
            let points = measured.sweep.iter().map(|point| (f64::from(point.senders), of(point)));
            (variant.name.to_owned(), points.collect())
        };
        let content = Content::Lines(all.iter().map(line).collect());
        Panel { title: title.into(), x: "senders".into(), y: y.into(), content, limits: Limits::default() }
    };
    let last = |(variant, measured): &(&Variant, Measured)| {
        let spread = measured.sweep.last().map(|point| point.completion_ms);
        (variant.name.to_owned(), spread.unwrap_or_default())
    };
    let most = SENDERS[SENDERS.len() - 1];
    let completion = Panel {
        title: format!("Completion times of flows, {most} senders"),
        x: "time from the round's first frame (ms)".into(),
        y: String::new(),
        content: Content::Spreads(all.iter().map(last).collect()),
        limits: Limits::default(),
    };
    Figure {
        title: title(request),
        panels: vec![
            over_senders("Goodput, median of rounds", "UDP payload (Mb/s)", |p| p.goodput_mbps.p50),
            over_senders("Fairness, median of rounds", "Jain's index", |p| p.fairness.p50),
            completion,
            over_senders("Mean queue at the congested port", "bytes (KB)", |p| p.queue_bytes.mean / 1e3),
            over_senders("Pauses asked for", "XOFF per GB received", |p| p.xoff_per_gb),
            over_senders("Time in pause, all senders and rounds", "time (ms)", |p| p.paused_ms),
        ],
    }
}

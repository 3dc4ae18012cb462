use std::collections::BTreeSet;

use xoff_wire::units::{BitRate, Bytes, Nanos};

use crate::bench::{Bench, Flow, StreamId, TestPort, Void};
use crate::cases::complete::{
    AROUND, drain, full_size, measure_load, require_full_line, require_mtu, require_no_stall,
    require_unchanged, senders, share, share_of, storm, tag_len,
};
use crate::cases::streams::{FROM, TO, lossless, start_heartbeat, two_lossless};
use crate::judgement::Judgement;
use crate::report::Verdict;

const SPAN: Nanos = Nanos::from_millis(300);
const PAUSE: Nanos = Nanos::from_millis(2);
/// Pauses in milliseconds, shorter than usual watchdogs permit, and their numbers.
const STORMS: [(u64, u64); 5] = [(1, 2), (5, 2), (20, 2), (50, 2), (150, 1)];
const SHORT: u32 = 100;
const TURN: Nanos = Nanos::from_millis(50);
/// Mix of 12 frames: each frame size in bytes without FCS, and its number of frames.
const MIX: [(u32, u64); 3] = [(60, 7), (590, 4), (1_514, 1)];

fn start(bench: &mut Bench) -> Result<(), Void> {
    start_heartbeat(bench)?;
    bench.only_count(TO);
    Ok(())
}

fn judge_steady(
    bench: &mut Bench,
    streams: &[StreamId],
    begin: Nanos,
    what: &str,
) -> Result<Judgement, Void> {
    let took = bench.now().since(begin);
    bench.require_steady(begin, Nanos(took.0 / 4))?;
    let mut judgement = judge(bench, streams, what)?;
    measure_load(bench, &mut judgement, streams, took);
    Ok(judgement)
}

fn judge(bench: &mut Bench, streams: &[StreamId], what: &str) -> Result<Judgement, Void> {
    bench.stop_streams(streams);
    drain(bench, streams)?;
    let mut judgement = Judgement::new();
    require_unchanged(bench, &mut judgement, streams, what);
    Ok(judgement)
}

pub(super) fn incast(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let mut streams = Vec::new();
    start(bench)?;
    for from in senders(bench) {
        let size = full_size(bench, from);
        let rate = bench.port(from).speed().min(share(bench, 100, 1, size));
        streams.push(bench.stream(Flow::new(from, TO, class).size(size).rate(rate))?);
    }
    let begin = bench.now();
    bench.run_for(SPAN)?;
    let took = bench.now().since(begin);
    let mut judgement = judge_steady(bench, &streams, begin, "the incast")?;
    require_full_line(bench, &mut judgement, &streams, took);
    let paused =
        bench.ports().iter().any(|port| port.controls.iter().any(|frame| frame.time(class).is_some()));
    if !paused {
        judgement
            .cannot_tell("the device paused no sender: the tester sent less than the receiver's line rate");
    }
    Ok(judgement)
}

pub(super) fn incast_sizes(bench: &mut Bench) -> Result<Judgement, Void> {
    let (class, mut judgement) = (lossless(bench), Judgement::new());
    let ports: Vec<usize> = senders(bench).collect();
    let mtu = bench.setup.device.mtu;
    let has_jumbo = require_mtu(bench, 0..bench.ports().len()).is_ok();
    let most = if has_jumbo { mtu } else { mtu.min(1_500) };
    let mut is_congested = false;
    start(bench)?;
    for size in
        [60, 508, 1_514, most + 14].into_iter().filter(|size| *size <= most + 14).collect::<BTreeSet<_>>()
    {
        let full = share(bench, 100, 1, size);
        let has_full_line = full >= bench.port(TO).speed();
        let rate = if has_full_line { full } else { share(bench, 100, ports.len(), size) };
        let earlier: Vec<usize> = ports.iter().map(|port| bench.controls(*port).len()).collect();
        let (begin, mut streams) = (bench.now(), Vec::new());
        for from in &ports {
            let rate = rate.min(bench.port(*from).speed());
            let size = size + tag_len(bench, *from);
            streams.push(bench.stream(Flow::new(*from, TO, class).size(size).rate(rate))?);
        }
        bench.run_for(SPAN)?;
        bench.require_steady(begin, Nanos(SPAN.0 / 4))?;
        bench.stop_streams(&streams);
        drain(bench, &streams)?;
        let bytes: u64 = streams.iter().map(|stream| bench.tally(*stream).line_bytes.0).sum();
        let what = format!("{} bytes", size + 4);
        judgement.measure(&format!("rate of {what}"), (bytes * 8_000 / SPAN.0) as f64, "Mb/s");
        require_unchanged(bench, &mut judgement, &streams, &what);
        let is_xoff = |(port, earlier): (&usize, usize)| {
            bench.controls(*port)[earlier..].iter().any(|frame| frame.is_xoff(class))
        };
        match ports.iter().zip(earlier).any(is_xoff) {
            true => is_congested = true,
            false if has_full_line => judgement.cannot_tell(format!("the device paused no sender of {what}")),
            false => judgement.note(format!("the tester cannot fill the line with frames of {what}")),
        }
        require_no_stall(bench, &judgement)?;
    }
    if !is_congested {
        judgement
            .cannot_tell("the device paused no sender: the tester sent less than the receiver's line rate");
    }
    Ok(judgement)
}

/// Starts one stream per size of `MIX` from each sender; together they fill `percent` of the receiver's line.
fn start_mix(bench: &mut Bench, percent: u64) -> Result<Vec<StreamId>, Void> {
    let class = lossless(bench);
    let count = senders(bench).count();
    let sizes = MIX.map(|(size, part)| (size.min(full_size(bench, FROM)), part));
    let on_line = |(size, part): (u32, u64)| part * Bytes::on_line(size).0;
    let all: u64 = sizes.into_iter().map(on_line).sum();
    let frames: u64 = MIX.iter().map(|(_, part)| part).sum();
    let mean = u32::try_from(all / frames - AROUND).unwrap_or(u32::MAX);
    let rate = share(bench, percent, count, mean).bits_per_second();
    let mut streams = Vec::new();
    start(bench)?;
    for from in senders(bench) {
        for (size, part) in sizes {
            let rate = rate * on_line((size, part)) / all;
            let rate = BitRate::new(rate.max(1_000)).expect("the rate is not zero");
            let size = size.min(full_size(bench, from));
            streams.push(bench.stream(Flow::new(from, TO, class).size(size).rate(rate))?);
        }
    }
    Ok(streams)
}

pub(super) fn mix(bench: &mut Bench) -> Result<Judgement, Void> {
    let streams = start_mix(bench, 150)?;
    let (class, begin) = (lossless(bench), bench.now());
    storm(bench, &[class], PAUSE, SPAN)?;
    judge_steady(bench, &streams, begin, "the mix")
}

pub(super) fn order(bench: &mut Bench) -> Result<Judgement, Void> {
    let (class, size) = (lossless(bench), full_size(bench, FROM));
    let rate = share(bench, 90, 1, size);
    start(bench)?;
    let stream = bench.stream(Flow::new(FROM, TO, class).size(size).second(SHORT).rate(rate))?;
    let begin = bench.now();
    storm(bench, &[class], PAUSE, SPAN)?;
    judge_steady(bench, &[stream], begin, "the stream")
}

pub(super) fn storms(bench: &mut Bench) -> Result<Judgement, Void> {
    let (class, size) = (lossless(bench), full_size(bench, FROM));
    start(bench)?;
    let rate = share(bench, 80, 1, size);
    let stream = bench.stream(Flow::new(FROM, TO, class).size(size).rate(rate))?;
    let (begin, mut paused) = (bench.now(), 0);
    let watchdog = bench.setup.device.watchdog.unwrap_or(Nanos::NEVER);
    for (pause, times) in STORMS.into_iter().filter(|(pause, _)| Nanos::from_millis(2 * pause) < watchdog) {
        storm(bench, &[class], Nanos::from_millis(pause), Nanos::from_millis((2 * times - 1) * pause))?;
        paused += times * pause;
    }
    let mut judgement = judge_steady(bench, &[stream], begin, "the stream")?;
    judgement.measure("time paused by the receiver", paused as f64, "ms");
    Ok(judgement)
}

pub(super) fn two_classes(bench: &mut Bench) -> Result<Judgement, Void> {
    let classes = two_lossless(bench)?;
    let count = senders(bench).count();
    let rate = share(bench, 100 * count as u64, count * 2, full_size(bench, FROM));
    let mut streams = Vec::new();
    start(bench)?;
    for from in senders(bench) {
        let size = full_size(bench, from);
        for class in &classes {
            streams.push(bench.stream(Flow::new(from, TO, *class).size(size).rate(rate))?);
        }
    }
    let begin = bench.now();
    // While one class waits, the device resumes senders of the other only.
    for class in classes.iter().cycle().take(4) {
        storm(bench, &[*class], TURN, TURN)?;
    }
    judge_steady(bench, &streams, begin, "both classes")
}

pub(super) fn receivers(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let ports = bench.ports().len();
    // Leave 5 % of each line to the heartbeat.
    let slowest = bench.ports().iter().map(TestPort::speed).fold(bench.port(TO).speed(), BitRate::min);
    let rate = share_of(bench, slowest, 95, ports - 1, full_size(bench, FROM));
    let mut streams = Vec::new();
    start(bench)?;
    for to in 0..ports {
        bench.only_count(to);
        for from in (0..ports).filter(|from| *from != to) {
            let size = full_size(bench, from);
            streams.push(bench.stream(Flow::new(from, to, class).size(size).rate(rate))?);
        }
    }
    let begin = bench.now();
    bench.run_for(SPAN)?;
    judge_steady(bench, &streams, begin, "all pairs of ports")
}

pub(super) fn soak(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let span = bench.setup.soak;
    let part = SOAK_PART.max(Nanos(span.0 / SOAK_PARTS_MAX));
    let rate = share(bench, 80, 1, SOAK_SIZE);
    let mut judgement = Judgement::new();
    let (begin, mut judged, mut sent, mut excused) = (bench.now(), Nanos::ZERO, 0, Vec::new());
    while judged < span {
        start(bench)?;
        bench.only_count(FROM);
        let stream = bench.stream(Flow::new(FROM, TO, class).size(SOAK_SIZE).rate(rate))?;
        storm(bench, &[class], PAUSE, part.min(span)).or_else(|void| {
            bench.finish(void)?;
            bench.release(TO);
            Ok(())
        })?;
        let what = "a part of the soak";
        let result = judge(bench, &[stream], what).or_else(|void| {
            bench.finish(void)?;
            judge(bench, &[stream], what)
        })?;
        let is_stalled = bench.device_stall() > bench.stall_limit();
        bench.end_heartbeat();
        sent += bench.sent(stream);
        if bench.is_interrupted() {
            let [ran, all] = [bench.now().since(begin), span].map(|time| time.0 / 1_000_000_000);
            judgement.cannot_tell(format!("interrupted after {ran} of {all} s"));
            if bench.sent(stream) == 0 || result.verdict() == Verdict::Pass {
                break;
            }
        }
        if result.verdict() == Verdict::Pass {
            judged = judged.after(part);
            continue;
        }
        let second = bench.now().since(begin).0 / 1_000_000_000;
        let failure = format!("{}, until second {second}", result.reason());
        if !(result.may_be_stall() && is_stalled) {
            match result.may_be_stall() {
                true => judgement.require_unless_stalled(false, || failure),
                false => judgement.require(false, || failure),
            }
            break;
        }
        // Repeat only the part whose losses a stall excuses.
        excused.push(failure);
        if bench.is_interrupted() {
            break;
        }
        if excused.len() > SOAK_EXCUSED_MAX {
            judgement.cannot_tell(format!("the device stalled: {}", excused.join("; ")));
            break;
        }
    }
    if !excused.is_empty() {
        judgement.note(format!("not judged, because the device stalled: {}", excused.join("; ")));
    }
    judgement.measure("frames of the soak", sent as f64, "frames");
    Ok(judgement)
}

const SOAK_SIZE: u32 = 252;
/// Minimum duration of a part, which is judged by itself.
const SOAK_PART: Nanos = Nanos::from_secs(3);
/// Maximum number of parts of the soak; each adds streams that every poll scans.
const SOAK_PARTS_MAX: u64 = 20;
const SOAK_EXCUSED_MAX: usize = 5;

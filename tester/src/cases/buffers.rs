//! Group `buffers`: measures the thresholds of XOFF and XON. Port 2 pauses the class while frames from port 1 slowly fill the device. Short
//! breaks of the pause then drain it stepwise.

use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use super::Case;
use super::complete::{drain, full_size, require_complete, share};
use super::streams::{FROM, TO, first_after, lossless, marked, response_limit, start_heartbeat};
use crate::bench::{Bench, Flow, Reaction, StreamId, Void};
use crate::judgement::Judgement;
use crate::report::{Curve, Figure, Marker, Verdict};

pub(super) const CASES: &[Case] = &[
    Case {
        id: "buffers.xoff",
        title: "At which queue length does the device send XOFF?",
        source: "IEEE 802.1Q 36.1.3.1; thresholds configured on the device",
        ports: 2,
        run: xoff,
    },
    Case {
        id: "buffers.xon",
        title: "At which queue length does the device send XON?",
        source: "IEEE 802.1Q 36.1.3.1; thresholds configured on the device",
        ports: 2,
        run: xon,
    },
    Case {
        id: "buffers.shared",
        title: "Does another port's congestion change the threshold of XOFF?",
        source: "thresholds configured on the device",
        ports: 3,
        run: shared,
    },
];

const SIZE: u32 = 500;
/// Longest time for which the device is paused, below the detection time of usual watchdogs.
const HOLD_MAX: Nanos = Nanos::from_millis(150);
const FILL_MAX: Nanos = Nanos::from_millis(100);
/// Maximum time from an empty queue to the device's XON.
const QUIET: Nanos = Nanos::from_millis(20);
const GAP: Nanos = Nanos::from_micros(200);
const STEP_BYTES: u64 = 2_000;
const STEPS_MAX: usize = 2_000;

/// Queue length at which the device sent XOFF.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threshold {
    pub stream: StreamId,
    pub bytes: u64,
    pub error: u64,
    pub interval: Nanos,
}

/// Returns the bytes that the device counts for a frame of `size` bytes without FCS.
pub(super) fn counted(bench: &Bench, size: u32) -> u64 {
    let device = &bench.setup.device;
    (u64::from(size) + device.frame_overhead.0).next_multiple_of(device.cell.0.max(1))
}

/// Pauses `class` at port 2, and fills the device from port `from` until it sends XOFF; the pause then continues. Without an XOFF, ends the
/// pause and drains the device.
fn fill(bench: &mut Bench, from: usize, class: Class, interval: Nanos) -> Result<Option<Threshold>, Void> {
    start_heartbeat(bench)?;
    let response = response_limit(bench).max(Nanos::from_millis(3));
    bench.hold(TO, [class].into_iter().collect(), Nanos(HOLD_MAX.0 * 2).after(response));
    bench.run_for(response)?;
    let begin = bench.now();
    let frame = counted(bench, SIZE);
    let line = Bytes::on_line(SIZE).0 * 8;
    let speed = bench.port(from).speed().bits_per_second();
    let rate = (line * 1_000_000_000 / interval.0.max(1)).min(speed).max(1_000);
    let rate = BitRate::new(rate).expect("the rate is not zero").min(share(bench, 100, 1, SIZE));
    let earlier = bench.controls(from).len();
    bench.react(from, Reaction::Ignore);
    let stream = bench.stream(Flow::new(from, TO, class).size(SIZE).rate(rate))?;
    let paused = |bench: &Bench| bench.controls(from)[earlier..].iter().any(|frame| frame.is_xoff(class));
    let is_paused = bench.run_until(FILL_MAX, paused)?;
    let sent = bench.sent(stream);
    bench.stop(stream);
    let gap = rate.time_of(Bytes::on_line(SIZE));
    let late = bench.longest_stall(begin).after(bench.tolerance()).0 / gap.0.max(1) + 1;
    if bench.tally(stream).frames > 0 {
        return Err(Void::Disturbed("the device sent frames of a paused class".into()));
    }
    if !is_paused {
        empty(bench, &[stream])?;
        return Ok(None);
    }
    Ok(Some(Threshold { stream, bytes: sent * frame, error: late * frame, interval }))
}

fn empty(bench: &mut Bench, filled: &[StreamId]) -> Result<(), Void> {
    bench.release(TO);
    drain(bench, filled)?;
    bench.run_for(QUIET)
}

/// Measures the queue length at which the device sends XOFF; `None` if it sends none. Returns the minimum of three runs, because delays
/// increase the length.
pub(super) fn threshold(bench: &mut Bench, from: usize, class: Class) -> Result<Option<Threshold>, Void> {
    let mut interval = GAP;
    if let Some(xoff) = bench.setup.device.xoff {
        interval = Nanos(FILL_MAX.0 / 2 * u64::from(SIZE) / xoff.0.max(1)).min(GAP);
    }
    let mut least: Option<Threshold> = None;
    let mut runs = 0;
    while runs < 3 {
        match fill(bench, from, class, interval)? {
            Some(found) => {
                empty(bench, &[found.stream])?;
                least = Some(least.filter(|least| least.bytes <= found.bytes).unwrap_or(found));
                runs += 1;
            }
            None if interval.0 > 500 => interval = Nanos(interval.0 / 8),
            None => runs = 3,
        }
    }
    Ok(least)
}

fn xoff(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    for class in marked(bench, bench.setup.device.lossless)? {
        let Some(found) = threshold(bench, FROM, class)? else {
            judgement.cannot_tell(format!(
                "the device sent no XOFF for class {class}, although it was filled for {} ms (the maximum)",
                FILL_MAX.0 / 1_000_000
            ));
            continue;
        };
        let Threshold { bytes, error, .. } = found;
        let name = format!("XOFF threshold of class {class}");
        let Some(expected) = bench.setup.device.xoff else {
            judgement.measure(&name, bytes as f64, "bytes");
            continue;
        };
        // Tolerate a tenth of the threshold, because devices count in cells of a few hundred bytes.
        let slack = expected.0 / 10 + error + counted(bench, SIZE);
        let (low, high) = (expected.0.saturating_sub(slack - error), expected.0 + slack);
        judgement.limits(&name, bytes as f64, "bytes", (Some(low as f64), Some(high as f64)));
        judgement.require(bytes >= low, || {
            format!("the device paused class {class} at {bytes} bytes; configured are {} bytes", expected.0)
        });
        judgement.require_in_time(bytes <= high, || {
            format!(
                "the device paused class {class} only at {bytes} bytes; configured are {} bytes",
                expected.0
            )
        });
    }
    Ok(judgement)
}

fn xon(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let interval = threshold(bench, FROM, class)?.map(|found| found.interval);
    let Some(filled) = interval.map(|interval| fill(bench, FROM, class, interval)).transpose()?.flatten()
    else {
        return Err(Void::NotPossible("the device sent no XOFF; see case buffers.xoff".into()));
    };
    bench.run_for(Nanos::from_millis(2))?;
    let frame = counted(bench, SIZE);
    let total = bench.sent(filled.stream) * frame;
    let begin = bench.now();
    let step = bench.port(TO).speed().time_of(Bytes(STEP_BYTES.max(total / 500)));
    let classes = [class].into_iter().collect();
    let mut points = vec![(0.0, total as f64)];
    let (mut before, mut after) = (total, total);
    let mut found = None;
    for _ in 0..STEPS_MAX {
        let resumed = bench.release(TO);
        bench.run_for(step)?;
        bench.hold(TO, classes, HOLD_MAX.after(response_limit(bench)));
        bench.run_for(Nanos::from_millis(1).max(response_limit(bench)))?;
        before = after;
        after = total.saturating_sub(bench.tally(filled.stream).tracker.distinct() * frame);
        points.push((bench.now().since(begin).0 as f64 / 1e6, after as f64));
        let is_xon =
            |frame: &crate::bench::ControlFrame| frame.is_xon(class) && frame.when.latest >= resumed.earliest;
        if bench.controls(FROM).iter().any(is_xon) {
            found = Some(bench.now());
            break;
        }
        if after == 0 {
            break;
        }
    }
    let last = first_after(bench, filled.stream, begin).map(|_| ());
    empty(bench, &[filled.stream])?;
    let mut judgement = Judgement::new();
    require_complete(bench, &mut judgement, &[filled.stream], "the filled queue");
    judgement.require(last.is_some() || found.is_some(), || "the paused queue did not drain".to_owned());
    if found.is_none() && after > 0 && judgement.verdict() == Verdict::Pass {
        return Err(Void::Disturbed(format!("{STEPS_MAX} drain steps did not empty the queue")));
    }
    judgement.measure("queue before the drain step that caused the device's XON", before as f64, "bytes");
    judgement.measure("queue after the drain step that caused the device's XON", after as f64, "bytes");
    judgement
        .require_in_time(found.is_some(), || "the device sent no XON before its queue was empty".to_owned());
    if before - after > total / 4 {
        return Err(Void::Disturbed(
            "one drain step took over a quarter of the queue: too much to measure the XON threshold".into(),
        ));
    }
    if let (Some(expected), Some(_)) = (bench.setup.device.xon, found) {
        let slack = expected.0 / 10 + 2 * frame;
        judgement.require(after <= expected.0 + slack, || {
            format!("the device sent XON at {after} bytes or more; configured are {} bytes", expected.0)
        });
        judgement.require_in_time(before + slack >= expected.0, || {
            format!("the device sent XON only below {before} bytes; configured are {} bytes", expected.0)
        });
    } else if after + u64::from(full_size(bench, FROM)) > filled.bytes {
        judgement.note("XON follows at once below XOFF: the thresholds have no hysteresis");
    }
    let markers = found.map(|at| Marker { x: at.since(begin).0 as f64 / 1e6, label: "XON".to_owned() });
    judgement.figures.push(Figure {
        title: "Queue while port 2 drains it step by step".to_owned(),
        x: "time (ms)".to_owned(),
        y: "queue (bytes)".to_owned(),
        curves: vec![Curve { name: format!("class {class}"), points }],
        markers: markers.into_iter().collect(),
    });
    Ok(judgement)
}

fn shared(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let none = || Void::NotPossible("the device sent no XOFF; see case buffers.xoff".into());
    let alone = threshold(bench, FROM, class)?.ok_or_else(none)?;
    let other = fill(bench, TO + 1, class, alone.interval)?.ok_or_else(none)?;
    let beside = fill(bench, FROM, class, alone.interval)?.ok_or_else(none)?;
    empty(bench, &[other.stream, beside.stream])?;
    let mut judgement = Judgement::new();
    judgement.measure("XOFF threshold alone", alone.bytes as f64, "bytes");
    judgement.measure("XOFF threshold while port 3 is congested", beside.bytes as f64, "bytes");
    let smaller = beside.bytes + alone.error + beside.error < alone.bytes;
    judgement.note(if smaller {
        "the threshold shrinks while another port is congested: the buffer is shared"
    } else {
        "another port's congestion does not shrink the threshold"
    });
    Ok(judgement)
}

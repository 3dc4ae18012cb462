//! Group `buffers`: measures XOFF and XON. A port pauses the class while frames from another slowly fill the device; short breaks of the
//! pause then drain it.

use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use super::Case;
use super::complete::{drain, each_ingress, full_size, receiver, require_complete, share};
use super::streams::{FROM, TO, first_after, lossless, marked, response_limit, settle_time, start_heartbeat};
use crate::bench::{Bench, ControlFrame, Flow, Reaction, StreamId, Void};
use crate::judgement::Judgement;
use crate::report::{Curve, Figure, Marker};

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
const RUNS: usize = 3;

/// Queue length at which the device sent XOFF.
#[derive(Clone, Copy, Debug)]
pub(super) struct Threshold {
    pub stream: StreamId,
    pub bytes: u64,
    pub error: u64,
}

/// Returns the bytes that the device counts for a frame of `size` bytes without FCS.
pub(super) fn counted(bench: &Bench, size: u32) -> u64 {
    let device = &bench.setup.device;
    (u64::from(size) + device.frame_overhead.0).next_multiple_of(device.cell.0.max(1))
}

/// Frames that fill the device, because their [`receiver`] pauses their class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    from: usize,
    class: Class,
    size: u32,
    interval: Nanos,
}

impl Filling {
    pub(super) fn new(bench: &Bench, from: usize, class: Class, size: u32) -> Filling {
        let interval = bench
            .setup
            .device
            .xoff
            .map_or(GAP, |xoff| Nanos(FILL_MAX.0 / 2 * u64::from(size) / xoff.0.max(1)).min(GAP));
        Filling { from, class, size, interval }
    }

    /// Fills the device until it sends XOFF; the receiver's pause then continues. Without an XOFF, drains the device.
    fn fill(&self, bench: &mut Bench) -> Result<Option<Threshold>, Void> {
        let &Filling { from, class, size, interval } = self;
        let to = receiver(from);
        let response = settle_time(bench);
        bench.hold(to, [class].into_iter().collect(), Nanos(HOLD_MAX.0 * 2).after(response));
        bench.run_for(response)?;
        let begin = bench.now();
        let frame = counted(bench, size);
        let line = Bytes::on_line(size).0 * 8;
        let speed = bench.port(from).speed().bits_per_second();
        let rate = (line * 1_000_000_000 / interval.0.max(1)).min(speed).max(1_000);
        let rate = BitRate::new(rate).expect("the rate is not zero").min(share(bench, 100, 1, size));
        let earlier = bench.controls(from).len();
        bench.react(from, Reaction::Ignore);
        let stream = bench.stream(Flow::new(from, to, class).size(size).rate(rate))?;
        let paused = |bench: &Bench| bench.controls(from)[earlier..].iter().any(|frame| frame.is_xoff(class));
        let is_paused = bench.run_until(FILL_MAX, paused);
        let sent = bench.sent(stream);
        bench.stop(stream);
        if is_paused.is_err() {
            self.empty(bench, &[stream])?;
        }
        let is_paused = is_paused?;
        let gap = rate.time_of(Bytes::on_line(size));
        let late = bench.longest_stall(begin).after(bench.tolerance()).0 / gap.0.max(1) + 1;
        let is_early = bench.tally(stream).frames > 0;
        if is_early || !is_paused {
            self.empty(bench, &[stream])?;
        }
        match is_early {
            true => Err(Void::Disturbed("the device sent frames of a paused class".into())),
            false => Ok(is_paused.then_some(Threshold { stream, bytes: sent * frame, error: late * frame })),
        }
    }

    fn reach_xoff(&mut self, bench: &mut Bench) -> Result<Option<Threshold>, Void> {
        loop {
            match self.fill(bench)? {
                None if self.interval.0 > 500 => self.interval.0 /= 8,
                result => return Ok(result),
            }
        }
    }

    fn empty(&self, bench: &mut Bench, filled: &[StreamId]) -> Result<(), Void> {
        bench.release(receiver(self.from));
        drain(bench, filled)?;
        bench.run_for(QUIET)
    }

    /// Measures the queue length at which the device sends XOFF; `None` if it sends none. Returns the minimum of three runs, because delays
    /// increase the length, or the first that `is_enough`.
    pub(super) fn threshold(
        &mut self,
        bench: &mut Bench,
        is_enough: impl Fn(&Threshold) -> bool,
    ) -> Result<Option<Threshold>, Void> {
        let mut least: Option<Threshold> = None;
        for _ in 0..RUNS {
            let Some(found) = self.reach_xoff(bench)? else { break };
            self.empty(bench, &[found.stream])?;
            least = Some(least.filter(|least| least.bytes <= found.bytes).unwrap_or(found));
            if least.as_ref().is_some_and(&is_enough) {
                break;
            }
        }
        Ok(least)
    }
}

/// Repeats a disturbed measurement, but not those of other ports and classes.
fn undisturbed<T>(
    bench: &mut Bench,
    mut measure: impl FnMut(&mut Bench) -> Result<T, Void>,
) -> Result<T, Void> {
    for _ in 1..RUNS {
        match measure(bench) {
            Err(Void::Disturbed(_)) => {}
            result => return result,
        }
    }
    measure(bench)
}

fn xoff(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    let classes = marked(bench, bench.setup.device.lossless)?;
    let (configured, frame) = (bench.setup.device.xoff.map(|xoff| xoff.0), counted(bench, SIZE));
    // Tolerate a tenth of the threshold, because devices count in cells of a few hundred bytes.
    let slack = configured.unwrap_or_default() / 10 + frame;
    let curve = |class: &Class| Curve { name: format!("class {class}"), points: Vec::new() };
    let mut curves: Vec<Curve> = classes.iter().map(curve).collect();
    each_ingress(bench, &mut judgement, &classes, |bench, judgement, from, class| {
        let mut filling = Filling::new(bench, from, class, SIZE);
        let is_enough = |found: &Threshold| configured.is_some_and(|xoff| found.bytes <= xoff + slack);
        let what = format!("class {class} of port {}", from + 1);
        let Some(found) = undisturbed(bench, |bench| filling.threshold(bench, is_enough))? else {
            judgement.cannot_tell(format!(
                "the device sent no XOFF for {what}, although it was filled for {} ms (the maximum)",
                FILL_MAX.0 / 1_000_000
            ));
            return Ok(());
        };
        let Threshold { bytes, error, .. } = found;
        let place = classes.iter().position(|other| *other == class).unwrap_or_default();
        // NaN separates points.
        let (x, y) = (bytes as f64, (from + 1) as f64 + place as f64 / 10.0);
        curves[place].points.extend([(x, y), (x, f64::NAN)]);
        let name = format!("XOFF threshold of {what}");
        let Some(xoff) = configured else {
            judgement.measure(&name, bytes as f64, "bytes");
            return Ok(());
        };
        let (low, high) = (xoff.saturating_sub(slack), xoff + slack + error);
        judgement.limits(&name, bytes as f64, "bytes", (Some(low as f64), Some(high as f64)));
        judgement.require(bytes >= low, || {
            format!("the device paused {what} at {bytes} bytes; configured are {xoff} bytes")
        });
        judgement.require_in_time(bytes <= high, || {
            format!("the device paused {what} only at {bytes} bytes; configured are {xoff} bytes")
        });
        Ok(())
    })?;
    let configured = configured.map(|xoff| (xoff, "configured"));
    let markers = [(0, "")].into_iter().chain(configured);
    let marker = |(x, label): (u64, &str)| Marker { x: x as f64, label: label.to_owned() };
    judgement.figures.push(Figure {
        title: "Thresholds of XOFF".to_owned(),
        x: "queue at XOFF (bytes)".to_owned(),
        y: "port".to_owned(),
        curves,
        markers: markers.map(marker).collect(),
    });
    Ok(judgement)
}

struct Drained {
    stream: StreamId,
    /// Queue lengths at XOFF, and around the last step.
    xoff: u64,
    before: u64,
    after: u64,
    points: Vec<(f64, f64)>,
    has_resumed: bool,
    has_drained: bool,
}

impl Filling {
    fn drain_stepwise(&mut self, bench: &mut Bench) -> Result<Option<Drained>, Void> {
        let Some(filled) = self.reach_xoff(bench)? else { return Ok(None) };
        let (class, to, stream) = (self.class, receiver(self.from), filled.stream);
        bench.run_for(Nanos::from_millis(2))?;
        let frame = counted(bench, self.size);
        let total = bench.sent(stream) * frame;
        let begin = bench.now();
        let step = bench.port(to).speed().time_of(Bytes(STEP_BYTES.max(total / 500)));
        let mut points = vec![(0.0, total as f64)];
        let (mut before, mut after, mut has_resumed) = (total, total, false);
        for _ in 0..STEPS_MAX {
            let resumed = bench.release(to);
            bench.run_for(step)?;
            bench.hold(to, [class].into_iter().collect(), HOLD_MAX.after(response_limit(bench)));
            bench.run_for(Nanos::from_millis(1).max(response_limit(bench)))?;
            before = after;
            after = total.saturating_sub(bench.tally(stream).tracker.distinct() * frame);
            points.push((bench.now().since(begin).0 as f64 / 1e6, after as f64));
            let is_xon = |frame: &ControlFrame| frame.is_xon(class) && frame.when.latest >= resumed.earliest;
            has_resumed = bench.controls(self.from).iter().any(is_xon);
            if has_resumed || after == 0 {
                break;
            }
        }
        let has_drained = first_after(bench, stream, begin).is_some();
        self.empty(bench, &[stream])?;
        let is_complete = bench.missing(stream) == 0;
        if is_complete && !has_resumed && after > 0 {
            return Err(Void::Disturbed(format!("{STEPS_MAX} drain steps did not empty the queue")));
        }
        if is_complete && before - after > total / 4 {
            return Err(Void::Disturbed(
                "one drain step took over a quarter of the queue: too much to measure the XON threshold"
                    .into(),
            ));
        }
        Ok(Some(Drained { stream, xoff: filled.bytes, before, after, points, has_resumed, has_drained }))
    }
}

fn xon(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    let classes = marked(bench, bench.setup.device.lossless)?;
    each_ingress(bench, &mut judgement, &classes, |bench, judgement, from, class| {
        let mut filling = Filling::new(bench, from, class, SIZE);
        match undisturbed(bench, |bench| filling.drain_stepwise(bench))? {
            Some(drained) => judge_xon(bench, judgement, filling, drained),
            None => judgement.cannot_tell(format!(
                "the device sent no XOFF of class {class} at port {}; see case buffers.xoff",
                from + 1
            )),
        }
        Ok(())
    })?;
    Ok(judgement)
}

fn judge_xon(bench: &Bench, judgement: &mut Judgement, filling: Filling, drained: Drained) {
    let Filling { from, class, size, .. } = filling;
    let Drained { stream, xoff, before, after, points, has_resumed, has_drained } = drained;
    let what = format!("class {class} of port {}", from + 1);
    require_complete(bench, judgement, &[stream], &format!("the filled queue of {what}"));
    judgement.require(has_drained || has_resumed, || format!("the paused queue of {what} did not drain"));
    judgement.measure(
        &format!("queue before the drain step that caused XON of {what}"),
        before as f64,
        "bytes",
    );
    judgement.measure(
        &format!("queue after the drain step that caused XON of {what}"),
        after as f64,
        "bytes",
    );
    judgement.require_in_time(has_resumed, || {
        format!("the device sent no XON of {what} before its queue was empty")
    });
    if let (Some(expected), true) = (bench.setup.device.xon, has_resumed) {
        let slack = expected.0 / 10 + 2 * counted(bench, size);
        judgement.require(after <= expected.0 + slack, || {
            format!(
                "the device sent XON of {what} at {after} bytes or more; configured are {} bytes",
                expected.0
            )
        });
        judgement.require_in_time(before + slack >= expected.0, || {
            format!(
                "the device sent XON of {what} only below {before} bytes; configured are {} bytes",
                expected.0
            )
        });
    } else if after + u64::from(full_size(bench, from)) > xoff {
        judgement.note(format!("XON of {what} follows at once below XOFF: no hysteresis"));
    }
    let title = format!("Queue of port {} while its receiver drains it step by step", from + 1);
    if judgement.figures.last().is_none_or(|figure| figure.title != title) {
        let [x, y] = ["time (ms)", "queue (bytes)"].map(str::to_owned);
        judgement.figures.push(Figure { title, x, y, curves: Vec::new(), markers: Vec::new() });
    }
    if let Some(figure) = judgement.figures.last_mut() {
        let end = points.last().filter(|_| has_resumed);
        figure.markers.extend(end.map(|(x, _)| Marker { x: *x, label: format!("XON of class {class}") }));
        figure.curves.push(Curve { name: format!("class {class}"), points });
    }
}

fn shared(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let none = || Void::NotPossible("the device sent no XOFF; see case buffers.xoff".into());
    start_heartbeat(bench)?;
    let mut filling = Filling::new(bench, FROM, class, SIZE);
    let alone = filling.threshold(bench, |_| false)?.ok_or_else(none)?;
    let other = Filling { from: TO + 1, ..filling }.fill(bench)?.ok_or_else(none)?;
    let beside = filling.fill(bench)?.ok_or_else(none)?;
    filling.empty(bench, &[other.stream, beside.stream])?;
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

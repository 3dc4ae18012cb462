//! Group `watchdog`: does the PFC watchdog act on a class that port 2 pauses for too long, and restore it later? Probe frames that are lost
//! or pass show the action; the first one after the storm shows the restoration.

use xoff_wire::units::{BitRate, Bytes, Nanos};

use super::complete::{drain, require_complete, share};
use super::streams::{
    FROM, TO, between, lossless, micros, others, require_held, response_limit, start_heartbeat,
};
use super::{Case, Run};
use crate::bench::{Bench, Flow, Moment, StreamId, Void};
use crate::judgement::Judgement;
use crate::report::Measurement;
use crate::setup::{DeviceSettings, WatchdogAction};

const fn case(id: &'static str, title: &'static str, run: Run) -> Case {
    let source = "watchdog settings of the device; polling as in sonic-mgmt's PFCWD test plan";
    Case { id, title, source, ports: 2, run }
}

pub(super) const CASES: &[Case] = &[
    case("watchdog.detection", "Does the watchdog act after its detection time, and not before?", detection),
    case("watchdog.action", "Does the watchdog drop or forward frames, as configured?", action),
    case("watchdog.only-class", "Does the watchdog drop the paused class only?", only_class),
    case("watchdog.restoration", "Is the class restored after the restoration time?", restoration),
];

const FRAMES: u64 = 200;
/// Delay of detection and restoration that is allowed beyond polls.
const POLL: Nanos = Nanos::from_millis(100);
const PROBE_SIZE: u32 = 128;
const PROBE_INTERVALS: [Nanos; 2] = [Nanos::from_micros(200), Nanos::from_millis(5)];
const NOTICED: u64 = 2;
const STEPS: usize = 5;
/// Number of storms, each ended at its detection.
const SHORTEST: usize = 3;

struct Storm {
    xoff: Moment,
    xon: Moment,
    lost: u64,
    /// Frames that arrived although paused.
    passed: u64,
    first_passed: Option<Moment>,
    resumed: Option<Moment>,
}

impl Storm {
    fn is_detected(&self) -> bool {
        self.lost >= NOTICED || self.passed >= NOTICED
    }

    fn length(&self) -> Nanos {
        self.xon.at_most_since(self.xoff)
    }

    fn length_min(&self) -> Nanos {
        self.xon.at_least_since(self.xoff)
    }

    fn restoration(&self) -> Option<Nanos> {
        self.resumed.map(|first| first.at_least_since(self.xon))
    }
}

fn time(bench: &Bench) -> Result<Nanos, Void> {
    let missing = || Void::NotPossible("the setup file has no `watchdog` (detection time)".into());
    bench.setup.device.watchdog.ok_or_else(missing)
}

/// Returns detection time, by default [`POLL`], and restoration time, by default the detection time.
pub(super) fn times(device: &DeviceSettings) -> [Nanos; 2] {
    let detection = device.watchdog.unwrap_or(POLL);
    [detection, device.watchdog_restore.unwrap_or(detection)]
}

/// Returns the longest restoration: a watchdog may poll once per detection time, and restore two polls late.
fn restored_by(bench: &Bench) -> Nanos {
    let [detection, restoration] = times(&bench.setup.device);
    Nanos(2 * (detection.0 + restoration.0)).after(POLL)
}

fn patience(bench: &Bench) -> Nanos {
    let [_, restoration] = times(&bench.setup.device);
    restored_by(bench).after(Nanos(restoration.0 * 10).min(Nanos::from_secs(10)))
}

fn reaction(bench: &Bench) -> Nanos {
    response_limit(bench).max(Nanos::from_millis(5))
}

fn probe_interval(bench: &Bench) -> Nanos {
    let [detection, restoration] = times(&bench.setup.device);
    let [least, most] = PROBE_INTERVALS;
    Nanos(detection.min(restoration).0 / 32).clamp(least, most)
}

/// Begins a storm of `span`, and at most `rest`. Returns probe stream and XOFF.
fn begin(bench: &mut Bench, span: Nanos, rest: Nanos) -> Result<(StreamId, Moment), Void> {
    let class = lossless(bench);
    bench.only_count(FROM);
    start_heartbeat(bench)?;
    let bits = Bytes::on_line(PROBE_SIZE).0 * 8 * 1_000_000_000 / probe_interval(bench).0;
    let rate = BitRate::new(bits).expect("the rate is not zero");
    let probe = bench.stream(Flow::new(FROM, TO, class).size(PROBE_SIZE).rate(rate))?;
    if !bench.run_until(patience(bench), |bench| bench.tally(probe).frames > 2)? {
        let reason = format!("no frame of class {class} crosses the device before a storm");
        return Err(if bench.is_alive() { Void::Failed(reason) } else { Void::Disturbed(reason) });
    }
    let limit = span.after(rest).after(POLL);
    let xoff = bench.hold(TO, [class].into_iter().collect(), limit);
    bench.run_for(span)?;
    require_held(bench, xoff.earliest)?;
    Ok((probe, xoff))
}

fn end(bench: &mut Bench, (probe, xoff): (StreamId, Moment)) -> Result<Storm, Void> {
    let xon = bench.release(TO);
    let last = |bench: &Bench| bench.tally(probe).last.filter(|last| last.earliest >= xon.latest);
    bench.run_until(patience(bench), |bench| last(bench).is_some())?;
    bench.stop(probe);
    let resumed = bench.arrivals_of(probe).find(|arrival| arrival.when.earliest >= xon.latest);
    let lost = match bench.arrivals_of(probe).last().filter(|_| resumed.is_some()) {
        Some(last) => bench.tally(probe).lost(last.sequence + 1),
        None => bench.missing(probe),
    };
    let passed = between(bench, probe, xoff.latest.after(reaction(bench)), xon.earliest);
    let resumed = resumed.map(|arrival| arrival.when);
    if passed.len() as u64 >= NOTICED {
        bench.run_for(restored_by(bench))?; // a forwarding watchdog does not show its restoration
    }
    Ok(Storm {
        xoff,
        xon,
        lost,
        passed: passed.len() as u64,
        first_passed: passed.first().map(|arrival| arrival.when),
        resumed,
    })
}

fn storm(bench: &mut Bench, span: Nanos) -> Result<Storm, Void> {
    let begun = begin(bench, span, Nanos::ZERO)?;
    end(bench, begun)
}

/// Returns the longest detection: one poll late.
fn detected_by(time: Nanos) -> Nanos {
    Nanos(time.0 * 2).after(POLL)
}

/// Returns bounds of the detection time.
fn narrow(bench: &mut Bench, least: Nanos, long: &Storm) -> Result<[Nanos; 2], Void> {
    if let Some(first) = long.first_passed {
        let most = first.at_most_since(long.xoff);
        return Ok([most.since(probe_interval(bench)), most]);
    }
    let [detection, restoration] = times(&bench.setup.device);
    let aim = Nanos((detection.0 / 16).min(restoration.0 / 4));
    let [mut least, mut most] = [least, long.length()];
    for _ in 0..STEPS {
        if most.since(least) <= aim {
            break;
        }
        let storm = storm(bench, Nanos(least.0.midpoint(most.0)))?;
        match storm.is_detected() {
            true => most = most.min(storm.length()),
            false => least = least.max(storm.length_min()).min(most),
        }
    }
    Ok([least, most])
}

fn measure(judgement: &mut Judgement, name: &str, [least, most]: [Nanos; 2], limits: [Option<Nanos>; 2]) {
    let micros = |time: Nanos| time.0 as f64 / 1e3;
    let [at_least, at_most] = limits.map(|limit| limit.map(micros));
    let error = Some(micros(most.since(least)) / 2.0);
    let value = micros(least).midpoint(micros(most));
    judgement.measurements.push(Measurement {
        at_least,
        at_most,
        error,
        ..Measurement::new(name, value, "us")
    });
}

fn detection(bench: &mut Bench) -> Result<Judgement, Void> {
    let (time, reaction) = (time(bench)?, reaction(bench));
    let limit = Nanos(time.0 * 9 / 10);
    let span = Nanos((time.0 / 2).min((time.0 * 4 / 5).saturating_sub(reaction.0)).max(time.0 / 4));
    if reaction.after(span) >= limit {
        return Err(Void::NotPossible(format!(
            "the response time of {} is too long for a `watchdog` of {}",
            micros(reaction),
            micros(time)
        )));
    }
    let mut judgement = Judgement::new();
    let short = storm(bench, span)?;
    let took = short.length();
    if short.passed > 0 {
        judgement.cannot_tell(format!(
            "{} frames arrived while their class was paused, so they did not queue; see case receive.stops-class",
            short.passed
        ));
        return Ok(judgement);
    }
    if took >= limit {
        return Err(Void::Disturbed(format!(
            "the tester was late: its storm of {} took {}",
            micros(span),
            micros(took)
        )));
    }
    judgement.time("storm shorter than the detection time", took, (None, Some(limit)));
    judgement.measure("frames lost in this storm", short.lost as f64, "frames");
    judgement.require_unless_stalled(!short.is_detected(), || {
        let (took, time) = (micros(took), micros(time));
        format!("{} frames were dropped in a storm of {took}; the detection time is {time}", short.lost)
    });
    if short.is_detected() {
        return Ok(judgement);
    }
    let long = storm(bench, detected_by(time))?;
    judgement.require_in_time(long.is_detected(), || {
        let (long, time) = (micros(long.length()), micros(time));
        format!("no frame was dropped or forwarded in a storm of {long}; the detection time is {time}")
    });
    if long.is_detected() {
        let found = match long.resumed {
            Some(_) => narrow(bench, short.length_min(), &long)?,
            None => [short.length_min(), long.length()],
        };
        measure(&mut judgement, "detection time", found, [Some(took), Some(detected_by(time))]);
    }
    Ok(judgement)
}

fn is_undetected(judgement: &mut Judgement, storm: &Storm) -> bool {
    let is_undetected = !storm.is_detected();
    if is_undetected {
        judgement.cannot_tell("the watchdog did not detect the storm; see case watchdog.detection");
    }
    is_undetected
}

fn action(bench: &mut Bench) -> Result<Judgement, Void> {
    let time = time(bench)?;
    let mut judgement = Judgement::new();
    let long = storm(bench, detected_by(time))?;
    let Storm { lost, passed, .. } = long;
    judgement.measure("frames dropped in the storm", lost as f64, "frames");
    judgement.measure("frames forwarded in the storm", passed as f64, "frames");
    if is_undetected(&mut judgement, &long) {
        return Ok(judgement);
    }
    if long.first_passed.is_some_and(|first| first.at_most_since(long.xoff).0 < time.0 / 4) {
        judgement.cannot_tell("the class was not paused before the detection; see case receive.stops-class");
        return Ok(judgement);
    }
    match bench.setup.device.watchdog_action {
        WatchdogAction::Drop => judgement.require_unless_stalled(lost >= NOTICED, || {
            format!("the watchdog forwarded {passed} frames and dropped none; `watchdog_action` is \"drop\"")
        }),
        WatchdogAction::Forward => judgement.require_unless_stalled(lost < NOTICED, || {
            format!("the watchdog dropped {lost} frames; `watchdog_action` is \"forward\"")
        }),
    }
    Ok(judgement)
}

/// Makes `count` storms. Returns the number of dropped frames.
pub(super) fn storms(bench: &mut Bench, count: u64) -> Result<u64, Void> {
    let [detection, restoration] = [time(bench)?, times(&bench.setup.device)[1]];
    // Watchdogs that restore a paused class must not detect a second storm.
    let span = Nanos(detection.0 * 2).after(POLL.min(Nanos(restoration.0 / 2)));
    let mut lost = 0;
    for _ in 0..count {
        let storm = storm(bench, span)?;
        if !storm.is_detected() || storm.resumed.is_none() {
            let reason = "the watchdog did not detect a storm, or did not end it; see cases watchdog.*";
            return Err(Void::NotPossible(reason.into()));
        }
        lost += storm.lost;
    }
    Ok(lost)
}

fn only_class(bench: &mut Bench) -> Result<Judgement, Void> {
    let (time, class) = (time(bench)?, lossless(bench));
    let others = others(bench, class)?;
    let span = Nanos(POLL.0 * 3);
    let rate = share(bench, 50, others.len(), Flow::new(FROM, TO, class).size);
    let begun = begin(bench, detected_by(time), span)?;
    let mut streams = Vec::new();
    for other in others {
        streams.push(bench.stream(Flow::new(FROM, TO, other).rate(rate).count(FRAMES))?);
    }
    bench.run_for(span)?;
    let storm = end(bench, begun)?;
    drain(bench, &streams)?;
    let mut judgement = Judgement::new();
    require_complete(bench, &mut judgement, &streams, "other classes during the storm");
    is_undetected(&mut judgement, &storm);
    Ok(judgement)
}

fn restoration(bench: &mut Bench) -> Result<Judgement, Void> {
    let (time, class, limit) = (time(bench)?, lossless(bench), restored_by(bench));
    let mut judgement = Judgement::new();
    let long = storm(bench, detected_by(time))?;
    if is_undetected(&mut judgement, &long) {
        return Ok(judgement);
    }
    match bench.setup.device.watchdog_action {
        WatchdogAction::Drop => {
            require_restoration_in_time(bench, &mut judgement, &long);
            if long.restoration().is_none_or(|after| after > limit) {
                return Ok(judgement);
            }
            require_no_early_restoration(bench, &mut judgement, &long)?;
        }
        WatchdogAction::Forward => {
            let passed = storm(bench, Nanos(time.0 / 2))?.passed;
            judgement.measure("frames forwarded in a later pause", passed as f64, "frames");
            judgement.require_in_time(passed == 0, || {
                format!(
                    "a pause {} after the storm did not stop the class: {passed} frames passed",
                    micros(limit)
                )
            });
        }
    }
    let stream = bench.stream(Flow::new(FROM, TO, class).count(FRAMES))?;
    drain(bench, &[stream])?;
    require_complete(bench, &mut judgement, &[stream], "the class after the watchdog restored it");
    Ok(judgement)
}

fn require_restoration_in_time(bench: &Bench, judgement: &mut Judgement, long: &Storm) {
    let ([_, restoration], limit) = (times(&bench.setup.device), restored_by(bench));
    let after = long.restoration();
    if let Some(after) = after {
        let bounds = [after.since(probe_interval(bench)), after];
        measure(judgement, "restoration time", bounds, [None, Some(limit)]);
    }
    judgement.require_in_time(after.is_some_and(|after| after <= limit), || {
        let found = match after {
            Some(after) => format!("the class was restored {} after the storm", micros(after)),
            None => format!("the class was not restored within {} after the storm", micros(patience(bench))),
        };
        format!("{found}; `watchdog_restore` is {}", micros(restoration))
    });
}

/// Fails the case if a class is always restored before half of the restoration time. Counts from the detection, because some watchdogs
/// restore a paused class.
fn require_no_early_restoration(
    bench: &mut Bench,
    judgement: &mut Judgement,
    long: &Storm,
) -> Result<(), Void> {
    let [detection, restoration] = times(&bench.setup.device);
    let [least, most] = narrow(bench, Nanos(detection.0 / 2), long)?;
    if most.since(least).0 > restoration.0 / 4 {
        return Ok(());
    }
    let mut longest = Vec::new();
    for _ in 0..SHORTEST {
        let storm = storm(bench, most)?;
        longest.extend(
            storm
                .resumed
                .filter(|_| storm.lost >= NOTICED)
                .map(|first| first.at_most_since(storm.xoff).since(least)),
        );
    }
    let Some(&longest) = longest.iter().max().filter(|_| longest.len() > 1) else { return Ok(()) };
    judgement.time(
        "longest time from detection to restoration",
        longest,
        (Some(Nanos(restoration.0 / 2)), None),
    );
    judgement.require_in_time(longest.0 >= restoration.0 / 2, || {
        let (longest, restoration) = (micros(longest), micros(restoration));
        format!("the class was restored {longest} after the detection; `watchdog_restore` is {restoration}")
    });
    Ok(())
}

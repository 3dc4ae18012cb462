//! Group `watchdog`: does the PFC watchdog drop frames of a class that port 2 pauses for too long, and restore
//! the class later?

use xoff_wire::units::Nanos;

use super::complete::{drain, require_complete};
use super::streams::{FROM, TO, lossless, markable, micros, require_held, response_limit, start_heartbeat};
use super::{Case, Run};
use crate::bench::{Bench, Flow, StreamId, Void};
use crate::judgement::Judgement;
use crate::setup::DeviceSettings;

const fn case(id: &'static str, title: &'static str, run: Run) -> Case {
    Case { id, title, source: "watchdog times configured on the device", ports: 2, run }
}

pub(super) const CASES: &[Case] = &[
    case("watchdog.detection", "Does the watchdog act after its detection time, and not before?", detection),
    case("watchdog.only-class", "Does the watchdog drop the paused class only?", only_class),
    case("watchdog.restoration", "Is the class forwarded again after the restoration time?", restoration),
];

const WAITING: u64 = 8;
const FRAMES: u64 = 200;
/// Maximum delay of detection and restoration, because watchdogs poll.
const POLL: Nanos = Nanos::from_millis(100);

fn time(bench: &Bench) -> Result<Nanos, Void> {
    let missing = || Void::NotPossible("the setup file has no `watchdog` (detection time)".into());
    bench.setup.device.watchdog.ok_or_else(missing)
}

fn reaction(bench: &Bench) -> Nanos {
    response_limit(bench).max(Nanos::from_millis(5))
}

/// Pauses the lowest lossless class for `span` while some of its frames are queued. Returns their stream and the pause's begin.
fn storm(bench: &mut Bench, span: Nanos) -> Result<(StreamId, Nanos), Void> {
    let class = lossless(bench);
    start_heartbeat(bench)?;
    settle(bench)?; // after an earlier storm
    let (begin, reaction) = (bench.now(), reaction(bench));
    bench.hold(TO, [class].into_iter().collect(), reaction.after(span).after(POLL));
    bench.run_for(reaction)?;
    let waiting = bench.stream(Flow::new(FROM, TO, class).count(WAITING))?;
    bench.run_for(span)?;
    require_held(bench, begin)?;
    Ok((waiting, begin))
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
    let (waiting, begin) = storm(bench, span)?;
    let early = bench.tally(waiting).frames;
    bench.release(TO);
    let took = bench.now().since(begin);
    drain(bench, &[waiting])?;
    if early > 0 {
        judgement.cannot_tell(format!(
            "{early} frames arrived while their class was paused, so they did not queue; see case receive.stops-class"
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
    let lost = bench.missing(waiting);
    judgement.time("storm shorter than the detection time", took, (None, Some(limit)));
    judgement.measure("frames lost in this storm", lost as f64, "frames");
    judgement.require_unless_stalled(lost == 0, || {
        let (took, time) = (micros(took), micros(time));
        format!("{lost} frames were dropped in a storm of {took}; the detection time is {time}")
    });
    let (waiting, _) = storm(bench, Nanos(time.0 * 2).after(POLL))?;
    bench.release(TO);
    bench.run_for(POLL)?;
    let lost = bench.missing(waiting);
    judgement.measure("frames dropped in a storm of twice the detection time", lost as f64, "frames");
    judgement.require_in_time(lost > 0, || {
        format!("no frame was dropped in a storm of twice the detection time of {} ms", time.0 / 1_000_000)
    });
    settle(bench)?;
    Ok(judgement)
}

/// Returns the watchdog's detection time, by default [`POLL`], and restoration time, by default the detection time.
pub(super) fn times(device: &DeviceSettings) -> [Nanos; 2] {
    let detection = device.watchdog.unwrap_or(POLL);
    [detection, device.watchdog_restore.unwrap_or(detection)]
}

fn settle(bench: &mut Bench) -> Result<(), Void> {
    let [_, restore] = times(&bench.setup.device);
    bench.run_for(Nanos(restore.0 * 2).after(POLL))
}

fn only_class(bench: &mut Bench) -> Result<Judgement, Void> {
    let (time, class) = (time(bench)?, lossless(bench));
    let others: Vec<_> = markable(bench).iter().filter(|other| *other != class).collect();
    if others.is_empty() {
        return Err(Void::NotPossible("the setup file's maps use only one class; the case needs two".into()));
    }
    storm(bench, Nanos(time.0 * 2).after(POLL))?;
    bench.hold(TO, [class].into_iter().collect(), POLL);
    let mut streams = Vec::new();
    for other in others {
        streams.push(bench.stream(Flow::new(FROM, TO, other).count(FRAMES))?);
    }
    bench.run_for(Nanos(POLL.0 * 3))?;
    bench.release(TO);
    drain(bench, &streams)?;
    let mut judgement = Judgement::new();
    require_complete(bench, &mut judgement, &streams, "other classes during the storm");
    settle(bench)?;
    Ok(judgement)
}

fn restoration(bench: &mut Bench) -> Result<Judgement, Void> {
    let (time, class) = (time(bench)?, lossless(bench));
    storm(bench, Nanos(time.0 * 2).after(POLL))?;
    bench.release(TO);
    settle(bench)?;
    let stream = bench.stream(Flow::new(FROM, TO, class).count(FRAMES))?;
    drain(bench, &[stream])?;
    let mut judgement = Judgement::new();
    require_complete(bench, &mut judgement, &[stream], "the class after the watchdog restored it");
    let xoffs = bench.controls(FROM).iter().filter(|frame| frame.is_xoff(class));
    judgement.measure("XOFFs of the device", xoffs.count() as f64, "frames");
    Ok(judgement)
}

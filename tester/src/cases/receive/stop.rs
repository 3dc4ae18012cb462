use xoff_wire::units::{Class, ClassSet, Nanos};

use crate::bench::{Bench, Moment, Void};
use crate::cases::streams::{
    AFTER, BEFORE, Expected, PATIENCE, QUANTA_MAX, Streams, TO, between, first_after, last_before, markable,
    micros, obeying, require_long_enough, response_limit,
};
use crate::judgement::Judgement;

/// Pauses a class for 65,535 quanta, and waits some eighths of that time. Returns the time of the XOFF, and the time until which no frame
/// may arrive.
fn long_pause(bench: &mut Bench, class: Class, eighths: u64) -> Result<(Moment, Nanos), Void> {
    let time = bench.pause_time(TO, QUANTA_MAX);
    require_long_enough(bench, time)?;
    let sent = bench.pause(TO, &[(class, QUANTA_MAX)]);
    bench.run_for(Nanos((time.0 * eighths / 8).max(response_limit(bench).0 * 2)))?;
    Ok((sent, sent.earliest.after(time).min(bench.now())))
}

pub(super) fn stops_class(bench: &mut Bench) -> Result<Judgement, Void> {
    let (class, stream) = Streams::lossless(bench)?;
    // A longer stream could overflow the buffer, which `send.before-loss` examines.
    let (sent, end) = long_pause(bench, class, 1)?;
    let limit = response_limit(bench);
    bench.stop(stream);
    let late = between(bench, stream, sent.latest.after(limit), end);
    let last = last_before(bench, stream, end);
    let response = last.map_or(Nanos::ZERO, |last| last.when.at_least_since(sent));
    let mut judgement = Judgement::new();
    judgement.time("last frame after the XOFF", response, (None, Some(limit)));
    judgement.require_in_time(late.is_empty(), || {
        format!(
            "{} frames of class {class} arrived more than {} after the XOFF, the last after {}",
            late.len(),
            micros(limit),
            micros(response)
        )
    });
    bench.resume(TO, ClassSet::ALL);
    bench.run_until(PATIENCE, |bench| bench.missing(stream) == 0)?;
    let lost = bench.missing(stream);
    judgement.require_unless_stalled(lost == 0, || {
        format!("{lost} frames of class {class} were lost in the pause")
    });
    Ok(judgement)
}

pub(super) fn only_class(bench: &mut Bench) -> Result<Judgement, Void> {
    let streams = Streams::start(bench, markable(bench).iter())?;
    if streams.of.len() < 2 {
        return Err(Void::NotPossible("the setup file's maps use only one class; the case needs two".into()));
    }
    let mut judgement = Judgement::new();
    for class in obeying(bench) {
        let (sent, end) = long_pause(bench, class, 6)?;
        let from = sent.latest.after(response_limit(bench));
        for (other, stream) in streams.of.iter().filter(|(other, _)| *other != class) {
            let frames = between(bench, *stream, from, end).len();
            judgement.measure(
                &format!("frames of class {other} while class {class} is paused"),
                frames as f64,
                "frames",
            );
            judgement.require_in_time(frames > 0, || {
                format!("class {other} also stopped when class {class} was paused")
            });
        }
        bench.resume(TO, ClassSet::ALL);
        bench.run_for(BEFORE)?;
    }
    Ok(judgement)
}

pub(super) fn xon(bench: &mut Bench) -> Result<Judgement, Void> {
    let (class, stream) = Streams::lossless(bench)?;
    let time = bench.pause_time(TO, QUANTA_MAX);
    require_long_enough(bench, Nanos(time.0 / 4))?;
    let sent = bench.pause(TO, &[(class, QUANTA_MAX)]);
    bench.run_for(Nanos(time.0 / 4))?;
    let before = bench.now();
    let resumed = bench.resume(TO, [class].into_iter().collect::<ClassSet>());
    if resumed.at_most_since(sent).0 > time.0 / 2 {
        return Err(Void::Disturbed(
            "the tester was late: it sent XON in the second half of the pause".into(),
        ));
    }
    bench.run_until(PATIENCE, |bench| first_after(bench, stream, resumed.latest).is_some())?;
    bench.run_for(AFTER)?;
    let limit = response_limit(bench);
    let mut judgement = Judgement::new();
    let quiet =
        last_before(bench, stream, before).map_or(Nanos::NEVER, |last| before.since(last.when.latest));
    if quiet < Nanos(time.0 / 16) {
        judgement.cannot_tell("the class was not paused when the XON was sent");
    }
    let first = first_after(bench, stream, resumed.earliest);
    let delay = first.map(|first| first.when.at_least_since(resumed));
    if delay.is_none_or(|delay| delay > limit) {
        let end = first.map_or(bench.now(), |first| Nanos(first.when.earliest.0 - bench.tolerance().0 / 2));
        bench.require_heartbeat(resumed.latest.after(response_limit(bench)), end)?;
    }
    judgement.time("first frame after the XON", delay.unwrap_or(PATIENCE), (None, Some(limit)));
    judgement.require_in_time(delay.is_some_and(|delay| delay <= limit), || match delay {
        Some(delay) => {
            format!("class {class} resumed {} after the XON; the limit is {}", micros(delay), micros(limit))
        }
        None => format!("class {class} did not resume after the XON"),
    });
    Ok(judgement)
}

pub(super) fn expiry(bench: &mut Bench) -> Result<Judgement, Void> {
    let (class, stream) = Streams::lossless(bench)?;
    let mut judgement = Judgement::new();
    // The two bytes of the second pause time differ, so that a device that swaps them fails.
    for quanta in [QUANTA_MAX, QUANTA_MAX / 3 - 100] {
        let sent = bench.pause(TO, &[(class, quanta)]);
        let time = bench.pause_time(TO, quanta);
        let expected = Expected { class, stream, sent, time };
        expected.judge(bench, &mut judgement, &format!("an XOFF of {quanta} quanta"))?;
    }
    Ok(judgement)
}

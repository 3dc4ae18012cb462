use xoff_wire::units::{Class, ClassSet, Nanos};

use crate::bench::{Bench, Moment, StreamId, Void};
use crate::cases::streams::{
    AFTER, BEFORE, Expected, PATIENCE, QUANTA_MAX, Streams, TO, between, first_after, interval, last_before,
    markable, marked, micros, require_long_enough, response_limit,
};
use crate::judgement::Judgement;

/// Frames sent after the response time: enough to notice that the class did not stop, and few enough for any buffer.
const FRAMES: u64 = 16;

/// Pauses a class for 65,535 quanta, and stops its stream soon after the response time. Returns the time of the XOFF, and the time until
/// which no frame may arrive.
fn long_pause(bench: &mut Bench, (class, stream): (Class, StreamId)) -> Result<(Moment, Nanos), Void> {
    let time = bench.pause_time(TO, QUANTA_MAX);
    require_long_enough(bench, time)?;
    let sent = bench.pause(TO, &[(class, QUANTA_MAX)]);
    let limit = response_limit(bench);
    let window = Nanos(FRAMES * interval(bench, 1).0).min(time.since(limit));
    bench.run_for(limit.after(window))?;
    // Require that port 1 sent in the window: otherwise, the case examines nothing.
    bench.require_steady(sent.latest.after(limit), Nanos(window.0 / 2))?;
    bench.stop(stream);
    Ok((sent, sent.earliest.after(time).min(bench.now())))
}

/// Returns the number of frames lost before the last one that arrived.
fn gaps(bench: &Bench, stream: StreamId) -> u64 {
    let next = bench.arrivals_of(stream).last().map_or(0, |last| last.sequence + 1);
    next.saturating_sub(bench.tally(stream).tracker.distinct())
}

pub(super) fn stops_class(bench: &mut Bench) -> Result<Judgement, Void> {
    let (class, stream) = Streams::obeying(bench)?.first();
    let before = gaps(bench, stream);
    let (sent, end) = long_pause(bench, (class, stream))?;
    let limit = response_limit(bench);
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
    let patience = bench.pause_time(TO, QUANTA_MAX).after(PATIENCE);
    bench.run_until(patience, |bench| bench.missing(stream) <= before)?;
    let lost = bench.missing(stream).saturating_sub(before);
    judgement.require_unless_stalled(lost == 0, || {
        format!("{lost} frames of class {class} were lost in the pause")
    });
    Ok(judgement)
}

pub(super) fn only_class(bench: &mut Bench) -> Result<Judgement, Void> {
    if markable(bench).iter().count() < 2 {
        return Err(Void::NotPossible("the setup file's maps use only one class; the case needs two".into()));
    }
    let mut judgement = Judgement::new();
    for class in marked(bench, bench.setup.device.obeys)? {
        let streams = Streams::start(bench, markable(bench).iter())?;
        // Cases `isolation` examine whether its queued frames block other classes.
        bench.stop(streams.stream(class));
        bench.run_for(Nanos::from_millis(5))?;
        let sending = streams.sending(bench);
        let (sent, _) = long_pause(bench, (class, streams.stream(class)))?;
        let time = bench.pause_time(TO, QUANTA_MAX);
        bench.run_for(Nanos(time.0 / 2))?;
        let from = sent.latest.after(response_limit(bench));
        let end = sent.earliest.after(time).min(bench.now());
        let what = format!("an XOFF of class {class}");
        sending.require_flow(bench, &mut judgement, Some(class), (from, end), &what)?;
        streams.of.iter().for_each(|(_, stream)| bench.stop(*stream));
        bench.resume(TO, ClassSet::ALL);
        bench.run_for(BEFORE)?;
    }
    Ok(judgement)
}

pub(super) fn xon(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    for class in marked(bench, bench.setup.device.obeys)? {
        let of = Streams::start(bench, [class])?.first();
        resumes(bench, &mut judgement, of)?;
        bench.stop(of.1);
    }
    Ok(judgement)
}

fn resumes(
    bench: &mut Bench,
    judgement: &mut Judgement,
    (class, stream): (Class, StreamId),
) -> Result<(), Void> {
    let time = bench.pause_time(TO, QUANTA_MAX);
    require_long_enough(bench, Nanos(time.0 / 4))?;
    let sent = bench.pause(TO, &[(class, QUANTA_MAX)]);
    bench.run_for(Nanos(time.0 / 4))?;
    bench.pause(TO, &[(class, QUANTA_MAX)]);
    let resumed = bench.resume(TO, [class].into_iter().collect::<ClassSet>());
    if resumed.at_most_since(sent).0 > time.0 / 2 {
        return Err(Void::Disturbed(
            "the tester was late: it sent XON in the second half of the pause".into(),
        ));
    }
    require_resumed(bench, judgement, (class, stream), time, resumed, Nanos::ZERO)
}

/// Runs until a class paused for `time` sends again after the XON `resumed`, and judges the delay.
pub(super) fn require_resumed(
    bench: &mut Bench,
    judgement: &mut Judgement,
    (class, stream): (Class, StreamId),
    time: Nanos,
    resumed: Moment,
    queued: Nanos,
) -> Result<(), Void> {
    bench.run_until(PATIENCE, |bench| first_after(bench, stream, resumed.latest).is_some())?;
    bench.run_for(AFTER)?;
    let (limit, before) = (response_limit(bench).after(queued), resumed.earliest);
    let quiet =
        last_before(bench, stream, before).map_or(Nanos::NEVER, |last| before.since(last.when.latest));
    if quiet < Nanos(time.0 / 16) {
        judgement.cannot_tell(format!("class {class} was not paused when the XON was sent"));
    }
    let first = first_after(bench, stream, resumed.earliest);
    let delay = first.map(|first| first.when.at_least_since(resumed));
    if delay.is_none_or(|delay| delay > limit) {
        let end = first.map_or(bench.now(), |first| Nanos(first.when.earliest.0 - bench.tolerance().0 / 2));
        bench.require_heartbeat(resumed.latest.after(limit), end)?;
    }
    let name = format!("first frame of class {class} after the XON");
    judgement.time(&name, delay.unwrap_or(PATIENCE), (None, Some(limit)));
    judgement.require_in_time(delay.is_some_and(|delay| delay <= limit), || match delay {
        Some(delay) => {
            format!("class {class} resumed {} after the XON; the limit is {}", micros(delay), micros(limit))
        }
        None => format!("class {class} did not resume after the XON"),
    });
    Ok(())
}

pub(super) fn expiry(bench: &mut Bench) -> Result<Judgement, Void> {
    let (class, stream) = Streams::obeying(bench)?.first();
    let mut judgement = Judgement::new();
    // The two bytes of the second pause time differ, so that a device that swaps them fails.
    for quanta in [QUANTA_MAX, QUANTA_MAX / 3 - 100] {
        let sent = bench.pause(TO, &[(class, quanta)]);
        let time = bench.pause_time(TO, quanta);
        let expected = Expected { class, stream, sent, time, queued: Nanos::ZERO };
        expected.judge(bench, &mut judgement, &format!("an XOFF of {quanta} quanta"))?;
    }
    Ok(judgement)
}

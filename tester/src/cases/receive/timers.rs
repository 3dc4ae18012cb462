use xoff_wire::units::{Class, ClassSet, Nanos};

use super::stop::require_resumed;
use crate::bench::{Bench, Void};
use crate::cases::streams::{
    BEFORE, Expected, QUANTA_MAX, Streams, TO, between, has_no_effect, marked, micros, require_long_enough,
    response_limit,
};
use crate::judgement::Judgement;

const SHORT: u16 = QUANTA_MAX / 3;

/// Fails the case unless the second of two XOFFs decides when the pause ends.
fn replaced(bench: &mut Bench, first: u16, second: u16) -> Result<Judgement, Void> {
    let (class, stream) = Streams::obeying(bench)?.first();
    let before = bench.pause(TO, &[(class, first)]);
    bench.run_for(Nanos(bench.pause_time(TO, SHORT).0 / 3))?;
    let sent = bench.pause(TO, &[(class, second)]);
    if sent.at_most_since(before).after(response_limit(bench)) > bench.pause_time(TO, SHORT) {
        return Err(Void::Disturbed(
            "the tester was late: it sent the second XOFF after the end of the first pause".into(),
        ));
    }
    let mut judgement = Judgement::new();
    let expected = Expected { class, stream, sent, time: bench.pause_time(TO, second), queued: Nanos::ZERO };
    let what = format!("an XOFF of {second} quanta that follows one of {first}");
    expected.judge(bench, &mut judgement, &what)?;
    Ok(judgement)
}

pub(super) fn shorter(bench: &mut Bench) -> Result<Judgement, Void> {
    replaced(bench, QUANTA_MAX, SHORT)
}

pub(super) fn longer(bench: &mut Bench) -> Result<Judgement, Void> {
    replaced(bench, SHORT, QUANTA_MAX)
}

pub(super) fn refresh(bench: &mut Bench) -> Result<Judgement, Void> {
    const TIMES: u32 = 6;
    let (class, stream) = Streams::obeying(bench)?.first();
    let time = bench.pause_time(TO, SHORT);
    require_long_enough(bench, time)?;
    let first = bench.pause(TO, &[(class, SHORT)]);
    let mut last = first;
    for _ in 0..TIMES {
        bench.run_for(Nanos(time.0 / 2))?;
        let next = bench.pause(TO, &[(class, SHORT)]);
        if next.at_most_since(last) > Nanos(time.0 * 3 / 4) {
            return Err(Void::Disturbed(
                "the tester was late: it refreshed the pause after over three quarters of its time".into(),
            ));
        }
        last = next;
    }
    let mut judgement = Judgement::new();
    let early = between(bench, stream, first.latest.after(response_limit(bench)), last.earliest);
    judgement.require_in_time(early.is_empty(), || {
        format!(
            "class {class} sent {} frames in a pause that was refreshed every {}",
            early.len(),
            micros(Nanos(time.0 / 2))
        )
    });
    let expected = Expected { class, stream, sent: last, time, queued: Nanos::ZERO };
    expected.judge(bench, &mut judgement, "the last refresh")?;
    Ok(judgement)
}

pub(super) fn eight_timers(bench: &mut Bench) -> Result<Judgement, Void> {
    let classes = marked(bench, bench.setup.device.obeys)?;
    let streams = Streams::start(bench, classes.iter().copied())?;
    let mut judgement = Judgement::new();
    set_by_one_frame(bench, &mut judgement, &streams)?;
    bench.resume(TO, ClassSet::ALL);
    bench.run_for(BEFORE)?;
    set_by_two_frames(bench, &mut judgement, &streams)?;
    Ok(judgement)
}

fn set_by_one_frame(bench: &mut Bench, judgement: &mut Judgement, streams: &Streams) -> Result<(), Void> {
    // Pause times differ between classes, and neither rise nor fall with the class, so that exchanged timers are
    // noticed.
    let quanta = |index: usize| QUANTA_MAX / 16 * (6 + u16::try_from(index * 3 % 8).unwrap_or(0));
    let mut order: Vec<_> =
        streams.of.iter().enumerate().map(|(index, (class, _))| (*class, quanta(index))).collect();
    let others = Class::ALL.into_iter().filter(|class| streams.of.iter().all(|(of, _)| of != class));
    let all: Vec<_> = order.iter().copied().chain(others.map(|class| (class, QUANTA_MAX))).collect();
    let sent = bench.pause(TO, &all);
    order.sort_by_key(|(_, quanta)| *quanta);
    for (class, quanta) in order {
        let expected = Expected {
            class,
            stream: streams.stream(class),
            sent,
            time: bench.pause_time(TO, quanta),
            queued: Nanos::ZERO,
        };
        let what = format!("{quanta} quanta, in a frame with other times for other classes");
        expected.judge(bench, judgement, &what)?;
    }
    Ok(())
}

/// Returns the line time of frames queued in a pause: all streams together fill at most a sixth of the line.
fn drain_time(pause: Nanos) -> Nanos {
    Nanos(pause.0 / 5)
}

/// Pauses one class, and all other classes in the second half of its pause, for a shorter time. The first class sends again only then:
/// a long queue would cause XOFF.
fn set_by_two_frames(bench: &mut Bench, judgement: &mut Judgement, streams: &Streams) -> Result<(), Void> {
    let (first, stream) = streams.first();
    let flow = bench.flow(stream);
    bench.stop(stream);
    bench.run_for(BEFORE)?;
    let (time, short) = (bench.pause_time(TO, QUANTA_MAX), bench.pause_time(TO, SHORT));
    let others: Vec<_> =
        Class::ALL.into_iter().filter(|class| *class != first).map(|class| (class, SHORT)).collect();
    let before = bench.pause(TO, &[(first, QUANTA_MAX)]);
    bench.run_for(Nanos(time.0 / 2))?;
    let sent = bench.pause(TO, &others);
    if sent.at_most_since(before).after(short) > time {
        return Err(Void::Disturbed("the tester was late: it sent the second XOFF too late".into()));
    }
    let stream = bench.stream(flow)?;
    for &(class, stream) in &streams.of[1..] {
        let what = format!("an XOFF of {SHORT} quanta in a pause of class {first}");
        Expected { class, stream, sent, time: short, queued: drain_time(short) }
            .judge(bench, judgement, &what)?;
    }
    let expected = Expected { class: first, stream, sent: before, time, queued: Nanos::ZERO };
    expected.judge(bench, judgement, "an XOFF, followed by XOFF for all other classes")
}

pub(super) fn zero_time(bench: &mut Bench) -> Result<Judgement, Void> {
    let streams = Streams::obeying(bench)?;
    let (class, _) = streams.first();
    let mut judgement = Judgement::new();
    let bytes = bench.pfc(TO, &[(class, 0)]);
    has_no_effect(bench, &mut judgement, &streams, &bytes, "a pause time of zero")?;
    Ok(judgement)
}

pub(super) fn other_class_xon(bench: &mut Bench) -> Result<Judgement, Void> {
    let classes = marked(bench, bench.setup.device.obeys)?;
    let streams = Streams::start(bench, classes.iter().copied())?;
    let (class, stream) = streams.first();
    let time = bench.pause_time(TO, QUANTA_MAX);
    let others: ClassSet = Class::ALL.into_iter().filter(|other| *other != class).collect();
    let all: Vec<_> = classes.into_iter().map(|class| (class, QUANTA_MAX)).collect();
    let sent = bench.pause(TO, &all);
    bench.run_for(Nanos(time.0 / 4))?;
    let xon = bench.resume(TO, others);
    if xon.at_most_since(sent).0 > time.0 / 2 {
        return Err(Void::Disturbed(
            "the tester was late: it sent XON in the second half of the pause".into(),
        ));
    }
    let mut judgement = Judgement::new();
    for of in &streams.of[1..] {
        require_resumed(bench, &mut judgement, *of, time, xon, drain_time(xon.at_most_since(sent)))?;
    }
    let expected = Expected { class, stream, sent, time, queued: Nanos::ZERO };
    expected.judge(bench, &mut judgement, "an XOFF, followed by XON for all other classes")?;
    Ok(judgement)
}

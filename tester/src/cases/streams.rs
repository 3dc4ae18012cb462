//! Streams from port 1 to port 2 for all groups of cases; judges how pauses of port 2 affect these streams.

use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos};

use crate::bench::{Arrival, Bench, ControlFrame, Flow, Moment, Reaction, StreamId, Void};
use crate::judgement::Judgement;

pub(super) const FROM: usize = 0;
pub(super) const TO: usize = 1;
pub(super) const BEFORE: Nanos = Nanos::from_millis(20);
/// Maximum time from the end of a pause to the first frame of the class.
pub(super) const PATIENCE: Nanos = Nanos::from_millis(500);
pub(super) const AFTER: Nanos = Nanos::from_millis(10);
pub(super) const QUANTA_MAX: u16 = u16::MAX;

pub(super) struct Streams {
    pub of: Vec<(Class, StreamId)>,
}

impl Streams {
    pub(super) fn start(
        bench: &mut Bench,
        classes: impl IntoIterator<Item = Class>,
    ) -> Result<Streams, Void> {
        let classes: Vec<_> = classes.into_iter().collect();
        let mut of = Vec::new();
        start_heartbeat(bench)?;
        for class in &classes {
            of.push((*class, bench.stream(flow(bench, *class, classes.len()))?));
        }
        let (begin, interval) = (bench.now(), interval(bench, classes.len()));
        bench.run_for(BEFORE)?;
        let arrive = |bench: &Bench| of.iter().all(|(_, stream)| bench.tally(*stream).frames > 10);
        if !bench.run_until(PATIENCE.max(Nanos(12 * interval.0)), arrive)? {
            bench.require_heartbeat(begin, bench.now())?;
            return Err(Void::Failed("the device does not forward streams from port 1 to port 2".into()));
        }
        Ok(Streams { of })
    }

    pub(super) fn obeying(bench: &mut Bench) -> Result<Streams, Void> {
        let class = obeying(bench)?;
        Streams::start(bench, [class])
    }

    pub(super) fn first(&self) -> (Class, StreamId) {
        self.of[0]
    }

    pub(super) fn stream(&self, class: Class) -> StreamId {
        let found = self.of.iter().find(|(of, _)| *of == class);
        found.expect("the class must have a stream").1
    }

    pub(super) fn sending(&self, bench: &Bench) -> Sending<'_> {
        let sent = self.of.iter().map(|(_, stream)| bench.sent(*stream)).collect();
        Sending { streams: self, begin: bench.now(), sent }
    }
}

pub(super) struct Sending<'a> {
    streams: &'a Streams,
    begin: Nanos,
    sent: Vec<u64>,
}

impl Sending<'_> {
    /// Fails the case if, in a class other than `paused`, fewer than half of the frames sent between `from` and `end` arrive in that time.
    /// `what` names the event that may stop only `paused`.
    pub(super) fn require_flow(
        &self,
        bench: &Bench,
        judgement: &mut Judgement,
        paused: Option<Class>,
        (from, end): (Nanos, Nanos),
        what: &str,
    ) -> Result<(), Void> {
        let interval = interval(bench, self.sent.len());
        if Nanos(4 * interval.0) > end.since(from) {
            return Err(Void::Disturbed(format!(
                "{} are too short for frames of {} classes",
                micros(end.since(from)),
                self.sent.len()
            )));
        }
        let took = bench.now().since(self.begin).0.max(1);
        for (&(class, stream), before) in self.streams.of.iter().zip(&self.sent) {
            if Some(class) == paused {
                continue;
            }
            let sent =
                u128::from(bench.sent(stream) - before) * u128::from(end.since(from).0) / u128::from(took);
            let sent = u64::try_from(sent).unwrap_or(u64::MAX);
            let least = (sent / 2).max(1);
            let frames = between(bench, stream, from, end).len() as u64;
            let name = format!("frames of class {class} after {what}");
            judgement.limits(&name, frames as f64, "frames", (Some(least as f64), None));
            judgement.require_in_time(frames >= least, || match frames {
                0 => format!("{what} paused class {class}"),
                _ => format!("only {frames} of {sent} frames of class {class} passed after {what}"),
            });
        }
        Ok(())
    }
}

fn flow(bench: &Bench, class: Class, streams: usize) -> Flow {
    Flow::new(FROM, TO, class).rate(rate(bench.port(FROM).speed().min(bench.port(TO).speed()), streams))
}

pub(super) fn interval(bench: &Bench, streams: usize) -> Nanos {
    let flow = flow(bench, Class::default(), streams);
    flow.rate.time_of(Bytes::on_line(flow.size))
}

/// Returns the rate of each stream: a fiftieth of the line rate, within 10 to 200 Mb/s. One stream has at most a tenth of the line rate,
/// several together a sixth, so that frames queued in a pause leave before the next class resumes.
pub(super) fn rate(speed: BitRate, streams: usize) -> BitRate {
    let speed = speed.bits_per_second();
    let rate = (speed / 50).clamp(10_000_000, 200_000_000).min(speed / (6 * streams as u64).max(10));
    BitRate::new(rate.max(1)).expect("the rate is not zero")
}

/// Returns the classes that the setup file's maps can give a frame.
pub(super) fn markable(bench: &Bench) -> ClassSet {
    Class::ALL.into_iter().filter(|class| bench.setup.mark(*class).is_some()).collect()
}

pub(super) fn marked(bench: &Bench, all: ClassSet) -> Result<Vec<Class>, Void> {
    let markable = markable(bench);
    let classes: Vec<_> = all.iter().filter(|class| markable.contains(*class)).collect();
    match (all.is_empty(), classes.is_empty()) {
        (true, _) => Err(Void::NotPossible("the device has no class that the case could examine".into())),
        (_, true) => {
            Err(Void::NotPossible(format!("the setup file's maps give no frame one of the classes {all:?}")))
        }
        _ => Ok(classes),
    }
}

/// Returns the lowest [`markable`] class that obeys PFC.
pub(super) fn obeying(bench: &Bench) -> Result<Class, Void> {
    Ok(marked(bench, bench.setup.device.obeys)?[0])
}

pub(super) fn lossless(bench: &Bench) -> Class {
    bench.setup.device.lossless.iter().next().unwrap_or_default()
}

pub(super) fn start_heartbeat(bench: &mut Bench) -> Result<(), Void> {
    let class = free_class(bench);
    bench.start_heartbeat(TO, FROM, class)
}

pub(super) fn free_class(bench: &Bench) -> Class {
    let lossless = bench.setup.device.lossless;
    markable(bench).iter().find(|class| !lossless.contains(*class)).unwrap_or_else(|| self::lossless(bench))
}

pub(super) fn first_after(bench: &Bench, stream: StreamId, time: Nanos) -> Option<Arrival> {
    bench.arrivals_of(stream).find(|arrival| arrival.when.earliest >= time).copied()
}

pub(super) fn last_before(bench: &Bench, stream: StreamId, time: Nanos) -> Option<Arrival> {
    bench.arrivals_of(stream).filter(|arrival| arrival.when.latest <= time).last().copied()
}

/// Returns the frames of a stream that certainly arrived between two times.
pub(super) fn between(bench: &Bench, stream: StreamId, from: Nanos, to: Nanos) -> Vec<Arrival> {
    let is_between = |arrival: &&Arrival| arrival.when.earliest >= from && arrival.when.latest <= to;
    bench.arrivals_of(stream).filter(is_between).copied().collect()
}

pub(super) fn paused_classes(controls: &[ControlFrame]) -> ClassSet {
    let is_paused = |class: &Class| controls.iter().any(|frame| frame.is_xoff(*class));
    Class::ALL.into_iter().filter(is_paused).collect()
}

/// Returns how long a case waits after an XOFF before it fills the device.
pub(super) fn settle_time(bench: &Bench) -> Nanos {
    response_limit(bench).max(Nanos::from_millis(3))
}

pub(super) fn two_lossless(bench: &Bench) -> Result<[Class; 2], Void> {
    let mut classes = bench.setup.device.lossless.iter();
    let two = classes.next().zip(classes.next()).map(|(first, second)| [first, second]);
    two.ok_or_else(|| Void::NotPossible("the device has one lossless class only".into()))
}

/// Returns the [`markable`] classes other than `class`.
pub(super) fn others(bench: &Bench, class: Class) -> Result<Vec<Class>, Void> {
    let others: Vec<Class> = markable(bench).iter().filter(|other| *other != class).collect();
    match others.is_empty() {
        true => Err(Void::NotPossible("the setup file's maps use only one class; the case needs two".into())),
        false => Ok(others),
    }
}

/// Returns the time within which the device must react to a PFC frame, with the tester's tolerance.
pub(super) fn response_limit(bench: &Bench) -> Nanos {
    let speed = bench.port(TO).speed();
    let on_the_line =
        speed.time_of(Bytes::on_line(60) + Bytes::on_line(Flow::new(FROM, TO, lossless(bench)).size));
    bench.setup.response(speed).after(bench.tolerance()).after(on_the_line).after(Nanos::from_micros(1))
}

/// Voids the run if a pause of `time` is too short to be measured with the tester's tolerance.
pub(super) fn require_long_enough(bench: &Bench, time: Nanos) -> Result<(), Void> {
    let limit = response_limit(bench);
    match limit.0 * 2 > time.0 {
        true => Err(Void::Disturbed(format!(
            "a pause of {} is too short to be measured: response time plus tolerance are {}",
            micros(time),
            micros(limit)
        ))),
        false => Ok(()),
    }
}

pub(super) fn require_held(bench: &Bench, begin: Nanos) -> Result<(), Void> {
    bench.require_steady(begin, Nanos(bench.pause_time(TO, QUANTA_MAX).0 / 2))
}

#[derive(Clone, Copy)]
pub(super) struct Expected {
    pub class: Class,
    pub stream: StreamId,
    pub sent: Moment,
    pub time: Nanos,
    /// Line time of queued frames of other classes that resume at the same time.
    pub queued: Nanos,
}

impl Expected {
    /// Runs until the class sends again, and judges the duration of its pause; `what` names the pause.
    pub(super) fn judge(self, bench: &mut Bench, judgement: &mut Judgement, what: &str) -> Result<(), Void> {
        let Expected { class, stream, sent, time, queued } = self;
        require_long_enough(bench, time)?;
        let reaction = response_limit(bench);
        let stopped = sent.latest.after(reaction);
        bench.run_until(time.after(PATIENCE), |bench| first_after(bench, stream, stopped).is_some())?;
        bench.run_for(AFTER)?;
        let allowed = sent.latest.after(time).after(reaction).after(queued);
        let Some(first) = first_after(bench, stream, stopped) else {
            bench.require_heartbeat(allowed, bench.now())?;
            judgement.require_in_time(false, || format!("class {class} did not resume after {what}"));
            return Ok(());
        };
        let (least, most) = (first.when.at_least_since(sent), first.when.at_most_since(sent));
        let latest = time.after(reaction).after(bench.tolerance()).after(queued);
        if most >= time && least.after(reaction).after(bench.tolerance()) < time {
            return Err(Void::Disturbed(format!(
                "the tester was late: class {class} resumed between {} and {} after {what}",
                micros(least),
                micros(most)
            )));
        }
        if least > latest {
            bench.require_heartbeat(allowed, Nanos(first.when.earliest.0 - bench.tolerance().0 / 2))?;
        }
        judgement.time(&format!("pause of class {class} by {what}"), most, (Some(time), Some(latest)));
        let early =
            || format!("class {class} sent {} after {what}, which pauses for {}", micros(most), micros(time));
        match most.since(reaction) <= bench.device_stall().max(bench.longest_stall(sent.earliest)) {
            // If device or tester stalled since the allowed reaction, the frame may precede a late stop instead of following an early
            // resumption.
            true => judgement.require_in_time(most >= time, early),
            false => judgement.require(most >= time, early),
        }
        judgement.require_in_time(least <= latest, || {
            format!("class {class} resumed only {} after {what} of {}", micros(least), micros(time))
        });
        Ok(())
    }
}

pub(super) fn has_no_effect(
    bench: &mut Bench,
    judgement: &mut Judgement,
    streams: &Streams,
    bytes: &[u8],
    what: &str,
) -> Result<(), Void> {
    let time = bench.pause_time(TO, QUANTA_MAX);
    require_long_enough(bench, time)?;
    let (sending, earlier) = (streams.sending(bench), bench.controls(FROM).len());
    bench.react(FROM, Reaction::Ignore);
    let sent = bench.send_now(TO, bytes);
    bench.run_for(time)?;
    bench.react(FROM, Reaction::Obey);
    let window = (sent.latest.after(response_limit(bench)), sent.earliest.after(time));
    bench.require_heartbeat(window.0, window.1)?;
    sending.require_flow(bench, judgement, None, window, what)?;
    let paused = paused_classes(&bench.controls(FROM)[earlier..]);
    if !paused.is_empty() {
        judgement.note(format!("port 1 ignored XOFF of classes {paused:?}, sent by the device"));
    }
    bench.resume(TO, ClassSet::ALL);
    bench.run_for(BEFORE)
}

pub(super) fn micros(time: Nanos) -> String {
    format!("{} us", time.0 / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_streams_of_all_classes_fit_on_the_line() {
        for (speed, streams, expected) in [
            (1, 1, 1),
            (10_000_000, 1, 1_000_000),
            (100_000_000, 1, 10_000_000),
            (96_000_000, 2, 8_000_000),
            (96_000_000, 8, 2_000_000),
            (100_000_000_000, 8, 200_000_000),
        ] {
            let speed = BitRate::new(speed).expect("the speed is not zero");
            let expected = BitRate::new(expected).expect("the rate is not zero");
            assert_eq!(rate(speed, streams), expected, "{speed:?}, {streams}");
        }
    }
}

use xoff_wire::units::{BitRate, Nanos};

use super::congestion::{Congestion, all_lossless, xoffs};
use crate::bench::{Bench, ControlFrame, Flow, Void};
use crate::cases::complete::{DRAIN, drain, require_complete};
use crate::cases::streams::{TO, lossless, micros, response_limit, start_heartbeat};
use crate::judgement::Judgement;

const CONGESTED: Nanos = Nanos::from_millis(50);
const REFRESH_MAX: Nanos = Nanos::from_millis(1_500);
const INCAST: Nanos = Nanos::from_millis(300);

pub(super) fn before_loss(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    for class in all_lossless(bench).iter() {
        let congestion = Congestion::begin(bench, class)?;
        bench.run_for(CONGESTED)?;
        let waiting = bench.missing(congestion.stream);
        congestion.end(bench)?;
        judgement.measure(
            &format!("frames in the device while it was congested by class {class}"),
            waiting as f64,
            "frames",
        );
        congestion.require_complete(bench, &mut judgement);
        if !congestion.is_paused {
            judgement.cannot_tell(format!(
                "{waiting} frames of class {class} fit into the device without an XOFF"
            ));
        }
    }
    Ok(judgement)
}

pub(super) fn incast(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let senders: Vec<usize> = (0..bench.ports().len()).filter(|port| *port != TO).collect();
    let line = bench.port(TO).speed().bits_per_second();
    let share = line * 3 / 2 / senders.len() as u64;
    let mut streams = Vec::new();
    start_heartbeat(bench)?;
    bench.only_count(TO);
    let begin = bench.now();
    for from in senders {
        let rate = share.min(bench.port(from).speed().bits_per_second());
        let rate = BitRate::new(rate).expect("the rate is not zero");
        let size = bench.setup.device.mtu + 14;
        streams.push(bench.stream(Flow::new(from, TO, class).size(size).rate(rate))?);
    }
    bench.run_for(INCAST)?;
    bench.stop_all();
    let took = bench.now().since(begin);
    drain(bench, &streams)?;
    let mut judgement = Judgement::new();
    require_complete(bench, &mut judgement, &streams, "the incast");
    let bytes: u64 = streams.iter().map(|stream| bench.tally(*stream).line_bytes.0).sum();
    let paused =
        bench.ports().iter().enumerate().filter(|(port, _)| xoffs(bench, *port, class).next().is_some());
    judgement.measure("paused senders", paused.count() as f64, "ports");
    if bytes < bench.port(TO).speed().bytes_in(took).0 * 3 / 4 {
        judgement.cannot_tell(format!(
            "the tester sent only {} Mb/s to a line of {} Mb/s",
            bytes * 8_000 / took.0.max(1),
            line / 1_000_000
        ));
    }
    Ok(judgement)
}

pub(super) fn refresh(bench: &mut Bench) -> Result<Judgement, Void> {
    let congestion = Congestion::begin(bench, lossless(bench))?;
    let (sender, class) = (congestion.sender, congestion.class);
    let speed = bench.port(sender).speed();
    let first = xoffs(bench, sender, class).next().and_then(|frame| frame.time(class));
    let Some(first) = first else {
        return Err(Void::NotPossible("the device sent no XOFF; see case send.before-loss".into()));
    };
    let time = speed.time_of_quanta(first);
    bench.run_for(Nanos(time.0 * 4).max(CONGESTED).min(REFRESH_MAX))?;
    let end = bench.now();
    let tolerance = response_limit(bench);
    let frames: Vec<_> = bench
        .controls(sender)
        .iter()
        .filter_map(|frame| Some((frame.when, speed.time_of_quanta(frame.time(class)?))))
        .collect();
    let mut judgement = Judgement::new();
    let gap = |index: usize| match frames.get(index + 1) {
        Some((next, _)) => next.at_least_since(frames[index].0),
        None => end.since(frames[index].0.latest),
    };
    let longest = (0..frames.len()).map(gap).max().unwrap_or_default();
    judgement.time("pause time of the first XOFF", time, (None, None));
    judgement.time("longest time between two PFC frames", longest, (None, Some(time)));
    for (index, (_, time)) in frames.iter().enumerate() {
        judgement.require_in_time(*time != Nanos::ZERO, || {
            format!("XON for class {class} while its queue was full")
        });
        let gap = gap(index);
        judgement.require_in_time(*time == Nanos::ZERO || gap <= time.after(tolerance), || {
            format!("no refresh for {} after an XOFF of {}", micros(gap), micros(*time))
        });
    }
    congestion.end(bench)?;
    congestion.require_complete(bench, &mut judgement);
    Ok(judgement)
}

pub(super) fn xon(bench: &mut Bench) -> Result<Judgement, Void> {
    let congestion = Congestion::begin(bench, lossless(bench))?;
    let (sender, class) = (congestion.sender, congestion.class);
    if !congestion.is_paused {
        return Err(Void::NotPossible("the device sent no XOFF; see case send.before-loss".into()));
    }
    bench.run_for(CONGESTED)?;
    bench.stop(congestion.stream);
    let released = congestion.relieve(bench);
    let limit = response_limit(bench);
    drain(bench, &[congestion.stream])?;
    let xons = |bench: &Bench| {
        let is_xon = |frame: &&ControlFrame| frame.is_xon(class);
        bench
            .controls(sender)
            .iter()
            .filter(is_xon)
            .find(|frame| frame.when.latest >= released.earliest)
            .map(|frame| frame.when)
    };
    bench.run_until(DRAIN, |bench| xons(bench).is_some())?;
    let (resumed, drained) = (xons(bench), bench.tally(congestion.stream).last.unwrap_or(released));
    let mut judgement = Judgement::new();
    let delay = resumed.map(|when| when.at_least_since(drained));
    judgement.time("XON after the last queued frame", delay.unwrap_or(DRAIN), (None, Some(limit)));
    judgement.require_in_time(delay.is_some_and(|delay| delay <= limit), || match delay {
        Some(delay) => format!("the device sent XON {} after its queue was empty", micros(delay)),
        None => "the device sent no XON after its queue was empty".to_owned(),
    });
    judgement.measure("bytes drained", bench.tally(congestion.stream).line_bytes.0 as f64, "bytes");
    Ok(judgement)
}

use xoff_wire::units::{Bytes, Class, ClassSet, Nanos};

use super::congestion::{Congestion, HOLD_MAX, LIMIT, SIZE, flow, xoffs};
use crate::bench::{Bench, ControlFrame, Flow, Void};
use crate::cases::complete::{
    DRAIN, drain, each_ingress, full_size, measure_load, require_complete, require_full_line, senders, share,
};
use crate::cases::streams::{
    FROM, TO, lossless, marked, micros, paused_classes, response_limit, start_heartbeat,
};
use crate::judgement::Judgement;

const CONGESTED: Nanos = Nanos::from_millis(50);
const REFRESH_MAX: Nanos = Nanos::from_millis(1_500);
const AFTER_XON: Nanos = Nanos::from_millis(100);
const INCAST: Nanos = Nanos::from_millis(300);

pub(super) fn before_loss(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    let classes = marked(bench, bench.setup.device.lossless)?;
    let mut lacks_xoff = false;
    each_ingress(bench, &mut judgement, &classes, |bench, judgement, from, class| {
        if lacks_xoff && from != FROM {
            return Ok(());
        }
        let congestion = Congestion::from(bench, from, class)?;
        bench.run_for(CONGESTED)?;
        let waiting = bench.missing(congestion.stream);
        congestion.end(bench)?;
        let what = format!("frames of class {class} from port {}", from + 1);
        judgement.measure(&format!("{what} in the congested device"), waiting as f64, "frames");
        congestion.require_complete(bench, judgement);
        if !congestion.is_paused {
            lacks_xoff = true;
            judgement.cannot_tell(format!("{waiting} {what} fit into the device without an XOFF"));
        }
        Ok(())
    })?;
    Ok(judgement)
}

pub(super) fn incast(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let senders: Vec<usize> = senders(bench).collect();
    let mut streams = Vec::new();
    start_heartbeat(bench)?;
    bench.only_count(TO);
    bench.hold(TO, [class].into_iter().collect(), HOLD_MAX);
    for &from in &senders {
        let size = full_size(bench, from);
        let rate = share(bench, 150, senders.len(), size).min(bench.port(from).speed());
        streams.push(bench.stream(Flow::new(from, TO, class).size(size).rate(rate))?);
    }
    let is_paused = |bench: &Bench, port| xoffs(bench.controls(port), class).next().is_some();
    bench.run_until(Nanos(2 * CONGESTED.0), |bench| senders.iter().all(|port| is_paused(bench, *port)))?;
    bench.release(TO);
    let begin = bench.now();
    bench.run_for(INCAST)?;
    bench.stop_streams(&streams);
    let took = bench.now().since(begin);
    drain(bench, &streams)?;
    let mut judgement = Judgement::new();
    require_complete(bench, &mut judgement, &streams, "the incast");
    let paused = bench.ports().iter().filter(|port| xoffs(&port.controls, class).next().is_some());
    judgement.measure("paused senders", paused.count() as f64, "ports");
    measure_load(bench, &mut judgement, &streams, took);
    require_full_line(bench, &mut judgement, &streams, took);
    Ok(judgement)
}

pub(super) fn refresh(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    let classes = marked(bench, bench.setup.device.lossless)?;
    let last = classes.len() - 1;
    for (index, class) in classes.iter().enumerate() {
        let mut congestions = vec![Congestion::begin(bench, *class)?];
        if index == last && last > 0 && !bench.examines_nic() {
            congestions.push(Congestion::begin(bench, classes[0])?);
        }
        wait_for_refreshes(bench, &congestions)?;
        for congestion in &congestions {
            refreshes(bench, &mut judgement, congestion);
            bench.stop(congestion.stream);
        }
        for congestion in &congestions {
            congestion.end(bench)?;
            congestion.require_complete(bench, &mut judgement);
        }
    }
    Ok(judgement)
}

fn first_pause(bench: &Bench, congestion: &Congestion) -> Option<Nanos> {
    let class = congestion.class;
    let first = xoffs(congestion.controls(bench), class).next()?.time(class)?;
    Some(bench.port(congestion.sender).speed().time_of_quanta(first))
}

fn wait_for_refreshes(bench: &mut Bench, congestions: &[Congestion]) -> Result<(), Void> {
    let longest = congestions.iter().filter_map(|congestion| first_pause(bench, congestion)).max();
    if let Some(time) = longest {
        bench.run_for(Nanos(time.0 * 4).max(CONGESTED).min(REFRESH_MAX))?;
        congestions.iter().try_for_each(|congestion| congestion.require_held(bench))?;
    }
    Ok(())
}

fn no_xoff(class: Class) -> String {
    format!("the device sent no XOFF of class {class}; see case send.before-loss")
}

fn refreshes(bench: &Bench, judgement: &mut Judgement, congestion: &Congestion) {
    let (sender, class) = (congestion.sender, congestion.class);
    let speed = bench.port(sender).speed();
    let Some(time) = first_pause(bench, congestion) else {
        judgement.cannot_tell(no_xoff(class));
        return;
    };
    let end = bench.now();
    let tolerance = response_limit(bench);
    let frames: Vec<_> = congestion
        .controls(bench)
        .iter()
        .skip_while(|frame| !frame.is_xoff(class))
        .filter_map(|frame| Some((frame.when, speed.time_of_quanta(frame.time(class)?))))
        .collect();
    let gap = |index: usize| match frames.get(index + 1) {
        Some((next, _)) => next.at_least_since(frames[index].0),
        None => end.since(frames[index].0.latest),
    };
    let longest = (0..frames.len()).filter(|index| frames[*index].1 != Nanos::ZERO).map(gap).max();
    judgement.time(&format!("pause time of the first XOFF of class {class}"), time, (None, None));
    judgement.time(
        &format!("longest time from an XOFF of class {class} to the next PFC frame"),
        longest.unwrap_or_default(),
        (None, Some(time)),
    );
    if end.since(frames[0].0.latest) < time {
        judgement.cannot_tell(format!("a pause of {} is longer than the case", micros(time)));
    }
    for (index, (_, time)) in frames.iter().enumerate() {
        // A NIC may resume its peer whenever the kernel has emptied the receive ring.
        judgement.require_in_time(*time != Nanos::ZERO || bench.examines_nic(), || {
            format!("the device sent XON for class {class} while port 2 still paused its queue")
        });
        let gap = gap(index);
        judgement.require_in_time(*time == Nanos::ZERO || gap <= time.after(tolerance), || {
            format!(
                "the device sent no PFC frame of class {class} for {} after an XOFF of {}",
                micros(gap),
                micros(*time)
            )
        });
    }
}

pub(super) fn xon(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    let classes = marked(bench, bench.setup.device.lossless)?;
    for &class in &classes {
        let congestion = Congestion::begin(bench, class)?;
        ends_pause(bench, &mut judgement, &congestion)?;
    }
    if let [first, second, ..] = classes[..]
        && !bench.examines_nic()
    {
        ends_one_pause(bench, &mut judgement, [first, second])?;
    }
    Ok(judgement)
}

/// Resumes one of two congested classes: XON for the other can cause a loss.
fn ends_one_pause(bench: &mut Bench, judgement: &mut Judgement, classes: [Class; 2]) -> Result<(), Void> {
    let both: ClassSet = classes.into_iter().collect();
    bench.hold(TO, both, HOLD_MAX);
    let earlier = bench.controls(FROM).len();
    let rate = share(bench, 80, 2, SIZE);
    let mut streams = Vec::new();
    for class in classes {
        streams.push(bench.stream(flow(bench, class).rate(rate))?);
    }
    let paused = |bench: &Bench| paused_classes(&bench.controls(FROM)[earlier..]);
    if !bench.run_until(LIMIT, |bench| paused(bench).0 & both.0 == both.0)? {
        judgement.cannot_tell(format!("the device did not pause classes {both:?} together"));
    }
    bench.release_class(TO, classes[0]);
    let is_xon = |frame: &ControlFrame| frame.is_xon(classes[0]);
    bench.run_until(LIMIT, |bench| bench.controls(FROM)[earlier..].iter().any(is_xon))?;
    let resumed = bench.now();
    bench.run_for(Nanos(2 * CONGESTED.0))?;
    bench.require_steady(resumed, CONGESTED)?;
    bench.stop_streams(&streams);
    bench.release(TO);
    drain(bench, &streams)?;
    let [first, second] = classes;
    let what = format!("class {second}, still congested when class {first} resumed");
    require_complete(bench, judgement, &streams[1..], &what);
    Ok(())
}

fn ends_pause(bench: &mut Bench, judgement: &mut Judgement, congestion: &Congestion) -> Result<(), Void> {
    let class = congestion.class;
    if !congestion.is_paused {
        judgement.cannot_tell(no_xoff(class));
        return congestion.end(bench);
    }
    bench.run_for(CONGESTED)?;
    congestion.require_held(bench)?;
    bench.stop(congestion.stream);
    let last = congestion.controls(bench).iter().rfind(|frame| frame.time(class).is_some());
    if bench.examines_nic() && last.is_some_and(|frame| frame.is_xon(class)) {
        judgement.note(format!("the NIC ended its pause of class {class} before the flood ended"));
        return congestion.end(bench);
    }
    let released = congestion.relieve(bench);
    let frames = Bytes::on_line(60) + Bytes::on_line(full_size(bench, TO));
    let limit = response_limit(bench).after(bench.port(congestion.sender).speed().time_of(frames));
    drain(bench, &[congestion.stream])?;
    let xon = |bench: &Bench| {
        let is_xon = |frame: &&ControlFrame| frame.is_xon(class) && frame.when.latest >= released.earliest;
        congestion.controls(bench).iter().find(is_xon).map(|frame| frame.when)
    };
    bench.run_until(DRAIN, |bench| xon(bench).is_some())?;
    let drained = bench.tally(congestion.stream).last.unwrap_or(released);
    let delay = xon(bench).map(|when| when.at_least_since(drained));
    let name = format!("XON of class {class} after the last queued frame");
    judgement.time(&name, delay.unwrap_or(DRAIN), (None, Some(limit)));
    judgement.require_in_time(delay.is_some_and(|delay| delay <= limit), || match delay {
        Some(delay) => {
            format!("the device sent XON of class {class} {} after its queue was empty", micros(delay))
        }
        None => format!("the device sent no XON of class {class} after its queue was empty"),
    });
    if let Some(when) = xon(bench).filter(|_| !bench.examines_nic()) {
        bench.run_for(AFTER_XON)?;
        let again = xoffs(congestion.controls(bench), class).any(|frame| frame.when.earliest > when.latest);
        judgement.require_unless_stalled(!again, || {
            format!("the device sent XOFF of class {class} after its XON, without further frames")
        });
    }
    let bytes = bench.tally(congestion.stream).line_bytes.0 as f64;
    judgement.measure(&format!("drained bytes of class {class}"), bytes, "bytes");
    Ok(())
}

use std::collections::BTreeSet;

use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use super::streams::{FROM, QUANTA_MAX, TO, free_class, lossless, response_limit};
use crate::bench::{Bench, Flow, StreamId, Void};
use crate::judgement::Judgement;
use crate::pressure::is_local;
use crate::setup::Mark;

pub(super) const DRAIN: Nanos = Nanos::from_secs(3);
/// Minimum time without frames after which missing ones are lost.
const SILENCE: Nanos = Nanos::from_millis(600);
/// Maximum frames a second on virtual test ports, where the device may be a program on this machine.
const FRAMES_MAX: u64 = 150_000;
pub(super) const AROUND: u64 = 24;

/// Waits until all frames of `streams` have arrived, or only heartbeat frames arrive for longer than a pause; at most [`DRAIN`] after the
/// last one.
pub(super) fn drain(bench: &mut Bench, streams: &[StreamId]) -> Result<(), Void> {
    let missing = |bench: &Bench| streams.iter().map(|stream| bench.outstanding(*stream)).sum::<u64>();
    let pause = Nanos(bench.pause_time(TO, QUANTA_MAX).0 / 4 * 5);
    let silence = SILENCE.max(pause).max(Nanos(2 * response_limit(bench).0)).min(DRAIN);
    let mut end = bench.now().after(DRAIN);
    while bench.now() < end {
        let before = missing(bench);
        let is_complete = bench.run_until(silence, |bench| missing(bench) == 0)?;
        if is_complete || missing(bench) == before && bench.is_alive() {
            break;
        }
        if missing(bench) < before {
            end = bench.now().after(DRAIN);
        }
    }
    Ok(())
}

pub(super) fn require_no_stall(bench: &Bench, judgement: &Judgement) -> Result<(), Void> {
    match judgement.may_be_stall() && bench.device_stall() > bench.stall_limit() {
        true => Err(Void::Disturbed(format!("the device stalled while under test; {}", judgement.reason()))),
        false => Ok(()),
    }
}

/// Sends `count` frames. Fails if the device pauses the sender for [`DRAIN`] in total.
pub(super) fn send_all(bench: &mut Bench, flow: Flow, count: u64) -> Result<StreamId, Void> {
    let stream = bench.stream(flow.count(count))?;
    let limit = Nanos(flow.rate.time_of(Bytes::on_line(flow.size)).0 * count).after(DRAIN);
    let is_sent = bench.run_until(limit, |bench| bench.sent(stream) == count)?;
    bench.stop(stream);
    match is_sent {
        true => Ok(stream),
        false => Err(Void::Failed(format!(
            "port {} could send only {} of {count} frames of class {} in {} s, because the device paused it",
            flow.from + 1,
            bench.sent(stream),
            flow.class,
            limit.0 / 1_000_000_000
        ))),
    }
}

pub(super) fn require_complete(bench: &Bench, judgement: &mut Judgement, streams: &[StreamId], what: &str) {
    let sum = |count: &dyn Fn(StreamId) -> u64| streams.iter().map(|stream| count(*stream)).sum::<u64>();
    let sent = sum(&|stream| bench.sent(stream));
    let lost = sum(&|stream| bench.missing(stream));
    judgement.measure(&format!("frames of {what}"), sent as f64, "frames");
    judgement.limits(&format!("lost frames of {what}"), lost as f64, "frames", (None, Some(0.0)));
    judgement.require_in_time(sent > 0, || {
        format!("no frame of {what} could be sent: the device paused all senders")
    });
    judgement.require_unless_stalled(lost == 0, || format!("{lost} of {sent} frames of {what} were lost"));
}

/// Fails the case unless each frame arrived once, in order and unchanged.
pub(super) fn require_unchanged(bench: &Bench, judgement: &mut Judgement, streams: &[StreamId], what: &str) {
    require_complete(bench, judgement, streams, what);
    let sum = |count: &dyn Fn(StreamId) -> u64| streams.iter().map(|stream| count(*stream)).sum::<u64>();
    let sent = sum(&|stream| bench.sent(stream));
    let duplicated = sum(&|stream| bench.tally(stream).tracker.duplicated());
    let reordered = sum(&|stream| bench.tally(stream).tracker.reordered());
    let damaged = sum(&|stream| bench.tally(stream).damaged);
    for (count, fault) in [
        (duplicated, "arrived twice"),
        (reordered, "arrived out of order"),
        (damaged, "have changed content"),
    ] {
        judgement.require(count == 0, || format!("{count} of {sent} frames of {what} {fault}"));
    }
}

pub(super) fn measure_load(bench: &Bench, judgement: &mut Judgement, streams: &[StreamId], took: Nanos) {
    let sent = |stream: &StreamId| bench.sent(*stream) * Bytes::on_line(bench.flow(*stream).size).0;
    let load = streams.iter().map(sent).sum::<u64>() as f64 * 8e3 / took.0.max(1) as f64;
    let receivers: BTreeSet<_> = streams.iter().map(|stream| bench.flow(*stream).to).collect();
    let lines: u64 = receivers.iter().map(|port| bench.port(*port).speed().bits_per_second()).sum();
    judgement.measure("load", load, "Mb/s");
    judgement.measure("load of the receivers' lines", load * 1e8 / lines as f64, "%");
}

pub(super) fn require_full_line(bench: &Bench, judgement: &mut Judgement, streams: &[StreamId], took: Nanos) {
    let speed = bench.port(TO).speed();
    let bytes: u64 = streams.iter().map(|stream| bench.tally(*stream).line_bytes.0).sum();
    if bytes < speed.bytes_in(took).0 * 3 / 4 {
        judgement.cannot_tell(format!(
            "the line of port 2 carried only {} of {} Mb/s; three quarters are needed",
            bytes * 8_000 / took.0.max(1),
            speed.bits_per_second() / 1_000_000
        ));
    }
}

/// Returns the rate of each of `streams` streams that together fill `percent` of the receiver's line.
pub(super) fn share(bench: &Bench, percent: u64, streams: usize, size: u32) -> BitRate {
    share_of(bench, bench.port(TO).speed(), percent, streams, size)
}

pub(super) fn share_of(bench: &Bench, line: BitRate, percent: u64, streams: usize, size: u32) -> BitRate {
    let line = line.bits_per_second();
    let most = match is_local(&bench.setup.ports) {
        true => FRAMES_MAX * (u64::from(size) + AROUND) * 8,
        false => u64::MAX,
    };
    let rate = (line / 100 * percent).min(most) / streams.max(1) as u64;
    BitRate::new(rate.max(1_000)).expect("the rate is not zero")
}

pub(super) fn senders(bench: &Bench) -> impl Iterator<Item = usize> + use<> {
    (0..bench.ports().len()).filter(|port| *port != TO)
}

/// Returns the port that pauses the device while frames of port `from` fill it.
pub(super) fn receiver(from: usize) -> usize {
    if from == TO { FROM } else { TO }
}

/// Calls `examine` with each port and class; the heartbeat opposes frames from that port.
pub(super) fn each_ingress(
    bench: &mut Bench,
    judgement: &mut Judgement,
    classes: &[Class],
    mut examine: impl FnMut(&mut Bench, &mut Judgement, usize, Class) -> Result<(), Void>,
) -> Result<(), Void> {
    for from in senders(bench).chain([TO]) {
        if from == TO {
            require_no_stall(bench, judgement)?;
            bench.end_heartbeat();
        }
        let to = receiver(from);
        bench.start_heartbeat(to, receiver(to), free_class(bench))?;
        classes.iter().try_for_each(|class| examine(bench, judgement, from, *class))?;
    }
    Ok(())
}

/// Returns the size without FCS of a full frame, at most 1,514 bytes and a tag.
pub(super) fn full_size(bench: &Bench, from: usize) -> u32 {
    bench.setup.device.mtu.min(1_500) + 14 + tag_len(bench, from)
}

pub(super) fn require_mtu(bench: &Bench, ports: impl IntoIterator<Item = usize>) -> Result<(), Void> {
    let mtu = bench.setup.device.mtu;
    for port in ports {
        let device = &bench.port(port).settings.device;
        let own = xoff_xdp::mtu(device).map_err(|error| Void::NotPossible(error.to_string()))?;
        if own < mtu {
            return Err(Void::NotPossible(format!(
                "the interface {device} has an MTU of {own}: set it to {mtu}"
            )));
        }
    }
    Ok(())
}

pub(super) fn tag_len(bench: &Bench, from: usize) -> u32 {
    let is_marked = matches!(bench.setup.mark(lossless(bench)), Some(Mark::Pcp(_)));
    if is_marked || bench.port(from).settings.vlan.is_some() { 4 } else { 0 }
}

/// Makes the receiver pause and resume `classes` in turn, each time for `pause`, until `span` has passed.
pub(super) fn storm(bench: &mut Bench, classes: &[Class], pause: Nanos, span: Nanos) -> Result<(), Void> {
    let end = bench.now().after(span);
    while bench.now() < end {
        bench.hold(TO, classes.iter().copied().collect(), pause);
        bench.run_for(pause)?;
        bench.release(TO);
        bench.run_for(pause)?;
    }
    Ok(())
}

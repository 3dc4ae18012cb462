use xoff_wire::units::{BitRate, ClassSet, Nanos};

use super::congestion::Congestion;
use crate::bench::{Bench, Flow, Void};
use crate::cases::complete::{full_size, senders, share};
use crate::cases::streams::{FROM, TO, lossless, markable, marked, others, paused_classes, start_heartbeat};
use crate::judgement::Judgement;

pub(super) const CONGESTED: Nanos = Nanos::from_millis(200);
const IDLE: Nanos = Nanos::from_millis(1_200);
/// Rate of a short frame per 10 ms: stalls queue too few to reach a threshold.
const FEW: u64 = 67_000;

/// Fails the case if a port received XOFF for other classes than `allowed`, except in its first `earlier` MAC control frames.
pub(super) fn require_only(
    bench: &Bench,
    judgement: &mut Judgement,
    port: usize,
    earlier: usize,
    allowed: ClassSet,
) {
    let paused = paused_classes(&bench.controls(port)[earlier..]);
    let wrong = ClassSet(paused.0 & !allowed.0);
    judgement.require_unless_stalled(wrong.is_empty(), || {
        format!("the device paused classes {wrong:?} at port {}; allowed are {allowed:?}", port + 1)
    });
}

pub(super) fn only_lossless(bench: &mut Bench) -> Result<Judgement, Void> {
    let lossy = marked(bench, ClassSet(!bench.setup.device.lossless.0))?;
    // The device may ignore pauses of a lossy class, so two ports send more than the line of port 2 carries.
    let senders: Vec<usize> = senders(bench).take(2).collect();
    start_heartbeat(bench)?;
    bench.only_count(TO);
    let mut judgement = Judgement::new();
    for class in lossy {
        let mut streams = Vec::new();
        for from in &senders {
            let size = full_size(bench, *from);
            let rate = share(bench, 150, 2, size).min(bench.port(*from).speed());
            streams.push(bench.stream(Flow::new(*from, TO, class).size(size).rate(rate))?);
        }
        bench.run_for(CONGESTED)?;
        bench.stop_streams(&streams);
        bench.run_for(CONGESTED)?;
        let lost: u64 = streams.iter().map(|stream| bench.missing(*stream)).sum();
        judgement.measure(&format!("lost frames of lossy class {class}"), lost as f64, "frames");
        if lost == 0 {
            judgement.cannot_tell(format!("the tester's frames did not congest lossy class {class}"));
        }
    }
    senders.iter().for_each(|port| require_only(bench, &mut judgement, *port, 0, ClassSet::NONE));
    Ok(judgement)
}

pub(super) fn only_held(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    for class in marked(bench, bench.setup.device.lossless)? {
        let (others, lossless) = (others(bench, class)?, bench.setup.device.lossless);
        let free = *others.iter().find(|other| lossless.contains(**other)).unwrap_or(&others[0]);
        let few = BitRate::new(FEW).expect("the rate is not zero");
        let (from, to) = if bench.examines_nic() { (TO, FROM) } else { (FROM, TO) };
        let other = bench.stream(Flow::new(from, to, free).size(60).rate(few))?;
        let earlier = bench.controls(from).len();
        let congestion = Congestion::begin(bench, class)?;
        bench.run_for(CONGESTED)?;
        require_only(bench, &mut judgement, from, earlier, [class].into_iter().collect());
        if !congestion.is_paused {
            judgement.cannot_tell(format!("the device sent no XOFF of class {class}"));
        }
        bench.stop(other);
        congestion.end(bench)?;
    }
    Ok(judgement)
}

/// Returns a rate at which streams of all classes congest no port.
pub(super) fn slow(bench: &Bench) -> BitRate {
    let line = bench.port(FROM).speed().min(bench.port(TO).speed()).bits_per_second();
    BitRate::new((line / 20).clamp(1, 200_000)).expect("the rate is not zero")
}

pub(super) fn spurious(bench: &mut Bench) -> Result<Judgement, Void> {
    let slow = slow(bench);
    start_heartbeat(bench)?;
    for class in markable(bench).iter() {
        bench.stream(Flow::new(FROM, TO, class).size(60).rate(slow))?;
        bench.stream(Flow::new(TO, FROM, class).size(60).rate(slow))?;
    }
    bench.run_for(IDLE)?;
    let mut judgement = Judgement::new();
    (0..bench.ports().len()).for_each(|port| require_only(bench, &mut judgement, port, 0, ClassSet::NONE));
    let congestion = Congestion::begin(bench, lossless(bench))?;
    bench.run_for(CONGESTED)?;
    let others = (0..bench.ports().len()).filter(|port| *port != FROM);
    others.for_each(|port| require_only(bench, &mut judgement, port, 0, ClassSet::NONE));
    if !congestion.is_paused {
        judgement.cannot_tell("the device sent no XOFF");
    }
    Ok(judgement)
}

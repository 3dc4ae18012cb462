//! Whom the device must not pause: lossy classes, free classes, and ports without a part in the congestion.

use xoff_wire::units::{BitRate, ClassSet, Nanos};

use super::congestion::{Congestion, flow, paused_classes, rate};
use crate::bench::{Bench, Flow, Void};
use crate::cases::streams::{FROM, TO, lossless, markable};
use crate::judgement::Judgement;

const CONGESTED: Nanos = Nanos::from_millis(200);

/// Judges that a port received XOFF for `allowed` classes only.
fn require_only(bench: &Bench, judgement: &mut Judgement, port: usize, allowed: ClassSet) {
    let paused = paused_classes(bench, port);
    let wrong = ClassSet(paused.0 & !allowed.0);
    judgement.require(wrong.is_empty(), || {
        format!("the device paused classes {wrong:?} at port {}, allowed are {allowed:?}", port + 1)
    });
}

pub(super) fn only_lossless(bench: &mut Bench) -> Result<Judgement, Void> {
    let (classes, allowed) = (markable(bench), bench.setup.device.lossless);
    if classes.iter().all(|class| allowed.contains(class)) {
        return Err(Void::NotPossible("no lossy class has a mark".into()));
    }
    bench.hold(TO, ClassSet::ALL, CONGESTED);
    let rate = rate(bench).bits_per_second() / 8;
    for class in classes.iter() {
        let rate = BitRate::new(rate.max(1)).expect("the rate is not zero");
        bench.stream(flow(bench, class).rate(rate))?;
    }
    bench.run_for(CONGESTED)?;
    let mut judgement = Judgement::new();
    require_only(bench, &mut judgement, FROM, allowed);
    Ok(judgement)
}

pub(super) fn only_held(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let free = markable(bench).iter().find(|other| *other != class);
    let free = free.ok_or_else(|| Void::NotPossible("only one class has a mark".into()))?;
    let slow = BitRate::from_mbps(5);
    bench.stream(Flow::new(FROM, TO, free).rate(slow))?;
    let congestion = Congestion::begin(bench)?;
    bench.run_for(CONGESTED)?;
    let mut judgement = Judgement::new();
    require_only(bench, &mut judgement, FROM, [class].into_iter().collect());
    if !congestion.is_paused {
        judgement.cannot_tell("the device sent no XOFF");
    }
    Ok(judgement)
}

pub(super) fn spurious(bench: &mut Bench) -> Result<Judgement, Void> {
    let slow = BitRate::from_mbps(2);
    for class in markable(bench).iter() {
        bench.stream(Flow::new(FROM, TO, class).rate(slow))?;
        bench.stream(Flow::new(TO, FROM, class).rate(slow))?;
    }
    bench.run_for(CONGESTED)?;
    let mut judgement = Judgement::new();
    (0..bench.ports().len()).for_each(|port| require_only(bench, &mut judgement, port, ClassSet::NONE));
    let congestion = Congestion::begin(bench)?;
    bench.run_for(CONGESTED)?;
    let others = (0..bench.ports().len()).filter(|port| *port != FROM);
    others.for_each(|port| require_only(bench, &mut judgement, port, ClassSet::NONE));
    if !congestion.is_paused {
        judgement.cannot_tell("the device sent no XOFF");
    }
    Ok(judgement)
}

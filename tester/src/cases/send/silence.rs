use xoff_wire::units::{BitRate, ClassSet, Nanos};

use super::congestion::{Congestion, all_lossless, paused_classes};
use crate::bench::{Bench, Flow, Void};
use crate::cases::streams::{FROM, TO, lossless, markable, start_heartbeat};
use crate::judgement::Judgement;

pub(super) const CONGESTED: Nanos = Nanos::from_millis(200);
const LARGE: u32 = 1_500;

/// Fails the case if a port received XOFF for other classes than `allowed`.
pub(super) fn require_only(bench: &Bench, judgement: &mut Judgement, port: usize, allowed: ClassSet) {
    let paused = paused_classes(bench, port);
    let wrong = ClassSet(paused.0 & !allowed.0);
    judgement.require_unless_stalled(wrong.is_empty(), || {
        format!("the device paused classes {wrong:?} at port {}; allowed are {allowed:?}", port + 1)
    });
}

pub(super) fn only_lossless(bench: &mut Bench) -> Result<Judgement, Void> {
    let (classes, allowed) = (markable(bench), bench.setup.device.lossless);
    let Some(lossy) = classes.iter().find(|class| !allowed.contains(*class)) else {
        return Err(Void::NotPossible("the setup file's maps give no frame a lossy class".into()));
    };
    // The device may ignore pauses of a lossy class, so two ports send more than the line of port 2 carries.
    let senders: Vec<usize> = (0..bench.ports().len()).filter(|port| *port != TO).take(2).collect();
    let share = bench.port(TO).speed().bits_per_second() * 3 / 4;
    start_heartbeat(bench)?;
    bench.only_count(TO);
    let mut streams = Vec::new();
    for from in &senders {
        let rate = share.min(bench.port(*from).speed().bits_per_second());
        let rate = BitRate::new(rate).expect("the rate is not zero");
        let size = bench.setup.device.mtu.min(LARGE) + 14;
        streams.push(bench.stream(Flow::new(*from, TO, lossy).size(size).rate(rate))?);
    }
    bench.run_for(CONGESTED)?;
    bench.stop_all();
    bench.run_for(CONGESTED)?;
    let mut judgement = Judgement::new();
    senders.iter().for_each(|port| require_only(bench, &mut judgement, *port, allowed));
    let lost: u64 = streams.iter().map(|stream| bench.missing(*stream)).sum();
    judgement.measure(&format!("lost frames of lossy class {lossy}"), lost as f64, "frames");
    if lost == 0 {
        judgement.cannot_tell("the tester's frames did not congest the lossy class");
    }
    Ok(judgement)
}

pub(super) fn only_held(bench: &mut Bench) -> Result<Judgement, Void> {
    let mut judgement = Judgement::new();
    for class in all_lossless(bench).iter() {
        let free = markable(bench).iter().find(|other| *other != class);
        let free = free.ok_or_else(|| {
            Void::NotPossible("the setup file's maps use only one class; the case needs two".into())
        })?;
        bench.begin_case()?;
        let slow = BitRate::from_mbps(5);
        let (from, to) = if bench.examines_nic() { (TO, FROM) } else { (FROM, TO) };
        bench.stream(Flow::new(from, to, free).rate(slow))?;
        let congestion = Congestion::begin(bench, class)?;
        bench.run_for(CONGESTED)?;
        require_only(bench, &mut judgement, congestion.sender, [class].into_iter().collect());
        if !congestion.is_paused {
            judgement.cannot_tell("the device sent no XOFF");
        }
    }
    Ok(judgement)
}

pub(super) fn spurious(bench: &mut Bench) -> Result<Judgement, Void> {
    let slow = BitRate::from_mbps(2);
    start_heartbeat(bench)?;
    for class in markable(bench).iter() {
        bench.stream(Flow::new(FROM, TO, class).rate(slow))?;
        bench.stream(Flow::new(TO, FROM, class).rate(slow))?;
    }
    bench.run_for(CONGESTED)?;
    let mut judgement = Judgement::new();
    (0..bench.ports().len()).for_each(|port| require_only(bench, &mut judgement, port, ClassSet::NONE));
    let congestion = Congestion::begin(bench, lossless(bench))?;
    bench.run_for(CONGESTED)?;
    let others = (0..bench.ports().len()).filter(|port| *port != FROM);
    others.for_each(|port| require_only(bench, &mut judgement, port, ClassSet::NONE));
    if !congestion.is_paused {
        judgement.cannot_tell("the device sent no XOFF");
    }
    Ok(judgement)
}

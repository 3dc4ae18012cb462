use xoff_wire::units::Nanos;

use crate::bench::{Bench, Flow, Void};
use crate::cases::complete::{
    DRAIN, drain, full_size, require_mtu, require_unchanged, send_all, share, tag_len,
};
use crate::cases::streams::{FROM, TO, lossless, start_heartbeat};
use crate::judgement::Judgement;

/// Frame sizes in bytes without FCS and tag.
const SIZES: [u32; 10] = [60, 61, 64, 124, 252, 508, 1_020, 1_276, 1_513, 1_514];
const JUMBO: [u32; 8] = [1_515, 1_518, 1_600, 2_044, 2_048, 4_092, 4_100, 8_188];
const FRAMES_OF_SIZE: u64 = 200;
const BURSTS: usize = 20;
const FRAMES_OF_BURST: u64 = 200;
const SILENCE: Nanos = Nanos::from_millis(20);
const LONG_SILENCES: [u64; 3] = [300, 1_000, 3_000];

fn of_sizes(bench: &mut Bench, sizes: impl Iterator<Item = u32>) -> Result<Judgement, Void> {
    let class = lossless(bench);
    start_heartbeat(bench)?;
    let mut judgement = Judgement::new();
    for size in sizes.map(|size| size + tag_len(bench, FROM)).collect::<Vec<_>>() {
        let rate = share(bench, 50, 1, size);
        let flow = Flow::new(FROM, TO, class).size(size).rate(rate);
        let stream = send_all(bench, flow, FRAMES_OF_SIZE)?;
        drain(bench, &[stream])?;
        require_unchanged(bench, &mut judgement, &[stream], &format!("{} bytes", size + 4));
    }
    Ok(judgement)
}

pub(super) fn sizes(bench: &mut Bench) -> Result<Judgement, Void> {
    let most = bench.setup.device.mtu + 14;
    of_sizes(bench, SIZES.into_iter().filter(|size| *size <= most))
}

pub(super) fn jumbo(bench: &mut Bench) -> Result<Judgement, Void> {
    let mtu = bench.setup.device.mtu;
    if mtu <= 1_500 {
        return Err(Void::NotPossible(format!(
            "the tester assumes an MTU of {mtu}: set `mtu` of [device] if it is larger"
        )));
    }
    require_mtu(bench, [FROM, TO])?;
    let most = mtu + 14;
    of_sizes(bench, JUMBO.into_iter().filter(|size| *size < most - 1).chain([most - 1, most]))
}

pub(super) fn bursts(bench: &mut Bench) -> Result<Judgement, Void> {
    let (class, size) = (lossless(bench), full_size(bench, FROM));
    start_heartbeat(bench)?;
    let mut streams = Vec::new();
    for _ in 0..BURSTS {
        let rate = share(bench, 100, 1, size);
        let flow = Flow::new(FROM, TO, class).size(size).rate(rate);
        streams.push(send_all(bench, flow, FRAMES_OF_BURST)?);
        bench.run_for(SILENCE)?;
    }
    drain(bench, &streams)?;
    let mut judgement = Judgement::new();
    require_unchanged(bench, &mut judgement, &streams, "bursts");
    Ok(judgement)
}

pub(super) fn idle(bench: &mut Bench) -> Result<Judgement, Void> {
    let class = lossless(bench);
    let mut streams = Vec::new();
    for silence in LONG_SILENCES.map(Nanos::from_millis) {
        bench.run_for(silence)?;
        streams.push(bench.stream(Flow::new(FROM, TO, class).count(3))?);
    }
    // Do not `drain`: without a heartbeat, it would take a stall of the device for a loss.
    bench.run_until(DRAIN, |bench| streams.iter().all(|stream| bench.outstanding(*stream) == 0))?;
    let mut judgement = Judgement::new();
    require_unchanged(bench, &mut judgement, &streams, "streams after silence");
    Ok(judgement)
}

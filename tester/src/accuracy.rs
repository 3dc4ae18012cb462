//! Measures the timing error of the tester, before the first case, from the delays of frames through the idle device. The delays vary with
//! machine and device; without kernel timestamps, also with polling.

use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use crate::bench::{Bench, Flow, Void};
use crate::report::Accuracy;

const FRAMES: u64 = 1_000;
const GAP_US: u64 = 500;
/// Length of a frame without FCS: above the Ethernet minimum, because a defective device may drop frames of minimum length.
const SIZE: u32 = 200;
const LIMIT: Nanos = Nanos::from_secs(3);
const METHOD: &str = "1000 frames cross the device from port 1 to port 2 at intervals of 500 us; the error is a delay \
                      minus the shortest delay";

/// Measures the tester's accuracy.
///
/// # Errors
/// If no frame crosses the device.
pub fn measure(bench: &mut Bench) -> Result<Accuracy, Void> {
    bench.begin_case()?;
    let begin = bench.now();
    let bits = Bytes::on_line(SIZE).0 * 8 * 1_000_000 / GAP_US;
    let rate = BitRate::new(bits).expect("the rate is not zero");
    let class = Class::ALL.into_iter().find(|class| bench.setup.mark(*class).is_some()).unwrap_or_default();
    let mut delays = Vec::new();
    let stream = bench.stream(Flow::new(0, 1, class).size(SIZE).rate(rate).count(FRAMES))?;
    let mut before = (0, Nanos::ZERO);
    bench.run_until(LIMIT, |bench| {
        let tally = bench.tally(stream);
        if tally.frames > before.0 {
            delays.push((tally.delay_total.0 - before.1.0) / (tally.frames - before.0));
            before = (tally.frames, tally.delay_total);
        }
        tally.frames >= FRAMES
    })?;
    delays.sort_unstable();
    let Some(&least) = delays.first() else {
        let [from, to] = [0, 1].map(|port| bench.port(port).settings.device.clone());
        return Err(Void::NotPossible(format!(
            "no frame from {from} reached {to}: check cables, VLANs and the state of the device's ports"
        )));
    };
    let error = |share: usize| delays[(delays.len() - 1) * share / 100] - least;
    Ok(Accuracy {
        clock: if bench.has_stamps() { "kernel (XDP)" } else { "process" }.to_owned(),
        error_p50_ns: error(50),
        error_p99_ns: error(99),
        longest_stall_ns: bench.longest_stall(begin).0,
        method: METHOD.to_owned(),
    })
}

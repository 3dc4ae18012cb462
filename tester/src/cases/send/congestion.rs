//! Congestion of the device: port 2 pauses it, until it must pause port 1.

use xoff_wire::units::{BitRate, Class, ClassSet, Nanos};

use crate::bench::{Bench, ControlFrame, Flow, StreamId, Void};
use crate::cases::streams::{FROM, TO, lossless, start_heartbeat};

/// Longest wait for an XOFF, and longest pause of port 2.
const LIMIT: Nanos = Nanos::from_secs(3);
const SIZE: u32 = 1_000;

/// Stream of the lowest lossless class that congests the device.
pub(super) struct Congestion {
    pub class: Class,
    pub stream: StreamId,
    /// False if the device sent no XOFF within the limit.
    pub is_paused: bool,
}

/// Returns the rate of the stream: a quarter of the line rate, at most 400 Mb/s.
fn rate(bench: &Bench) -> BitRate {
    let speed = bench.port(FROM).speed().bits_per_second();
    BitRate::new((speed / 4).min(400_000_000)).expect("the rate is not zero")
}

pub(in crate::cases) fn flow(bench: &Bench, class: Class) -> Flow {
    Flow::new(FROM, TO, class).size(SIZE).rate(rate(bench))
}

impl Congestion {
    pub(super) fn begin(bench: &mut Bench) -> Result<Congestion, Void> {
        let class = lossless(bench);
        start_heartbeat(bench)?;
        bench.hold(TO, [class].into_iter().collect(), LIMIT);
        let stream = bench.stream(flow(bench, class))?;
        let is_paused = bench.run_until(LIMIT, |bench| xoffs(bench, FROM, class).next().is_some())?;
        Ok(Congestion { class, stream, is_paused })
    }

    pub(super) fn end(&self, bench: &mut Bench) -> Result<(), Void> {
        bench.stop(self.stream);
        bench.release(TO);
        bench.run_until(LIMIT, |bench| bench.missing(self.stream) == 0).map(drop)
    }
}

pub(super) fn xoffs(bench: &Bench, port: usize, class: Class) -> impl Iterator<Item = &ControlFrame> {
    bench.controls(port).iter().filter(move |frame| frame.is_xoff(class))
}

pub(super) fn paused_classes(bench: &Bench, port: usize) -> ClassSet {
    Class::ALL.into_iter().filter(|class| xoffs(bench, port, *class).next().is_some()).collect()
}

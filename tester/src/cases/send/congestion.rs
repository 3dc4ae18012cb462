//! Congestion: port 2 pauses the device, which must then pause port 1. A NIC under test (port 1) is congested by a program that reads
//! nothing.

use xoff_wire::units::{BitRate, Class, Nanos};

use crate::bench::{Bench, ControlFrame, Flow, Moment, StreamId, Void};
use crate::cases::complete::{drain, receiver, require_complete};
use crate::cases::streams::{FROM, TO, require_held, start_heartbeat};
use crate::judgement::Judgement;

pub(super) const LIMIT: Nanos = Nanos::from_secs(3);
pub(super) const HOLD_MAX: Nanos = Nanos::from_secs(8);
const FLOOD_MAX: Nanos = Nanos::from_millis(300);
pub(super) const SIZE: u32 = 1_000;
const QUIET: Nanos = Nanos::from_millis(50);

pub(super) struct Congestion {
    pub sender: usize,
    pub class: Class,
    pub stream: StreamId,
    pub is_paused: bool,
    earlier: usize,
    begin: Nanos,
}

pub(in crate::cases) fn flow(bench: &Bench, class: Class) -> Flow {
    flow_from(bench, FROM, class)
}

fn flow_from(bench: &Bench, from: usize, class: Class) -> Flow {
    let speed = bench.port(from).speed().bits_per_second();
    let rate = BitRate::new((speed / 4).min(400_000_000)).expect("the rate is not zero");
    Flow::new(from, receiver(from), class).size(SIZE).rate(rate)
}

pub(super) fn flood(bench: &mut Bench, class: Class, size: u32) -> Result<StreamId, Void> {
    let socket = bench.host_socket(FROM)?;
    let rate = bench.port(TO).speed();
    bench.stream(Flow::new(TO, FROM, class).size(size).rate(rate).to_socket(socket))
}

/// Returns whether the NIC pauses `class` in time; ignores the first `earlier` MAC control frames.
pub(super) fn await_pause(bench: &mut Bench, class: Class, earlier: usize) -> Result<bool, Void> {
    bench.run_until(FLOOD_MAX, |bench| bench.controls(TO)[earlier..].iter().any(|frame| frame.is_xoff(class)))
}

impl Congestion {
    pub(super) fn begin(bench: &mut Bench, class: Class) -> Result<Congestion, Void> {
        if bench.examines_nic() {
            let begin = bench.now();
            let earlier = bench.controls(TO).len();
            let stream = flood(bench, class, SIZE)?;
            let is_paused = await_pause(bench, class, earlier)?;
            if bench.controls(TO).is_empty() {
                return Err(Void::NotPossible(
                    "the NIC sent no PFC in a flood; see case send.before-loss".into(),
                ));
            }
            return Ok(Congestion { sender: TO, class, stream, is_paused, earlier, begin });
        }
        start_heartbeat(bench)?;
        Congestion::from(bench, FROM, class)
    }

    pub(super) fn from(bench: &mut Bench, sender: usize, class: Class) -> Result<Congestion, Void> {
        let begin = bench.now();
        bench.hold(receiver(sender), [class].into_iter().collect(), HOLD_MAX);
        let earlier = bench.controls(sender).len();
        let stream = bench.stream(flow_from(bench, sender, class))?;
        let is_paused = bench
            .run_until(LIMIT, |bench| xoffs(&bench.controls(sender)[earlier..], class).next().is_some())?;
        Ok(Congestion { sender, class, stream, is_paused, earlier, begin })
    }

    pub(super) fn controls<'a>(&self, bench: &'a Bench) -> &'a [ControlFrame] {
        &bench.controls(self.sender)[self.earlier..]
    }

    pub(super) fn require_held(&self, bench: &Bench) -> Result<(), Void> {
        if bench.examines_nic() { Ok(()) } else { require_held(bench, self.begin) }
    }

    /// Ends the receiver's pause, or lets the program behind the NIC read, so that the device drains.
    pub(super) fn relieve(&self, bench: &mut Bench) -> Moment {
        match bench.examines_nic() {
            true => bench.read_host_socket(),
            false => bench.release(receiver(self.sender)),
        }
    }

    pub(super) fn require_complete(&self, bench: &Bench, judgement: &mut Judgement) {
        if !bench.examines_nic() {
            let what = format!("class {} from congested port {}", self.class, self.sender + 1);
            require_complete(bench, judgement, &[self.stream], &what);
        }
    }

    pub(super) fn end(&self, bench: &mut Bench) -> Result<(), Void> {
        bench.stop(self.stream);
        self.relieve(bench);
        drain(bench, &[self.stream])?;
        bench.run_for(QUIET)
    }
}

pub(super) fn xoffs(controls: &[ControlFrame], class: Class) -> impl Iterator<Item = &ControlFrame> {
    controls.iter().filter(move |frame| frame.is_xoff(class))
}

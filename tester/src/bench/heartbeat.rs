//! The heartbeat: frames in the opposite direction of a case's streams, which show whether the device ran.

use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use super::{Arrival, Bench, Flow, Void};
use crate::setup::PortKind;

/// Longest gap between heartbeats that does not count as a stall: such gaps are usual on virtual machines, and rings can buffer the frames.
const DEVICE_STALL_MAX: Nanos = Nanos::from_millis(20);
const INTERVALS: [Nanos; 2] = [Nanos::from_micros(50), Nanos::from_millis(1)];
/// Length of a heartbeat without FCS: above the Ethernet minimum, because a defective device may drop frames of minimum length.
const HEARTBEAT_SIZE: u32 = 200;

impl Bench {
    /// Starts the heartbeat: four frames per longest pause, but at least 1,000 and at most 20,000 a second.
    pub fn start_heartbeat(&mut self, from: usize, to: usize, class: Class) -> Result<(), Void> {
        let is_station = |port: usize| self.ports[port].settings.kind == PortKind::Station;
        if self.heartbeat.is_none() && is_station(from) && is_station(to) {
            let [least, most] = INTERVALS;
            let interval = Nanos(self.pause_time(from, u16::MAX).0 / 4).clamp(least, most);
            let bits = Bytes::on_line(HEARTBEAT_SIZE).0 * 8 * 1_000_000_000 / interval.0;
            let rate = BitRate::new(bits).expect("the rate is not zero");
            let flow = Flow::new(from, to, class).size(HEARTBEAT_SIZE).rate(rate);
            self.heartbeat = Some(self.stream(flow)?);
        }
        Ok(())
    }

    /// Returns the longest gap between heartbeat frames; zero without a heartbeat. If no heartbeat frame arrived, returns zero if other
    /// streams' frames did, else `Nanos::NEVER`.
    #[must_use]
    pub fn device_stall(&self) -> Nanos {
        let Some(stream) = self.heartbeat else { return Nanos::ZERO };
        let tally = self.tally(stream);
        match tally.frames {
            0 if self.streams.iter().any(|stream| stream.tally.frames > 0) => Nanos::ZERO,
            0 => Nanos::NEVER,
            _ => tally.longest_gap,
        }
    }

    /// Returns whether a heartbeat arrived within the last [`Bench::stall_limit`]; true without a heartbeat.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let Some(stream) = self.heartbeat else { return true };
        self.tally(stream).last.is_some_and(|last| last.latest.after(self.stall_limit()) >= self.now())
    }

    /// Stops the heartbeat: the time until its next start is no gap.
    pub fn end_heartbeat(&mut self) {
        if let Some(stream) = self.heartbeat.take() {
            self.stop(stream);
        }
    }

    /// Returns the longest gap between heartbeats that does not count as a stall of the device.
    #[must_use]
    pub fn stall_limit(&self) -> Nanos {
        DEVICE_STALL_MAX.max(Nanos(4 * self.tolerance().0))
    }

    /// Voids the run, because the device may have stalled, unless a heartbeat frame certainly arrived between `from` and `to`. Accepts any
    /// run without a heartbeat.
    pub fn require_heartbeat(&self, from: Nanos, to: Nanos) -> Result<(), Void> {
        let Some(stream) = self.heartbeat else { return Ok(()) };
        let is_between = |arrival: &Arrival| arrival.when.earliest >= from && arrival.when.latest <= to;
        match self.arrivals_of(stream).any(is_between) {
            true => Ok(()),
            false => Err(Void::Disturbed(
                "no heartbeat frame crossed the device in the opposite direction: it may have stalled".into(),
            )),
        }
    }
}

//! Arrival times of frames: kernel timestamps converted to the agent's clock. Kernel timestamps are of the wall clock, which may jump. So
//! no arrival time precedes that of the previous frame, or the last read that found no frame.

use xoff_wire::units::Nanos;

#[derive(Debug)]
pub(crate) struct Arrivals {
    empty_at: Nanos,
    last: Nanos,
}

impl Arrivals {
    pub(crate) const fn new(now: Nanos) -> Arrivals {
        Arrivals { empty_at: now, last: now }
    }

    pub(crate) const fn empty(&mut self, now: Nanos) {
        self.empty_at = now;
    }

    pub(crate) fn came(&mut self, now: Nanos, wall: Nanos, stamp: Option<Nanos>) -> Nanos {
        let age = stamp.map_or(Nanos::ZERO, |stamp| wall.since(stamp)).min(now.since(self.empty_at));
        self.last = Nanos(now.since(age).0).max(self.last);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_arrival_time_comes_from_its_kernel_timestamp() {
        let mut arrivals = Arrivals::new(Nanos(100));
        assert_eq!(arrivals.came(Nanos(1_000), Nanos(70_000), Some(Nanos(69_300))), Nanos(300));
        assert_eq!(arrivals.came(Nanos(1_001), Nanos(70_001), Some(Nanos(69_900))), Nanos(900));
        assert_eq!(arrivals.came(Nanos(1_002), Nanos(70_002), None), Nanos(1_002));
    }

    #[test] // proves: host-pauses
    fn frame_arrival_after_clock_step_is_not_before_last_empty_read() {
        let mut arrivals = Arrivals::new(Nanos(0));
        arrivals.empty(Nanos(900));
        assert_eq!(arrivals.came(Nanos(1_000), Nanos(9_000_000), Some(Nanos(5))), Nanos(900));
        assert_eq!(arrivals.came(Nanos(1_000), Nanos(5), Some(Nanos(9_000_000))), Nanos(1_000));
    }

    #[test]
    fn arrival_times_of_successive_frames_never_decrease() {
        let mut arrivals = Arrivals::new(Nanos(0));
        assert_eq!(arrivals.came(Nanos(1_000), Nanos(50), Some(Nanos(40))), Nanos(990));
        assert_eq!(arrivals.came(Nanos(1_001), Nanos(80), Some(Nanos(41))), Nanos(990));
    }
}

//! PFC watchdog: drops the frames of a class that stays paused, until the class is free of pauses for the restoration time.

use crate::defects::{Defect, Defects};
use crate::frame::CLASSES;

/// Times of the watchdog, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Time for which a class with queued frames is paused before the watchdog detects a storm.
    pub detection: u64,
    pub restoration: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Storm,
    Restored,
}

#[derive(Clone, Debug)]
pub struct Watchdog {
    times: Option<Times>,
    defects: Defects,
    stuck_since: [Option<u64>; CLASSES],
    /// Time of the latest poll that found the class paused; `Some` only while its frames are dropped.
    last_pause: [Option<u64>; CLASSES],
}

impl Watchdog {
    #[must_use]
    pub const fn new(times: Option<Times>, defects: Defects) -> Watchdog {
        Watchdog { times, defects, stuck_since: [None; CLASSES], last_pause: [None; CLASSES] }
    }

    #[must_use]
    pub fn is_dropping(&self, class: usize) -> bool {
        let all = self.defects.has(Defect::WatchdogOtherClasses);
        self.last_pause[class].is_some() || all && self.last_pause.iter().any(Option::is_some)
    }

    pub const fn sent(&mut self, class: usize) {
        self.stuck_since[class] = None;
    }

    pub fn poll(&mut self, class: usize, is_paused: bool, has_frames: bool, now: u64) -> Option<Change> {
        let times = self.times?;
        if let Some(last) = self.last_pause[class] {
            if is_paused {
                self.last_pause[class] = Some(now);
            } else if now >= last + times.restoration && !self.defects.has(Defect::WatchdogForever) {
                self.last_pause[class] = None;
                return Some(Change::Restored);
            }
            return None;
        }
        if !is_paused || !has_frames {
            self.stuck_since[class] = None;
            return None;
        }
        let since = *self.stuck_since[class].get_or_insert(now);
        let detection = if self.defects.has(Defect::WatchdogAtOnce) { 0 } else { times.detection };
        if now < since + detection || self.defects.has(Defect::WatchdogNever) {
            return None;
        }
        (self.stuck_since[class], self.last_pause[class]) = (None, Some(now));
        Some(Change::Storm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchdog_detects_and_ends_pause_storm_on_time() {
        let times = Times { detection: 100, restoration: 50 };
        let mut it = Watchdog::new(Some(times), Defects::default());
        for (now, is_paused, has_frames, expected) in [
            (0, true, true, None),
            (99, true, true, None),
            (100, true, true, Some(Change::Storm)),
            (120, true, false, None),
            (169, false, false, None),
            (170, false, false, Some(Change::Restored)),
            (180, true, true, None),
            (200, true, false, None), // without frames, detection starts anew
            (281, true, true, None),
            (381, true, true, Some(Change::Storm)),
        ] {
            assert_eq!(it.poll(3, is_paused, has_frames, now), expected, "at {now}");
        }
        assert!(it.is_dropping(3) && !it.is_dropping(4));
    }
}

//! PFC watchdog: drops or forwards the frames of a class that stays paused, until the class is free of pauses for the restoration time.

use crate::defects::{Defect, Defects};
use crate::frame::CLASSES;

/// Settings of the watchdog; times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Time for which a class with queued frames is paused before the watchdog detects a storm.
    pub detection: u64,
    pub restoration: u64,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Action {
    Drop,
    Forward,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Storm,
    Restored,
}

#[derive(Clone, Debug)]
pub struct Watchdog {
    settings: Option<Settings>,
    defects: Defects,
    stuck_since: [Option<u64>; CLASSES],
    /// Time of the latest poll that found the class paused; `Some` only while its frames are dropped.
    last_pause: [Option<u64>; CLASSES],
}

impl Watchdog {
    #[must_use]
    pub const fn new(settings: Option<Settings>, defects: Defects) -> Watchdog {
        Watchdog { settings, defects, stuck_since: [None; CLASSES], last_pause: [None; CLASSES] }
    }

    #[must_use]
    pub fn action(&self, class: usize) -> Option<Action> {
        let all = self.defects.has(Defect::WatchdogOtherClasses);
        let is_storm = self.last_pause[class].is_some() || all && self.last_pause.iter().any(Option::is_some);
        let action = self.settings.filter(|_| is_storm)?.action;
        Some(match action {
            _ if !self.defects.has(Defect::WatchdogOtherAction) => action,
            Action::Drop => Action::Forward,
            Action::Forward => Action::Drop,
        })
    }

    pub const fn sent(&mut self, class: usize) {
        self.stuck_since[class] = None;
    }

    pub fn poll(&mut self, class: usize, is_paused: bool, has_frames: bool, now: u64) -> Option<Change> {
        let mut settings = self.settings?;
        let factor = |[zero, more]: [Defect; 2], factor| match () {
            () if self.defects.has(zero) => 0,
            () if self.defects.has(more) => factor,
            () => 1,
        };
        settings.detection *= factor([Defect::WatchdogAtOnce, Defect::WatchdogLate], 4);
        settings.restoration *= factor([Defect::WatchdogRestoresEarly, Defect::WatchdogRestoresLate], 10);
        if let Some(last) = self.last_pause[class] {
            if is_paused {
                self.last_pause[class] = Some(now);
            } else if now >= last + settings.restoration && !self.defects.has(Defect::WatchdogForever) {
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
        if now < since + settings.detection || self.defects.has(Defect::WatchdogNever) {
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
        let settings = Settings { detection: 100, restoration: 50, action: Action::Drop };
        let mut it = Watchdog::new(Some(settings), Defects::default());
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
        assert_eq!([3, 4].map(|class| it.action(class)), [Some(Action::Drop), None]);
    }
}

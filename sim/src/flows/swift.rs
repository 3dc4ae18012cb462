//! Swift (Kumar et al., Swift: Delay is Simple and Effective for Congestion Control in the Datacenter, SIGCOMM 2020, Algorithm 1), as far
//! as it looks at the fabric: delay of a round trip against a target that is larger for flows with small windows.
//!
//! Hosts answer at once here, so that there is no second window for delay at the other end. How many switches are on the way is not
//! known to the host: what that adds to the target is of the base target.

use crate::time::Picos;

/// What a sender is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwiftSettings {
    /// The target of a flow with a large window: a round trip of data and acknowledgement on this fabric, and what may wait.
    pub target: Picos,
    /// Frames that the window grows by in a round trip.
    pub additive: f64,
    /// beta: how much of the delay beyond the target is taken off the window.
    pub decrease: f64,
    /// The most that is taken off at once, as a share.
    pub decrease_max: f64,
    /// What a flow with the smallest window of those that are scaled has on top of its target.
    pub flow_range: Picos,
    /// That window, and the one from which on nothing is added, in frames.
    pub flow_windows: [f64; 2],
    /// The smallest and the largest window, in frames; below one frame it is paced.
    pub windows: [f64; 2],
}

impl Default for SwiftSettings {
    /// ai 1, beta 0.8, at most a half at once, as implementations have it. The paper leaves targets and ranges to the fabric; these are
    /// ours, to be swept: target 25 us, four times that for windows of 0.1 frames down from 100, windows of 0.001 to 1,000 frames.
    fn default() -> SwiftSettings {
        SwiftSettings {
            target: Picos::from_micros(25),
            additive: 1.0,
            decrease: 0.8,
            decrease_max: 0.5,
            flow_range: Picos::from_micros(100),
            flow_windows: [0.1, 100.0],
            windows: [0.001, 1_000.0],
        }
    }
}

/// Of one flow; it begins with the largest window.
#[derive(Clone, Debug)]
pub(super) struct Swift {
    settings: SwiftSettings,
    window: f64,
    round_trip: Picos,
    decreased: Option<Picos>,
}

impl Swift {
    pub(super) fn new(settings: &SwiftSettings) -> Swift {
        Swift { settings: *settings, window: settings.windows[1], round_trip: Picos::ZERO, decreased: None }
    }

    /// Frames that may be on their way.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // above zero, and a cast saturates
    pub(super) fn window(&self) -> u32 {
        self.window.max(1.0) as u32
    }

    /// From one frame to the next, where not even one may always be on its way.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // above zero, and a cast saturates
    pub(super) fn gap(&self) -> Picos {
        match self.window < 1.0 {
            true => Picos((self.round_trip.0 as f64 / self.window) as u64),
            false => Picos::ZERO,
        }
    }

    pub(super) fn acknowledged(&mut self, now: Picos, frames: u32, round_trip: Picos) {
        self.round_trip = round_trip;
        let (delay, target) = (round_trip.0 as f64, self.target());
        let before = self.window;
        if delay < target {
            let each = if before >= 1.0 { self.settings.additive / before } else { self.settings.additive };
            self.window += each * f64::from(frames);
        } else if self.may_decrease(now) {
            let beyond = self.settings.decrease * (delay - target) / delay;
            self.window *= 1.0 - beyond.min(self.settings.decrease_max);
        }
        self.settle(now, before);
    }

    pub(super) fn lost(&mut self, now: Picos) {
        let before = self.window;
        if self.may_decrease(now) {
            self.window *= 1.0 - self.settings.decrease_max;
        }
        self.settle(now, before);
    }

    fn settle(&mut self, now: Picos, before: f64) {
        let [least, most] = self.settings.windows;
        self.window = self.window.clamp(least, most);
        if self.window < before {
            self.decreased = Some(now);
        }
    }

    /// Once in a round trip.
    fn may_decrease(&self, now: Picos) -> bool {
        self.decreased.is_none_or(|decreased| now.since(decreased) >= self.round_trip)
    }

    /// In picoseconds.
    fn target(&self) -> f64 {
        let [least, most] = self.settings.flow_windows.map(|window| 1.0 / window.sqrt());
        let range = self.settings.flow_range.0 as f64;
        let factor = range / (least - most);
        let more = (factor * (1.0 / self.window.sqrt() - most)).clamp(0.0, range);
        self.settings.target.0 as f64 + more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swift(window: f64) -> Swift {
        let mut swift = Swift::new(&SwiftSettings::default());
        swift.window = window;
        swift
    }

    fn at(micros: u64) -> Picos {
        Picos::from_micros(micros)
    }

    #[test]
    fn the_window_grows_by_a_frame_in_a_round_trip_below_the_target() {
        let mut swift = swift(100.0);
        (0..100).for_each(|_| swift.acknowledged(at(1), 1, at(10)));
        assert!((swift.window - 101.0).abs() < 0.01, "{}", swift.window);
    }

    #[test]
    fn beyond_the_target_it_shrinks_once_in_a_round_trip_and_by_no_more_than_half() {
        let mut swift = swift(200.0);
        swift.acknowledged(at(100), 1, at(50)); // target 25
        assert!((swift.window - 200.0 * (1.0 - 0.8 * 0.5)).abs() < 0.01, "{}", swift.window);
        swift.acknowledged(at(149), 1, at(50));
        assert!((swift.window - 120.0).abs() < 0.01);
        swift.acknowledged(at(1_100), 1, at(1_000));
        assert!((swift.window - 60.0).abs() < 0.01);
    }

    #[test]
    fn small_windows_have_more_time_and_are_paced_below_a_frame() {
        let mut swift = swift(0.5);
        assert!(swift.target() > 25e6 && swift.target() < 125e6);
        swift.acknowledged(at(9), 0, at(20));
        assert_eq!((swift.gap(), swift.window()), (at(40), 1));
        swift.window = 0.1;
        assert!((swift.target() - 125e6).abs() < 1.0);
        swift.window = 100.0;
        assert!((swift.target() - 25e6).abs() < 1.0);
    }
}

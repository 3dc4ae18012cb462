//! Swift congestion control (Kumar et al., SIGCOMM 2020, Algorithm 1).
//!
//! Hosts acknowledge at once, so the window for endpoint delay is omitted. Senders do not know the number of hops, so
//! the `target` has to include the paper's hop scaling.

use crate::time::Picos;

/// Parameters of Swift congestion control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwiftSettings {
    /// Target delay for large windows: round-trip time plus tolerated queueing delay.
    pub target: Picos,
    /// ai: additive increase of the window per round trip, in frames.
    pub additive: f64,
    /// beta: the window decreases by beta times the share of the delay above the target.
    pub decrease: f64,
    /// Maximum share of the window that one decrease removes.
    pub decrease_max: f64,
    /// Maximum addition to the target delay, for the smallest window of `flow_windows`.
    pub flow_range: Picos,
    /// Windows in frames between which the addition to the target falls from `flow_range` to zero.
    pub flow_windows: [f64; 2],
    /// Minimum and maximum window in frames. Below one frame, the sender spaces frames.
    pub windows: [f64; 2],
}

impl Default for SwiftSettings {
    /// Returns usual values of implementations for ai, beta and the maximum decrease.
    ///
    /// The remaining values are not from the paper.
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

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, and a cast saturates
    pub(super) fn window(&self) -> u32 {
        self.window.max(1.0) as u32
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, and a cast saturates
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

    fn may_decrease(&self, now: Picos) -> bool {
        self.decreased.is_none_or(|decreased| now.since(decreased) >= self.round_trip)
    }

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
    fn swift_window_grows_one_frame_per_round_trip_below_target() {
        let mut swift = swift(100.0);
        (0..100).for_each(|_| swift.acknowledged(at(1), 1, at(10)));
        assert!((swift.window - 101.0).abs() < 0.01, "{}", swift.window);
    }

    #[test] // proves: sim-hosts
    fn swift_window_shrinks_at_most_by_half_once_per_round_trip() {
        let mut swift = swift(200.0);
        swift.acknowledged(at(100), 1, at(50)); // the target is 25 us
        assert!((swift.window - 200.0 * (1.0 - 0.8 * 0.5)).abs() < 0.01, "{}", swift.window);
        swift.acknowledged(at(149), 1, at(50));
        assert!((swift.window - 120.0).abs() < 0.01);
        swift.acknowledged(at(1_100), 1, at(1_000));
        assert!((swift.window - 60.0).abs() < 0.01);
    }

    #[test]
    fn small_swift_windows_raise_target_delay_and_are_paced() {
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

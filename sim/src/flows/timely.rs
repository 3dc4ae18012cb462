//! TIMELY congestion control (Mittal et al., SIGCOMM 2015, Algorithm 1).
//!
//! Each acknowledgement is a sample, so [`RoceSettings::ack_every`](super::RoceSettings::ack_every) sets the segment
//! size (16 to 64 KB in the paper).

use xoff_wire::units::BitRate;

use crate::time::{Pace, Picos};

/// Parameters of TIMELY congestion control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimelySettings {
    /// alpha: weight of a new sample in the gradient.
    pub gain: f64,
    /// beta: factor of the multiplicative decrease.
    pub decrease: f64,
    /// delta: additive increase of the rate.
    pub additive: BitRate,
    /// Round-trip time below which the rate always rises.
    pub low: Picos,
    /// Round-trip time above which the rate is always cut.
    pub high: Picos,
    /// Round-trip time of an idle fabric, by which the gradient is normalized.
    pub idle: Picos,
    /// N: from the Nth successive sample without a rising round-trip time on, the rate rises by N times delta.
    pub hyper_after: u32,
    /// Minimum sending rate.
    pub rate_min: BitRate,
    /// Initial rate as a share of line rate; the paper uses 1 / (N + 1) for N flows.
    pub start: f64,
}

impl Default for TimelySettings {
    /// Returns the paper's values, but the idle round-trip time of HPCC's simulations (20 us).
    ///
    /// Not from the paper: minimum rate 10 Mb/s, start at line rate.
    fn default() -> TimelySettings {
        TimelySettings {
            gain: 0.875,
            decrease: 0.8,
            additive: BitRate::from_mbps(10),
            low: Picos::from_micros(50),
            high: Picos::from_micros(500),
            idle: Picos::from_micros(20),
            hyper_after: 5,
            rate_min: BitRate::from_mbps(10),
            start: 1.0,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Timely {
    settings: TimelySettings,
    line: f64,
    rate: f64,
    before: Option<Picos>,
    change: f64,
    calm: u32,
}

impl Timely {
    pub(super) fn new(settings: &TimelySettings, line: Pace) -> Timely {
        let line = line.rate().bits_per_second() as f64;
        Timely { settings: *settings, line, rate: line * settings.start, before: None, change: 0.0, calm: 0 }
    }

    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn acknowledged(&mut self, round_trip: Picos) {
        let Some(before) = self.before.replace(round_trip) else { return };
        let TimelySettings { gain, decrease, additive, low, high, idle, hyper_after, rate_min, .. } =
            self.settings;
        let change = round_trip.0 as f64 - before.0 as f64;
        self.change = (1.0 - gain) * self.change + gain * change;
        let gradient = self.change / idle.0.max(1) as f64;
        let additive = additive.bits_per_second() as f64;
        self.calm = if gradient <= 0.0 { self.calm + 1 } else { 0 };
        if round_trip < low {
            self.rate += additive;
        } else if round_trip > high {
            self.rate *= 1.0 - decrease * (1.0 - high.0 as f64 / round_trip.0 as f64);
        } else if gradient <= 0.0 {
            let times = if self.calm >= hyper_after { hyper_after } else { 1 };
            self.rate += f64::from(times) * additive;
        } else {
            self.rate *= 1.0 - (decrease * gradient).min(1.0);
        }
        self.rate = self.rate.clamp(rate_min.bits_per_second() as f64, self.line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timely() -> Timely {
        let mut timely = Timely::new(&TimelySettings::default(), Pace::of(BitRate::from_gbps(10)));
        timely.rate = 1e9;
        timely
    }

    fn hear(timely: &mut Timely, micros: &[u64]) -> f64 {
        micros.iter().for_each(|micros| timely.acknowledged(Picos::from_micros(*micros)));
        timely.rate
    }

    #[test]
    fn timely_rate_rises_below_lower_threshold_at_any_gradient() {
        assert!((hear(&mut timely(), &[10, 20, 49]) - 1.02e9).abs() < 1.0);
    }

    #[test]
    fn timely_rate_falls_above_upper_threshold_at_any_gradient() {
        assert!((hear(&mut timely(), &[2_000, 1_000]) - 1e9 * (1.0 - 0.8 * 0.5)).abs() < 1.0);
    }

    #[test] // proves: sim-hosts
    fn timely_rate_between_thresholds_follows_gradient() {
        assert!((hear(&mut timely(), &[100, 104]) - 1e9 * (1.0 - 0.8 * 0.875 * 0.2)).abs() < 1.0);
        assert!((hear(&mut timely(), &[100, 100, 100, 100, 100, 100]) - 1.09e9).abs() < 1.0, "4 and 5 times");
    }
}

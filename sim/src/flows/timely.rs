//! TIMELY (Mittal et al., TIMELY: RTT-based Congestion Control for the Datacenter, SIGCOMM 2015, Algorithm 1): a rate by how the round
//! trip changes, with additive increase below a lower threshold and a cut above an upper one whatever the change.
//!
//! The paper has one round trip for each segment of 16 to 64 KB; here it is one for each acknowledgement, so that
//! [`RoceSettings::ack_every`](super::RoceSettings::ack_every) says how long a segment is.

use xoff_dataplane::units::BitRate;

use crate::time::{Pace, Picos};

/// What a sender is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimelySettings {
    /// alpha: the weight of what is new in the change of the round trip.
    pub gain: f64,
    /// beta: how much a change cuts.
    pub decrease: f64,
    /// delta: what the rate rises by.
    pub additive: BitRate,
    /// Below this it rises, whatever the change.
    pub low: Picos,
    /// Above this it is cut, whatever the change.
    pub high: Picos,
    /// The round trip of an idle fabric, which changes are measured by.
    pub idle: Picos,
    /// After so many rounds without a rise of the round trip it rises by so many deltas.
    pub hyper_after: u32,
    /// It sends no slower.
    pub rate_min: BitRate,
    /// What a flow begins with, of the line. The paper has 1 / (N + 1) where N flows of the host are there before it. Where many begin at
    /// once at the whole line, one rise of the round trip takes all of them down to the lowest rate.
    pub start: f64,
}

impl Default for TimelySettings {
    /// alpha 0.875, beta 0.8, delta 10 Mb/s, 50 us, 500 us, N 5, as published; 20 us for an idle fabric, as in the published code of
    /// HPCC's simulations. The lowest rate is ours: 10 Mb/s. A flow begins with the line.
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

/// Of one flow.
#[derive(Clone, Debug)]
pub(super) struct Timely {
    settings: TimelySettings,
    line: f64,
    rate: f64,
    before: Option<Picos>,
    /// In picoseconds.
    change: f64,
    /// Rounds in which the round trip did not rise.
    calm: u32,
}

impl Timely {
    pub(super) fn new(settings: &TimelySettings, line: Pace) -> Timely {
        let line = line.rate().bits_per_second() as f64;
        Timely { settings: *settings, line, rate: line * settings.start, before: None, change: 0.0, calm: 0 }
    }

    /// In bits of layer 1 per second.
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
    fn it_rises_below_the_lower_threshold_whatever_the_change() {
        assert!((hear(&mut timely(), &[10, 20, 49]) - 1.02e9).abs() < 1.0);
    }

    #[test]
    fn it_is_cut_above_the_upper_one_whatever_the_change() {
        assert!((hear(&mut timely(), &[2_000, 1_000]) - 1e9 * (1.0 - 0.8 * 0.5)).abs() < 1.0);
    }

    #[test]
    fn between_them_it_follows_the_change() {
        assert!((hear(&mut timely(), &[100, 104]) - 1e9 * (1.0 - 0.8 * 0.875 * 0.2)).abs() < 1.0);
        assert!((hear(&mut timely(), &[100, 100, 100, 100, 100, 100]) - 1.09e9).abs() < 1.0, "4 and 5 times");
    }
}

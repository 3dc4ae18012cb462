use serde::{Deserialize, Serialize};
use xoff_wire::units::Nanos;

/// Maximum delay, and maximum jitter of a link: the delay of 10,000 km of fibre.
pub const DELAY_MAX: Nanos = Nanos::from_millis(50);

const BILLION: u32 = 1_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Impairment {
    pub delay_ns: u64,
    /// Maximum of the random delay added to each frame, in nanoseconds; no frame overtakes another.
    pub jitter_ns: u64,
    pub loss_per_billion: u32,
    /// True if MAC control frames pass at once, without delay, jitter and loss.
    pub spares_mac_control: bool,
}

impl Impairment {
    #[must_use]
    pub fn longest(&self) -> Nanos {
        Nanos(self.delay_ns.saturating_add(self.jitter_ns))
    }

    #[must_use]
    pub fn of_pauses(&self) -> Nanos {
        if self.spares_mac_control { Nanos::ZERO } else { self.longest() }
    }

    #[must_use]
    pub fn jitter_of_pauses(&self) -> u64 {
        if self.spares_mac_control { 0 } else { self.jitter_ns }
    }

    pub(super) fn delay(&self, rng: &mut fastrand::Rng) -> Nanos {
        match self.jitter_ns {
            0 => Nanos(self.delay_ns),
            jitter => Nanos(self.delay_ns + rng.u64(0..=jitter)),
        }
    }

    pub(super) fn loses(&self, rng: &mut fastrand::Rng) -> bool {
        self.loss_per_billion > 0 && rng.u32(0..BILLION) < self.loss_per_billion
    }

    #[must_use]
    pub fn text(&self) -> String {
        let time = |name: &str, ns: u64| {
            (ns > 0).then(|| format!("{name} {}", xoff_config::quantity::time(Nanos(ns))))
        };
        let loss = (self.loss_per_billion > 0).then(|| format!("loss {}", percent(self.loss_per_billion)));
        let spared = self.spares_mac_control.then(|| "MAC control spared".to_owned());
        let parts = [time("delay", self.delay_ns), time("jitter", self.jitter_ns), loss, spared];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "no delay, no loss".into() } else { parts.join(", ") }
    }
}

/// Parses a percentage of frames such as `0.1%`; returns the number of frames out of 10^9.
#[must_use]
pub fn parse_percent(text: &str) -> Option<u32> {
    let number: f64 = text.trim().strip_suffix('%')?.trim().parse().ok()?;
    let share = (number / 100.0 * f64::from(BILLION)).round();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the range checked before
    (0.0..=f64::from(BILLION)).contains(&share).then_some(share as u32)
}

#[must_use]
pub fn percent(per_billion: u32) -> String {
    format!("{}%", f64::from(per_billion) / 1e7)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn loss_percentage_of_lab_link_is_parsed_and_formatted() {
        for (text, share) in [("0%", 0), ("0.1%", 1_000_000), ("33.3 %", 333_000_000), ("100%", BILLION)] {
            assert_eq!(parse_percent(text), Some(share), "{text}");
            assert_eq!(parse_percent(&percent(share)), Some(share));
        }
        for wrong in ["0.1", "-1%", "100.1%", "%", "NaN%", "inf%", ""] {
            assert_eq!(parse_percent(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lab_link_loses_exactly_the_configured_share_of_frames() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut lost = |loss_per_billion| {
            let impairment = Impairment { loss_per_billion, ..Impairment::default() };
            (0..100_000).filter(|_| impairment.loses(&mut rng)).count()
        };
        assert_eq!((lost(0), lost(BILLION)), (0, 100_000));
        let tenth = lost(BILLION / 10);
        assert!((9_500..10_500).contains(&tenth), "{tenth}");
    }
}

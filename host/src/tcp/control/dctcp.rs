//! DCTCP (RFC 8257): a mark reduces the window by half of the (averaged) share of marked segments.

use super::{Congestion, Reno};

/// Weight of a new observation in the moving mean `alpha` (g in RFC 8257).
const GAIN: f64 = 1.0 / 16.0;

#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    pub(super) growth: Reno,
    alpha: f64,
    acknowledged: u32,
    marked: u32,
    end: u32,
}

impl Default for Dctcp {
    /// Returns a new connection's state: its first reduction halves the window.
    fn default() -> Dctcp {
        Dctcp { growth: Reno::default(), alpha: 1.0, acknowledged: 0, marked: 0, end: 0 }
    }
}

impl Dctcp {
    #[must_use]
    pub const fn alpha(&self) -> f64 {
        self.alpha
    }

    pub(super) fn acknowledged(&mut self, acknowledged: u32, is_marked: bool, [first, next]: [u32; 2]) {
        self.acknowledged += acknowledged;
        self.marked += if is_marked { acknowledged } else { 0 };
        if first >= self.end {
            if self.acknowledged > 0 {
                let share = f64::from(self.marked) / f64::from(self.acknowledged);
                self.alpha += GAIN * (share - self.alpha);
            }
            (self.acknowledged, self.marked, self.end) = (0, 0, next);
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and the window
    pub(super) fn reduce(&mut self, window: u32, congestion: Congestion) -> u32 {
        let halved = self.growth.reduce(window);
        match congestion {
            Congestion::Loss => halved,
            Congestion::Mark => (f64::from(window) * (1.0 - self.alpha / 2.0)) as u32,
        }
    }

    pub(super) fn restart(&mut self) {
        (self.acknowledged, self.marked, self.end) = (0, 0, 0);
    }
}

// Tests for SPECIFICATION.md: tcp
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dctcp_alpha_averages_share_of_marked_segments() {
        let mut dctcp = Dctcp::default();
        dctcp.acknowledged(1, false, [1, 11]); // the end of a first window of one segment
        assert!((dctcp.alpha() - 15.0 / 16.0).abs() < 1e-12);
        dctcp.acknowledged(4, true, [5, 15]);
        dctcp.acknowledged(6, false, [11, 21]);
        let expected = 15.0 / 16.0 * 15.0 / 16.0 + 0.4 / 16.0;
        assert!((dctcp.alpha() - expected).abs() < 1e-12, "{}", dctcp.alpha());
        let reduced = f64::from(dctcp.reduce(100, Congestion::Mark));
        assert!((reduced - (100.0 * (1.0 - expected / 2.0)).floor()).abs() < 0.5, "{reduced}");
        assert_eq!(dctcp.reduce(100, Congestion::Loss), 50);
    }
}

//! Estimates the round-trip time, and computes the retransmission time-out (RFC 6298).

use xoff_wire::units::Nanos;

use super::settings::TcpSettings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    smoothed: Option<Nanos>,
    variation: Nanos,
    timeout: Nanos,
    /// Number of time-outs since the last sample.
    backoff: u32,
}

impl Rtt {
    #[must_use]
    pub const fn new(settings: &TcpSettings) -> Rtt {
        let (none, timeout) = (Nanos::ZERO, settings.rto_initial);
        Rtt { smoothed: None, variation: none, timeout, backoff: 0 }
    }

    pub fn sample(&mut self, settings: &TcpSettings, sample: Nanos) {
        let smoothed = match self.smoothed {
            None => {
                self.variation = Nanos(sample.0 / 2);
                sample
            }
            Some(before) => {
                self.variation = Nanos((3 * self.variation.0 + before.0.abs_diff(sample.0)) / 4);
                Nanos((7 * before.0 + sample.0) / 8)
            }
        };
        self.smoothed = Some(smoothed);
        let timeout = smoothed.after(Nanos(4 * self.variation.0));
        self.timeout = timeout.max(settings.rto_min).min(settings.rto_max);
        self.backoff = 0;
    }

    /// Doubles the time-out until the next sample.
    pub fn back_off(&mut self) {
        self.backoff += 1;
    }

    #[must_use]
    pub const fn is_backed_off(&self) -> bool {
        self.backoff > 0
    }

    #[must_use]
    pub fn timeout(&self, settings: &TcpSettings) -> Nanos {
        let factor = 1_u64.checked_shl(self.backoff).unwrap_or(u64::MAX);
        Nanos(self.timeout.0.saturating_mul(factor)).min(settings.rto_max)
    }

    #[must_use]
    pub const fn smoothed(&self) -> Option<Nanos> {
        self.smoothed
    }
}

// Tests for SPECIFICATION.md: tcp
#[cfg(test)]
mod tests {
    use super::*;

    /// Values computed by hand from RFC 6298 section 2.
    #[test]
    fn tcp_timeout_follows_samples_and_backoff_of_rfc_6298() {
        let settings = TcpSettings { rto_min: Nanos(10), rto_max: Nanos(100_000), ..TcpSettings::default() };
        let mut rtt = Rtt::new(&settings);
        assert_eq!(rtt.timeout(&settings), Nanos(100_000));
        rtt.sample(&settings, Nanos(800));
        assert_eq!((rtt.smoothed(), rtt.timeout(&settings)), (Some(Nanos(800)), Nanos(2_400)));
        rtt.sample(&settings, Nanos(1_600));
        // In ns: variation 3/4 * 400 + 1/4 * 800 = 500, smoothed 7/8 * 800 + 1/8 * 1600 = 900, time-out 900 + 4 * 500.
        assert_eq!((rtt.smoothed(), rtt.timeout(&settings)), (Some(Nanos(900)), Nanos(2_900)));
        let backed_off = [(); 6].map(|()| {
            rtt.back_off();
            rtt.timeout(&settings).0
        });
        assert_eq!(backed_off, [5_800, 11_600, 23_200, 46_400, 92_800, 100_000]);
        rtt.sample(&settings, Nanos(900));
        assert_eq!(rtt.timeout(&settings), Nanos(2_400));
    }
}

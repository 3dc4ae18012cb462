//! Rate limiter of a stream: a reaction point of QCN (802.1Qau) that also samples its rate.

use serde::{Deserialize, Serialize};
use xoff_flow_control::congestion::{ReactionPoint, ReactionSettings};
use xoff_wire::units::{BitRate, Bytes, Nanos};

use crate::pacer::Pacer;
use crate::values;

const SAMPLE_INTERVAL: Nanos = Nanos::from_millis(10);
/// Maximum number of rate samples. When it is reached, every second one is dropped, and the sampling interval doubles.
const SAMPLES_MAX: usize = 2048;

#[derive(Debug)]
pub struct Limiter {
    point: ReactionPoint,
    pace: Pacer,
    begin: Nanos,
    cnms: u64,
    feedback_last: u8,
    feedback_sum: u64,
    samples: Vec<RateSample>,
    sample_interval: Nanos,
    next_sample: Nanos,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateSample {
    /// Time of the sample in ns since the host began.
    pub at_ns: u64,
    /// Rate on the line in Mb/s, preamble and gap included.
    pub mbps: f64,
    /// Target rate on the line in Mb/s, preamble and gap included.
    pub target_mbps: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LimiterReport {
    pub cnms: u64,
    /// Quantized feedback (0 to 63) of the last CNM.
    pub feedback_last: u8,
    /// Mean quantized feedback (0 to 63) of all CNMs; 0 without CNMs.
    pub feedback_mean: f64,
    pub rates: Vec<RateSample>,
}

impl Limiter {
    #[must_use]
    pub fn new(settings: &ReactionSettings, index: usize, line: BitRate, now: Nanos) -> Limiter {
        Limiter {
            point: ReactionPoint::new(settings, line, settings.seed.wrapping_add(index as u64)),
            pace: Pacer::new(line, now),
            begin: now,
            cnms: 0,
            feedback_last: 0,
            feedback_sum: 0,
            samples: Vec::with_capacity(SAMPLES_MAX),
            sample_interval: SAMPLE_INTERVAL,
            next_sample: now,
        }
    }

    #[inline]
    #[must_use]
    pub const fn free_at(&self) -> Nanos {
        self.pace.free_at()
    }

    #[inline]
    #[must_use]
    pub fn is_limiting(&self) -> bool {
        self.point.next_deadline() != Nanos::NEVER
    }

    /// Counts a sent frame against the rate limit. `earliest` is the first time at which it could have been sent.
    #[inline]
    pub fn sent(&mut self, earliest: Nanos, bytes: Bytes) {
        self.pace.occupy(earliest, bytes);
        self.point.sent(bytes);
        self.pace.set_rate(self.point.rate());
    }

    pub fn notified(&mut self, now: Nanos, feedback: u8) {
        self.cnms += 1;
        self.feedback_last = feedback;
        self.feedback_sum += u64::from(feedback);
        self.point.notified(now, feedback);
        self.pace.set_rate(self.point.rate());
    }

    pub fn advance(&mut self, now: Nanos) {
        if now >= self.point.next_deadline() {
            self.point.advance(now);
            self.pace.set_rate(self.point.rate());
        }
        if now >= self.next_sample {
            self.sample(now);
        }
    }

    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        self.point.next_deadline().min(self.next_sample)
    }

    #[must_use]
    pub fn report(&self) -> LimiterReport {
        LimiterReport {
            cnms: self.cnms,
            feedback_last: self.feedback_last,
            feedback_mean: self.feedback_sum as f64 / self.cnms.max(1) as f64,
            rates: self.samples.clone(),
        }
    }

    fn sample(&mut self, now: Nanos) {
        if self.samples.len() == SAMPLES_MAX {
            let mut odd = false;
            self.samples.retain(|_| {
                odd = !odd;
                odd
            });
            self.sample_interval = self.sample_interval + self.sample_interval;
        }
        let mbps = |rate: BitRate| rate.bits_per_second() as f64 / 1e6;
        self.samples.push(RateSample {
            at_ns: now.since(self.begin).0,
            mbps: mbps(self.point.rate()),
            target_mbps: mbps(self.point.target()),
        });
        self.next_sample = now.after(self.sample_interval);
    }
}

/// Parses reaction point settings such as `ai=1M,hai=10M,time=15ms`, with the standard's defaults.
pub fn parse_reaction(text: &str) -> Result<ReactionSettings, String> {
    const KEYS: &str =
        "gd (divisor), recovery (cycles), bytes, time, ai, hai, min (rates), jitter (percent), seed";
    let mut settings = ReactionSettings::STANDARD;
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` does not have the form KEY=VALUE; valid keys: {KEYS}"))?;
        let number = |low: u32, high: u32| {
            let number = value.parse().ok().filter(|number| (low..=high).contains(number));
            number.ok_or_else(|| format!("{key}=`{value}`: the value must be a number from {low} to {high}"))
        };
        match key {
            "gd" => settings.decrease_divisor = number(1, 1_000_000)?,
            "recovery" => settings.recovery_cycles = number(1, 1_000)?,
            "bytes" => settings.cycle_bytes = values::bytes(value)?,
            "time" => settings.cycle_time = values::duration(value)?,
            "ai" => settings.active_step = values::rate(value)?,
            "hai" => settings.hyper_step = values::rate(value)?,
            "min" => settings.rate_min = values::rate(value)?,
            "jitter" => settings.jitter_percent = u8::try_from(number(0, 50)?).unwrap_or(50),
            "seed" => settings.seed = number(0, u32::MAX)?.into(),
            _ => return Err(format!("unknown key `{key}`; valid keys: {KEYS}")),
        }
    }
    if settings.cycle_bytes == Bytes::ZERO || settings.cycle_time < Nanos::from_micros(10) {
        return Err(
            "bytes or time is too small; a recovery cycle needs at least bytes=1 and time=10us".into()
        );
    }
    Ok(settings)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LINE: BitRate = BitRate::from_gbps(1);

    #[test]
    fn cnm_limits_rate_of_stream_until_it_has_recovered() {
        let settings = ReactionSettings { jitter_percent: 0, ..ReactionSettings::STANDARD };
        let mut limiter = Limiter::new(&settings, 0, LINE, Nanos(0));
        limiter.sent(Nanos(0), Bytes(1_250));
        assert_eq!((limiter.free_at(), limiter.is_limiting()), (Nanos(10_000), false));
        limiter.notified(Nanos(0), 64);
        limiter.sent(Nanos(0), Bytes(1_250));
        assert!(limiter.is_limiting());
        assert!(
            (29_000..30_000).contains(&limiter.free_at().0),
            "next frame at {:?}: the CNM must halve the rate of 1 Gb/s",
            limiter.free_at()
        );
        limiter.advance(Nanos::from_secs(10));
        assert!(!limiter.is_limiting());
    }

    #[test]
    fn rate_limiter_report_has_bounded_number_of_samples() {
        let mut limiter = Limiter::new(&ReactionSettings::STANDARD, 0, LINE, Nanos(0));
        limiter.notified(Nanos(0), 10);
        limiter.notified(Nanos(0), 20);
        for ms in 0..30_000 {
            limiter.advance(Nanos::from_millis(ms));
        }
        let report = limiter.report();
        assert_eq!((report.cnms, report.feedback_last), (2, 20));
        assert!((report.feedback_mean - 15.0).abs() < 1e-9);
        assert!((SAMPLES_MAX / 4..=SAMPLES_MAX).contains(&report.rates.len()));
        assert!(report.rates.is_sorted_by(|a, b| a.at_ns < b.at_ns));
        assert!(report.rates[0].mbps < report.rates[0].target_mbps);
        assert!((report.rates.last().unwrap().mbps - 1_000.0).abs() < 1e-9);
    }

    #[test]
    fn qcn_reaction_point_defaults_match_the_standard() {
        assert_eq!(parse_reaction(""), Ok(ReactionSettings::STANDARD));
        let given =
            parse_reaction("gd=64,recovery=3,bytes=15KB,time=5ms,ai=1M,hai=2M,min=3M,jitter=0,seed=9")
                .unwrap();
        let expected = ReactionSettings {
            decrease_divisor: 64,
            decrease_percent_max: 50,
            recovery_cycles: 3,
            cycle_bytes: Bytes(15_000),
            cycle_time: Nanos::from_millis(5),
            active_step: BitRate::from_mbps(1),
            hyper_step: BitRate::from_mbps(2),
            rate_min: BitRate::from_mbps(3),
            jitter_percent: 0,
            seed: 9,
        };
        assert_eq!(given, expected);
        for wrong in ["gd", "gd=0", "x=1", "time=0s", "bytes=0", "jitter=51"] {
            assert!(parse_reaction(wrong).is_err(), "{wrong}");
        }
    }
}

//! Reaction point of QCN (802.1Qau): rate limiter of one flow at its sending station.
//!
//! The first CNM starts the limiter; reaching line rate ends it. A CNM with quantized feedback q lowers the rate by the
//! fraction q x Gd (q/128), at most by half. The rate before the CNM becomes the target; if no cycle has ended since
//! the previous CNM, the target stays.
//!
//! Byte cycles (`cycle_bytes` sent) and time cycles (`cycle_time`) run in parallel. Each ended cycle moves the rate
//! half way to the target. From the sixth cycle of one kind, the target rises by R_AI (`active_step`) per cycle; from
//! the sixth of both kinds, by multiples of R_HAI (`hyper_step`).

use xoff_wire::cnm::FEEDBACK_MAX;
use xoff_wire::units::{BitRate, Bytes, Nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct ReactionSettings {
    /// 1 / Gd, where Gd is the relative decrease per unit of feedback.
    pub decrease_divisor: u32,
    pub decrease_percent_max: u8,
    /// Number of cycles of fast recovery, in which the target rate stays unchanged.
    pub recovery_cycles: u32,
    pub cycle_bytes: Bytes,
    pub cycle_time: Nanos,
    /// R_AI: rise of the target rate per cycle of active increase.
    pub active_step: BitRate,
    /// R_HAI: in hyper-active increase, each cycle adds a multiple to the target.
    pub hyper_step: BitRate,
    pub rate_min: BitRate,
    pub jitter_percent: u8,
    pub seed: u64,
}

impl ReactionSettings {
    /// Standard parameters (802.1Q table 32-3 and pseudo code).
    pub const STANDARD: ReactionSettings = ReactionSettings {
        decrease_divisor: 128,
        decrease_percent_max: 50,
        recovery_cycles: 5,
        cycle_bytes: Bytes(150_000),
        cycle_time: Nanos::from_millis(15),
        active_step: BitRate::from_mbps(5),
        hyper_step: BitRate::from_mbps(50),
        rate_min: BitRate::from_mbps(10),
        jitter_percent: 15,
        seed: 0,
    };

    /// Returns a seed for one station's flows, different for each station.
    #[must_use]
    pub const fn seed_of(&self, station: u16) -> u64 {
        self.seed ^ ((station as u64) << 32)
    }
}

impl Default for ReactionSettings {
    fn default() -> ReactionSettings {
        ReactionSettings::STANDARD
    }
}

/// Phase of a QCN rate limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No limiter runs: the flow sends at line rate.
    Unlimited,
    /// The target rate stays unchanged.
    FastRecovery,
    /// The target rate rises by R_AI per cycle.
    ActiveIncrease,
    /// The target rate rises by multiples of R_HAI per cycle.
    HyperActiveIncrease,
}

#[derive(Clone, Copy, Debug)]
struct Cycles {
    ended: u32,
    rest: u64,
}

/// Rate limiter of one flow.
#[derive(Clone, Debug)]
pub struct ReactionPoint {
    settings: ReactionSettings,
    line: u64,
    current: u64,
    target: u64,
    bytes: Cycles,
    time: Cycles,
    is_limited: bool,
    rng: fastrand::Rng,
}

impl ReactionPoint {
    /// Creates a rate limiter for one flow, which begins at line rate.
    #[must_use]
    pub fn new(settings: &ReactionSettings, line: BitRate, seed: u64) -> ReactionPoint {
        let line = line.bits_per_second();
        let idle = Cycles { ended: 0, rest: u64::MAX };
        ReactionPoint {
            settings: *settings,
            line,
            current: line,
            target: line,
            bytes: idle,
            time: idle,
            is_limited: false,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// Returns the layer-1 rate at which the flow may send.
    #[inline]
    #[must_use]
    pub fn rate(&self) -> BitRate {
        BitRate::new(self.current).expect("the current rate must be from 1 bit/s to 1.6 Tb/s")
    }

    /// Returns the target layer-1 rate.
    #[must_use]
    pub fn target(&self) -> BitRate {
        BitRate::new(self.target).expect("the target rate must be from 1 bit/s to 1.6 Tb/s")
    }

    /// Returns the phase of the rate limiter.
    #[must_use]
    pub fn phase(&self) -> Phase {
        if !self.is_limited {
            return Phase::Unlimited;
        }
        let beyond = |cycles: &Cycles| cycles.ended > self.settings.recovery_cycles;
        match (beyond(&self.bytes), beyond(&self.time)) {
            (false, false) => Phase::FastRecovery,
            (true, true) => Phase::HyperActiveIncrease,
            (true, false) | (false, true) => Phase::ActiveIncrease,
        }
    }

    /// Reduces the rate after a CNM with this feedback; zero has no effect.
    pub fn notified(&mut self, now: Nanos, feedback: u8) {
        let feedback = u64::from(feedback.min(FEEDBACK_MAX));
        if feedback == 0 {
            return;
        }
        if !self.is_limited || self.bytes.ended + self.time.ended > 0 {
            self.target = self.current;
        }
        let decrease = self.current * feedback / u64::from(self.settings.decrease_divisor.max(1));
        let decrease_max = self.current / 100 * u64::from(self.settings.decrease_percent_max.min(100));
        self.current = (self.current - decrease.min(decrease_max)).max(self.least());
        self.is_limited = true;
        self.bytes = Cycles { ended: 0, rest: self.byte_cycle(0) };
        self.time = Cycles { ended: 0, rest: now.after(self.time_cycle(0)).0 };
    }

    /// Counts bytes that the flow sent; the end of a byte cycle raises the rate.
    pub fn sent(&mut self, bytes: Bytes) {
        if !self.is_limited {
            return;
        }
        if bytes.0 < self.bytes.rest {
            self.bytes.rest -= bytes.0;
            return;
        }
        self.bytes.ended += 1;
        self.bytes.rest = self.byte_cycle(self.bytes.ended);
        self.raise();
    }

    /// Advances the limiter to `now`; each ended time cycle raises the rate.
    pub fn advance(&mut self, now: Nanos) {
        while self.is_limited && self.time.rest <= now.0 {
            self.time.ended += 1;
            self.time.rest = Nanos(self.time.rest).after(self.time_cycle(self.time.ended)).0;
            self.raise();
        }
    }

    /// Returns when [`ReactionPoint::advance`] is due; [`Nanos::NEVER`] without a rate limit.
    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        if self.is_limited { Nanos(self.time.rest) } else { Nanos::NEVER }
    }

    fn raise(&mut self) {
        let first = self.bytes.ended == 1 || self.time.ended == 1;
        if first && self.target > 10 * self.current {
            self.target /= 8;
        } else {
            self.target += self.step();
        }
        self.current = self.current.midpoint(self.target).min(self.line);
        self.target = self.target.min(self.line);
        if self.current == self.line {
            self.is_limited = false;
        }
    }

    fn step(&self) -> u64 {
        match self.phase() {
            Phase::Unlimited | Phase::FastRecovery => 0,
            Phase::ActiveIncrease => self.settings.active_step.bits_per_second(),
            Phase::HyperActiveIncrease => {
                let beyond = self.bytes.ended.min(self.time.ended) - self.settings.recovery_cycles;
                self.settings.hyper_step.bits_per_second().saturating_mul(beyond.into())
            }
        }
    }

    fn least(&self) -> u64 {
        self.settings.rate_min.bits_per_second().min(self.line)
    }

    fn byte_cycle(&mut self, ended: u32) -> u64 {
        let whole = self.settings.cycle_bytes.0;
        self.jittered(if ended > self.settings.recovery_cycles { whole / 2 } else { whole })
    }

    fn time_cycle(&mut self, ended: u32) -> Nanos {
        let whole = self.settings.cycle_time.0;
        Nanos(self.jittered(if ended > self.settings.recovery_cycles { whole / 2 } else { whole }))
    }

    fn jittered(&mut self, length: u64) -> u64 {
        let jitter = u64::from(self.settings.jitter_percent.min(99));
        let percent = if jitter == 0 { 100 } else { self.rng.u64(100 - jitter..=100 + jitter) };
        (length.saturating_mul(percent) / 100).max(1)
    }
}

#[cfg(test)]
mod tests;

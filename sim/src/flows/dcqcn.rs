//! DCQCN: reaction point and notification point (Zhu et al., SIGCOMM 2015, section 3.1 and Algorithm 1).
//!
//! Fast recovery has five rounds, as in the paper's text; the paper's algorithm counts from one, and would have four.
//! Expired timers take effect at the flow's next frame or notification.

use xoff_wire::units::{BitRate, Bytes};

use crate::time::{Pace, Picos};

/// DCQCN parameters; the default is as published (SIGCOMM 2015, Fig. 14).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DcqcnSettings {
    /// g: weight of a new sample in alpha.
    pub gain: f64,
    /// K: interval after which alpha decays.
    pub alpha_timer: Picos,
    /// T: interval after which a round of increase begins.
    pub increase_timer: Picos,
    /// B: sent bytes after which a round of increase begins.
    pub byte_counter: Bytes,
    /// F: number of rounds of fast recovery.
    pub fast_recovery: u32,
    /// `R_AI`: rise of the target rate per round.
    pub additive: BitRate,
    /// `R_HAI`: rise of the target rate per round, times the number of rounds beyond F that both timer and sent bytes
    /// have begun.
    pub hyper: BitRate,
    /// Minimum sending rate.
    pub rate_min: BitRate,
    /// N: minimum interval between a flow's notifications (CNPs).
    pub cnp_interval: Picos,
    /// Priority class of notifications (CNPs).
    pub cnp_class: xoff_wire::units::Class,
}

impl Default for DcqcnSettings {
    /// Returns the paper's values.
    ///
    /// Values not from the paper: `R_HAI` ten times `R_AI` (as in 802.1Qau), minimum rate 100 Mb/s (as in HPCC's
    /// simulations), CNPs in class 6.
    fn default() -> DcqcnSettings {
        DcqcnSettings {
            gain: 1.0 / 256.0,
            alpha_timer: Picos::from_micros(55),
            increase_timer: Picos::from_micros(55),
            byte_counter: Bytes(10_000_000),
            fast_recovery: 5,
            additive: BitRate::from_mbps(40),
            hyper: BitRate::from_mbps(400),
            rate_min: BitRate::from_mbps(100),
            cnp_interval: Picos::from_micros(50),
            cnp_class: xoff_wire::units::Class::ALL[6],
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NotificationPoint(Picos);

impl NotificationPoint {
    #[inline]
    pub(super) fn notifies(&mut self, now: Picos, interval: Picos) -> bool {
        let is_due = now >= self.0;
        if is_due {
            self.0 = now.after(interval);
        }
        is_due
    }
}

#[derive(Clone, Debug)]
pub(super) struct Dcqcn {
    settings: DcqcnSettings,
    line: f64,
    rate: f64,
    target: f64,
    alpha: f64,
    is_free: bool,
    rounds_by_time: u32,
    rounds_by_bytes: u32,
    bytes: u64,
    next_round: Picos,
    next_decay: Picos,
}

impl Dcqcn {
    pub(super) fn new(settings: &DcqcnSettings, line: Pace) -> Dcqcn {
        let line = line.rate().bits_per_second() as f64;
        Dcqcn {
            settings: *settings,
            line,
            rate: line,
            target: line,
            alpha: 1.0,
            is_free: true,
            rounds_by_time: 0,
            rounds_by_bytes: 0,
            bytes: 0,
            next_round: Picos::NEVER,
            next_decay: Picos::NEVER,
        }
    }

    pub(super) fn rate(&mut self, now: Picos) -> f64 {
        self.advance(now);
        self.rate
    }

    #[inline]
    pub(super) fn sent(&mut self, now: Picos, bytes: Bytes) -> f64 {
        if self.is_free {
            return self.line;
        }
        self.advance(now);
        let rate = self.rate;
        self.bytes += bytes.0;
        while self.bytes >= self.settings.byte_counter.0.max(1) {
            self.bytes -= self.settings.byte_counter.0.max(1);
            self.rounds_by_bytes += 1;
            self.increase();
        }
        rate
    }

    pub(super) fn notified(&mut self, now: Picos) {
        self.advance(now);
        self.target = self.rate;
        self.rate =
            (self.rate * (1.0 - self.alpha / 2.0)).max(self.settings.rate_min.bits_per_second() as f64);
        self.alpha = (1.0 - self.settings.gain) * self.alpha + self.settings.gain;
        (self.rounds_by_time, self.rounds_by_bytes, self.bytes) = (0, 0, 0);
        self.next_round = now.after(self.settings.increase_timer);
        self.next_decay = now.after(self.settings.alpha_timer);
        self.is_free = false;
    }

    fn advance(&mut self, now: Picos) {
        while self.next_decay <= now {
            self.alpha *= 1.0 - self.settings.gain;
            self.next_decay = self.next_decay.after(span(self.settings.alpha_timer));
            if self.alpha < f64::MIN_POSITIVE {
                self.next_decay = Picos::NEVER;
            }
        }
        while self.next_round <= now {
            self.rounds_by_time += 1;
            self.increase();
            self.next_round = self.next_round.after(span(self.settings.increase_timer));
            if self.rate >= self.line {
                self.is_free = true;
                self.next_round = Picos::NEVER;
            }
        }
    }

    fn increase(&mut self) {
        let few = self.settings.fast_recovery;
        let (fewer, more) = match self.rounds_by_time < self.rounds_by_bytes {
            true => (self.rounds_by_time, self.rounds_by_bytes),
            false => (self.rounds_by_bytes, self.rounds_by_time),
        };
        if fewer > few {
            self.target += f64::from(fewer - few) * self.settings.hyper.bits_per_second() as f64;
        } else if more > few {
            self.target += self.settings.additive.bits_per_second() as f64;
        }
        self.target = self.target.min(self.line);
        self.rate = self.rate.midpoint(self.target);
        if self.line - self.rate < 1.0 {
            self.rate = self.line;
        }
    }
}

fn span(timer: Picos) -> Picos {
    timer.max(Picos(1))
}

// Tests for SPECIFICATION.md: sim-hosts
#[cfg(test)]
mod tests {
    use super::*;

    const LINE: f64 = 40e9;

    fn point() -> Dcqcn {
        Dcqcn::new(&DcqcnSettings::default(), Pace::of(BitRate::from_gbps(40)))
    }

    fn at(micros: u64) -> Picos {
        Picos::from_micros(micros)
    }

    #[test]
    fn dcqcn_rate_halves_at_first_cnp_and_then_falls_by_alpha() {
        let mut point = point();
        assert!((point.rate(at(0)) - LINE).abs() < 1.0);
        point.notified(at(1));
        assert!((point.rate(at(1)) - LINE / 2.0).abs() < 1.0, "alpha must begin at one");
        // At 56 us both 55 us timers have expired once: alpha has decayed, and a round of increase has ended.
        let rate = point.rate(at(56));
        assert!((rate - 0.75 * LINE).abs() < 1.0, "{rate}");
        point.notified(at(57));
        let alpha = 255.0 / 256.0;
        assert!((point.rate(at(57)) - 0.75 * LINE * (1.0 - alpha / 2.0)).abs() < 1.0);
    }

    #[test]
    fn dcqcn_target_rate_rises_after_five_fast_recovery_rounds() {
        let mut point = point();
        point.notified(at(0));
        point.notified(at(0)); // the target becomes half of the line rate
        let mut expected = point.rate(at(0));
        let mut target = LINE / 2.0;
        for round in 1..=8 {
            if round > 5 {
                target += 40e6;
            }
            expected = (expected + target) / 2.0;
            assert!((point.rate(at(55 * round)) - expected).abs() < 1.0, "round {round}");
            assert!((point.rate(at(55 * round + 54)) - expected).abs() < 1.0, "round {round}");
        }
    }

    #[test]
    fn dcqcn_rate_rises_faster_after_many_byte_and_timer_rounds() {
        let mut point = point();
        point.notified(at(0));
        point.notified(at(0));
        for round in 1..=5 {
            point.sent(at(0), Bytes(10_000_000));
            assert_eq!((point.rounds_by_bytes, point.rounds_by_time), (round, 0));
        }
        let mut expected = LINE / 2.0;
        assert!((point.target - expected).abs() < 1.0, "5 byte counter rounds must not change the target");
        point.sent(at(0), Bytes(10_000_000));
        expected += 40e6;
        assert!((point.target - expected).abs() < 1.0, "the 6th byte counter round must add 40 Mb/s");
        point.rate(at(55 * 5));
        expected += 5.0 * 40e6;
        assert!((point.target - expected).abs() < 1.0, "the next 5 timer rounds must add 40 Mb/s each");
        point.rate(at(55 * 6));
        expected += 400e6;
        assert!((point.target - expected).abs() < 1.0, "the 6th timer round must add 400 Mb/s");
    }

    #[test]
    fn dcqcn_rate_never_reaches_zero_and_recovers_to_line_rate() {
        let mut point = point();
        (0..100).for_each(|_| point.notified(at(3)));
        assert!((point.rate(at(3)) - 100e6).abs() < 1.0);
        assert!((point.rate(at(4_000_000)) - LINE).abs() < 1.0);
        assert!(point.is_free);
        let gap = point.sent(at(4_000_001), Bytes(1_500));
        assert!((gap - LINE).abs() < 1.0);
    }

    #[test]
    fn receiver_spaces_cnps_by_minimum_interval() {
        let mut point = NotificationPoint::default();
        let sent_at_times = [0, 49, 50, 99, 120].map(|now| point.notifies(Picos(now), Picos(50)));
        assert_eq!(sent_at_times, [true, false, true, false, true]);
    }
}

//! LLDP transmit timer (IEEE 802.1AB, clause 9.2). A credit limits a port to one frame per second, with bursts of five.

use xoff_wire::units::Nanos;

/// Interval between LLDP frames (msgTxInterval).
pub const INTERVAL: Nanos = Nanos::from_secs(30);
/// Interval between LLDP frames after a new neighbor appeared (msgFastTx).
const FAST: Nanos = Nanos::from_secs(1);
/// Number of LLDP frames sent at the fast interval to a new neighbor (txFastInit).
const FAST_FRAMES: u8 = 4;
/// Maximum number of LLDP frames in a burst (txCreditMax).
const CREDIT_MAX: u64 = 5;
const CREDIT: Nanos = Nanos::from_secs(1);

/// Announced time to live in seconds: four (msgTxHold) times the interval, plus one second.
pub const TTL: u16 = 121;

#[derive(Clone, Debug)]
pub struct Timer {
    due: Nanos,
    fast_left: u8,
    credit: u64,
    earned: Nanos,
}

impl Default for Timer {
    fn default() -> Timer {
        Timer { due: Nanos::NEVER, fast_left: 0, credit: CREDIT_MAX, earned: Nanos::ZERO }
    }
}

impl Timer {
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.due != Nanos::NEVER
    }

    pub fn begin(&mut self, now: Nanos) {
        (self.due, self.fast_left) = (now, 0);
    }

    pub fn end(&mut self) {
        self.due = Nanos::NEVER;
    }

    pub fn changed(&mut self, now: Nanos) {
        if self.is_on() {
            self.due = self.due.min(now);
        }
    }

    pub fn again(&mut self, now: Nanos) {
        self.due = self.due.min(now.after(CREDIT));
    }

    pub fn neighbor_came(&mut self, now: Nanos) {
        if self.is_on() && self.fast_left == 0 {
            self.fast_left = FAST_FRAMES;
            self.due = self.due.min(now);
        }
    }

    #[must_use]
    pub fn next(&self) -> Nanos {
        match self.credit {
            0 if self.is_on() => self.due.max(self.earned.after(CREDIT)),
            _ => self.due,
        }
    }

    pub fn sends(&mut self, now: Nanos) -> bool {
        let seconds = now.since(self.earned).0 / CREDIT.0;
        self.earned = self.earned.after(Nanos(seconds * CREDIT.0));
        self.credit = (self.credit + seconds).min(CREDIT_MAX);
        if now < self.due || self.credit == 0 || !self.is_on() {
            return false;
        }
        self.credit -= 1;
        self.due = now.after(if self.fast_left > 0 { FAST } else { INTERVAL });
        self.fast_left = self.fast_left.saturating_sub(1);
        true
    }
}

//! LLDP transmit timer (IEEE 802.1AB, 9.2). A frame is due at link-up and at changed content, then every 30 s; after a
//! new neighbor four, one second apart. A credit limits all to one frame a second, and bursts to five.

use xoff_wire::units::Nanos;

/// msgTxInterval.
pub const INTERVAL: Nanos = Nanos::from_secs(30);
/// msgFastTx.
const FAST: Nanos = Nanos::from_secs(1);
/// txFastInit.
const FAST_FRAMES: u8 = 4;
/// txCreditMax.
const CREDIT_MAX: u64 = 5;
const CREDIT: Nanos = Nanos::from_secs(1);

/// Four intervals and one second (msgTxHold), in seconds.
pub const TTL: u16 = 121;

/// Transmit timer of a port.
#[derive(Clone, Debug)]
pub struct Timer {
    /// Never without link.
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
    /// Returns whether the port sends LLDP.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.due != Nanos::NEVER
    }

    /// Starts at link-up.
    pub fn begin(&mut self, now: Nanos) {
        (self.due, self.fast_left) = (now, 0);
    }

    /// Stops the timer.
    pub fn end(&mut self) {
        self.due = Nanos::NEVER;
    }

    /// Schedules a frame with changed content.
    pub fn changed(&mut self, now: Nanos) {
        if self.is_on() {
            self.due = self.due.min(now);
        }
    }

    /// Schedules a frame that could not be sent.
    pub fn again(&mut self, now: Nanos) {
        self.due = self.due.min(now.after(CREDIT));
    }

    /// Schedules fast frames.
    pub fn neighbor_came(&mut self, now: Nanos) {
        if self.is_on() && self.fast_left == 0 {
            self.fast_left = FAST_FRAMES;
            self.due = self.due.min(now);
        }
    }

    /// Returns when a frame may be due.
    #[must_use]
    pub fn next(&self) -> Nanos {
        match self.credit {
            0 if self.is_on() => self.due.max(self.earned.after(CREDIT)),
            _ => self.due,
        }
    }

    /// Returns whether a frame is due, and counts it as sent.
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

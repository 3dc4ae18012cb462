//! LLDP transmit timer (IEEE 802.1AB, 9.2). A frame is due at once when the link comes up or the content changes, then
//! every 30 s. A new neighbor triggers four frames, one second apart. A credit limits all of them to one frame a
//! second, and bursts to five.

use xoff_wire::units::Nanos;

/// Transmit interval (msgTxInterval).
pub const INTERVAL: Nanos = Nanos::from_secs(30);
/// Transmit interval after a new neighbor (msgFastTx).
const FAST: Nanos = Nanos::from_secs(1);
/// Number of fast frames (txFastInit).
const FAST_FRAMES: u8 = 4;
/// Maximum burst (txCreditMax).
const CREDIT_MAX: u64 = 5;
/// Time that earns one credit.
const CREDIT: Nanos = Nanos::from_secs(1);

/// TTL in seconds: four intervals and one second (msgTxHold).
pub const TTL: u16 = 121;

/// Transmit timer of one port.
#[derive(Clone, Debug)]
pub struct Timer {
    /// Time of the next frame; never without link.
    due: Nanos,
    fast_left: u8,
    credit: u64,
    /// Time up to which credit has been added.
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

    /// Starts the timer when the link comes up.
    pub fn begin(&mut self, now: Nanos) {
        (self.due, self.fast_left) = (now, 0);
    }

    /// Stops the timer.
    pub fn end(&mut self) {
        self.due = Nanos::NEVER;
    }

    /// Schedules a frame because its content changed.
    pub fn changed(&mut self, now: Nanos) {
        if self.is_on() {
            self.due = self.due.min(now);
        }
    }

    /// Schedules a repetition of a frame that could not be sent.
    pub fn again(&mut self, now: Nanos) {
        self.due = self.due.min(now.after(CREDIT));
    }

    /// Schedules fast frames for a new neighbor.
    pub fn neighbor_came(&mut self, now: Nanos) {
        if self.is_on() && self.fast_left == 0 {
            self.fast_left = FAST_FRAMES;
            self.due = self.due.min(now);
        }
    }

    /// Returns the time at which a frame may be due.
    #[must_use]
    pub fn next(&self) -> Nanos {
        match self.credit {
            0 if self.is_on() => self.due.max(self.earned.after(CREDIT)),
            _ => self.due,
        }
    }

    /// Returns whether a frame is due at `now`, and counts it as sent.
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

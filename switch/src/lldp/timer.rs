//! When a port speaks (IEEE 802.1AB, 9.2): at once when its link comes up or what it says is otherwise, then every half a minute;
//! four times a second apart when a neighbor has come. A second earns one frame, and no more than five are saved up, whatever happens.

use xoff_dataplane::units::Nanos;

/// From one frame to the next, by itself (msgTxInterval).
pub const INTERVAL: Nanos = Nanos::from_secs(30);
/// The same while a neighbor is new (msgFastTx).
const FAST: Nanos = Nanos::from_secs(1);
/// So many frames then (txFastInit).
const FAST_FRAMES: u8 = 4;
/// Most frames at once (txCreditMax).
const CREDIT_MAX: u64 = 5;
/// What earns one more.
const CREDIT: Nanos = Nanos::from_secs(1);

/// How long what is said holds, in seconds: four intervals, and one second (msgTxHold).
pub const TTL: u16 = 121;

/// Of one port.
#[derive(Clone, Debug)]
pub struct Timer {
    /// When the next frame is due; never without link.
    due: Nanos,
    fast_left: u8,
    credit: u64,
    /// Until when credit was earned.
    earned: Nanos,
}

impl Default for Timer {
    fn default() -> Timer {
        Timer { due: Nanos::NEVER, fast_left: 0, credit: CREDIT_MAX, earned: Nanos::ZERO }
    }
}

impl Timer {
    /// Whether the port speaks at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.due != Nanos::NEVER
    }

    /// The link is up: the port speaks.
    pub fn begin(&mut self, now: Nanos) {
        (self.due, self.fast_left) = (now, 0);
    }

    /// It speaks no more.
    pub fn end(&mut self) {
        self.due = Nanos::NEVER;
    }

    /// What it says is otherwise now.
    pub fn changed(&mut self, now: Nanos) {
        if self.is_on() {
            self.due = self.due.min(now);
        }
    }

    /// The last frame could not be sent.
    pub fn again(&mut self, now: Nanos) {
        self.due = self.due.min(now.after(CREDIT));
    }

    /// There is one more neighbor, who is to hear of this one soon.
    pub fn neighbor_came(&mut self, now: Nanos) {
        if self.is_on() && self.fast_left == 0 {
            self.fast_left = FAST_FRAMES;
            self.due = self.due.min(now);
        }
    }

    /// When something may be due.
    #[must_use]
    pub fn next(&self) -> Nanos {
        match self.credit {
            0 if self.is_on() => self.due.max(self.earned.after(CREDIT)),
            _ => self.due,
        }
    }

    /// Whether a frame is to be sent at `now`; then it counts as sent.
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

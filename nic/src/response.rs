//! How long this host takes to stop, and what its switch has to reckon with for that.
//!
//! Measured from when a pause frame came to the kernel's answer that the class's queue is stopped. What leaves after that is
//! what the device has already: [`Response::recommended`] adds it. One frame that comes too late is lost, so what is
//! recommended is no quantile, and a host that has become slower is not hidden by a past in which it was fast: the longest of
//! the last [`WINDOW`] pauses.

use xoff_dataplane::counter::{Counter, FineHistogram};
use xoff_dataplane::units::{BitRate, Bytes, Nanos};

/// Fewer pauses say nothing.
const ENOUGH: u64 = 100;
/// So many of the last pauses are looked at.
const WINDOW: usize = 1_000;
/// What is recommended is a multiple of this: nobody configures nanoseconds.
const STEP: Nanos = Nanos::from_micros(10);
/// Before anything is measured: a thread with real-time priority, and one that waits for its turn.
const EXPECTED: [Nanos; 2] = [Nanos::from_millis(5), Nanos::from_millis(25)];

/// A pause of such a length at a stretch is near the shortest timeouts of transports: half of 67 ms (RoCE with a
/// timeout of 14: 4.096 us x 2^14), and a sixth of TCP's 200 ms.
pub const NEAR_TIMEOUT: Nanos = Nanos::from_millis(33);

/// Times from frame to stopped queue. The agent's thread writes, anyone reads.
#[derive(Debug)]
pub struct Response {
    times: FineHistogram,
    longest: Counter,
    /// The last [`WINDOW`] of them, each at its number.
    recent: [Counter; WINDOW],
    ahead: Nanos,
}

impl Response {
    /// Of a host whose queues let so much leave after they have been stopped.
    #[must_use]
    pub fn new(line: BitRate, overrun: Bytes) -> Response {
        Response {
            times: FineHistogram::default(),
            longest: Counter::default(),
            recent: std::array::from_fn(|_| Counter::default()),
            ahead: line.time_of(overrun),
        }
    }

    /// A queue was stopped so long after the frame had come.
    pub fn record(&self, time: Nanos) {
        let number = usize::try_from(self.times.count()).unwrap_or_default();
        self.recent[number % WINDOW].set(time.0);
        self.times.record(time.0);
        self.longest.raise(time.0);
    }

    /// All of them.
    #[must_use]
    pub const fn times(&self) -> &FineHistogram {
        &self.times
    }

    /// An upper bound of what the share `quantile` (0..=1) of all pauses took; `None` while there was none.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        Some(Nanos(self.times.quantile(quantile)?).min(self.longest()))
    }

    /// The longest; zero while there was none.
    #[must_use]
    pub fn longest(&self) -> Nanos {
        Nanos(self.longest.get())
    }

    /// What is to be recommended while nothing is measured.
    #[must_use]
    pub fn expected(&self, real_time: bool) -> Nanos {
        rounded(EXPECTED[usize::from(!real_time)].after(self.ahead))
    }

    /// The `peer_response` that the switch's port needs: the longest of the last [`WINDOW`] pauses, with what the
    /// device had already. `None` before enough pauses have come.
    #[must_use]
    pub fn recommended(&self) -> Option<Nanos> {
        (self.times.count() >= ENOUGH).then(|| self.needed())
    }

    /// The same of however few pauses have come: no more than a lower bound.
    #[must_use]
    pub fn needed(&self) -> Nanos {
        let longest = self.recent.iter().map(Counter::get).max().unwrap_or(0);
        rounded(Nanos(longest).after(self.ahead))
    }
}

fn rounded(time: Nanos) -> Nanos {
    Nanos(time.0.div_ceil(STEP.0) * STEP.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response() -> Response {
        Response::new(BitRate::from_gbps(1), Bytes(5_000)) // 40 us
    }

    #[test]
    fn nothing_is_recommended_before_enough_pauses_have_come() {
        let response = response();
        (1..ENOUGH).for_each(|_| response.record(Nanos::from_micros(100)));
        assert_eq!((response.recommended(), response.needed()), (None, Nanos::from_micros(140)));
        response.record(Nanos::from_micros(100));
        assert_eq!(response.recommended(), Some(Nanos::from_micros(140)));
    }

    #[test]
    fn the_longest_of_the_last_thousand_counts_and_no_longer() {
        let response = response();
        (0..100_000).for_each(|_| response.record(Nanos::from_micros(100)));
        assert_eq!(response.recommended(), Some(Nanos::from_micros(140)));
        response.record(Nanos::from_micros(50_001));
        assert_eq!(response.recommended(), Some(Nanos::from_micros(50_050)));
        (1..WINDOW).for_each(|_| response.record(Nanos::from_micros(200)));
        assert_eq!(response.recommended(), Some(Nanos::from_micros(50_050)));
        response.record(Nanos::from_micros(200));
        assert_eq!(response.recommended(), Some(Nanos::from_micros(240)));
        assert_eq!(response.longest(), Nanos::from_micros(50_001));
    }

    #[test]
    fn no_share_of_them_took_longer_than_the_longest() {
        let response = response();
        assert_eq!(response.quantile(0.99), None);
        response.record(Nanos(1_025));
        assert!(response.times().quantile(0.99) > Some(1_025), "a step of the histogram ends later");
        assert_eq!(response.quantile(0.99), Some(Nanos(1_025)));
    }

    #[test]
    fn without_real_time_priority_much_more_is_expected() {
        let response = response();
        assert_eq!(response.expected(true), Nanos::from_micros(5_040));
        assert_eq!(response.expected(false), Nanos::from_micros(25_040));
    }
}

//! Response time of this host: from the arrival of a pause frame to the confirmed stop.

use xoff_flow_control::counter::{Counter, FineHistogram};
use xoff_wire::units::{BitRate, Bytes, Nanos};

const ENOUGH: u64 = 100;
const WINDOW: usize = 1_000;
const STEP: Nanos = Nanos::from_micros(10);
const EXPECTED: [Nanos; 2] = [Nanos::from_millis(5), Nanos::from_millis(25)];

/// Pause duration from which the agent warns of transports' timeouts: half of RoCE's 67 ms (timeout 14: 4.096 us x 2^14), a sixth of TCP's
/// 200 ms.
pub const NEAR_TIMEOUT: Nanos = Nanos::from_millis(33);

#[derive(Debug)]
pub struct Response {
    times: FineHistogram,
    longest: Counter,
    recent: [Counter; WINDOW],
    ahead: Nanos,
}

impl Response {
    #[must_use]
    pub fn new(line: BitRate, overrun: Bytes) -> Response {
        Response {
            times: FineHistogram::default(),
            longest: Counter::default(),
            recent: std::array::from_fn(|_| Counter::default()),
            ahead: line.time_of(overrun),
        }
    }

    pub fn record(&self, time: Nanos) {
        let number = usize::try_from(self.times.count()).unwrap_or_default();
        self.recent[number % WINDOW].set(time.0);
        self.times.record(time.0);
        self.longest.raise(time.0);
    }

    #[must_use]
    pub const fn times(&self) -> &FineHistogram {
        &self.times
    }

    /// Returns an upper bound for the response time at the `quantile` (0 to 1).
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Nanos> {
        Some(Nanos(self.times.quantile(quantile)?).min(self.longest()))
    }

    #[must_use]
    pub fn longest(&self) -> Nanos {
        Nanos(self.longest.get())
    }

    /// Returns the `peer_response` to assume before the first measured pause.
    #[must_use]
    pub fn expected(&self, real_time: bool) -> Nanos {
        rounded(EXPECTED[usize::from(!real_time)].after(self.ahead))
    }

    /// Returns the `peer_response` that the switch needs, or `None` after fewer than 100 pauses. It is the longest of the last 1,000
    /// response times, plus the time in which the device sends its queued bytes.
    #[must_use]
    pub fn recommended(&self) -> Option<Nanos> {
        (self.times.count() >= ENOUGH).then(|| self.needed())
    }

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
        Response::new(BitRate::from_gbps(1), Bytes(5_000)) // 5,000 bytes take 40 us
    }

    #[test] // proves: host-service
    fn agent_recommends_peer_response_only_after_100_pauses() {
        let response = response();
        (1..ENOUGH).for_each(|_| response.record(Nanos::from_micros(100)));
        assert_eq!((response.recommended(), response.needed()), (None, Nanos::from_micros(140)));
        response.record(Nanos::from_micros(100));
        assert_eq!(response.recommended(), Some(Nanos::from_micros(140)));
    }

    #[test] // proves: host-service
    fn recommended_peer_response_covers_last_1000_pauses() {
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
    fn response_time_quantile_never_exceeds_longest_response_time() {
        let response = response();
        assert_eq!(response.quantile(0.99), None);
        response.record(Nanos(1_025));
        assert!(
            response.times().quantile(0.99) > Some(1_025),
            "the histogram must round 1,025 ns up, or this test proves nothing"
        );
        assert_eq!(response.quantile(0.99), Some(Nanos(1_025)));
    }

    #[test]
    fn expected_response_time_is_longer_without_real_time_priority() {
        let response = response();
        assert_eq!(response.expected(true), Nanos::from_micros(5_040));
        assert_eq!(response.expected(false), Nanos::from_micros(25_040));
    }
}

//! Pace of a test port: each frame is sent when the line, at its speed, has sent the previous one.
//!
//! A port that polls late catches up by a burst, which no pause stops once it is in the kernel. So the burst has at most the bytes that a
//! standard peer may send after an XOFF (802.1Q annex N), or a full frame if that is more (slow lines).

use xoff_flow_control::headroom::standard_response;
use xoff_wire::units::{BitRate, Bytes, Nanos};

/// Length of a full frame, without FCS.
const FULL: u32 = 1_514;

#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    speed: BitRate,
    behind_max: Nanos,
    free: Nanos,
}

impl Pace {
    pub(super) fn new(speed: BitRate) -> Pace {
        let behind_max = standard_response(speed).max(speed.time_of(Bytes::on_line(FULL)));
        Pace { speed, behind_max, free: Nanos::ZERO }
    }

    pub(super) fn free(&self) -> Nanos {
        self.free
    }

    pub(super) fn send(&mut self, now: Nanos, bytes: Bytes) {
        let begin = Nanos(self.free.0.max(now.0.saturating_sub(self.behind_max.0)));
        self.free = begin.after(self.speed.time_of(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets a port poll at `times`. Returns the bytes that wait for the line just after each sent frame.
    fn waiting(speed: BitRate, len: u32, times: impl Iterator<Item = Nanos>) -> Vec<u64> {
        let (mut pace, mut line) = (Pace::new(speed), Nanos::ZERO);
        let frame = speed.time_of(Bytes::on_line(len));
        let mut waiting = Vec::new();
        for now in times {
            while pace.free() <= now {
                pace.send(now, Bytes::on_line(len));
                line = Nanos(line.0.max(now.0)).after(frame);
                waiting.push(speed.bytes_in(line.since(now)).0);
            }
        }
        waiting
    }

    #[test]
    fn test_port_catches_up_at_most_its_limit_after_stall() {
        for gbps in [1, 10, 100] {
            let speed = BitRate::from_gbps(gbps);
            let polls = |from: u64| (0..500).map(move |poll| Nanos(from + 700 * poll));
            let waiting = waiting(speed, 1_514, polls(1_000_000).chain(polls(9_000_000)));
            let catches_up = speed.bytes_in(standard_response(speed)).0.max(Bytes::on_line(FULL).0);
            let allowed = catches_up + Bytes::on_line(FULL).0;
            let most = waiting.iter().max().copied().unwrap_or_default();
            assert!(most <= allowed, "{most} of {allowed} bytes at {gbps} Gb/s");
            assert!(most > Bytes::on_line(1_514).0 - 100, "{most} bytes at {gbps} Gb/s");
        }
    }

    #[test]
    fn test_port_without_stalls_sends_at_line_rate() {
        let speed = BitRate::from_gbps(1);
        let waiting = waiting(speed, 1_514, (1..=100_000).map(|poll| Nanos(500 * poll)));
        let frames = 50_000_000 / speed.time_of(Bytes::on_line(1_514)).0;
        assert!(waiting.len() as u64 >= frames - 1, "{} of {frames} frames", waiting.len());
    }
}

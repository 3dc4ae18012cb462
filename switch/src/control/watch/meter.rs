//! Detects a peer that sends faster than its port's `speed`, by a leaky bucket. The bucket drains at the line rate. It
//! holds `burst`, and what the line carries in 50 ms plus `stall_budget` or, if longer, the worker's longest stall.

use xoff_flow_control::settings::PortSettings;
use xoff_wire::units::{BitRate, Bytes, Class, Nanos, PortId};

use super::super::view::{PortView, SwitchView};

/// Tolerated difference between the clock rates of peer and switch, in percent.
const TOLERANCE_PERCENT: u64 = 1;
/// Maximum time that one reading of the counters may take; slower readings are ignored.
const LOOK_MOST: Nanos = Nanos::from_millis(10);
const LOOK_ERROR: Nanos = Nanos::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Meter {
    level: u64,
    before: Option<(Nanos, u64)>,
    speed: Option<BitRate>,
}

impl Meter {
    pub fn look(&mut self, view: &SwitchView, id: PortId, port: &PortView) {
        let begin = (view.clock)();
        let came = on_line(view, id);
        let now = (view.clock)();
        if now.since(begin) > LOOK_MOST {
            self.before = None; // its time is unknown
            return;
        }
        let away = Nanos(view.workers[port.worker].facts.longest_gap.get()).max(view.stall_budget);
        let excess = self.take(now, came, &view.settings().ports[id.index()], away);
        port.overspeed_bytes.add(excess);
    }

    fn take(&mut self, now: Nanos, came: u64, port: &PortSettings, away: Nanos) -> u64 {
        if self.speed != Some(port.speed) {
            *self = Meter { speed: Some(port.speed), ..Meter::default() }; // earlier frames came at another speed
        }
        let before = self.before.replace((now, came));
        let Some((then, had_come)) = before else { return 0 };
        let leaks = port.speed.bytes_in(now.since(then)).0;
        let leaks = leaks + leaks * TOLERANCE_PERCENT / 100;
        self.level = (self.level + came.saturating_sub(had_come)).saturating_sub(leaks);
        let holds = port.speed.bytes_in(away.after(LOOK_ERROR)).saturating_add(port.burst).0;
        let excess = self.level.saturating_sub(holds);
        self.level -= excess;
        excess
    }
}

fn on_line(view: &SwitchView, port: PortId) -> u64 {
    let of_class = |class| {
        let counters = view.counters.class(port, class);
        counters.rx_bytes.get() + Bytes::BETWEEN_FRAMES * counters.rx_frames.get()
    };
    Class::ALL.into_iter().map(of_class).sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::control::testing::view;

    fn port() -> PortSettings {
        PortSettings { speed: BitRate::from_gbps(1), ..view().0.settings().ports[0].clone() }
    }

    const AWAY: Nanos = Nanos::from_millis(25);

    #[test] // proves: peer-faults
    fn line_rate_peer_is_no_fault_although_counters_are_read_late() {
        let (port, mut meter, mut rng) = (port(), Meter::default(), fastrand::Rng::with_seed(7));
        let (mut now, mut came) = (Nanos::ZERO, 0_u64);
        for _ in 0..10_000 {
            now = now.after(Nanos(rng.u64(0..200_000_000)));
            let counted_until = Nanos(now.0 - rng.u64(0..AWAY.0.min(now.0 + 1)));
            came = came.max(port.speed.bytes_in(counted_until).0);
            assert_eq!(meter.take(now, came, &port, AWAY), 0, "{now:?}");
        }
    }

    #[test] // proves: peer-faults
    fn speed_meter_of_peer_restarts_when_port_speed_falls() {
        let (fast, mut meter) = (port(), Meter::default());
        let slow = PortSettings { speed: BitRate::from_mbps(10), ..fast.clone() };
        let second = Nanos::from_secs(1);
        let came = |seconds: u64| seconds * fast.speed.bytes_in(second).0;
        let steps = [(0, 0, &fast), (1, came(1), &fast), (2, came(2), &slow), (3, came(2), &slow)];
        for (seconds, came, port) in steps {
            assert_eq!(meter.take(Nanos::from_secs(seconds), came, port, AWAY), 0, "{seconds}");
        }
        assert!(meter.take(Nanos::from_secs(4), came(3), &slow, AWAY) > 0);
    }

    #[test] // proves: peer-faults
    fn peer_ten_percent_too_fast_is_detected_within_seconds() {
        let (port, mut meter) = (port(), Meter::default());
        let look = |number: u64| Nanos::from_millis(100 * number);
        let fast = |number| port.speed.bytes_in(look(number)).0 * 11 / 10;
        let excess: Vec<u64> =
            (0..100).map(|number| meter.take(look(number), fast(number), &port, AWAY)).collect();
        assert_eq!(
            excess[..8].iter().sum::<u64>(),
            0,
            "excess that a burst can explain must not count as overspeed"
        );
        let all: u64 = excess.iter().sum();
        let beyond = port.speed.bytes_in(look(99)).0 * 9 / 100;
        assert!(all > beyond * 9 / 10 - 10_000_000 && all <= beyond, "{all} of {beyond}");
        assert!(excess[99] > 0);
    }
}

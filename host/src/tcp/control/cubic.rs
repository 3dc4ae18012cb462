//! CUBIC (RFC 9438), with its constants and fast convergence.

use xoff_wire::units::Nanos;

/// CUBIC's constant C: growth in segments per cubic second.
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Growth in segments per acknowledged window. With it and [`BETA`], the mean window equals Reno's (RFC 9438 section
/// 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Maximum factor by which a window grows per round trip.
const GROWTH_MAX: f64 = 1.5;

/// State of CUBIC. Windows are in segments, times in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    /// Window at the flat part of the curve (`W_max`).
    plateau: f64,
    /// Window before the last reduction.
    before: f64,
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    begin: Nanos,
    /// Time from the start of the curve to the plateau (K).
    rise: f64,
    plateau: f64,
    reno: f64,
    window: f64,
}

impl Cubic {
    pub(super) fn reduce(&mut self, window: u32) -> u32 {
        let whole = f64::from(window);
        // Fast convergence: a flow that lost frames below its former plateau lowers the plateau further, to leave
        // capacity to new flows.
        self.plateau = if whole < self.plateau { whole * (1.0 + BETA) / 2.0 } else { whole };
        self.before = whole;
        self.epoch = None;
        window / 10 * 7 + window % 10 * 7 / 10
    }

    pub(super) fn timed_out(&mut self) {
        (self.plateau, self.epoch) = (0.0, None);
    }

    pub(super) fn restart(&mut self) {
        self.epoch = None;
    }

    pub(super) fn grow(&mut self, window: u32, acknowledged: u32, now: Nanos, round_trip: Nanos) -> u32 {
        let plateau = self.plateau;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(f64::from(window), plateau, now));
        // Begin a new curve if slow start or an idle restart has changed the window.
        if floor(epoch.window) != window {
            *epoch = Epoch::new(f64::from(window), plateau, now);
        }
        let acknowledged = f64::from(acknowledged);
        let alpha = if epoch.reno < self.before { ALPHA } else { 1.0 };
        epoch.reno += alpha * acknowledged / epoch.window;
        let time = seconds(now.since(epoch.begin));
        if epoch.at(time) < epoch.reno {
            epoch.window = epoch.window.max(epoch.reno);
        } else {
            let target = epoch.at(time + seconds(round_trip));
            let target = target.clamp(epoch.window, epoch.window * GROWTH_MAX);
            epoch.window += (target - epoch.window) / epoch.window * acknowledged;
        }
        floor(epoch.window)
    }
}

impl Epoch {
    fn new(window: f64, plateau: f64, begin: Nanos) -> Epoch {
        let rise = if window < plateau { ((plateau - window) / C).cbrt() } else { 0.0 };
        Epoch { begin, rise, plateau: plateau.max(window), reno: window, window }
    }

    fn at(&self, time: f64) -> f64 {
        C * (time - self.rise).powi(3) + self.plateau
    }
}

fn seconds(span: Nanos) -> f64 {
    span.0 as f64 / 1e9
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive, and a cast saturates
fn floor(window: f64) -> u32 {
    window as u32
}

// Tests for SPECIFICATION.md: tcp
#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9438 section 4.2: the window follows W(t). At round trips of 100 ms, Reno's window would be smaller.
    #[test]
    fn cubic_window_follows_its_curve_within_a_segment() {
        let mut cubic = Cubic::default();
        let round_trip = Nanos::from_millis(100);
        let mut window = cubic.reduce(1_000);
        assert_eq!(window, 700);
        let rise = (300.0_f64 / C).cbrt();
        let mut now = Nanos::from_secs(5);
        let begin = now;
        for round in 0..200 {
            let acks = window;
            for ack in 0..acks {
                let at = Nanos(now.0 + round_trip.0 * u64::from(ack) / u64::from(acks));
                window = cubic.grow(window, 1, at, round_trip);
            }
            now = now.after(round_trip);
            let time = seconds(now.since(begin));
            let curve = C * (time - rise).powi(3) + 1_000.0;
            let exact = cubic.epoch.expect("no epoch").window;
            assert!((exact - curve).abs() < 1.0, "{round}: {exact}, {curve}");
        }
        assert!(window > 1_500, "{window}");
    }

    #[test]
    fn cubic_lowers_plateau_if_loss_comes_below_former_plateau() {
        let mut cubic = Cubic::default();
        assert_eq!((cubic.reduce(100), cubic.plateau), (70, 100.0));
        assert_eq!((cubic.reduce(80), cubic.plateau), (56, 80.0 * 0.85));
        assert_eq!((cubic.reduce(75), cubic.plateau), (52, 75.0), "above the last maximum");
    }

    /// RFC 9438 section 4.8: the first curve after a time-out begins at its plateau, the current window.
    #[test]
    fn cubic_curve_after_timeout_begins_at_its_plateau() {
        let mut cubic = Cubic::default();
        let threshold = cubic.reduce(1_000);
        cubic.timed_out();
        let round_trip = Nanos::from_millis(100);
        let window = cubic.grow(threshold, 1, Nanos::from_secs(5), round_trip);
        let epoch = cubic.epoch.expect("no epoch");
        assert_eq!((window, epoch.rise, epoch.plateau), (700, 0.0, 700.0));
        assert_eq!((cubic.reduce(800), cubic.plateau), (560, 800.0), "no fast convergence");
    }
}

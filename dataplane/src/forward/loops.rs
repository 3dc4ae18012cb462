//! Detection of loops: two ports connected outside the switch.
//!
//! A circulating frame makes its sender seem to move back and forth between two ports, whereas a failover moves
//! stations once. A loop is [`MOVES`] moves within [`WINDOW`], if the numbers in the two directions differ by at most a
//! quarter of all moves.
//!
//! The higher-numbered port reports the loop, once per [`HOLD`]. With [`LoopDetection::Block`] it is then left out of
//! floods and learning: not by default, because an attacker could spoof a station's address to block its port.

use xoff_flow_control::settings::LoopDetection;
use xoff_wire::units::{Nanos, PortId};

/// Number of station moves between two ports that counts as a loop.
pub const MOVES: u32 = 100;
/// Time within which [`MOVES`] station moves count as a loop.
pub const WINDOW: Nanos = Nanos::from_secs(1);
/// Time for which a looped port is blocked and not reported again.
pub const HOLD: Nanos = Nanos::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct Loops {
    ports: Box<[Suspect]>,
    next_end: Nanos,
    found: u64,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    detection: LoopDetection,
    partner: PortId,
    since: Nanos,
    moves: [u32; 2],
    until: Nanos,
    found: u64,
    found_with: Option<PortId>,
}

impl Loops {
    pub(super) fn new(detection: impl Iterator<Item = LoopDetection>) -> Loops {
        let suspect = |detection| Suspect {
            detection,
            partner: PortId(0),
            since: Nanos::ZERO,
            moves: [0; 2],
            until: Nanos::NEVER,
            found: 0,
            found_with: None,
        };
        Loops { ports: detection.map(suspect).collect(), next_end: Nanos::NEVER, found: 0 }
    }

    pub(super) fn revise(&mut self, detection: impl Iterator<Item = LoopDetection>) {
        for (suspect, detection) in self.ports.iter_mut().zip(detection) {
            suspect.detection = detection;
        }
    }

    #[cold]
    pub(super) fn moved(&mut self, now: Nanos, from: PortId, to: PortId) -> Option<PortId> {
        let [lower, higher] = if from.0 < to.0 { [from, to] } else { [to, from] };
        let is_off = |port: &PortId| self.ports[port.index()].detection == LoopDetection::Off;
        if [lower, higher].iter().any(is_off) || self.is_found(higher) {
            return None;
        }
        let suspect = &mut self.ports[higher.index()];
        if now.since(suspect.since) >= WINDOW {
            (suspect.since, suspect.moves) = (now, [0; 2]);
        }
        if suspect.partner != lower {
            // Take a majority vote: a move between other ports cancels one move of the suspected pair.
            let most = usize::from(suspect.moves[1] > suspect.moves[0]);
            if suspect.moves[most] > 0 {
                suspect.moves[most] -= 1;
                return None;
            }
            (suspect.partner, suspect.since) = (lower, now);
        }
        suspect.moves[usize::from(to == lower)] += 1;
        let [there, back] = suspect.moves;
        if there + back < MOVES || there.abs_diff(back) > (there + back) / 4 {
            return None;
        }
        suspect.moves = [0; 2];
        suspect.until = now.after(HOLD);
        suspect.found += 1;
        suspect.found_with = Some(lower);
        self.found += 1;
        self.next_end = self.next_end.min(suspect.until);
        (suspect.detection == LoopDetection::Block).then_some(higher)
    }

    pub(super) fn is_found(&self, port: PortId) -> bool {
        self.ports[port.index()].until != Nanos::NEVER
    }

    pub(super) fn next_retried(&mut self, now: Nanos) -> Option<PortId> {
        if now < self.next_end {
            return None;
        }
        let over = self.ports.iter().position(|suspect| suspect.until <= now);
        if let Some(port) = over {
            self.ports[port].until = Nanos::NEVER;
        }
        let ends = self.ports.iter().map(|suspect| suspect.until);
        self.next_end = ends.min().unwrap_or(Nanos::NEVER);
        over.and_then(|port| u8::try_from(port).ok()).map(PortId)
    }

    pub(super) const fn next_end(&self) -> Nanos {
        self.next_end
    }

    pub(super) fn found_at(&self, port: PortId) -> u64 {
        self.ports[port.index()].found
    }

    pub(super) fn found_with(&self, port: PortId) -> Option<PortId> {
        self.ports[port.index()].found_with
    }

    pub(super) const fn found(&self) -> u64 {
        self.found
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const A: PortId = PortId(0);
    const B: PortId = PortId(1);
    const C: PortId = PortId(2);

    fn loops() -> Loops {
        Loops::new([LoopDetection::Block; 3].into_iter())
    }

    fn bounce(loops: &mut Loops, now: Nanos, moves: u32) -> Option<PortId> {
        let to_and_fro = [(A, B), (B, A)].into_iter().cycle();
        to_and_fro.take(moves as usize).map(|(from, to)| loops.moved(now, from, to)).find_map(|found| found)
    }

    #[test] // proves: floods
    fn loop_is_reported_at_exact_number_of_station_moves() {
        let mut loops = loops();
        assert_eq!(bounce(&mut loops, Nanos(5), MOVES - 1), None);
        assert_eq!(loops.found_at(B), 0);
        assert_eq!(loops.moved(Nanos(5), B, A), Some(B));
        assert_eq!((loops.found_at(A), loops.found_at(B), loops.found()), (0, 1, 1));
        assert_eq!((loops.found_with(A), loops.found_with(B)), (None, Some(A)));
    }

    #[test]
    fn station_moves_of_earlier_window_do_not_count_as_loop() {
        let mut loops = loops();
        assert_eq!(bounce(&mut loops, Nanos(0), MOVES - 1), None);
        assert_eq!(
            bounce(&mut loops, WINDOW, MOVES - 1),
            None,
            "station moves of the previous window still count"
        );
        assert_eq!(
            loops.moved(Nanos(2 * WINDOW.0 - 1), B, A),
            Some(B),
            "loop not found in the last nanosecond of the window"
        );
    }

    #[test] // proves: floods
    fn station_moves_in_one_direction_are_no_loop() {
        let mut loops = loops();
        assert!((0..10 * MOVES).all(|_| loops.moved(Nanos(0), A, B).is_none()));
        assert_eq!(loops.found_at(B), 0);
    }

    #[test]
    fn loop_is_reported_for_ports_with_most_station_moves() {
        let mut loops = loops();
        // A station at the first port sends into a loop between the other two ports.
        let mut found = None;
        for _ in 0..MOVES {
            found = found.or(loops.moved(Nanos(0), A, C)).or(loops.moved(Nanos(0), C, A));
            for (from, to) in [(B, C), (C, B), (B, C), (C, B)] {
                found = found.or(loops.moved(Nanos(0), from, to));
            }
        }
        assert_eq!((found, loops.found_with(C)), (Some(C), Some(B)));
        assert_eq!(loops.found_at(B), 0);
    }

    #[test]
    fn looped_port_is_unblocked_exactly_after_hold_time() {
        let mut loops = loops();
        assert_eq!(loops.next_end(), Nanos::NEVER);
        assert_eq!(bounce(&mut loops, Nanos(5), MOVES), Some(B));
        assert_eq!(loops.next_end(), Nanos(5).after(HOLD));
        assert_eq!(loops.next_retried(Nanos(4).after(HOLD)), None);
        assert_eq!(loops.next_retried(Nanos(5).after(HOLD)), Some(B));
        assert_eq!(loops.next_end(), Nanos::NEVER);
        assert_eq!(loops.next_retried(Nanos(6).after(HOLD)), None);
    }

    #[test] // proves: floods
    fn alert_action_reports_loop_once_and_blocks_no_port() {
        let mut loops = Loops::new([LoopDetection::Alert; 3].into_iter());
        assert_eq!(bounce(&mut loops, Nanos(5), 10 * MOVES), None);
        assert_eq!((loops.found_at(B), loops.is_found(B), loops.is_found(A)), (1, true, false));
    }

    #[test]
    fn port_without_loop_detection_never_has_a_loop() {
        let detection = [LoopDetection::Block, LoopDetection::Off, LoopDetection::Block];
        let mut loops = Loops::new(detection.into_iter());
        assert_eq!(bounce(&mut loops, Nanos(5), 2 * MOVES), None);
        assert_eq!(loops.found_at(B), 0);
    }
}

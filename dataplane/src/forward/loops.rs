//! Loops: two ports of the switch that are connected to each other somewhere outside. What is flooded out of one comes in
//! again by the other, for ever, and multiplies.
//!
//! A loop shows in the stations: each frame that goes round seems to come from a station that has just moved, from the one
//! port to the other and back, thousands of times a second. Stations do not: one that roams moves once, and where a
//! link fails over to another port all behind it move, once and in one direction. So moves are counted between two
//! ports in both directions; [`MOVES`] of them within [`WINDOW`] are a loop if there are as many there as back, but for
//! one in four. (A link that flaps between two ports with many stations behind it looks the same, and is treated so.)
//!
//! A loop is told of at the port with the higher number of the two, once in [`HOLD`]. Where that port is to be blocked
//! ([`LoopDetection::Block`]) it takes no part in floods for so long, neither way, and learns nothing, which ends
//! the circle; what it had learned is forgotten, because it may have been learned from frames that went round. Frames between
//! known stations go on. That is not the default: who sends under the address of a station that keeps talking makes it move to
//! and fro, too, and would take that station's port out.

use xoff_flow_control::settings::LoopDetection;
use xoff_wire::units::{Nanos, PortId};

/// So many moves between two ports are a loop.
pub const MOVES: u32 = 100;
/// If they come within this time.
pub const WINDOW: Nanos = Nanos::from_secs(1);
/// A port takes no part in floods for so long.
pub const HOLD: Nanos = Nanos::from_secs(10);

/// What is known of each port, as the one with the higher number of a pair.
#[derive(Clone, Debug)]
pub(super) struct Loops {
    ports: Box<[Suspect]>,
    /// When a port is tried again next.
    next_end: Nanos,
    /// Loops found at all ports.
    found: u64,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    detection: LoopDetection,
    /// The other port of most moves within the window.
    partner: PortId,
    /// When the window began.
    since: Nanos,
    /// Moves from the partner to here, and back.
    moves: [u32; 2],
    /// A loop was found, and nothing more is told until then; [`Nanos::NEVER`]: none was.
    until: Nanos,
    /// Loops found.
    found: u64,
    /// The other port of the last one.
    found_with: Option<PortId>,
}

impl Loops {
    /// `detection`: by port.
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

    /// The same ports are looked after in this way from now on.
    pub(super) fn revise(&mut self, detection: impl Iterator<Item = LoopDetection>) {
        for (suspect, detection) in self.ports.iter_mut().zip(detection) {
            suspect.detection = detection;
        }
    }

    /// A station has moved. Answers the port that is to take no part in floods from now on, if that was one move too
    /// many and there is one.
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
            // Whoever moves most stays: each move of another takes one away.
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

    /// Whether a loop was found at `port`, less than [`HOLD`] ago.
    pub(super) fn is_found(&self, port: PortId) -> bool {
        self.ports[port.index()].until != Nanos::NEVER
    }

    /// A port that is to be tried again at `now`.
    pub(super) fn next_tried_again(&mut self, now: Nanos) -> Option<PortId> {
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

    /// When [`Loops::next_tried_again`] must be called.
    pub(super) const fn next_end(&self) -> Nanos {
        self.next_end
    }

    /// Loops found at `port`.
    pub(super) fn found_at(&self, port: PortId) -> u64 {
        self.ports[port.index()].found
    }

    /// The other port of the last one found at `port`.
    pub(super) fn found_with(&self, port: PortId) -> Option<PortId> {
        self.ports[port.index()].found_with
    }

    /// Loops found at all ports.
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

    /// So many moves, there and back in turn; the port that the last of them finds.
    fn bounce(loops: &mut Loops, now: Nanos, moves: u32) -> Option<PortId> {
        let to_and_fro = [(A, B), (B, A)].into_iter().cycle();
        to_and_fro.take(moves as usize).map(|(from, to)| loops.moved(now, from, to)).find_map(|found| found)
    }

    // proves: floods
    #[test]
    fn a_loop_is_found_with_the_last_of_so_many_moves_and_not_before() {
        let mut loops = loops();
        assert_eq!(bounce(&mut loops, Nanos(5), MOVES - 1), None);
        assert_eq!(loops.found_at(B), 0);
        assert_eq!(loops.moved(Nanos(5), B, A), Some(B));
        assert_eq!((loops.found_at(A), loops.found_at(B), loops.found()), (0, 1, 1));
        assert_eq!((loops.found_with(A), loops.found_with(B)), (None, Some(A)));
    }

    #[test]
    fn moves_that_are_farther_apart_are_none() {
        let mut loops = loops();
        assert_eq!(bounce(&mut loops, Nanos(0), MOVES - 1), None);
        assert_eq!(bounce(&mut loops, WINDOW, MOVES - 1), None, "a new window");
        assert_eq!(loops.moved(Nanos(2 * WINDOW.0 - 1), B, A), Some(B), "within it to the last nanosecond");
    }

    // proves: floods
    #[test]
    fn all_that_move_once_in_one_direction_are_a_failover() {
        let mut loops = loops();
        assert!((0..10 * MOVES).all(|_| loops.moved(Nanos(0), A, B).is_none()));
        assert_eq!(loops.found_at(B), 0);
    }

    #[test]
    fn the_two_ports_of_most_moves_are_the_loop() {
        let mut loops = loops();
        // A station behind the first port sends into a loop of the two others: for each move to and fro of it
        // there are many between those.
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
    fn a_port_is_tried_again_when_its_time_is_over() {
        let mut loops = loops();
        assert_eq!(loops.next_end(), Nanos::NEVER);
        assert_eq!(bounce(&mut loops, Nanos(5), MOVES), Some(B));
        assert_eq!(loops.next_end(), Nanos(5).after(HOLD));
        assert_eq!(loops.next_tried_again(Nanos(4).after(HOLD)), None);
        assert_eq!(loops.next_tried_again(Nanos(5).after(HOLD)), Some(B));
        assert_eq!(loops.next_end(), Nanos::NEVER);
        assert_eq!(loops.next_tried_again(Nanos(6).after(HOLD)), None);
    }

    // proves: floods
    #[test]
    fn what_is_only_told_of_is_told_of_once_in_a_while_and_blocks_nobody() {
        let mut loops = Loops::new([LoopDetection::Alert; 3].into_iter());
        assert_eq!(bounce(&mut loops, Nanos(5), 10 * MOVES), None);
        assert_eq!((loops.found_at(B), loops.is_found(B), loops.is_found(A)), (1, true, false));
    }

    #[test]
    fn nothing_is_found_at_a_port_that_is_not_looked_after() {
        let detection = [LoopDetection::Block, LoopDetection::Off, LoopDetection::Block];
        let mut loops = Loops::new(detection.into_iter());
        assert_eq!(bounce(&mut loops, Nanos(5), 2 * MOVES), None);
        assert_eq!(loops.found_at(B), 0);
    }
}

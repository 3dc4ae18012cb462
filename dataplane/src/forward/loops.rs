//! Detection of loops: two ports connected outside the switch.
//!
//! In a loop, flooded frames circulate, so their senders seem to move to and fro between two ports. In a failover,
//! stations move only once. Hence [`MOVES`] station moves within [`WINDOW`] are a loop if:
//!
//! * they were caused by flooded frames, because others do not circulate,
//! * two or more addresses moved, and
//! * the counts in both directions differ by at most a quarter of all moves.
//!
//! If only one address moves, two hosts may have it. Then only [`MOVES_OF_ONE`] moves by flooded frames are a loop,
//! because no host floods as many. Without a loop, [`MOVES`] moves to and fro, by any frames, show a duplicate address.
//!
//! The higher-numbered port reports the loop, once per [`HOLD`]. With [`LoopDetection::Block`], this port is then left out of floods and
//! learning. This is not the default, because an attacker could spoof a station's address to block its port.

use xoff_flow_control::settings::LoopDetection;
use xoff_wire::units::{MacAddr, Nanos, PortId};

/// Number of station moves to and fro within [`WINDOW`] that show a loop or a duplicate address.
pub const MOVES: u32 = 100;
/// Number of station moves by flooded frames that count as a loop even if only one station moves.
pub const MOVES_OF_ONE: u32 = 1_000;
/// Time in which station moves are counted.
pub const WINDOW: Nanos = Nanos::from_secs(1);
/// Time after which the station moves of a [`WINDOW`] are forgotten. No timer ends a window: the next move evaluates it.
const REMEMBERED: Nanos = Nanos::from_secs(60);
/// Time for which a looped port is blocked and not reported again.
pub const HOLD: Nanos = Nanos::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct Loops {
    ports: Box<[Suspect]>,
    next_end: Nanos,
    found: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub from: PortId,
    pub to: PortId,
    pub mac: MacAddr,
    pub is_flooded: bool,
}

/// Up to two addresses that move to and fro between two ports.
pub type Movers = [Option<MacAddr>; 2];

/// Loops, or duplicate addresses, found between a port and a lower-numbered port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Finding {
    /// Number of loops or duplicates found. A lasting loop counts again, at most once per [`HOLD`]; a lasting duplicate, once
    /// per [`WINDOW`].
    pub count: u64,
    /// Lower-numbered port of the last loop or duplicate; `None` before the first.
    pub with: Option<PortId>,
    /// Addresses that moved in the last loop or duplicate.
    pub movers: Movers,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    detection: LoopDetection,
    partner: PortId,
    since: Nanos,
    all: Moves,
    flooded: Moves,
    until: Nanos,
    found: Finding,
    duplicate: Finding,
}

/// Counts of station moves to the higher and to the lower of two suspected ports.
#[derive(Clone, Copy, Debug, Default)]
struct Moves {
    ways: [u32; 2],
    /// First two addresses that moved in each direction.
    macs: [Movers; 2],
}

impl Moves {
    fn count(&mut self, way: usize, mac: MacAddr) {
        self.ways[way] += 1;
        let macs = &mut self.macs[way];
        if !macs.contains(&Some(mac))
            && let Some(free) = macs.iter_mut().find(|it| it.is_none())
        {
            *free = Some(mac);
        }
    }

    /// Returns up to two addresses that moved to the higher port. If two did, perhaps in a failover, returns those that
    /// moved back to the lower port.
    fn movers(&self) -> Movers {
        let [there, back] = self.macs;
        if there[1].is_none() { there } else { back }
    }

    fn are_to_and_fro(&self, least: u32) -> bool {
        let [there, back] = self.ways;
        there + back >= least && there.abs_diff(back) <= (there + back) / 4
    }
}

impl Suspect {
    fn begin(&mut self, now: Nanos) {
        self.since = now;
        (self.all, self.flooded) = Default::default();
    }

    fn is_loop(&self) -> bool {
        let is_one = self.flooded.movers()[1].is_none();
        self.flooded.are_to_and_fro(if is_one { MOVES_OF_ONE } else { MOVES })
    }

    fn find_duplicate(&mut self) {
        if self.all.are_to_and_fro(MOVES) {
            let (count, with, movers) = (self.duplicate.count + 1, Some(self.partner), self.all.movers());
            self.duplicate = Finding { count, with, movers };
        }
    }
}

impl Loops {
    pub(super) fn new(detection: impl Iterator<Item = LoopDetection>) -> Loops {
        let suspect = |detection| Suspect {
            detection,
            partner: PortId(0),
            since: Nanos::ZERO,
            all: Moves::default(),
            flooded: Moves::default(),
            until: Nanos::NEVER,
            found: Finding::default(),
            duplicate: Finding::default(),
        };
        Loops { ports: detection.map(suspect).collect(), next_end: Nanos::NEVER, found: 0 }
    }

    pub(super) fn revise(&mut self, detection: impl Iterator<Item = LoopDetection>) {
        for (suspect, detection) in self.ports.iter_mut().zip(detection) {
            suspect.detection = detection;
        }
    }

    #[cold]
    pub(super) fn moved(&mut self, now: Nanos, it: Move) -> Option<PortId> {
        let Move { from, to, mac, is_flooded } = it;
        let [lower, higher] = if from.0 < to.0 { [from, to] } else { [to, from] };
        let is_off = |port: &PortId| self.ports[port.index()].detection == LoopDetection::Off;
        if [lower, higher].iter().any(is_off) || self.is_found(higher) {
            return None;
        }
        let suspect = &mut self.ports[higher.index()];
        let age = now.since(suspect.since);
        if age >= WINDOW {
            if age < REMEMBERED {
                suspect.find_duplicate();
            }
            suspect.begin(now);
        }
        if suspect.partner != lower {
            // Take a majority vote: a move between other ports cancels one move between the suspected ports.
            let ways = suspect.all.ways;
            let most = usize::from(ways[1] > ways[0]);
            if ways[most] > 0 {
                for moves in [&mut suspect.all, &mut suspect.flooded] {
                    moves.ways[most] = moves.ways[most].saturating_sub(1);
                }
                return None;
            }
            suspect.partner = lower;
            suspect.begin(now);
        }
        let way = usize::from(to == lower);
        suspect.all.count(way, mac);
        if is_flooded {
            suspect.flooded.count(way, mac);
        }
        if !suspect.is_loop() {
            return None;
        }
        let movers = suspect.flooded.movers();
        suspect.found = Finding { count: suspect.found.count + 1, with: Some(lower), movers };
        suspect.begin(now);
        suspect.until = now.after(HOLD);
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

    pub(super) fn found_at(&self, port: PortId) -> Finding {
        self.ports[port.index()].found
    }

    pub(super) fn duplicate_at(&self, port: PortId) -> Finding {
        self.ports[port.index()].duplicate
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

    const FIRST: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const SECOND: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn flood(loops: &mut Loops, now: Nanos, mac: MacAddr, [from, to]: [PortId; 2]) -> Option<PortId> {
        loops.moved(now, Move { from, to, mac, is_flooded: true })
    }

    fn bounce_of(
        loops: &mut Loops,
        now: Nanos,
        moves: u32,
        macs: &[MacAddr],
        is_flooded: bool,
    ) -> Option<PortId> {
        let pairs = macs.iter().cycle().flat_map(|&mac| [(A, B, mac), (B, A, mac)]);
        let moves = pairs.take(moves as usize).map(|(from, to, mac)| Move { from, to, mac, is_flooded });
        moves.map(|it| loops.moved(now, it)).find_map(|found| found)
    }

    fn bounce(loops: &mut Loops, now: Nanos, moves: u32) -> Option<PortId> {
        bounce_of(loops, now, moves, &[FIRST, SECOND], true)
    }

    /// Moves a station to port B after the window's end, so that `loops` evaluates the window. Returns the duplicate
    /// addresses found at port B.
    fn duplicate_of_window(loops: &mut Loops, now: Nanos) -> Finding {
        assert_eq!(flood(loops, now, FIRST, [A, B]), None);
        loops.duplicate_at(B)
    }

    #[test] // proves: floods
    fn loop_is_reported_at_exact_number_of_station_moves() {
        let mut loops = loops();
        assert_eq!(bounce(&mut loops, Nanos(5), MOVES - 1), None);
        assert_eq!(loops.found_at(B).count, 0);
        assert_eq!(flood(&mut loops, Nanos(5), SECOND, [B, A]), Some(B));
        assert_eq!((loops.found_at(A).count, loops.found_at(B).count, loops.found()), (0, 1, 1));
        assert_eq!((loops.found_at(A).with, loops.found_at(B).with), (None, Some(A)));
    }

    #[test]
    fn station_moves_of_earlier_window_do_not_count_as_loop() {
        let mut loops = loops();
        assert_eq!(bounce(&mut loops, Nanos(0), MOVES - 1), None);
        assert_eq!(
            bounce(&mut loops, WINDOW, MOVES - 1),
            None,
            "station moves of the previous window must not count"
        );
        assert_eq!(
            flood(&mut loops, Nanos(2 * WINDOW.0 - 1), SECOND, [B, A]),
            Some(B),
            "the loop must be found even in the last nanosecond of the window"
        );
    }

    #[test] // proves: floods
    fn station_moves_in_one_direction_are_no_loop() {
        let mut loops = loops();
        assert!((0..10 * MOVES).all(|_| flood(&mut loops, Nanos(0), FIRST, [A, B]).is_none()));
        assert_eq!(loops.found_at(B).count, 0);
    }

    #[test]
    fn loop_is_reported_for_ports_with_most_station_moves() {
        let mut loops = loops();
        // A station at the first of three ports sends into a loop between the other two ports.
        let mut found = None;
        for _ in 0..MOVES {
            for pair in [[A, C], [C, A]] {
                found = found.or(flood(&mut loops, Nanos(0), FIRST, pair));
            }
            for mac in [FIRST, SECOND] {
                for pair in [[B, C], [C, B]] {
                    found = found.or(flood(&mut loops, Nanos(0), mac, pair));
                }
            }
        }
        assert_eq!((found, loops.found_at(C).with), (Some(C), Some(B)));
        assert_eq!(loops.found_at(B).count, 0);
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
        assert_eq!((loops.found_at(B).count, loops.is_found(B), loops.is_found(A)), (1, true, false));
    }

    #[test]
    fn port_without_loop_detection_never_has_a_loop() {
        let detection = [LoopDetection::Block, LoopDetection::Off, LoopDetection::Block];
        let mut loops = Loops::new(detection.into_iter());
        assert_eq!(bounce(&mut loops, Nanos(5), 2 * MOVES), None);
        assert_eq!(loops.found_at(B).count, 0);
    }

    #[test] // proves: floods
    fn one_moving_address_is_a_duplicate_and_no_loop() {
        let mut loops = loops();
        assert_eq!(bounce_of(&mut loops, Nanos(0), 100 * MOVES, &[FIRST], false), None);
        assert_eq!(loops.duplicate_at(B).count, 0, "a duplicate must not be found before the window ends");
        let found = duplicate_of_window(&mut loops, WINDOW);
        assert_eq!((found.count, found.with, found.movers), (1, Some(A), [Some(FIRST), None]));
        assert_eq!(bounce_of(&mut loops, WINDOW, 100 * MOVES, &[FIRST, SECOND], false), None);
        let found = duplicate_of_window(&mut loops, Nanos(9 * WINDOW.0));
        assert_eq!(
            (found.count, found.movers),
            (2, [Some(FIRST), Some(SECOND)]),
            "the window must be evaluated even after seconds without moves"
        );
        assert_eq!(bounce_of(&mut loops, Nanos(9 * WINDOW.0), MOVES - 2, &[FIRST], true), None);
        assert_eq!(
            duplicate_of_window(&mut loops, Nanos(10 * WINDOW.0)).count,
            2,
            "`MOVES` - 1 station moves must not count as a duplicate"
        );
        let begin = 10 * WINDOW.0;
        assert_eq!(bounce_of(&mut loops, Nanos(begin), MOVES, &[FIRST], false), None);
        let late = Nanos(begin + REMEMBERED.0);
        assert_eq!(
            duplicate_of_window(&mut loops, late).count,
            2,
            "station moves of a minute ago must be forgotten"
        );
        assert_eq!(bounce_of(&mut loops, late, MOVES, &[FIRST], false), None);
        assert_eq!(duplicate_of_window(&mut loops, Nanos(late.0 + REMEMBERED.0 - 1)).count, 3);
        assert_eq!(loops.found_at(B).count, 0);
    }

    #[test] // proves: floods
    fn loop_of_one_station_is_reported_only_after_more_moves() {
        let mut loops = loops();
        assert_eq!(bounce_of(&mut loops, Nanos(5), MOVES_OF_ONE - 1, &[FIRST], true), None);
        assert_eq!(flood(&mut loops, Nanos(5), FIRST, [B, A]), Some(B));
        assert_eq!(loops.found_at(B).movers, [Some(FIRST), None]);
        assert_eq!(loops.duplicate_at(B).count, 0);
    }

    #[test]
    fn failover_beside_duplicate_address_is_no_loop() {
        let mut loops = loops();
        for last in 0..20 {
            assert_eq!(flood(&mut loops, Nanos(0), MacAddr([2, 0, 0, 0, 9, last]), [A, B]), None);
        }
        assert_eq!(bounce_of(&mut loops, Nanos(0), 3 * MOVES, &[FIRST], true), None);
        let found = duplicate_of_window(&mut loops, WINDOW);
        assert_eq!((found.count, found.movers), (1, [Some(FIRST), None]));
    }
}

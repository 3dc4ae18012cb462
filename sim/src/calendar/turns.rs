//! Chooses the part of the fabric whose events are processed next (its turn), and the end of the turn.
//!
//! The reach is the minimum time until an event affects a neighboring node, in another [part](Parts). A turn ends before an effect of
//! another part's pending events, or of the turn's own events, can arrive.
//!
//! In a bipartite fabric, an effect returns to the side of its origin only after two links. If the other side is one
//! reach ahead, a turn may therefore last two reaches.
//!
//! Parts that can have such a long turn come first; among them the last active one, because its data is cached. If no
//! part can, the part with the earliest event comes first, but events of one side count as one reach later.

use crate::time::Picos;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    of: Box<[u16]>,
    /// Number of links on the shortest path between two parts of the fabric, or from a part back to itself; at most
    /// [`FAR`].
    apart: Box<[Box<[u8]>]>,
    waits: Box<[bool]>,
    least: Box<[u32]>,
}

/// Maximum distance in links between parts of the fabric; longer ones count as this. Another value changes how
/// far a part may run ahead.
const FAR: u8 = 8;

impl Parts {
    pub(crate) fn new(of: Vec<u16>, waits: Vec<bool>, links: impl Iterator<Item = (u32, u32)>) -> Parts {
        let mut next = vec![vec![false; waits.len()]; waits.len()];
        for (from, to) in links {
            next[usize::from(of[to as usize])][usize::from(of[from as usize])] = true;
        }
        let mut least = vec![u32::MAX; waits.len()];
        for (place, part) in (0..).zip(&of) {
            let least = &mut least[usize::from(*part)];
            *least = place.min(*least);
        }
        Parts {
            of: of.into_boxed_slice(),
            least: least.into_boxed_slice(),
            apart: (0..waits.len()).map(|part| distances(part, &next)).collect(),
            waits: waits.into_boxed_slice(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.waits.len()
    }

    pub(crate) fn lead(&self) -> u8 {
        self.apart.iter().flatten().copied().max().unwrap_or_default()
    }

    #[inline]
    pub(super) fn of(&self, place: u32) -> usize {
        self.of[place as usize].into()
    }

    pub(super) fn least(&self, part: usize) -> u32 {
        self.least[part]
    }

    fn span(&self, part: usize, reach: Picos) -> Picos {
        Picos(reach.0.saturating_mul(self.apart[part][part].into()))
    }

    fn felt<'a>(
        &'a self,
        part: usize,
        firsts: &'a [Picos],
        reach: Picos,
    ) -> impl Iterator<Item = Picos> + 'a {
        let felt = move |(first, links): (&Picos, &u8)| {
            Picos(first.0.saturating_add(reach.0.saturating_mul(u64::from(*links))))
        };
        firsts.iter().zip(&self.apart[part]).map(felt)
    }
}

fn distances(from: usize, next: &[Vec<bool>]) -> Box<[u8]> {
    let mut distances = vec![FAR; next.len()];
    let mut reached = vec![from];
    for steps in 1..FAR {
        let is_next = |part: &usize| distances[*part] == FAR && reached.iter().any(|at| next[*at][*part]);
        reached = (0..next.len()).filter(is_next).collect();
        reached.iter().for_each(|part| distances[*part] = steps);
    }
    distances.into_boxed_slice()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) part: usize,
    pub(super) horizon: Picos,
    at: usize,
}

#[derive(Debug)]
pub(super) struct Turns {
    recent: Vec<u16>,
}

impl Turns {
    pub(super) fn new(parts: usize) -> Turns {
        Turns { recent: (0..=u16::MAX).take(parts).rev().collect() }
    }

    pub(super) fn next(&self, parts: &Parts, firsts: &[Picos], reach: Picos, end: Picos) -> Option<Turn> {
        debug_assert!(
            reach > Picos::ZERO,
            "the minimum link delay must exceed zero: otherwise no part of the fabric can run"
        );
        let can_begin = |part: usize| firsts[part] < end;
        // Prefer parts of the fabric that can run for three quarters of their maximum time: sparse events
        // of other parts rarely permit all of it.
        let goes_far = |part: usize| {
            let span = parts.span(part, reach).0;
            let far = firsts[part].after(Picos(span - span / 4));
            can_begin(part) && parts.felt(part, firsts, reach).all(|felt| felt >= far)
        };
        let goes =
            |part: usize| can_begin(part) && parts.felt(part, firsts, reach).all(|felt| felt > firsts[part]);
        let begins = |part: usize| firsts[part].after(if parts.waits[part] { reach } else { Picos::ZERO });
        let all = || self.recent.iter().enumerate().rev().map(|(at, part)| (at, usize::from(*part)));
        let first = || all().filter(|(_, part)| goes(*part)).min_by_key(|(_, part)| begins(*part));
        let (at, part) = all().find(|(_, part)| goes_far(*part)).or_else(first)?;
        let felt = parts.felt(part, firsts, reach).min().unwrap_or(end);
        Some(Turn { part, horizon: felt.min(end), at })
    }

    pub(super) fn take(&mut self, turn: Turn) {
        self.recent[turn.at..].rotate_left(1);
    }
}

// Tests for SPECIFICATION.md: sim-timing
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const REACH: Picos = Picos(12);

    #[test]
    fn distance_of_fabric_parts_is_number_of_links_between() {
        let both = |(one, other)| [(one, other), (other, one)];
        let links = [(0, 1), (1, 2), (2, 4), (5, 6)].into_iter().flat_map(both);
        let parts = Parts::new(vec![0, 1, 2, 2, 3, 4, 4, 5], vec![false; 6], links);
        let rows = [
            [2, 1, 2, 3, FAR, FAR],
            [1, 2, 1, 2, FAR, FAR],
            [2, 1, 2, 1, FAR, FAR],
            [3, 2, 1, 2, FAR, FAR],
            [FAR, FAR, FAR, FAR, 1, FAR],
            [FAR; 6],
        ];
        assert_eq!(*parts.apart, rows.map(|row| row.into()));
        assert_eq!((&*parts.least, parts.lead()), (&[0, 1, 2, 4, 5, 7][..], FAR));
        let row = (0..FAR.into()).map(|part| (part, part + 1));
        let parts = Parts::new((0..=FAR.into()).collect(), vec![false; usize::from(FAR) + 1], row);
        let (first, last) = (&parts.apart[0], &parts.apart[usize::from(FAR)]);
        assert!(
            first.iter().all(|links| *links == FAR),
            "a part without a path to part 0 must have the maximum distance"
        );
        assert_eq!(last[..3], [FAR, FAR - 1, FAR - 2]);
    }

    #[test]
    fn fabric_part_in_cache_runs_first_if_it_can_run_long() {
        let links = [0, 1, 2].into_iter().flat_map(|part| [(3, part), (part, 3)]);
        let parts = Parts::new(vec![0, 1, 2, 3], vec![true, true, true, false], links);
        let mut turns = Turns::new(4);
        let mut firsts = [Picos::ZERO; 4];
        let mut taken = Vec::new();
        while let Some(turn) = turns.next(&parts, &firsts, REACH, Picos(60)) {
            turns.take(turn);
            taken.push((turn.part, firsts[turn.part].0, turn.horizon.0));
            firsts[turn.part] = turn.horizon;
        }
        let [first, second, third] = [
            [(3, 0, 12), (0, 0, 24), (1, 0, 24), (2, 0, 24)],
            [(3, 12, 36), (2, 24, 48), (1, 24, 48), (0, 24, 48)],
            [(3, 36, 60), (0, 48, 60), (1, 48, 60), (2, 48, 60)],
        ];
        assert_eq!(taken, [first, second, third].concat());
    }

    #[test]
    fn part_of_fabric_runs_until_other_parts_can_affect_it() {
        let links = [(0, 1), (1, 0), (1, 2), (2, 1)];
        let parts = Parts::new(vec![0, 1, 2, 3], vec![false, true, false, false], links.into_iter());
        let next = |firsts: [u64; 4], end| {
            let turn = Turns::new(4).next(&parts, &firsts.map(Picos), REACH, Picos(end))?;
            Some((turn.part, turn.horizon.0))
        };
        let never = Picos::NEVER.0;
        assert_eq!(
            next([100, 120, 110, never], 1_000),
            Some((0, 124)),
            "part 0 must run until an effect of its own event can return"
        );
        assert_eq!(
            next([100, 110, 110, never], 1_000),
            Some((0, 122)),
            "part 0 must run until one reach (minimum delay to a neighbor) after the neighbor's event"
        );
        assert_eq!(
            next([100, 108, 110, never], 1_000),
            Some((0, 120)),
            "an earlier event of the neighbor must shorten the run of part 0"
        );
        assert_eq!(
            next([109, 108, 100, never], 1_000),
            Some((2, 120)),
            "the part that is furthest behind must run first"
        );
        assert_eq!(next([100, 110, 110, never], 118), Some((0, 118)), "part 0 must stop when the run ends");
        assert_eq!(next([100, 110, 110, never], 117), Some((0, 117)));
        let far = 5 + u64::from(FAR) * REACH.0;
        assert_eq!(
            next([never, never, never, 5], 1_000),
            Some((3, far)),
            "a part without neighbors must run for at most FAR reaches"
        );
        assert_eq!((next([100; 4], 100), next([never; 4], never)), (None, None));
    }

    #[test]
    fn simulated_time_advances_at_any_minimum_link_delay() {
        for reach in 1..10 {
            let parts = Parts::new(vec![0, 1], vec![false, true], [(0, 1), (1, 0), (0, 0)].into_iter());
            let mut turns = Turns::new(2);
            let mut firsts = [Picos::ZERO; 2];
            while let Some(turn) = turns.next(&parts, &firsts, Picos(reach), Picos(50)) {
                turns.take(turn);
                assert!(turn.horizon > firsts[turn.part], "{reach}: {turn:?} of {firsts:?}");
                firsts[turn.part] = turn.horizon;
            }
            assert_eq!(firsts, [Picos(50); 2]);
        }
    }
}

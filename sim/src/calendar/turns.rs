//! Whose turn it is while entries are taken out by place, and how far that goes.
//!
//! Places are in [parts](Parts) that have their turns together. What happens at one part follows from what happens at another no sooner
//! than so many reaches later as links lie between them, and from what happens at its other places no sooner than on the shortest way
//! that leads back: one reach where links lead within it, else there and back. A turn goes as far as nothing that is yet to happen
//! anywhere can matter to it.
//!
//! Where all links of a fabric lead from one side of it to the other, that is two reaches, once the two are one apart:
//!
//! ```text
//!   one    ======|-----------|-----------|        (=: done before) each turn ends one reach after where the other side
//!   other  ======|=====|-----------|-----------|  has come to, and goes two reaches at a time
//! ```
//!
//! So those of one side begin where nobody can go as far as that. Of all who can, the part has its turn that was in turn last, since what
//! it needs is still at hand.

use crate::time::Picos;

/// Which places have their turns together, and how far these parts are apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    /// By place.
    of: Box<[u16]>,
    /// By part, and by part that it feels: how many links lie between, on the shortest way; to itself, on the shortest that leads
    /// back. [`FAR`] where there are more, or is no way.
    apart: Box<[Box<[u8]>]>,
    /// By part: whether those of the other side begin.
    waits: Box<[bool]>,
    /// By part: the least of its places.
    least: Box<[u32]>,
}

/// How many reaches parts may be ahead of each other at most, however far apart they are: who is taken for nearer than it is ends turns
/// sooner only. How long a run until its flows have ended is hangs on it.
const FAR: u8 = 8;

impl Parts {
    /// Of places in parts with these numbers, by place, of which none is left out; of parts that wait for others to begin; and of links
    /// from place to place.
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

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.waits.len()
    }

    /// How many reaches parts may be ahead of each other.
    pub(crate) fn lead(&self) -> u8 {
        self.apart.iter().flatten().copied().max().unwrap_or_default()
    }

    /// That of a place.
    #[inline]
    pub(super) fn of(&self, place: u32) -> usize {
        self.of[place as usize].into()
    }

    /// The place that is first in a turn of a part, if anything happens there.
    pub(super) fn least(&self, part: usize) -> u32 {
        self.least[part]
    }

    /// How far a turn goes where nothing else is in its way.
    fn span(&self, part: usize, reach: Picos) -> Picos {
        Picos(reach.0.saturating_mul(self.apart[part][part].into()))
    }

    /// From when on what has yet to happen may matter to `part`, if the first of it does at these times, by part.
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

/// How many steps it takes from a part to each, and back to itself, or [`FAR`], where it is said which are next to each.
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

/// A turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) part: usize,
    /// It goes until then.
    pub(super) horizon: Picos,
    /// Where the part is among those that were in turn.
    at: usize,
}

/// Who was in turn.
#[derive(Debug)]
pub(super) struct Turns {
    /// Parts, that which was in turn last at the end.
    recent: Vec<u16>,
}

impl Turns {
    pub(super) fn new(parts: usize) -> Turns {
        Turns { recent: (0..=u16::MAX).take(parts).rev().collect() }
    }

    /// The next turn, if anything happens before `end`. What is first at each part does at these times.
    pub(super) fn next(&self, parts: &Parts, firsts: &[Picos], reach: Picos, end: Picos) -> Option<Turn> {
        debug_assert!(reach > Picos::ZERO, "what is felt at once leaves no turn anything");
        let can_begin = |part: usize| firsts[part] < end;
        // Neighbours are hardly ever one reach apart to the moment, as something happens now and then only.
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

    /// That turn begins.
    pub(super) fn take(&mut self, turn: Turn) {
        self.recent[turn.at..].rotate_left(1);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const REACH: Picos = Picos(12);

    #[test]
    fn parts_are_as_far_apart_as_links_lie_between_them() {
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
        assert!(first.iter().all(|links| *links == FAR), "links lead one way");
        assert_eq!(last[..3], [FAR, FAR - 1, FAR - 2]);
    }

    /// The last in the middle, and three that are next to it only, and wait for it at first. All are busy.
    #[test]
    fn the_part_that_was_in_turn_last_goes_on_as_soon_as_it_can_go_far() {
        let links = [0, 1, 2].into_iter().flat_map(|part| [(3, part), (part, 3)]);
        let parts = Parts::new(vec![0, 1, 2, 3], vec![true, true, true, false], links);
        let mut turns = Turns::new(4);
        let mut firsts = [Picos::ZERO; 4];
        let mut seen = Vec::new();
        while let Some(turn) = turns.next(&parts, &firsts, REACH, Picos(60)) {
            turns.take(turn);
            seen.push((turn.part, firsts[turn.part].0, turn.horizon.0));
            firsts[turn.part] = turn.horizon;
        }
        let [first, second, third] = [
            [(3, 0, 12), (0, 0, 24), (1, 0, 24), (2, 0, 24)],
            [(3, 12, 36), (2, 24, 48), (1, 24, 48), (0, 24, 48)],
            [(3, 36, 60), (0, 48, 60), (1, 48, 60), (2, 48, 60)],
        ];
        assert_eq!(seen, [first, second, third].concat());
    }

    #[test]
    fn a_turn_goes_as_far_as_nothing_that_is_yet_to_happen_matters_to_it() {
        let links = [(0, 1), (1, 0), (1, 2), (2, 1)];
        let parts = Parts::new(vec![0, 1, 2, 3], vec![false, true, false, false], links.into_iter());
        let next = |firsts: [u64; 4], end| {
            let turn = Turns::new(4).next(&parts, &firsts.map(Picos), REACH, Picos(end))?;
            Some((turn.part, turn.horizon.0))
        };
        let never = Picos::NEVER.0;
        assert_eq!(next([100, 120, 110, never], 1_000), Some((0, 124)), "itself, there and back");
        assert_eq!(next([100, 110, 110, never], 1_000), Some((0, 122)), "its neighbour");
        assert_eq!(next([100, 108, 110, never], 1_000), Some((0, 120)), "nor less than that");
        assert_eq!(next([109, 108, 100, never], 1_000), Some((2, 120)), "no sooner than who is behind");
        assert_eq!(next([100, 110, 110, never], 118), Some((0, 118)), "it is over sooner");
        assert_eq!(next([100, 110, 110, never], 117), Some((0, 117)));
        let far = 5 + u64::from(FAR) * REACH.0;
        assert_eq!(next([never, never, never, 5], 1_000), Some((3, far)), "on its own, but not for ever");
        assert_eq!((next([100; 4], 100), next([never; 4], never)), (None, None));
    }

    /// A picosecond to each other: they are at the same time, or the one is as far ahead as it can be.
    #[test]
    fn a_turn_comes_beyond_where_it_begins_however_short_the_reach() {
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

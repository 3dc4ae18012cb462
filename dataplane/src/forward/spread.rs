//! Which of several equal ways a frame takes: ways by number, of whatever they are, ports of a group or next hops of a route.
//!
//! A choice is a function of what it is told: a digest of the flow, a place in the turns, a number by chance, what waits at
//! each way, and which ways are usable. Nothing is kept here from one choice to the next, so that a choice that came to nothing,
//! because the frame has to wait, can be made again.
//!
//! * Each way has a weight, and gets its share of flows, of turns or of chances by it, among those that are usable.
//! * A flow takes the way with the highest of numbers that are drawn from the flow and the way together (rendezvous hashing, the
//!   highest random weight). So where a way can no longer be used its flows go elsewhere, and no other; when it is back they, and no
//!   others, come back. The same holds where ways are added or taken out for good, if the others keep their names.
//! * The flow's digest has to be salted by whoever asks: of two switches one behind the other that choose alike, the second
//!   would find all of its flows on one way.

use xoff_flow_control::settings::{MEMBERS_MAX, Turns, WEIGHT_MAX};
use xoff_wire::flow::mix;
use xoff_wire::units::Bytes;

/// A set of ways, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways(u64);

impl Ways {
    /// None.
    pub const NONE: Ways = Ways(0);

    /// Adds one.
    #[inline]
    pub fn insert(&mut self, way: usize) {
        self.0 |= 1 << way;
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of `self`, or `others` where it has none.
    #[inline]
    #[must_use]
    pub const fn or(self, others: Ways) -> Ways {
        if self.is_empty() { others } else { self }
    }

    /// Their numbers, lowest first.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let way = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                way
            })
        })
    }
}

impl FromIterator<usize> for Ways {
    fn from_iter<T: IntoIterator<Item = usize>>(ways: T) -> Ways {
        let mut set = Ways::NONE;
        ways.into_iter().for_each(|way| set.insert(way));
        set
    }
}

/// Ways, each with a name and a weight.
#[derive(Clone, Debug)]
pub struct Weighted {
    ways: Box<[Named]>,
    /// All weights are the same.
    is_even: bool,
    /// The ways in turn, each as often as its weight says.
    turns: Box<[u8]>,
}

#[derive(Clone, Copy, Debug)]
struct Named {
    name: u64,
    weight: u32,
}

impl Weighted {
    /// Of (name, weight) each: 1 to [`MEMBERS_MAX`] of them. The name tells a way from others, so that flows stay with it
    /// whatever its number; a weight is 1 to [`WEIGHT_MAX`].
    ///
    /// # Panics
    /// If there is none, or there are more.
    #[must_use]
    pub fn new(ways: impl IntoIterator<Item = (u64, u16)>) -> Weighted {
        let ways: Box<[Named]> = ways
            .into_iter()
            .map(|(name, weight)| Named {
                name: mix(name ^ NAMES),
                weight: weight.clamp(1, WEIGHT_MAX).into(),
            })
            .collect();
        assert!((1..=MEMBERS_MAX).contains(&ways.len()), "{} ways", ways.len());
        let is_even = ways.iter().all(|way| way.weight == ways[0].weight);
        Weighted { turns: turns(&ways), ways, is_even }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ways.len()
    }

    /// There is at least one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ways.is_empty()
    }

    /// The way of a flow, by its salted digest; `None` where none is usable.
    #[inline]
    #[must_use]
    pub fn of_flow(&self, digest: u64, usable: Ways) -> Option<usize> {
        let drawn = |way: &usize| mix(digest ^ self.ways[*way].name);
        if self.is_even {
            return usable.iter().max_by_key(drawn);
        }
        // The soonest of events that come at rates like the weights.
        let when = |way: &usize| -unit(drawn(way)).ln() / f64::from(self.ways[*way].weight);
        usable.iter().min_by(|a, b| when(a).total_cmp(&when(b)))
    }

    /// The way whose turn it is at `place`, from zero, and the place after it; `None` where none is usable.
    #[inline]
    #[must_use]
    pub fn in_turn(&self, place: usize, usable: Ways) -> Option<(usize, usize)> {
        let count = self.turns.len();
        let mut turns = (0..count).map(|ahead| (place + ahead) % count);
        let found = turns.find(|&turn| usable.0 & 1 << self.turns[turn] != 0)?;
        Some((self.turns[found].into(), (found + 1) % count))
    }

    /// Any way, by a number that is as likely as any other; `None` where none is usable.
    #[inline]
    #[must_use]
    pub fn at_random(&self, chance: u64, usable: Ways) -> Option<usize> {
        let all: u64 = usable.iter().map(|way| u64::from(self.ways[way].weight)).sum();
        let mut point = scaled(chance, all);
        usable.iter().find(|&way| {
            let weight = u64::from(self.ways[way].weight);
            let is_it = point < weight;
            point = point.saturating_sub(weight);
            is_it
        })
    }

    /// The next way of a frame, as these turns have it: `place` is where they are, and becomes where they are afterwards.
    #[inline]
    #[must_use]
    pub fn next(&self, turns: Turns, place: usize, chance: u64, usable: Ways) -> Option<(usize, usize)> {
        match turns {
            Turns::RoundRobin => self.in_turn(place, usable),
            Turns::Random => self.at_random(chance, usable).map(|way| (way, place)),
        }
    }
}

/// Those of `usable` where less than `low` waits; else those where less than `high` does; else all. `waiting` is asked once
/// for each.
#[inline]
#[must_use]
pub fn shortest(usable: Ways, low: Bytes, high: Bytes, waiting: impl Fn(usize) -> Bytes) -> Ways {
    let (mut below_low, mut below_high) = (Ways::NONE, Ways::NONE);
    for way in usable.iter() {
        let waits = waiting(way);
        if waits < low {
            below_low.insert(way);
        } else if waits < high {
            below_high.insert(way);
        }
    }
    below_low.or(below_high).or(usable)
}

/// Any number: names are small, and a digest may be anything.
const NAMES: u64 = 0x7061_7468_7761_7973;

/// A number of `0..below`, by one that is any.
#[inline]
#[allow(clippy::cast_possible_truncation)] // the upper half of a product
fn scaled(chance: u64, below: u64) -> u64 {
    ((u128::from(chance) * u128::from(below)) >> 64) as u64
}

/// A number above 0, up to 1.
#[inline]
fn unit(drawn: u64) -> f64 {
    ((drawn >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Each way as often as its weight says, by their common divisor, and as evenly as can be: who is farthest behind its share is
/// next.
fn turns(ways: &[Named]) -> Box<[u8]> {
    let divisor = ways.iter().fold(0, |divisor, way| common_divisor(divisor, way.weight));
    let weights: Vec<i64> = ways.iter().map(|way| i64::from(way.weight / divisor)).collect();
    let all: i64 = weights.iter().sum();
    let mut behind = vec![0_i64; ways.len()];
    (0..all)
        .filter_map(|_| {
            behind.iter_mut().zip(&weights).for_each(|(behind, weight)| *behind += weight);
            let next = (0..ways.len()).rev().max_by_key(|&way| behind[way])?;
            behind[next] -= all;
            u8::try_from(next).ok()
        })
        .collect()
}

const fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

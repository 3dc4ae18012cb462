//! Choice among equal-cost paths: ports of a group, or next hops of a route.
//!
//! * Usable paths are chosen in proportion to their weights.
//! * Rendezvous hashing: a flow takes the path with the highest hash of flow and path. If a path is lost, only its flows move to
//!   other paths; they return when the path does.
//! * The caller must salt a flow's digest. Otherwise the next switch would compute the same hashes, and put all flows that it
//!   receives on one path.

use xoff_flow_control::settings::{MEMBERS_MAX, Turns, WEIGHT_MAX};
use xoff_wire::flow::mix;
use xoff_wire::units::Bytes;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathSet(u64);

impl PathSet {
    pub const NONE: PathSet = PathSet(0);

    #[inline]
    pub fn insert(&mut self, path: usize) {
        self.0 |= 1 << path;
    }

    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    #[must_use]
    pub const fn or(self, others: PathSet) -> PathSet {
        if self.is_empty() { others } else { self }
    }

    #[inline]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let path = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                path
            })
        })
    }
}

impl FromIterator<usize> for PathSet {
    fn from_iter<T: IntoIterator<Item = usize>>(paths: T) -> PathSet {
        let mut set = PathSet::NONE;
        paths.into_iter().for_each(|path| set.insert(path));
        set
    }
}

#[derive(Clone, Debug)]
pub struct WeightedPaths {
    paths: Box<[WeightedPath]>,
    is_even: bool,
    turns: Box<[u8]>,
}

#[derive(Clone, Copy, Debug)]
struct WeightedPath {
    name: u64,
    weight: u32,
}

impl WeightedPaths {
    /// Creates paths from names and weights. A flow's path depends on the paths' names, not on their order.
    ///
    /// # Panics
    ///
    /// Unless there are 1 to [`MEMBERS_MAX`] paths.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = (u64, u16)>) -> WeightedPaths {
        let paths: Box<[WeightedPath]> = paths
            .into_iter()
            .map(|(name, weight)| WeightedPath {
                name: mix(name ^ NAMES),
                weight: weight.clamp(1, WEIGHT_MAX).into(),
            })
            .collect();
        assert!((1..=MEMBERS_MAX).contains(&paths.len()), "{} paths", paths.len());
        let is_even = paths.iter().all(|path| path.weight == paths[0].weight);
        WeightedPaths { turns: turns(&paths), paths, is_even }
    }

    #[inline]
    #[must_use]
    pub fn of_flow(&self, digest: u64, usable: PathSet) -> Option<usize> {
        let drawn = |path: &usize| mix(digest ^ self.paths[*path].name);
        if self.is_even {
            return usable.iter().max_by_key(drawn);
        }
        // Weighted rendezvous hashing: each path draws an exponentially distributed time, with its weight as rate; the
        // earliest wins.
        let when = |path: &usize| -unit(drawn(path)).ln() / f64::from(self.paths[*path].weight);
        usable.iter().min_by(|a, b| when(a).total_cmp(&when(b)))
    }

    /// Returns the next usable path in round robin from `place` on, and the place after that path.
    #[inline]
    #[must_use]
    pub fn in_turn(&self, place: usize, usable: PathSet) -> Option<(usize, usize)> {
        let count = self.turns.len();
        let mut turns = (0..count).map(|ahead| (place + ahead) % count);
        let found = turns.find(|&turn| usable.0 & 1 << self.turns[turn] != 0)?;
        Some((self.turns[found].into(), (found + 1) % count))
    }

    #[inline]
    #[must_use]
    pub fn at_random(&self, chance: u64, usable: PathSet) -> Option<usize> {
        let all: u64 = usable.iter().map(|path| u64::from(self.paths[path].weight)).sum();
        let mut point = scaled(chance, all);
        usable.iter().find(|&path| {
            let weight = u64::from(self.paths[path].weight);
            let is_it = point < weight;
            point = point.saturating_sub(weight);
            is_it
        })
    }

    #[inline]
    #[must_use]
    pub fn next(&self, turns: Turns, place: usize, chance: u64, usable: PathSet) -> Option<(usize, usize)> {
        match turns {
            Turns::RoundRobin => self.in_turn(place, usable),
            Turns::Random => self.at_random(chance, usable).map(|path| (path, place)),
        }
    }
}

/// Returns the usable paths with fewer than `low` queued bytes; if none, those with fewer than `high`; if none, all.
#[inline]
#[must_use]
pub fn shortest(usable: PathSet, low: Bytes, high: Bytes, waiting: impl Fn(usize) -> Bytes) -> PathSet {
    let (mut below_low, mut below_high) = (PathSet::NONE, PathSet::NONE);
    for path in usable.iter() {
        let waits = waiting(path);
        if waits < low {
            below_low.insert(path);
        } else if waits < high {
            below_high.insert(path);
        }
    }
    below_low.or(below_high).or(usable)
}

const NAMES: u64 = 0x7061_7468_7761_7973;

#[inline]
#[allow(clippy::cast_possible_truncation)] // the upper half of a product
fn scaled(chance: u64, below: u64) -> u64 {
    ((u128::from(chance) * u128::from(below)) >> 64) as u64
}

#[inline]
fn unit(drawn: u64) -> f64 {
    ((drawn >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Returns a round-robin order of the paths: the next path is always the one farthest behind its weighted share.
fn turns(paths: &[WeightedPath]) -> Box<[u8]> {
    let divisor = paths.iter().fold(0, |divisor, path| common_divisor(divisor, path.weight));
    let weights: Vec<i64> = paths.iter().map(|path| i64::from(path.weight / divisor)).collect();
    let all: i64 = weights.iter().sum();
    let mut behind = vec![0_i64; paths.len()];
    (0..all)
        .filter_map(|_| {
            behind.iter_mut().zip(&weights).for_each(|(behind, weight)| *behind += weight);
            let next = (0..paths.len()).rev().max_by_key(|&path| behind[path])?;
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

//! Queue of pending events, ordered by time, then by the encoded [`Event`](crate::event::Event).
//!
//! The reach is the minimum time until an event affects a neighboring node. [`Order::ByPlace`] processes a node's
//! (place's) events within one reach together, while its data is cached: no neighbor can affect them meanwhile.

mod turns;
mod wheel;

use std::cmp::Reverse;

use crate::time::Picos;
pub(crate) use turns::Parts;
use turns::Turns;
pub(crate) use wheel::BUCKETS;
use wheel::Wheel;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry(u128);

impl Entry {
    #[inline]
    pub(crate) const fn new(time: Picos, subject: u32, place: u32) -> Entry {
        Entry((place as u128) << 96 | (time.0 as u128) << 32 | subject as u128)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // truncation removes the place
    pub(crate) const fn time(self) -> Picos {
        Picos((self.0 >> 32) as u64)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // truncation removes the time
    pub(crate) const fn subject(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(crate) const fn place(self) -> u32 {
        (self.0 >> 96) as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    ByTime,
    /// Order by node (place), then by time. The value is the minimum time until an event affects another node.
    ByPlace(Picos),
}

impl Order {
    #[inline]
    const fn key(self, entry: Entry) -> u128 {
        match self {
            Order::ByTime => entry.0 & (u128::MAX >> 32),
            Order::ByPlace(_) => entry.0,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Calendar {
    parts: Parts,
    turns: Turns,
    wheels: Box<[Wheel]>,
    firsts: Box<[Picos]>,
    order: Order,
    horizons: Box<[Picos]>,
    current: Vec<Entry>,
    soon: Soon,
    ahead: Option<u32>,
}

impl Calendar {
    /// Creates a calendar with buckets of 2^`width_log2` picoseconds; it is fastest with few events per bucket.
    pub(crate) fn new(width_log2: u32, parts: Parts) -> Calendar {
        let count = parts.count();
        Calendar {
            turns: Turns::new(count),
            wheels: (0..count).map(|_| Wheel::new(width_log2)).collect(),
            firsts: vec![Picos::NEVER; count].into_boxed_slice(),
            order: Order::ByTime,
            horizons: vec![Picos::ZERO; count].into_boxed_slice(),
            current: Vec::new(),
            soon: Soon::default(),
            ahead: None,
            parts,
        }
    }

    #[inline]
    pub(crate) fn put(&mut self, entry: Entry) {
        let part = self.parts.of(entry.place());
        if entry.time() < self.horizons[part] {
            self.soon.put(entry, self.order);
        } else {
            self.lay_up(entry, part);
        }
    }

    #[inline]
    fn lay_up(&mut self, entry: Entry, part: usize) {
        self.firsts[part] = self.firsts[part].min(entry.time());
        self.wheels[part].lay_up(entry);
    }

    #[inline(never)]
    pub(crate) fn open(&mut self, end: Picos, order: Order) -> bool {
        self.close();
        self.order = order;
        let end = Picos(end.0 + 1);
        match order {
            Order::ByTime => {
                let first = self.firsts.iter().min().copied().unwrap_or(Picos::NEVER);
                if first >= end {
                    return false;
                }
                let horizon = self.wheels[0].end_of_bucket(first).min(end);
                self.horizons.fill(horizon);
                (0..self.wheels.len()).for_each(|part| self.gather(part, horizon));
                self.current.sort_unstable_by_key(|entry| Reverse(order.key(*entry)));
            }
            Order::ByPlace(reach) => {
                let next =
                    |calendar: &Calendar| calendar.turns.next(&calendar.parts, &calendar.firsts, reach, end);
                let Some(turn) = next(self) else { return false };
                self.turns.take(turn);
                self.horizons[turn.part] = turn.horizon;
                self.gather(turn.part, turn.horizon);
                self.ahead = next(self).map(|turn| self.parts.least(turn.part));
                self.current.sort_unstable_by(|one, other| other.cmp(one));
            }
        }
        true
    }

    fn gather(&mut self, part: usize, horizon: Picos) {
        if self.firsts[part] < horizon {
            self.wheels[part].gather(horizon, &mut self.current);
            self.firsts[part] = self.wheels[part].first().unwrap_or(Picos::NEVER);
        }
    }

    fn close(&mut self) {
        self.horizons.fill(Picos::ZERO);
        while let Some(entry) = self.current.pop().or_else(|| self.soon.take()) {
            self.lay_up(entry, self.parts.of(entry.place()));
        }
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Option<Entry> {
        let key = |entry: Entry| self.order.key(entry);
        match (self.current.last(), self.soon.first()) {
            (Some(next), Some(soon)) if key(soon) < key(*next) => self.soon.take(),
            (None, _) => self.soon.take(),
            (Some(_), _) => self.current.pop(),
        }
    }

    #[inline]
    pub(crate) fn place_after(&self, place: u32) -> Option<u32> {
        self.current.iter().rev().map(|entry| entry.place()).find(|next| *next != place).or(self.ahead)
    }

    pub(crate) fn take_by_time(&mut self, end: Picos) -> Option<Entry> {
        let soonest = |calendar: &Calendar| {
            let next = [calendar.current.last().copied(), calendar.soon.first()];
            next.into_iter().flatten().map(Entry::time).min()
        };
        if self.order != Order::ByTime || soonest(self).is_none() {
            self.open(end, Order::ByTime);
        }
        if soonest(self)? <= end { self.take() } else { None }
    }
}

#[derive(Debug, Default)]
struct Soon {
    entries: Vec<Entry>,
    taken: usize,
}

impl Soon {
    #[inline]
    fn put(&mut self, entry: Entry, order: Order) {
        let mut at = self.entries.len();
        self.entries.push(entry);
        while at > self.taken && order.key(self.entries[at - 1]) > order.key(entry) {
            self.entries.swap(at - 1, at);
            at -= 1;
        }
    }

    #[inline]
    fn first(&self) -> Option<Entry> {
        self.entries.get(self.taken).copied()
    }

    #[inline]
    fn take(&mut self) -> Option<Entry> {
        let first = self.first();
        self.taken += 1;
        if self.taken >= self.entries.len() {
            self.entries.clear();
            self.taken = 0;
        }
        first
    }
}

// Tests for SPECIFICATION.md: sim-timing
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BinaryHeap;

    use super::*;

    fn ahead(rng: &mut fastrand::Rng) -> u64 {
        rng.choice([0, 1, 500, 60_000, 3_000_000, 50_000_000]).map_or(0, |most| rng.u64(0..=most))
    }

    fn parts_of(entry: Entry) -> (Picos, u32, u32) {
        (entry.time(), entry.subject(), entry.place())
    }

    #[test]
    fn events_of_queue_are_ordered_by_time_then_by_encoding() {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut calendar = Calendar::new(rng.u32(0..12), Parted::OnTwoSides.parts());
            let mut heap = BinaryHeap::new();
            let mut now = 0;
            for _ in 0..2_000 {
                for _ in 0..rng.u32(0..4) {
                    let time = Picos(now + ahead(&mut rng));
                    let (subject, place) = (rng.u32(..), rng.u32(0..PLACES));
                    calendar.put(Entry::new(time, subject, place));
                    heap.push(Reverse((time, subject, place)));
                }
                let end = now + rng.u64(0..100_000);
                while let Some(next) = calendar.take_by_time(Picos(end)) {
                    assert_eq!(heap.pop(), Some(Reverse(parts_of(next))), "seed {seed}");
                    now = next.time().0;
                    if rng.u8(0..3) == 0 {
                        break;
                    }
                }
                assert!(heap.peek().is_none_or(|Reverse((time, ..))| time.0 >= now));
            }
            while let Some(next) = calendar.take_by_time(Picos(u64::MAX - 1)) {
                assert_eq!(heap.pop(), Some(Reverse(parts_of(next))), "seed {seed}");
            }
            assert!(heap.is_empty());
        }
    }

    const PLACES: u32 = 5;
    const REACH: u64 = 700;

    #[derive(Clone, Copy, Debug)]
    enum Parted {
        Not,
        OnTwoSides,
        InARow,
        InPairs,
    }

    impl Parted {
        const ALL: [Parted; 4] = [Parted::Not, Parted::OnTwoSides, Parted::InARow, Parted::InPairs];

        fn apart(self, one: u32, other: u32) -> u32 {
            match self {
                Parted::Not => 1,
                Parted::OnTwoSides => 2 - (one + other) % 2,
                Parted::InARow | Parted::InPairs if one == other => 2,
                Parted::InPairs if one.max(other) == PLACES - 1 => u32::MAX,
                Parted::InARow | Parted::InPairs => one.abs_diff(other),
            }
        }

        fn parts(self) -> Parts {
            let part = |place: u32| match self {
                Parted::Not => 0,
                Parted::OnTwoSides => place % 2,
                Parted::InARow => place,
                Parted::InPairs => place / 2,
            };
            let of: Vec<u16> = (0..PLACES).map(|place| part(place).try_into().unwrap()).collect();
            let waits = (0..=*of.iter().max().unwrap()).map(|part| part % 2 > 0).collect();
            let pairs = (0..PLACES).flat_map(|one| (0..PLACES).map(move |other| (one, other)));
            Parts::new(of, waits, pairs.filter(|(one, other)| self.apart(*one, *other) == 1))
        }
    }

    #[derive(Clone, Copy)]
    enum Taken {
        ByTime,
        ByPlace,
        Mixed(usize),
    }

    fn events_by_place(seed: u64, parted: Parted, ends: &[u64], turns: &[Taken]) -> Vec<Vec<Entry>> {
        let width_log2 = fastrand::Rng::with_seed(seed).u32(0..13);
        let mut calendar = Calendar::new(width_log2, parted.parts());
        let mut events = vec![Vec::new(); PLACES as usize];
        let entry = |time, subject, place| Entry::new(Picos(time), subject, place);
        (0..PLACES).for_each(|place| calendar.put(entry(u64::from(place) * 100, place, place)));
        let mut happens = |calendar: &mut Calendar, next: Entry| {
            let (time, place) = (next.time().0, next.place());
            events[place as usize].push(next);
            let mut rng = fastrand::Rng::with_seed(seed ^ time << 20 ^ u64::from(next.subject()) << 3);
            if rng.u8(0..4) > 0 {
                calendar.put(entry(time + ahead(&mut rng), rng.u32(..), place));
            }
            if rng.u8(0..4) == 0 {
                let other_place = rng.u32(0..PLACES);
                let soonest = u64::from(parted.apart(place, other_place)) * REACH;
                let ahead = if rng.bool() { 0 } else { ahead(&mut rng) };
                if soonest < u64::from(u32::MAX) {
                    calendar.put(entry(time + soonest + ahead, rng.u32(..), other_place));
                }
            }
        };
        for (number, (&end, taken)) in (0..).zip(ends.iter().zip(turns)) {
            match taken {
                Taken::ByTime => {
                    while let Some(next) = calendar.take_by_time(Picos(end)) {
                        assert!(next.time().0 <= end);
                        happens(&mut calendar, next);
                    }
                }
                Taken::ByPlace | Taken::Mixed(_) => {
                    let by_time = if let Taken::Mixed(by_time) = taken { *by_time } else { 0 };
                    for _ in 0..by_time {
                        let next = calendar.take_by_time(Picos(end));
                        next.into_iter().for_each(|next| happens(&mut calendar, next));
                    }
                    while calendar.open(Picos(end), Order::ByPlace(Picos(REACH))) {
                        let (mut at, mut after) = (None, None);
                        while let Some(next) = calendar.take() {
                            assert!(next.time().0 <= end);
                            assert!(at.is_none_or(|at| at == next.place()) || after == Some(next.place()));
                            (at, after) = (Some(next.place()), calendar.place_after(next.place()));
                            happens(&mut calendar, next);
                        }
                    }
                }
            }
            calendar.put(entry(end, number, number % PLACES)); // added from outside
        }
        events
    }

    #[test]
    fn order_by_time_or_by_node_does_not_change_events_of_node() {
        for (seed, parted) in (0..200).flat_map(|seed| Parted::ALL.map(|parted| (seed, parted))) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut ends: Vec<u64> = (0..20).map(|_| rng.u64(0..200_000)).collect();
            ends.sort_unstable();
            let events = |ends: &[u64], turns: &[Taken]| events_by_place(seed, parted, ends, turns);
            let by_time = events(&ends, &[Taken::ByTime; 20]);
            assert_eq!(events(&ends, &[Taken::ByPlace; 20]), by_time, "seed {seed}, {parted:?}");
            assert_eq!(
                events(&ends[19..], &[Taken::ByPlace]),
                events(&ends[19..], &[Taken::ByTime]),
                "a single run by time or by place must give each node the same events"
            );
            let any = |end: &u64| match end % 3 {
                0 => Taken::ByTime,
                1 => Taken::ByPlace,
                _ => Taken::Mixed(rng.usize(1..5)),
            };
            let turns: Vec<Taken> = ends.iter().map(any).collect();
            assert_eq!(
                events(&ends, &turns),
                by_time,
                "seed {seed}: a node's events must not depend on the order, by time or place"
            );
            assert!(by_time.iter().all(|events| events.is_sorted_by_key(|entry| entry.time())));
        }
    }

    #[test]
    fn lookahead_in_bipartite_fabric_is_two_minimum_link_delays() {
        let turns = |parted: Parted| {
            let mut calendar = Calendar::new(4, parted.parts());
            (0..PLACES).for_each(|place| calendar.put(Entry::new(Picos::ZERO, 0, place)));
            let (mut turns, mut foretold, mut ahead) = (0, 0, None);
            while calendar.open(Picos(100 * REACH - 1), Order::ByPlace(Picos(REACH))) {
                turns += 1;
                let mut places = Vec::new();
                while let Some(next) = calendar.take() {
                    places.push(next.place());
                    calendar.put(Entry::new(Picos(next.time().0 + REACH / 10), 0, next.place()));
                }
                foretold += u32::from(ahead == Some(places[0]));
                ahead = places.last().and_then(|last| calendar.place_after(*last));
            }
            (turns, foretold)
        };
        assert_eq!(turns(Parted::Not), (100, 0), "an undivided fabric must run once per minimum link delay");
        assert_eq!(
            turns(Parted::OnTwoSides),
            (101, 100),
            "the fabric's sides must take turns of two minimum link delays each, as `place_after` predicts"
        );
    }
}

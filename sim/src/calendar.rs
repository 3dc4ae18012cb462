//! What will happen, and in which order: by time, and of what happens at one time by its subject.
//!
//! Whoever takes things out says how far a place reaches: what happens at one place follows from nothing that happens elsewhere less
//! than so long before ([`Order::ByPlace`]). Then all that happens there in such a span is taken out together, place by place, while what
//! it needs is at hand; at each place it is in the order of time. Or everything is taken out in the order of time ([`Order::ByTime`]).
//! Either way the same happens at every place, in the same order.
//!
//! Places are on two [sides](Side), which have their turns. Where all that a place feels comes from the other side, one that is in turn
//! can go on until it would feel what the other has yet to do, or what follows there from what it does now. So it comes as far as
//! twice the reach from where it began, and what it needs is brought near half as often:
//!
//! ```text
//!   one    ======|-----------|-----------|        (=: done before) each turn ends one reach after where the other side
//!   other  ======|=====|-----------|-----------|  has come to, and goes two reaches at a time
//! ```
//!
//! Nearly all events lie less than a few microseconds ahead, so they are kept by time in buckets of a fixed width, of which a turn of
//! the wheel has [`BUCKETS`], and sorted when their time comes. The few that are farther off are in a heap.
//! Putting in and taking out cost the same however many there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::time::Picos;

/// Buckets in a turn of the wheel.
pub(crate) const BUCKETS: usize = 2048;
const WORDS: usize = BUCKETS / 64;

/// When, where and what: one number, of which the place is highest, and then the time, so that entries by place are in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry(u128);

impl Entry {
    #[inline]
    pub(crate) const fn new(time: Picos, subject: u32, place: u32) -> Entry {
        Entry((place as u128) << 96 | (time.0 as u128) << 32 | subject as u128)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the place is cut off
    pub(crate) const fn time(self) -> Picos {
        Picos((self.0 >> 32) as u64)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the time is cut off
    pub(crate) const fn subject(self) -> u32 {
        self.0 as u32
    }

    #[inline]
    pub(crate) const fn place(self) -> u32 {
        (self.0 >> 96) as u32
    }
}

/// In which order entries are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By time.
    ByTime,
    /// By place, and there by time, as far as nothing of it follows from what happens elsewhere: what does is so much later.
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

/// One of the two sides on which places are. Where there are two, a place feels nothing of others of its side but by way of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    One,
    Other,
}

impl Side {
    pub(crate) const fn across(self) -> Side {
        match self {
            Side::One => Side::Other,
            Side::Other => Side::One,
        }
    }

    #[inline]
    const fn index(self) -> usize {
        self as usize
    }
}

/// A queue of events. Subjects and places are numbers of whoever keeps it.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// By place.
    sides: Box<[Side]>,
    has_two_sides: bool,
    /// By side, what lies ahead.
    wheels: [Wheel; 2],
    order: Order,
    /// By side: what happens before is in `current`, or in `soon`.
    horizons: [Picos; 2],
    /// The last first.
    current: Vec<Entry>,
    /// What was put in since.
    soon: Soon,
}

impl Calendar {
    /// Of places on these sides. Best with few events to a bucket of 2^`width_log2` picoseconds, and most of them less than 2,048
    /// buckets ahead.
    pub(crate) fn new(width_log2: u32, sides: Box<[Side]>) -> Calendar {
        Calendar {
            has_two_sides: sides.contains(&Side::Other),
            sides,
            wheels: [(); 2].map(|()| Wheel::new(width_log2)),
            order: Order::ByTime,
            horizons: [Picos::ZERO; 2],
            current: Vec::new(),
            soon: Soon::default(),
        }
    }

    /// It does not happen before what was taken out last at its place.
    #[inline]
    pub(crate) fn put(&mut self, entry: Entry) {
        let side = self.sides[entry.place() as usize].index();
        if entry.time() < self.horizons[side] {
            self.soon.put(entry, self.order);
        } else {
            self.wheels[side].lay_up(entry);
        }
    }

    /// What happens next in this order, and soon after, by `end`, which comes, becomes current. False where nothing does.
    #[inline(never)]
    pub(crate) fn open(&mut self, end: Picos, order: Order) -> bool {
        self.close();
        let firsts = self.wheels.each_ref().map(Wheel::first);
        let [one, other] = firsts.map(|first| first.unwrap_or(Picos::NEVER));
        let first = one.min(other);
        if first > end {
            return false;
        }
        self.order = order;
        let end = Picos(end.0 + 1);
        self.horizons = match order {
            Order::ByTime => [end.min(self.wheels[0].end_of_bucket(first)); 2],
            Order::ByPlace(reach) => {
                let back = if self.has_two_sides { reach.after(reach) } else { reach };
                let horizon = first.after(back).min(one.max(other).after(reach)).min(end);
                if one <= other { [horizon, Picos::ZERO] } else { [Picos::ZERO, horizon] }
            }
        };
        for (wheel, horizon) in self.wheels.iter_mut().zip(self.horizons) {
            wheel.gather(horizon, &mut self.current);
        }
        match order {
            // Apart, as entries by place are compared as the numbers that they are.
            Order::ByTime => self.current.sort_unstable_by_key(|entry| Reverse(order.key(*entry))),
            Order::ByPlace(_) => self.current.sort_unstable_by(|one, other| other.cmp(one)),
        }
        true
    }

    /// Nothing is current any more.
    fn close(&mut self) {
        self.horizons = [Picos::ZERO; 2];
        while let Some(entry) = self.current.pop().or_else(|| self.soon.take()) {
            self.wheels[self.sides[entry.place() as usize].index()].lay_up(entry);
        }
    }

    /// Takes out what is next of what is current.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Entry> {
        let key = |entry: Entry| self.order.key(entry);
        match (self.current.last(), self.soon.first()) {
            (Some(next), Some(soon)) if key(soon) < key(*next) => self.soon.take(),
            (None, _) => self.soon.take(),
            (Some(_), _) => self.current.pop(),
        }
    }

    /// The place that has its turn after `place`, while entries are taken out by place. Comes by all that is current at `place`.
    #[inline]
    pub(crate) fn place_after(&self, place: u32) -> Option<u32> {
        self.current.iter().rev().map(|entry| entry.place()).find(|next| *next != place)
    }

    /// Takes out what happens next, if it happens by `end`.
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

/// A few entries in their order. Most that are put in are the last.
#[derive(Debug, Default)]
struct Soon {
    entries: Vec<Entry>,
    /// How many of them have been taken out.
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

/// Entries by their time.
#[derive(Debug)]
struct Wheel {
    /// A bucket is 2^n picoseconds wide.
    width_log2: u32,
    buckets: Box<[Vec<Entry>]>,
    /// Which buckets have something in them.
    occupied: [u64; WORDS],
    /// The number of the first bucket of this turn of the wheel, since the beginning of time.
    from: u64,
    /// What is not within this turn of the wheel, be it before or after.
    far: BinaryHeap<Reverse<(Picos, Entry)>>,
}

impl Wheel {
    fn new(width_log2: u32) -> Wheel {
        Wheel {
            width_log2,
            buckets: vec![Vec::new(); BUCKETS].into_boxed_slice(),
            occupied: [0; WORDS],
            from: 0,
            far: BinaryHeap::new(),
        }
    }

    #[inline]
    fn lay_up(&mut self, entry: Entry) {
        let number = self.number_of(entry.time());
        if number.wrapping_sub(self.from) < BUCKETS as u64 {
            let bucket = bucket_of(number);
            self.buckets[bucket].push(entry);
            self.occupied[bucket / 64] |= 1 << (bucket % 64);
        } else {
            self.far.push(Reverse((entry.time(), entry)));
        }
    }

    #[inline]
    const fn number_of(&self, time: Picos) -> u64 {
        time.0 >> self.width_log2
    }

    /// When the bucket ends that has what happens then.
    const fn end_of_bucket(&self, time: Picos) -> Picos {
        Picos((self.number_of(time) + 1).saturating_mul(1 << self.width_log2))
    }

    /// When the first of it happens.
    fn first(&self) -> Option<Picos> {
        let near = self.next_occupied().map(|number| &self.buckets[bucket_of(number)]);
        let near = near.and_then(|bucket| bucket.iter().map(|entry| entry.time()).min());
        let far = self.far.peek().map(|Reverse((time, _))| *time);
        near.into_iter().chain(far).min()
    }

    /// Moves what happens before `horizon`.
    fn gather(&mut self, horizon: Picos, to: &mut Vec<Entry>) {
        while let Some(first) = self.far.peek_mut().filter(|first| first.0.0 < horizon) {
            to.push(PeekMut::pop(first).0.1);
        }
        let last = self.number_of(Picos(horizon.0.saturating_sub(1)));
        while let Some(number) = self.next_occupied().filter(|number| *number <= last) {
            self.from = number;
            let bucket = &mut self.buckets[bucket_of(number)];
            if number < last {
                to.append(bucket);
            } else {
                to.extend(bucket.extract_if(.., |entry| entry.time() < horizon));
            }
            if !bucket.is_empty() {
                break;
            }
            self.occupied[bucket_of(number) / 64] &= !(1 << (bucket_of(number) % 64));
        }
        self.from = self.from.max(last);
    }

    /// The number of the first bucket with something in it.
    fn next_occupied(&self) -> Option<u64> {
        let first = bucket_of(self.from);
        let mut word = self.occupied[first / 64] & (u64::MAX << (first % 64));
        for step in 0..=WORDS {
            let at = (first / 64 + step) % WORDS;
            if step > 0 {
                word = self.occupied[at];
            }
            if word != 0 {
                let bucket = at * 64 + word.trailing_zeros() as usize;
                return Some(self.from + ((bucket + BUCKETS - first) % BUCKETS) as u64);
            }
        }
        None
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // less than BUCKETS
const fn bucket_of(number: u64) -> usize {
    (number % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is put in while others are taken out: at `now`, so far ahead.
    fn ahead(rng: &mut fastrand::Rng) -> u64 {
        rng.choice([0, 1, 500, 60_000, 3_000_000, 50_000_000]).map_or(0, |most| rng.u64(0..=most))
    }

    fn seen(entry: Entry) -> (Picos, u32, u32) {
        (entry.time(), entry.subject(), entry.place())
    }

    /// Whatever is put in while others are taken out: what comes out is what a heap of (time, subject) has.
    #[test]
    fn events_come_in_the_order_of_time_and_then_of_their_subjects() {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut calendar = Calendar::new(rng.u32(0..12), sides(2));
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
                    assert_eq!(heap.pop(), Some(Reverse(seen(next))), "seed {seed}");
                    now = next.time().0;
                    if rng.u8(0..3) == 0 {
                        break;
                    }
                }
                assert!(heap.peek().is_none_or(|Reverse((time, ..))| time.0 >= now));
            }
            while let Some(next) = calendar.take_by_time(Picos(u64::MAX - 1)) {
                assert_eq!(heap.pop(), Some(Reverse(seen(next))), "seed {seed}");
            }
            assert!(heap.is_empty());
        }
    }

    const PLACES: u32 = 5;
    const REACH: u64 = 700;

    /// Of all places on so many sides.
    fn sides(count: u32) -> Box<[Side]> {
        (0..PLACES).map(|place| if place % count == 0 { Side::One } else { Side::Other }).collect()
    }

    /// In which order entries are taken out.
    #[derive(Clone, Copy)]
    enum Taken {
        ByTime,
        ByPlace,
    }

    /// Places on so many sides that put in more at themselves at any time, and at others no sooner than they may: what each of them sees.
    fn seen_by_place(seed: u64, count: u32, ends: &[u64], turns: &[Taken]) -> Vec<Vec<Entry>> {
        let width_log2 = fastrand::Rng::with_seed(seed).u32(0..9);
        let sides = sides(count);
        let mut calendar = Calendar::new(width_log2, sides.clone());
        let mut seen = vec![Vec::new(); PLACES as usize];
        let entry = |time, subject, place| Entry::new(Picos(time), subject, place);
        (0..PLACES).for_each(|place| calendar.put(entry(u64::from(place) * 100, place, place)));
        let mut happens = |calendar: &mut Calendar, next: Entry| {
            let (time, place) = (next.time().0, next.place());
            seen[place as usize].push(next);
            let mut rng = fastrand::Rng::with_seed(seed ^ time << 20 ^ u64::from(next.subject()) << 3);
            if rng.u8(0..4) > 0 {
                calendar.put(entry(time + ahead(&mut rng), rng.u32(..), place));
            }
            if rng.u8(0..4) == 0 {
                let elsewhere = rng.u32(0..PLACES);
                let is_same = sides[elsewhere as usize] == sides[place as usize];
                let soonest = if is_same { u64::from(count) * REACH } else { REACH };
                let ahead = if rng.bool() { 0 } else { ahead(&mut rng) };
                calendar.put(entry(time + soonest + ahead, rng.u32(..), elsewhere));
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
                Taken::ByPlace => {
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
            calendar.put(entry(end, number, number % PLACES)); // somebody from outside
        }
        seen
    }

    #[test]
    fn each_place_sees_the_same_by_place_as_by_time() {
        for (seed, count) in (0..200).flat_map(|seed| [(seed, 1), (seed, 2)]) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut ends: Vec<u64> = (0..20).map(|_| rng.u64(0..200_000)).collect();
            ends.sort_unstable();
            let seen = |ends: &[u64], turns: &[Taken]| seen_by_place(seed, count, ends, turns);
            let by_time = seen(&ends, &[Taken::ByTime; 20]);
            assert_eq!(seen(&ends, &[Taken::ByPlace; 20]), by_time, "seed {seed}, {count}");
            assert_eq!(
                seen(&ends[19..], &[Taken::ByPlace]),
                seen(&ends[19..], &[Taken::ByTime]),
                "as a whole"
            );
            let turns: Vec<Taken> =
                ends.iter().map(|end| if end % 2 == 0 { Taken::ByPlace } else { Taken::ByTime }).collect();
            assert_eq!(seen(&ends, &turns), by_time, "seed {seed}, in turns");
            assert!(by_time.iter().all(|seen| seen.is_sorted_by_key(|entry| entry.time())));
        }
    }

    /// All places are busy: after its first, a turn of a side is twice as long as the reach, where that is felt on the other side only.
    #[test]
    fn where_all_is_felt_on_the_other_side_turns_are_twice_as_long() {
        let turns = |count| {
            let mut calendar = Calendar::new(4, sides(count));
            (0..PLACES).for_each(|place| calendar.put(Entry::new(Picos::ZERO, 0, place)));
            let mut turns = 0;
            while calendar.open(Picos(100 * REACH - 1), Order::ByPlace(Picos(REACH))) {
                turns += 1;
                while let Some(next) = calendar.take() {
                    calendar.put(Entry::new(Picos(next.time().0 + REACH / 10), 0, next.place()));
                }
            }
            turns
        };
        assert_eq!([turns(1), turns(2)], [100, 101], "two sides have turns, of which the first is shorter");
    }
}

//! What will happen, and in which order: by time, and of what happens at one time by its subject.
//!
//! Whoever takes things out says how far a place reaches: what happens at one place follows from nothing that happens elsewhere less
//! than so long before ([`Order::ByPlace`]). Then all that happens there in such a span is taken out together, place by place, while what
//! it needs is at hand; at each place it is in the order of time. Or everything is taken out in the order of time ([`Order::ByTime`]).
//! Either way the same happens at every place, in the same order.
//!
//! Nearly all events lie less than a few microseconds ahead, so they are kept by time in buckets of a fixed width, of which a turn of
//! the wheel has [`BUCKETS`], and sorted when their time comes. The few that are farther off wait in a heap until the wheel comes near.
//! Putting in and taking out cost the same however many there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// A queue of events. Subjects and places are numbers of whoever keeps it.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// A bucket is 2^n picoseconds wide.
    width_log2: u32,
    buckets: Box<[Vec<Entry>]>,
    /// Which buckets have something in them.
    occupied: [u64; WORDS],
    /// The number of the first bucket of this turn of the wheel, since the beginning of time.
    turn: u64,
    /// What happens before it is in `current`.
    horizon: Picos,
    order: Order,
    /// The last first.
    current: Vec<Entry>,
    /// Beyond this turn of the wheel.
    far: BinaryHeap<Reverse<(Picos, Entry)>>,
}

impl Calendar {
    /// Best with few events to a bucket of 2^`width_log2` picoseconds, and most of them less than 2,048 buckets ahead.
    pub(crate) fn new(width_log2: u32) -> Calendar {
        Calendar {
            width_log2,
            buckets: vec![Vec::new(); BUCKETS].into_boxed_slice(),
            occupied: [0; WORDS],
            turn: 0,
            horizon: Picos::ZERO,
            order: Order::ByTime,
            current: Vec::new(),
            far: BinaryHeap::new(),
        }
    }

    /// It does not happen before what was taken out last at its place.
    #[inline]
    pub(crate) fn put(&mut self, entry: Entry) {
        if entry.time() < self.horizon {
            let key = self.order.key(entry);
            let later = self.current.iter().rposition(|later| self.order.key(*later) > key);
            self.current.insert(later.map_or(0, |place| place + 1), entry);
        } else {
            self.lay_up(entry);
        }
    }

    /// Into its bucket, or beyond all.
    #[inline]
    fn lay_up(&mut self, entry: Entry) {
        let number = self.number_of(entry.time());
        if number - self.turn < BUCKETS as u64 {
            let bucket = bucket_of(number);
            self.buckets[bucket].push(entry);
            self.occupied[bucket / 64] |= 1 << (bucket % 64);
        } else {
            self.far.push(Reverse((entry.time(), entry)));
        }
    }

    /// When the bucket with this number begins.
    const fn begin_of(&self, number: u64) -> Picos {
        Picos(number << self.width_log2)
    }

    #[inline]
    const fn number_of(&self, time: Picos) -> u64 {
        time.0 >> self.width_log2
    }

    /// Takes out what happens next in this order, if it happens by `end`.
    #[inline]
    pub(crate) fn take_until(&mut self, end: Picos, order: Order) -> Option<Entry> {
        if self.current.is_empty() || self.order != order {
            self.look_up(end, order);
        }
        let next = self.current.last().copied().filter(|next| next.time() <= end)?;
        self.current.pop();
        Some(next)
    }

    /// What happens next, as far as it is known: the next last.
    #[inline]
    pub(crate) fn current(&self) -> &[Entry] {
        &self.current
    }

    /// What happens next, and soon after, by `end`, becomes current.
    #[inline(never)]
    fn look_up(&mut self, end: Picos, order: Order) {
        if self.order != order {
            self.order = order;
            self.lay_up_anew();
        }
        let mut current = std::mem::take(&mut self.current);
        match self.first() {
            Some(first) if first <= end => {
                self.turn = self.number_of(first);
                self.bring_near();
                let horizon = match order {
                    Order::ByTime => self.begin_of(self.turn + 1),
                    Order::ByPlace(reach) => {
                        first.after(reach).min(self.begin_of(self.turn + BUCKETS as u64))
                    }
                };
                self.gather(horizon.min(Picos(end.0 + 1)), &mut current);
                match order {
                    // Apart, as entries by place are compared as the numbers that they are.
                    Order::ByTime => current.sort_unstable_by_key(|entry| Reverse(order.key(*entry))),
                    Order::ByPlace(_) => current.sort_unstable_by(|one, other| other.cmp(one)),
                }
            }
            Some(_) => (),
            None => (self.turn, self.horizon) = (0, Picos::ZERO),
        }
        self.current = current;
    }

    /// Nothing is current any more.
    fn lay_up_anew(&mut self) {
        let mut all = std::mem::take(&mut self.current);
        self.buckets.iter_mut().for_each(|bucket| all.append(bucket));
        (self.turn, self.horizon, self.occupied) = (0, Picos::ZERO, [0; WORDS]);
        all.into_iter().for_each(|entry| self.lay_up(entry));
    }

    /// When the first of what is laid up happens.
    fn first(&self) -> Option<Picos> {
        let near = self.next_occupied(self.turn).map(|number| &self.buckets[bucket_of(number)]);
        let near = near.and_then(|bucket| bucket.iter().map(|entry| entry.time()).min());
        let far = self.far.peek().map(|Reverse((time, _))| *time);
        near.into_iter().chain(far).min()
    }

    /// What was beyond the turn of the wheel, and is no longer.
    fn bring_near(&mut self) {
        while let Some(Reverse((time, entry))) = self.far.peek().copied()
            && self.number_of(time) - self.turn < BUCKETS as u64
        {
            self.far.pop();
            self.lay_up(entry);
        }
    }

    /// What happens before `horizon`, which is within this turn of the wheel, is current from now on.
    fn gather(&mut self, horizon: Picos, current: &mut Vec<Entry>) {
        let last = self.number_of(Picos(horizon.0 - 1));
        while let Some(number) = self.next_occupied(self.turn).filter(|number| *number <= last) {
            self.turn = number;
            let bucket = &mut self.buckets[bucket_of(number)];
            if number < last {
                current.append(bucket);
            } else {
                current.extend(bucket.extract_if(.., |entry| entry.time() < horizon));
            }
            if !bucket.is_empty() {
                break;
            }
            self.occupied[bucket_of(number) / 64] &= !(1 << (bucket_of(number) % 64));
        }
        (self.turn, self.horizon) = (last, horizon);
    }

    /// The number of the next bucket with something in it, from the one with this number on, which is within the turn of the wheel.
    fn next_occupied(&self, number: u64) -> Option<u64> {
        let from = bucket_of(number);
        let mut word = self.occupied[from / 64] & (u64::MAX << (from % 64));
        for step in 0..=WORDS {
            let at = (from / 64 + step) % WORDS;
            if step > 0 {
                word = self.occupied[at];
            }
            if word != 0 {
                let bucket = at * 64 + word.trailing_zeros() as usize;
                return Some(number + ((bucket + BUCKETS - from) % BUCKETS) as u64);
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
            let mut calendar = Calendar::new(rng.u32(0..12));
            let mut heap = BinaryHeap::new();
            let mut now = 0;
            for _ in 0..2_000 {
                for _ in 0..rng.u32(0..4) {
                    let time = Picos(now + ahead(&mut rng));
                    let (subject, place) = (rng.u32(..), rng.u32(..));
                    calendar.put(Entry::new(time, subject, place));
                    heap.push(Reverse((time, subject, place)));
                }
                let end = now + rng.u64(0..100_000);
                while let Some(next) = calendar.take_until(Picos(end), Order::ByTime) {
                    assert_eq!(heap.pop(), Some(Reverse(seen(next))), "seed {seed}");
                    now = next.time().0;
                    if rng.u8(0..3) == 0 {
                        break;
                    }
                }
                assert!(heap.peek().is_none_or(|Reverse((time, ..))| time.0 >= now));
            }
            while let Some(next) = calendar.take_until(Picos(u64::MAX - 1), Order::ByTime) {
                assert_eq!(heap.pop(), Some(Reverse(seen(next))), "seed {seed}");
            }
            assert!(heap.is_empty());
        }
    }

    const PLACES: u32 = 5;
    const REACH: u64 = 700;

    /// Places that put in more at themselves at any time, and at others no sooner than they may: what each of them sees.
    fn seen_by_place(seed: u64, ends: &[u64], turns: &[Order]) -> Vec<Vec<Entry>> {
        let width_log2 = fastrand::Rng::with_seed(seed).u32(0..9);
        let mut calendar = Calendar::new(width_log2);
        let mut seen = vec![Vec::new(); PLACES as usize];
        let entry = |time, subject, place| Entry::new(Picos(time), subject, place);
        (0..PLACES).for_each(|place| calendar.put(entry(u64::from(place) * 100, place, place)));
        for (end, order) in ends.iter().zip(turns) {
            while let Some(next) = calendar.take_until(Picos(*end), *order) {
                assert!(next.time().0 <= *end);
                seen[next.place() as usize].push(next);
                let mut rng =
                    fastrand::Rng::with_seed(seed ^ next.time().0 << 20 ^ u64::from(next.subject()) << 3);
                if rng.u8(0..4) > 0 {
                    calendar.put(entry(next.time().0 + ahead(&mut rng), rng.u32(..), next.place()));
                }
                if rng.u8(0..4) == 0 {
                    let time = next.time().0 + REACH + ahead(&mut rng);
                    calendar.put(entry(time, rng.u32(..), rng.u32(0..PLACES)));
                }
            }
        }
        seen
    }

    #[test]
    fn each_place_sees_the_same_by_place_as_by_time() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut ends: Vec<u64> = (0..20).map(|_| rng.u64(0..200_000)).collect();
            ends.sort_unstable();
            let by_time = seen_by_place(seed, &ends[19..], &[Order::ByTime]);
            let by_place = Order::ByPlace(Picos(REACH));
            assert_eq!(seen_by_place(seed, &ends[19..], &[by_place]), by_time, "seed {seed}");
            assert_eq!(seen_by_place(seed, &ends, &[by_place; 20]), by_time, "seed {seed}, in parts");
            let turns: Vec<Order> =
                ends.iter().map(|end| if end % 2 == 0 { by_place } else { Order::ByTime }).collect();
            assert_eq!(seen_by_place(seed, &ends, &turns), by_time, "seed {seed}, in turns");
            assert!(by_time.iter().all(|seen| seen.is_sorted_by_key(|entry| entry.time())));
        }
    }
}

//! What will happen, in the total order of (time, sequence): of two events at one time the one that was put in first is first.
//!
//! Nearly all events lie less than a few microseconds ahead, so they are kept by time in buckets of a fixed width, of which a turn of
//! the wheel has [`BUCKETS`], and sorted when their bucket comes. The few that are farther off wait in a heap until the wheel comes
//! near. Putting in and taking out cost the same however many there are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Picos;

/// Buckets in a turn of the wheel.
pub(crate) const BUCKETS: usize = 2048;
const WORDS: usize = BUCKETS / 64;

/// Bits of an entry's second word that say what happens; the others are the sequence.
const SUBJECT_BITS: u32 = 24;
/// Subjects are below this.
pub(crate) const SUBJECTS_MAX: u32 = 1 << SUBJECT_BITS;

/// When, in which order, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: u64,
    /// The sequence, and below it the subject.
    rest: u64,
}

/// A queue of events. A subject is a number of whoever keeps it.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// A bucket is 2^n picoseconds wide.
    width_log2: u32,
    buckets: Box<[Vec<Entry>]>,
    /// Which buckets have something in them.
    occupied: [u64; WORDS],
    /// The number of the bucket that is being taken out, since the beginning of time.
    turn: u64,
    /// What is left of it, and what has come to be before its end, the last first.
    current: Vec<Entry>,
    /// Beyond this turn of the wheel.
    far: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
}

impl Calendar {
    /// Best with few events to a bucket of 2^`width_log2` picoseconds, and most of them less than 2,048 buckets ahead.
    pub(crate) fn new(width_log2: u32) -> Calendar {
        Calendar {
            width_log2,
            buckets: vec![Vec::new(); BUCKETS].into_boxed_slice(),
            occupied: [0; WORDS],
            turn: 0,
            current: Vec::new(),
            far: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// `subject`, below [`SUBJECTS_MAX`], happens at `time`, which is not before what was taken out last.
    #[inline]
    pub(crate) fn put(&mut self, time: Picos, subject: u32) {
        debug_assert!(subject < SUBJECTS_MAX);
        let entry = Entry { time: time.0, rest: self.sequence << SUBJECT_BITS | u64::from(subject) };
        self.sequence += 1;
        let number = time.0 >> self.width_log2;
        if number <= self.turn {
            let place = self.current.iter().rposition(|later| *later > entry).map_or(0, |place| place + 1);
            self.current.insert(place, entry);
        } else {
            self.place(number, entry);
        }
    }

    #[inline]
    fn place(&mut self, number: u64, entry: Entry) {
        if number - self.turn < BUCKETS as u64 {
            let bucket = bucket_of(number);
            self.buckets[bucket].push(entry);
            self.occupied[bucket / 64] |= 1 << (bucket % 64);
        } else {
            self.far.push(Reverse(entry));
        }
    }

    /// Whether nothing is left of the current bucket.
    #[inline]
    pub(crate) fn is_through(&self) -> bool {
        self.current.is_empty()
    }

    /// What happens next, as far as it is in the current bucket.
    pub(crate) fn current(&self) -> impl Iterator<Item = u32> {
        self.current.iter().map(|entry| subject(entry.rest))
    }

    /// Takes out the next, if it happens by `end`; `None`, too, where the current bucket is [through](Calendar::is_through).
    #[inline]
    pub(crate) fn take_until(&mut self, end: Picos) -> Option<(Picos, u32)> {
        let next = self.current.last().filter(|next| next.time <= end.0)?;
        let (time, rest) = (next.time, next.rest);
        self.current.pop();
        Some((Picos(time), subject(rest)))
    }

    /// The next bucket with something in it becomes the current one, which is through, unless it begins after `end`.
    pub(crate) fn turn_on(&mut self, end: Picos) {
        let near = self.next_occupied();
        let far = self.far.peek().map(|Reverse(entry)| entry.time >> self.width_log2);
        let due = near.into_iter().chain(far).min().filter(|number| *number <= end.0 >> self.width_log2);
        let Some(number) = due else { return };
        self.turn = number;
        while let Some(Reverse(entry)) = self.far.peek()
            && (entry.time >> self.width_log2) - number < BUCKETS as u64
        {
            let entry = *entry;
            self.far.pop();
            self.place(entry.time >> self.width_log2, entry);
        }
        let bucket = bucket_of(number);
        std::mem::swap(&mut self.current, &mut self.buckets[bucket]);
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        self.current.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// The number of the next bucket of this turn of the wheel that has something in it.
    fn next_occupied(&self) -> Option<u64> {
        let from = bucket_of(self.turn);
        let mut word = self.occupied[from / 64] & (u64::MAX << (from % 64));
        for step in 0..=WORDS {
            let at = (from / 64 + step) % WORDS;
            if step > 0 {
                word = self.occupied[at];
            }
            if word != 0 {
                let bucket = at * 64 + word.trailing_zeros() as usize;
                return Some(self.turn + ((bucket + BUCKETS - from) % BUCKETS) as u64);
            }
        }
        None
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // as many bits as a subject has
const fn subject(rest: u64) -> u32 {
    (rest & (SUBJECTS_MAX - 1) as u64) as u32
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // less than BUCKETS
const fn bucket_of(number: u64) -> usize {
    (number % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(calendar: &mut Calendar, end: Picos) -> Option<(Picos, u32)> {
        if calendar.is_through() {
            calendar.turn_on(end);
        }
        calendar.take_until(end)
    }

    /// Whatever is put in while others are taken out: what comes out is what a heap of (time, sequence) has.
    #[test]
    fn events_come_in_the_order_of_time_and_then_of_their_sequence() {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut calendar = Calendar::new(rng.u32(0..12));
            let mut heap = BinaryHeap::new();
            let (mut now, mut sequence) = (0, 0_u32);
            for _ in 0..2_000 {
                for _ in 0..rng.u32(0..4) {
                    let ahead = rng
                        .choice([0, 1, 500, 60_000, 3_000_000, 50_000_000])
                        .map_or(0, |most| rng.u64(0..=most));
                    calendar.put(Picos(now + ahead), sequence);
                    heap.push(Reverse((now + ahead, sequence)));
                    sequence += 1;
                }
                let end = now + rng.u64(0..100_000);
                while let Some((time, subject)) = next(&mut calendar, Picos(end)) {
                    assert_eq!(heap.pop(), Some(Reverse((time.0, subject))), "seed {seed}");
                    now = time.0;
                    if rng.u8(0..3) == 0 {
                        break;
                    }
                }
                assert!(heap.peek().is_none_or(|Reverse((time, _))| *time >= now));
            }
            while let Some((time, subject)) = next(&mut calendar, Picos::NEVER) {
                assert_eq!(heap.pop(), Some(Reverse((time.0, subject))), "seed {seed}");
            }
            assert!(heap.is_empty());
        }
    }
}

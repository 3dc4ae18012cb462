//! Pending events of one part of the fabric, ordered by time: near events in a timer wheel, later ones in a heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::Entry;
use crate::time::Picos;

pub(crate) const BUCKETS: usize = 256;
const WORDS: usize = BUCKETS / 64;

#[derive(Debug)]
pub(super) struct Wheel {
    width_log2: u32,
    buckets: Box<[Vec<Entry>]>,
    occupied: [u64; WORDS],
    from: u64,
    far: BinaryHeap<Reverse<(Picos, Entry)>>,
}

impl Wheel {
    pub(super) fn new(width_log2: u32) -> Wheel {
        Wheel {
            width_log2,
            buckets: vec![Vec::new(); BUCKETS].into_boxed_slice(),
            occupied: [0; WORDS],
            from: 0,
            far: BinaryHeap::new(),
        }
    }

    #[inline]
    pub(super) fn lay_up(&mut self, entry: Entry) {
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

    pub(super) const fn end_of_bucket(&self, time: Picos) -> Picos {
        Picos((self.number_of(time) + 1).saturating_mul(1 << self.width_log2))
    }

    pub(super) fn first(&self) -> Option<Picos> {
        let near = self.next_occupied().map(|number| &self.buckets[bucket_of(number)]);
        let near = near.and_then(|bucket| bucket.iter().map(|entry| entry.time()).min());
        let far = self.far.peek().map(|Reverse((time, _))| *time);
        near.into_iter().chain(far).min()
    }

    pub(super) fn gather(&mut self, horizon: Picos, to: &mut Vec<Entry>) {
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

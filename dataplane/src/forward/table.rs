//! A hash table of (VLAN, address) that is allocated once and costs the same however full it is.
//!
//! An address may be in either of two buckets of eight places, each bucket's keys one cache line: a
//! search looks at sixteen keys at most, whatever an attacker sends, and an entry never moves. An
//! address goes into its first bucket until that is three quarters full, then into the emptier
//! of the two. The table has at least twice as many places as entries, so that by chance both are never full.
//!
//! Who could choose sixteen addresses for the two buckets of a station would keep it from being learned. Which
//! buckets those are depends on a secret ([`HashSeed`]), of which nothing that leaves by a port tells more than that
//! an address was not learned.

use crate::settings::HashSeed;
use crate::units::{MacAddr, Nanos, PortId};
use crate::wire::flow::mix;

const WAYS: usize = 8;
/// Keys in its first bucket from which on an address may as well go into the other.
const CROWDED: usize = 6;

/// A VLAN and an address in one word; zero, which no VLAN is, marks a free place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    const FREE: Key = Key(0);

    #[inline]
    pub fn new(vid: u16, mac: MacAddr) -> Key {
        Key(u64::from(vid) << 48 | mac.to_number())
    }

    pub fn vid(self) -> u16 {
        let [v, w, ..] = self.0.to_be_bytes();
        u16::from_be_bytes([v, w])
    }

    pub fn mac(self) -> MacAddr {
        let [_, _, a, b, c, d, e, g] = self.0.to_be_bytes();
        MacAddr([a, b, c, d, e, g])
    }
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub seen: Nanos,
    pub port: PortId,
    pub is_static: bool,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket([Key; WAYS]);

impl Bucket {
    #[inline]
    fn position(&self, key: Key) -> Option<usize> {
        self.0.iter().position(|&at| at == key)
    }

    fn len(&self) -> usize {
        self.0.iter().filter(|&&key| key != Key::FREE).count()
    }
}

/// Places for so many entries: as many again.
const fn buckets_for(capacity: usize) -> usize {
    capacity.saturating_mul(2).div_ceil(WAYS).next_power_of_two()
}

/// Bytes of memory that a forwarding database of so many addresses takes.
#[must_use]
pub const fn table_bytes(capacity: usize) -> usize {
    buckets_for(capacity) * (size_of::<Bucket>() + WAYS * size_of::<Entry>())
}

/// A hash of one word under four secret ones: two multiplications whose halves are folded together. It is no
/// cipher, but nobody can compute or invert it who has only the words that go in.
#[derive(Clone, Debug)]
struct KeyedHash([u64; 4]);

impl KeyedHash {
    fn new(HashSeed([a, b]): HashSeed) -> KeyedHash {
        let secret = |seed: u64, n: u64| mix(seed ^ mix(n));
        // Odd factors lose nothing of what they multiply.
        KeyedHash([secret(a, 1), secret(b, 2) | 1, secret(b, 3), secret(a, 4) | 1])
    }

    #[inline]
    fn of(&self, word: u64) -> u64 {
        let KeyedHash([a, b, c, d]) = self;
        fold(fold(word ^ a, *b) ^ c, *d)
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // both halves are taken
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[derive(Clone, Debug)]
pub(super) struct Table {
    hash: KeyedHash,
    buckets: Box<[Bucket]>,
    /// By place: bucket x WAYS + position.
    entries: Box<[Entry]>,
    len: usize,
}

impl Table {
    /// With room for `capacity` entries and as many again.
    pub fn new(capacity: usize, seed: HashSeed) -> Table {
        let buckets = buckets_for(capacity);
        Table {
            hash: KeyedHash::new(seed),
            buckets: vec![Bucket([Key::FREE; WAYS]); buckets].into(),
            entries: vec![Entry::default(); buckets * WAYS].into(),
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn places(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub fn find(&self, key: Key) -> Option<usize> {
        let (first, second) = self.buckets_of(key);
        let at = |bucket: usize| self.buckets[bucket].position(key).map(|way| bucket * WAYS + way);
        at(first).or_else(|| at(second))
    }

    /// Puts in a key that is not there. False where both of its buckets are full.
    pub fn insert(&mut self, key: Key, entry: Entry) -> bool {
        let (first, second) = self.buckets_of(key);
        let (in_first, in_second) = (self.buckets[first].len(), self.buckets[second].len());
        let bucket = if in_first >= CROWDED && in_second < in_first { second } else { first };
        let Some(way) = self.buckets[bucket].position(Key::FREE) else { return false };
        self.buckets[bucket].0[way] = key;
        self.entries[bucket * WAYS + way] = entry;
        self.len += 1;
        true
    }

    /// Frees a place that is taken.
    pub fn remove(&mut self, place: usize) {
        self.buckets[place / WAYS].0[place % WAYS] = Key::FREE;
        self.len -= 1;
    }

    pub fn key(&self, place: usize) -> Option<Key> {
        let key = self.buckets[place / WAYS].0[place % WAYS];
        (key != Key::FREE).then_some(key)
    }

    #[inline]
    pub fn entry(&self, place: usize) -> Entry {
        self.entries[place]
    }

    #[inline]
    pub fn entry_mut(&mut self, place: usize) -> &mut Entry {
        &mut self.entries[place]
    }

    /// The two buckets of a key, different ones where there is more than one.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // any bits of the digest will do
    pub fn buckets_of(&self, key: Key) -> (usize, usize) {
        let digest = self.hash.of(key.0);
        let mask = self.buckets.len() - 1;
        let first = digest as usize & mask;
        (first, first ^ ((digest >> 32) as usize | 1) & mask)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_vlan_and_address() {
        let key = Key::new(4094, MacAddr([2, 3, 4, 5, 6, 7]));
        assert_eq!((key.vid(), key.mac()), (4094, MacAddr([2, 3, 4, 5, 6, 7])));
    }

    #[test]
    fn holds_its_capacity_of_addresses_in_a_row_and_of_scattered_ones() {
        for capacity in [1, 3, 4, 5, 16, 100, 1000, 8192, 60_000] {
            for step in [1, 256, 0x0001_0000_0001, 0x9e37_79b9_7f4a] {
                let mut table = Table::new(capacity, HashSeed([step, capacity as u64]));
                let key = |n: usize| Key(1 << 48 | (n as u64 + 1).wrapping_mul(step) & 0xffff_ffff_ffff);
                for n in 0..capacity {
                    let entry = Entry { seen: Nanos(n as u64), ..Entry::default() };
                    assert!(table.insert(key(n), entry), "{n} of {capacity} by {step:#x}");
                }
                assert_eq!(table.len(), capacity);
                for n in 0..capacity {
                    let place = table.find(key(n)).unwrap();
                    assert_eq!(table.entry(place).seen, Nanos(n as u64));
                    assert_eq!(table.key(place), Some(key(n)));
                }
            }
        }
    }

    #[test]
    fn a_full_bucket_spills_into_the_other_and_then_refuses() {
        let mut table = Table::new(8, HashSeed::KNOWN); // two buckets: the second is whichever the first is not
        for n in 1..=16 {
            assert!(table.insert(Key(n), Entry::default()), "{n}");
        }
        assert!(!table.insert(Key(17), Entry::default()));
        let place = table.find(Key(5)).unwrap();
        table.remove(place);
        assert_eq!((table.find(Key(5)), table.key(place), table.len()), (None, None, 15));
        assert!(table.insert(Key(17), Entry::default()));
        assert!((1..=17).filter(|&n| n != 5).all(|n| table.find(Key(n)).is_some()));
    }
}

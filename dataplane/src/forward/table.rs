//! Hash table of VLAN and station address, allocated once. Operations cost the same at any load.
//!
//! An address may be in either of two buckets (cache lines) of seven entries. Buckets depend on a secret
//! ([`HashSeed`]). Without it, fourteen addresses of an attacker could fill both buckets of a station, which would
//! never be learned.

use xoff_flow_control::prefetch::prefetch;
use xoff_flow_control::settings::HashSeed;
use xoff_wire::flow::mix;
use xoff_wire::units::{MacAddr, Nanos, PortId};

const WAYS: usize = 7;
const CROWDED: usize = 4;

/// VLAN and address as one number; zero marks a free table position.
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub last_active: Nanos,
    pub port: PortId,
    pub is_static: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    bucket: usize,
    way: usize,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    keys: [Key; WAYS],
    ports: [PortId; WAYS],
    statics: u8,
}

const _: () = assert!(size_of::<Bucket>() == 64, "a bucket must fill exactly one cache line");

impl Bucket {
    const EMPTY: Bucket = Bucket { keys: [Key::FREE; WAYS], ports: [PortId(0); WAYS], statics: 0 };

    #[inline]
    fn position(&self, key: Key) -> Option<usize> {
        self.keys.iter().position(|&at| at == key)
    }

    fn len(&self) -> usize {
        self.keys.iter().filter(|&&key| key != Key::FREE).count()
    }
}

const fn buckets_for(capacity: usize) -> usize {
    capacity.div_ceil(4).next_power_of_two()
}

/// Returns the memory in bytes for `capacity` addresses.
#[must_use]
pub const fn table_bytes(capacity: usize) -> usize {
    buckets_for(capacity) * (size_of::<Bucket>() + size_of::<[Nanos; WAYS]>())
}

/// Keyed hash, fast rather than cryptographic. Without the key, nobody can tell which addresses share a bucket.
#[derive(Clone, Debug)]
struct KeyedHash([u64; 4]);

impl KeyedHash {
    fn new(HashSeed([a, b]): HashSeed) -> KeyedHash {
        let secret = |seed: u64, n: u64| mix(seed ^ mix(n));
        // Make factors odd, because multiplication by an even factor loses bits of the other factor.
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
    last_active: Box<[[Nanos; WAYS]]>,
    len: usize,
}

impl Table {
    pub fn new(capacity: usize, seed: HashSeed) -> Table {
        let buckets = buckets_for(capacity);
        Table {
            hash: KeyedHash::new(seed),
            buckets: vec![Bucket::EMPTY; buckets].into(),
            last_active: vec![[Nanos::ZERO; WAYS]; buckets].into(),
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn places(&self) -> usize {
        self.buckets.len() * WAYS
    }

    pub const fn place(number: usize) -> Place {
        Place { bucket: number / WAYS, way: number % WAYS }
    }

    #[inline]
    pub fn find(&self, key: Key) -> Option<Place> {
        let (first, second) = self.buckets_of(key);
        let at = |bucket: usize| self.buckets[bucket].position(key).map(|way| Place { bucket, way });
        at(first).or_else(|| at(second))
    }

    #[inline]
    pub fn prefetch(&self, key: Key) {
        prefetch(&self.buckets[self.buckets_of(key).0]);
    }

    /// Inserts an entry. Returns false if both of its buckets are full.
    pub fn insert(&mut self, key: Key, entry: Entry) -> bool {
        let (first, second) = self.buckets_of(key);
        let (in_first, in_second) = (self.buckets[first].len(), self.buckets[second].len());
        let bucket = if in_first >= CROWDED && in_second < in_first { second } else { first };
        let Some(way) = self.buckets[bucket].position(Key::FREE) else { return false };
        self.buckets[bucket].keys[way] = key;
        self.set(Place { bucket, way }, entry);
        self.len += 1;
        true
    }

    pub fn remove(&mut self, Place { bucket, way }: Place) {
        self.buckets[bucket].keys[way] = Key::FREE;
        self.len -= 1;
    }

    pub fn key(&self, Place { bucket, way }: Place) -> Option<Key> {
        let key = self.buckets[bucket].keys[way];
        (key != Key::FREE).then_some(key)
    }

    pub fn entry(&self, place: Place) -> Entry {
        Entry {
            last_active: self.last_active(place),
            port: self.port(place),
            is_static: self.is_static(place),
        }
    }

    #[inline]
    pub fn port(&self, Place { bucket, way }: Place) -> PortId {
        self.buckets[bucket].ports[way]
    }

    #[inline]
    pub fn is_static(&self, Place { bucket, way }: Place) -> bool {
        self.buckets[bucket].statics >> way & 1 != 0
    }

    #[inline]
    pub fn last_active(&self, Place { bucket, way }: Place) -> Nanos {
        self.last_active[bucket][way]
    }

    #[inline]
    pub fn set(&mut self, Place { bucket, way }: Place, entry: Entry) {
        let at = &mut self.buckets[bucket];
        at.ports[way] = entry.port;
        at.statics = at.statics & !(1 << way) | u8::from(entry.is_static) << way;
        self.last_active[bucket][way] = entry.last_active;
    }

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
    fn fdb_key_returns_its_vlan_and_address() {
        let key = Key::new(4094, MacAddr([2, 3, 4, 5, 6, 7]));
        assert_eq!((key.vid(), key.mac()), (4094, MacAddr([2, 3, 4, 5, 6, 7])));
    }

    #[test]
    fn fdb_table_accepts_any_addresses_up_to_its_capacity() {
        for capacity in [1, 3, 4, 5, 16, 100, 1000, 8192, 16_384, 60_000, 65_536] {
            for step in [1, 256, 0x0001_0000_0001, 0x9e37_79b9_7f4a] {
                let mut table = Table::new(capacity, HashSeed([step, capacity as u64]));
                let key = |n: usize| Key(1 << 48 | (n as u64 + 1).wrapping_mul(step) & 0xffff_ffff_ffff);
                for n in 0..capacity {
                    let entry = Entry { last_active: Nanos(n as u64), ..Entry::default() };
                    assert!(
                        table.insert(key(n), entry),
                        "entry {n} of {capacity} (step {step:#x}) was refused"
                    );
                }
                assert_eq!(table.len(), capacity);
                for n in 0..capacity {
                    let place = table.find(key(n)).unwrap();
                    assert_eq!(table.entry(place).last_active, Nanos(n as u64));
                    assert_eq!(table.key(place), Some(key(n)));
                }
            }
        }
    }

    #[test]
    fn fdb_insert_uses_second_bucket_when_first_is_full() {
        let mut table = Table::new(8, HashSeed::PUBLIC); // two buckets: the second is whichever the first is not
        for n in 1..=14 {
            assert!(table.insert(Key(n), Entry::default()), "{n}");
        }
        assert!(!table.insert(Key(15), Entry::default()));
        let place = table.find(Key(5)).unwrap();
        table.remove(place);
        assert_eq!((table.find(Key(5)), table.key(place), table.len()), (None, None, 13));
        assert!(table.insert(Key(15), Entry::default()));
        assert!((1..=15).filter(|&n| n != 5).all(|n| table.find(Key(n)).is_some()));
    }
}

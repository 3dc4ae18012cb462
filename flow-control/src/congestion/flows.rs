//! Bytes per flow, for a limited number of flows: a chained hash table, allocated once.
//!
//! Flows beyond the limit are not counted.

use xoff_wire::units::Bytes;

/// Index that means "no flow": ends a bucket's list, and marks frames whose flow has no entry.
pub(super) const NO_FLOW: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct FlowBytes {
    digest: u64,
    bytes: Bytes,
    next: u16,
}

pub(super) const BYTES_PER_FLOW: usize = size_of::<FlowBytes>() + 2 * size_of::<u16>();

#[derive(Clone, Debug)]
pub(super) struct Flows {
    entries: Box<[FlowBytes]>,
    buckets: Box<[u16]>,
    free: u16,
}

impl Flows {
    pub(super) fn new(flows_max: u16) -> Flows {
        let count = flows_max.clamp(1, NO_FLOW - 1);
        let entry = |at: u16| FlowBytes {
            digest: 0,
            bytes: Bytes::ZERO,
            next: if at + 1 == count { NO_FLOW } else { at + 1 },
        };
        Flows {
            entries: (0..count).map(entry).collect(),
            buckets: vec![NO_FLOW; usize::from(count).next_power_of_two()].into_boxed_slice(),
            free: 0,
        }
    }

    pub(super) fn add(&mut self, digest: u64, size: Bytes) -> u16 {
        let bucket = self.bucket(digest);
        let mut at = self.buckets[bucket];
        while let Some(entry) = self.entries.get_mut(usize::from(at)) {
            if entry.digest == digest {
                entry.bytes += size;
                return at;
            }
            at = entry.next;
        }
        let at = self.free;
        if let Some(entry) = self.entries.get_mut(usize::from(at)) {
            self.free = entry.next;
            *entry = FlowBytes { digest, bytes: size, next: self.buckets[bucket] };
            self.buckets[bucket] = at;
        }
        at
    }

    pub(super) fn take(&mut self, place: u16, size: Bytes) {
        let Some(entry) = self.entries.get_mut(usize::from(place)) else { return };
        entry.bytes -= size;
        if entry.bytes == Bytes::ZERO {
            let digest = entry.digest;
            self.unlink(place, self.bucket(digest));
            self.entries[usize::from(place)].next = self.free;
            self.free = place;
        }
    }

    pub(super) fn largest(&self) -> Option<u16> {
        let (place, entry) = self.entries.iter().enumerate().rev().max_by_key(|(_, entry)| entry.bytes)?;
        if entry.bytes == Bytes::ZERO { None } else { u16::try_from(place).ok() }
    }

    fn unlink(&mut self, place: u16, bucket: usize) {
        let next = self.entries[usize::from(place)].next;
        if self.buckets[bucket] == place {
            self.buckets[bucket] = next;
            return;
        }
        let mut at = self.buckets[bucket];
        while let Some(entry) = self.entries.get_mut(usize::from(at)) {
            if entry.next == place {
                entry.next = next;
                return;
            }
            at = entry.next;
        }
    }

    fn bucket(&self, digest: u64) -> usize {
        let mask = self.buckets.len() - 1;
        usize::try_from(digest & mask as u64).unwrap_or(0)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use xoff_explore::explore;

    #[test]
    fn lowest_index_wins_among_equally_large_flows() {
        let mut flows = Flows::new(4);
        assert_eq!(flows.largest(), None);
        let (a, b) = (flows.add(10, Bytes(100)), flows.add(20, Bytes(100)));
        assert_eq!(flows.largest(), Some(a));
        assert_eq!(flows.add(20, Bytes(1)), b);
        assert_eq!(flows.largest(), Some(b));
        flows.take(b, Bytes(101));
        assert_eq!(flows.largest(), Some(a));
        flows.take(a, Bytes(100));
        assert_eq!(flows.largest(), None);
    }

    #[test]
    fn flows_beyond_capacity_of_flow_table_are_not_counted() {
        let mut flows = Flows::new(2);
        let (a, _) = (flows.add(1, Bytes(5)), flows.add(2, Bytes(5)));
        assert_eq!(flows.add(3, Bytes(1_000)), NO_FLOW);
        flows.take(NO_FLOW, Bytes(1_000));
        assert_eq!(flows.largest(), Some(a));
        flows.take(a, Bytes(5));
        assert_eq!(flows.add(3, Bytes(7)), a, "the freed flow entry must be used again");
    }

    explore! {
        #[test]
        fn bytes_counted_per_flow_match_reference_map(steps in prop::collection::vec((0u64..12, any::<bool>()), 0..200)) {
            let mut flows = Flows::new(16);
            let mut counted: HashMap<u64, (u16, Vec<u64>)> = HashMap::new();
            for (size, (digest, comes)) in (1u64..).zip(steps) {
                let digest = digest * 8; // three digests share each bucket
                if comes {
                    let place = flows.add(digest, Bytes(size));
                    let (known, sizes) = counted.entry(digest).or_insert((place, vec![]));
                    prop_assert!(sizes.is_empty() || *known == place);
                    *known = place;
                    sizes.push(size);
                } else if let Some((place, sizes)) = counted.get_mut(&digest)
                    && let Some(size) = sizes.pop()
                {
                    flows.take(*place, Bytes(size));
                }
                let most = counted.values().map(|(_, sizes)| sizes.iter().sum::<u64>()).max().unwrap_or(0);
                let found = flows.largest().map_or(0, |place| flows.entries[usize::from(place)].bytes.0);
                prop_assert_eq!(found, most);
            }
        }
    }
}

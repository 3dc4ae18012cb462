//! Longest prefix match (LPM), in a table built once.
//!
//! The first 16 bits of an address index a root table. For longer prefixes, nodes of 64 entries follow, as in a poptrie
//! (Asai and Ohara, SIGCOMM 2015). A node skips the bits that all its prefixes share, so a search may find a prefix
//! that does not match the address. Then it tries the shorter prefixes that contain this prefix, longest first.

const ROOT_BITS: u32 = 16;
const STEP: u32 = 6;
const PLACES: usize = 1 << STEP;

const NODE: u32 = 1 << 31;
const NONE: u32 = NODE - 1;

/// Prefix: an address left-aligned in 128 bits (zero beyond the prefix length), and that length.
pub type Prefix = (u128, u8);

/// Table of prefixes with values, searched by address.
#[derive(Clone, Debug)]
pub struct Lpm {
    root: Box<[u32]>,
    nodes: Vec<TrieNode>,
    decisions: Vec<u32>,
    prefixes: Vec<PrefixEntry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct TrieNode {
    nodes: u64,
    begins: u64,
    first_node: u32,
    first_decision: u32,
    depth: u8,
}

#[derive(Clone, Copy, Debug)]
struct PrefixEntry {
    prefix: Prefix,
    value: u32,
    cover: u32,
}

impl PrefixEntry {
    #[inline]
    fn covers(&self, address: u128) -> bool {
        let (prefix, len) = self.prefix;
        len == 0 || (prefix ^ address) >> (u128::BITS - u32::from(len)) == 0
    }
}

type Numbered = (Prefix, u32);

impl Lpm {
    /// Builds a table from distinct prefixes, sorted by address, then length.
    ///
    /// # Panics
    ///
    /// If there are 2^31 prefixes or more.
    #[must_use]
    pub fn new(prefixes: impl IntoIterator<Item = (Prefix, u32)>) -> Lpm {
        let root = vec![NONE; 1 << ROOT_BITS].into_boxed_slice();
        let mut lpm = Lpm { root, nodes: Vec::new(), decisions: Vec::new(), prefixes: Vec::new() };
        let mut covers: Vec<u32> = Vec::new();
        for (prefix, value) in prefixes {
            while covers.last().is_some_and(|last| !lpm.prefixes[*last as usize].covers(prefix.0)) {
                covers.pop();
            }
            let cover = covers.last().copied().unwrap_or(NONE);
            covers.push(number(lpm.prefixes.len()));
            lpm.prefixes.push(PrefixEntry { prefix, value, cover });
        }
        let numbered = (0..).zip(&lpm.prefixes).map(|(number, entry)| (entry.prefix, number));
        let (short, long): (Vec<Numbered>, Vec<Numbered>) =
            numbered.partition(|((_, len), _)| u32::from(*len) <= ROOT_BITS);
        for ((address, len), number) in short {
            lpm.root[root_place(address)..][..1 << (ROOT_BITS - u32::from(len))].fill(number);
        }
        for group in long.chunk_by(|((a, _), _), ((b, _), _)| root_place(*a) == root_place(*b)) {
            let place = root_place(group[0].0.0);
            let node = number(lpm.nodes.len());
            lpm.nodes.push(TrieNode::default());
            lpm.fill(node, group, lpm.root[place]);
            lpm.root[place] = NODE | node;
        }
        lpm
    }

    fn fill(&mut self, node: u32, prefixes: &[Numbered], inherited: u32) {
        let [((first, _), _), .., ((last, _), _)] = prefixes else {
            return self.fill_with_one(node, prefixes[0], inherited);
        };
        let common = (first ^ last).leading_zeros();
        let shortest = prefixes.iter().map(|((_, len), _)| u32::from(*len)).min().unwrap_or(0);
        self.fill_from(node, prefixes, inherited, common.min(shortest - 1));
    }

    fn fill_with_one(&mut self, node: u32, prefix: Numbered, inherited: u32) {
        let ((_, len), _) = prefix;
        self.fill_from(node, &[prefix], inherited, u32::from(len) - 1);
    }

    fn fill_from(&mut self, node: u32, prefixes: &[Numbered], inherited: u32, depth: u32) {
        let end = depth + STEP;
        let ends_here = |(_, len): &Prefix| u32::from(*len) <= end;
        let mut deciding = [inherited; PLACES];
        for ((address, len), number) in prefixes.iter().filter(|(prefix, _)| ends_here(prefix)) {
            deciding[place(*address, depth)..][..1 << (end - u32::from(*len))].fill(*number);
        }
        let below: Vec<Numbered> =
            prefixes.iter().copied().filter(|(prefix, _)| !ends_here(prefix)).collect();
        let same_place =
            |((a, _), _): &Numbered, ((b, _), _): &Numbered| place(*a, depth) == place(*b, depth);
        let groups: Vec<&[Numbered]> = below.chunk_by(same_place).collect();
        let nodes = groups.iter().fold(0, |set, group| set | 1 << place(group[0].0.0, depth));
        let (first_node, first_decision) = (number(self.nodes.len()), number(self.decisions.len()));
        let mut begins = 0;
        let mut last = None;
        for (at, &decides) in deciding.iter().enumerate().filter(|(at, _)| nodes >> at & 1 == 0) {
            if last != Some(decides) {
                begins |= 1 << at;
                self.decisions.push(decides);
                last = Some(decides);
            }
        }
        #[allow(clippy::cast_possible_truncation)] // less than 128
        let depth_of_node = depth as u8;
        self.nodes[node as usize] =
            TrieNode { nodes, begins, first_node, first_decision, depth: depth_of_node };
        self.nodes.resize(self.nodes.len() + groups.len(), TrieNode::default());
        for (node, group) in (first_node..).zip(groups) {
            self.fill(node, group, deciding[place(group[0].0.0, depth)]);
        }
    }

    /// Returns the value of the longest prefix that covers `address` (left-aligned in 128 bits).
    #[inline]
    #[must_use]
    pub fn find(&self, address: u128) -> Option<u32> {
        let mut found = self.root[root_place(address)];
        if found & NODE != 0 {
            let mut node = &self.nodes[(found & !NODE) as usize];
            found = loop {
                let place = place(address, node.depth.into());
                let until = u64::MAX >> (PLACES - 1 - place); // this entry and those before it
                if node.nodes >> place & 1 == 0 {
                    break self.decisions
                        [(node.first_decision + (node.begins & until).count_ones() - 1) as usize];
                }
                node = &self.nodes[(node.first_node + (node.nodes & until).count_ones() - 1) as usize];
            };
        }
        loop {
            let entry = self.prefixes.get(found as usize)?;
            if entry.covers(address) {
                return Some(entry.value);
            }
            found = entry.cover;
        }
    }
}

impl Default for Lpm {
    fn default() -> Lpm {
        Lpm::new([])
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // sixteen bits
const fn root_place(address: u128) -> usize {
    (address >> (u128::BITS - ROOT_BITS)) as usize
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // six bits
const fn place(address: u128, depth: u32) -> usize {
    ((address << depth) >> (u128::BITS - STEP)) as usize
}

fn number(len: usize) -> u32 {
    u32::try_from(len)
        .ok()
        .filter(|&number| number < NONE)
        .expect("a routing table must have fewer than 2^31 prefixes")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use xoff_explore::explore;

    use super::*;

    fn mask(len: u8) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
    }

    fn prefix() -> impl Strategy<Value = Prefix> {
        let bits = (0u32..128, any::<u8>(), 0u32..128, any::<u8>());
        (bits, 0u8..=128).prop_map(|((a, x, b, y), len)| {
            let address = u128::from(x & 3).rotate_right(a) ^ u128::from(y & 7).rotate_right(b);
            (address & mask(len), len)
        })
    }

    fn naive(prefixes: &BTreeMap<Prefix, u32>, address: u128) -> Option<u32> {
        let covering = prefixes.iter().filter(|((prefix, len), _)| address & mask(*len) == *prefix);
        covering.max_by_key(|((_, len), _)| *len).map(|(_, value)| *value)
    }

    explore! {
        #[test] // proves: routing
        fn longest_prefix_match_equals_linear_search(
            prefixes in prop::collection::btree_map(prefix(), any::<u32>(), 0..60), others in prop::collection::vec(prefix(), 0..20)
        ) {
            let lpm = Lpm::new(prefixes.clone());
            for (address, len) in prefixes.keys().copied().chain(others) {
                let last = address | !mask(len);
                for probe in [address, last, address.wrapping_sub(1), last.wrapping_add(1)] {
                    prop_assert_eq!(lpm.find(probe), naive(&prefixes, probe), "{:x}", probe);
                }
            }
        }
    }

    #[test] // proves: routing
    fn longest_prefix_match_finds_prefixes_of_all_lengths() {
        let nested: BTreeMap<Prefix, u32> =
            (0..=128).map(|len| ((mask(len) & (u128::MAX / 3), len), len.into())).collect();
        let lpm = Lpm::new(nested.clone());
        for bit in 0..128 {
            let probe = (u128::MAX / 3) ^ 1 << bit;
            assert_eq!(
                lpm.find(probe),
                naive(&nested, probe),
                "the longest prefix must be found for an address that differs in bit {bit}"
            );
        }
        assert_eq!(lpm.find(u128::MAX / 3), Some(128));
        assert_eq!(Lpm::default().find(7), None);
    }
}

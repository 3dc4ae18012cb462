//! The longest prefix that an address begins with: a table that is made once, and asked for each packet.
//!
//! The first 16 bits of an address are a place in a table; where longer prefixes begin there, nodes of 64 places follow, 6 bits each,
//! as in a poptrie (Asai and Ohara, SIGCOMM 2015): a map says which places have a node of their own, another one where the prefix
//! that decides changes from one place to the next. A node skips the bits that all prefixes below it have in common, so that an IPv6
//! address takes few more steps than one of IPv4. What was skipped is not compared on the way: the prefix that is found is compared as
//! a whole, and where it does not match, those that cover it are tried, the longest first. No other can match.
//!
//! At 100,000 prefixes and some thousands of destinations this takes a third to a half of what the crates take that are well kept;
//! docs/routing.md has the figures.

/// Bits of the first step.
const ROOT_BITS: u32 = 16;
/// Bits of each step that follows.
const STEP: u32 = 6;
const PLACES: usize = 1 << STEP;

/// Of an entry of the root: it is a node's number, not a prefix's.
const NODE: u32 = 1 << 31;
/// No prefix.
const NONE: u32 = NODE - 1;

/// A prefix: an address of which the bits beyond its length are zero, at the left of 128 bits, and that length.
pub type Prefix = (u128, u8);

/// Prefixes, each with a value.
#[derive(Clone, Debug)]
pub struct Lpm {
    /// By the first bits of an address.
    root: Box<[u32]>,
    nodes: Vec<Node>,
    /// The prefixes that decide at the places of nodes, each as often as it begins to.
    decisions: Vec<u32>,
    prefixes: Vec<Known>,
}

/// What decides about addresses that are alike up to `depth`, by the bits that follow.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Places that have a node of their own.
    nodes: u64,
    /// Of the other places, those where another prefix decides than before.
    begins: u64,
    first_node: u32,
    first_decision: u32,
    /// Bits before those that it looks at.
    depth: u8,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    prefix: Prefix,
    value: u32,
    /// The next shorter prefix that it begins with.
    cover: u32,
}

impl Known {
    #[inline]
    fn covers(&self, address: u128) -> bool {
        let (prefix, len) = self.prefix;
        len == 0 || (prefix ^ address) >> (u128::BITS - u32::from(len)) == 0
    }
}

/// A prefix by its number among all, as the table is made.
type Numbered = (Prefix, u32);

impl Lpm {
    /// A table of these prefixes, each of which is there once, in the order of their addresses and, where these are equal, lengths.
    ///
    /// # Panics
    /// If there are 2^31 prefixes.
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
            lpm.prefixes.push(Known { prefix, value, cover });
        }
        let numbered = (0..).zip(&lpm.prefixes).map(|(number, known)| (known.prefix, number));
        let (short, long): (Vec<Numbered>, Vec<Numbered>) =
            numbered.partition(|((_, len), _)| u32::from(*len) <= ROOT_BITS);
        // A longer one comes behind those that cover it.
        for ((address, len), number) in short {
            lpm.root[root_place(address)..][..1 << (ROOT_BITS - u32::from(len))].fill(number);
        }
        for group in long.chunk_by(|((a, _), _), ((b, _), _)| root_place(*a) == root_place(*b)) {
            let place = root_place(group[0].0.0);
            let node = number(lpm.nodes.len());
            lpm.nodes.push(Node::default());
            lpm.fill(node, group, lpm.root[place]);
            lpm.root[place] = NODE | node;
        }
        lpm
    }

    /// Makes the node of that number decide about `prefixes`, of which there is one; elsewhere `inherited` does.
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
        let alike = |((a, _), _): &Numbered, ((b, _), _): &Numbered| place(*a, depth) == place(*b, depth);
        let groups: Vec<&[Numbered]> = below.chunk_by(alike).collect();
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
        self.nodes[node as usize] = Node { nodes, begins, first_node, first_decision, depth: depth_of_node };
        self.nodes.resize(self.nodes.len() + groups.len(), Node::default());
        for (node, group) in (first_node..).zip(groups) {
            self.fill(node, group, deciding[place(group[0].0.0, depth)]);
        }
    }

    /// The value of the longest prefix that `address`, at the left of 128 bits, begins with.
    #[inline]
    #[must_use]
    pub fn find(&self, address: u128) -> Option<u32> {
        let mut found = self.root[root_place(address)];
        if found & NODE != 0 {
            let mut node = &self.nodes[(found & !NODE) as usize];
            found = loop {
                let place = place(address, node.depth.into());
                let until = u64::MAX >> (PLACES - 1 - place); // this place and those before it
                if node.nodes >> place & 1 == 0 {
                    break self.decisions
                        [(node.first_decision + (node.begins & until).count_ones() - 1) as usize];
                }
                node = &self.nodes[(node.first_node + (node.nodes & until).count_ones() - 1) as usize];
            };
        }
        loop {
            let known = self.prefixes.get(found as usize)?;
            if known.covers(address) {
                return Some(known.value);
            }
            found = known.cover;
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

/// The bits that follow `depth` others.
#[inline]
#[allow(clippy::cast_possible_truncation)] // six bits
const fn place(address: u128, depth: u32) -> usize {
    ((address << depth) >> (u128::BITS - STEP)) as usize
}

fn number(len: usize) -> u32 {
    u32::try_from(len).ok().filter(|&number| number < NONE).expect("fewer than 2^31 of them")
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

    /// Prefixes that cover each other often: few bits differ, and these may be anywhere.
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
        // proves: routing
        #[test]
        fn answers_as_a_look_through_all_prefixes(
            prefixes in prop::collection::btree_map(prefix(), any::<u32>(), 0..60), others in prop::collection::vec(prefix(), 0..20)
        ) {
            let lpm = Lpm::new(prefixes.clone());
            for (address, len) in prefixes.keys().copied().chain(others) {
                // At both ends of each prefix, and beyond them.
                let last = address | !mask(len);
                for asked in [address, last, address.wrapping_sub(1), last.wrapping_add(1)] {
                    prop_assert_eq!(lpm.find(asked), naive(&prefixes, asked), "{:x}", asked);
                }
            }
        }
    }

    // proves: routing
    #[test]
    fn every_length_is_found_beside_all_others() {
        let nested: BTreeMap<Prefix, u32> =
            (0..=128).map(|len| ((mask(len) & (u128::MAX / 3), len), len.into())).collect();
        let lpm = Lpm::new(nested.clone());
        for bit in 0..128 {
            let asked = (u128::MAX / 3) ^ 1 << bit;
            assert_eq!(lpm.find(asked), naive(&nested, asked), "bit {bit}");
        }
        assert_eq!(lpm.find(u128::MAX / 3), Some(128));
        assert_eq!(Lpm::default().find(7), None);
    }
}

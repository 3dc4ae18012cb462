//! One seed for a run. Each node has a stream of its own for each purpose, so that a further node, or one that draws more,
//! changes nothing for the others.

use xoff_dataplane::settings::HashSeed;
use xoff_dataplane::wire::flow::mix;

use crate::ends::NodeId;
use crate::time::Picos;

/// What chance is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Tables of addresses, the ways of flows, and which frames are marked.
    Hash = 1,
    /// Who sends to whom.
    Load = 2,
    /// When they begin.
    Start = 3,
    /// When congestion points sample.
    Sample = 4,
    /// What goes wrong on the way.
    Faults = 5,
    /// When drivers stall.
    Stalls = 6,
}

/// Of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// A number for a node and a purpose.
    #[must_use]
    pub const fn number(self, node: NodeId, purpose: Purpose) -> u64 {
        mix(mix(mix(self.0) ^ node.0 as u64) ^ purpose as u64)
    }

    /// What a switch hashes with.
    #[must_use]
    pub const fn words(self, node: NodeId, purpose: Purpose) -> HashSeed {
        let first = self.number(node, purpose);
        HashSeed([first, mix(!first)])
    }

    /// Numbers of the run as a whole.
    #[must_use]
    pub fn stream(self, purpose: Purpose) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.number(NodeId(u32::MAX), purpose))
    }
}

/// A span by chance, with this mean in picoseconds: at least one.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not negative, and a cast saturates
pub(crate) fn exponential(mean: f64, rng: &mut fastrand::Rng) -> Picos {
    Picos((-(1.0 - rng.f64()).ln() * mean).max(1.0) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A switch mixes one word into the mix of the other: were the second the mix of the first, all would hash alike.
    #[test]
    fn the_words_that_switches_hash_with_do_not_undo_each_other() {
        for node in [0, 1, 2].map(NodeId) {
            let HashSeed([first, second]) = Seed(1).words(node, Purpose::Hash);
            assert_ne!(second, mix(first));
            assert_ne!(Seed(1).words(node, Purpose::Hash), Seed(2).words(node, Purpose::Hash));
        }
    }

    #[test]
    fn each_node_has_a_number_of_its_own_for_each_purpose_and_the_run_has_others() {
        let purposes =
            [Purpose::Hash, Purpose::Load, Purpose::Start, Purpose::Sample, Purpose::Faults, Purpose::Stalls];
        let mut all = BTreeSet::new();
        for purpose in purposes {
            for seed in [1, 2].map(Seed) {
                all.extend([0, 1, 2].map(|node| seed.number(NodeId(node), purpose)));
                let of_run = seed.stream(purpose).u64(..);
                assert!([0, 1, 2].into_iter().all(|node| {
                    fastrand::Rng::with_seed(seed.number(NodeId(node), purpose)).u64(..) != of_run
                }));
            }
        }
        assert_eq!(all.len(), 6 * 2 * 3);
    }
}

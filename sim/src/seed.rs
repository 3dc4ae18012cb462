use xoff_flow_control::settings::HashSeed;
use xoff_wire::flow::mix;

use crate::ends::NodeId;
use crate::time::Picos;

/// Purpose of a random stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Hashes of MAC tables and path choice; choice of ECN-marked frames.
    Hash = 1,
    /// Random choices of loads: receivers and flows.
    Load = 2,
    /// Start times of flows.
    Start = 3,
    /// Samples of congestion points (QCN).
    Sample = 4,
    /// Link faults.
    Faults = 5,
    /// Driver stalls.
    Stalls = 6,
}

/// Seed of a run, from which each node and purpose gets a random stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// Returns the seed for a node's random stream.
    #[must_use]
    pub const fn number(self, node: NodeId, purpose: Purpose) -> u64 {
        mix(mix(mix(self.0) ^ node.0 as u64) ^ purpose as u64)
    }

    /// Returns a switch's seed for hash functions.
    #[must_use]
    pub const fn words(self, node: NodeId, purpose: Purpose) -> HashSeed {
        let first = self.number(node, purpose);
        HashSeed([first, mix(!first)])
    }

    /// Returns the random stream that all nodes share for a purpose.
    #[must_use]
    pub fn stream(self, purpose: Purpose) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.number(NodeId(u32::MAX), purpose))
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not negative, and a cast saturates
pub(crate) fn exponential(mean: f64, rng: &mut fastrand::Rng) -> Picos {
    Picos((-(1.0 - rng.f64()).ln() * mean).max(1.0) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn two_words_of_hash_seed_are_independent() {
        for node in [0, 1, 2].map(NodeId) {
            let HashSeed([first, second]) = Seed(1).words(node, Purpose::Hash);
            assert_ne!(second, mix(first));
            assert_ne!(Seed(1).words(node, Purpose::Hash), Seed(2).words(node, Purpose::Hash));
        }
    }

    #[test]
    fn random_streams_differ_by_node_purpose_and_seed() {
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

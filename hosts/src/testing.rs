//! What the tests of traffic endpoints share.

use proptest::test_runner::{Config, RngSeed};

/// Property tests run the same cases every time.
pub fn fixed_seed() -> Config {
    Config { cases: 512, rng_seed: RngSeed::Fixed(8021), failure_persistence: None, ..Config::default() }
}

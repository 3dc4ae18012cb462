//! Random tests run twice: with seeds that never change, which are regressions, and with one that is fresh in every
//! run, which explores. The fresh one is printed beside whatever fails, and `XOFF_SEED=… cargo test` takes
//! the same path again. `scripts/test.sh` draws one for the whole run.
//!
//! No failure is kept in a file beside the code: what an exploration finds becomes a test that writes the input out.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::OnceLock;

#[doc(hidden)]
pub use proptest;
use proptest::test_runner::{Config, RngSeed};

/// The variable that names the seed of a run.
pub const VARIABLE: &str = "XOFF_SEED";

/// Of all property tests, in every run.
const FIXED: u64 = 8021;

/// Number of random inputs that a property test tries with each of its seeds, unless it says otherwise.
pub const CASES: u32 = 512;

/// The seed of this run: what `XOFF_SEED` says, or a fresh one. Prints it once for each test.
///
/// # Panics
///
/// If `XOFF_SEED` is no number.
pub fn fresh() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    thread_local!(static SAID: Cell<bool> = const { Cell::new(false) });
    let seed = *SEED.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(text) => parse(&text),
        Err(_) => fastrand::u64(..),
    });
    if !SAID.replace(true) {
        println!("{VARIABLE}={seed} takes the same path again");
    }
    seed
}

fn parse(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| {
        panic!(
            "{VARIABLE} is {text:?}; it takes a whole number from 0 to {}, as a failed test printed it",
            u64::MAX
        )
    })
}

/// Seeds for a loop: the fixed ones, then the one of this run.
pub fn seeds(fixed: impl IntoIterator<Item = u64>) -> impl Iterator<Item = u64> {
    fixed.into_iter().chain(std::iter::once_with(fresh))
}

/// How [`explore!`] runs a property: once for each of its seeds.
#[doc(hidden)]
pub fn configs(cases: u32) -> impl Iterator<Item = Config> {
    seeds([FIXED]).map(move |seed| Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    })
}

/// Property tests as in `proptest!`, each run with the fixed seed and then with the one of this run. A
/// first line `cases = N;` sets how many inputs it tries with each.
#[macro_export]
macro_rules! explore {
    (cases = $cases:expr; $($(#[$meta:meta])* fn $name:ident($($inputs:tt)*) $body:block)*) => {
        $(
            $(#[$meta])*
            fn $name() {
                for config in $crate::configs($cases) {
                    $crate::proptest::proptest!(config, |($($inputs)*)| $body);
                }
            }
        )*
    };
    ($($tests:tt)*) => { $crate::explore! { cases = $crate::CASES; $($tests)* } };
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    use super::*;

    /// What a property is tried with under `config`.
    fn inputs(config: Config) -> Vec<u64> {
        let tried = RefCell::new(Vec::new());
        let mut runner = TestRunner::new(config);
        runner
            .run(&any::<u64>(), |input| {
                tried.borrow_mut().push(input);
                Ok(())
            })
            .expect("it asserts nothing");
        tried.into_inner()
    }

    #[test]
    fn the_seed_of_a_run_stays_and_comes_behind_the_fixed_ones() {
        assert_eq!(seeds(1..3).collect::<Vec<_>>(), [1, 2, fresh()]);
    }

    #[test]
    fn a_property_is_tried_with_the_same_inputs_for_the_same_seed_and_with_others_for_another() {
        let runs: Vec<_> = [5, 5, 6]
            .map(|seed| Config { rng_seed: RngSeed::Fixed(seed), ..Config::with_cases(9) })
            .map(inputs)
            .into();
        assert_eq!(runs[0].len(), 9);
        assert_eq!(runs[0], runs[1]);
        assert_ne!(runs[0], runs[2]);
    }

    #[test]
    fn a_property_is_tried_with_the_fixed_seed_first() {
        let seeds: Vec<_> = configs(1).map(|config| config.rng_seed).collect();
        assert_eq!(seeds, [RngSeed::Fixed(FIXED), RngSeed::Fixed(fresh())]);
    }

    #[test]
    #[should_panic(expected = "XOFF_SEED is \"0x1\"; it takes a whole number")]
    fn a_seed_that_is_no_number_is_refused() {
        parse("0x1");
    }
}

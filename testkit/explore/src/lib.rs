//! Inputs for tests: tables of frames, and seeds.
//!
//! A random test runs with fixed seeds and a fresh one. A failing test prints the fresh seed; `XOFF_SEED=… cargo test` repeats it.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::OnceLock;

#[doc(hidden)]
pub use proptest;
use proptest::test_runner::{Config, RngSeed};

/// Environment variable that sets the seed of a run.
pub const VARIABLE: &str = "XOFF_SEED";

const FIXED: u64 = 8021;

/// Default number of random inputs per seed.
pub const CASES: u32 = 512;

/// Returns the rows of a table of frames, such as those in `wire/data`: the columns, and the frame's bytes.
///
/// # Panics
///
/// Unless each row begins with the length, and ends with hexadecimal bytes (before an optional `#`).
pub fn frames(table: &str) -> impl Iterator<Item = (Vec<&str>, Vec<u8>)> {
    table.lines().filter(|row| !row.starts_with('#')).map(|row| {
        let columns: Vec<&str> = row.split('#').next().unwrap_or(row).split_whitespace().collect();
        let frame = columns.first().zip(columns.last()).and_then(|(len, hex)| {
            let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok());
            let mut bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
            bytes.resize(len.parse().ok()?, *bytes.last()?);
            Some(bytes)
        });
        (columns, frame.unwrap_or_else(|| panic!("the row {row:?} must have the frame's length and bytes")))
    })
}

/// Returns the value of `XOFF_SEED`, or a random seed. Each test prints the seed once.
///
/// # Panics
///
/// If `XOFF_SEED` is not a number.
pub fn fresh() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    thread_local!(static PRINTED: Cell<bool> = const { Cell::new(false) });
    let seed = *SEED.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(text) => parse(&text),
        Err(_) => fastrand::u64(..),
    });
    if !PRINTED.replace(true) {
        println!("to repeat this run, set {VARIABLE}={seed}");
    }
    seed
}

fn parse(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| {
        panic!(
            "{VARIABLE} is {text:?}; it must be a whole number from 0 to {}, as printed by a failed test",
            u64::MAX
        )
    })
}

/// Returns the fixed seeds, followed by the seed of this run.
pub fn seeds(fixed: impl IntoIterator<Item = u64>) -> impl Iterator<Item = u64> {
    fixed.into_iter().chain(std::iter::once_with(fresh))
}

/// Returns the proptest configurations for [`explore!`], one per seed, each with `cases` inputs.
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

/// Defines property tests as `proptest!` does, but runs them with the fixed seed and the fresh seed of this run. A first line `cases = N;`
/// sets the inputs per seed.
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

    fn inputs(config: Config) -> Vec<u64> {
        let tried = RefCell::new(Vec::new());
        let mut runner = TestRunner::new(config);
        runner
            .run(&any::<u64>(), |input| {
                tried.borrow_mut().push(input);
                Ok(())
            })
            .expect("a property without assertions must not fail");
        tried.into_inner()
    }

    #[test]
    fn tests_run_fixed_seeds_before_the_random_one() {
        assert_eq!(seeds(1..3).collect::<Vec<_>>(), [1, 2, fresh()]);
    }

    #[test]
    fn property_test_inputs_depend_on_seed() {
        let runs: Vec<_> = [5, 5, 6]
            .map(|seed| Config { rng_seed: RngSeed::Fixed(seed), ..Config::with_cases(9) })
            .map(inputs)
            .into();
        assert_eq!(runs[0].len(), 9);
        assert_eq!(runs[0], runs[1]);
        assert_ne!(runs[0], runs[2]);
    }

    #[test]
    fn property_tests_use_fixed_seed_before_random_one() {
        let seeds: Vec<_> = configs(1).map(|config| config.rng_seed).collect();
        assert_eq!(seeds, [RngSeed::Fixed(FIXED), RngSeed::Fixed(fresh())]);
    }

    #[test]
    #[should_panic(expected = "XOFF_SEED is \"0x1\"; it must be a whole number")]
    fn seed_that_is_no_number_is_refused() {
        parse("0x1");
    }
}

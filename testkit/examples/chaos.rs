//! Runs chaos tests: `cargo run --release --package xoff-testkit --example chaos -- 0 1000 2` (first seed, end of the range,
//! parallel jobs).

use std::process::ExitCode;

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let [from, to, jobs] =
        [(0, 0), (1, 100), (2, 1)].map(|(at, other)| numbers.get(at).copied().unwrap_or(other));
    let report = xoff_testkit::chaos::run(from..to, usize::try_from(jobs).unwrap_or(1));
    print!("{report}");
    if report.found.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

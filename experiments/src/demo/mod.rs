//! `xoff demo`: a congested switch in namespaces, and what became of every frame.
//!
//! Four senders offer a line rate each, lossless, into one port, and some lossy traffic beside it; a
//! victim sends in the same lossless class between two other ports. A short run of the same kind first
//! finds the line rate that the machine can carry. Hosts and switch are threads of this process in
//! namespaces that vanish with it.

mod bench;
pub mod report;

use std::time::Duration;

use xoff_switch::Promise;

use crate::FabricError;

pub use bench::{Bench, Progress};
use report::Report;

/// Line rates that are tried, Mb/s, the highest first.
const RATES_MBPS: [u64; 5] = [1000, 500, 200, 100, 50];

/// A rate is carried where at least this share of the congested line was used.
const CARRIED: f64 = 0.97;

const PROBE: Duration = Duration::from_millis(1500);

/// Finds the rate that the machine carries, and runs the demo at it for `seconds` of traffic. `tell` is
/// called with lines for people.
///
/// # Errors
/// What kept it from running; what it found is in the report.
pub fn run(seconds: u64, tell: &mut dyn FnMut(&str)) -> Result<Report, FabricError> {
    let rate = probe(tell)?;
    tell(&format!("running {seconds} s at {rate} Mb/s"));
    let bench = Bench::build(rate)?;
    bench.run(Duration::from_secs(seconds), &mut |progress| tell(&progress.to_string()))
}

fn probe(tell: &mut dyn FnMut(&str)) -> Result<u64, FabricError> {
    let (&last, higher) = RATES_MBPS.split_last().expect("there are rates");
    for &rate in higher {
        let report = Bench::build(rate)?.run(PROBE, &mut |_| ())?;
        if report.promise() == Promise::Kept && report.xdp_drops == 0 && report.goodput_ratio >= CARRIED {
            return Ok(rate);
        }
        tell(&format!(
            "probe: this machine does not carry {rate} Mb/s a port ({:.0} % of the congested line used, {} frames \
             dropped by the kernel); trying less",
            100.0 * report.goodput_ratio,
            report.xdp_drops
        ));
    }
    Ok(last)
}

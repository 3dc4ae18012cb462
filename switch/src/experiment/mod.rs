//! `xoff experiment`: the claims of the papers, live. Each experiment builds its own hosts and switches in
//! namespaces that vanish with it, runs the same load under each policy in turn, and shows what became
//! of it side by side: a table, JSON, a plot.
//!
//! ```text
//!   variant --+
//!   policy    v
//!          incast, victim, ..  --> fabric --> account --> findings --> report, plot
//!          plan and load            |
//!                                   +--> watched while it runs
//! ```
//!
//! Rates and thresholds follow from the machine by a rule, and nothing is tuned or left out afterwards.
//! What the machine does to the measurement stands beside the result: longest stall, kernel drops, and
//! the spread of what was measured more than once.

mod cascade;
mod cnms;
mod conduct;
mod deadlock;
mod incast;
mod ofc_fig1;
mod plot;
mod qcn;
mod report;
mod series;
mod statistics;
mod two_classes;
mod variant;
mod victim;

use std::ops::RangeInclusive;
use std::thread;

use xoff_dataplane::units::BitRate;

pub use conduct::Conduct;
pub use plot::{Figure, PlotError};
pub use report::{Findings, Report};
pub use statistics::Spread;
pub use variant::{VARIANTS, Variant};

use crate::fabric::FabricError;

/// One experiment.
pub struct Experiment {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// How long it takes for each policy, when the machine has nothing else to do.
    pub length: Length,
    /// Names of the variants that it compares unless told otherwise.
    pub policies: &'static [&'static str],
    measure: fn(&Request, &mut Tell<'_>) -> Result<Findings, FabricError>,
}

/// How long an experiment takes for each policy, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// What it does takes so long.
    Fixed(u32),
    /// Unless the request says otherwise.
    Unless(u32),
}

impl Length {
    /// Where the request says nothing.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        match self {
            Length::Fixed(seconds) | Length::Unless(seconds) => seconds,
        }
    }
}

/// All there are.
pub const EXPERIMENTS: &[Experiment] = &[
    incast::EXPERIMENT,
    victim::EXPERIMENT,
    cascade::EXPERIMENT,
    ofc_fig1::EXPERIMENT,
    deadlock::EXPERIMENT,
    qcn::FAN_IN,
    qcn::SHARED_INPUT,
    two_classes::EXPERIMENT,
];

/// Takes lines for people.
pub type Tell<'a> = dyn FnMut(&str) + 'a;

/// How an experiment is to be run.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is compared.
    pub policies: Vec<&'static Variant>,
    /// Rate of the lines.
    pub line: BitRate,
    /// How often each policy is measured.
    pub runs: u32,
    /// How long an experiment whose length can be chosen takes for each policy.
    pub seconds: u32,
}

impl Experiment {
    /// The experiment of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// Its own choice of variants.
    #[must_use]
    pub fn default_policies(&self) -> Vec<&'static Variant> {
        self.policies.iter().filter_map(|name| Variant::find(name)).collect()
    }

    /// Runs it. `tell` is called with lines for people.
    ///
    /// # Errors
    /// What kept it from running; what it found is in the report.
    pub fn run(&self, request: &Request, tell: &mut Tell<'_>) -> Result<Report, FabricError> {
        let findings = (self.measure)(request, tell)?;
        Ok(Report::new(self, request, findings))
    }
}

/// Rates of lines that every experiment can have. Below, thresholds are less than two frames, and the slowest
/// host (of `cascade`, 40 % of the line) is soon less than a switch takes (1 Mb/s). Above, a pause of 65535 quanta
/// (33.5 ms at 1 Gb/s) ends within a stall that the switches are made for (25 ms), and the promise with it.
pub const LINES: RangeInclusive<BitRate> = BitRate::from_mbps(5)..=BitRate::from_gbps(1);

/// Rate of the lines where none is given: 50 Mb/s for each core, so that hosts and switches, which all
/// share the cores, have time to spare; 1 Gb/s at most.
#[must_use]
pub fn rate_of_this_machine() -> BitRate {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    BitRate::from_mbps(50 * cores as u64).min(*LINES.end())
}

/// Measures every policy of the request as often as it says. The policies take turns, so that what the
/// machine does meanwhile happens to all of them.
fn compare<T>(
    request: &Request,
    tell: &mut Tell<'_>,
    mut measure: impl FnMut(&Variant) -> Result<T, FabricError>,
) -> Result<Vec<(&'static Variant, Vec<T>)>, FabricError> {
    let mut measured: Vec<_> = request.policies.iter().map(|&variant| (variant, Vec::new())).collect();
    for run in 1..=request.runs {
        for (variant, results) in &mut measured {
            tell(&format!("{} (run {run} of {})", variant.name, request.runs));
            results.push(measure(variant)?);
        }
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_has_a_name_of_its_own_and_policies_that_exist() {
        for experiment in EXPERIMENTS {
            assert_eq!(EXPERIMENTS.iter().filter(|other| other.name == experiment.name).count(), 1);
            assert_eq!(experiment.default_policies().len(), experiment.policies.len(), "{}", experiment.name);
            assert_ne!(experiment.name, "list", "that lists them");
        }
    }

    #[test]
    fn policies_take_turns() {
        let policies = vec![&VARIANTS[0], &VARIANTS[1]];
        let request = Request { policies, line: BitRate::from_mbps(100), runs: 2, seconds: 1 };
        let mut order = Vec::new();
        let measured = compare(&request, &mut |_| (), |variant| {
            order.push(variant.name);
            Ok(order.len())
        });
        let counts: Vec<_> = measured.into_iter().flatten().map(|(_, results)| results).collect();
        assert_eq!(counts, [[1, 3], [2, 4]]);
    }
}

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
mod ecn;
mod incast;
mod ofc_fig1;
mod plot;
mod qcn;
mod report;
mod series;
mod statistics;
mod tcp;
mod two_classes;
mod variant;
mod victim;

use std::ops::RangeInclusive;
use std::thread;

use xoff_config::{Config, ConfigError, Machine, OwnPolicy};
use xoff_dataplane::units::BitRate;

pub use conduct::{Conduct, Verdict};
pub use plot::{Figure, PlotError};
pub use report::{Findings, Report};
pub use statistics::Spread;
pub use variant::{OWN, VARIANTS, Variant};

use crate::fabric::{FabricError, Plan, Settings};

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
    /// What its switches are told of a variant, for lines of a rate.
    settings: fn(&Variant, BitRate) -> Settings,
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
    ecn::EXPERIMENT,
];

/// Takes lines for people.
pub type Tell<'a> = dyn FnMut(&str) + 'a;

/// An experiment cannot run under a policy.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("`{experiment}` cannot run under `{policy}`: {cause}")]
#[diagnostic(help("it can under {allowed}"))]
pub struct Unfit {
    experiment: &'static str,
    policy: &'static str,
    cause: String,
    allowed: String,
}

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
    /// The policy that the program brings along.
    pub own_policy: Option<OwnPolicy>,
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

    /// Whether it can run under `variant` in a program with this policy of its own: whether its switches can be told so.
    /// What they are told depends on the rate of the lines in sizes alone, which fit at every rate of [`LINES`].
    ///
    /// # Errors
    /// [`Unfit`], which says why not, and which other variants there are.
    pub fn fits(&self, variant: &Variant, own: Option<&OwnPolicy>) -> Result<(), Unfit> {
        self.probe(variant, *LINES.end(), own).map(|_| ()).map_err(|cause| {
            let fits = |other: &&Variant| self.probe(other, *LINES.end(), own).is_ok();
            let allowed: Vec<&str> = Variant::all(own).filter(fits).map(|variant| variant.name).collect();
            let cause = match cause {
                ConfigError::Invalid(invalid) => invalid.problems().iter().map(ToString::to_string).collect(),
                unread @ ConfigError::Read { .. } => vec![unread.to_string()],
            };
            let (experiment, policy) = (self.name, variant.name);
            Unfit { experiment, policy, cause: cause.join("; "), allowed: allowed.join(", ") }
        })
    }

    /// A switch between a host at 40 % of the line, the slowest that an experiment has, and another switch.
    fn probe(
        &self,
        variant: &Variant,
        line: BitRate,
        own: Option<&OwnPolicy>,
    ) -> Result<Config, ConfigError> {
        let mut plan = Plan::new(line);
        let [switch, other] = ["switch", "other"].map(|name| plan.switch(name));
        let slowest = BitRate::new(line.bits_per_second() / 100 * 40).unwrap_or(line);
        plan.host_with("host", switch, slowest);
        plan.trunk(switch, other);
        plan.config(switch, &self.told(variant, line, own), Machine::default())
    }

    /// What its switches are told.
    fn told(&self, variant: &Variant, line: BitRate, own: Option<&OwnPolicy>) -> Settings {
        let mut settings = (self.settings)(variant, line);
        settings.own_policy = own.cloned();
        settings
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

/// Measures every policy of the request as often as it says, with what the switches are told. The policies take
/// turns, so that what the machine does meanwhile happens to all of them.
fn compare<T>(
    experiment: &Experiment,
    request: &Request,
    tell: &mut Tell<'_>,
    mut measure: impl FnMut(&Variant, &Settings) -> Result<T, FabricError>,
) -> Result<Vec<(&'static Variant, Vec<T>)>, FabricError> {
    let mut measured: Vec<_> = request.policies.iter().map(|&variant| (variant, Vec::new())).collect();
    for run in 1..=request.runs {
        for (variant, results) in &mut measured {
            tell(&format!("{} (run {run} of {})", variant.name, request.runs));
            let told = experiment.told(variant, request.line, request.own_policy.as_ref());
            results.push(measure(variant, &told)?);
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
    fn every_policy_is_a_valid_configuration_of_every_experiment_or_is_refused_beforehand() {
        for experiment in EXPERIMENTS {
            for variant in VARIANTS {
                // OFC nests queues of its own, and the QCN paper's switches have VOQs.
                let refused = experiment.name.starts_with("qcn-") && variant.name.starts_with("ofc");
                assert_eq!(
                    experiment.fits(variant, None).is_err(),
                    refused,
                    "{} {}",
                    experiment.name,
                    variant.name
                );
                for line in [*LINES.start(), BitRate::from_mbps(100), *LINES.end()] {
                    let Ok(config) = experiment.probe(variant, line, None) else {
                        assert!(refused, "{} {} at {line:?}", experiment.name, variant.name);
                        continue;
                    };
                    let no_warning = !variant.lossless || config.warnings.is_empty();
                    assert!(no_warning, "{} {}: {:?}", experiment.name, variant.name, config.warnings);
                }
            }
            assert!(experiment.default_policies().iter().all(|policy| experiment.fits(policy, None).is_ok()));
        }
    }

    #[test]
    fn policies_take_turns() {
        let policies = vec![&VARIANTS[0], &VARIANTS[1]];
        let request =
            Request { policies, line: BitRate::from_mbps(100), runs: 2, seconds: 1, own_policy: None };
        let mut order = Vec::new();
        let measured = compare(&EXPERIMENTS[0], &request, &mut |_| (), |variant, _| {
            order.push(variant.name);
            Ok(order.len())
        });
        let counts: Vec<_> = measured.into_iter().flatten().map(|(_, results)| results).collect();
        assert_eq!(counts, [[1, 3], [2, 4]]);
    }
}

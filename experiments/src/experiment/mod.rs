//! `xoff experiment`: the papers' claims, live or simulated. Each experiment runs the same load under each policy and compares the
//! results.
//!
//! ```text
//!   variant --+
//!   policy    v
//!          incast, victim, ..  --> fabric --> account --> findings --> report, plot
//!          plan and load            |
//!                                   +--> watched while it runs
//! ```
//!
//! A fixed rule derives rates and thresholds from the machine; nothing is tuned or left out afterwards. Results include the machine's
//! disturbances.

mod balance;
mod cascade;
mod cnms;
mod compare;
mod conduct;
mod deadlock;
pub mod demo;
mod ecn;
mod given;
mod incast;
mod kernel_hosts;
mod ofc_fig1;
mod qcn;
mod remarks;
mod report;
mod series;
mod shared_memory;
mod two_classes;
mod variant;
mod victim;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::thread;

use xoff_config::{Config, ConfigError, Machine, OwnPolicy};
use xoff_wire::units::BitRate;

pub use crate::namespaces::machine;
pub use crate::raw::RawData;
use crate::statistics::Headline;
use compare::{Compared, compare};
use conduct::{Conduct, Verdict};
pub use given::given;
use given::{concerns_classification, concerns_trunks};
use remarks::{ByPolicy, plain_pfc_reason, warnings};
use report::Findings;
pub use report::Report;
pub use variant::{OWN, VARIANTS, Variant};

use crate::namespaces;
use crate::{FabricError, Given, Line, Plan, Settings, Stall};

/// An experiment.
pub struct Experiment {
    /// Name on the command line.
    pub name: &'static str,
    /// Description.
    pub about: &'static str,
    /// Duration per policy on an idle machine.
    pub length: Length,
    /// Variants compared by default.
    pub policies: &'static [&'static str],
    settings: fn(&Variant, Line) -> Settings,
    plans: fn(&Variant, Line) -> Vec<Plan>,
    /// Variant with routers, if any.
    pub routed: Option<&'static Experiment>,
    promises: Promises,
    measure: fn(&Request, &mut Tell<'_>) -> Result<Findings, FabricError>,
}

/// Duration per policy, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Fixed duration.
    Fixed(u32),
    /// Default duration, which a request may change.
    Default(u32),
}

impl Length {
    /// Returns the duration unless a request changes it, s.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        match self {
            Length::Fixed(seconds) | Length::Default(seconds) => seconds,
        }
    }
}

/// Policies that promise losslessness in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promises {
    /// Variants that are lossless.
    Variants,
    /// None: the memory is too small.
    Nobody,
}

/// All experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    incast::EXPERIMENT,
    victim::EXPERIMENT,
    cascade::EXPERIMENT,
    ofc_fig1::EXPERIMENT,
    deadlock::EXPERIMENT,
    qcn::FAN_IN,
    qcn::SHARED_INPUT,
    two_classes::EXPERIMENT,
    shared_memory::EXPERIMENT,
    ecn::EXPERIMENT,
    balance::EXPERIMENT,
];

/// Callback for lines of text.
pub type Tell<'a> = dyn FnMut(&str) + 'a;

/// Error: an experiment cannot run under a policy.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("`{experiment}` cannot run under `{policy}`: {cause}")]
#[diagnostic(help("`{experiment}` can run under {allowed}; `{policy}` can run in {other_experiments}"))]
pub struct UnsupportedPolicy {
    experiment: &'static str,
    policy: &'static str,
    cause: String,
    allowed: String,
    other_experiments: String,
}

/// Error: an experiment cannot run in the simulator.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("`{experiment}` cannot be simulated: {why}")]
#[diagnostic(help(
    "leave --simulated out, which takes root; `list` says which experiments can be simulated, and RoCE that slows down by marks (DCQCN) is \
     in scenarios of `xoff sim`"
))]
pub struct NotSimulated {
    experiment: &'static str,
    why: &'static str,
}

/// Error: an experiment cannot run as requested.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum RequestError {
    /// Invalid configuration or missing program.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Fabric(#[from] FabricError),
    /// The key is for ports between switches; there are none.
    #[error("`{path}`: `{experiment}` has no wires between switches, which the key is for")]
    #[diagnostic(help("`defaults.KEY` applies to all ports"))]
    NoTrunks {
        /// Setting's key.
        path: String,
        /// Experiment name.
        experiment: &'static str,
    },
    /// The key would change probe frames' class.
    #[error(
        "`{path}`: with routers DSCP 8 has to be class 1, in which frames are sent to find out which way a flow takes"
    )]
    #[diagnostic(help("leave it out, or --routed"))]
    Classing {
        /// Setting's key.
        path: String,
    },
}

/// Parameters of an experiment's run.
#[derive(Clone, Debug)]
pub struct Request {
    /// Policies to compare.
    pub policies: Vec<&'static Variant>,
    /// Lines of the fabric, live or simulated.
    pub line: Line,
    /// Runs of each policy.
    pub runs: u32,
    /// Duration per policy, s, if variable.
    pub seconds: u32,
    /// First run's seed; each following run adds one.
    pub seed: u64,
    /// Stalls of simulated programs; `None` for ideal hardware.
    pub stall: Option<Stall>,
    /// User settings, which override all others.
    pub given: Vec<Given>,
    /// Raw data's destination.
    pub raw: Option<RawData>,
    /// Policy of the calling program.
    pub own_policy: Option<OwnPolicy>,
    /// Machine's limits for configurations.
    pub machine: Machine,
}

impl Request {
    /// Creates a request of one run per policy, one second long if variable, without a machine's limits.
    #[must_use]
    pub fn new(policies: Vec<&'static Variant>, line: impl Into<Line>) -> Request {
        Request {
            policies,
            line: line.into(),
            runs: 1,
            seconds: 1,
            seed: 0,
            stall: None,
            given: Vec::new(),
            raw: None,
            own_policy: None,
            machine: Machine::default(),
        }
    }
}

impl Experiment {
    /// Finds an experiment by name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// Returns the default variants.
    #[must_use]
    pub fn default_policies(&self) -> Vec<&'static Variant> {
        self.policies.iter().filter_map(|name| Variant::find(name)).collect()
    }

    /// Checks that switches accept the settings, and do more than plain PFC, under `variant` with custom policy `own`. Sizes fit at every
    /// rate of [`LINES`].
    ///
    /// # Errors
    /// Returns the reason and alternatives.
    pub fn fits(&self, variant: &Variant, own: Option<&OwnPolicy>) -> Result<(), UnsupportedPolicy> {
        self.check_variant(variant, own).map_err(|cause| {
            let fits = |other: &&Variant| self.check_variant(other, own).is_ok();
            let allowed: Vec<&str> = Variant::all(own).filter(fits).map(|variant| variant.name).collect();
            let other_experiments =
                EXPERIMENTS.iter().filter(|other| other.check_variant(variant, own).is_ok());
            let other_experiments: Vec<&str> = other_experiments.map(|experiment| experiment.name).collect();
            let (experiment, policy) = (self.name, variant.name);
            UnsupportedPolicy {
                experiment,
                policy,
                cause,
                allowed: allowed.join(", "),
                other_experiments: other_experiments.join(", "),
            }
        })
    }

    /// Returns whether switches are connected under this variant.
    #[must_use]
    pub fn has_trunks(&self, variant: &Variant) -> bool {
        (self.plans)(variant, (*LINES.end()).into()).iter().any(Plan::has_trunks)
    }

    /// Returns the variant with the same settings here, preferably a default one; the experiment's settings may hide differences.
    fn twin(&self, variant: &Variant) -> Option<&'static str> {
        let settings_of = |of: &Variant| (self.settings)(of, (*LINES.end()).into());
        let is_same = |of: &Variant| settings_of(of).has_same_values(&settings_of(variant));
        let same = || VARIANTS.iter().map(|of| (of.name, of)).filter(|(_, of)| is_same(of));
        let chosen = same().find(|(name, _)| self.policies.contains(name));
        chosen.or_else(|| same().next()).map(|(name, _)| name).filter(|name| *name != variant.name)
    }

    fn check_variant(&self, variant: &Variant, own: Option<&OwnPolicy>) -> Result<(), String> {
        if let Some(twin) = self.twin(variant) {
            return Err(format!("its switches would do what they do under `{twin}`"));
        }
        if variant.is_for_trunks() && !self.has_trunks(variant) {
            return Err("it acts between switches that know it, and here is one switch with hosts that know plain PFC, \
                        which is then all that it does"
                .into());
        }
        let request = Request { own_policy: own.cloned(), ..Request::new(Vec::new(), *LINES.end()) };
        self.configs(variant, &request, &Machine::default()).map(drop).map_err(|cause| match cause {
            ConfigError::Invalid(invalid) => {
                let causes: Vec<String> = invalid.problems().iter().map(ToString::to_string).collect();
                causes.join("; ")
            }
            unread => unread.to_string(),
        })
    }

    fn configs(
        &self,
        variant: &Variant,
        request: &Request,
        machine: &Machine,
    ) -> Result<Vec<Config>, ConfigError> {
        let settings = self.run_settings(variant, request, 1);
        let of_plan = |plan: &Plan| {
            plan.switches().map(|switch| plan.config(switch, &settings, machine.clone())).collect::<Vec<_>>()
        };
        (self.plans)(variant, request.line).iter().flat_map(of_plan).collect()
    }

    /// Checks that every switch accepts the request's settings; `tell` gets warnings and the places that keys reach.
    ///
    /// # Errors
    /// Fails if a key does not apply, a configuration is invalid, or a program is missing.
    pub fn check(&self, request: &Request, tell: &mut Tell<'_>) -> Result<(), RequestError> {
        let plans = request.policies.iter().flat_map(|variant| (self.plans)(variant, request.line));
        let plans: Vec<Plan> = plans.collect();
        for given in &request.given {
            let path = || given.path.clone();
            if concerns_trunks(given) && !plans.iter().any(Plan::has_trunks) {
                return Err(RequestError::NoTrunks { path: path(), experiment: self.name });
            }
            if concerns_classification(given) && plans.iter().any(Plan::is_routed) {
                return Err(RequestError::Classing { path: path() });
            }
        }
        if !request.line.is_simulated() {
            plans.iter().try_for_each(namespaces::check).map_err(FabricError::from)?;
        }
        self.reaches(request).iter().for_each(|line| tell(line));
        let mut doubts = ByPolicy::default();
        for variant in &request.policies {
            let configs = |request: &Request| {
                self.configs(variant, request, &request.machine).map_err(FabricError::from)
            };
            let given = warnings(&configs(request)?);
            let own = warnings(&configs(&Request { given: Vec::new(), ..request.clone() })?);
            given.into_iter().filter(|warning| !own.contains(warning)).for_each(|of| doubts.add(of, variant));
        }
        doubts.lines(request).iter().for_each(|line| tell(&format!("warning: {line}")));
        Ok(())
    }

    fn reaches(&self, request: &Request) -> Vec<String> {
        let mut reaches = ByPolicy::default();
        for variant in &request.policies {
            let settings = self.run_settings(variant, request, 1);
            for given in &request.given {
                let places = settings.reach(&given.path);
                if places.len() > 1 {
                    let places = places.join(", ");
                    reaches.add(
                        format!("{given}: applies to all classes with identical settings here: {places}"),
                        variant,
                    );
                }
            }
        }
        reaches.lines(request)
    }

    /// Checks that the experiment can run in the simulator.
    ///
    /// # Errors
    /// Returns the reason.
    pub fn simulates(&self) -> Result<(), NotSimulated> {
        let line = Line::simulated(*LINES.end());
        let plans = self.default_policies().into_iter().flat_map(|variant| (self.plans)(variant, line));
        let why = plans.filter_map(|plan| plan.needs_a_machine()).next();
        why.map_or(Ok(()), |why| Err(NotSimulated { experiment: self.name, why }))
    }

    /// Returns whether `variant` may lose no lossless frame.
    #[must_use]
    pub fn promises(&self, variant: &Variant) -> bool {
        variant.lossless && self.promises == Promises::Variants
    }

    fn as_pfc(&self, request: &Request) -> BTreeMap<&'static str, &'static str> {
        let why = |variant: &&'static Variant| {
            let configs = self.configs(variant, request, &Machine::default()).ok()?;
            Some((variant.name, plain_pfc_reason(&configs)?))
        };
        request.policies.iter().filter_map(why).collect()
    }

    fn run_settings(&self, variant: &Variant, request: &Request, run: u32) -> Settings {
        let mut settings = (self.settings)(variant, request.line);
        settings.own_policy = request.own_policy.clone();
        settings.policy = Some(variant.name);
        settings.stall = request.stall;
        settings.seed = request.seed.wrapping_add(u64::from(run - 1));
        // TOML's largest integer.
        settings.set("qcn.seed", settings.seed & i64::MAX.unsigned_abs());
        if let Some(reaction) = &mut settings.reaction {
            reaction.seed = settings.seed;
        }
        settings.over.clone_from(&request.given);
        settings
    }

    /// Runs the experiment; `tell` gets progress lines.
    ///
    /// # Errors
    /// Fails if the experiment cannot run; broken promises are in the report.
    pub fn run(&self, request: &Request, tell: &mut Tell<'_>) -> Result<Report, FabricError> {
        let findings = (self.measure)(request, tell)?;
        Ok(Report::new(self, request, findings))
    }
}

/// Supported line rates. Below 5 Mb/s thresholds are less than two frames, and the slowest host (40 %) nears a switch's minimum of 1 Mb/s.
/// Above 1 Gb/s a pause of 65535 quanta (33.5 ms) may end within a survivable stall (25 ms).
pub const LINES: RangeInclusive<BitRate> = BitRate::from_mbps(5)..=BitRate::from_gbps(1);

/// Returns the default line rate: 50 Mb/s per core, at most 1 Gb/s, which leaves time for hosts and switches.
#[must_use]
pub fn rate_of_this_machine() -> BitRate {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    BitRate::from_mbps(50 * cores as u64).min(*LINES.end())
}

/// Line rates in the simulator.
pub const SIMULATED_LINES: RangeInclusive<BitRate> = BitRate::from_mbps(5)..=BitRate::from_gbps(400);

/// Default rate in the simulator, with live sizes and times.
pub const SIMULATED_LINE: BitRate = Line::REFERENCE;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

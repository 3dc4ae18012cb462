//! `xoff experiment`: tests claims of papers, under each policy with the same load, live or simulated.

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
use compare::{Compared, compare, named};
use conduct::{Conduct, Verdict};
pub use given::given;
use given::{concerns_classification, concerns_trunks};
use remarks::{ByPolicy, plain_pfc_reason, warnings};
use report::Findings;
pub use report::Report;
pub use variant::{OWN, VARIANTS, Variant};

use crate::namespaces;
use crate::{FabricError, Given, Line, Plan, Settings, Stall};

pub struct Experiment {
    pub name: &'static str,
    pub about: &'static str,
    pub length: Length,
    pub policies: &'static [&'static str],
    settings: fn(&Variant, Line) -> Settings,
    plans: fn(&Variant, Line) -> Vec<Plan>,
    pub routed: Option<&'static Experiment>,
    promises: Promises,
    measure: fn(&Request, &mut Tell<'_>) -> Result<Findings, FabricError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Fixed(u32),
    Default(u32),
}

impl Length {
    #[must_use]
    pub const fn seconds(self) -> u32 {
        match self {
            Length::Fixed(seconds) | Length::Default(seconds) => seconds,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promises {
    Variants,
    /// No policy promises losslessness, because the experiment's switch has too little memory.
    Nobody,
}

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

pub type Tell<'a> = dyn FnMut(&str) + 'a;

#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("`{experiment}` cannot run under policy `{policy}`: {cause}")]
#[diagnostic(help(
    "policies for `{experiment}`: {allowed}; experiments for `{policy}`: {other_experiments}"
))]
pub struct UnsupportedPolicy {
    experiment: &'static str,
    policy: &'static str,
    cause: String,
    allowed: String,
    other_experiments: String,
}

#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("`{experiment}` cannot be simulated: {why}")]
#[diagnostic(help(
    "omit --simulated, and run as root; `list` shows which experiments can be simulated; RoCE with DCQCN, which reacts to ECN marks, is \
     available in scenarios of `xoff sim`"
))]
pub struct NotSimulated {
    experiment: &'static str,
    why: &'static str,
}

#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum RequestError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Fabric(#[from] FabricError),
    #[error("`{path}` sets ports between switches, but `{experiment}` has none")]
    #[diagnostic(help("`defaults.KEY` applies to all ports"))]
    NoTrunks { path: String, experiment: &'static str },
    #[error(
        "`{path}` cannot be set with routers: DSCP 8 has to be class 1, because probe frames of this class find the path of a flow"
    )]
    #[diagnostic(help("omit this setting, or --routed"))]
    Classing { path: String },
}

#[derive(Clone, Debug)]
pub struct Request {
    pub policies: Vec<&'static Variant>,
    pub line: Line,
    pub runs: u32,
    /// Duration of a run in seconds, if the experiment does not fix it.
    pub seconds: u32,
    pub seed: u64,
    /// Stalls of simulated programs; `None` for ideal hardware.
    pub stall: Option<Stall>,
    pub given: Vec<Given>,
    pub raw: Option<RawData>,
    pub own_policy: Option<OwnPolicy>,
    pub machine: Machine,
}

impl Request {
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
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    #[must_use]
    pub fn default_policies(&self) -> Vec<&'static Variant> {
        self.policies.iter().filter_map(|name| Variant::find(name)).collect()
    }

    /// Checks that switches accept the policy variant at every rate of [`LINES`], and that no other variant has equal
    /// settings in this experiment.
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

    #[must_use]
    pub fn has_trunks(&self, variant: &Variant) -> bool {
        (self.plans)(variant, (*LINES.end()).into()).iter().any(Plan::has_trunks)
    }

    fn twin(&self, variant: &Variant) -> Option<&'static str> {
        let settings_of = |of: &Variant| (self.settings)(of, (*LINES.end()).into());
        let is_same = |of: &Variant| settings_of(of).has_same_values(&settings_of(variant));
        let same = || VARIANTS.iter().map(|of| (of.name, of)).filter(|(_, of)| is_same(of));
        let chosen = same().find(|(name, _)| self.policies.contains(name));
        chosen.or_else(|| same().next()).map(|(name, _)| name).filter(|name| *name != variant.name)
    }

    fn check_variant(&self, variant: &Variant, own: Option<&OwnPolicy>) -> Result<(), String> {
        if let Some(twin) = self.twin(variant) {
            return Err(format!("in this experiment its switches would act exactly as under `{twin}`"));
        }
        if variant.is_for_trunks() && !self.has_trunks(variant) {
            return Err("this policy differs from plain PFC only between switches that support it, but this experiment has one switch, \
                        and hosts that support plain PFC only"
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
                        format!("`{given}` sets several keys, because these classes have identical settings: {places}"),
                        variant,
                    );
                }
            }
        }
        reaches.lines(request)
    }

    pub fn simulates(&self) -> Result<(), NotSimulated> {
        let line = Line::simulated(*LINES.end());
        let plans = self.default_policies().into_iter().flat_map(|variant| (self.plans)(variant, line));
        let why = plans.filter_map(|plan| plan.needs_a_machine()).next();
        why.map_or(Ok(()), |why| Err(NotSimulated { experiment: self.name, why }))
    }

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
        // Clear the highest bit of the seed: TOML's integers are signed.
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
    /// If the experiment cannot run. Lost or reordered frames are no error; the report shows them.
    pub fn run(&self, request: &Request, tell: &mut Tell<'_>) -> Result<Report, FabricError> {
        let findings = (self.measure)(request, tell)?;
        Ok(Report::new(self, request, findings))
    }
}

/// Line rates of live experiments. Below 5 Mb/s, thresholds would be below two frames. Above 1 Gb/s, the longest pause
/// (33.5 ms at 1 Gb/s) could expire during a stall that headroom covers (25 ms).
pub const LINES: RangeInclusive<BitRate> = BitRate::from_mbps(5)..=BitRate::from_gbps(1);

/// Returns the default line rate of live experiments: 50 Mb/s per core, which leaves hosts and switches enough CPU
/// time, but at most 1 Gb/s.
#[must_use]
pub fn rate_of_this_machine() -> BitRate {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    BitRate::from_mbps(50 * cores as u64).min(*LINES.end())
}

pub const SIMULATED_LINES: RangeInclusive<BitRate> = BitRate::from_mbps(5)..=BitRate::from_gbps(400);

pub const SIMULATED_LINE: BitRate = Line::REFERENCE;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

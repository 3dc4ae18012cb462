//! `xoff experiment`: the claims of the papers, live or simulated. Each experiment builds its own hosts and switches where it is
//! told to, or in the simulator, runs the same load under each policy in turn, and shows what became
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
use given::{is_of_classing, is_of_trunks};
use remarks::{ByPolicy, warnings, why_plain};
use report::Findings;
pub use report::Report;
pub use variant::{OWN, VARIANTS, Variant};

use crate::namespaces;
use crate::{FabricError, Given, Line, Plan, Settings, Stall};

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
    settings: fn(&Variant, Line) -> Settings,
    /// The fabrics that it builds under a variant, for lines of a rate.
    plans: fn(&Variant, Line) -> Vec<Plan>,
    /// The same with routers for switches, if there is that.
    pub routed: Option<&'static Experiment>,
    /// Who promises that nothing lossless is lost.
    promises: Promises,
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

/// Who promises in an experiment that nothing lossless is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promises {
    /// Every variant that does so by itself.
    Variants,
    /// Nobody: its memory is smaller than that would take.
    Nobody,
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
    shared_memory::EXPERIMENT,
    ecn::EXPERIMENT,
    balance::EXPERIMENT,
];

/// Takes lines for people.
pub type Tell<'a> = dyn FnMut(&str) + 'a;

/// An experiment cannot run under a policy.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("`{experiment}` cannot run under `{policy}`: {cause}")]
#[diagnostic(help("`{experiment}` can run under {allowed}; `{policy}` can be seen in {elsewhere}"))]
pub struct Unfit {
    experiment: &'static str,
    policy: &'static str,
    cause: String,
    allowed: String,
    elsewhere: String,
}

/// An experiment cannot run in the simulator.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
#[error("`{experiment}` cannot be simulated: {why}")]
#[diagnostic(help(
    "leave --simulated out, which takes root; `list` says which experiments can be simulated, and RoCE that slows down by marks (DCQCN) is \
     in scenarios of `xoff sim`"
))]
pub struct OnMachines {
    experiment: &'static str,
    why: &'static str,
}

/// An experiment cannot run as it is asked for.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum RequestError {
    /// What the configuration says against it, or a program that is missing.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Fabric(#[from] FabricError),
    /// A key of the ports between switches.
    #[error("`{path}`: `{experiment}` has no wires between switches, of which that would be said")]
    #[diagnostic(help("`defaults.KEY` says something of all ports"))]
    NoTrunks {
        /// The key.
        path: String,
        /// The experiment.
        experiment: &'static str,
    },
    /// A key by which frames would be of other classes.
    #[error(
        "`{path}`: with routers DSCP 8 has to be class 1, in which frames are sent to find out which way a flow takes"
    )]
    #[diagnostic(help("leave it out, or --routed"))]
    Classing {
        /// The key.
        path: String,
    },
}

/// How an experiment is to be run.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is compared.
    pub policies: Vec<&'static Variant>,
    /// The lines, of this machine or of the simulator.
    pub line: Line,
    /// How often each policy is measured.
    pub runs: u32,
    /// How long an experiment whose length can be chosen takes for each policy.
    pub seconds: u32,
    /// Where chance begins in the first run; one more in each that follows.
    pub seed: u64,
    /// What the machine of simulated programs does to them; `None`: they are hardware.
    pub stall: Option<Stall>,
    /// What is laid over what experiment and variants say of the switches.
    pub given: Vec<Given>,
    /// Where raw data go.
    pub raw: Option<RawData>,
    /// The policy that the program brings along.
    pub own_policy: Option<OwnPolicy>,
    /// What configurations have to fit into.
    pub machine: Machine,
}

impl Request {
    /// One run of each of these, of a second where the length can be chosen, on any machine and none.
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

    /// Whether it can run under `variant` in a program with this policy of its own: whether its switches can be told so,
    /// and do anything else for it than plain PFC. What they are told depends on the rate of the lines in sizes alone,
    /// which fit at every rate of [`LINES`].
    ///
    /// # Errors
    /// [`Unfit`], which says why not, and which other variants and experiments there are.
    pub fn fits(&self, variant: &Variant, own: Option<&OwnPolicy>) -> Result<(), Unfit> {
        self.suits(variant, own).map_err(|cause| {
            let fits = |other: &&Variant| self.suits(other, own).is_ok();
            let allowed: Vec<&str> = Variant::all(own).filter(fits).map(|variant| variant.name).collect();
            let elsewhere = EXPERIMENTS.iter().filter(|other| other.suits(variant, own).is_ok());
            let elsewhere: Vec<&str> = elsewhere.map(|experiment| experiment.name).collect();
            let (experiment, policy) = (self.name, variant.name);
            Unfit { experiment, policy, cause, allowed: allowed.join(", "), elsewhere: elsewhere.join(", ") }
        })
    }

    /// Whether there are wires between switches under this variant.
    #[must_use]
    pub fn has_trunks(&self, variant: &Variant) -> bool {
        (self.plans)(variant, (*LINES.end()).into()).iter().any(Plan::has_trunks)
    }

    /// The variant, one of its own choice if there is one, from which its switches cannot tell this one: the experiment says
    /// itself what would be different.
    fn twin(&self, variant: &Variant) -> Option<&'static str> {
        let told = |of: &Variant| (self.settings)(of, (*LINES.end()).into());
        let is_same = |of: &Variant| told(of).tells_the_same(&told(variant));
        let same = || VARIANTS.iter().map(|of| (of.name, of)).filter(|(_, of)| is_same(of));
        let chosen = same().find(|(name, _)| self.policies.contains(name));
        chosen.or_else(|| same().next()).map(|(name, _)| name).filter(|name| *name != variant.name)
    }

    fn suits(&self, variant: &Variant, own: Option<&OwnPolicy>) -> Result<(), String> {
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

    /// What every switch is under this variant, on a machine.
    fn configs(
        &self,
        variant: &Variant,
        request: &Request,
        machine: &Machine,
    ) -> Result<Vec<Config>, ConfigError> {
        let told = self.told(variant, request, 1);
        let of_plan = |plan: &Plan| {
            plan.switches().map(|switch| plan.config(switch, &told, machine.clone())).collect::<Vec<_>>()
        };
        (self.plans)(variant, request.line).iter().flat_map(of_plan).collect()
    }

    /// Whether every switch can be as the request wants it, under each of its policies, before anything is built. `tell` is
    /// called with what the request's keys reach, and with what they make doubtful.
    ///
    /// # Errors
    /// A key of what there is not here, what the configuration says against it, or a program that is missing.
    pub fn check(&self, request: &Request, tell: &mut Tell<'_>) -> Result<(), RequestError> {
        let plans = request.policies.iter().flat_map(|variant| (self.plans)(variant, request.line));
        let plans: Vec<Plan> = plans.collect();
        for given in &request.given {
            let path = || given.path.clone();
            if is_of_trunks(given) && !plans.iter().any(Plan::has_trunks) {
                return Err(RequestError::NoTrunks { path: path(), experiment: self.name });
            }
            if is_of_classing(given) && plans.iter().any(Plan::is_routed) {
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

    /// Where that is more than one place: which of them the request's keys reach.
    fn reaches(&self, request: &Request) -> Vec<String> {
        let mut reaches = ByPolicy::default();
        for variant in &request.policies {
            let told = self.told(variant, request, 1);
            for given in &request.given {
                let places = told.reach(&given.path);
                if places.len() > 1 {
                    let places = places.join(", ");
                    reaches.add(format!("{given}: of all classes that are alike here, {places}"), variant);
                }
            }
        }
        reaches.lines(request)
    }

    /// Whether it can run in the simulator.
    ///
    /// # Errors
    /// [`OnMachines`], which says why not.
    pub fn simulates(&self) -> Result<(), OnMachines> {
        let line = Line::simulated(*LINES.end());
        let plans = self.default_policies().into_iter().flat_map(|variant| (self.plans)(variant, line));
        let why = plans.filter_map(|plan| plan.needs_a_machine()).next();
        why.map_or(Ok(()), |why| Err(OnMachines { experiment: self.name, why }))
    }

    /// Whether nothing lossless may be lost in it under this variant.
    #[must_use]
    pub fn promises(&self, variant: &Variant) -> bool {
        variant.lossless && self.promises == Promises::Variants
    }

    /// Those of the request's policies that are plain PFC here whatever happens, and why.
    fn as_pfc(&self, request: &Request) -> BTreeMap<&'static str, &'static str> {
        let why = |variant: &&'static Variant| {
            let configs = self.configs(variant, request, &Machine::default()).ok()?;
            Some((variant.name, why_plain(&configs)?))
        };
        request.policies.iter().filter_map(why).collect()
    }

    /// What its switches are told in this run.
    fn told(&self, variant: &Variant, request: &Request, run: u32) -> Settings {
        let mut settings = (self.settings)(variant, request.line);
        settings.own_policy = request.own_policy.clone();
        settings.policy = Some(variant.name);
        settings.stall = request.stall;
        settings.seed = request.seed.wrapping_add(u64::from(run - 1));
        // TOML has no numbers beyond this.
        settings.set("qcn.seed", settings.seed & i64::MAX.unsigned_abs());
        if let Some(reaction) = &mut settings.reaction {
            reaction.seed = settings.seed;
        }
        settings.over.clone_from(&request.given);
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

/// Rate of the lines where none is given: 50 Mb/s for each core, so that hosts and switches, which all share the cores, have time to
/// spare; 1 Gb/s at most.
#[must_use]
pub fn rate_of_this_machine() -> BitRate {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    BitRate::from_mbps(50 * cores as u64).min(*LINES.end())
}

/// Rates of lines in the simulator.
pub const SIMULATED_LINES: RangeInclusive<BitRate> = BitRate::from_mbps(5)..=BitRate::from_gbps(400);

/// Rate of the lines in the simulator where none is given: that at which sizes and times are those of lines of this machine.
pub const SIMULATED_LINE: BitRate = Line::REFERENCE;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

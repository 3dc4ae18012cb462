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
mod confidence;
mod deadlock;
mod ecn;
mod given;
mod incast;
mod ofc_fig1;
mod plot;
mod qcn;
mod raw;
mod report;
mod series;
mod shared_memory;
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
pub use given::Given;
pub use plot::{Figure, PlotError};
pub use raw::{RawData, RawError};
pub use report::{Findings, Report};
pub use statistics::{Interval, Spread};
pub use variant::{OWN, VARIANTS, Variant};

use crate::fabric::{FabricError, Plan, Recorder, Settings};
use crate::machine;

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
    /// The fabrics that it builds under a variant, for lines of a rate.
    plans: fn(&Variant, BitRate) -> Vec<Plan>,
    /// Who promises that nothing lossless is lost.
    promises: Promises,
    /// What is told with its confidence where there were several runs: a name, and its place in the JSON.
    headlines: &'static [(&'static str, &'static str)],
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
    /// Where chance begins in the first run; one more in each that follows.
    pub seed: u64,
    /// What is laid over what experiment and variants say of the switches.
    pub given: Vec<Given>,
    /// Where raw data go.
    pub raw: Option<RawData>,
    /// The policy that the program brings along.
    pub own_policy: Option<OwnPolicy>,
}

impl Request {
    /// One run of each of these, of a second where the length can be chosen.
    #[must_use]
    pub fn new(policies: Vec<&'static Variant>, line: BitRate) -> Request {
        let (given, raw, own_policy) = (Vec::new(), None, None);
        Request { policies, line, runs: 1, seconds: 1, seed: 0, given, raw, own_policy }
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
        (self.plans)(variant, *LINES.end()).iter().any(Plan::has_trunks)
    }

    /// The variant, one of its own choice if there is one, from which its switches cannot tell this one: the experiment says
    /// itself what would be different.
    fn twin(&self, variant: &Variant) -> Option<&'static str> {
        let told = |of: &Variant| (self.settings)(of, *LINES.end()).to_string();
        let same = || VARIANTS.iter().map(|of| (of.name, of)).filter(|(_, of)| told(of) == told(variant));
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
            unread @ ConfigError::Read { .. } => unread.to_string(),
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

    /// Whether every switch can be as the request wants it, under each of its policies, before anything is built.
    ///
    /// # Errors
    /// What the configuration says against it.
    pub fn check(&self, request: &Request) -> Result<(), ConfigError> {
        let machine = Machine { queues: |_| None, ..machine::here() };
        request.policies.iter().try_for_each(|variant| self.configs(variant, request, &machine).map(drop))
    }

    /// Where that is more than one place: which of them the request's keys reach.
    fn reaches(&self, request: &Request) -> Vec<String> {
        let Some(variant) = request.policies.first() else { return Vec::new() };
        let told = self.told(variant, request, 1);
        let reach = |given: &Given| {
            let places = told.reach(&given.path);
            (places.len() > 1)
                .then(|| format!("{given}: of all classes that are alike here, {}", places.join(", ")))
        };
        request.given.iter().filter_map(reach).collect()
    }

    /// Whether nothing lossless may be lost in it under this variant.
    #[must_use]
    pub fn promises(&self, variant: &Variant) -> bool {
        variant.lossless && self.promises == Promises::Variants
    }

    /// What its switches are told in this run.
    fn told(&self, variant: &Variant, request: &Request, run: u32) -> Settings {
        let mut settings = (self.settings)(variant, request.line);
        settings.own_policy = request.own_policy.clone();
        settings.seed = request.seed.wrapping_add(u64::from(run - 1));
        // TOML has no numbers beyond this.
        settings.set("qcn.seed", (settings.seed & i64::MAX.unsigned_abs()).to_string());
        if let Some(reaction) = &mut settings.reaction {
            reaction.seed = settings.seed;
        }
        request.given.iter().for_each(|given| given.lay_over(&mut settings));
        settings
    }

    /// Runs it. `tell` is called with lines for people.
    ///
    /// # Errors
    /// What kept it from running; what it found is in the report.
    pub fn run(&self, request: &Request, tell: &mut Tell<'_>) -> Result<Report, FabricError> {
        self.reaches(request).iter().for_each(|line| tell(line));
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
            let mut told = experiment.told(variant, request, run);
            told.recorder = request.raw.clone().map(|raw| {
                let policy = variant.name;
                Recorder::new(move |record| raw.append(policy, run, record))
            });
            results.push(measure(variant, &told)?);
        }
    }
    Ok(measured)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
                // OFC and GFC do nothing with a single switch. OFC nests queues of its own, too, where the QCN paper's
                // switches have VOQs.
                let has_trunks = ["cascade", "ofc-fig1", "deadlock"].contains(&experiment.name);
                // Ingress congestion points need frames that count until they have left.
                let forwarded = experiment.name == "shared-memory" && variant.name.starts_with("qcn-ingress");
                let is_twin = experiment.twin(variant).is_some();
                let refused = variant.is_for_trunks() && !has_trunks || forwarded || is_twin;
                let what = format!("{} {}", experiment.name, variant.name);
                assert_eq!(experiment.fits(variant, None).is_err(), refused, "{what}");
                for line in [*LINES.start(), BitRate::from_mbps(100), *LINES.end()] {
                    let request = Request::new(Vec::new(), line);
                    let Ok(configs) = experiment.configs(variant, &request, &Machine::default()) else {
                        assert!(refused, "{what} at {line:?}");
                        continue;
                    };
                    let warnings: Vec<_> = configs.iter().flat_map(|config| &config.warnings).collect();
                    assert!(!experiment.promises(variant) || warnings.is_empty(), "{what}: {warnings:?}");
                }
            }
            assert!(experiment.default_policies().iter().all(|policy| experiment.fits(policy, None).is_ok()));
        }
    }

    /// Where an experiment says itself what would be different, two names would stand for one switch.
    #[test]
    fn variants_that_an_experiment_cannot_tell_apart_are_one() {
        let twins = |name: &str| -> Vec<_> {
            let experiment = Experiment::find(name).unwrap();
            VARIANTS.iter().filter_map(|of| Some((of.name, experiment.twin(of)?))).collect()
        };
        assert_eq!(twins("incast"), []);
        assert_eq!(twins("ofc-fig1"), [("pfc-control", "pfc")]);
        assert_eq!(twins("qcn-fanin"), [("pfc-control", "pfc")]);
        let of_shared_memory = twins("shared-memory");
        assert!(of_shared_memory.contains(&("pfc", "pfc-wstop")), "{of_shared_memory:?}");
        assert!(of_shared_memory.contains(&("capfc-stop-max", "capfc-max-wstop")), "{of_shared_memory:?}");
    }

    #[test]
    fn who_is_refused_is_told_why_and_where_else() {
        let refused = |experiment: &str, policy: &str| {
            let policy = Variant::find(policy).unwrap();
            Experiment::find(experiment).unwrap().fits(policy, None).unwrap_err()
        };
        for (experiment, policy) in [("incast", "ofc"), ("victim", "gfc"), ("two-classes", "ofc-pfc-middle")]
        {
            let refused = refused(experiment, policy);
            assert!(refused.cause.contains("acts between switches that know it"), "{refused}");
            assert_eq!(refused.elsewhere, "cascade, ofc-fig1, deadlock");
            assert!(refused.allowed.contains("capfc-stop-max") && !refused.allowed.contains("ofc"));
        }
    }

    #[test]
    fn what_is_given_reaches_every_switch_and_is_checked_before_anything_is_built() {
        let experiment = Experiment::find("ofc-fig1").unwrap();
        let pfc = Variant::find("pfc").unwrap();
        let with = |text: &str| {
            let given = vec![text.parse().unwrap()];
            Request { given, ..Request::new(vec![pfc], BitRate::from_mbps(100)) }
        };
        let configs = experiment.configs(pfc, &with("class.3.xoff=80KB"), &Machine::default()).unwrap();
        assert_eq!(configs.len(), 3);
        assert!(configs.iter().all(|of| of.switch.ports[0].classes[3].xoff.0 == 80_000));
        experiment.check(&with("class.3.xoff=80KB")).unwrap();
        let said = |text: &str| match experiment.check(&with(text)).unwrap_err() {
            ConfigError::Invalid(invalid) => {
                let problem = &invalid.problems()[0];
                format!("{problem} / {}", problem.help.clone().unwrap_or_default())
            }
            unread @ ConfigError::Read { .. } => panic!("{unread}"),
        };
        let message = said("class.3.xof=80KB");
        assert!(message.contains("`xof` is not a key in [class.3]"), "{message}");
        assert!(message.contains("did you mean `xoff`?"), "{message}");
        let message = said("class.3.xoff=30 ells");
        assert!(message.contains("`xoff` is \"30 ells\""), "{message}");
    }

    #[test]
    fn what_is_given_to_a_class_reaches_those_that_are_like_it_and_that_is_told() {
        let experiment = Experiment::find("shared-memory").unwrap();
        let policy = Variant::find("pfc-wstop").unwrap();
        let given = |texts: &[&str]| {
            let given = texts.iter().map(|text| text.parse().unwrap()).collect();
            Request { given, ..Request::new(vec![policy], BitRate::from_mbps(100)) }
        };
        let xoff = |request: &Request| {
            let configs = experiment.configs(policy, request, &Machine::default()).unwrap();
            [2, 3, 4].map(|class| configs[0].switch.ports[0].classes[class].xoff.0)
        };
        let all = given(&["class.3.xoff=25KB"]);
        assert_eq!(xoff(&all), [25_000; 3]);
        let told = "class.3.xoff = 25KB: of all classes that are alike here, class.3.xoff, class.2.xoff, class.4.xoff";
        assert_eq!(experiment.reaches(&all), [told]);
        let but_one = given(&["class.4.xoff=24KB", "class.3.xoff=25KB"]);
        assert_eq!(xoff(&but_one), [25_000, 25_000, 24_000]);
        assert_eq!(experiment.reaches(&given(&["class.4.xoff=24KB"])), [""; 0]);
    }

    #[test]
    fn chance_begins_at_the_seed_and_one_further_in_each_run() {
        let experiment = Experiment::find("qcn-fanin").unwrap();
        let variant = Variant::find("qcn-ingress-occupancy").unwrap();
        let request = Request { seed: 7, ..Request::new(vec![variant], BitRate::from_mbps(100)) };
        let told = [1, 2].map(|run| experiment.told(variant, &request, run));
        assert_eq!(told.each_ref().map(|told| told.seed), [7, 8]);
        assert_eq!(told.each_ref().map(|told| told.reaction.unwrap().seed), [7, 8]);
        let configs = experiment.configs(variant, &request, &Machine::default()).unwrap();
        assert_eq!(configs[0].switch.qcn.seed, 7);
        let most = Request { seed: u64::MAX, ..request };
        experiment.configs(variant, &most, &Machine::default()).unwrap();
    }

    #[test]
    fn policies_take_turns() {
        let policies = vec![&VARIANTS[0], &VARIANTS[1]];
        let request = Request { runs: 2, ..Request::new(policies, BitRate::from_mbps(100)) };
        let mut order = Vec::new();
        let measured = compare(&EXPERIMENTS[0], &request, &mut |_| (), |variant, _| {
            order.push(variant.name);
            Ok(order.len())
        });
        let counts: Vec<_> = measured.into_iter().flatten().map(|(_, results)| results).collect();
        assert_eq!(counts, [[1, 3], [2, 4]]);
    }
}

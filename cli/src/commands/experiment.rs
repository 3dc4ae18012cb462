use std::fmt::Write as _;
use std::iter;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser};
use miette::{IntoDiagnostic, miette};
use serde_json::json;
use xoff_config::{OwnPolicy, no_own_policy};
use xoff_experiments::experiment::{
    EXPERIMENTS, Experiment, LINES, Length, OWN, RawData, Request, SIMULATED_LINE, SIMULATED_LINES, VARIANTS,
    Variant, given, machine, rate_of_this_machine,
};
use xoff_experiments::scenario::SEED_MAX;
use xoff_experiments::{Figure, Given, Line, Stall};
use xoff_host::values;
use xoff_wire::units::BitRate;

use crate::cli;

/// Compare policies under the same load, in namespaces or simulated.
///
/// `list` prints the experiments; namespaces are removed afterwards. Exits with 0 if every frame is accounted for and
/// no policy that promises losslessness lost a lossless frame; with 1 if not; with 3 if a counter cannot be read.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the experiment, or `list`.
    name: String,
    /// Replace switches by routers, if the experiment supports this.
    ///
    /// `xoff experiment list --routed` prints these experiments. Requires FRR, unless the experiment is simulated.
    #[arg(long)]
    routed: bool,
    /// Policies to compare [default: those of the experiment].
    ///
    /// May be repeated, or be a list separated by commas.
    #[arg(long, value_name = "POLICY", value_delimiter = ',', value_parser = names())]
    policy: Vec<String>,
    /// Number of runs for each policy.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = cli::number(1..=100_u32))]
    runs: u32,
    /// Duration of each run, 3s to 600s [default: see `list`].
    ///
    /// In whole seconds. Some experiments have a fixed duration and refuse this option.
    #[arg(long, value_name = "TIME", value_parser = cli::whole_seconds(3..=600))]
    duration: Option<u32>,
    /// Simulate ideal hardware: no privileges, reproducible by seed.
    #[arg(long)]
    simulated: bool,
    /// Simulate stalls of hosts and switches; requires --simulated.
    ///
    /// Each of them stalls for up to LENGTH, every EVERY on average [default: 1s]; a LENGTH of 0 means no stalls.
    /// Waking a program takes WAKE, at most 1ms [default: 0].
    #[arg(long, value_name = "LENGTH[/EVERY[/WAKE]]")]
    stall: Option<Stall>,
    /// Speed of lines [default: 50M per core; 100M with --simulated].
    ///
    /// From 5M to 1G; thresholds grow with the speed. With --simulated and without --stall: up to 400G, and
    /// all times shrink instead.
    #[arg(long, value_name = "RATE", value_parser = line_speed)]
    speed: Option<BitRate>,
    /// Configuration key for all compared switches, such as class.3.xoff=80KB.
    ///
    /// Overrides experiment and policy. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = given)]
    set: Vec<Given>,
    /// Seed of the first run; each further run adds one.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = cli::number(0..=SEED_MAX))]
    seed: u64,
    /// Write raw data (completion times, queues, pauses) to DIR.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object; progress goes to standard error.
    #[arg(long)]
    json: bool,
    /// Write a plot as SVG.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

fn names() -> PossibleValuesParser {
    let own = PossibleValue::new(OWN.name).hide(true);
    PossibleValuesParser::new(VARIANTS.iter().map(|variant| PossibleValue::new(variant.name)).chain([own]))
}

pub fn run(args: &Args, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
    if args.name == "list" {
        no_run(args)?;
        cli::print(if args.json { list_json(own, args.routed) } else { list(own, args.routed) })?;
        return Ok(ExitCode::SUCCESS);
    }
    let experiment = find(&args.name)?;
    let experiment = if args.routed { routed(experiment)? } else { experiment };
    if args.simulated {
        experiment.simulates()?;
    } else if let Some(stall) = args.stall {
        return Err(miette!(
            help = "add --simulated, or leave --stall out",
            "--stall {stall} requires --simulated: stalls of a real machine are measured (`longest_stall_ms`, `usual_host_gap_ms`)"
        ));
    }
    if let Some(plot) = &args.plot {
        Figure::check_place(plot).into_diagnostic()?;
    }
    let mut request = Request {
        policies: policies(experiment, &args.policy, own)?,
        line: line(args)?,
        runs: args.runs,
        seconds: seconds(experiment, args.duration)?,
        seed: args.seed,
        stall: args.stall,
        given: args.set.clone(),
        raw: None,
        own_policy: own.cloned(),
        machine: machine(),
    };
    experiment.check(&request, &mut |line| cli::tell(line))?;
    request.raw = args.out.as_deref().map(RawData::create).transpose()?;
    let report = experiment.run(&request, &mut |line| cli::tell(line))?;
    if args.json {
        cli::print(serde_json::to_string(&report).into_diagnostic()? + "\n")?;
        report.verdicts().into_iter().for_each(cli::tell);
    } else {
        cli::print(&report)?;
    }
    if let Some(plot) = &args.plot {
        report.figure.write(plot).into_diagnostic()?;
    }
    Ok(cli::exit_code(report.promise()))
}

fn no_run(args: &Args) -> miette::Result<()> {
    let of_runs = [
        ("--policy", !args.policy.is_empty()),
        ("--runs", args.runs != 1),
        ("--duration", args.duration.is_some()),
        ("--simulated", args.simulated),
        ("--stall", args.stall.is_some()),
        ("--speed", args.speed.is_some()),
        ("--set", !args.set.is_empty()),
        ("--seed", args.seed != 0),
        ("--out", args.out.is_some()),
        ("--plot", args.plot.is_some()),
    ];
    match of_runs.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(miette!(
            help = "to run an experiment, give its name in place of `list`",
            "{name} has no effect on `list`, which accepts only --routed and --json"
        )),
        None => Ok(()),
    }
}

fn find(name: &str) -> miette::Result<&'static Experiment> {
    Experiment::find(name).ok_or_else(|| {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        miette!(
            "there is no experiment `{name}`; the experiments are {}, described by `xoff experiment list`",
            names.join(", ")
        )
    })
}

fn routed(experiment: &Experiment) -> miette::Result<&'static Experiment> {
    experiment.routed.ok_or_else(|| {
        let others = EXPERIMENTS.iter().filter(|other| other.routed.is_some());
        let others: Vec<String> = others.map(|other| format!("`{}`", other.name)).collect();
        miette!(
            "experiment `{}` cannot run with routers; --routed applies to {}",
            experiment.name,
            others.join(", ")
        )
    })
}

fn policies(
    experiment: &Experiment,
    names: &[String],
    own: Option<&OwnPolicy>,
) -> miette::Result<Vec<&'static Variant>> {
    if names.is_empty() {
        return Ok(experiment.default_policies());
    }
    let mut policies = Vec::new();
    for variant in names.iter().filter_map(|name| Variant::find(name)) {
        if variant.name == OWN.name && own.is_none() {
            return Err(miette!("{}", no_own_policy()));
        }
        experiment.fits(variant, own)?;
        if policies.iter().any(|other: &&Variant| other.name == variant.name) {
            return Err(miette!(
                "policy `{}` is given twice; for several runs of each policy, use --runs",
                variant.name
            ));
        }
        policies.push(variant);
    }
    Ok(policies)
}

fn seconds(experiment: &Experiment, requested: Option<u32>) -> miette::Result<u32> {
    match (experiment.length, requested) {
        (Length::Fixed(seconds), Some(_)) => Err(miette!(
            "experiment `{}` has a fixed duration of about {seconds} s for each policy; leave --duration out",
            experiment.name
        )),
        (length, requested) => Ok(requested.unwrap_or(length.seconds())),
    }
}

fn line_speed(text: &str) -> Result<BitRate, String> {
    let rate = values::rate(text)?;
    let allowed = "the speed must be 5M to 1G, or with --simulated 5M to 400G";
    if SIMULATED_LINES.contains(&rate) { Ok(rate) } else { Err(allowed.into()) }
}

fn line(args: &Args) -> miette::Result<Line> {
    let of_hardware = args.simulated && args.stall.is_none();
    match args.speed {
        Some(rate) if of_hardware => Ok(Line::simulated(rate)),
        Some(rate) if !LINES.contains(&rate) => Err(miette!(
            help = "give a lower speed, or --simulated without --stall",
            "the speed must be 5M to 1G, or up to 400G with --simulated and without --stall"
        )),
        None if of_hardware => Ok(Line::simulated(SIMULATED_LINE)),
        rate if args.simulated => Ok(Line::simulated_machine(rate.unwrap_or(SIMULATED_LINE))),
        rate => Ok(rate.unwrap_or_else(rate_of_this_machine).into()),
    }
}

fn list(own: Option<&OwnPolicy>, routed: bool) -> String {
    let mut text = "Experiments:\n".to_owned();
    let bridged = |experiment| iter::once(experiment).filter(|_| !routed);
    for experiment in EXPERIMENTS.iter().flat_map(|of| bridged(of).chain(of.routed)) {
        let Experiment { name, about, length, policies, .. } = experiment;
        let seconds = length.seconds() * u32::try_from(policies.len()).unwrap_or(u32::MAX);
        let simulated = if experiment.simulates().is_ok() { "" } else { ", cannot be simulated" };
        let _ = write!(
            text,
            "  {name:<18} {about}\n{:21}about {seconds} s{simulated}: {}\n",
            "",
            policies.join(", ")
        );
    }
    text += "\nPolicies:\n";
    for variant in Variant::all(own) {
        let _ = writeln!(text, "  {:<22} {}", variant.name, about(variant, own));
    }
    text
}

fn about(variant: &Variant, own: Option<&OwnPolicy>) -> String {
    let name = own.filter(|_| variant.name == OWN.name).map(|own| format!("{}: ", own.name()));
    name.unwrap_or_default() + variant.about
}

fn list_json(own: Option<&OwnPolicy>, routed: bool) -> String {
    let experiments = EXPERIMENTS.iter().filter(|of| !routed || of.routed.is_some()).map(|experiment| {
        let Experiment { name, about, length, policies, .. } = experiment;
        let routed = experiment.routed.map(|routed| {
            let Experiment { about, length, .. } = routed;
            json!({ "about": about, "seconds_per_policy": length.seconds(), "simulated": routed.simulates().is_ok() })
        });
        let seconds = length.seconds();
        let simulated = experiment.simulates().is_ok();
        json!({ "name": name, "about": about, "seconds_per_policy": seconds, "policies": policies, "routed": routed,
                "simulated": simulated })
    });
    let policies =
        Variant::all(own).map(|variant| json!({ "name": variant.name, "about": about(variant, own) }));
    let (experiments, policies): (Vec<_>, Vec<_>) = (experiments.collect(), policies.collect());
    json!({ "experiments": experiments, "policies": policies }).to_string() + "\n"
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        experiment: Args,
    }

    fn parse(args: &[&str]) -> Result<Args, clap::Error> {
        Cli::try_parse_from([&["experiment"], args].concat()).map(|cli| cli.experiment)
    }

    #[test]
    fn error_for_unknown_experiment_lists_valid_names() {
        let message = find("incats").err().unwrap().to_string();
        assert!(message.contains("`incats`") && message.contains("incast"), "{message}");
        let message = parse(&["incast", "--policy", "pcf"]).unwrap_err().to_string();
        assert!(message.contains("pcf") && message.contains("pfc-wdrop"), "{message}");
    }

    #[test]
    fn experiment_list_refuses_options_that_only_runs_accept() {
        for options in [&["--routed"][..], &["--json"]] {
            assert!(no_run(&parse(&[&["list"], options].concat()).unwrap()).is_ok());
        }
        for options in [
            &["--runs", "3"][..],
            &["--policy", "pfc"],
            &["--duration", "9s"],
            &["--simulated"],
            &["--stall", "1ms"],
            &["--speed", "100M"],
            &["--set", "class.3.xoff=1KB"],
            &["--seed", "1"],
            &["--out", "x"],
            &["--plot", "x.svg"],
        ] {
            let refused = no_run(&parse(&[&["list"], options].concat()).unwrap()).unwrap_err().to_string();
            assert!(refused.starts_with(options[0]) && refused.contains("--routed and --json"), "{refused}");
        }
    }

    #[test]
    fn policy_option_may_be_repeated_or_be_a_list() {
        let args = parse(&["incast", "--policy", "pfc,pfc-wdrop", "--policy", "pfc-wstop"]).unwrap();
        assert_eq!(args.policy, ["pfc", "pfc-wdrop", "pfc-wstop"]);
    }

    #[test] // proves: own-policy, experiments
    fn policy_unsupported_by_experiment_is_refused_before_start() {
        let of = |experiment, names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let policies = policies(Experiment::find(experiment).unwrap(), &names, None)?;
            Ok::<_, miette::Report>(policies.iter().map(|variant| variant.name).collect::<Vec<_>>())
        };
        assert_eq!(of("ofc-fig1", &["ofc", "pfc"]).unwrap(), ["ofc", "pfc"]);
        let refused = of("qcn-fanin", &["pfc", "ofc"]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "`qcn-fanin` cannot run under policy `ofc`: this policy differs from plain PFC only between switches that support \
             it, but this experiment has one switch, and hosts that support plain PFC only"
        );
        let allowed = refused.help().unwrap().to_string();
        assert!(
            allowed.contains("pfc, ") && allowed.contains("experiments for `ofc`: cascade, "),
            "{allowed}"
        );
        let none = of("incast", &["pfc", "custom"]).unwrap_err().to_string();
        assert!(none.contains("this program has none") && none.contains("docs/policies/own.md"), "{none}");
        let twice = of("incast", &["pfc", "pfc"]).unwrap_err().to_string();
        assert!(twice.contains("policy `pfc` is given twice"), "{twice}");
    }

    #[test] // proves: cascade
    fn experiment_without_router_support_refuses_routed_option() {
        let of = |name: &str| routed(Experiment::find(name).unwrap());
        assert_eq!(of("cascade").unwrap().name, "cascade --routed");
        let refused = of("incast").err().unwrap().to_string();
        assert_eq!(refused, "experiment `incast` cannot run with routers; --routed applies to `cascade`");
        let [all, these] = [false, true].map(|routed| list(None, routed));
        assert!(all.contains("  cascade --routed   cascade over routers"), "{all}");
        assert!(all.contains("  incast  ") && !these.contains("  incast  "), "{these}");
        assert!(these.contains("  cascade --routed "), "{these}");
        let these: serde_json::Value = serde_json::from_str(&list_json(None, true)).unwrap();
        assert_eq!(these["experiments"].as_array().unwrap().len(), 1);
        assert_eq!(these["experiments"][0]["name"], "cascade");
    }

    #[test]
    fn experiment_seed_must_be_a_whole_number_up_to_its_maximum() {
        let of = |seed| parse(&["incast", "--seed", seed]).map(|args| args.seed);
        assert_eq!(of("1000000000000000000").unwrap(), SEED_MAX);
        for seed in ["abc", "0.5", "1000000000000000001", "18446744073709551615"] {
            let message = of(seed).unwrap_err().to_string();
            assert!(message.contains("a whole number from 0 to 1000000000000000000"), "{message}");
        }
    }

    #[test]
    fn experiment_list_shows_every_experiment_and_policy() {
        let text = list(None, false);
        assert!(!text.contains(OWN.name));
        let names = EXPERIMENTS.iter().map(|e| e.name).chain(VARIANTS.iter().map(|v| v.name));
        for name in names {
            assert!(text.contains(name), "{name} in {text}");
        }
        let list: serde_json::Value = serde_json::from_str(&list_json(None, false)).unwrap();
        assert_eq!(list["experiments"].as_array().unwrap().len(), EXPERIMENTS.len());
        assert_eq!(list["experiments"][0]["name"], EXPERIMENTS[0].name);
        let routed: Vec<bool> = EXPERIMENTS.iter().map(|of| of.routed.is_some()).collect();
        let listed = list["experiments"].as_array().unwrap().iter().map(|of| of["routed"].is_object());
        assert_eq!(listed.collect::<Vec<_>>(), routed);
        assert_eq!(list["policies"].as_array().unwrap().len(), VARIANTS.len());
    }

    #[test]
    fn duration_option_is_refused_by_fixed_length_experiment() {
        let of = |name: &str, requested| seconds(Experiment::find(name).unwrap(), requested);
        assert_eq!(of("qcn-fanin", Some(6)).unwrap(), 6);
        assert_eq!(of("qcn-fanin", None).unwrap(), 30);
        assert!(of("incast", Some(6)).unwrap_err().to_string().contains("has a fixed duration"));
        let message = parse(&["qcn-fanin", "--duration", "2s"]).unwrap_err().to_string();
        assert!(message.contains("'2s'") && message.contains("from 3s to 600s"), "{message}");
    }

    #[test] // proves: experiments
    fn experiment_speed_outside_its_range_is_refused() {
        let of = |speed| parse(&["incast", "--speed", speed]).map(|args| args.speed.unwrap());
        assert_eq!(of("5M").unwrap(), *LINES.start());
        assert_eq!(of("1G").unwrap(), *LINES.end());
        for speed in ["1", "4999999", "400000000001", "1T"] {
            let message = of(speed).unwrap_err().to_string();
            assert!(message.contains(speed) && message.contains("--speed"), "{message}");
            assert!(message.contains("the speed must be 5M to 1G"), "{message}");
        }
        let line = |args: &[&str]| line(&parse(args).unwrap());
        let fast = BitRate::from_gbps(400);
        assert_eq!(line(&["incast", "--simulated", "--speed", "400G"]).unwrap(), Line::simulated(fast));
        assert_eq!(line(&["incast", "--simulated"]).unwrap(), Line::simulated(SIMULATED_LINE));
        let refused = line(&["incast", "--speed", "10G"]).unwrap_err();
        assert!(refused.to_string().contains("5M to 1G, or up to 400G with --simulated"), "{refused}");
    }

    #[test] // proves: experiment-parity
    fn experiment_with_kernel_hosts_refuses_simulated_option() {
        let refused =
            |experiment: &Experiment| experiment.simulates().err().map(|refused| refused.to_string());
        let ecn = "`ecn` cannot be simulated: its hosts use TCP of a kernel, and the simulator has no kernel"
            .to_owned();
        let all: Vec<_> = EXPERIMENTS.iter().chain(EXPERIMENTS.iter().filter_map(|of| of.routed)).collect();
        assert_eq!(all.into_iter().filter_map(refused).collect::<Vec<_>>(), [ecn]);
        let [all, routed] = [false, true].map(|routed| list(None, routed));
        assert!(all.matches("s, cannot be simulated: ").count() == 1, "{all}");
        assert!(!routed.contains("cannot be simulated"), "{routed}");
        let json: serde_json::Value = serde_json::from_str(&list_json(None, true)).unwrap();
        assert_eq!(json["experiments"][0]["routed"]["simulated"], true);
    }
}

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use clap::Subcommand;
use miette::miette;
use xoff_config::OwnPolicy;
use xoff_experiments::Given;
use xoff_experiments::scenario::{SEED_MAX, Source, given};

use super::{chaos, replay};
use crate::cli;
use xoff_experiments::simulate::{
    self, CellCondition, Condition, Request, Shard, Statistic, StatisticQuery, Summary,
};

/// Simulate a fabric of switches under the loads of a scenario.
///
/// Each switch is the real dataplane; needs neither root nor devices. The result depends only on the scenario and the
/// seeds. docs/simulation.md describes scenarios and output.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    /// Scenario file (TOML).
    #[arg(required_unless_present = "import")]
    file: Option<PathBuf>,
    /// Import topology and flows of the simulators of HPCC, ConWeave or SimAI.
    ///
    /// The files replace [topology] of the scenario, which may then be left out.
    #[arg(long, num_args = 2, value_names = ["TOPOLOGY", "FLOWS"])]
    import: Option<Vec<PathBuf>>,
    /// Seed of a single run [default: seed of the scenario].
    #[arg(long, value_name = "NUMBER", value_parser = cli::number(0..=SEED_MAX), conflicts_with = "seeds")]
    seed: Option<u64>,
    /// First and last of the seeds to run.
    #[arg(long, value_name = "A..B", value_parser = cli::seeds)]
    seeds: Option<(u64, u64)>,
    /// Scenario key that overrides the file, such as topology.k=8.
    ///
    /// Further examples: load.0.load=0.6, switch.all.class.3.xoff=80KB. May be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = given)]
    set: Vec<Given>,
    /// Number of parallel runs [default: one per core].
    #[arg(long, value_name = "COUNT", value_parser = cli::number(1..=1_024_u32))]
    jobs: Option<u32>,
    /// Write rows (CSV, JSON lines), summary and plots (SVG) to DIR.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run only shard K of N, counted from 1; `xoff sim merge` joins shards.
    #[arg(long, value_name = "K/N", value_parser = shard, requires = "out")]
    shard: Option<Shard>,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<SimCommand>,
}

#[derive(Debug, Subcommand)]
enum SimCommand {
    Chaos(chaos::Args),
    Merge(MergeArgs),
    Mean(MeanArgs),
    Replay(replay::Args),
}

/// Calculate the mean of a column over seeds, with its 95 % interval.
///
/// Each seed gives one number. Example, the longest completion time of each load: xoff sim mean DIR flows.fct_ns --by load --take most
#[derive(Debug, clap::Args)]
struct MeanArgs {
    /// Directory that `xoff sim --out` or `xoff sim merge` wrote.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Table and column to evaluate.
    #[arg(value_name = "TABLE.COLUMN", value_parser = column)]
    column: (String, String),
    /// Group rows by these columns [default: one group per seed].
    #[arg(long, value_name = "COLUMN,..", value_delimiter = ',')]
    by: Vec<String>,
    /// Use only rows with this value in this column. May be repeated.
    ///
    /// `COLUMN<NUMBER` selects lower values; `COLUMN>=NUMBER` selects equal and higher values.
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = condition)]
    only: Vec<Condition>,
    /// Statistic per seed: mean, sum, least, most, or a percentile such as p99.
    #[arg(long, value_name = "WHAT", default_value = "mean", value_parser = take)]
    take: Statistic,
    /// Print one JSON object, in the units of the table.
    #[arg(long)]
    json: bool,
}

/// Merge the output of the shards of a run.
///
/// The files are identical to those of one run over all seeds.
#[derive(Debug, clap::Args)]
struct MergeArgs {
    /// Output directories of the shards.
    #[arg(value_name = "DIR", required = true)]
    parts: Vec<PathBuf>,
    /// Output directory.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

fn column(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('.').filter(|(table, column)| !table.is_empty() && !column.is_empty());
    parts
        .map(|(table, column)| (table.to_owned(), column.to_owned()))
        .ok_or_else(|| "the column must be TABLE.COLUMN, such as flows.fct_ns".into())
}

fn condition(text: &str) -> Result<Condition, String> {
    let number = |text: &str| text.parse::<f64>().ok();
    let of = |sign: &str| text.split_once(sign).filter(|(column, _)| !column.is_empty());
    let (column, wanted) = if let Some((column, value)) = of(">=") {
        (column, number(value).map(CellCondition::AtLeast))
    } else if let Some((column, value)) = of("<") {
        (column, number(value).map(CellCondition::Below))
    } else {
        let (column, value) = of("=").unwrap_or_default();
        (column, (!column.is_empty()).then(|| CellCondition::Is(value.to_owned())))
    };
    wanted
        .map(|wanted| Condition { column: column.to_owned(), wanted })
        .ok_or_else(|| "the condition must be COLUMN=VALUE, COLUMN<NUMBER or COLUMN>=NUMBER".into())
}

fn take(text: &str) -> Result<Statistic, String> {
    let percent = text.strip_prefix('p').and_then(|text| text.parse().ok()).filter(|percent| *percent <= 100);
    match text {
        "mean" => Ok(Statistic::Mean),
        "sum" => Ok(Statistic::Sum),
        "least" => Ok(Statistic::Percentile(0)),
        "most" => Ok(Statistic::Percentile(100)),
        _ => percent
            .map(Statistic::Percentile)
            .ok_or_else(|| "the statistic must be mean, sum, least, most, or p0 to p100, such as p99".into()),
    }
}

fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/').and_then(|(number, count)| number.parse().ok().zip(count.parse().ok()));
    let parts = parts.filter(|&(number, count)| (1..=count).contains(&number) && count <= cli::SEEDS_MAX);
    parts
        .map(|(number, count)| Shard { number, count })
        .ok_or_else(|| "the shard must be K/N, with K from 1 to N, such as 3/8".into())
}

pub fn run(args: &Args, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
    match &args.command {
        Some(SimCommand::Merge(merge)) => {
            let summary = simulate::merge(&merge.parts, &merge.out, &mut |line| cli::tell(line))?;
            return show(&summary, merge.json);
        }
        Some(SimCommand::Mean(args)) => return mean(args),
        Some(SimCommand::Chaos(args)) => return chaos::run(args),
        Some(SimCommand::Replay(args)) => return replay::run(args, own),
        None => (),
    }
    let scenario = args.file.as_deref();
    let source = match (args.import.as_deref(), scenario) {
        (Some([topology, flows]), _) => simulate::import(scenario, [topology, flows], &args.set)?,
        (_, Some(path)) => Source::load(path, &args.set)?,
        (_, None) => return Err(miette!("no scenario file is given")),
    };
    let path = scenario.unwrap_or(Path::new(""));
    let request = Request {
        source: &source,
        path,
        seeds: args.seeds.or(args.seed.map(|seed| (seed, seed))),
        shard: args.shard,
        threads: args.jobs.map_or_else(cores, |jobs| jobs as usize),
        out: args.out.as_deref(),
    };
    let summary = simulate::run(&request, &mut |line| cli::tell(line))?;
    show(&summary, args.json)
}

fn mean(args: &MeanArgs) -> miette::Result<ExitCode> {
    let (table, column) = &args.column;
    let query = StatisticQuery { table, column, by: &args.by, only: &args.only, take: args.take };
    let answers = simulate::mean(&args.directory, &query)?;
    if answers.missing_runs > 0 {
        let (missing, directory) = (answers.missing_runs, args.directory.display());
        cli::tell(format!("warning: {directory} lacks {missing} runs; the results cover the other runs"));
    }
    let json = || serde_json::to_string(&answers).expect("the result has no JSON form") + "\n";
    cli::print(if args.json { json() } else { answers.text() })?;
    Ok(ExitCode::SUCCESS)
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn show(summary: &Summary, as_json: bool) -> miette::Result<ExitCode> {
    if as_json {
        let json = serde_json::to_string(summary).expect("the result has no JSON form");
        cli::print(json + "\n")?;
    } else {
        cli::print(summary.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        sim: Args,
    }

    fn parse(args: &[&str]) -> Result<Args, String> {
        let parsed = Cli::try_parse_from([&["sim"], args].concat());
        parsed.map(|cli| cli.sim).map_err(|error| error.to_string())
    }

    #[test]
    fn sim_command_parses_seed_range_and_shard() {
        let args = parse(&["s.toml", "--seeds", "1..10", "--shard", "8/8", "--out", "x"])
            .expect("valid arguments are refused");
        assert_eq!((args.seeds, args.shard), (Some((1, 10)), Some(Shard { number: 8, count: 8 })));
        for bad in ["1", "2..1", "a..b", "1..", "0..1000000"] {
            let message = parse(&["s.toml", "--seeds", bad]).err().unwrap_or_default();
            assert!(message.contains("1..10"), "{bad}: {message}");
        }
        assert_eq!(parse(&["s.toml", "--seeds", "0..999999"]).map(|args| args.seeds), Ok(Some((0, 999_999))));
        for bad in ["0/8", "9/8", "3", "1/0", "a/b"] {
            let message = parse(&["s.toml", "--out", "x", "--shard", bad]).err().unwrap_or_default();
            assert!(message.contains("such as 3/8"), "{bad}: {message}");
        }
    }

    #[test] // proves: sim-results
    fn sim_mean_accepts_a_column_with_conditions_and_statistic() {
        let arguments =
            ["mean", "d", "flows.fct_ns", "--by", "load,to", "--where", "size_bytes<10000", "--take", "p99"];
        let Some(SimCommand::Mean(args)) = parse(&arguments).expect("valid arguments are refused").command
        else {
            panic!("not parsed as `mean`")
        };
        assert_eq!(args.column, ("flows".into(), "fct_ns".into()));
        assert_eq!((args.by.len(), args.take), (2, Statistic::Percentile(99)));
        assert_eq!(
            args.only[0],
            Condition { column: "size_bytes".into(), wanted: CellCondition::Below(10_000.0) }
        );
        assert_eq!(condition("load=F0").map(|of| of.wanted), Ok(CellCondition::Is("F0".into())));
        assert_eq!(condition("size_bytes>=1e4").map(|of| of.wanted), Ok(CellCondition::AtLeast(10_000.0)));
        for (bad, help) in [("flows", "flows.fct_ns"), ("flows.", "flows.fct_ns")] {
            assert!(parse(&["mean", "d", bad]).is_err_and(|text| text.contains(help)), "{bad}");
        }
        for bad in ["p101", "median", "p"] {
            assert!(
                parse(&["mean", "d", "a.b", "--take", bad]).is_err_and(|text| text.contains("p99")),
                "{bad}"
            );
        }
        assert!(condition("load").is_err() && condition("size<x").is_err() && condition("=x").is_err());
    }

    #[test]
    fn sim_refuses_options_that_contradict_each_other() {
        assert!(parse(&["s.toml", "--shard", "1/2"]).is_err_and(|message| message.contains("--out")));
        assert!(
            parse(&["s.toml", "--seed", "1", "--seeds", "1..2"]).is_err_and(|text| text.contains("--seed"))
        );
        assert!(parse(&[]).is_err_and(|message| message.contains("FILE")));
        let imports = |args: &[&str]| parse(args).map(|args| args.import.map(|files| files.len()));
        assert_eq!(imports(&["--import", "t", "f"]), Ok(Some(2)));
        assert_eq!(imports(&["--import", "t", "f", "s.toml", "--seed", "2"]), Ok(Some(2)));
        assert!(imports(&["s.toml", "--import", "t"]).is_err_and(|message| message.contains("FLOWS")));
        assert!(parse(&["merge", "a", "b", "--out", "c"]).is_ok());
    }

    fn run_by(script: &str, place: &Path, environment: &[(&str, &str)]) -> Args {
        let stub = place.join("xoff");
        fs::write(&stub, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").expect("the stub cannot be written");
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755))
            .expect("the stub of xoff must become executable");
        let path = format!("{}:/usr/bin:/bin", place.display());
        let mut command = std::process::Command::new("bash");
        command.args(["-ec", script]).env_clear().env("PATH", path).envs(environment.iter().copied());
        let done = command.output().expect("bash cannot be run");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let output = String::from_utf8(done.stdout).expect("the stub's arguments must be UTF-8");
        let words: Vec<&str> = output.lines().skip(1).collect();
        parse(&words).unwrap_or_else(|message| panic!("{words:?}: {message}"))
    }

    #[test] // proves: integrations
    fn slurm_script_gives_each_task_its_shard() {
        let place = tempfile::tempdir().expect("no temporary directory");
        let out = place.path().join("out");
        let slurm = include_str!("../../../scripts/cluster/sim.sbatch");
        let environment = [
            ("SCENARIO", "incast.toml"),
            ("SEEDS", "1..100"),
            ("OUT", out.to_str().expect("the path is not UTF-8")),
            ("SLURM_ARRAY_TASK_ID", "20"),
            ("SLURM_ARRAY_TASK_COUNT", "20"),
        ];
        let args = run_by(slurm, place.path(), &environment);
        assert_eq!((args.seeds, args.shard), (Some((1, 100)), Some(Shard { number: 20, count: 20 })));
        assert_eq!(args.out, Some(out.join("shard-20")));

        // Read only lines before the first command, as sbatch does.
        let head: Vec<&str> = slurm.lines().take_while(|line| line.starts_with('#')).collect();
        let options = |lines: &[&str]| lines.iter().filter(|line| line.starts_with("#SBATCH --")).count();
        assert_eq!(options(&head), options(&slurm.lines().collect::<Vec<_>>()));
        assert!(options(&head) > 0 && head[0].starts_with("#!/"), "{head:?}");
    }

    fn yaml(text: &str) -> serde_json::Value {
        const SCRIPT: &str = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.argv[1])))";
        let mut command = std::process::Command::new("/usr/bin/python3");
        let read = command.args(["-c", SCRIPT, text]).output().expect("python3 cannot be run");
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        serde_json::from_slice(&read.stdout).expect("the output of python3 must be JSON")
    }

    #[test] // proves: integrations
    fn kubernetes_job_runs_each_shard_once_on_a_shared_volume() {
        let place = tempfile::tempdir().expect("no temporary directory");
        let out = place.path().join("out");
        let job = yaml(include_str!("../../../scripts/cluster/sim-job.yaml"));
        let spec = &job["spec"];
        assert_eq!(
            [&job["apiVersion"], &job["kind"], &spec["completionMode"]],
            ["batch/v1", "Job", "Indexed"]
        );
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["restartPolicy"], "Never");
        let container = &pod["containers"][0];
        let list = |of: &serde_json::Value| of.as_array().expect("the value is not a list").clone();
        let text = |of: &serde_json::Value| of.as_str().expect("the value is not a string").to_owned();
        let environment: Vec<(String, String)> = list(&container["env"])
            .iter()
            .map(|entry| (text(&entry["name"]), text(&entry["value"])))
            .collect();
        let mut environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let (_, shards) = environment.iter().find(|(name, _)| *name == "SHARDS").expect("SHARDS is missing");
        assert_eq!(spec["completions"].to_string(), *shards);
        let mounted = list(&container["volumeMounts"]);
        let volumes: Vec<String> = list(&pod["volumes"]).iter().map(|of| text(&of["name"])).collect();
        assert!(mounted.iter().all(|of| volumes.contains(&text(&of["name"]))), "{volumes:?}");
        assert_eq!(list(&container["command"]), ["sh", "-ec"]);
        let [script] = &list(&container["args"])[..] else { panic!("not one script: {container}") };
        let script = text(script);
        for of in &mounted {
            assert!(script.contains(&text(&of["mountPath"])), "{of}");
        }
        let script = script.replace("/results", out.to_str().expect("the path is not UTF-8"));
        environment.push(("JOB_COMPLETION_INDEX", "0"));
        let args = run_by(&script, place.path(), &environment);
        assert_eq!((args.seeds, args.shard), (Some((1, 100)), Some(Shard { number: 1, count: 20 })));
        assert_eq!(args.out, Some(out.join("shard-1")));
    }
}

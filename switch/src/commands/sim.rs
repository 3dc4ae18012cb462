//! `xoff sim`: scenarios of simulated fabrics.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Subcommand;
use miette::miette;
use xoff_config::OwnPolicy;
use xoff_config::scenario::{Given, Source};

use super::{chaos, replay};
use crate::cli;
use crate::simulate::{self, Request, Shard, Summary};

/// Simulates a fabric of switches, each of which is the dataplane itself, under the loads of a scenario. Needs no root, and no device.
///
/// The result depends on the scenario and the seeds alone. docs/simulation.md has the keys of a scenario, and the columns of what
/// is written.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    /// The scenario.
    #[arg(value_name = "SCENARIO.toml", required = true)]
    scenario: Option<PathBuf>,
    /// The seed of the only run [default: that of the scenario].
    #[arg(long, value_name = "NUMBER", value_parser = cli::number(0..=cli::SEED_MAX), conflicts_with = "seeds")]
    seed: Option<u64>,
    /// A run for each of these seeds, both ends included.
    #[arg(long, value_name = "A..B", value_parser = cli::seeds)]
    seeds: Option<(u64, u64)>,
    /// A key of the scenario, over what the file says: topology.k=8, load.0.load=0.6, switch.all.class.3.xoff=80KB. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Given>,
    /// Runs at a time [default: one for each core].
    #[arg(long, value_name = "COUNT", value_parser = cli::number(1..=1_024_u32))]
    jobs: Option<u32>,
    /// Write rows (CSV, JSON lines), summary and plots (SVG, PNG) into this directory.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run the seeds of this shard only, K of N from 1: `xoff sim merge` puts together what all of them have written.
    #[arg(long, value_name = "K/N", value_parser = shard, requires = "out")]
    shard: Option<Shard>,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Chaos(chaos::Args),
    Merge(MergeArgs),
    Replay(replay::Args),
}

/// Puts together what the shards of a run have written: the files are those that one run of all seeds would have written.
#[derive(Debug, clap::Args)]
struct MergeArgs {
    /// The directory of each shard.
    #[arg(value_name = "DIR", required = true)]
    parts: Vec<PathBuf>,
    /// Where the whole is written.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/').and_then(|(number, count)| number.parse().ok().zip(count.parse().ok()));
    let parts = parts.filter(|&(number, count)| (1..=count).contains(&number) && count <= cli::SEEDS_MAX);
    parts
        .map(|(number, count)| Shard { number, count })
        .ok_or_else(|| "it has to be K/N, with K from 1 to N, such as 3/8".into())
}

/// Runs it.
///
/// # Errors
/// What is wrong with the scenario, and what cannot be read or written.
pub fn run(args: &Args, own: Option<&OwnPolicy>) -> miette::Result<ExitCode> {
    match &args.command {
        Some(Command::Merge(merge)) => {
            let summary = simulate::merge(&merge.parts, &merge.out, &mut |line| cli::tell(line))?;
            return show(&summary, merge.json);
        }
        Some(Command::Chaos(args)) => return chaos::run(args),
        Some(Command::Replay(args)) => return replay::run(args, own),
        None => (),
    }
    let path = args.scenario.as_ref().ok_or_else(|| miette!("a scenario is missing"))?;
    let source = Source::load(path, &args.set)?;
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

fn cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn show(summary: &Summary, as_json: bool) -> miette::Result<ExitCode> {
    if as_json {
        let json = serde_json::to_string(summary).expect("plain values have a JSON form");
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
    use std::path::Path;

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
    fn seeds_are_a_range_and_a_shard_is_one_of_several() {
        let args = parse(&["s.toml", "--seeds", "1..10", "--shard", "8/8", "--out", "x"]).expect("fine");
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

    #[test]
    fn a_shard_writes_files_and_one_seed_is_not_several() {
        assert!(parse(&["s.toml", "--shard", "1/2"]).is_err_and(|message| message.contains("--out")));
        assert!(
            parse(&["s.toml", "--seed", "1", "--seeds", "1..2"]).is_err_and(|text| text.contains("--seed"))
        );
        assert!(parse(&[]).is_err_and(|message| message.contains("SCENARIO.toml")));
        assert!(parse(&["merge", "a", "b", "--out", "c"]).is_ok());
    }

    /// What a script of the cluster would run, parsed as we parse it.
    fn run_by(script: &str, place: &Path, environment: &[(&str, &str)]) -> Args {
        let stub = place.join("xoff");
        fs::write(&stub, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").expect("a directory that can be written");
        fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).expect("our own file");
        let path = format!("{}:/usr/bin:/bin", place.display());
        let mut command = std::process::Command::new("bash");
        command.args(["-ec", script]).env_clear().env("PATH", path).envs(environment.iter().copied());
        let done = command.output().expect("bash is there");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let said = String::from_utf8(done.stdout).expect("arguments are text");
        let words: Vec<&str> = said.lines().skip(1).collect();
        parse(&words).unwrap_or_else(|message| panic!("{words:?}: {message}"))
    }

    #[test]
    fn cluster_files_run_shards_as_we_read_them() {
        let place = tempfile::tempdir().expect("a place for files");
        let out = place.path().join("out");
        let slurm = include_str!("../../../scripts/cluster/sim.sbatch");
        let environment = [
            ("SCENARIO", "incast.toml"),
            ("SEEDS", "1..100"),
            ("OUT", out.to_str().expect("a path of letters")),
            ("SLURM_ARRAY_TASK_ID", "20"),
            ("SLURM_ARRAY_TASK_COUNT", "20"),
        ];
        let args = run_by(slurm, place.path(), &environment);
        assert_eq!((args.seeds, args.shard), (Some((1, 100)), Some(Shard { number: 20, count: 20 })));
        assert_eq!(args.out, Some(out.join("shard-20")));

        let job = include_str!("../../../scripts/cluster/sim-job.yaml");
        let value = |key: &str| {
            let (_, after) = job.split_once(key).unwrap_or_else(|| panic!("no {key}"));
            after.split_once('"').and_then(|(_, text)| text.split_once('"')).map(|(text, _)| text)
        };
        let shards = value("name: SHARDS").expect("how many");
        assert!(job.contains(&format!("completions: {shards}\n")) && job.contains("completionMode: Indexed"));
        let (_, script) = job.split_once("- |\n").expect("a script");
        let script: String = script
            .lines()
            .take_while(|line| line.starts_with("              "))
            .map(|line| format!("{line}\n"))
            .collect();
        let script = script.replace("/results", out.to_str().expect("a path of letters"));
        let environment = [
            ("JOB_COMPLETION_INDEX", "0"),
            ("SHARDS", shards),
            ("SEEDS", value("name: SEEDS").expect("which")),
        ];
        let args = run_by(&script, place.path(), &environment);
        assert_eq!((args.seeds, args.shard), (Some((1, 100)), Some(Shard { number: 1, count: 20 })));
        assert_eq!(args.out, Some(out.join("shard-1")));
    }
}

//! Import of files of HPCC's ns-3 simulator (`--import`). Without a scenario, that simulator's defaults apply, where xoff has an
//! equivalent.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use miette::miette;
use xoff_config::file::read_text;
use xoff_sim::topology::Build;
use xoff_sim::{At, hpcc};
use xoff_wire::units::Nanos;

use super::files::IMPORTED;
use crate::Given;
use crate::scenario::Source;

const ECN: [u64; 2] = [4_000, 16_000];
const LIMIT: Nanos = Nanos::from_secs(10);

pub fn import(
    scenario: Option<&Path>,
    [topology, flows]: [&Path; 2],
    given: &[Given],
) -> miette::Result<Source> {
    let alone = match scenario {
        Some(_) => String::new(),
        None => alone(topology, flows)?,
    };
    // Paths on the command line are relative to the current directory, not to the scenario file's.
    let place = |file: &Path| match scenario {
        Some(_) => std::path::absolute(file).map_err(|error| miette!("{}: {error}", file.display())),
        None => Ok::<PathBuf, miette::Report>(file.to_owned()),
    };
    let files = [place(topology)?, place(flows)?];
    Ok(Source::importing(scenario, &alone, [&files[0], &files[1]], given)?)
}

fn alone(topology: &Path, flows: &Path) -> miette::Result<String> {
    let made = hpcc::topology(&read_text(topology, IMPORTED)?, &Build::ideal())
        .map_err(|error| miette!("{}: {error}", topology.display()))?;
    let flows = hpcc::flows(&read_text(flows, IMPORTED)?, &made.nodes)
        .map_err(|error| miette!("{}: {error}", flows.display()))?
        .flows;
    let of_hosts = made.plan.links().iter().filter(|(a, ..)| matches!(a, At::Host(..)));
    let slowest = of_hosts.map(|(.., line)| line.rate.bits_per_second()).min().unwrap_or_default();
    let [ecn_min, ecn_max] = ECN.map(|bytes| (slowest / 1_000_000).saturating_mul(bytes) / 1_000);
    let starts = || flows.iter().map(|flow| flow.plan.start.floor());
    let (begin, limit) =
        (starts().min().unwrap_or_default(), starts().max().unwrap_or_default().after(LIMIT));
    let mut text = format!(
        "[scenario]\nname = \"import\"\nlimit = \"{}ns\"\nwarm_up = \"{1}ns\"\n\
         [hosts]\ntransport = \"roce\"\ncontrol = \"dcqcn\"\npayload = 1000\n\
         [output]\nsample = \"10us\"\nbegin = \"{1}ns\"\n\
         [switch.all.memory]\nmodel = \"shared\"\npool = \"32MiB\"\nalpha_log2 = -3\n",
        limit.0, begin.0
    );
    let classes: BTreeSet<_> = flows.iter().map(|flow| flow.plan.class).collect();
    let numbers: Vec<String> = classes.iter().map(ToString::to_string).collect();
    let _ = writeln!(text, "[switch.all.defaults]\nlossless = [{}]", numbers.join(", "));
    for class in numbers {
        let _ = write!(
            text,
            "[switch.all.class.{class}]\nxoff = \"4MiB\"\nxon = {}\necn_min = {ecn_min}\necn_max = {ecn_max}\n",
            (4 << 20) - 3_072,
        );
    }
    Ok(text)
}

use std::fs;
use std::path::Path;
use std::sync::Arc;

use miette::miette;
use xoff_flow_control::congestion::points;
use xoff_sim::load::{Times, mean_on_line};
use xoff_sim::scheduled::{CellLeaf, Scheduled};
use xoff_sim::{Plan, SwitchKind};
use xoff_wire::units::Bytes;

use super::loads::{host_rate, sizes};
use crate::scenario::{self, LoadKind, LoadSettings, Scenario};

/// Memory in bytes per packet slot (`PLACE`), port and known address, measured in fat-trees of 4 to 32 ports per
/// switch.
const PLACE: u64 = 240;
const PORT: u64 = 30_000;
const ADDRESS: u64 = 24;
const FLOW: f64 = 1_450.0;
const LINE_LEN: u64 = 20;

#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub machine: Option<Bytes>,
    pub runs: usize,
}

pub(super) fn fit(
    kinds: &[Arc<SwitchKind>],
    hosts: u32,
    scheduled: Option<Scheduled>,
    flows: &[(&str, f64)],
    room: Room,
) -> miette::Result<()> {
    let takes = |kind: &SwitchKind| {
        let places = u64::from(kind.slots.data) + u64::from(kind.slots.control);
        PLACE * places + PORT * kind.settings.ports.len() as u64 + ADDRESS * u64::from(hosts)
    };
    let tables_of_leaf = |kind: &SwitchKind, fabric| {
        let slots = CellLeaf::congestion_slots(fabric, &kind.settings).into();
        points::memory(&kind.settings.qcn, fabric.hosts.into(), slots)
    };
    let tables: u64 = scheduled.map_or(0, |fabric| {
        kinds.iter().take(fabric.leaves.into()).map(|kind| tables_of_leaf(kind, fabric)).sum()
    });
    let switches = tables + kinds.iter().map(|kind| takes(kind)).sum::<u64>();
    let loads = flows.iter().map(|(_, flows)| flows * FLOW).sum::<f64>();
    let all = switches as f64 + loads;
    let (runs, Some(has)) = (room.runs.max(1) as f64, room.machine) else { return Ok(()) };
    if all * runs <= has.0 as f64 {
        return Ok(());
    }
    let mib = |bytes: f64| format!("{:.0} MiB", bytes / f64::from(1 << 20));
    let (fabric, machine) = (mib(all), mib(has.0 as f64));
    if all <= has.0 as f64 {
        return Err(miette!(
            help = format!("run fewer at the same time: --jobs {:.0}", (has.0 as f64 / all).floor()),
            "this fabric needs about {fabric} of memory, and {runs} runs at the same time need {}, but the machine has {machine}",
            mib(all * runs)
        ));
    }
    let most = flows.iter().max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|_| loads > switches as f64);
    Err(match most {
        Some((name, flows)) => miette!(
            help = "give that load longer gaps, a smaller `load`, larger flows, or an earlier `end`; or end the run earlier",
            "this fabric needs about {fabric} of memory, but the machine has {machine}; load `{name}` alone makes about {flows:.0} flows"
        ),
        None => miette!(
            help = "reduce line lengths, rates, thresholds, headroom or switches: each of these reserves memory for frames",
            "this fabric needs about {fabric} of memory, but the machine has {machine}"
        ),
    })
}

pub(super) fn flows<'scenario>(
    scenario: &'scenario Scenario,
    plan: &Plan,
    imported: impl Iterator<Item = usize>,
    path: &Path,
) -> miette::Result<Vec<(&'scenario str, f64)>> {
    let line = host_rate(plan).bits_per_second() as f64 / 8e9; // bytes per ns
    let hosts = f64::from(plan.hosts());
    let of = |load: &LoadSettings, imported: usize| -> miette::Result<f64> {
        let span = load.end.unwrap_or(scenario.limit).0.saturating_sub(load.begin.0) as f64;
        // If each query waits for the previous one, add its time on the line to the gap: such queries come at most at
        // line rate.
        let (Times::Fixed(gap) | Times::Mean(gap)) = load.gap;
        let rounds = |bytes: f64| {
            let takes = if load.is_open { 0.0 } else { bytes / line };
            (span / (gap.0 as f64 / 1e3 + takes).max(1e-3)).max(1.0)
        };
        let framing = scenario.hosts.framing(load.class);
        Ok(match load.kind {
            LoadKind::Poisson => {
                if let Some(arrivals) = load.arrivals {
                    return Ok(arrivals * span / 1e9);
                }
                let hosts = load.hosts.as_ref().map_or(hosts, |hosts| hosts.len() as f64);
                hosts * load.load * line * span / mean_on_line(&sizes(load, path)?, framing)
            }
            LoadKind::Incast => {
                let askers = load.askers.as_ref().map_or(1, Vec::len) as f64;
                let (fan_in, ways) = (f64::from(load.fan_in), if load.question.0 > 0 { 2.0 } else { 1.0 });
                askers * fan_in * ways * rounds(fan_in * mean_on_line(&sizes(load, path)?, framing))
            }
            LoadKind::OnOff => load.pairs.len() as f64 * rounds(mean_on_line(&sizes(load, path)?, framing)),
            LoadKind::Draw => load.flows.into(),
            LoadKind::Permutation | LoadKind::Ring => hosts,
            LoadKind::Flows => {
                let file = fs::metadata(scenario::relative_to(path, &load.file));
                file.map_or(0, |file| file.len() / LINE_LEN) as f64
            }
            LoadKind::Hpcc => imported as f64,
        })
    };
    let loads = scenario.loads.iter().zip(imported);
    loads.map(|(load, imported)| Ok((load.name.as_str(), of(load, imported)?))).collect()
}

// Tests for SPECIFICATION.md: scenarios
#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::scenario::Source;
    use xoff_flow_control::settings::Culprit;
    use xoff_sim::topology::Build;
    use xoff_sim::{Line, Picos, ideal};
    use xoff_wire::units::{BitRate, ClassSet};

    use super::*;
    use crate::simulate::build::{model, plan};
    use crate::simulate::job::{self, Job};
    use crate::simulate::tables::FLOWS;

    fn kinds() -> [Arc<SwitchKind>; 3] {
        let line = Line { rate: BitRate::from_gbps(100), delay: Picos::from_micros(1) };
        let kind = Arc::new(ideal::Ideal::beside(line).switch(4));
        [0; 3].map(|_| Arc::clone(&kind))
    }

    fn takes(kinds: &[Arc<SwitchKind>]) -> u64 {
        let one = &kinds[0].slots;
        3 * (PLACE * u64::from(one.data + one.control) + 4 * PORT + 8 * ADDRESS)
    }

    fn room(machine: u64, runs: usize) -> Room {
        Room { machine: Some(Bytes(machine)), runs }
    }

    #[test]
    fn memory_check_of_switches_is_exact_to_the_byte() {
        let kinds = kinds();
        let takes = takes(&kinds);
        fit(&kinds, 8, None, &[], room(takes, 1)).unwrap();
        let message = fit(&kinds, 8, None, &[], room(takes - 1, 1)).unwrap_err().to_string();
        assert!(message.contains("MiB of memory, but the machine has"), "{message}");
        fit(&kinds, 8, None, &[], Room { machine: None, runs: 1 }).unwrap();
    }

    #[test]
    fn memory_check_counts_congestion_tables_of_leaves() {
        let mut kinds = kinds();
        for kind in &mut kinds {
            let qcn = &mut Arc::make_mut(kind).settings.qcn;
            (qcn.ingress, qcn.culprit) = (ClassSet(0b1000), Culprit::OccupancyRandom);
        }
        let fabric = Scheduled { leaves: 2, spines: 1, hosts: 3, cell: 256, credits: 500, spine_buffer: 16 };
        // A frame slot takes 8 bytes in the table that a leaf's three congestion points share, and 4 in each point.
        let slots = u64::from(CellLeaf::congestion_slots(fabric, &kinds[0].settings));
        assert!(slots > 3 * 500, "a leaf must have slots for frames of its three inputs");
        let takes = takes(&kinds) + 2 * slots * (8 + 3 * 4);
        fit(&kinds, 8, Some(fabric), &[], room(takes, 1)).unwrap();
        fit(&kinds, 8, Some(fabric), &[], room(takes - 1, 1)).unwrap_err();
    }

    #[test]
    fn memory_check_counts_all_concurrent_runs() {
        let kinds = kinds();
        let takes = takes(&kinds);
        fit(&kinds, 8, None, &[], room(2 * takes, 2)).unwrap();
        let error = fit(&kinds, 8, None, &[], room(2 * takes - 1, 2)).unwrap_err();
        assert_eq!(error.help().unwrap().to_string(), "run fewer at the same time: --jobs 1");
    }

    fn scenario(duration: &str, load: &str) -> Source {
        let text = format!(
            "[scenario]\nname = \"x\"\nduration = \"{duration}\"\n[topology]\nkind = \"single\"\nhosts = 4\n\
             [[load]]\nname = \"q\"\n{load}\n"
        );
        Source::from_toml("x.toml", &text, &[]).unwrap()
    }

    #[test]
    fn estimated_flow_counts_are_near_simulated_ones() {
        for load in [
            "kind = \"poisson\"\nload = 0.5\nsize = \"1KB\"",
            "kind = \"incast\"\nfan_in = 2\nsize = \"1KB\"\nopen = true\ngap = \"500ns\"",
            "kind = \"incast\"\nfan_in = 2\nsize = \"1KB\"\nquestion = \"100B\"\ngap = \"20us\"\ngaps = \"fixed\"",
            "kind = \"on-off\"\npairs = [[0, 1], [2, 3]]\nsize = \"10KB\"\ngap = \"10us\"",
        ] {
            let source = scenario("200us", load);
            let point = source.point(0).unwrap();
            let plan = plan::plan(&point, Path::new(""), &Build::ideal()).unwrap().plan;
            let estimated = flows(&point, &plan, std::iter::once(0), Path::new("")).unwrap()[0].1;
            let job = Job { point: 0, seed: 1 };
            let rows = job::run(&source, Path::new(""), job, 1, &job::Progress::default()).unwrap();
            let simulated = rows[&FLOWS].len() as f64;
            assert!(
                (0.7..1.5).contains(&(estimated / simulated)),
                "{load}: {estimated} and {simulated} flows"
            );
        }
    }

    #[test]
    fn loads_with_too_many_flows_for_memory_are_refused() {
        for load in [
            "kind = \"poisson\"\nload = 1\nsize = \"1B\"",
            "kind = \"incast\"\nfan_in = 2\nsize = \"1KB\"\nopen = true\ngap = \"1ns\"",
            "kind = \"on-off\"\npairs = [[0, 1], [2, 3]]\nsize = \"1B\"\ngap = \"1ns\"",
        ] {
            let error = model(&scenario("1000s", load), 0, 1, Path::new(""), 1).err().unwrap();
            assert!(error.to_string().contains("load `q` alone makes about"), "{load}: {error}");
        }
    }

    #[test]
    fn error_for_too_many_flows_names_the_largest_load() {
        let kinds = kinds();
        let takes = takes(&kinds);
        let loads = [("few", 10.0), ("many", 1e9)];
        fit(&kinds, 8, None, &loads, room(takes + 1_450 * 1_000_000_010, 1)).unwrap();
        let message =
            fit(&kinds, 8, None, &loads, room(takes + 1_450 * 1_000_000_009, 1)).unwrap_err().to_string();
        assert!(message.contains("load `many` alone makes about 1000000000 flows"), "{message}");
    }
}

mod components;
mod hosts;
mod import;
mod loads;
mod memory;
mod plan;
mod schedule;
mod switches;

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

pub use import::Import;
pub use memory::Room;
pub use plan::named;
pub use schedule::Schedule;
use xoff_sim::flows::FlowFabric;
use xoff_sim::scheduled::AnySwitch;
use xoff_sim::topology::Build;
use xoff_sim::{NodeId, Picos, Purpose, Seed};
use xoff_wire::units::Nanos;

use xoff_switch::machine;

use crate::scenario::{self, Source};

pub type AnyFabric = FlowFabric<AnySwitch>;

pub struct Model {
    pub fabric: AnyFabric,
    pub kinds: Vec<&'static str>,
    pub peers: Vec<Vec<String>>,
    /// Names of loads; a flow's tag is the index of its load.
    pub loads: Vec<String>,
    pub schedule: Schedule,
    pub import: Option<Import>,
    pub warnings: Vec<String>,
}

/// Builds the model of a run.
///
/// # Errors
/// If memory does not suffice for `runs` such runs at once.
pub fn model(source: &Source, point: usize, seed: u64, path: &Path, runs: usize) -> miette::Result<Model> {
    let scenario = source.point(point)?;
    let mut bare = plan::plan(&scenario, path, &Build::ideal())?;
    let mut notes = std::mem::take(&mut bare.notes);
    let imported = import::flows(&scenario, bare.nodes.as_ref(), path, &mut notes)?;
    let (ports, peers) = plan::ports(&bare.plan, &scenario.hosts);
    let kinds = plan::kinds(&scenario, &bare.plan);
    let classes = imported.iter().flatten().map(|flow| flow.plan.class);
    let lossy = hosts::lossy_classes(&scenario).iter().chain(classes).collect();
    let configured = switches::configured((source, point, &scenario.changes), &kinds, &ports, lossy)?;
    let flows = memory::flows(&scenario, &bare.plan, imported.iter().map(Vec::len), path)?;
    let (room, scheduled) = (Room { machine: machine::memory(), runs }, scenario.topology.scheduled());
    memory::fit(&configured.kinds, bare.plan.hosts(), scheduled, &flows, room)?;
    let next = Cell::new(0);
    let build = Build::new(|_, _| {
        let number = next.replace(next.get() + 1);
        Arc::clone(&configured.kinds[number])
    });
    let build = build.spreading(|_| scenario.topology.spread);
    let planned = plan::plan(&scenario, path, &build)?;
    let plan = planned.plan;
    let import = planned.nodes.map(|nodes| Import::new(nodes, &plan, &imported));
    let mut settings = scenario.hosts.clone();
    if let Some(reaction) = &mut settings.qcn {
        reaction.seed = Seed(seed).number(NodeId(u32::MAX), Purpose::Sample);
    }
    let mut fabric = FlowFabric::of_any(&plan, Seed(seed), settings, scheduled);
    hosts::slow_down(&mut fabric, &scenario, &plan)?;
    let mut loads = Vec::new();
    for ((number, load), imported) in (0..).zip(&scenario.loads).zip(&imported) {
        // Each load has its own seed, so that its random numbers do not depend on other loads.
        let seed = Seed(Seed(seed).number(NodeId(number), Purpose::Load));
        loads::add(&mut fabric, &scenario, (load, imported), (&plan, seed), path)?;
        loads.push(load.name.clone());
    }
    let mut faults = scenario.faults.clone();
    faults.extend(planned.lossy.iter().map(|&(at, lost)| scenario::Fault::lossy(at, lost)));
    let schedule = Schedule::new((faults, configured.revisions), plan, &mut fabric, Seed(seed))?;
    let warnings = configured.warnings.into_iter().chain(notes).collect();
    Ok(Model { fabric, kinds, peers, loads, schedule, import, warnings })
}

fn picos(time: Nanos) -> Picos {
    Picos::from(time)
}

//! From a scenario to a fabric with its loads.

mod faults;
mod hosts;
mod loads;
mod plan;
mod switches;

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

pub use faults::Faults;
use xoff_config::scenario::Source;
use xoff_dataplane::units::Nanos;
use xoff_sim::flows::FlowFabric;
use xoff_sim::topology::Build;
use xoff_sim::{Picos, Seed};

/// What a run is made of.
pub struct Model {
    /// Switches, hosts, flows.
    pub fabric: FlowFabric,
    /// By switch: its kind.
    pub kinds: Vec<&'static str>,
    /// By switch and port: who is at the other end.
    pub peers: Vec<Vec<String>>,
    /// Most payload of a frame.
    pub payload_max: u32,
    /// Names of loads, by the tags of their flows.
    pub loads: Vec<String>,
    /// What goes wrong.
    pub faults: Faults,
    /// What is doubtful about what switches are told.
    pub warnings: Vec<String>,
}

/// Makes it for a point of the sweep and a seed. Files that loads name are looked for beside `path`.
///
/// # Errors
/// What the scenario says and the fabric cannot have.
pub fn model(source: &Source, point: usize, seed: u64, path: &Path) -> miette::Result<Model> {
    let scenario = source.point(point)?;
    let bare = plan::plan(&scenario, path, &Build::ideal())?;
    let (ports, peers) = plan::ports(&bare, &scenario.hosts);
    let kinds = plan::kinds(&scenario, &bare);
    let (configured, warnings) =
        switches::configured(source, point, &kinds, &ports, hosts::lossy_classes(&scenario))?;
    let next = Cell::new(0);
    let build = Build::new(|_, _| {
        let number = next.replace(next.get() + 1);
        Arc::clone(&configured[number])
    });
    let build = build.spreading(|_| scenario.topology.spread);
    let plan = plan::plan(&scenario, path, &build)?;
    let settings = hosts::settings(&scenario);
    let payload_max = settings.payload_max;
    let mut fabric = FlowFabric::new(&plan, Seed(seed), settings);
    let mut loads = Vec::new();
    for (number, load) in (0..).zip(&scenario.loads) {
        // Each load draws for itself.
        let seed = Seed(Seed(seed).number(xoff_sim::NodeId(number), xoff_sim::Purpose::Load));
        loads::add(&mut fabric, &scenario, load, (&plan, payload_max, seed), path)?;
        loads.push(load.name.clone());
    }
    let faults = Faults::new(&scenario.faults, &plan, &mut fabric, Seed(seed))?;
    Ok(Model { fabric, kinds, peers, payload_max, loads, faults, warnings })
}

fn picos(time: Nanos) -> Picos {
    Picos::from(time)
}

use std::path::Path;

use miette::miette;
use xoff_config::file::read_text;
use xoff_sim::hpcc::{self, ImportedFlow, ImportedFlows, Nodes};
use xoff_sim::{At, Line, Plan};

use super::super::files::IMPORTED;
use super::loads;
use super::plan::ends;
use crate::scenario::{self, LoadKind, Scenario};

#[derive(Debug)]
pub struct Import {
    pub nodes: Nodes,
    pub ends: Vec<Vec<(At, Line)>>,
    pub ports: Vec<Vec<u16>>,
}

impl Import {
    pub(super) fn new(nodes: Nodes, plan: &Plan, flows: &[Vec<ImportedFlow>]) -> Import {
        let ports = flows.iter().map(|flows| flows.iter().map(|flow| flow.port).collect());
        Import { nodes, ends: ends(plan), ports: ports.collect() }
    }
}

pub(super) fn flows(
    scenario: &Scenario,
    nodes: Option<&Nodes>,
    path: &Path,
    notes: &mut Vec<String>,
) -> miette::Result<Vec<Vec<ImportedFlow>>> {
    let mut all = Vec::new();
    for load in &scenario.loads {
        if load.kind != LoadKind::Hpcc {
            all.push(Vec::new());
            continue;
        }
        let Some(nodes) = nodes else {
            return Err(miette!(
                help = "set `topology.kind = \"hpcc\"`, or use a load of kind \"flows\"",
                "load `{}` has flows between nodes of an imported topology, but the topology is not imported",
                load.name
            ));
        };
        let file = scenario::relative_to(path, &load.file);
        let ImportedFlows { flows, notes: of_file } = hpcc::flows(&read_text(&file, IMPORTED)?, nodes)
            .map_err(|error| miette!("{}: {error}", file.display()))?;
        notes.extend(of_file.iter().map(|note| format!("{}: {note}", load.file.display())));
        loads::check_start_times(&file, flows.iter().map(|flow| flow.plan.start), scenario)?;
        all.push(flows);
    }
    Ok(all)
}

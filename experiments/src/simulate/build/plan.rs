use std::path::Path;

use miette::miette;
use xoff_config::file::read_text;
use xoff_flow_control::settings::MEMBERS_MAX;
use xoff_sim::flows::HostSettings;
use xoff_sim::hpcc::{self, Imported, Nodes};
use xoff_sim::topology::{Build, Dumbbell, FatTree, Graph, LeafSpine, Ring, edge_list, ofc_fig1};
use xoff_sim::{At, Line, Plan};
use xoff_wire::units::{Nanos, PORTS_MAX};

use super::super::files::{IMPORTED, LINKS};
use super::picos;
use crate::scenario::{self, PortLine, Scenario, TopologyKind};

pub(super) struct Planned {
    pub plan: Plan,
    pub nodes: Option<Nodes>,
    pub lossy: Vec<(At, f64)>,
    pub notes: Vec<String>,
}

fn line(port: PortLine) -> Line {
    Line { rate: port.rate, delay: picos(port.delay) }
}

fn few(what: &str, count: u32) -> miette::Result<u8> {
    u8::try_from(count).map_err(|_| miette!("{count} {what} are too many: the maximum is 255"))
}

fn fits(what: &str, ports: u32) -> miette::Result<()> {
    if ports as usize > PORTS_MAX {
        return Err(miette!("{what} would have {ports} ports, but a switch has at most {PORTS_MAX}"));
    }
    Ok(())
}

pub(super) fn plan(scenario: &Scenario, path: &Path, build: &Build) -> miette::Result<Planned> {
    if scenario.topology.kind == TopologyKind::Hpcc {
        let Imported { plan, nodes, lossy, notes } = imported(scenario, path, build)?;
        spreads(&plan)?;
        let of_file = |note: String| format!("{}: {note}", scenario.topology.file.display());
        let notes = notes.into_iter().map(of_file).collect();
        return Ok(Planned { plan, nodes: Some(nodes), lossy, notes });
    }
    let plan = of_kind(scenario, path, build)?;
    spreads(&plan)?;
    Ok(Planned { plan, nodes: None, lossy: Vec::new(), notes: Vec::new() })
}

fn spreads(plan: &Plan) -> miette::Result<()> {
    let ways = plan.forwarding().flat_map(|of| of.groups.iter().map(|group| group.members.len())).max();
    match ways.filter(|ways| *ways > MEMBERS_MAX) {
        None => Ok(()),
        Some(ways) => Err(miette!(
            help = "reduce the number of switches in upper tiers, or of links between two switches",
            "a switch would have {ways} paths to one destination, but can spread frames over at most {MEMBERS_MAX}"
        )),
    }
}

fn imported(scenario: &Scenario, path: &Path, build: &Build) -> miette::Result<Imported> {
    let file = scenario::relative_to(path, &scenario.topology.file);
    let read = hpcc::topology(&read_text(&file, IMPORTED)?, build);
    read.map_err(|error| miette!("{}: {error}", file.display()))
}

fn of_kind(scenario: &Scenario, path: &Path, build: &Build) -> miette::Result<Plan> {
    let topology = &scenario.topology;
    let (host_line, fabric, core_line) = (line(topology.host), line(topology.fabric), line(topology.core));
    Ok(match topology.kind {
        TopologyKind::Single => {
            let mut graph = Graph::default();
            let switch = graph.add_switch(0);
            (0..few("hosts", topology.hosts)?).for_each(|_| _ = graph.add_host(switch, host_line));
            graph.plan(build)
        }
        TopologyKind::Chain => {
            let mut graph = Graph::default();
            let switches: Vec<u32> = (0..topology.switches).map(|_| graph.add_switch(0)).collect();
            for end in [switches.first(), switches.last()].into_iter().flatten() {
                graph.add_host(*end, host_line);
            }
            switches.windows(2).for_each(|pair| graph.link(pair[0], pair[1], fabric));
            graph.plan(build)
        }
        TopologyKind::Dumbbell => {
            let hosts = few("hosts", topology.hosts)?;
            Dumbbell { left: hosts, right: hosts, host_line, trunk: fabric }.plan(build)
        }
        TopologyKind::Ring => {
            let switches = few("switches", topology.switches)?;
            if switches < 3 {
                return Err(miette!(
                    "a ring cannot have {switches} switches: set topology.switches to at least 3"
                ));
            }
            Ring { switches, hosts: 1, host_line, ring_line: fabric }.plan(build)
        }
        TopologyKind::OfcFig1 => ofc_fig1(fabric, build),
        TopologyKind::Hpcc => imported(scenario, path, build)?.plan,
        TopologyKind::Edges => {
            let file = scenario::relative_to(path, &topology.file);
            edge_list(&read_text(&file, LINKS)?, build)
                .map_err(|error| miette!("{}: {error}", file.display()))?
        }
        TopologyKind::LeafSpine => {
            fits("a leaf", topology.hosts.saturating_add(topology.spines))?;
            LeafSpine {
                leaves: few("leaves", topology.leaves)?,
                spines: few("spines", topology.spines)?,
                hosts: few("hosts of a leaf", topology.hosts)?,
                host_line,
                spine_line: fabric,
                without: topology.failed.clone(),
            }
            .plan(build)
        }
        TopologyKind::Scheduled => {
            fits("a leaf", topology.hosts.saturating_add(topology.spines))?;
            few("leaves", topology.leaves)?;
            topology.scheduled().expect("the kind is scheduled").plan(host_line, fabric, build)
        }
        TopologyKind::FatTree => {
            let (cores, aggregations) = (topology.cores, topology.aggregations);
            if !cores.is_multiple_of(aggregations) {
                return Err(miette!(
                    "{cores} core switches cannot be divided among the {aggregations} aggregation switches of a pod: \
                     topology.cores has to be a multiple of topology.aggregations"
                ));
            }
            fits("an edge switch", topology.hosts.saturating_add(aggregations))?;
            fits("an aggregation switch", topology.edges.saturating_add(cores / aggregations))?;
            FatTree {
                pods: few("pods", topology.pods)?,
                edges: few("edge switches of a pod", topology.edges)?,
                aggregations: few("aggregation switches of a pod", aggregations)?,
                cores: u16::try_from(cores)
                    .map_err(|_| miette!("{cores} core switches are too many: the maximum is 65535"))?,
                hosts: few("hosts of an edge switch", topology.hosts)?,
                host_line,
                edge_line: fabric,
                core_line,
            }
            .plan(build)
        }
    })
}

pub(super) fn kinds(scenario: &Scenario, plan: &Plan) -> Vec<&'static str> {
    let topology = &scenario.topology;
    let layers = match topology.kind {
        TopologyKind::LeafSpine | TopologyKind::Scheduled => vec![topology.leaves, topology.spines],
        TopologyKind::FatTree => {
            let (pods, cores) = (topology.pods, topology.cores);
            vec![pods * topology.edges, pods * topology.aggregations, cores]
        }
        _ => vec![plan.switches()],
    };
    let names = topology.kind.switches().iter();
    names.zip(layers).flat_map(|(name, count)| (0..count).map(move |_| *name)).collect()
}

pub fn named(at: At) -> String {
    match at {
        At::Host(host, 0) => format!("h{host}"),
        At::Host(host, link) => format!("h{host}p{link}"),
        At::Switch(switch, port) => format!("s{switch}p{port}"),
    }
}

pub(super) fn ends(plan: &Plan) -> Vec<Vec<(At, Line)>> {
    let mut ends: Vec<Vec<(u8, At, Line)>> = vec![Vec::new(); plan.switches() as usize];
    for &(a, b, line) in plan.links() {
        for (from, to) in [(a, b), (b, a)] {
            if let At::Switch(switch, port) = from {
                ends[switch as usize].push((port, to, line));
            }
        }
    }
    ends.iter_mut().for_each(|ports| ports.sort_by_key(|(port, ..)| *port));
    ends.into_iter().map(|ports| ports.into_iter().map(|(_, to, line)| (to, line)).collect()).collect()
}

pub(super) fn ports(plan: &Plan, hosts: &HostSettings) -> (Vec<Vec<PortLine>>, Vec<Vec<String>>) {
    let port = |&(to, line): &(At, Line)| {
        let is_trunk = matches!(to, At::Switch(..));
        PortLine {
            rate: line.rate,
            delay: Nanos(line.delay.0.div_ceil(1_000)),
            ofc: is_trunk || hosts.obeys_flows,
            gfc: is_trunk || hosts.obeys_rates,
        }
    };
    let ends = ends(plan);
    let ports = ends.iter().map(|ports| ports.iter().map(port).collect()).collect();
    let peers = ends.iter().map(|ports| ports.iter().map(|(to, _)| named(*to)).collect()).collect();
    (ports, peers)
}

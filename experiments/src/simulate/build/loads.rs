use std::path::Path;

use miette::miette;
use xoff_config::file::read_text;
use xoff_config::quantity;
use xoff_sim::flows::FlowPlan;
use xoff_sim::hpcc::ImportedFlow;
use xoff_sim::load::{
    self, Draw, Incast, IncastSettings, Jittered, Listed, OnOff, Poisson, Sizes, draw, mean_on_line,
    parse_flows, permutation, poisson, ring,
};
use xoff_sim::{At, Picos, Plan, Seed};
use xoff_wire::units::{BitRate, Class};

use super::super::files::{FLOWS, SIZES};
use super::components::Components;
use super::{AnyFabric, picos};
use crate::scenario::{self, LoadKind, LoadSettings, Scenario, Size};

pub(super) fn sizes(load: &LoadSettings, path: &Path) -> miette::Result<Sizes> {
    match &load.size {
        Size::Fixed(bytes) => Ok(Sizes::fixed(*bytes)),
        Size::Uniform(least, most) => Ok(Sizes::uniform(*least, *most)),
        Size::Table(name) => {
            Sizes::named(name, load.between).ok_or_else(|| miette!("there is no table of sizes `{name}`"))
        }
        Size::File(file) => {
            let file = scenario::relative_to(path, file);
            let text = read_text(&file, SIZES).map_err(|error| {
                let names = Sizes::names().collect::<Vec<_>>().join(", ");
                miette!(help = format!("{}; built-in tables: {names}", SIZES.help), "{error}")
            })?;
            Sizes::parse(&text, load.between).map_err(|error| miette!("{}: {error}", file.display()))
        }
    }
}

fn check_hosts(load: &LoadSettings, hosts: &[u32], count: u32) -> miette::Result<()> {
    match hosts.iter().find(|host| **host >= count) {
        None => Ok(()),
        Some(host) => Err(miette!(
            "load `{}` names host {host}, but this fabric has hosts 0 to {}",
            load.name,
            count.saturating_sub(1)
        )),
    }
}

pub(super) fn host_rate(plan: &Plan) -> BitRate {
    let mut rates = vec![0; plan.hosts() as usize];
    for (a, b, line) in plan.links() {
        for at in [a, b] {
            if let At::Host(host, _) = at {
                rates[*host as usize] += line.rate.bits_per_second();
            }
        }
    }
    rates.into_iter().min().and_then(BitRate::new).expect("a fabric must have hosts")
}

pub(super) fn check_start_times(
    file: &Path,
    starts: impl Iterator<Item = Picos>,
    scenario: &Scenario,
) -> miette::Result<()> {
    let mut starts = starts.peekable();
    if starts.peek().is_none() {
        return Err(miette!(
            help = "give another file of flows, or remove the load",
            "{}: the file contains no flow",
            file.display()
        ));
    }
    if let Some(late) = starts.find(|start| *start >= picos(scenario.limit)) {
        return Err(miette!(
            help = "set scenario.limit or scenario.duration to a later time",
            "{}: a flow starts at {}, but the run ends at {} at the latest",
            file.display(),
            quantity::time(late.floor()),
            quantity::time(scenario.limit)
        ));
    }
    Ok(())
}

pub(super) fn add(
    fabric: &mut AnyFabric,
    scenario: &Scenario,
    (load, imported): (&LoadSettings, &[ImportedFlow]),
    (plan, seed): (&Plan, Seed),
    path: &Path,
) -> miette::Result<()> {
    let hosts = plan.hosts();
    let all = || (0..hosts).collect::<Vec<u32>>();
    let fixed = if let Size::Fixed(bytes) = load.size { bytes } else { 0 };
    let (class, begin): (Class, Picos) = (load.class, picos(load.begin));
    let until = picos(load.end.unwrap_or(scenario.limit));
    if hosts < 2 {
        return Err(miette!("the fabric has {hosts} hosts, but flows need at least two"));
    }
    let components = Components::of(plan);
    let listed = |flows: Vec<FlowPlan>| -> miette::Result<Box<dyn load::Load + Send>> {
        components.check(load, flows.iter().map(|flow| (flow.from, flow.to)))?;
        Ok(Box::new(Listed(flows)))
    };
    let made = match load.kind {
        LoadKind::Poisson => {
            let from = load.hosts.clone().unwrap_or_else(all);
            check_hosts(load, &from, hosts)?;
            components.check(load, from.iter().map(|host| (from[0], *host)))?;
            if from.len() == 1 {
                return Err(miette!("load `{}` has one host, but flows need at least two", load.name));
            }
            let (framing, line) = (scenario.hosts.framing(class), host_rate(plan));
            let sizes = sizes(load, path)?;
            let share = match load.arrivals {
                None => load.load,
                Some(arrivals) => {
                    let bits = arrivals * 8.0 * mean_on_line(&sizes, framing);
                    bits / (from.len() as f64 * line.bits_per_second() as f64)
                }
            };
            let flows = Poisson { hosts: from, class, sizes, load: share, line, framing, from: begin, until };
            listed(poisson(&flows, seed))?
        }
        LoadKind::Incast => {
            let askers = load.askers.clone().unwrap_or_else(|| vec![0]);
            let servers = load.servers.clone().unwrap_or_else(all);
            check_hosts(load, &askers, hosts)?;
            check_hosts(load, &servers, hosts)?;
            components.check(load, askers.iter().chain(&servers).map(|host| (askers[0], *host)))?;
            let others = servers.iter().filter(|server| !askers.contains(server)).count();
            if (load.fan_in as usize) > others.max(servers.len().saturating_sub(1)) {
                return Err(miette!(
                    "load `{}` queries {} servers at once, but has only {others} besides the client",
                    load.name,
                    load.fan_in
                ));
            }
            let settings = IncastSettings {
                askers,
                servers,
                fan_in: load.fan_in,
                class,
                question: load.question.0,
                answer: sizes(load, path)?,
                gap: load.gap,
                is_open: load.is_open,
                deadline: load.deadline.map(picos),
                from: begin,
                until,
            };
            Box::new(Incast::new(settings, seed))
        }
        LoadKind::Permutation => {
            components.check(load, (0..hosts).map(|host| (0, host)))?; // the seed may draw any host
            listed(permutation(hosts, class, fixed, begin, seed))?
        }
        LoadKind::Ring => {
            if load.ahead.is_multiple_of(hosts) {
                return Err(miette!(
                    "load `{}`: `ahead` is {}, so on a ring of {hosts} hosts each host would send to itself",
                    load.name,
                    load.ahead
                ));
            }
            listed(ring(hosts, load.ahead, class, fixed, begin))?
        }
        LoadKind::OnOff => {
            let both: Vec<u32> = load.pairs.iter().flat_map(|&(from, to)| [from, to]).collect();
            check_hosts(load, &both, hosts)?;
            components.check(load, load.pairs.iter().copied())?;
            let times = [begin, until];
            Box::new(OnOff::new(load.pairs.clone(), class, sizes(load, path)?, load.gap, times, seed))
        }
        LoadKind::Draw => {
            let both: Vec<u32> = load.pairs.iter().flat_map(|&(from, to)| [from, to]).collect();
            check_hosts(load, &both, hosts)?;
            let (pairs, flows) = (load.pairs.clone(), load.flows);
            listed(draw(&Draw { pairs, flows, class, sizes: sizes(load, path)?, start: begin }, seed))?
        }
        LoadKind::Flows => {
            let file = scenario::relative_to(path, &load.file);
            let text = read_text(&file, FLOWS)?;
            let flows = parse_flows(&text, hosts).map_err(|error| miette!("{}: {error}", file.display()))?;
            check_start_times(&file, flows.iter().map(|flow| flow.start), scenario)?;
            listed(flows)?
        }
        LoadKind::Hpcc => listed(imported.iter().map(|flow| flow.plan).collect())?,
    };
    fabric.add_load_at(Jittered::new(made, picos(load.jitter), seed), load.rate);
    Ok(())
}

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use miette::miette;
use xoff_config::quantity;
use xoff_flow_control::settings::SwitchSettings;
use xoff_sim::{At, Line, NodeId, Picos, Plan, Purpose, Seed, Stalls};
use xoff_wire::units::{Nanos, PortId};

use super::{AnyFabric, named, picos};
use crate::scenario::{Fault, Impairment, LinkFault, SwitchFault};

#[derive(Clone, Debug)]
pub struct Revision {
    pub at: Nanos,
    pub change: usize,
    pub switch: u32,
    pub settings: Arc<SwitchSettings>,
}

/// Fault, repair or settings change at some time of the run. Simultaneous ones happen in the order of these variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TimedEvent {
    Link { fault: usize, is_up: bool },
    Settings { change: usize, revision: usize },
    Impair { fault: usize, switch: u32 },
}

#[derive(Debug)]
pub struct Schedule {
    plan: Plan,
    seed: Seed,
    faults: Vec<Fault>,
    current: BTreeMap<u32, usize>,
    revisions: Vec<Revision>,
    pending: Vec<(Picos, TimedEvent)>,
}

impl Schedule {
    pub(super) fn new(
        (faults, revisions): (Vec<Fault>, Vec<Revision>),
        plan: Plan,
        fabric: &mut AnyFabric,
        seed: Seed,
    ) -> miette::Result<Schedule> {
        let mut pending = Vec::new();
        for (number, fault) in faults.iter().enumerate() {
            match fault {
                Fault::Link(fault) => {
                    let at = end(fault, &plan)?;
                    faults[..number].iter().try_for_each(|before| check_conflict(before, fault, &plan))?;
                    apply_link_fault(fault, at, fabric, seed);
                    let change = |time, is_up| (picos(time), TimedEvent::Link { fault: number, is_up });
                    pending.extend(fault.down.map(|time| change(time, false)));
                    pending.extend(fault.up.map(|time| change(time, true)));
                }
                Fault::Switch(fault) => {
                    let begin = |switch| (picos(fault.begin), TimedEvent::Impair { fault: number, switch });
                    pending.extend(switches(fault, &plan)?.map(begin));
                }
            }
        }
        let settings = |(number, of): (usize, &Revision)| {
            (picos(of.at), TimedEvent::Settings { change: of.change, revision: number })
        };
        pending.extend(revisions.iter().enumerate().map(settings));
        pending.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Schedule { plan, seed, faults, current: BTreeMap::new(), revisions, pending })
    }

    pub fn next(&self) -> Picos {
        self.pending.last().map_or(Picos::NEVER, |(time, _)| *time)
    }

    pub fn unreached(&self) -> impl Iterator<Item = String> {
        let description = |(time, what): &(Picos, TimedEvent)| {
            let what = match *what {
                TimedEvent::Link { is_up: true, .. } => return None, // the link is down when the run ends
                TimedEvent::Link { fault, is_up: false } | TimedEvent::Impair { fault, .. } => {
                    match &self.faults[fault] {
                        Fault::Link(of) => format!("a [[fault]] at {}", named(of.at)),
                        Fault::Switch(SwitchFault { switch: Some(switch), .. }) => {
                            format!("a [[fault]] at s{switch}")
                        }
                        Fault::Switch(_) => "a [[fault]] at all switches".to_owned(),
                    }
                }
                TimedEvent::Settings { .. } => "a [[change]]".to_owned(),
            };
            Some(format!("{what} was due at {}", quantity::time(time.floor())))
        };
        self.pending.iter().rev().filter_map(description)
    }

    /// Executes due events; returns both ends of each link that goes down.
    pub fn run_due(&mut self, fabric: &mut AnyFabric) -> Vec<At> {
        let mut without_link = Vec::new();
        while self.next() <= fabric.fabric().now()
            && let Some((_, what)) = self.pending.pop()
        {
            match what {
                TimedEvent::Link { fault, is_up } => {
                    if let Fault::Link(fault) = &self.faults[fault] {
                        fabric.fabric_mut().set_link(fault.at, is_up);
                        let ends = link(fault.at, &self.plan).filter(|_| !is_up);
                        without_link.extend(ends.into_iter().flatten());
                    }
                }
                TimedEvent::Settings { revision, .. } => {
                    let Revision { switch, settings, .. } = &self.revisions[revision];
                    self.current.insert(*switch, revision);
                    fabric.fabric_mut().revise(&self.plan, self.seed, *switch, settings);
                }
                TimedEvent::Impair { fault, switch } => {
                    if let Fault::Switch(of) = &self.faults[fault] {
                        self.impair(fault, of, switch, fabric);
                    }
                }
            }
        }
        without_link
    }

    fn impair(&self, number: usize, fault: &SwitchFault, switch: u32, fabric: &mut AnyFabric) {
        let fabric = fabric.fabric_mut();
        let end = fault.end;
        match &fault.what {
            Impairment::Stall => fabric.at_dataplane(switch, |node, net| node.stall(end, net)),
            Impairment::Refusal(port) => {
                fabric.at_dataplane(switch, |node, net| node.refuse(PortId(*port), end, net));
            }
            Impairment::LateCompletions => {
                fabric.at_dataplane(switch, |node, net| node.complete_late(end, net))
            }
            Impairment::Stalls { gap, length } => {
                let stalls = Stalls { gap: *gap, length: length.clone(), until: end };
                // Each fault has its own seed, so that its random numbers do not depend on other faults.
                let number = NodeId(u32::try_from(number).unwrap_or(u32::MAX));
                let seed = Seed(self.seed.number(number, Purpose::Stalls));
                fabric.at_dataplane(switch, |node, net| node.stall_at_random(stalls, seed, net));
            }
            Impairment::Restart => {
                let settings = match self.current.get(&switch) {
                    Some(revision) => &self.revisions[*revision].settings,
                    None => &self.plan.kind(switch).settings,
                };
                fabric.restart(&self.plan, self.seed, switch, settings, end);
            }
        }
    }
}

fn link(end: At, plan: &Plan) -> Option<[At; 2]> {
    let ends = |&(one, other, _): &(At, At, Line)| [one, other];
    plan.links().iter().map(ends).find(|ends| ends.contains(&end))
}

fn end(fault: &LinkFault, plan: &Plan) -> miette::Result<At> {
    let at = fault.at;
    link(at, plan).map(|_| at).ok_or_else(|| miette!("a [[fault]] names {at}, which does not exist"))
}

fn check_conflict(before: &Fault, fault: &LinkFault, plan: &Plan) -> miette::Result<()> {
    let Fault::Link(before) = before else { return Ok(()) };
    let here = fault.at;
    let loses = |of: &LinkFault| of.lost > 0.0;
    let do_both = |say: &dyn Fn(&LinkFault) -> bool| say(before) && say(fault);
    if before.at == here && (do_both(&loses) || do_both(&has_control_faults)) {
        return Err(miette!(
            help = "write these keys in one [[fault]]",
            "two [[fault]] tables set shares of faulty frames at {here}"
        ));
    }
    let is_down = |of: &LinkFault| of.down.map(|down| down..of.up.unwrap_or(Nanos::NEVER));
    if let (Some(one), Some(other)) = (is_down(before), is_down(fault))
        && link(before.at, plan) == link(here, plan)
        && one.start <= other.end
        && other.start <= one.end
    {
        return Err(miette!(
            help = "write `down` and `up` of an outage in one [[fault]], and do not let outages overlap",
            "two [[fault]] tables have the link at {here} down at overlapping times"
        ));
    }
    Ok(())
}

fn switches(fault: &SwitchFault, plan: &Plan) -> miette::Result<Range<u32>> {
    let Some(switch) = fault.switch else { return Ok(0..plan.switches()) };
    if switch >= plan.switches() {
        let last = plan.switches().saturating_sub(1);
        return Err(miette!("a [[fault]] names switch {switch}, but this fabric has switches 0 to {last}"));
    }
    if let Impairment::Refusal(port) = fault.what
        && usize::from(port) >= plan.kind(switch).settings.ports.len()
    {
        return Err(miette!("a [[fault]] names {}, which does not exist", At::Switch(switch, port)));
    }
    Ok(switch..switch + 1)
}

fn apply_link_fault(fault: &LinkFault, at: At, fabric: &mut AnyFabric, seed: Seed) {
    let fabric = fabric.fabric_mut();
    if fault.lost > 0.0 {
        let end = fabric.end(at);
        let stream =
            Seed(seed.number(end.node, Purpose::Faults)).number(NodeId(end.port.0.into()), Purpose::Load);
        let mut rng = fastrand::Rng::with_seed(stream);
        let lost = fault.lost;
        fabric.lose(at, move |_| rng.f64() < lost);
    }
    if has_control_faults(fault) {
        fabric.harm_control(at, fault.control, seed);
    }
}

fn has_control_faults(LinkFault { control: of, .. }: &LinkFault) -> bool {
    [of.lost, of.late, of.again, of.harmed].iter().any(|share| *share > 0)
}

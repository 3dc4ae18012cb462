//! Refuses wires that make a broadcast loop or reach a switch twice.
//!
//! A switch floods to all ports outside groups and to one member of each group, except the ingress port and its group. The check covers
//! every choice of group members.

use std::collections::BTreeMap;

use xoff_config::reader::Problems;
use xoff_config::{Config, Problem};
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::PortId;

use super::wires::Wiring;
use super::{End, Link};

type Ingress = (usize, usize);

const A_HOST: usize = usize::MAX;

enum Visits {
    Bounded(Vec<u32>),
    Unbounded,
}

pub(super) fn refuse(wiring: &Wiring, configs: &[Option<Config>], names: &[&str], problems: &mut Problems) {
    let Some(switches) =
        configs.iter().map(|config| Some(&config.as_ref()?.switch)).collect::<Option<Vec<_>>>()
    else {
        return; // the missing configuration is an error already
    };
    let is_closing = |link: usize| wiring.closing.iter().any(|(closing, _)| *closing == link);
    let mut taken: Vec<bool> = (0..wiring.wires.len()).map(|link| !is_closing(link)).collect();
    for (link, span) in &wiring.closing {
        taken[*link] = true;
        let floods = Floods { wires: &wiring.wires, taken: &taken, switches: &switches };
        let ends = wiring.wires[*link].ends.map(|end| match end {
            End::Port { switch, .. } => names[switch],
            End::Host { .. } => "",
        });
        let wire = format!("the wire between {} and {}", ends[0], ends[1]);
        let problem = match floods.worst() {
            Visits::Unbounded => Problem::error(format!("{wire} closes a loop")).help(
                "a broadcast frame would circulate in the loop for ever: remove one of its wires, or join parallel wires in a \
                 [[switch.group]] at each switch that has several of them (xoff has no spanning tree protocol)",
            ),
            Visits::Bounded(visits) => match visits.iter().position(|visits| *visits > 1) {
                Some(twice) => Problem::error(format!("{wire} makes broadcast frames reach switch {} twice", names[twice]))
                    .help("join the parallel wires in a [[switch.group]] at both ends, or remove one of them"),
                None => continue,
            },
        };
        problems.push(problem.at(*span, "this wire"));
        taken[*link] = false;
    }
}

struct Floods<'a> {
    wires: &'a [Link],
    taken: &'a [bool],
    switches: &'a [&'a SwitchSettings],
}

impl Floods<'_> {
    fn worst(&self) -> Visits {
        let mut memo = BTreeMap::new();
        let mut worst = vec![0; self.switches.len()];
        for switch in 0..self.switches.len() {
            match self.visits_from((switch, A_HOST), &mut memo) {
                Visits::Bounded(visits) => raise(&mut worst, &visits),
                Visits::Unbounded => return Visits::Unbounded,
            }
        }
        Visits::Bounded(worst)
    }

    /// Counts how often a broadcast that arrives at `at` reaches each switch. In `memo`, `None` marks a port whose count has begun; a
    /// broadcast that reaches such a port loops.
    fn visits_from(&self, at: Ingress, memo: &mut BTreeMap<Ingress, Option<Vec<u32>>>) -> Visits {
        match memo.get(&at) {
            Some(Some(visits)) => return Visits::Bounded(visits.clone()),
            Some(None) => return Visits::Unbounded,
            None => memo.insert(at, None),
        };
        let mut visits = vec![0; self.switches.len()];
        visits[at.0] = 1;
        for ways in self.exits(at) {
            let mut worst = vec![0; self.switches.len()];
            for way in ways {
                match self.visits_from(way, memo) {
                    Visits::Bounded(visits) => raise(&mut worst, &visits),
                    Visits::Unbounded => return Visits::Unbounded,
                }
            }
            visits.iter_mut().zip(worst).for_each(|(visits, worst)| *visits += worst);
        }
        memo.insert(at, Some(visits.clone()));
        Visits::Bounded(visits)
    }

    /// Returns, for each copy of a broadcast, the ports at the other end of its link: several if the copy leaves by a port group.
    fn exits(&self, (switch, ingress): Ingress) -> Vec<Vec<Ingress>> {
        let settings = self.switches[switch];
        let group_of = |port: usize| {
            let is_member =
                |port: PortId| move |member: &xoff_flow_control::settings::Member| member.port == port;
            let port = u8::try_from(port).map(PortId).ok()?;
            settings.groups.iter().position(|group| group.members.iter().any(is_member(port)))
        };
        let is_uplink = |port: usize| group_of(port).is_some_and(|group| settings.groups[group].uplinks);
        let mut exits: Vec<(Option<usize>, Vec<Ingress>)> = Vec::new();
        for egress in (0..settings.ports.len()).filter(|egress| *egress != ingress) {
            let Some(far) = self.far((switch, egress)) else { continue };
            let (from, to) = (settings.ports.get(ingress), &settings.ports[egress]);
            let group = group_of(egress);
            let is_kept_apart = group.is_some() && group == group_of(ingress)
                || is_uplink(ingress) && is_uplink(egress)
                || from.is_some_and(|from| from.isolated) && to.isolated;
            if is_kept_apart || !to.flood_group && !to.flood_unknown {
                continue;
            }
            match exits.iter_mut().find(|(of, _)| group.is_some() && *of == group) {
                Some((_, ways)) => ways.push(far),
                None => exits.push((group, vec![far])),
            }
        }
        exits.into_iter().map(|(_, ways)| ways).collect()
    }

    fn far(&self, at: Ingress) -> Option<Ingress> {
        let is_at = |end: &End| matches!(*end, End::Port { switch, port } if (switch, port) == at);
        let wires = self.wires.iter().zip(self.taken).filter(|(_, taken)| **taken).map(|(wire, _)| wire);
        wires.flat_map(|wire| [wire.ends, [wire.ends[1], wire.ends[0]]]).find_map(|[near, far]| match far {
            End::Port { switch, port } if is_at(&near) => Some((switch, port)),
            End::Port { .. } | End::Host { .. } => None,
        })
    }
}

fn raise(worst: &mut [u32], visits: &[u32]) {
    worst.iter_mut().zip(visits).for_each(|(worst, visits)| *worst = (*worst).max(*visits));
}

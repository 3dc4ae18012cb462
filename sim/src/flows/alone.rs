use xoff_dataplane::routing::{Fib, RouteDecision};
use xoff_wire::ip::{Address, Packet};
use xoff_wire::units::{Bytes, CLASSES, Class, PortId, Site};

use super::FlowPlan;
use super::frames::Framing;
use super::sending::{frames, payload};
use super::transport::HostSettings;
use crate::ends::Line;
use crate::host::ip;
use crate::plan::{At, Plan};
use crate::time::{Pace, Picos};

/// Calculator of a flow's path and ideal time: its completion time if alone in the fabric.
#[derive(Clone, Debug)]
pub struct Alone {
    framing: [Framing; CLASSES],
    hosts: Vec<Vec<(Line, At)>>,
    ports: Vec<Vec<(Line, At)>>,
    next: Vec<Vec<u8>>,
}

const NONE: u8 = u8::MAX;

fn in_order(mut links: Vec<(u8, Line, At)>) -> Vec<(Line, At)> {
    links.sort_unstable_by_key(|(link, ..)| *link);
    links.into_iter().map(|(_, line, to)| (line, to)).collect()
}

fn routed(fib: &Fib, host: u32) -> Option<PortId> {
    let at = Address::V4(u32::from_be_bytes(ip(host)));
    let packet = Packet { src: at, dst: at, len: 0, hops_left: 64, has_options: false, stays_on_link: false };
    match fib.lookup(fib.interface(Site::Port(PortId(0)))?, &packet) {
        RouteDecision::Hops(hops) => hops.hops.first()?.site.port(),
        RouteDecision::Host(_) | RouteDecision::Nowhere => None,
    }
}

impl Alone {
    /// Creates a plan's calculator. All equal-cost paths must have equal lines.
    #[must_use]
    pub fn new(plan: &Plan, settings: &HostSettings) -> Alone {
        let mut hosts = vec![Vec::new(); plan.hosts() as usize];
        let mut ports: Vec<Vec<Option<(Line, At)>>> = vec![Vec::new(); plan.switches() as usize];
        for &(a, b, line) in plan.links() {
            for (from, to) in [(a, b), (b, a)] {
                match from {
                    At::Host(host, link) => hosts[host as usize].push((link, line, to)),
                    At::Switch(switch, port) => {
                        let ports = &mut ports[switch as usize];
                        ports.resize(ports.len().max(usize::from(port) + 1), None);
                        ports[usize::from(port)] = Some((line, to));
                    }
                }
            }
        }
        let next = plan.forwarding().map(|forwarding| {
            let mut next = vec![NONE; plan.hosts() as usize];
            if let Some(fib) = &forwarding.fib {
                let hosts = (0..).zip(&mut next);
                hosts.for_each(|(host, next)| *next = routed(fib, host).map_or(NONE, |port| port.0));
            }
            for (mac, port) in &forwarding.statics {
                let [_, _, number @ ..] = mac.0;
                if let Some(next) = next.get_mut(u32::from_be_bytes(number) as usize) {
                    *next = port.0;
                }
            }
            next
        });
        Alone {
            framing: Class::ALL.map(|class| settings.framing(class)),
            hosts: hosts.into_iter().map(in_order).collect(),
            next: next.collect(),
            ports: ports.into_iter().map(|ports| ports.into_iter().flatten().collect()).collect(),
        }
    }

    /// Returns the lines on the path from a host's link to another host; `None` without a path.
    #[must_use]
    pub fn way(&self, (from, link): (u32, u8), to: u32) -> Option<Vec<Line>> {
        let (line, mut at) = *self.hosts.get(from as usize)?.get(usize::from(link))?;
        let mut lines = vec![line];
        while let At::Switch(switch, _) = at {
            let port = *self.next[switch as usize].get(to as usize)?;
            let (line, end) = *self.ports[switch as usize].get(usize::from(port))?;
            lines.push(line);
            at = end;
            if lines.len() > self.ports.len() + 1 {
                return None;
            }
        }
        matches!(at, At::Host(host, _) if host == to).then_some(lines)
    }

    /// Returns the completion time of a flow alone in the fabric, sent on `link`; [`Picos::NEVER`] without a path.
    #[must_use]
    pub fn time_of(&self, plan: &FlowPlan, link: u8) -> Picos {
        let framing = self.framing[plan.class.index()];
        let count = frames(plan.bytes, framing.payload_max);
        let on_line =
            |sequence| Bytes::on_line(framing.frame_len(payload(plan.bytes, framing.payload_max, sequence)));
        let (first, last) = (on_line(0), on_line(count - 1));
        let Some(way) = self.way((plan.from, link), plan.to) else { return Picos::NEVER };
        // After each link, `before` and `end` are the arrival times of the last two frames. `slowest` is the longest
        // transmission time of a full frame so far, the spacing of all frames but the last.
        let (mut before, mut end, mut slowest) = (0, 0, 0);
        for line in way {
            let pace = Pace::of(line.rate);
            slowest = slowest.max(pace.time_of(first).0);
            before += pace.time_of(first).0 + line.delay.0;
            let free = match count {
                1 => 0,
                _ => before - line.delay.0 + u64::from(count - 2) * slowest,
            };
            end = u64::max(end, free) + pace.time_of(last).0 + line.delay.0;
        }
        Picos(end)
    }
}

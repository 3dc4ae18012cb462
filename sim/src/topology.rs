//! Fabrics of ideal switches.

use std::sync::Arc;

use xoff_dataplane::settings::{GroupSettings, Member, Spread};
use xoff_dataplane::units::PortId;

use crate::ends::Line;
use crate::host::address;
use crate::ideal::Ideal;
use crate::plan::{At, Forwarding, Plan, SwitchKind};

/// One switch with so many hosts.
#[must_use]
pub fn single(hosts: u8, line: Line) -> Plan {
    let mut plan = Plan::default();
    let statics = (0..hosts).map(|host| (address(host.into()), PortId(host))).collect();
    let switch = plan.add_switch(&kind(hosts, line), Forwarding { statics, ..Forwarding::default() });
    for port in 0..hosts {
        plan.add_host(switch, port, line);
    }
    plan
}

/// So many switches in a row, with host 0 at the first of them and host 1 at the last.
#[must_use]
pub fn chain(switches: u32, line: Line) -> Plan {
    let (left, right) = (0, 1);
    let mut plan = Plan::default();
    let kind = kind(2, line);
    for switch in 0..switches {
        let statics = vec![(address(0), PortId(left)), (address(1), PortId(right))];
        plan.add_switch(&kind, Forwarding { statics, ..Forwarding::default() });
        if switch > 0 {
            plan.link(At::Switch(switch - 1, right), At::Switch(switch, left), line);
        }
    }
    plan.add_host(0, left, line);
    plan.add_host(switches - 1, right, line);
    plan
}

/// Three layers of switches with `k` ports each: `k` pods of `k / 2` edge and as many aggregation switches, `k² / 4` core switches,
/// `k³ / 4` hosts. A flow takes one of the ways up by its hash, at the edge and once more at the aggregation; down there is one.
///
/// Within a layer switches are numbered by pod; edge switches come first, then aggregation, then core.
///
/// # Panics
/// If `k` is odd, or less than 4 or more than 128.
#[must_use]
pub fn fat_tree(k: u8, line: Line) -> Plan {
    assert!(k.is_multiple_of(2) && (4..=128).contains(&k), "a fat-tree of {k} ports");
    let tree = FatTree { k, half: k / 2 };
    let kind = kind(k, line);
    let mut plan = Plan::default();
    for pod in 0..k {
        for edge in 0..tree.half {
            plan.add_switch(&kind, tree.forwarding(Layer::Edge, pod, edge));
        }
    }
    for pod in 0..k {
        for aggregation in 0..tree.half {
            plan.add_switch(&kind, tree.forwarding(Layer::Aggregation, pod, aggregation));
        }
    }
    for row in 0..tree.half {
        for column in 0..tree.half {
            plan.add_switch(&kind, tree.forwarding(Layer::Core, row, column));
        }
    }
    for pod in 0..k {
        for edge in 0..tree.half {
            for port in 0..tree.half {
                plan.add_host(tree.switch(Layer::Edge, pod, edge), port, line);
            }
        }
    }
    for pod in 0..k {
        for one in 0..tree.half {
            for other in 0..tree.half {
                let edge = At::Switch(tree.switch(Layer::Edge, pod, one), tree.half + other);
                plan.link(edge, At::Switch(tree.switch(Layer::Aggregation, pod, other), one), line);
                let aggregation = At::Switch(tree.switch(Layer::Aggregation, pod, one), tree.half + other);
                plan.link(aggregation, At::Switch(tree.switch(Layer::Core, one, other), pod), line);
            }
        }
    }
    plan
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layer {
    Edge,
    Aggregation,
    Core,
}

struct FatTree {
    k: u8,
    half: u8,
}

impl FatTree {
    /// Number `place` of a pod, or of a row of the core: those that the same aggregation switches lead to.
    fn switch(&self, layer: Layer, pod: u8, place: u8) -> u32 {
        let [k, half, pod, place] = [self.k, self.half, pod, place].map(u32::from);
        let before = match layer {
            Layer::Edge => 0,
            Layer::Aggregation => k * half,
            Layer::Core => 2 * k * half,
        };
        before + pod * half + place
    }

    fn forwarding(&self, layer: Layer, pod: u8, place: u8) -> Forwarding {
        let half = u32::from(self.half);
        let hosts = u32::from(self.k) * half * half;
        let up = PortId(self.half);
        let port = |host: u32| {
            let of_pod = host / (half * half);
            let of_edge = host / half % half;
            let down = match layer {
                Layer::Core => Some(of_pod),
                Layer::Aggregation => (of_pod == pod.into()).then_some(of_edge),
                Layer::Edge => (of_pod == pod.into() && of_edge == place.into()).then_some(host % half),
            };
            down.and_then(|port| u8::try_from(port).ok()).map_or(up, PortId)
        };
        let members = (self.half..self.k).map(|port| Member { port: PortId(port), weight: 1 }).collect();
        let uplinks =
            GroupSettings { name: "up".to_owned(), members, spread: Spread::Flow, uplinks: true, salt: 0 };
        Forwarding {
            statics: (0..hosts).map(|host| (address(host), port(host))).collect(),
            groups: if layer == Layer::Core { Vec::new() } else { vec![uplinks] },
        }
    }
}

fn kind(ports: u8, line: Line) -> Arc<SwitchKind> {
    Arc::new(Ideal::beside(line).switch(ports))
}

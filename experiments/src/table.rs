//! Forwarding table of a simulated router, without routes to wires between other switches.

use xoff_config::Config;
use xoff_dataplane::routing::Fib;
use xoff_flow_control::settings::SwitchSettings;
use xoff_sim::Router;
use xoff_wire::units::{MacAddr, PortId};

use crate::addresses::{Route, device_address};
use crate::plan::{Plan, PortOf, SwitchId};

impl Plan {
    pub(crate) fn fib(&self, switch: SwitchId, config: &Config, settings: &SwitchSettings) -> Option<Fib> {
        let spread = config.shell.router.as_ref()?.spread;
        let mut router = Router::new(settings, self.ports_of(switch).map(device_address));
        for at in self.ports_of(switch) {
            let (address, _) = self.router_address(at);
            router.own(address);
        }
        let next = |at: &PortOf| -> Option<(PortId, MacAddr)> {
            let (_, there) = self.trunks_of(switch).find(|(here, _)| here == at)?;
            Some((at.port, device_address(there)))
        };
        for Route { host, network, next_hops } in self.routes(switch) {
            router.lead(network, next_hops.iter().filter_map(next));
            let home = self.port_of(host);
            if home.switch == switch {
                router.lead((host.ipv4(), 32), [(home.port, host.address())]);
            }
        }
        Some(router.fib(spread))
    }
}

// Tests for SPECIFICATION.md: sim-fabrics
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use xoff_config::Machine;
    use xoff_dataplane::routing::RouteDecision;
    use xoff_flow_control::punt_reason::PuntReason;
    use xoff_wire::ip::{Address, Packet};
    use xoff_wire::units::{BitRate, Site};

    use super::*;
    use crate::addresses::tests::leaf_spine;
    use crate::line::Line;
    use crate::plan::HostId;
    use crate::settings::Settings;

    fn fib(plan: &Plan, switch: SwitchId) -> Fib {
        let config = plan.config(switch, &Settings::default(), Machine::default()).unwrap();
        plan.fib(switch, &config, &config.switch).unwrap()
    }

    fn onward(fib: &Fib, dst: [u8; 4]) -> Result<BTreeSet<(PortId, [u8; 6])>, PuntReason> {
        let dst = Address::V4(u32::from_be_bytes(dst));
        let packet =
            Packet { src: dst, dst, len: 100, hops_left: 9, has_options: false, stays_on_link: false };
        match fib.lookup(fib.interface(Site::Port(PortId(0))).unwrap(), &packet) {
            RouteDecision::Host(reason) => Err(reason),
            RouteDecision::Nowhere => panic!("the destination must have a route"),
            RouteDecision::Hops(hops) => {
                Ok(hops.hops.iter().map(|hop| (hop.site.port().unwrap(), hop.dst.0)).collect())
            }
        }
    }

    fn drawn(seed: u64) -> Plan {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut plan = Plan::new(Line::simulated(BitRate::from_gbps(10))).routed();
        let switches: Vec<SwitchId> =
            (0..chance.usize(2..12)).map(|number| plan.switch(&format!("s{number}"))).collect();
        for (number, at) in switches.iter().enumerate() {
            if number < 2 || chance.bool() {
                plan.host(&format!("h{number}"), *at);
            }
        }
        for (number, at) in switches.iter().enumerate().skip(1) {
            plan.trunk(*at, switches[chance.usize(..number)]);
        }
        for _ in 0..chance.usize(..2 * switches.len()) {
            let [a, b] = [(); 2].map(|()| chance.usize(..switches.len()));
            let is_new =
                |plan: &Plan| plan.trunks_of(switches[a]).all(|(_, there)| there.switch != switches[b]);
            if a != b && is_new(&plan) {
                plan.trunk(switches[a], switches[b]);
            }
        }
        plan
    }

    fn distances(plan: &Plan) -> Vec<Vec<usize>> {
        let count = plan.switches().count();
        let mut far = vec![vec![usize::MAX / 2; count]; count];
        far.iter_mut().enumerate().for_each(|(at, row)| row[at] = 0);
        for (a, b) in plan.trunks() {
            let (a, b) = (a.switch.0, b.switch.0);
            (far[a][b], far[b][a]) = (1.min(far[a][b]), 1.min(far[b][a]));
        }
        for by in 0..count {
            for a in 0..count {
                for b in 0..count {
                    far[a][b] = far[a][b].min(far[a][by] + far[by][b]);
                }
            }
        }
        far
    }

    #[test]
    fn simulated_router_has_exactly_the_shortest_paths() {
        for plan in (0..40).map(drawn) {
            let far = distances(&plan);
            for switch in plan.switches() {
                let fib = fib(&plan, switch);
                for host in plan.hosts() {
                    let home = plan.port_of(host);
                    let found = onward(&fib, host.ipv4().octets()).unwrap();
                    let nearer = plan.trunks_of(switch).filter(|(_, there)| {
                        far[there.switch.0][home.switch.0] + 1 == far[switch.0][home.switch.0]
                    });
                    let mut expected: BTreeSet<_> =
                        nearer.map(|(here, there)| (here.port, device_address(there).0)).collect();
                    if switch == home.switch {
                        expected.insert((home.port, host.address().0));
                    }
                    assert_eq!(found, expected, "{switch:?} {host:?} of {:?}", plan.trunks());
                    let next_hops: BTreeSet<PortId> =
                        plan.next_hops(switch, host).into_iter().map(|at| at.port).collect();
                    assert_eq!(found.iter().map(|(port, _)| *port).collect::<BTreeSet<_>>(), next_hops);
                }
            }
        }
    }

    #[test]
    fn router_punts_packets_to_itself_and_to_unresolved_hosts() {
        let (plan, [leaf_1, _, spine_1, _], [near, far]) = leaf_spine();
        let [leaf, spine] = [leaf_1, spine_1].map(|switch| fib(&plan, switch));
        let neighbour = |host: HostId, last: u8| {
            let [a, b, c, _] = host.ipv4().octets();
            [a, b, c, last]
        };
        assert_eq!(
            onward(&leaf, neighbour(near, 1)),
            Err(PuntReason::Local),
            "a packet to the host's router must be punted"
        );
        assert_eq!(
            onward(&leaf, [172, 16, 0, 0]),
            Err(PuntReason::Local),
            "a packet to the leaf's own trunk address must be punted"
        );
        assert_eq!(onward(&leaf, neighbour(near, 3)), Err(PuntReason::Unresolved));
        assert_eq!(onward(&leaf, [192, 0, 2, 1]), Err(PuntReason::NoRoute));
        for last in [1, 2, 3] {
            assert_eq!(onward(&leaf, neighbour(far, last)).unwrap().len(), 2, "by both spines");
            assert_eq!(onward(&spine, neighbour(far, last)).unwrap().len(), 1);
        }
    }

    #[test]
    fn simulated_bridges_have_no_routing_table() {
        let mut plan = Plan::new(BitRate::from_mbps(100));
        let switch = plan.switch("switch");
        plan.host("host", switch);
        let config = plan.config(switch, &Settings::default(), Machine::default()).unwrap();
        assert!(plan.fib(switch, &config, &config.switch).is_none());
    }
}

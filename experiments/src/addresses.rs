//! IP addresses and shortest paths of a plan with routers.
//!
//! Host number 256 H + L has address 10.H.L.2, and its switch port 10.H.L.1. Wire N between switches has 172.16.0.0 + 2N
//! and 172.16.0.0 + 2N + 1.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use xoff_wire::units::MacAddr;

use crate::plan::{HostId, Plan, PortOf, SwitchId};

pub struct Route {
    pub host: HostId,
    pub network: (Ipv4Addr, u8),
    pub next_hops: Vec<PortOf>,
}

const WIRES: Ipv4Addr = Ipv4Addr::new(172, 16, 0, 0);

impl Plan {
    pub fn gateway(&self, host: HostId) -> Option<MacAddr> {
        self.is_routed().then(|| device_address(self.port_of(host)))
    }

    pub fn router_address(&self, at: PortOf) -> (Ipv4Addr, u8) {
        let wire = self.trunks().iter().position(|&(a, b)| a == at || b == at);
        match (wire, self.hosts().find(|&host| self.port_of(host) == at)) {
            (Some(wire), _) => (wire_address(wire, self.trunks()[wire].1 == at), 31),
            (None, Some(host)) => (Ipv4Addr::from_bits(network(host).to_bits() + 1), NETWORK_LEN),
            (None, None) => unreachable!("every port must have a wire"),
        }
    }

    pub fn routes(&self, switch: SwitchId) -> impl Iterator<Item = Route> {
        self.hosts().map(move |host| Route {
            host,
            network: (network(host), NETWORK_LEN),
            next_hops: self.next_hops(switch, host),
        })
    }

    pub(crate) fn next_hops(&self, switch: SwitchId, host: HostId) -> Vec<PortOf> {
        let home = self.port_of(host);
        if home.switch == switch {
            return vec![home];
        }
        let far = self.distances(home.switch);
        self.trunks_of(switch).filter(|(_, b)| far[b.switch.0] + 1 == far[switch.0]).map(|(a, _)| a).collect()
    }

    fn distances(&self, from: SwitchId) -> Vec<usize> {
        let mut far = vec![usize::MAX - 1; self.switches().count()];
        far[from.0] = 0;
        let mut frontier = VecDeque::from([from]);
        while let Some(at) = frontier.pop_front() {
            for (_, b) in self.trunks_of(at) {
                if far[b.switch.0] > far[at.0] + 1 {
                    far[b.switch.0] = far[at.0] + 1;
                    frontier.push_back(b.switch);
                }
            }
        }
        far
    }
}

pub fn device_address(at: PortOf) -> MacAddr {
    let [.., high, low] = at.switch.0.to_be_bytes();
    MacAddr([0x02, 0, 0x01, high, low, at.port.0])
}

const NETWORK_LEN: u8 = 24;

fn network(host: HostId) -> Ipv4Addr {
    Ipv4Addr::from_bits(host.ipv4().to_bits() & !0xff)
}

pub fn wire_address(wire: usize, is_second: bool) -> Ipv4Addr {
    let number = u32::try_from(2 * wire).expect("a plan must not have more wires than there are addresses")
        + u32::from(is_second);
    Ipv4Addr::from_bits(WIRES.to_bits() + number)
}

#[cfg(test)]
pub(crate) mod tests {
    use xoff_host::payload::ip_address;
    use xoff_wire::units::BitRate;

    use super::*;

    pub(crate) fn leaf_spine() -> (Plan, [SwitchId; 4], [HostId; 2]) {
        let mut plan = Plan::new(BitRate::from_mbps(100)).routed();
        let switches = ["leaf-1", "leaf-2", "spine-1", "spine-2"].map(|name| plan.switch(name));
        let [leaf_1, leaf_2, spine_1, spine_2] = switches;
        let hosts = [("near", leaf_1), ("far", leaf_2)].map(|(name, leaf)| plan.host(name, leaf));
        for (leaf, spine) in [(leaf_1, spine_1), (leaf_1, spine_2), (leaf_2, spine_1), (leaf_2, spine_2)] {
            plan.trunk(leaf, spine);
        }
        (plan, switches, hosts)
    }

    #[test]
    fn host_address_is_in_subnet_of_its_router() {
        let (plan, _, [near, far]) = leaf_spine();
        assert_eq!([near, far].map(|host| host.ipv4().to_string()), ["10.0.1.2", "10.0.2.2"]);
        assert_eq!(
            ip_address(near.address()),
            near.ipv4(),
            "the IP address must be the source address of the frames"
        );
        assert_eq!(plan.router_address(plan.port_of(far)), (Ipv4Addr::new(10, 0, 2, 1), 24));
        assert_eq!(plan.gateway(far), Some(device_address(plan.port_of(far))));
        let mut bridged = Plan::new(BitRate::from_mbps(100));
        let switch = bridged.switch("switch");
        let host = bridged.host("host", switch);
        assert_eq!(bridged.gateway(host), None, "hosts of a bridged plan must not have a gateway");
    }

    #[test] // proves: cascade
    fn experiment_routes_use_all_shortest_paths() {
        let (plan, [leaf_1, leaf_2, spine_1, _], [near, far]) = leaf_spine();
        let next_hops = |switch, host| -> Vec<&str> {
            plan.next_hops(switch, host).iter().map(|&at| plan.port_name(at)).collect()
        };
        assert_eq!(next_hops(leaf_1, far), ["to-spine-1", "to-spine-2"]);
        assert_eq!(next_hops(spine_1, far), ["to-leaf-2"]);
        assert_eq!(next_hops(leaf_2, near), ["to-spine-1", "to-spine-2"]);
        assert_eq!(next_hops(leaf_1, near), ["near"]);
    }
}

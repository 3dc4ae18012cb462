//! Routing table of a simulated router. No routing protocol runs; packets to the router itself are dropped and counted
//! by reason.

use std::net::Ipv4Addr;

use xoff_dataplane::routing::{Fib, Interface, NextHop, Routes, Target};
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::{PortSettings, Spread, SwitchSettings};
use xoff_wire::ip::Address;
use xoff_wire::units::{ETHERNET_HEADER, MacAddr, PortId, Site};

/// Interfaces and routes from which a router's routing table is built.
#[derive(Clone, Debug)]
pub struct Router {
    interfaces: Vec<Interface>,
    routes: Routes,
}

impl Router {
    /// Creates a router with a MAC address per port.
    #[must_use]
    pub fn new(settings: &SwitchSettings, addresses: impl IntoIterator<Item = MacAddr>) -> Router {
        let interface = |((port, mac), settings): ((u8, MacAddr), &PortSettings)| {
            let mtu = settings.mtu_frame.saturating_sub(ETHERNET_HEADER);
            Interface { site: Site::Port(PortId(port)), mac, mtu, table: 0 }
        };
        let interfaces = (0..=u8::MAX).zip(addresses).zip(&settings.ports).map(interface);
        Router { interfaces: interfaces.collect(), routes: Routes::default() }
    }

    /// Adds an IP address of the router itself.
    pub fn own(&mut self, address: Ipv4Addr) {
        self.put((address, 32), Target::Host(PuntReason::Local));
    }

    /// Adds a route to a network (address, prefix length) by next hops (port, MAC address). Without next hops, the
    /// network is unreachable. Panics if a next hop's port does not exist.
    pub fn lead(&mut self, network: (Ipv4Addr, u8), stations: impl IntoIterator<Item = (PortId, MacAddr)>) {
        let hop = |(port, station): (PortId, MacAddr)| {
            assert!(port.index() < self.interfaces.len(), "the router has no {port:?}");
            NextHop { interface: port.index(), station: Some(station), weight: 1, mtu: None }
        };
        let hops = stations.into_iter().map(hop).collect();
        self.put(network, Target::Hops(hops));
    }

    /// Builds the routing table; `spread` distributes flows over equal-cost paths.
    #[must_use]
    pub fn fib(&self, spread: Spread) -> Fib {
        Fib::new(&self.interfaces, std::slice::from_ref(&self.routes), spread)
    }

    fn put(&mut self, (address, len): (Ipv4Addr, u8), target: Target) {
        self.routes.v4.insert((Address::V4(address.to_bits()).bits(), len), target);
    }
}

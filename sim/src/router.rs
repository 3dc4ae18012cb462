//! What a router of a fabric forwards by, as values.
//!
//! Live, a kernel and the routing daemons beside it say that. Here whoever makes the plan knows all of it beforehand: which addresses are
//! the router's own, and to which stations packets for a network go on. So nobody speaks a routing protocol or asks for an address, and
//! what is not transit ends at the router, which has no host beside it: it is dropped, and counted by that name.

use std::net::Ipv4Addr;

use xoff_dataplane::punt::PuntReason;
use xoff_dataplane::routing::{Fib, Interface, NextHop, Routes, Target};
use xoff_dataplane::settings::{PortSettings, Spread, SwitchSettings};
use xoff_dataplane::units::{ETHERNET_HEADER, MacAddr, PortId, Site};
use xoff_dataplane::wire::ip::Address;

/// A router's interfaces and routes.
#[derive(Clone, Debug)]
pub struct Router {
    /// By port.
    interfaces: Vec<Interface>,
    routes: Routes,
}

impl Router {
    /// One with an interface at each port of such a switch, and with these addresses there, which knows of no network yet.
    #[must_use]
    pub fn new(settings: &SwitchSettings, addresses: impl IntoIterator<Item = MacAddr>) -> Router {
        let interface = |((port, mac), settings): ((u8, MacAddr), &PortSettings)| {
            let mtu = settings.mtu_frame.saturating_sub(ETHERNET_HEADER);
            Interface { site: Site::Port(PortId(port)), mac, mtu, table: 0 }
        };
        let interfaces = (0..=u8::MAX).zip(addresses).zip(&settings.ports).map(interface);
        Router { interfaces: interfaces.collect(), routes: Routes::default() }
    }

    /// An address of its own.
    pub fn own(&mut self, address: Ipv4Addr) {
        self.put((address, 32), Target::Host(PuntReason::Local));
    }

    /// Packets to a network, which has a prefix so long, go on to these stations, each at a port: to one of several, as they are spread.
    /// Without any, nobody is known there.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn lead(&mut self, network: (Ipv4Addr, u8), stations: impl IntoIterator<Item = (PortId, MacAddr)>) {
        let hop = |(port, station): (PortId, MacAddr)| {
            assert!(port.index() < self.interfaces.len(), "a router without {port:?}");
            NextHop { interface: port.index(), station: Some(station), weight: 1, mtu: None }
        };
        let hops = stations.into_iter().map(hop).collect();
        self.put(network, Target::Hops(hops));
    }

    /// The table of its switch.
    #[must_use]
    pub fn fib(&self, spread: Spread) -> Fib {
        Fib::new(&self.interfaces, std::slice::from_ref(&self.routes), spread)
    }

    fn put(&mut self, (address, len): (Ipv4Addr, u8), target: Target) {
        self.routes.v4.insert((Address::V4(address.to_bits()).bits(), len), target);
    }
}

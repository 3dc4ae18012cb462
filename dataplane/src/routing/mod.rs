//! Forwarding information base (FIB): a copy of the kernel's routing tables, for look-ups by workers.
//!
//! Each interface uses one table: its VRF's, or else the main table. A [`Fib`] never changes; workers replace it
//! between two batches.

mod lpm;
mod resolutions;

use std::collections::{BTreeMap, HashMap};

pub use lpm::{Lpm, Prefix};
pub use resolutions::NEIGHBOUR_WAIT;
pub(crate) use resolutions::{Destination, Resolutions};

use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::{MEMBERS_MAX, Spread, WEIGHT_MAX};
use xoff_wire::flow::mix;
use xoff_wire::ip::{Address, Packet};
use xoff_wire::units::{MacAddr, PORTS_MAX, Site};

use crate::forward::WeightedPaths;

/// Interface of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Interface {
    pub site: Site,
    pub mac: MacAddr,
    pub mtu: u32,
    pub table: usize,
}

/// Next hop of a route. Its MAC address may be unresolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct NextHop {
    pub interface: usize,
    pub station: Option<MacAddr>,
    pub weight: u16,
    /// Maximum bytes of a packet to this next hop, if below the MTU of the interface.
    pub mtu: Option<u32>,
}

/// Target of packets to a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Target {
    Host(PuntReason),
    Nowhere,
    /// Packets go to one of these next hops (at most [`MEMBERS_MAX`]). An empty list counts as unresolved.
    Hops(Vec<NextHop>),
}

/// Routes of one routing table: prefixes with their targets.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Routes {
    /// IPv4 prefixes, left-aligned in 128 bits ([`Address::bits`]).
    pub v4: BTreeMap<Prefix, Target>,
    pub v6: BTreeMap<Prefix, Target>,
}

/// Routing decision for a packet.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum RouteDecision<'a> {
    Host(PuntReason),
    Nowhere,
    Hops(&'a Hops),
}

/// Next hop of a packet, with a resolved MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Hop {
    pub site: Site,
    /// Router's MAC address: source of forwarded packets.
    pub src: MacAddr,
    pub dst: MacAddr,
    pub mtu: u32,
}

/// Resolved next hops of a target.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Hops {
    pub hops: Box<[Hop]>,
    pub paths: WeightedPaths,
}

/// Forwarding information base of a router.
#[derive(Clone, Debug)]
pub struct Fib {
    interfaces: Box<[Interface]>,
    by_port: Box<[Option<u16>]>,
    by_vid: BTreeMap<u16, u16>,
    tables: Box<[PrefixTables]>,
    targets: Box<[ResolvedTarget]>,
    spread: Spread,
}

#[derive(Clone, Debug)]
struct PrefixTables {
    v4: Lpm,
    v6: Lpm,
    own: OwnAddresses,
}

#[derive(Clone, Debug)]
struct OwnAddresses(Box<[u64]>);

impl OwnAddresses {
    fn new(addresses: &[u32]) -> OwnAddresses {
        let mut own = OwnAddresses(vec![0; (addresses.len() / 2 + 1).next_power_of_two()].into());
        for &address in addresses {
            let (word, bit) = own.place(address);
            own.0[word] |= bit;
        }
        own
    }

    #[inline]
    fn may_have(&self, address: u32) -> bool {
        let (word, bit) = self.place(address);
        self.0[word] & bit != 0
    }

    #[inline]
    fn place(&self, address: u32) -> (usize, u64) {
        let mixed = address.wrapping_mul(0x9e37_79b9) >> 12; // Fibonacci hashing: the high bits depend on all bits
        ((mixed >> 6) as usize & (self.0.len() - 1), 1 << (mixed & 63))
    }
}

#[derive(Clone, Debug)]
enum ResolvedTarget {
    Host(PuntReason),
    Nowhere,
    Hops(Hops),
}

impl Default for Fib {
    fn default() -> Fib {
        Fib::new(&[], &[], Spread::Flow)
    }
}

impl Fib {
    /// Builds the FIB; `spread` distributes packets over next hops.
    ///
    /// # Panics
    /// If an interface or table index does not exist.
    #[must_use]
    pub fn new(interfaces: &[Interface], tables: &[Routes], spread: Spread) -> Fib {
        assert!(
            interfaces.iter().all(|interface| interface.table < tables.len()),
            "each interface must refer to an existing routing table"
        );
        let mut targets = Targets { interfaces, numbers: HashMap::new(), found: Vec::new() };
        let tables = tables
            .iter()
            .map(|routes| PrefixTables {
                v4: targets.lpm(&routes.v4),
                v6: targets.lpm(&routes.v6),
                own: OwnAddresses::new(&own_addresses(routes)),
            })
            .collect();
        let found = targets.found.into();
        let (mut by_port, mut by_vid) = (vec![None; PORTS_MAX].into_boxed_slice(), BTreeMap::new());
        for (place, interface) in (0..=u16::MAX).zip(interfaces) {
            match interface.site {
                Site::Port(port) => by_port[port.index()] = Some(place),
                Site::Vlan(vid) => _ = by_vid.insert(vid, place),
            }
        }
        Fib { interfaces: interfaces.into(), by_port, by_vid, tables, targets: found, spread }
    }

    /// Returns the interface at this port or VLAN.
    #[inline]
    #[must_use]
    pub fn interface(&self, site: Site) -> Option<&Interface> {
        let place = match site {
            Site::Port(port) => self.by_port[port.index()],
            Site::Vlan(vid) => self.by_vid.get(&vid).copied(),
        };
        self.interfaces.get(usize::from(place?))
    }

    pub(crate) fn routers_of_vlans(&self) -> impl Iterator<Item = (u16, MacAddr)> {
        self.by_vid.iter().map(|(vid, place)| (*vid, self.interfaces[usize::from(*place)].mac))
    }

    /// Returns how packets are distributed over next hops.
    #[inline]
    #[must_use]
    pub const fn spread(&self) -> Spread {
        self.spread
    }

    /// Returns whether the packet's source is an address of this host (RFC 1812 section 5.3.7). As in Linux, only IPv4
    /// is checked.
    #[inline]
    #[must_use]
    pub fn is_from_this_host(&self, interface: &Interface, packet: &Packet) -> bool {
        let Address::V4(src) = packet.src else { return false };
        let table = &self.tables[interface.table];
        table.own.may_have(src) && self.is_own(table, packet.src)
    }

    #[cold]
    fn is_own(&self, table: &PrefixTables, address: Address) -> bool {
        let found = table.v4.find(address.bits()).map(|number| &self.targets[number as usize]);
        matches!(found, Some(ResolvedTarget::Host(PuntReason::Local)))
    }

    /// Returns the routing decision for `packet`, received on `interface`.
    #[inline]
    #[must_use]
    pub fn lookup(&self, interface: &Interface, packet: &Packet) -> RouteDecision<'_> {
        self.lookup_address(interface, packet.dst)
    }

    #[inline]
    fn lookup_address(&self, interface: &Interface, dst: Address) -> RouteDecision<'_> {
        let table = &self.tables[interface.table];
        let number = match dst {
            Address::V4(_) => table.v4.find(dst.bits()),
            Address::V6(_) => table.v6.find(dst.bits()),
        };
        match number.map(|number| &self.targets[number as usize]) {
            None => RouteDecision::Host(PuntReason::NoRoute),
            Some(ResolvedTarget::Host(reason)) => RouteDecision::Host(*reason),
            Some(ResolvedTarget::Nowhere) => RouteDecision::Nowhere,
            Some(ResolvedTarget::Hops(hops)) => RouteDecision::Hops(hops),
        }
    }

    pub(crate) fn is_unresolved(&self, (site, dst): Destination) -> bool {
        let decision = self.interface(site).map(|interface| self.lookup_address(interface, dst));
        matches!(decision, Some(RouteDecision::Host(PuntReason::Unresolved)))
    }
}

fn own_addresses(routes: &Routes) -> Vec<u32> {
    let own = routes
        .v4
        .iter()
        .filter(|((_, len), target)| *len == 32 && **target == Target::Host(PuntReason::Local));
    own.map(|((bits, _), _)| u32::try_from(bits >> 96).expect("an IPv4 address must fit in 32 bits"))
        .collect()
}

struct Targets<'a> {
    interfaces: &'a [Interface],
    numbers: HashMap<Target, u32>,
    found: Vec<ResolvedTarget>,
}

impl Targets<'_> {
    fn lpm(&mut self, routes: &BTreeMap<Prefix, Target>) -> Lpm {
        Lpm::new(routes.iter().map(|(prefix, target)| (*prefix, self.number(target))))
    }

    fn number(&mut self, target: &Target) -> u32 {
        if let Some(&number) = self.numbers.get(target) {
            return number;
        }
        let number =
            u32::try_from(self.found.len()).expect("routing tables must have fewer than 2^32 targets");
        self.found.push(match target {
            Target::Host(reason) => ResolvedTarget::Host(*reason),
            Target::Nowhere => ResolvedTarget::Nowhere,
            Target::Hops(hops) => {
                self.hops(hops).map_or(ResolvedTarget::Host(PuntReason::Unresolved), ResolvedTarget::Hops)
            }
        });
        self.numbers.insert(target.clone(), number);
        number
    }

    fn hops(&self, hops: &[NextHop]) -> Option<Hops> {
        let resolved = hops.iter().filter_map(|next| {
            let interface = &self.interfaces[next.interface];
            let dst = next.station?;
            let mtu = next.mtu.map_or(interface.mtu, |mtu| mtu.min(interface.mtu));
            Some((Hop { site: interface.site, src: interface.mac, dst, mtu }, next.weight))
        });
        let (hops, weights): (Vec<Hop>, Vec<u16>) = resolved.take(MEMBERS_MAX).unzip();
        // Name a path by its next hop, so that its flows keep it when other next hops change.
        let paths = hops.iter().zip(weights).map(|(hop, weight)| (hop.name(), weight.clamp(1, WEIGHT_MAX)));
        (!hops.is_empty()).then(|| Hops { paths: WeightedPaths::new(paths), hops: hops.clone().into() })
    }
}

impl Hop {
    fn name(&self) -> u64 {
        let site = match self.site {
            Site::Port(port) => u64::from(port.0),
            Site::Vlan(vid) => 1 << 16 | u64::from(vid),
        };
        mix(site) ^ self.dst.to_number()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

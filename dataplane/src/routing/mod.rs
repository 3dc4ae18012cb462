//! Where packets go that a router sends on: what the kernel's tables say, in the form that a worker asks.
//!
//! ```text
//!   interface (a routed port, or a VLAN with a router)   its address, MTU, table
//!     table (one for each VRF)                           prefix -> target, IPv4 and IPv6
//!       target      this host | nowhere | next hops
//!         next hop  the interface, and the station there, if that is known
//! ```
//!
//! A [`Fib`] is made beside the workers from all that is known, and never changes: a worker exchanges the whole for another, between
//! two batches. What it cannot decide is for this host ([`Onward::Host`]), that is for the kernel, from whose tables it was made:
//! the kernel decides anew, answers, asks for an address, or cuts into fragments.

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

use crate::forward::Weighted;

/// An interface of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Where.
    pub site: Site,
    /// The router's address there.
    pub mac: MacAddr,
    /// Most bytes of a packet that leaves by it.
    pub mtu: u32,
    /// The table that decides about packets which come in by it, by its place in a list.
    pub table: usize,
}

/// A station that packets are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// At which interface, by its place in a list.
    pub interface: usize,
    /// The station's address; `None`: nobody knows it yet.
    pub station: Option<MacAddr>,
    /// Its share, beside others of the same target.
    pub weight: u16,
    /// Most bytes of a packet that goes there, where a route says less than its interface does.
    pub mtu: Option<u32>,
}

/// What becomes of packets to a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// The kernel has to look at each.
    Host(PuntReason),
    /// They end here.
    Nowhere,
    /// They go on, to one of these: of more than [`MEMBERS_MAX`], the first. None is as if nobody knew their addresses.
    Hops(Vec<NextHop>),
}

/// The prefixes of one table, each with what becomes of packets to it.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// IPv4. Addresses stand at the left of 128 bits ([`Address::bits`]).
    pub v4: BTreeMap<Prefix, Target>,
    /// IPv6.
    pub v6: BTreeMap<Prefix, Target>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Onward<'a> {
    /// The kernel has to look at it, for this reason.
    Host(PuntReason),
    /// It ends here: a route says so.
    Nowhere,
    /// It goes on by one of these.
    Hops(&'a Hops),
}

/// A next hop, as a frame is written for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Where it is.
    pub site: Site,
    /// The router's address there.
    pub src: MacAddr,
    /// The station's.
    pub dst: MacAddr,
    /// Most bytes of a packet.
    pub mtu: u32,
}

/// Next hops that lead to the same place; those whose stations are known.
#[derive(Clone, Debug)]
pub struct Hops {
    /// In the order of `ways`.
    pub hops: Box<[Hop]>,
    /// How they are chosen among.
    pub ways: Weighted,
}

/// All that a router knows, in the form that it is asked.
#[derive(Clone, Debug)]
pub struct Fib {
    interfaces: Box<[Interface]>,
    /// By port, the place of its interface.
    by_port: Box<[Option<u16>]>,
    /// By VID.
    by_vid: BTreeMap<u16, u16>,
    tables: Box<[Table]>,
    targets: Box<[Found]>,
    spread: Spread,
}

/// Prefixes, each with the number of its target.
#[derive(Clone, Debug)]
struct Table {
    v4: Lpm,
    v6: Lpm,
    own: OwnAddresses,
}

/// Addresses of IPv4 that are this host's, each by a bit: where that is not set an address is another's, and elsewhere it may be.
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
        let mixed = address.wrapping_mul(0x9e37_79b9) >> 12; // Fibonacci hashing: the bits above depend on all of them
        ((mixed >> 6) as usize & (self.0.len() - 1), 1 << (mixed & 63))
    }
}

#[derive(Clone, Debug)]
enum Found {
    Host(PuntReason),
    Nowhere,
    Hops(Hops),
}

/// Of a router that has no interface.
impl Default for Fib {
    fn default() -> Fib {
        Fib::new(&[], &[], Spread::Flow)
    }
}

impl Fib {
    /// What `interfaces` and `tables` say. Where there are several next hops, packets go to them as `spread` has it.
    ///
    /// # Panics
    /// If there is no interface or table at a place that is named.
    #[must_use]
    pub fn new(interfaces: &[Interface], tables: &[Routes], spread: Spread) -> Fib {
        assert!(
            interfaces.iter().all(|interface| interface.table < tables.len()),
            "a table that is not there"
        );
        let mut targets = Targets { interfaces, numbers: HashMap::new(), found: Vec::new() };
        let tables = tables
            .iter()
            .map(|routes| Table {
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

    /// The interface at `site`.
    #[inline]
    #[must_use]
    pub fn interface(&self, site: Site) -> Option<&Interface> {
        let place = match site {
            Site::Port(port) => self.by_port[port.index()],
            Site::Vlan(vid) => self.by_vid.get(&vid).copied(),
        };
        self.interfaces.get(usize::from(place?))
    }

    /// How packets are spread over several next hops.
    #[inline]
    #[must_use]
    pub const fn spread(&self) -> Spread {
        self.spread
    }

    /// Whether `packet`, which has come in by `interface`, says that it is from this host (RFC 1812 section 5.3.7). Linux looks for that
    /// in IPv4 only.
    #[inline]
    #[must_use]
    pub fn is_from_this_host(&self, interface: &Interface, packet: &Packet) -> bool {
        let Address::V4(src) = packet.src else { return false };
        let table = &self.tables[interface.table];
        table.own.may_have(src) && self.is_own(table, packet.src)
    }

    #[cold]
    fn is_own(&self, table: &Table, address: Address) -> bool {
        let found = table.v4.find(address.bits()).map(|number| &self.targets[number as usize]);
        matches!(found, Some(Found::Host(PuntReason::Local)))
    }

    /// What becomes of `packet`, which has come in by `interface`.
    #[inline]
    #[must_use]
    pub fn onward(&self, interface: &Interface, packet: &Packet) -> Onward<'_> {
        self.onward_to(interface, packet.dst)
    }

    /// What becomes of a packet to `dst` that has come in by `interface`.
    #[inline]
    fn onward_to(&self, interface: &Interface, dst: Address) -> Onward<'_> {
        let table = &self.tables[interface.table];
        let number = match dst {
            Address::V4(_) => table.v4.find(dst.bits()),
            Address::V6(_) => table.v6.find(dst.bits()),
        };
        match number.map(|number| &self.targets[number as usize]) {
            None => Onward::Host(PuntReason::NoRoute),
            Some(Found::Host(reason)) => Onward::Host(*reason),
            Some(Found::Nowhere) => Onward::Nowhere,
            Some(Found::Hops(hops)) => Onward::Hops(hops),
        }
    }

    /// Whether packets to a destination wait for a neighbour.
    pub(crate) fn is_unresolved(&self, (site, dst): Destination) -> bool {
        let onward = self.interface(site).map(|interface| self.onward_to(interface, dst));
        matches!(onward, Some(Onward::Host(PuntReason::Unresolved)))
    }
}

/// Addresses of IPv4 that `routes` have for this host's.
fn own_addresses(routes: &Routes) -> Vec<u32> {
    let own = routes
        .v4
        .iter()
        .filter(|((_, len), target)| *len == 32 && **target == Target::Host(PuntReason::Local));
    own.map(|((bits, _), _)| u32::try_from(bits >> 96).expect("32 bits")).collect()
}

/// Targets as they are numbered: equal ones once.
struct Targets<'a> {
    interfaces: &'a [Interface],
    numbers: HashMap<Target, u32>,
    found: Vec<Found>,
}

impl Targets<'_> {
    fn lpm(&mut self, routes: &BTreeMap<Prefix, Target>) -> Lpm {
        Lpm::new(routes.iter().map(|(prefix, target)| (*prefix, self.number(target))))
    }

    fn number(&mut self, target: &Target) -> u32 {
        if let Some(&number) = self.numbers.get(target) {
            return number;
        }
        let number = u32::try_from(self.found.len()).expect("fewer than 2^32 targets");
        self.found.push(match target {
            Target::Host(reason) => Found::Host(*reason),
            Target::Nowhere => Found::Nowhere,
            Target::Hops(hops) => self.hops(hops).map_or(Found::Host(PuntReason::Unresolved), Found::Hops),
        });
        self.numbers.insert(target.clone(), number);
        number
    }

    /// Those whose stations are known; `None` where none is.
    fn hops(&self, hops: &[NextHop]) -> Option<Hops> {
        let known = hops.iter().filter_map(|next| {
            let interface = &self.interfaces[next.interface];
            let dst = next.station?;
            let mtu = next.mtu.map_or(interface.mtu, |mtu| mtu.min(interface.mtu));
            Some((Hop { site: interface.site, src: interface.mac, dst, mtu }, next.weight))
        });
        let (hops, weights): (Vec<Hop>, Vec<u16>) = known.take(MEMBERS_MAX).unzip();
        // Flows stay where they are when another hop comes or goes.
        let ways = hops.iter().zip(weights).map(|(hop, weight)| (hop.name(), weight.clamp(1, WEIGHT_MAX)));
        (!hops.is_empty()).then(|| Hops { ways: Weighted::new(ways), hops: hops.clone().into() })
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

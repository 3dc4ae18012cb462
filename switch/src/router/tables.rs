//! Copies of the kernel's routing tables, from which [`Tables::fib`] builds the workers' table. The kernel's rules apply:
//!
//! * Of several routes to a prefix, the one with the lowest metric and a usable next hop applies.
//! * An interface without VRF uses the tables local, main and default, in this order; an interface of a VRF only the VRF's table.
//!   Packets without a route go to the kernel.
//! * Known stations on an interface's own network get host routes. The kernel gets packets to unknown stations, and resolves them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use xoff_config::shell::RouterInterface;
use xoff_dataplane::routing::{Fib, Interface, Lpm, NextHop, Routes, Target};
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::Spread;
use xoff_netlink::Nexthop;
use xoff_wire::ip::Address;
use xoff_wire::units::{MacAddr, Site};

use super::presence::Presence;

pub(super) type Nexthops = BTreeMap<u32, Nexthop>;

/// Numbers of the kernel's routing tables (RT_TABLE_*).
pub mod table {
    pub const DEFAULT: u32 = 253;
    pub const MAIN: u32 = 254;
    pub const LOCAL: u32 = 255;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLink {
    pub name: String,
    pub mac: MacAddr,
    pub mtu: u32,
    /// True if the link is up and has a carrier.
    pub is_running: bool,
    pub is_up: bool,
    pub master: Option<u32>,
    pub vrf_table: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteKind {
    Unicast(Vec<Via>),
    /// Route to an address of this host, or to a broadcast, anycast or multicast address.
    Local,
    Blackhole,
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via {
    pub link: u32,
    pub gateway: Option<IpAddr>,
    pub weight: u16,
    pub is_dead: bool,
    /// True if the path encapsulates packets (RTA_ENCAP), which only the kernel can do.
    pub is_encapsulated: bool,
    /// MTU of the route in bytes (RTAX_MTU); `None` if not set.
    pub mtu: Option<u32>,
}

/// Router interfaces by interface index, which stays when an interface is renamed.
pub type Configured = HashMap<u32, RouterInterface>;

pub type Prefix = (IpAddr, u8);

pub type RouteKey = (u32, Prefix, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    pub mac: MacAddr,
    /// True if the neighbour entry must stay unchanged, such as a permanent one.
    pub is_fixed: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Tables {
    links: BTreeMap<u32, KernelLink>,
    neighbours: BTreeMap<(u32, IpAddr), Station>,
    routes: BTreeMap<RouteKey, RouteKind>,
    pub(super) nexthops: Nexthops,
    /// Keys that several routes have; only the first such route applies.
    several: BTreeSet<RouteKey>,
}

#[derive(Debug)]
pub struct Built {
    pub fib: Fib,
    pub stations: BTreeSet<(u32, IpAddr)>,
    pub routes: [usize; 2],
    pub presence: Vec<(Site, Presence)>,
    pub took: Duration,
}

impl Tables {
    pub fn put_link(&mut self, index: u32, link: KernelLink) {
        self.links.insert(index, link);
    }

    pub fn remove_link(&mut self, index: u32) {
        self.links.remove(&index);
        self.neighbours.retain(|(link, _), _| *link != index);
    }

    #[must_use]
    pub fn link(&self, index: u32) -> Option<&KernelLink> {
        self.links.get(&index)
    }

    /// Stores the station (MAC address) of a neighbour; `None` removes the neighbour. Returns whether the MAC address
    /// changed.
    pub fn put_neighbour(&mut self, link: u32, address: IpAddr, station: Option<Station>) -> bool {
        let before = match station {
            Some(station) => self.neighbours.insert((link, address), station),
            None => self.neighbours.remove(&(link, address)),
        };
        before.map(|before| before.mac) != station.map(|station| station.mac)
    }

    #[must_use]
    pub fn station(&self, link: u32, address: IpAddr) -> Option<&Station> {
        self.neighbours.get(&(link, address))
    }

    #[must_use]
    pub fn route(&self, key: &RouteKey) -> Option<&RouteKind> {
        self.routes.get(key)
    }

    pub fn put_route(&mut self, key: RouteKey, kind: RouteKind) {
        self.routes.insert(key, kind);
    }

    /// Adds a route, unless another route already has the same key.
    pub fn add_route(&mut self, key: RouteKey, kind: RouteKind) {
        match self.routes.entry(key) {
            Entry::Occupied(_) => _ = self.several.insert(key),
            Entry::Vacant(place) => _ = place.insert(kind),
        }
    }

    #[must_use]
    pub fn is_one_of_several(&self, key: &RouteKey) -> bool {
        self.several.contains(key)
    }

    pub fn remove_route(&mut self, key: &RouteKey) {
        self.routes.remove(key);
    }

    pub fn take_routes(&mut self, other: Tables) {
        (self.routes, self.several, self.nexthops) = (other.routes, other.several, other.nexthops);
    }

    #[must_use]
    pub fn fib(&self, configured: &Configured, spread: Spread) -> Built {
        let begin = Instant::now();
        let mut building = Building {
            tables: self,
            interfaces: Vec::new(),
            places: HashMap::new(),
            stations: BTreeSet::new(),
        };
        let mut numbers = vec![table::MAIN];
        for (&index, link) in self.links.iter().filter(|(_, link)| link.is_up) {
            let Some(&RouterInterface { site, mtu, .. }) = configured.get(&index) else { continue };
            let number = self.table_of(link);
            let table = numbers.iter().position(|it| *it == number).unwrap_or_else(|| {
                numbers.push(number);
                numbers.len() - 1
            });
            building.places.insert(index, building.interfaces.len());
            building.interfaces.push(Interface { site, mac: link.mac, mtu: link.mtu.min(mtu), table });
        }
        let tables: Vec<Routes> = numbers.iter().map(|number| building.routes(*number)).collect();
        let count = |of: fn(&Routes) -> usize| tables.iter().map(of).sum();
        let routes = [count(|routes| routes.v4.len()), count(|routes| routes.v6.len())];
        let Building { interfaces, stations, .. } = building;
        let fib = Fib::new(&interfaces, &tables, spread);
        let presence = configured.iter().map(|(index, of)| (of.site, self.presence(*index, of.mtu)));
        Built { fib, stations, routes, presence: presence.collect(), took: begin.elapsed() }
    }

    fn presence(&self, index: u32, mtu: u32) -> Presence {
        match self.links.get(&index) {
            Some(link) if !link.is_up => Presence::Down,
            Some(link) if link.mtu > mtu => Presence::Wide,
            Some(_) => Presence::Up,
            None => Presence::Gone,
        }
    }

    fn table_of(&self, link: &KernelLink) -> u32 {
        let master = link.master.and_then(|master| self.links.get(&master));
        master.and_then(|master| master.vrf_table).unwrap_or(table::MAIN)
    }

    #[must_use]
    pub fn neighbours_towards(
        &self,
        configured: &Configured,
        site: Site,
        address: IpAddr,
    ) -> Vec<(u32, IpAddr)> {
        let interface = configured.iter().find(|(_, interface)| interface.site == site);
        let Some(link) = interface.and_then(|(index, _)| self.link(*index)) else { return Vec::new() };
        let number = self.table_of(link);
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefixes = (0..=most).rev().map(|len| (network(address, len), len));
        let mut kinds = prefixes.flat_map(|prefix| {
            stacked(&number).iter().rev().filter_map(move |number| self.best_to(*number, prefix))
        });
        let Some(RouteKind::Unicast(ways)) = kinds.next() else { return Vec::new() };
        ways.iter().map(|via| (via.link, via.gateway.unwrap_or(address))).collect()
    }

    fn best_to(&self, number: u32, prefix: Prefix) -> Option<&RouteKind> {
        let kinds =
            || self.routes.range((number, prefix, 0)..=(number, prefix, u32::MAX)).map(|(_, kind)| kind);
        kinds().find(|kind| kind.leads_on()).or_else(|| kinds().next())
    }

    fn best(&self, number: u32) -> BTreeMap<Prefix, &RouteKind> {
        let least = (IpAddr::from([0; 4]), 0);
        let mut best: BTreeMap<Prefix, &RouteKind> = BTreeMap::new();
        for ((_, prefix, _), kind) in
            self.routes.range((number, least, 0)..).take_while(|((of, ..), _)| *of == number)
        {
            let entry = best.entry(*prefix).or_insert(kind);
            if !entry.leads_on() && kind.leads_on() {
                *entry = kind;
            }
        }
        best
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Row {
    /// Number of the kernel's routing table.
    pub table: u32,
    /// Destination prefix: address and length.
    pub prefix: String,
    /// Metric; the lowest one has precedence.
    pub metric: u32,
    /// Treatment of packets: `unicast`, `local`, `blackhole` (dropped silently), or `refused` (the sender is notified).
    pub kind: String,
    /// Equal-cost paths of the route.
    pub via: Vec<RowVia>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct RowVia {
    /// Name of the egress interface.
    pub interface: String,
    /// Address of the next router; absent if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// MAC address of the next router; absent if unknown.
    pub station: Option<String>,
    /// Weight of the path among the paths of the route.
    pub weight: u16,
    /// True if the switch forwards by this path, false if the kernel does.
    pub is_of_switch: bool,
    /// True if the kernel marks the path as unusable.
    pub is_dead: bool,
}

impl Tables {
    #[must_use]
    pub fn count(&self) -> usize {
        self.routes.len()
    }

    #[must_use]
    pub fn rows(&self, configured: &Configured, from: usize, limit: usize) -> Vec<Row> {
        let row = |(&(table, (address, len), metric), kind): (&RouteKey, &RouteKind)| {
            let ways = match kind {
                RouteKind::Unicast(ways) => &ways[..],
                RouteKind::Local | RouteKind::Blackhole | RouteKind::Refused => &[],
            };
            let via = ways.iter().map(|via| self.row_via(via, configured)).collect();
            Row { table, prefix: format!("{address}/{len}"), metric, kind: kind.name().into(), via }
        };
        self.routes.iter().skip(from).take(limit).map(row).collect()
    }

    fn row_via(&self, via: &Via, configured: &Configured) -> RowVia {
        let interface =
            self.links.get(&via.link).map_or_else(|| format!("#{}", via.link), |link| link.name.clone());
        let station = via.gateway.and_then(|gateway| self.neighbours.get(&(via.link, gateway)));
        RowVia {
            is_of_switch: !via.is_encapsulated && configured.contains_key(&via.link),
            interface,
            gateway: via.gateway,
            station: station.map(|station| station.mac.to_string()),
            weight: via.weight,
            is_dead: via.is_dead,
        }
    }
}

impl RouteKind {
    const fn name(&self) -> &'static str {
        match self {
            RouteKind::Unicast(_) => "unicast",
            RouteKind::Local => "local",
            RouteKind::Blackhole => "blackhole",
            RouteKind::Refused => "refused",
        }
    }

    fn leads_on(&self) -> bool {
        match self {
            RouteKind::Unicast(ways) => ways.iter().any(|via| !via.is_dead),
            RouteKind::Local | RouteKind::Blackhole | RouteKind::Refused => true,
        }
    }

    fn network_of(&self, link: u32) -> Option<&Via> {
        let RouteKind::Unicast(ways) = self else { return None };
        ways.iter().find(|via| via.link == link && via.gateway.is_none() && !via.is_encapsulated)
    }
}

struct Building<'a> {
    tables: &'a Tables,
    interfaces: Vec<Interface>,
    places: HashMap<u32, usize>,
    stations: BTreeSet<(u32, IpAddr)>,
}

impl Building<'_> {
    fn routes(&mut self, number: u32) -> Routes {
        let mut kinds: BTreeMap<Prefix, &RouteKind> = BTreeMap::new();
        stacked(&number).iter().for_each(|number| kinds.extend(self.tables.best(*number)));
        let mut routes = Routes::default();
        for (&prefix, kind) in &kinds {
            let target = self.target(kind);
            insert(&mut routes, prefix, target);
        }
        self.add_stations(&kinds, &mut routes);
        routes
    }

    fn target(&mut self, kind: &RouteKind) -> Target {
        let ways = match kind {
            RouteKind::Local => return Target::Host(PuntReason::Local),
            RouteKind::Refused => return Target::Host(PuntReason::NoRoute),
            RouteKind::Blackhole => return Target::Nowhere,
            RouteKind::Unicast(ways) => ways,
        };
        let is_there =
            |via: &&Via| !via.is_dead && self.tables.links.get(&via.link).is_some_and(|link| link.is_running);
        let are_there = ways.iter().any(|via| is_there(&via));
        // Count paths that only the kernel can use, too: a route with such a path leaves all packets to the kernel.
        let taken = ways.iter().filter(|via| !are_there || is_there(via));
        let placed: Option<Vec<(&Via, usize)>> = taken.map(|via| Some((via, self.place(via)?))).collect();
        let Some(placed) = placed.filter(|placed| !placed.is_empty()) else {
            return Target::Host(PuntReason::Elsewhere);
        };
        let hop = |(via, interface): (&Via, usize)| {
            let station = via.gateway.and_then(|gateway| {
                self.stations.insert((via.link, gateway));
                self.tables.neighbours.get(&(via.link, gateway)).map(|station| station.mac)
            });
            NextHop { interface, station, weight: via.weight, mtu: via.mtu }
        };
        Target::Hops(placed.into_iter().map(hop).collect())
    }

    fn place(&self, via: &Via) -> Option<usize> {
        self.places.get(&via.link).copied().filter(|_| !via.is_encapsulated)
    }

    fn add_stations(&mut self, kinds: &BTreeMap<Prefix, &RouteKind>, routes: &mut Routes) {
        let all: Vec<(&Prefix, &&RouteKind)> = kinds.iter().collect();
        let of_family = |is_v4: bool| {
            let numbered = (0..).zip(&all).filter(move |(_, (prefix, _))| prefix.0.is_ipv4() == is_v4);
            Lpm::new(numbered.map(|(number, ((address, len), _))| ((bits(*address), *len), number)))
        };
        let (v4, v6) = (of_family(true), of_family(false));
        for (&(link, address), station) in &self.tables.neighbours {
            let Some(&interface) = self.places.get(&link) else { continue };
            let lpm = if address.is_ipv4() { &v4 } else { &v6 };
            let kind = lpm.find(bits(address)).map(|number| all[number as usize].1);
            if let Some(via) = kind.and_then(|kind| kind.network_of(link)) {
                self.stations.insert((link, address));
                let next = NextHop { interface, station: Some(station.mac), weight: 1, mtu: via.mtu };
                insert(routes, (address, if address.is_ipv4() { 32 } else { 128 }), Target::Hops(vec![next]));
            }
        }
    }
}

fn stacked(number: &u32) -> &[u32] {
    match *number {
        table::MAIN => &[table::DEFAULT, table::MAIN, table::LOCAL],
        _ => std::slice::from_ref(number),
    }
}

fn network(address: IpAddr, len: u8) -> IpAddr {
    let len = u32::from(len);
    match address {
        IpAddr::V4(address) => {
            (address & Ipv4Addr::from_bits(!u32::MAX.checked_shr(len).unwrap_or(0))).into()
        }
        IpAddr::V6(address) => {
            (address & Ipv6Addr::from_bits(!u128::MAX.checked_shr(len).unwrap_or(0))).into()
        }
    }
}

fn insert(routes: &mut Routes, (address, len): Prefix, target: Target) {
    let of_family = if address.is_ipv4() { &mut routes.v4 } else { &mut routes.v6 };
    of_family.insert((bits(address), len), target);
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => Address::V4(address.to_bits()).bits(),
        IpAddr::V6(address) => Address::V6(address.to_bits()).bits(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

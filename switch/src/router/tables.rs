//! What the kernel has said of its tables, as it said it, and what a worker is to make of that ([`Tables::fib`]).
//!
//! It is kept by the kernel's own keys, so that each message replaces or removes one thing, and it is read as the kernel reads it:
//!
//! * of routes to one prefix, that of the lowest metric counts which has a next hop that is there;
//! * for packets that come in by an interface of no VRF, table local stands over main and main over default; for those of a VRF, its
//!   own table. Where there is no route the kernel is asked, which knows rules beyond these;
//! * stations on the network of an interface itself are reached by what is known of each (a route of its own, to that address
//!   alone), and where nothing is known the kernel is to ask.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use xoff_config::shell::RouterInterface;
use xoff_dataplane::punt::PuntReason;
use xoff_dataplane::routing::{Fib, Interface, Lpm, NextHop, Routes, Target};
use xoff_dataplane::settings::Spread;
use xoff_dataplane::units::{MacAddr, Site};
use xoff_dataplane::wire::ip::Address;

use super::presence::Presence;

/// The kernel's numbers of its tables (RT_TABLE_*).
pub mod table {
    /// Where routes are that nobody else asks for.
    pub const DEFAULT: u32 = 253;
    /// Where routes are if nothing is said.
    pub const MAIN: u32 = 254;
    /// Addresses of this host, and of broadcasts.
    pub const LOCAL: u32 = 255;
}

/// An interface of the namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its address, if it is Ethernet's.
    pub mac: MacAddr,
    /// Most bytes of a packet.
    pub mtu: u32,
    /// It is up, and there is somebody at the other end.
    pub is_running: bool,
    /// It is up.
    pub is_up: bool,
    /// The VRF that it belongs to, by index.
    pub master: Option<u32>,
    /// The table of the VRF that it is.
    pub vrf_table: Option<u32>,
}

/// What is said of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It leads on, or to a network of this host itself.
    Unicast(Vec<Via>),
    /// To this host, or to a group that it is of.
    Local,
    /// Packets end, silently.
    Blackhole,
    /// Packets end, and the sender is told.
    Refused,
}

/// A way of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via {
    /// The interface, by index.
    pub link: u32,
    /// The next router; `None`: the destination itself is there.
    pub gateway: Option<IpAddr>,
    /// Its share.
    pub weight: u16,
    /// The kernel says that nothing is to be had there now.
    pub is_dead: bool,
    /// Something is put around packets, or done to them, as only the kernel does (RTA_ENCAP).
    pub is_encapsulated: bool,
    /// Most bytes of a packet, where the route says that (RTAX_MTU).
    pub mtu: Option<u32>,
}

/// Interfaces of the router, by index: one that is renamed stays what it is.
pub type Configured = HashMap<u32, RouterInterface>;

/// A prefix: address and length.
pub type Prefix = (IpAddr, u8);

/// What a route is known by: its table, prefix and metric.
pub type RouteKey = (u32, Prefix, u32);

/// A station, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// Its address.
    pub mac: MacAddr,
    /// Somebody has said that it stays so: nobody is to ask.
    pub is_permanent: bool,
}

/// All that the kernel has said.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// By index.
    links: BTreeMap<u32, Link>,
    /// By link and address.
    neighbours: BTreeMap<(u32, IpAddr), Station>,
    routes: BTreeMap<RouteKey, Kind>,
    /// Keys of which there are several routes, of which the first counts.
    several: BTreeSet<RouteKey>,
}

/// A table for the workers, and what it lacks.
#[derive(Debug)]
pub struct Built {
    /// It.
    pub fib: Fib,
    /// Stations that packets are sent to, known or not, each with the link where it is.
    pub stations: BTreeSet<(u32, IpAddr)>,
    /// Prefixes, by family.
    pub routes: [usize; 2],
    /// Interfaces of the router, and whether they are there.
    pub presence: Vec<(Site, Presence)>,
    /// How long it took.
    pub took: Duration,
}

impl Tables {
    /// A link is there, as it says.
    pub fn put_link(&mut self, index: u32, link: Link) {
        self.links.insert(index, link);
    }

    /// A link is gone, and with it what was there.
    pub fn remove_link(&mut self, index: u32) {
        self.links.remove(&index);
        self.neighbours.retain(|(link, _), _| *link != index);
    }

    /// A link that is there.
    #[must_use]
    pub fn link(&self, index: u32) -> Option<&Link> {
        self.links.get(&index)
    }

    /// What is known of a neighbour's address; `None`: nothing any more. True where that is otherwise than before.
    pub fn put_neighbour(&mut self, link: u32, address: IpAddr, station: Option<Station>) -> bool {
        let before = match station {
            Some(station) => self.neighbours.insert((link, address), station),
            None => self.neighbours.remove(&(link, address)),
        };
        before.map(|before| before.mac) != station.map(|station| station.mac)
    }

    /// The station of a neighbour, where anybody knows it.
    #[must_use]
    pub fn station(&self, link: u32, address: IpAddr) -> Option<&Station> {
        self.neighbours.get(&(link, address))
    }

    /// A route that is there.
    #[must_use]
    pub fn route(&self, key: &RouteKey) -> Option<&Kind> {
        self.routes.get(key)
    }

    /// A route is there.
    pub fn put_route(&mut self, key: RouteKey, kind: Kind) {
        self.routes.insert(key, kind);
    }

    /// A route is there, and counts unless one of its key was there before.
    pub fn add_route(&mut self, key: RouteKey, kind: Kind) {
        match self.routes.entry(key) {
            Entry::Occupied(_) => _ = self.several.insert(key),
            Entry::Vacant(place) => _ = place.insert(kind),
        }
    }

    /// Whether there are more routes of that key.
    #[must_use]
    pub fn is_one_of_several(&self, key: &RouteKey) -> bool {
        self.several.contains(key)
    }

    /// A route is gone.
    pub fn remove_route(&mut self, key: &RouteKey) {
        self.routes.remove(key);
    }

    /// The routes are those of `other`, of which no more is wanted.
    pub fn take_routes(&mut self, other: Tables) {
        (self.routes, self.several) = (other.routes, other.several);
    }

    /// What workers are to route by.
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

    /// The table that decides about packets which come in by `link`.
    fn table_of(&self, link: &Link) -> u32 {
        let master = link.master.and_then(|master| self.links.get(&master));
        master.and_then(|master| master.vrf_table).unwrap_or(table::MAIN)
    }

    /// The neighbours to one of which a packet for `address` goes that comes in by the interface at `site`, each with its link.
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
        let Some(Kind::Unicast(ways)) = kinds.next() else { return Vec::new() };
        ways.iter().map(|via| (via.link, via.gateway.unwrap_or(address))).collect()
    }

    /// Of the routes of a table to a prefix that which counts.
    fn best_to(&self, number: u32, prefix: Prefix) -> Option<&Kind> {
        let kinds =
            || self.routes.range((number, prefix, 0)..=(number, prefix, u32::MAX)).map(|(_, kind)| kind);
        kinds().find(|kind| kind.leads_on()).or_else(|| kinds().next())
    }

    /// Of the routes of a table, that for each prefix which counts.
    fn best(&self, number: u32) -> BTreeMap<Prefix, &Kind> {
        let least = (IpAddr::from([0; 4]), 0);
        let mut best: BTreeMap<Prefix, &Kind> = BTreeMap::new();
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

/// A route, as it is told.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Row {
    /// The kernel's number of its table.
    pub table: u32,
    /// The prefix: address and length.
    pub prefix: String,
    /// Of routes to one prefix the lowest counts.
    pub metric: u32,
    /// What becomes of packets: `unicast`, `local`, `blackhole`, or `refused` (the sender is told).
    pub kind: String,
    /// Where they go.
    pub via: Vec<RowVia>,
}

/// A way of a route, as it is told.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct RowVia {
    /// The interface.
    pub interface: String,
    /// The next router; without it the destination itself is there.
    pub gateway: Option<IpAddr>,
    /// The station's address, where anybody knows it.
    pub station: Option<String>,
    /// Its share.
    pub weight: u16,
    /// Whether the interface is one of the switch, and packets go there as they are: else the kernel forwards.
    pub is_of_switch: bool,
    /// Whether the kernel says that nothing is to be had there now.
    pub is_dead: bool,
}

impl Tables {
    /// How many routes there are that matter to who forwards.
    #[must_use]
    pub fn count(&self) -> usize {
        self.routes.len()
    }

    /// Of those routes, by table, prefix and metric, at most `limit` from place `from` on.
    #[must_use]
    pub fn rows(&self, configured: &Configured, from: usize, limit: usize) -> Vec<Row> {
        let row = |(&(table, (address, len), metric), kind): (&RouteKey, &Kind)| {
            let ways = match kind {
                Kind::Unicast(ways) => &ways[..],
                Kind::Local | Kind::Blackhole | Kind::Refused => &[],
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

impl Kind {
    const fn name(&self) -> &'static str {
        match self {
            Kind::Unicast(_) => "unicast",
            Kind::Local => "local",
            Kind::Blackhole => "blackhole",
            Kind::Refused => "refused",
        }
    }

    /// Whether packets get anywhere by it now.
    fn leads_on(&self) -> bool {
        match self {
            Kind::Unicast(ways) => ways.iter().any(|via| !via.is_dead),
            Kind::Local | Kind::Blackhole | Kind::Refused => true,
        }
    }

    /// The way by which the destination is on `link` itself.
    fn network_of(&self, link: u32) -> Option<&Via> {
        let Kind::Unicast(ways) = self else { return None };
        ways.iter().find(|via| via.link == link && via.gateway.is_none() && !via.is_encapsulated)
    }
}

/// A table for the workers, as it is made.
struct Building<'a> {
    tables: &'a Tables,
    interfaces: Vec<Interface>,
    /// By index of the link, the place of the interface.
    places: HashMap<u32, usize>,
    stations: BTreeSet<(u32, IpAddr)>,
}

impl Building<'_> {
    /// What a table says about packets that come in by its interfaces.
    fn routes(&mut self, number: u32) -> Routes {
        let mut kinds: BTreeMap<Prefix, &Kind> = BTreeMap::new();
        stacked(&number).iter().for_each(|number| kinds.extend(self.tables.best(*number)));
        let mut routes = Routes::default();
        for (&prefix, kind) in &kinds {
            let target = self.target(kind);
            insert(&mut routes, prefix, target);
        }
        self.add_stations(&kinds, &mut routes);
        routes
    }

    fn target(&mut self, kind: &Kind) -> Target {
        let ways = match kind {
            Kind::Local => return Target::Host(PuntReason::Local),
            Kind::Refused => return Target::Host(PuntReason::NoRoute),
            Kind::Blackhole => return Target::Nowhere,
            Kind::Unicast(ways) => ways,
        };
        let is_there =
            |via: &&Via| !via.is_dead && self.tables.links.get(&via.link).is_some_and(|link| link.is_running);
        let are_there = ways.iter().any(|via| is_there(&via));
        // Where one of them is a way that only the kernel can take, it is to balance among all.
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

    /// The place of the interface by which a worker can send that way.
    fn place(&self, via: &Via) -> Option<usize> {
        self.places.get(&via.link).copied().filter(|_| !via.is_encapsulated)
    }

    /// Stations that are on the network of an interface, by what `kinds` say, get a route of their own.
    fn add_stations(&mut self, kinds: &BTreeMap<Prefix, &Kind>, routes: &mut Routes) {
        let all: Vec<(&Prefix, &&Kind)> = kinds.iter().collect();
        // IPv4 comes before IPv6, and each in the order of its addresses.
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

/// The tables that decide where one does: a later one over those before it.
fn stacked(number: &u32) -> &[u32] {
    match *number {
        table::MAIN => &[table::DEFAULT, table::MAIN, table::LOCAL],
        _ => std::slice::from_ref(number),
    }
}

/// The first `len` bits of an address.
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

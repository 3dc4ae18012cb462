use std::net::IpAddr;

use xoff_netlink::Nexthop;
use xoff_netlink::packet_route::AddressFamily;
use xoff_netlink::packet_route::link::{InfoData, InfoVrf, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use xoff_netlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use xoff_netlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteNextHop, RouteNextHopFlags,
    RouteType, RouteVia,
};
use xoff_wire::units::MacAddr;

use super::tables::{KernelLink, Nexthops, RouteKey, RouteKind, Station, Via};

const IPV6_MTU_LEAST: u32 = 1280; // RFC 8200, 5

pub(super) fn link(message: &LinkMessage) -> KernelLink {
    let flags = message.header.flags;
    let mut link = KernelLink {
        name: String::new(),
        mac: MacAddr::default(),
        mtu: 0,
        is_up: flags.contains(LinkFlags::Up),
        is_running: flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        master: None,
        vrf_table: None,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(bytes) => link.mac = mac(bytes).unwrap_or_default(),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Controller(master) => link.master = (*master != 0).then_some(*master),
            LinkAttribute::LinkInfo(infos) => link.vrf_table = infos.iter().find_map(vrf_table),
            _ => {}
        }
    }
    link
}

fn vrf_table(info: &LinkInfo) -> Option<u32> {
    let LinkInfo::Data(InfoData::Vrf(data)) = info else { return None };
    data.iter().find_map(|info| match info {
        InfoVrf::TableId(table) => Some(*table),
        _ => None,
    })
}

/// Parses a neighbour entry: interface index, IP address, and station (MAC address) if the kernel forwards to it.
/// Returns `None` for a multicast address, to which nothing is routed.
pub(super) fn neighbour(message: &NeighbourMessage) -> Option<(u32, IpAddr, Option<Station>)> {
    let (mut address, mut station) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(it)) => address = Some(IpAddr::V4(*it)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(it)) => address = Some(IpAddr::V6(*it)),
            NeighbourAttribute::LinkLayerAddress(bytes) => station = mac(bytes),
            _ => {}
        }
    }
    // Accept stale neighbours, because the kernel uses them while it verifies them.
    let is_valid = matches!(
        message.header.state,
        NeighbourState::Reachable
            | NeighbourState::Stale
            | NeighbourState::Delay
            | NeighbourState::Probe
            | NeighbourState::Noarp
            | NeighbourState::Permanent
    );
    let address = address.filter(|address| !address.is_multicast())?;
    let is_fixed = is_fixed(message);
    let station = station.filter(|_| is_valid).map(|mac| Station { mac, is_fixed });
    Some((message.header.ifindex, address, station))
}

/// Returns whether to leave the entry alone, because a report of its use would make the kernel resolve a permanent
/// neighbour, or clear extended flags (`managed`, `extern_valid`).
fn is_fixed(message: &NeighbourMessage) -> bool {
    let has_ext_flags =
        |it: &NeighbourAttribute| matches!(it, NeighbourAttribute::ExtFlags(flags) if !flags.is_empty());
    matches!(message.header.state, NeighbourState::Permanent | NeighbourState::Noarp)
        || message.attributes.iter().any(has_ext_flags)
}

/// Returns the flags with which to report the entry as used; `None` for a fixed entry. A report without
/// `extern_learn` would clear that flag.
pub(super) fn use_flags(entry: Option<&NeighbourMessage>) -> Option<NeighbourFlags> {
    match entry {
        Some(entry) if is_fixed(entry) => None,
        Some(entry) => Some(NeighbourFlags::Use | (entry.header.flags & NeighbourFlags::ExtLearned)),
        None => Some(NeighbourFlags::Use),
    }
}

fn mac(bytes: &[u8]) -> Option<MacAddr> {
    bytes.try_into().ok().map(MacAddr)
}

/// Parses a route. Returns `None` for a cached route, and for one limited to a type of service or a source. A unicast route has no path
/// if its next-hop object is not in `nexthops`.
pub(super) fn route(message: &RouteMessage, nexthops: &Nexthops) -> Option<(RouteKey, RouteKind)> {
    let header = &message.header;
    let unspecified = match header.address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        AddressFamily::Inet6 => IpAddr::from([0; 16]),
        _ => return None,
    };
    let is_for_all = header.tos == 0 && header.source_prefix_length == 0;
    if !is_for_all || header.flags.contains(RouteFlags::Cloned) {
        return None;
    }
    let (mut table, mut metric, mut dst) = (u32::from(header.table), 0, unspecified);
    let is_dead = dead(header.flags.bits());
    let mut single = Via { link: 0, gateway: None, weight: 1, is_dead, is_encapsulated: false, mtu: None };
    let (mut ways, mut mtu, mut object) = (Vec::new(), None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(priority) => metric = *priority,
            RouteAttribute::Destination(address) => dst = ip(address)?,
            RouteAttribute::Oif(link) => single.link = *link,
            RouteAttribute::Gateway(address) => single.gateway = ip(address),
            RouteAttribute::Via(via) => single.gateway = of_via(via),
            RouteAttribute::Encap(_) | RouteAttribute::EncapType(_) => single.is_encapsulated = true,
            RouteAttribute::MultiPath(hops) => ways = hops.iter().map(way).collect(),
            RouteAttribute::NhId(id) => object = Some(*id),
            RouteAttribute::Metrics(metrics) => mtu = metrics.iter().find_map(mtu_of),
            _ => {}
        }
    }
    match object {
        // Take the paths from the next-hop object: without `nexthop_compat_mode`, the kernel sends only the object's id.
        Some(id) if ways.is_empty() && single.link == 0 => ways = ways_of(id, nexthops),
        _ if ways.is_empty() => ways.push(single),
        _ => {}
    }
    // The kernel never uses an IPv6 MTU below 1280, even if a route has one.
    let least = if unspecified.is_ipv6() { IPV6_MTU_LEAST } else { 0 };
    ways.iter_mut().for_each(|way| way.mtu = mtu.map(|mtu: u32| mtu.max(least)));
    let kind = match header.kind {
        RouteType::Unicast => RouteKind::Unicast(ways),
        RouteType::Local | RouteType::Broadcast | RouteType::Anycast | RouteType::Multicast => {
            RouteKind::Local
        }
        RouteType::BlackHole => RouteKind::Blackhole,
        _ => RouteKind::Refused,
    };
    Some(((table, (dst, header.destination_prefix_length), metric), kind))
}

fn mtu_of(metric: &RouteMetric) -> Option<u32> {
    match metric {
        RouteMetric::Mtu(mtu) => Some(*mtu).filter(|mtu| *mtu > 0),
        _ => None,
    }
}

fn way(hop: &RouteNextHop) -> Via {
    let is_dead = hop.flags.intersects(RouteNextHopFlags::Dead | RouteNextHopFlags::Linkdown);
    let (link, weight) = (hop.interface_index, u16::from(hop.hops) + 1);
    let mut via = Via { link, gateway: None, weight, is_dead, is_encapsulated: false, mtu: None };
    for attribute in &hop.attributes {
        match attribute {
            RouteAttribute::Gateway(address) => via.gateway = ip(address),
            RouteAttribute::Via(address) => via.gateway = of_via(address),
            RouteAttribute::Encap(_) | RouteAttribute::EncapType(_) => via.is_encapsulated = true,
            _ => {}
        }
    }
    via
}

fn ways_of(id: u32, nexthops: &Nexthops) -> Vec<Via> {
    let via = |object: &Nexthop, weight| Via {
        link: object.link,
        gateway: object.gateway,
        weight,
        is_dead: dead(object.flags),
        is_encapsulated: object.is_encapsulated,
        mtu: None,
    };
    match nexthops.get(&id) {
        Some(object) if object.members.is_empty() => vec![via(object, 1)],
        Some(Nexthop { members, .. }) => {
            members.iter().filter_map(|(id, weight)| Some(via(nexthops.get(id)?, *weight))).collect()
        }
        None => Vec::new(),
    }
}

fn dead(flags: u32) -> bool {
    flags & (1 | 16) != 0
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

fn of_via(via: &RouteVia) -> Option<IpAddr> {
    match via {
        RouteVia::Inet(address) => Some((*address).into()),
        RouteVia::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

// Tests for SPECIFICATION.md: route-mirror

use std::net::{Ipv4Addr, Ipv6Addr};

use xoff_dataplane::routing::{Hop, RouteDecision};
use xoff_netlink::Nexthop;
use xoff_netlink::packet_route::AddressFamily;
use xoff_netlink::packet_route::neighbour::{
    NeighbourAttribute, NeighbourExtFlags, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use xoff_netlink::packet_route::route::{
    RouteAttribute, RouteLwEnCapType, RouteMessage, RouteMetric, RouteNextHop, RouteType,
};
use xoff_wire::ip::Packet;
use xoff_wire::units::{PortId, Site};

use super::*;

const P1: u32 = 11;
const P2: u32 = 12;
const ETH0: u32 = 20;
const VRF: u32 = 30;

fn mac(last: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, last])
}

fn station(last: u8) -> Option<Station> {
    Some(Station { mac: mac(last), is_fixed: false })
}

fn link(name: &str) -> KernelLink {
    KernelLink {
        name: name.into(),
        mac: mac(100),
        mtu: 1500,
        is_running: true,
        is_up: true,
        master: None,
        vrf_table: None,
    }
}

fn configured() -> Configured {
    let interface = |(index, port, name): (u32, u8, &str)| {
        let site = Site::Port(PortId(port));
        (index, RouterInterface { site, name: name.to_owned(), mtu: 9000 })
    };
    [(P1, 1, "p1"), (P2, 2, "p2")].map(interface).into()
}

fn tables() -> Tables {
    let mut tables = Tables::default();
    for (index, name) in [(P1, "p1"), (P2, "p2"), (ETH0, "eth0")] {
        tables.put_link(index, link(name));
    }
    tables
}

fn net(text: &str) -> Prefix {
    let (address, len) = text.split_once('/').unwrap();
    (address.parse().unwrap(), len.parse().unwrap())
}

fn via(link: u32, gateway: Option<&str>) -> Via {
    let gateway = gateway.map(|address| address.parse().unwrap());
    Via { link, gateway, weight: 1, is_dead: false, is_encapsulated: false, mtu: None }
}

fn put(tables: &mut Tables, table: u32, prefix: &str, metric: u32, kind: RouteKind) {
    tables.put_route((table, net(prefix), metric), kind);
}

fn fate(tables: &Tables, port: u8, dst: &str) -> String {
    let built = tables.fib(&configured(), Spread::Flow);
    let Some(interface) = built.fib.interface(Site::Port(PortId(port))) else { return "no interface".into() };
    let dst = match dst.parse().unwrap() {
        IpAddr::V4(dst) => Address::V4(Ipv4Addr::to_bits(dst)),
        IpAddr::V6(dst) => Address::V6(Ipv6Addr::to_bits(dst)),
    };
    let packet = Packet {
        src: Address::V4(0x0900_0009),
        dst,
        len: 100,
        hops_left: 9,
        has_options: false,
        stays_on_link: false,
    };
    let hop = |hop: &Hop| match hop.site {
        Site::Port(port) => format!("p{}:{} ", port.0, hop.dst.0[5]),
        Site::Vlan(vid) => format!("vlan{vid}:{} ", hop.dst.0[5]),
    };
    match built.fib.lookup(interface, &packet) {
        RouteDecision::Host(reason) => reason.name().into(),
        RouteDecision::Nowhere => "nowhere".into(),
        RouteDecision::Hops(hops) => hops.hops.iter().map(hop).collect::<String>().trim_end().into(),
    }
}

#[test]
fn each_kind_of_route_has_the_same_effect_as_in_the_kernel() {
    let mut tables = tables();
    let to = |gateway| RouteKind::Unicast(vec![via(P2, Some(gateway))]);
    put(&mut tables, table::MAIN, "0.0.0.0/0", 0, to("10.2.0.9"));
    put(&mut tables, table::MAIN, "10.3.0.0/16", 0, RouteKind::Blackhole);
    put(&mut tables, table::MAIN, "10.4.0.0/16", 0, RouteKind::Refused);
    put(&mut tables, table::MAIN, "10.5.0.0/16", 0, RouteKind::Unicast(vec![via(ETH0, None)]));
    put(&mut tables, table::LOCAL, "10.2.0.1/32", 0, RouteKind::Local);
    put(&mut tables, table::DEFAULT, "10.3.0.0/16", 0, to("10.2.0.9"));
    put(&mut tables, 77, "10.6.0.0/16", 0, RouteKind::Blackhole);
    assert_eq!(fate(&tables, 1, "9.9.9.9"), "unresolved");
    tables.put_neighbour(P2, "10.2.0.9".parse().unwrap(), station(9));
    for (dst, expected) in [
        ("9.9.9.9", "p2:9"),
        ("10.3.1.1", "nowhere"),
        ("10.4.1.1", "no_route"),
        ("10.5.1.1", "elsewhere"),
        ("10.2.0.1", "local"),
        ("10.6.1.1", "p2:9"),
        ("fd00::1", "no_route"),
    ] {
        assert_eq!(fate(&tables, 1, dst), expected, "{dst}");
    }
}

#[test]
fn resolved_neighbours_have_host_routes() {
    let mut tables = tables();
    put(&mut tables, table::MAIN, "10.1.0.0/24", 0, RouteKind::Unicast(vec![via(P1, None)]));
    put(&mut tables, table::MAIN, "10.1.0.7/32", 0, RouteKind::Unicast(vec![via(P2, Some("10.2.0.9"))]));
    put(&mut tables, table::MAIN, "fd01::/64", 256, RouteKind::Unicast(vec![via(P1, None)]));
    assert_eq!([fate(&tables, 2, "10.1.0.5"), fate(&tables, 2, "fd01::5")], ["unresolved"; 2]);
    for (link, address, last) in [
        (P1, "10.1.0.5", 5),
        (P1, "fd01::5", 6),
        (P1, "10.1.0.7", 7),
        (P2, "10.2.0.9", 9),
        (P2, "10.1.0.8", 8),
        (ETH0, "10.1.0.9", 3),
    ] {
        assert!(tables.put_neighbour(link, address.parse().unwrap(), station(last)));
        assert!(!tables.put_neighbour(link, address.parse().unwrap(), station(last)), "unchanged");
    }
    for (dst, expected) in [
        ("10.1.0.5", "p1:5"),
        ("fd01::5", "p1:6"),
        ("10.1.0.7", "p2:9"), // the host route precedes the attached network
        ("10.1.0.8", "unresolved"),
        ("10.1.0.9", "unresolved"),
    ] {
        assert_eq!(fate(&tables, 2, dst), expected, "{dst}");
    }
    tables.put_neighbour(P1, "10.1.0.5".parse().unwrap(), None);
    assert_eq!(fate(&tables, 2, "10.1.0.5"), "unresolved");
}

#[test]
fn usable_route_with_lowest_metric_applies() {
    let mut tables = tables();
    let dead = Via { is_dead: true, ..via(P1, Some("10.1.0.9")) };
    put(&mut tables, table::MAIN, "10.9.0.0/16", 20, RouteKind::Unicast(vec![via(P2, Some("10.2.0.9"))]));
    put(&mut tables, table::MAIN, "10.9.0.0/16", 10, RouteKind::Unicast(vec![dead]));
    tables.put_neighbour(P1, "10.1.0.9".parse().unwrap(), station(1));
    tables.put_neighbour(P2, "10.2.0.9".parse().unwrap(), station(2));
    assert_eq!(fate(&tables, 1, "10.9.0.1"), "p2:2");
    put(&mut tables, table::MAIN, "10.9.0.0/16", 10, RouteKind::Unicast(vec![via(P1, Some("10.1.0.9"))]));
    assert_eq!(fate(&tables, 1, "10.9.0.1"), "p1:1");
}

#[test]
fn only_live_equal_cost_paths_are_used() {
    let mut tables = tables();
    let ways = vec![via(P1, Some("10.1.0.9")), via(P2, Some("fe80::9"))];
    put(&mut tables, table::MAIN, "10.9.0.0/16", 0, RouteKind::Unicast(ways.clone()));
    tables.put_neighbour(P1, "10.1.0.9".parse().unwrap(), station(1));
    assert_eq!(fate(&tables, 1, "10.9.0.1"), "p1:1", "path to an unknown neighbour is used");
    tables.put_neighbour(P2, "fe80::9".parse().unwrap(), station(2));
    assert_eq!(fate(&tables, 1, "10.9.0.1"), "p1:1 p2:2", "an IPv6 router for IPv4, too");
    tables.put_link(P1, KernelLink { is_running: false, ..link("p1") });
    assert_eq!(fate(&tables, 1, "10.9.0.1"), "p2:2", "without carrier");
    tables.put_link(P1, link("p1"));
    let marked = vec![Via { is_dead: true, ..ways[1] }, ways[0]];
    put(&mut tables, table::MAIN, "10.9.0.0/16", 0, RouteKind::Unicast(marked));
    assert_eq!(fate(&tables, 1, "10.9.0.1"), "p1:1", "path that the kernel marks dead is used");
}

#[test]
fn routes_of_other_vrfs_and_of_down_interfaces_do_not_apply() {
    let mut tables = tables();
    tables.put_link(VRF, KernelLink { vrf_table: Some(100), ..link("red") });
    tables.put_link(P2, KernelLink { master: Some(VRF), ..link("p2") });
    put(&mut tables, table::MAIN, "10.9.0.0/16", 0, RouteKind::Blackhole);
    put(&mut tables, 100, "10.2.0.1/32", 0, RouteKind::Local);
    put(&mut tables, 100, "10.2.0.0/24", 0, RouteKind::Unicast(vec![via(P2, None)]));
    tables.put_neighbour(P2, "10.2.0.5".parse().unwrap(), station(5));
    assert_eq!([fate(&tables, 1, "10.9.0.1"), fate(&tables, 2, "10.9.0.1")], ["nowhere", "no_route"]);
    assert_eq!([fate(&tables, 1, "10.2.0.1"), fate(&tables, 2, "10.2.0.1")], ["no_route", "local"]);
    assert_eq!([fate(&tables, 1, "10.2.0.5"), fate(&tables, 2, "10.2.0.5")], ["no_route", "p2:5"]);
    tables.put_link(P1, KernelLink { is_up: false, is_running: false, ..link("p1") });
    assert_eq!(fate(&tables, 1, "10.9.0.1"), "no interface");
}

#[test]
fn first_of_several_routes_with_equal_key_applies() {
    let mut tables = tables();
    let key = (table::MAIN, net("10.9.0.0/16"), 0);
    tables.add_route(key, RouteKind::Unicast(vec![via(P1, Some("10.1.0.9"))]));
    assert!(!tables.is_one_of_several(&key));
    tables.add_route(key, RouteKind::Blackhole);
    assert!(tables.is_one_of_several(&key));
    tables.put_neighbour(P1, "10.1.0.9".parse().unwrap(), station(1));
    let [row] = &tables.rows(&configured(), 0, 9)[..] else { panic!("one") };
    assert_eq!((row.prefix.as_str(), row.kind.as_str()), ("10.9.0.0/16", "unicast"));
    assert_eq!(row.via[0].station.as_deref(), Some("02:00:00:00:00:01"));
    assert!(row.via[0].is_of_switch && row.via[0].interface == "p1");
    assert_eq!((tables.count(), tables.rows(&configured(), 1, 9)), (1, vec![]));
    tables.take_routes(Tables::default());
    assert!(!tables.is_one_of_several(&key) && tables.route(&key).is_none());
}

#[test]
fn packets_are_punted_if_only_the_kernel_can_use_their_path() {
    let mut tables = tables();
    let own = via(P1, Some("10.1.0.9"));
    let encapsulated = Via { is_encapsulated: true, ..via(P2, Some("10.2.0.9")) };
    tables.put_neighbour(P1, "10.1.0.9".parse().unwrap(), station(1));
    tables.put_neighbour(P2, "10.2.0.9".parse().unwrap(), station(2));
    tables.put_neighbour(P2, "10.9.0.1".parse().unwrap(), station(3));
    for (ways, expected) in [
        (vec![own, via(ETH0, Some("10.0.0.1"))], "elsewhere"),
        (vec![own, Via { is_dead: true, ..via(ETH0, Some("10.0.0.1")) }], "p1:1"),
        (vec![own, encapsulated], "elsewhere"),
        (vec![own, Via { is_dead: true, ..encapsulated }], "p1:1"),
        (vec![encapsulated], "elsewhere"),
        (vec![Via { gateway: None, ..encapsulated }], "elsewhere"),
    ] {
        put(&mut tables, table::MAIN, "10.9.0.0/16", 0, RouteKind::Unicast(ways.clone()));
        assert_eq!(fate(&tables, 1, "10.9.0.1"), expected, "{ways:?}");
    }
    assert!(!tables.rows(&configured(), 0, 1)[0].via[0].is_of_switch);
}

fn entry(state: NeighbourState, address: &str, attributes: &[NeighbourAttribute]) -> NeighbourMessage {
    let mut entry = xoff_netlink::neighbour(P1, address.parse().unwrap());
    entry.header.state = state;
    entry.attributes.extend_from_slice(attributes);
    entry
}

#[test]
fn neighbours_that_the_kernel_forwards_to_are_mirrored() {
    use NeighbourState::{Delay, Failed, Incomplete, Noarp, None, Permanent, Probe, Reachable, Stale};
    let multicast = MacAddr([3, 0xbf, 10, 2, 0, 50]);
    for mac in [mac(7), multicast] {
        let address = NeighbourAttribute::LinkLayerAddress(mac.0.to_vec());
        let read = |state| {
            let entry = entry(state, "10.1.0.7", std::slice::from_ref(&address));
            let (_, _, station) = crate::router::messages::neighbour(&entry).unwrap();
            station.map(|station| (station.mac, station.is_fixed))
        };
        for state in [Reachable, Stale, Delay, Probe] {
            assert_eq!(read(state), Some((mac, false)), "{state}");
        }
        for state in [Permanent, Noarp] {
            assert_eq!(read(state), Some((mac, true)), "{state}");
        }
        for state in [Incomplete, Failed, None] {
            assert_eq!(read(state), Option::None, "{state}");
        }
        for group in ["224.0.0.22", "ff02::16"] {
            let entry = entry(Noarp, group, std::slice::from_ref(&address));
            assert!(crate::router::messages::neighbour(&entry).is_none(), "{group}");
        }
    }
}

#[test]
fn report_of_used_neighbour_changes_no_fixed_entry_or_flag() {
    use crate::router::messages::use_flags;
    let flags_for = |state, flags: NeighbourFlags, extended| {
        let mut entry = entry(state, "10.1.0.7", &[NeighbourAttribute::ExtFlags(extended)]);
        entry.header.flags = flags;
        use_flags(Some(&entry))
    };
    let (use_, learned) = (NeighbourFlags::Use, NeighbourFlags::ExtLearned);
    let (none, no_extended) = (NeighbourFlags::empty(), NeighbourExtFlags::empty());
    for state in [NeighbourState::Permanent, NeighbourState::Noarp] {
        assert_eq!(flags_for(state, learned, no_extended), None, "{state}");
    }
    for state in [NeighbourState::Stale, NeighbourState::Failed] {
        assert_eq!(flags_for(state, none, no_extended), Some(use_));
        assert_eq!(flags_for(state, learned | NeighbourFlags::Router, no_extended), Some(use_ | learned));
        assert_eq!(flags_for(state, none, NeighbourExtFlags::Managed), None);
    }
    assert_eq!(use_flags(None), Some(use_), "no entry");
}

#[test]
fn encapsulating_route_is_recognized() {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![RouteAttribute::Oif(P1)];
    let read =
        |message: &RouteMessage| crate::router::messages::route(message, &Default::default()).unwrap().1;
    assert_eq!(read(&message), RouteKind::Unicast(vec![via(P1, None)]));
    message.attributes.push(RouteAttribute::EncapType(RouteLwEnCapType::Mpls));
    assert_eq!(read(&message), RouteKind::Unicast(vec![Via { is_encapsulated: true, ..via(P1, None) }]));
}

#[test]
fn route_by_nexthop_object_has_paths_of_its_group() {
    let object = |id, link, gateway: &str| {
        let gateway = gateway.parse().ok();
        (id, Nexthop { id, link, gateway, ..Nexthop::default() })
    };
    let group = Nexthop { id: 9, members: vec![(2, 1), (3, 5), (4, 1)], ..Nexthop::default() };
    let nexthops = [object(2, P1, "10.1.0.9"), object(3, P2, "10.2.0.9"), (9, group)].into();
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.kind = RouteType::Unicast;
    let mut read = |attributes: &[RouteAttribute]| {
        message.attributes = attributes.to_vec();
        crate::router::messages::route(&message, &nexthops).unwrap().1
    };
    let [first, second] = [via(P1, Some("10.1.0.9")), Via { weight: 5, ..via(P2, Some("10.2.0.9")) }];
    assert_eq!(read(&[RouteAttribute::NhId(2)]), RouteKind::Unicast(vec![first]));
    assert_eq!(read(&[RouteAttribute::NhId(9)]), RouteKind::Unicast(vec![first, second]));
    assert_eq!(read(&[RouteAttribute::NhId(5)]), RouteKind::Unicast(vec![]), "unknown object");
    let both = [RouteAttribute::NhId(9), RouteAttribute::Oif(P2)];
    assert_eq!(read(&both), RouteKind::Unicast(vec![via(P2, None)]), "paths of the kernel have precedence");
}

#[test] // proves: routing
fn mtu_of_a_route_applies_to_all_its_paths() {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet6;
    message.header.kind = RouteType::Unicast;
    message.attributes = vec![RouteAttribute::Oif(P1)];
    let read =
        |message: &RouteMessage| crate::router::messages::route(message, &Default::default()).unwrap().1;
    let (v4, v6) = (AddressFamily::Inet, AddressFamily::Inet6);
    for (family, mtu, expected) in [
        (v6, 1300, Some(1300)),
        (v6, 0, None),
        (v6, 1280, Some(1280)),
        (v6, 1279, Some(1280)),
        (v4, 1279, Some(1279)),
    ] {
        message.header.address_family = family;
        message.attributes.truncate(1);
        message
            .attributes
            .push(RouteAttribute::Metrics(vec![RouteMetric::Hoplimit(9), RouteMetric::Mtu(mtu)]));
        assert_eq!(read(&message), RouteKind::Unicast(vec![Via { mtu: expected, ..via(P1, None) }]));
    }
    let [first, second] = [P1, P2].map(|link| {
        let mut hop = RouteNextHop::default();
        hop.interface_index = link;
        hop
    });
    message.attributes = vec![
        RouteAttribute::Metrics(vec![RouteMetric::Mtu(1300)]),
        RouteAttribute::MultiPath(vec![first, second]),
    ];
    let ways = [P1, P2].map(|link| Via { mtu: Some(1300), ..via(link, None) });
    assert_eq!(read(&message), RouteKind::Unicast(ways.to_vec()));
}

#[test] // proves: routing
fn lowest_mtu_of_route_link_and_port_applies() {
    let mut tables = tables();
    tables.put_neighbour(P2, "10.2.0.9".parse().unwrap(), station(2));
    let packet = |dst| Packet {
        src: Address::V4(0x0900_0009),
        dst: Address::V4(dst),
        len: 100,
        hops_left: 9,
        has_options: false,
        stays_on_link: false,
    };
    for (of_route, of_link, expected) in [
        (None, 1500, 1500),
        (None, 9500, 9000),
        (Some(1400), 1500, 1400),
        (Some(1600), 1500, 1500),
        (Some(9999), 9500, 9000),
    ] {
        let way = |gateway| RouteKind::Unicast(vec![Via { mtu: of_route, ..via(P2, gateway) }]);
        put(&mut tables, table::MAIN, "0.0.0.0/0", 0, way(Some("10.2.0.9")));
        put(&mut tables, table::MAIN, "10.2.0.0/16", 0, way(None));
        tables.put_link(P2, KernelLink { mtu: of_link, ..link("p2") });
        let fib = tables.fib(&configured(), Spread::Flow).fib;
        let interface = fib.interface(Site::Port(PortId(1))).unwrap();
        for (dst, what) in [(0x0a09_0001, "by a next router"), (0x0a02_0009, "a station")] {
            let RouteDecision::Hops(hops) = fib.lookup(interface, &packet(dst)) else { panic!("a hop") };
            assert_eq!(hops.hops[0].mtu, expected, "{what}: {of_route:?}");
        }
    }
}

#[test] // proves: slow-path
fn neighbours_to_resolve_are_next_hops_of_longest_prefix() {
    let mut tables = tables();
    let via = |link, gateway: Option<&str>| Via {
        link,
        gateway: gateway.map(|it| it.parse().unwrap()),
        weight: 1,
        is_dead: false,
        is_encapsulated: false,
        mtu: None,
    };
    for (prefix, ways) in [
        ("0.0.0.0/0", vec![via(P1, Some("10.1.0.9"))]),
        ("10.1.0.0/16", vec![via(P1, None)]),
        ("10.2.0.0/16", vec![via(P1, Some("10.1.0.3")), via(P2, Some("fe80::1"))]),
        ("10.2.3.4/32", vec![via(P2, None)]),
        ("fd00::/8", vec![via(P2, None)]),
    ] {
        tables.put_route((table::MAIN, net(prefix), 0), RouteKind::Unicast(ways));
    }
    tables.put_route((table::LOCAL, net("10.1.0.1/32"), 0), RouteKind::Local);
    let towards = |address: &str| {
        let site = Site::Port(PortId(1));
        let all = tables.neighbours_towards(&configured(), site, address.parse().unwrap());
        all.into_iter().map(|(link, address)| format!("{link} {address}")).collect::<Vec<_>>().join(", ")
    };
    for (address, neighbours) in [
        ("9.9.9.9", "11 10.1.0.9"),
        ("10.1.2.3", "11 10.1.2.3"),
        ("10.1.0.1", ""),
        ("10.2.0.1", "11 10.1.0.3, 12 fe80::1"),
        ("10.2.3.4", "12 10.2.3.4"),
        ("fd00::5", "12 fd00::5"),
        ("2001::5", ""),
    ] {
        assert_eq!(towards(address), neighbours, "{address}");
    }
}

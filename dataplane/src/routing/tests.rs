use xoff_wire::units::PortId;

use super::*;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn interface(port: u8, table: usize) -> Interface {
    Interface { site: Site::Port(PortId(port)), mac: MAC, mtu: 1500, table }
}

fn hop(interface: usize, station: Option<u8>) -> NextHop {
    NextHop { interface, station: station.map(|last| MacAddr([2, 0, 0, 0, 1, last])), weight: 1, mtu: None }
}

fn to4(dst: u32) -> Packet {
    let (src, dst) = (Address::V4(0x0900_0009), Address::V4(dst));
    Packet { src, dst, len: 100, hops_left: 9, has_options: false, stays_on_link: false }
}

fn to6(dst: u128) -> Packet {
    Packet { dst: Address::V6(dst), ..to4(0) }
}

fn decision(fib: &Fib, port: u8, packet: &Packet) -> String {
    let interface = fib.interface(Site::Port(PortId(port))).unwrap();
    match fib.lookup(interface, packet) {
        RouteDecision::Host(reason) => reason.name().into(),
        RouteDecision::Nowhere => "nowhere".into(),
        RouteDecision::Hops(hops) => hops.hops.iter().map(|hop| format!("{:?} ", hop.dst.0[5])).collect(),
    }
}

#[test]
fn route_lookup_finds_longest_prefix_in_table_of_interface() {
    let mut tables = [Routes::default(), Routes::default()];
    let hops = |last| Target::Hops(vec![hop(0, Some(last))]);
    let left = |address: u32| Address::V4(address).bits();
    tables[0].v4.extend([
        ((0, 0), hops(1)),
        ((left(0x0a00_0000), 8), hops(2)),
        ((left(0x0a01_0000), 16), Target::Nowhere),
        ((left(0x0a01_0203), 32), Target::Host(PuntReason::Local)),
    ]);
    tables[0].v6.insert((0xfd << 120, 8), hops(3));
    tables[1].v4.insert((left(0x0a00_0000), 8), Target::Hops(vec![hop(1, None)]));
    let fib = Fib::new(&[interface(0, 0), interface(1, 1)], &tables, Spread::Flow);
    let expected = [
        (0x0900_0001, "1 ", "no_route"),
        (0x0aff_ffff, "2 ", "unresolved"),
        (0x0a01_0202, "nowhere", "unresolved"),
        (0x0a01_0203, "local", "unresolved"),
        (0x0b00_0000, "1 ", "no_route"),
    ];
    for (dst, at_0, at_1) in expected {
        assert_eq!([decision(&fib, 0, &to4(dst)), decision(&fib, 1, &to4(dst))], [at_0, at_1], "{dst:x}");
    }
    assert_eq!(
        [decision(&fib, 0, &to6(0xfd << 120)), decision(&fib, 0, &to6(0xfe << 120))],
        ["3 ", "no_route"]
    );
    assert_eq!(fib.interface(Site::Port(PortId(2))), None);
    assert_eq!(fib.interface(Site::Vlan(1)), None);
}

#[test]
fn packet_counts_as_spoofed_only_with_source_of_this_host() {
    for count in [0, 1, 2, 3, 64, 200] {
        let own: Vec<u32> = (0..count).map(|number: u32| 0x0a00_0001 + 0x100 * number).collect();
        let local = |address: &u32| ((Address::V4(*address).bits(), 32), Target::Host(PuntReason::Local));
        let other = ((Address::V4(0x0b00_0000).bits(), 8), Target::Nowhere);
        let v4 = own.iter().map(local).chain([other]).collect();
        let fib = Fib::new(&[interface(0, 0)], &[Routes { v4, ..Routes::default() }], Spread::Flow);
        let at = fib.interface(Site::Port(PortId(0))).unwrap();
        let is_own = |src| fib.is_from_this_host(at, &Packet { src: Address::V4(src), ..to4(0) });
        for address in own {
            assert!(
                is_own(address) && !is_own(address - 1) && !is_own(address + 1),
                "wrong result for an address next to own address {address:x} of {count}"
            );
        }
        assert!((0..100_000).all(|number| !is_own(0x0b00_0000 + number)));
    }
}

#[test] // proves: routing
fn route_lookup_skips_unresolved_next_hops() {
    let some = [hop(0, Some(1)), hop(0, None), hop(0, Some(3))].to_vec();
    let tables = [Routes {
        v4: [((0, 0), Target::Hops(some)), ((1 << 127, 1), Target::Hops(Vec::new()))].into_iter().collect(),
        ..Routes::default()
    }];
    let fib = Fib::new(&[interface(0, 0)], &tables, Spread::Flow);
    assert_eq!([decision(&fib, 0, &to4(1)), decision(&fib, 0, &to4(u32::MAX))], ["1 3 ", "unresolved"]);
}

#[test]
fn route_ignores_next_hops_beyond_its_maximum_number() {
    let many = (0..=255).map(|last| hop(0, Some(last))).collect();
    let tables = [Routes { v4: [((0, 0), Target::Hops(many))].into_iter().collect(), ..Routes::default() }];
    let fib = Fib::new(&[interface(0, 0)], &tables, Spread::Flow);
    assert_eq!(decision(&fib, 0, &to4(1)).split_whitespace().count(), MEMBERS_MAX);
}

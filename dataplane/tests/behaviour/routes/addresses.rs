use super::*;

const OTHER_ROUTER: MacAddr = MacAddr([0, 0, 0x5e, 0, 1, 2]);
const MULTICAST: MacAddr = MacAddr([3, 0xbf, 10, 0, 0, 50]);

fn fib_with(change: impl Fn(&mut Vec<Interface>, &mut Routes)) -> Arc<Fib> {
    let (mut interfaces, mut routes) = parts();
    change(&mut interfaces, &mut routes);
    Arc::new(Fib::new(&interfaces, &[routes], Spread::Flow))
}

fn to_router(mac: MacAddr) -> Vec<u8> {
    let mut bytes = packet(V4, [10, 2, 0, 5], 64, 100);
    bytes[..6].copy_from_slice(&mac.0);
    bytes
}

#[test]
fn vlan_router_follows_mac_address_of_its_interface() {
    let mut bench = RouterBench::new();
    let set_fib = |bench: &mut RouterBench, fib| drop(bench.switch.batch(bench.now).set_fib(fib));
    let routed = |bench: &mut RouterBench, mac| {
        bench.receive(V4, &to_router(mac));
        bench.all_sent() == [(P2, sent_on(V4, router(P2), 2, [10, 2, 0, 5], 63, 100))]
    };
    assert!(routed(&mut bench, ROUTER) && !routed(&mut bench, OTHER_ROUTER));
    set_fib(&mut bench, fib_with(|interfaces, _| interfaces[4].mac = OTHER_ROUTER));
    assert!(routed(&mut bench, OTHER_ROUTER), "new address of the router is not its address");
    assert!(!routed(&mut bench, ROUTER), "former address of the router still is its address");
    bench.receive(P0, &packet(P0, [10, 7, 0, 4], 64, 100));
    assert_eq!(bench.all_sent(), [(V4, sent_on(P0, OTHER_ROUTER, 4, [10, 7, 0, 4], 63, 100))]);

    set_fib(&mut bench, Arc::default()); // all interfaces are down
    let revision = Box::new(Revision::new(settings(), &Workers::single(6), SLOTS));
    drop(bench.switch.batch(bench.now).revise(revision));
    assert_eq!(bench.fate(V4, &to_router(OTHER_ROUTER)), Err(DropReason::NoRouter), "after a reload");
    set_fib(&mut bench, fib(Spread::Flow));
    assert!(routed(&mut bench, ROUTER));
}

#[test]
fn packet_to_multicast_mac_leaves_by_port_or_is_flooded_in_vlan() {
    let mut bench = RouterBench::new();
    let fib = fib_with(|_, routes| {
        for (interface, address) in [(1, [10, 1, 0, 50]), (4, [10, 7, 0, 50])] {
            routes.v4.insert((left(address), 32), Target::Hops(vec![hop(interface, Some(MULTICAST))]));
        }
    });
    drop(bench.switch.batch(bench.now).set_fib(fib));
    let to_group = |by, dst| {
        let mut bytes = sent_on(P0, by, 0, dst, 63, 100);
        bytes[..6].copy_from_slice(&MULTICAST.0);
        bytes
    };
    bench.receive(P0, &packet(P0, [10, 1, 0, 50], 64, 100));
    assert_eq!(bench.all_sent(), [(P1, to_group(router(P1), [10, 1, 0, 50]))]);
    bench.receive(P0, &packet(P0, [10, 7, 0, 50], 64, 100));
    let plain = to_group(ROUTER, [10, 7, 0, 50]);
    let mut tagged = plain.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x60, 0x07]);
    assert_eq!(bench.all_sent(), [(V4, plain), (V5, tagged)]);
    assert_eq!((bench.store.in_use(), bench.punted().len()), (0, 0));
}

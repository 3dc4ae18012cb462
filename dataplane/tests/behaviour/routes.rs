// Tests for SPECIFICATION.md: routing

mod addresses;
mod hops;
mod host;
mod mixed;
mod unresolved;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use pnet_packet::ipv4::{Ipv4Packet, MutableIpv4Packet, checksum};
use xoff_dataplane::punt::Punt;
use xoff_dataplane::routing::{Fib, Interface, NEIGHBOUR_WAIT, NextHop, Routes, Target};
use xoff_dataplane::switch::{Revision, Switch, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::{
    Accounting, HOST_FRAMES_MAX, Lldp, PuntLimit, Spread, SwitchSettings, Trust, Turns, VlanSettings,
    WhenFull,
};
use xoff_wire::ip::Address;
use xoff_wire::mac_control::{MacControl, Pfc};
use xoff_wire::units::{Bytes, Class, MacAddr, Nanos, PortId, Quanta, Site};

use crate::C3;
use crate::bed::plan::{self, LINK};
use crate::bed::store::MemoryStore;
use crate::by_hand::{Punted, punted_by, sent};

const SLOTS: u32 = 512;
const CONTROL_SLOTS: u32 = 6;
/// Ports 0 to 3 are routed; 4 and 5 bridge VLAN 7, which has a router.
const P0: PortId = PortId(0);
const P1: PortId = PortId(1);
const P2: PortId = PortId(2);
const P3: PortId = PortId(3);
const V4: PortId = PortId(4);
const V5: PortId = PortId(5);
const VID: u16 = 7;
const ROUTER: MacAddr = MacAddr([2, 9, 9, 9, 9, 9]);
const MTU: u32 = 1_000;

struct RouterBench {
    switch: Switch,
    counters: Arc<Counters>,
    store: MemoryStore,
    punted: Arc<Mutex<Punted>>,
    now: Nanos,
}

fn station(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 7, number])
}

fn router(port: PortId) -> MacAddr {
    MacAddr([2, 0, 0, 1, 0, port.0])
}

fn left(address: [u8; 4]) -> u128 {
    Address::V4(u32::from_be_bytes(address)).bits()
}

fn hop(interface: usize, station: Option<MacAddr>) -> NextHop {
    NextHop { interface, station, weight: 1, mtu: None }
}

fn fib(spread: Spread) -> Arc<Fib> {
    let (interfaces, routes) = parts();
    Arc::new(Fib::new(&interfaces, &[routes], spread))
}

fn parts() -> (Vec<Interface>, Routes) {
    let at = |site, mac| Interface { site, mac, mtu: MTU, table: 0 };
    let mut interfaces: Vec<Interface> =
        [P0, P1, P2, P3].map(|port| at(Site::Port(port), router(port))).to_vec();
    interfaces.push(at(Site::Vlan(VID), ROUTER));
    let mut routes = Routes::default();
    for number in 0..4 {
        let target = Target::Hops(vec![hop(number.into(), Some(station(number)))]);
        routes.v4.insert((left([10, number, 0, 0]), 16), target);
    }
    let all = (1..4).map(|number: u8| hop(number.into(), Some(station(number)))).collect();
    routes.v4.extend([
        ((left([10, 7, 0, 4]), 32), Target::Hops(vec![hop(4, Some(station(4)))])),
        ((left([10, 7, 0, 9]), 32), Target::Hops(vec![hop(4, Some(station(9)))])),
        ((left([10, 7, 0, 0]), 16), Target::Hops(vec![hop(4, None)])),
        ((left([10, 8, 0, 0]), 16), Target::Hops(all)),
        ((left([10, 9, 0, 0]), 16), Target::Nowhere),
        ((left([10, 0, 0, 1]), 32), Target::Host(PuntReason::Local)),
    ]);
    routes.v6.insert((0xfd01 << 112, 16), Target::Hops(vec![hop(1, Some(station(1)))]));
    (interfaces, routes)
}

fn settings() -> SwitchSettings {
    let mut plan = plan::switch(&[LINK; 6]);
    plan.each_port(|port| (port.routed, port.pvid) = (true, None));
    for port in [V4, V5] {
        let port = &mut plan.settings.ports[port.index()];
        (port.routed, port.pvid) = (false, Some(VID));
    }
    plan.each_port(|port| {
        port.trust = Trust::Dscp;
        port.dscp_to_class = std::array::from_fn(|dscp| Class::ALL[dscp / 8]);
    });
    plan.each_port(|port| port.punt_limit = PuntLimit { rate: 1_000, burst: 100 });
    plan.settings.vlans = vec![VlanSettings { vid: VID, tagged: vec![V5], untagged: vec![V4] }];
    plan.settings.routed_vlans = vec![(VID, ROUTER)];
    plan.settings
}

impl RouterBench {
    fn new() -> RouterBench {
        RouterBench::of(&settings(), Spread::Flow)
    }

    fn of(settings: &SwitchSettings, spread: Spread) -> RouterBench {
        let counters = Counters::new(settings.ports.len());
        let mut switch = Switch::new(settings, SLOTS, Workers::single(6), Arc::clone(&counters));
        let punted = punted_by(&mut switch);
        let store = MemoryStore::new(SLOTS - CONTROL_SLOTS, CONTROL_SLOTS, 16, 1600);
        drop(switch.batch(Nanos(0)).set_fib(fib(spread)));
        RouterBench { switch, counters, store, punted, now: Nanos(0) }
    }

    fn receive(&mut self, port: PortId, bytes: &[u8]) {
        self.receive_only(port, bytes);
        while self.switch.batch(self.now).forward(&mut self.store) {}
        assert_eq!(self.switch.ledger().missing(), 0);
    }

    fn receive_only(&mut self, port: PortId, bytes: &[u8]) {
        let frame = self.store.fill(bytes).expect("no slot is free");
        self.switch.batch(self.now).receive(port, frame, &mut self.store);
    }

    fn send_of_host(&mut self, site: Site, port: PortId, bytes: &[u8]) {
        self.switch.batch(self.now).send_of_host(site, port, bytes, &mut self.store);
        assert_eq!(self.switch.ledger().missing(), 0);
    }

    fn sent(&mut self, port: PortId) -> Vec<Vec<u8>> {
        sent(&mut self.switch, &mut self.store, &mut self.now, port)
    }

    fn all_sent(&mut self) -> Vec<(PortId, Vec<u8>)> {
        let all = [P0, P1, P2, P3, V4, V5].map(|port| (port, self.sent(port)));
        all.into_iter()
            .flat_map(|(port, frames)| frames.into_iter().map(move |frame| (port, frame)))
            .collect()
    }

    fn punted(&self) -> Vec<(Punt, Vec<u8>)> {
        std::mem::take(&mut self.punted.lock().expect("a test thread has panicked").frames)
    }

    fn fate(&mut self, port: PortId, bytes: &[u8]) -> Result<PuntReason, DropReason> {
        let drops = |bench: &RouterBench| {
            DropReason::ALL.map(|reason| {
                let of = |port| {
                    Class::ALL.map(|class| bench.counters.class(port, class).drops[reason.index()].get())
                };
                [P0, P1, P2, P3, V4, V5].into_iter().flat_map(of).sum::<u64>()
            })
        };
        let before = drops(self);
        self.receive(port, bytes);
        let punted = self.punted();
        let dropped = DropReason::ALL.into_iter().zip(before).zip(drops(self)).find(|((_, a), b)| a != b);
        assert_eq!(self.all_sent(), [], "{punted:?} {dropped:?}");
        assert_eq!(self.store.in_use(), 0);
        match (&punted[..], dropped) {
            ([(punt, whole)], None) => {
                assert_eq!(whole[..], bytes[..whole.len()], "the punted frame differs from the received one");
                Ok(punt.reason)
            }
            ([], Some(((reason, _), _))) => Err(reason),
            other => panic!("{other:?}"),
        }
    }
}

fn packet(port: PortId, dst: [u8; 4], ttl: u8, len: u16) -> Vec<u8> {
    let mut bytes = router(port).0.to_vec();
    bytes.extend(station(port.0).0);
    bytes.extend([0x08, 0x00]);
    bytes.resize(14 + usize::from(len), 0);
    let mut ip = MutableIpv4Packet::new(&mut bytes[14..]).expect("room");
    ip.set_version(4);
    ip.set_header_length(5);
    ip.set_dscp(24);
    ip.set_total_length(len);
    ip.set_ttl(ttl);
    ip.set_source([10, port.0, 0, 2].into());
    ip.set_destination(dst.into());
    let sum = checksum(&ip.to_immutable());
    ip.set_checksum(sum);
    bytes
}

fn of_class(class: u8, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[15] = class << 5;
    with_checksum(bytes)
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[24..26].fill(0);
    let sum = checksum(&Ipv4Packet::new(&bytes[14..]).expect("room"));
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn sent_on(from: PortId, by: MacAddr, to: u8, dst: [u8; 4], ttl: u8, len: u16) -> Vec<u8> {
    let mut bytes = packet(from, dst, ttl, len);
    bytes[..6].copy_from_slice(&station(to).0);
    bytes[6..12].copy_from_slice(&by.0);
    with_checksum(bytes)
}

#[test]
fn ipv4_forwarding_decrements_ttl() {
    let mut bench = RouterBench::new();
    for (ttl, len) in [(64, 46), (2, 999), (255, 1_000)] {
        bench.receive(P0, &packet(P0, [10, 2, 1, 5], ttl, len));
        let expected = sent_on(P0, router(P2), 2, [10, 2, 1, 5], ttl - 1, len);
        assert_eq!(bench.all_sent(), [(P2, expected)]);
    }
    assert_eq!((bench.store.in_use(), bench.punted().len()), (0, 0));
    assert_eq!(
        bench.counters.class(P2, C3).tx_frames.get(),
        3,
        "the packets did not leave in the class of their DSCP"
    );
}

#[test]
fn ipv6_forwarding_decrements_only_hop_limit() {
    let mut bytes = router(P0).0.to_vec();
    bytes.extend(station(0).0);
    bytes.extend([0x86, 0xdd, 0x66, 0x00, 0, 0, 0, 4, 17, 9]);
    bytes.extend((0xfd00u128 << 112 | 5).to_be_bytes());
    bytes.extend((0xfd01u128 << 112 | 6).to_be_bytes());
    bytes.extend([1, 2, 3, 4]);
    let mut bench = RouterBench::new();
    bench.receive(P0, &bytes);
    bytes[..6].copy_from_slice(&station(1).0);
    bytes[6..12].copy_from_slice(&router(P1).0);
    bytes[21] = 8;
    assert_eq!(bench.all_sent(), [(P1, bytes)]);
}

#[test] // proves: slow-path
fn packets_for_the_kernel_are_punted_unchanged() {
    let mut bench = RouterBench::new();
    let to = |dst| packet(P0, dst, 64, 100);
    let mut to_group = to([10, 1, 0, 5]);
    to_group[..6].copy_from_slice(&[1, 0, 0x5e, 0, 0, 5]);
    let mut arp = to([10, 1, 0, 5]);
    arp[..6].fill(0xff);
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    let mut arp_to_it = arp.clone();
    arp_to_it[..6].copy_from_slice(&router(P0).0);
    let mut other = to([10, 1, 0, 5]);
    other[12..14].copy_from_slice(&[0x88, 0xb5]);
    let mut options = to([10, 1, 0, 5]);
    options[14] = 0x46;
    options[34..38].fill(1);
    let long = packet(P0, [10, 1, 0, 5], 64, 1_001);
    let sum = |mut bytes: Vec<u8>| {
        bytes[24..26].fill(0);
        let sum = checksum(&Ipv4Packet::new(&bytes[14..]).expect("room"));
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        bytes
    };
    for (bytes, reason) in [
        (to([10, 0, 0, 1]), PuntReason::Local),
        (to([224, 0, 0, 5]), PuntReason::Local),
        (to([169, 254, 1, 1]), PuntReason::Local),
        (to_group, PuntReason::Group),
        (arp, PuntReason::Arp),
        (arp_to_it, PuntReason::Arp),
        (other, PuntReason::Other),
        (sum(options), PuntReason::Options),
        (packet(P0, [10, 1, 0, 5], 1, 100), PuntReason::HopLimit),
        (packet(P0, [10, 1, 0, 5], 0, 100), PuntReason::HopLimit),
        (of_class(0, to([10, 7, 0, 5])), PuntReason::Unresolved),
        (to([11, 1, 0, 5]), PuntReason::NoRoute),
        (long, PuntReason::TooBig),
    ] {
        assert_eq!(bench.fate(P0, &bytes), Ok(reason));
    }
}

#[test] // proves: slow-path
fn invalid_and_blackholed_packets_are_dropped_with_reason() {
    let mut bench = RouterBench::new();
    let good = packet(P0, [10, 1, 0, 5], 64, 100);
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        bytes
    };
    let mut tagged = good.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x60, 0x07]);
    for (bytes, reason) in [
        (changed(5, 0x77), DropReason::OtherStation),
        (changed(14, 0x55), DropReason::BadIp),
        (changed(24, 0x77), DropReason::BadIp),
        (changed(17, 0xff), DropReason::BadIp),
        (packet(P0, [127, 0, 0, 1], 64, 100), DropReason::Martian),
        (packet(P0, [10, 9, 0, 1], 64, 100), DropReason::Blackhole),
        (tagged, DropReason::NotMember),
    ] {
        assert_eq!(bench.fate(P0, &bytes), Err(reason));
    }
    drop(bench.switch.batch(bench.now).set_fib(Arc::default()));
    assert_eq!(bench.fate(P0, &good), Err(DropReason::NoRouter));
}

#[test] // proves: slow-path
fn spoofed_router_source_is_dropped() {
    let mut bench = RouterBench::new();
    let from = |last: u8| {
        let mut bytes = packet(P0, [10, 1, 0, 5], 64, 100);
        bytes[26..30].copy_from_slice(&[10, 0, 0, last]);
        with_checksum(bytes)
    };
    assert_eq!(bench.fate(P0, &from(1)), Err(DropReason::Martian));
    for last in [0, 2] {
        bench.receive(P0, &from(last));
        assert_eq!(
            bench.sent(P1).len(),
            1,
            "a packet from 10.0.0.{last}, which is not the router's, was dropped"
        );
    }
}

#[test]
fn routed_frame_keeps_priority_tag() {
    let mut bench = RouterBench::new();
    let mut bytes = packet(P0, [10, 1, 0, 5], 64, 100);
    bytes.splice(12..12, [0x81, 0x00, 0x60, 0x00]);
    bench.receive(P0, &bytes);
    let mut expected = sent_on(P0, router(P1), 1, [10, 1, 0, 5], 63, 100);
    expected.splice(12..12, [0x81, 0x00, 0x60, 0x00]);
    assert_eq!(bench.all_sent(), [(P1, expected)]);
}

#[test] // proves: slow-path
fn punts_beyond_limit_are_dropped_without_affecting_transit() {
    let mut bench = RouterBench::new();
    (0..300).for_each(|_| bench.receive(P0, &packet(P0, [10, 0, 0, 1], 64, 100)));
    bench.receive(P0, &packet(P0, [10, 1, 0, 5], 64, 100));
    assert_eq!((bench.punted().len(), bench.sent(P1).len(), bench.store.in_use()), (88, 1, 0));
    assert_eq!(bench.counters.class(P0, C3).drops[DropReason::PuntLimit.index()].get(), 212);
}

#[test] // proves: slow-path
fn punted_transit_packets_use_at_most_half_of_punt_burst() {
    let mut bench = RouterBench::new();
    (0..300).for_each(|_| bench.receive(P0, &packet(P0, [10, 200, 0, 1], 64, 100)));
    let of_transit = bench.punted().len();
    assert_eq!(of_transit, 50, "transit packets did not get half of the punt burst");
    (0..300).for_each(|_| bench.receive(P0, &packet(P0, [10, 0, 0, 1], 64, 100)));
    assert_eq!(
        bench.punted().len(),
        38,
        "other packets did not get the rest of the punt burst, less the reserved eighth"
    );
}

fn ports_of_flows(bench: &mut RouterBench, flows: u16) -> Vec<PortId> {
    let each = |flow: u16| {
        let mut bytes = packet(P0, [10, 8, 0, 1], 64, 100);
        bytes[23] = 17;
        bytes[34..36].copy_from_slice(&flow.to_be_bytes());
        bench.receive(P0, &with_checksum(bytes));
        let sent = bench.all_sent();
        assert_eq!(sent.len(), 1, "a packet left by several ports");
        sent[0].0
    };
    (0..flows).map(each).collect()
}

#[test]
fn loss_of_next_hop_moves_only_flows_of_that_hop() {
    let mut bench = RouterBench::new();
    let before = ports_of_flows(&mut bench, 300);
    assert_eq!(before, ports_of_flows(&mut bench, 300), "a flow changed its next hop");
    for port in [P1, P2, P3] {
        let share = before.iter().filter(|&&it| it == port).count();
        assert!((70..130).contains(&share), "{share} of 300 flows took {port:?}");
    }
    bench.switch.batch(bench.now).set_link(P2, false, &mut bench.store);
    let without = ports_of_flows(&mut bench, 300);
    assert!(
        before.iter().zip(&without).all(|(before, after)| before == after || *before == P2)
            && !without.contains(&P2)
    );
    bench.switch.batch(bench.now).set_link(P2, true, &mut bench.store);
    assert_eq!(ports_of_flows(&mut bench, 300), before, "flows did not return to their next hop");
}

#[test]
fn spread_by_frame_picks_next_hop_at_random_or_shortest_queue() {
    let mut by_chance = RouterBench::of(&settings(), Spread::Frame(Turns::Random));
    let bytes = packet(P0, [10, 8, 0, 1], 64, 100);
    (0..90).for_each(|_| by_chance.receive(P0, &bytes));
    let ports: Vec<PortId> = by_chance.all_sent().into_iter().map(|(port, _)| port).collect();
    assert_eq!((ports.len(), ports.iter().collect::<HashSet<_>>().len()), (90, 3));

    let mut adaptive =
        RouterBench::of(&settings(), Spread::Adaptive { low: Bytes(118), high: Bytes(10_000) });
    adaptive.receive(P0, &packet(P0, [10, 1, 0, 5], 64, 100));
    (0..2).for_each(|_| adaptive.receive(P0, &bytes));
    let [one, two, three] = [P1, P2, P3].map(|port| adaptive.switch.buffer().egress(port, C3));
    assert_eq!((one, two + three), (Bytes(118), Bytes(236)));
    assert!(two == three || two == Bytes::ZERO || three == Bytes::ZERO);
    assert_eq!(two, three, "the second frame took a port that is at `low`");
}

#[test]
fn paused_egress_pauses_sender_of_routed_frames() {
    let mut bench = RouterBench::new();
    let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX)));
    bench.receive(P1, &stop.encode(station(1)));
    (0..30).for_each(|_| bench.receive(P0, &packet(P0, [10, 1, 0, 5], 64, 1_000)));
    assert_eq!(bench.switch.buffer().egress(P1, C3), Bytes(30 * 1_018));
    assert!(bench.switch.held(P0).classes().contains(C3), "routed frames do not count at their ingress");
    let go = MacControl::Pfc(Pfc::default().with(C3, Quanta(0)));
    bench.receive(P1, &go.encode(station(1)));
    assert_eq!(bench.sent(P1).len(), 30);
    assert!(!bench.switch.held(P0).classes().contains(C3));
}

#[test]
fn frame_waiting_at_full_queue_gets_ttl_decremented_once() {
    let mut settings = settings();
    settings.when_full = WhenFull::Stop;
    settings.ports[P1.index()].classes[C3.index()].egress_max = Bytes(250);
    let mut bench = RouterBench::of(&settings, Spread::Flow);
    (0..5).for_each(|_| bench.receive(P0, &packet(P0, [10, 1, 0, 5], 64, 100)));
    assert!(bench.switch.buffer().egress(P1, C3) <= Bytes(250));
    let sent = bench.sent(P1);
    assert_eq!(sent, vec![sent_on(P0, router(P1), 1, [10, 1, 0, 5], 63, 100); 5]);
}

#[test]
fn vlan_router_forwards_packets_to_and_from_its_stations() {
    let mut bench = RouterBench::new();
    let mut hello = packet(V4, [255, 255, 255, 255], 64, 100);
    hello[..6].fill(0xff);
    hello[6..12].copy_from_slice(&station(4).0);
    bench.receive(V4, &hello);
    let punted = bench.punted();
    assert_eq!(punted.len(), 1);
    let (Punt { port, vid, reason, .. }, bytes) = &punted[0];
    assert_eq!((*port, *vid, *reason, bytes), (V4, VID, PuntReason::Group, &hello));
    assert_eq!(bench.all_sent().len(), 1, "the broadcast did not leave by the other port");
    bench.receive(P0, &packet(P0, [10, 7, 0, 4], 64, 100));
    assert_eq!(bench.all_sent(), [(V4, sent_on(P0, ROUTER, 4, [10, 7, 0, 4], 63, 100))]);
    bench.receive(P0, &packet(P0, [10, 7, 0, 9], 64, 100));
    let expected = sent_on(P0, ROUTER, 9, [10, 7, 0, 9], 63, 100);
    let mut tagged = expected.clone();
    tagged.splice(12..12, [0x81, 0x00, 0x60, 0x07]);
    assert_eq!(bench.all_sent(), [(V4, expected), (V5, tagged)]);
    let mut out = packet(V4, [10, 2, 0, 5], 64, 100);
    out[..6].copy_from_slice(&ROUTER.0);
    bench.receive(V4, &out);
    assert_eq!(bench.all_sent(), [(P2, sent_on(V4, router(P2), 2, [10, 2, 0, 5], 63, 100))]);
    assert_eq!((bench.store.in_use(), bench.punted().len()), (0, 0));
}

#[test]
fn waiting_frame_follows_new_routing_table() {
    let mut settings = settings();
    settings.when_full = WhenFull::Stop;
    settings.ports[P1.index()].classes[C3.index()].egress_max = Bytes(250);
    let mut bench = RouterBench::of(&settings, Spread::Flow);
    let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX)));
    bench.receive(P1, &stop.encode(station(1)));
    (0..5).for_each(|_| bench.receive(P0, &packet(P0, [10, 1, 0, 5], 64, 100)));
    assert_eq!(bench.punted().len(), 0);
    drop(bench.switch.batch(bench.now).set_fib(Arc::default()));
    while bench.switch.batch(bench.now).forward(&mut bench.store) {}
    let dropped = bench.counters.class(P0, C3).drops[DropReason::NoRouter.index()].get();
    assert_eq!(dropped, 3, "frames not yet queued did not follow the new routing table");
}

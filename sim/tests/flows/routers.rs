// Tests for SPECIFICATION.md: sim-fabrics

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use xoff_dataplane::routing::Fib;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::Spread;
use xoff_sim::flows::{FlowFabric, HostSettings, RoceSettings, Transport};
use xoff_sim::ideal::Ideal;
use xoff_sim::topology::{self, Build, FatTree, LeafSpine};
use xoff_sim::{At, Fabric, Line, Picos, Plan, Router, Seed, SwitchKind, SwitchNode, TrafficHost, address};
use xoff_wire::Header;
use xoff_wire::ip::{Address, Packet};
use xoff_wire::units::{ClassSet, MacAddr, Nanos, PortId};

use super::{LINE, check, dropped, flow, line};

fn routers() -> Build<'static> {
    Build::cached(|lines: &[Line], _| routed(lines))
}

fn routed(lines: &[Line]) -> SwitchKind {
    let mut kind = Ideal::of(lines, ClassSet::NONE);
    kind.settings.ports.iter_mut().for_each(|port| (port.routed, port.pvid) = (true, None));
    kind
}

fn leaf_spine(leaves: u8, without: Vec<(u8, u8)>) -> LeafSpine {
    LeafSpine { leaves, spines: 2, hosts: 2, host_line: LINE, spine_line: LINE, without }
}

fn roce() -> HostSettings {
    HostSettings { transport: Transport::Roce(RoceSettings::default()), ..HostSettings::default() }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ObservedFrame {
    hosts: [u32; 2],
    port: u16,
    stations: [MacAddr; 2],
    hops_left: u8,
}

fn observe(head: &[u8]) -> Option<ObservedFrame> {
    let header = Header::parse(head).ok()?;
    let packet =
        Packet::read(header.ether_type, header.payload(head), 9_000)?.expect("the IP header is invalid");
    let host = |address| match address {
        Address::V4(address) => address - 0x0a00_0001,
        Address::V6(_) => panic!("a frame has an IPv6 address"),
    };
    Some(ObservedFrame {
        hosts: [packet.src, packet.dst].map(host),
        port: u16::from_be_bytes([head[34], head[35]]),
        stations: [header.src, header.dst],
        hops_left: packet.hops_left,
    })
}

type FramesByLink = Rc<RefCell<BTreeMap<String, Vec<ObservedFrame>>>>;

fn watched(plan: &Plan, fabric: &mut FlowFabric) -> FramesByLink {
    let links = FramesByLink::default();
    for (a, b, _) in plan.links() {
        for from in [*a, *b] {
            let links = Rc::clone(&links);
            fabric.fabric_mut().lose(from, move |head| {
                links.borrow_mut().entry(from.to_string()).or_default().extend(observe(head));
                false
            });
        }
    }
    links
}

fn carried(plan: &Plan, seed: u64, to: &[u32], count: usize, bytes: u64) -> (FlowFabric, FramesByLink) {
    let mut fabric = FlowFabric::new(plan, Seed(seed), roce());
    let links = watched(plan, &mut fabric);
    for to in to {
        (0..count).for_each(|_| _ = fabric.add(flow(0, *to, bytes)));
    }
    assert!(fabric.run_to_end(Picos::from_micros(10_000)));
    check(&fabric);
    (fabric, links)
}

fn flows_up(links: &FramesByLink, switch: u32, to: u32) -> [usize; 2] {
    let links = links.borrow();
    [2, 3].map(|port| {
        let up = links.get(&At::Switch(switch, port).to_string()).into_iter().flatten();
        up.filter(|frame| frame.hosts == [0, to]).map(|frame| frame.port).collect::<BTreeSet<u16>>().len()
    })
}

fn router(switch: u8, port: u8) -> MacAddr {
    MacAddr([2, 2, 0, 0, switch, port])
}

#[test]
fn each_router_rewrites_mac_addresses_and_decrements_ttl() {
    let plan = leaf_spine(2, Vec::new()).plan(&routers());
    let (fabric, links) = carried(&plan, 1, &[2], 16, 30_000);
    assert_eq!(dropped(&fabric), 0);
    let frames: usize = fabric.records().map(|record| record.frames_sent as usize).sum();
    let links = links.borrow();
    let there =
        |from: At| links.get(&from.to_string()).into_iter().flatten().filter(|frame| frame.hosts == [0, 2]);
    let all = |from: &[At], stations: [MacAddr; 2], hops_left: u8| {
        let observed: Vec<&ObservedFrame> = from.iter().flat_map(|from| there(*from)).collect();
        assert!(
            observed.iter().all(|observed| observed.stations == stations && observed.hops_left == hops_left),
            "{observed:?}"
        );
        observed.len()
    };
    // A leaf has hosts at ports 0 and 1, spines at ports 2 and 3.
    assert_eq!(all(&[At::Host(0, 0)], [address(0), router(0, 0)], 64), frames);
    let by_spine = [2, 3].map(|spine: u8| {
        let up = all(&[At::Switch(0, spine)], [router(0, spine), router(spine, 0)], 63);
        let down = all(&[At::Switch(spine.into(), 1)], [router(spine, 1), router(1, spine)], 62);
        assert_eq!(up, down);
        up
    });
    assert!(by_spine.iter().all(|frames| *frames > 0), "a spine carried no frames: {by_spine:?}");
    assert_eq!(all(&[At::Switch(1, 0)], [router(1, 0), address(2)], 61), frames);
    assert_eq!(by_spine[0] + by_spine[1], frames);
    let ports = |spine: u8| there(At::Switch(0, spine)).map(|frame| frame.port).collect::<BTreeSet<u16>>();
    assert!(ports(2).is_disjoint(&ports(3)), "a flow used both spines");
}

#[test]
fn each_switch_layer_spreads_flows_by_its_own_hash() {
    for (name, build) in [("routers", routers()), ("bridges", Build::ideal())] {
        let plan = FatTree::regular(4, LINE).plan(&build);
        for seed in [1, 2] {
            let (_, links) = carried(&plan, seed, &[15], 64, 3_000);
            // Switches 0 to 7 are edge switches; 8 and 9 aggregation switches of pod 0.
            let layers = [0, 8, 9].map(|switch| flows_up(&links, switch, 15));
            let least = layers.as_flattened().iter().min();
            assert!(least >= Some(&5), "{name}, seed {seed}: {layers:?}");
        }
    }
}

#[test]
fn other_equal_cost_paths_stay_in_use_after_line_failure() {
    let plan = leaf_spine(3, vec![(2, 0)]).plan(&routers());
    let (_, links) = carried(&plan, 1, &[2, 4], 16, 3_000);
    let [both, one] = [2, 4].map(|to| flows_up(&links, 0, to));
    assert!(both[0] > 0 && both[1] > 0 && both[0] + both[1] == 16, "{both:?}");
    assert_eq!(one, [0, 16], "flows to leaf 2 left by the spine without a line to it");
}

#[test]
fn routed_and_bridged_flows_take_equally_long() {
    for switches in 1..4_usize {
        let records = [routers(), Build::ideal()].map(|build| {
            let mut graph = topology::Graph::default();
            let all: Vec<u32> = (0..switches).map(|_| graph.add_switch(0)).collect();
            for at in [0, 0, switches - 1] {
                graph.add_host(all[at], line(25, 333));
            }
            all.windows(2).for_each(|pair| graph.link(pair[0], pair[1], LINE));
            let mut fabric = FlowFabric::new(&graph.plan(&build), Seed(1), roce());
            let of = [(0, 2), (1, 2), (2, 1)].map(|(from, to)| fabric.add(flow(from, to, 200_000)));
            assert!(fabric.run_to_end(Picos::from_micros(10_000)));
            check(&fabric);
            of.map(|flow| fabric.record(flow))
        });
        let [routed, bridged] = records;
        assert_eq!(
            routed, bridged,
            "{switches} switches: a routed flow and a bridged one take different times"
        );
        assert!(routed.iter().all(|of| of.slowdown() >= Some(1.0)), "{routed:?}");
    }
}

fn of_single_frames(plan: &Plan) -> Fabric<SwitchNode, TrafficHost> {
    let make = |at, settings, slots| SwitchNode::new(at, &settings, slots);
    let mut fabric = Fabric::of(plan, Seed(1), make, TrafficHost::new);
    fabric.route(plan);
    fabric
}

fn frame(len: usize, change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..6].copy_from_slice(&router(0, 0).0);
    frame[6..12].copy_from_slice(&address(0).0);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17]);
    frame[16..18]
        .copy_from_slice(&u16::try_from(len - 14).expect("frame length exceeds 16 bits").to_be_bytes());
    frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    change(&mut frame);
    let sum: u32 = (14..34).step_by(2).map(|at| u32::from(frame[at]) << 8 | u32::from(frame[at + 1])).sum();
    let [high, low] = u16::try_from(!((sum & 0xffff) + (sum >> 16)) & 0xffff).unwrap_or(0).to_be_bytes();
    frame[24..26].copy_from_slice(&[high, low]);
    frame
}

fn table(plan: &Plan, own: &[[u8; 4]]) -> Arc<Fib> {
    let mut router_0 = Router::new(&plan.kind(0).settings, (0..4).map(|port| router(0, port)));
    own.iter().for_each(|address| router_0.own((*address).into()));
    Arc::new(router_0.fib(Spread::Flow))
}

fn emit(fabric: &mut Fabric<SwitchNode, TrafficHost>, frame: &[u8]) {
    fabric.at_host(0, |host, net| host.emit(frame, net));
    fabric.run_to_rest();
}

fn punted(fabric: &Fabric<SwitchNode, TrafficHost>, reason: PuntReason) -> u64 {
    fabric.switches()[0].counters().port(PortId(0)).punts[reason.index()].no_room.get()
}

#[test]
fn simulated_router_drops_slow_path_traffic_by_reason() {
    let mut fabric = of_single_frames(&leaf_spine(2, Vec::new()).plan(&routers()));
    let frame = |change: &dyn Fn(&mut Vec<u8>)| frame(60, change);
    let arp = |frame: &mut Vec<u8>| frame[12..14].copy_from_slice(&[8, 6]);
    let not_transit = [
        (PuntReason::HopLimit, frame(&|frame| frame[22] = 1)),
        (PuntReason::NoRoute, frame(&|frame| frame[33] = 99)),
        (PuntReason::Arp, frame(&arp)),
        (PuntReason::Other, frame(&|frame| frame[12] = 0x99)),
    ];
    let mut broken = frame(&|_| ());
    broken[25] ^= 1;
    let refused = [
        (DropReason::BadIp, broken),
        (DropReason::OtherStation, frame(&|frame| frame[..6].copy_from_slice(&address(1).0))),
    ];
    let frames = not_transit.iter().map(|(_, frame)| frame).chain(refused.iter().map(|(_, frame)| frame));
    for frame in frames {
        emit(&mut fabric, frame);
    }
    let leaf = &fabric.switches()[0];
    assert_eq!(not_transit.each_ref().map(|(reason, _)| punted(&fabric, *reason)), [1; 4]);
    assert_eq!(leaf.counters().dropped(DropReason::PuntFull), 4);
    assert_eq!(refused.each_ref().map(|(reason, _)| leaf.counters().dropped(*reason)), [1; 2]);
    assert_eq!((leaf.switch().ledger().missing(), leaf.frames(), fabric.missing()), (0, 0, 0));
    assert_eq!(fabric.tally().hops, 6, "number of hops of six dropped frames");
    emit(&mut fabric, &frame(&|_| ()));
    assert_eq!(fabric.tally().hops, 8);
}

#[test]
fn router_drops_packet_above_mtu_of_egress() {
    let plan = leaf_spine(2, Vec::new()).plan(&Build::cached(|lines: &[Line], _| {
        let mut kind = routed(lines);
        kind.settings.ports[0].mtu_frame += 100;
        kind
    }));
    let longest = plan.kind(0).settings.ports[1].mtu_frame as usize;
    let mut fabric = of_single_frames(&plan);
    emit(&mut fabric, &frame(longest, |_| ()));
    assert_eq!((punted(&fabric, PuntReason::TooBig), fabric.tally().hops), (0, 2));
    emit(&mut fabric, &frame(longest + 1, |_| ()));
    assert_eq!((punted(&fabric, PuntReason::TooBig), fabric.tally().hops), (1, 3));
    assert_eq!(fabric.missing(), 0);
}

#[test]
fn router_treats_only_its_own_address_as_local() {
    let plan = leaf_spine(2, Vec::new()).plan(&routers());
    let mut fabric = of_single_frames(&plan);
    fabric.at_switch(0, |switch, net| switch.set_fib(table(&plan, &[[10, 0, 0, 2]]), net));
    let counts = [1, 2, 3].map(|last| {
        emit(&mut fabric, &frame(60, |frame| frame[33] = last));
        [PuntReason::Local, PuntReason::NoRoute].map(|reason| punted(&fabric, reason))
    });
    assert_eq!(counts, [[0, 1], [1, 1], [1, 2]]);
}

#[test] // proves: sim-faults
fn new_routing_table_applies_at_once_or_after_stall() {
    let plan = leaf_spine(2, Vec::new()).plan(&routers());
    let end = Nanos::from_micros(50);
    for (stalls, counts) in [(true, [0, 1]), (false, [1, 2])] {
        let mut fabric = of_single_frames(&plan);
        fabric.at_switch(0, |switch, net| {
            if stalls {
                switch.stall(end, net);
            }
            switch.set_fib(table(&plan, &[]), net);
        });
        let no_route = [(); 2].map(|()| {
            emit(&mut fabric, &frame(60, |_| ()));
            punted(&fabric, PuntReason::NoRoute)
        });
        assert_eq!(no_route, counts, "{stalls}");
        assert_eq!(fabric.missing(), 0);
    }
}

#[test] // proves: sim-faults
fn restarted_router_keeps_its_routes() {
    let plan = leaf_spine(2, Vec::new()).plan(&routers());
    for (is_emptied, counts) in [(false, [0, 2]), (true, [1, 1])] {
        let mut fabric = of_single_frames(&plan);
        if is_emptied {
            fabric.at_switch(0, |switch, net| switch.set_fib(table(&plan, &[]), net));
        }
        fabric.restart(&plan, Seed(1), 0, &plan.kind(0).settings, Nanos::ZERO);
        fabric.run_to_rest();
        emit(&mut fabric, &frame(60, |_| ()));
        assert_eq!([punted(&fabric, PuntReason::NoRoute), fabric.tally().hops], counts);
    }
}

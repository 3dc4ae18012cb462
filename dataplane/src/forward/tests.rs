use proptest::prelude::*;
use xoff_flow_control::settings::{
    Accounting, FdbSettings, HashSeed, LoopDetection, Memory, VlanSettings, WhenFull,
};
use xoff_wire::Tci;
use xoff_wire::units::Class;

use super::*;
use crate::forward::vlan::DEFAULT_VID;
use crate::testing::port_settings;
use pnet_packet::ethernet::EtherTypes;
use xoff_explore::explore;

const NOW: Nanos = Nanos::from_secs(1);
const AGEING: Nanos = Nanos::from_secs(300);
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
mod groups;

const GROUP: MacAddr = MacAddr([1, 0, 0x5e, 0, 0, 1]);

fn settings(ports: u8) -> SwitchSettings {
    SwitchSettings {
        ports: (0..ports).map(port_settings).collect(),
        accounting: Accounting::default(),
        memory: Memory::default(),
        lossy_pool: Default::default(),
        when_full: WhenFull::default(),
        pipeline: Default::default(),
        policies: Default::default(),
        shadows: Vec::new(),
        policy: Default::default(),
        hash: Default::default(),
        fdb: FdbSettings { capacity: 64, ageing: Some(AGEING), statics: vec![], seed: HashSeed::PUBLIC },
        groups: vec![],
        vlans: vec![],
        routed_vlans: vec![],
        multicast: Default::default(),
        qcn: Default::default(),
    }
}

fn frame(src: MacAddr, dst: MacAddr, vid: Option<u16>) -> Header {
    let tag = vid.map(|vid| Tci::new(Class::ALL[3], false, vid));
    Header { dst, src, tag, cn_tag: None, ether_type: EtherTypes::Ipv4, dscp: None, l3: 14 }
}

fn decide(bridge: &mut Bridge, ingress: u8, src: MacAddr, dst: MacAddr) -> Decision {
    bridge.forward(NOW, PortId(ingress), &frame(src, dst, None)).decision
}

fn flood(kind: Flooded, ports: &[u8]) -> Decision {
    Decision::Flood(ports.iter().copied().map(PortId).collect(), kind)
}

#[test]
fn bridge_floods_only_frames_to_unlearned_destinations() {
    let mut bridge = Bridge::new(&settings(4));
    assert_eq!(decide(&mut bridge, 0, A, B), flood(Flooded::Unknown, &[1, 2, 3]));
    assert_eq!(decide(&mut bridge, 2, B, A), Decision::Unicast(PortId(0)));
    assert_eq!(decide(&mut bridge, 0, A, B), Decision::Unicast(PortId(2)));
    assert_eq!(decide(&mut bridge, 0, A, MacAddr::BROADCAST), flood(Flooded::Broadcast, &[1, 2, 3]));
    assert_eq!(
        decide(&mut bridge, 3, A, GROUP),
        flood(Flooded::Multicast, &[0, 1, 2]),
        "flood reached the port to which station A moved"
    );
    assert_eq!(decide(&mut bridge, 2, B, A), Decision::Unicast(PortId(3)));
}

#[test]
fn duplicate_mac_that_sends_to_router_is_not_reported_as_loop() {
    let router = MacAddr([2, 0, 0, 0, 0, 0xf]);
    let found_with = |routed_vlans| {
        let mut settings = SwitchSettings { routed_vlans, ..settings(2) };
        settings.ports.iter_mut().for_each(|port| port.loop_detection = LoopDetection::Alert);
        let mut bridge = Bridge::new(&settings);
        for number in 0..=2 * LOOP_MOVES {
            let host = if number / 2 % 2 == 0 { A } else { B };
            decide(&mut bridge, u8::from(number % 2 == 1), host, router);
        }
        bridge.loops.found()
    };
    assert_eq!(found_with(vec![]), 1, "frames to an unknown station are flooded");
    assert_eq!(found_with(vec![(DEFAULT_VID, router)]), 0);
}

#[test]
fn frame_never_leaves_by_ingress_port() {
    let mut bridge = Bridge::new(&settings(2));
    decide(&mut bridge, 0, A, B);
    assert_eq!(decide(&mut bridge, 0, B, A), Decision::Drop(DropReason::Hairpin));
    let mut alone = Bridge::new(&settings(1));
    assert_eq!(decide(&mut alone, 0, A, B), Decision::Drop(DropReason::NoDestination));
}

#[test] // proves: link-down
fn port_without_link_learns_nothing() {
    let mut bridge = Bridge::new(&settings(3));
    bridge.set_link(PortId(1), false);
    decide(&mut bridge, 1, A, B); // it was received before the link went down
    bridge.apply_remote(&FdbUpdate { vid: 1, mac: A, port: PortId(1), last_active: NOW }); // and at another worker
    assert_eq!(decide(&mut bridge, 0, B, A), flood(Flooded::Unknown, &[2]));
    bridge.set_link(PortId(1), true);
    decide(&mut bridge, 1, A, B);
    assert_eq!(decide(&mut bridge, 0, B, A), Decision::Unicast(PortId(1)));
}

#[test]
fn flood_skips_ports_that_disable_its_flood_kind() {
    let mut settings = settings(4);
    settings.ports[1].flood_unknown = false;
    settings.ports[2].flood_group = false;
    let mut bridge = Bridge::new(&settings);
    assert_eq!(decide(&mut bridge, 0, A, B), flood(Flooded::Unknown, &[2, 3]));
    assert_eq!(decide(&mut bridge, 0, A, GROUP), flood(Flooded::Multicast, &[1, 3]));
    decide(&mut bridge, 1, B, A);
    assert_eq!(
        decide(&mut bridge, 0, A, B),
        Decision::Unicast(PortId(1)),
        "frame to a known station was flooded"
    );
}

#[test]
fn isolated_ports_exchange_no_frames() {
    let mut settings = settings(4);
    settings.ports[0].isolated = true;
    settings.ports[1].isolated = true;
    let mut bridge = Bridge::new(&settings);
    assert_eq!(decide(&mut bridge, 0, A, GROUP), flood(Flooded::Multicast, &[2, 3]));
    assert_eq!(decide(&mut bridge, 2, B, GROUP), flood(Flooded::Multicast, &[0, 1, 3]));
    assert_eq!(decide(&mut bridge, 1, B, A), Decision::Drop(DropReason::Isolated));
    assert_eq!(decide(&mut bridge, 0, A, B), Decision::Drop(DropReason::Isolated));
    assert_eq!(decide(&mut bridge, 3, B, A), Decision::Unicast(PortId(0)));
}

#[test]
fn bridge_never_forwards_or_finds_addresses_across_vlans() {
    let mut settings = settings(4);
    let ids = |ports: &[u8]| ports.iter().copied().map(PortId).collect::<Vec<_>>();
    settings.vlans = vec![
        VlanSettings { vid: 1, tagged: vec![], untagged: ids(&[0, 1]) },
        VlanSettings { vid: 5, tagged: ids(&[0]), untagged: ids(&[2, 3]) },
    ];
    settings.ports[2].pvid = Some(5);
    settings.ports[3].pvid = Some(5);
    let mut bridge = Bridge::new(&settings);
    let tagged = bridge.forward(NOW, PortId(0), &frame(A, B, Some(5)));
    assert_eq!((tagged.vid, tagged.decision), (5, flood(Flooded::Unknown, &[2, 3])));
    let untagged = bridge.forward(NOW, PortId(0), &frame(B, A, None));
    assert_eq!(
        (untagged.vid, untagged.decision),
        (1, flood(Flooded::Unknown, &[1])),
        "station A was found in another VLAN"
    );
    let back = bridge.forward(NOW, PortId(2), &frame(B, A, Some(0)));
    assert_eq!((back.vid, back.decision), (5, Decision::Unicast(PortId(0))));
    let refused = bridge.forward(NOW, PortId(1), &frame(B, A, Some(5)));
    assert_eq!((refused.vid, refused.decision), (0, Decision::Drop(DropReason::NotMember)));
    assert!(bridge.is_tagged(PortId(0), 5) && !bridge.is_tagged(PortId(2), 5));
}

#[test] // proves: link-down
fn port_without_link_gets_no_frames_and_forgets_stations() {
    let mut settings = settings(3);
    settings.fdb.statics = vec![(1, B, PortId(2))];
    let mut bridge = Bridge::new(&settings);
    decide(&mut bridge, 1, A, B);
    bridge.set_link(PortId(1), false);
    bridge.set_link(PortId(2), false);
    assert_eq!(decide(&mut bridge, 0, MacAddr([2; 6]), A), Decision::Drop(DropReason::NoDestination));
    assert_eq!(decide(&mut bridge, 0, MacAddr([2; 6]), B), Decision::Drop(DropReason::LinkDown));
    bridge.set_link(PortId(1), true);
    assert_eq!(decide(&mut bridge, 0, MacAddr([2; 6]), A), flood(Flooded::Unknown, &[1]));
    assert!(bridge.is_up(PortId(1)) && !bridge.is_up(PortId(2)));
}

#[test]
fn frame_to_static_address_outside_its_vlan_is_dropped() {
    let mut settings = settings(3);
    settings.vlans = vec![VlanSettings { vid: 1, tagged: vec![], untagged: vec![PortId(0), PortId(1)] }];
    settings.fdb.statics = vec![(1, B, PortId(2))];
    let mut bridge = Bridge::new(&settings);
    assert_eq!(decide(&mut bridge, 0, A, B), Decision::Drop(DropReason::NoDestination));
}

#[test]
fn worker_forwards_to_address_learned_by_another_worker() {
    let mut first = Bridge::new(&settings(3));
    let mut second = first.clone();
    let update = first.forward(NOW, PortId(0), &frame(A, B, None)).learned.unwrap();
    assert_eq!(update, FdbUpdate { vid: 1, mac: A, port: PortId(0), last_active: NOW });
    assert_eq!(
        first.forward(NOW, PortId(0), &frame(A, B, None)).learned,
        None,
        "the worker sent an update for an address that it already knew"
    );
    second.apply_remote(&update);
    assert_eq!(decide(&mut second, 2, B, A), Decision::Unicast(PortId(0)));
}

#[test]
fn sweeps_at_bridge_deadlines_remove_all_addresses() {
    let mut bridge = Bridge::new(&settings(2));
    assert_eq!(bridge.next_deadline(), Nanos::NEVER);
    decide(&mut bridge, 0, A, B);
    while bridge.next_deadline() != Nanos::NEVER {
        bridge.advance(bridge.next_deadline());
    }
    assert!(bridge.fdb().is_empty());
}

explore! {
    #[test]
    fn forwarding_decision_uses_only_permitted_ports_with_link(
        isolated in any::<[bool; 6]>(), up in any::<[bool; 6]>(),
        frames in prop::collection::vec((0u8..6, 0u8..8, 0u8..8, prop::option::of(0u16..4)), 1..100)
    ) {
        let mut settings = settings(6);
        for (port, isolated) in settings.ports.iter_mut().zip(isolated) {
            port.isolated = isolated;
        }
        let member_of = |vid: u16, port: u8| vid == 1 || u16::from(port) % 3 == vid % 3;
        settings.vlans = (1..=3)
            .map(|vid| {
                let members = (0..6).filter(|&port| member_of(vid, port)).map(PortId);
                VlanSettings { vid, tagged: members.collect(), untagged: vec![] }
            })
            .collect();
        let mut bridge = Bridge::new(&settings);
        for (port, up) in (0..6).zip(up) {
            bridge.set_link(PortId(port), up);
        }
        for (ingress, src, dst, vid) in frames {
            let mac = |n: u8| MacAddr([n & 3, 0, 0, 0, 0, n]);
            let header = frame(mac(src), mac(dst), vid);
            let forwarding = bridge.forward(NOW, PortId(ingress), &header);
            let out = match forwarding.decision {
                Decision::Unicast(port) => [port].into_iter().collect(),
                Decision::Group(_) | Decision::Route(_) => unreachable!("decision for a group or router without such settings"),
                Decision::Flood(ports, _) => { prop_assert!(!ports.is_empty()); ports }
                Decision::Drop(_) => PortSet::NONE,
            };
            for port in out.iter() {
                prop_assert!(port != PortId(ingress) && up[port.index()]);
                prop_assert!(!(isolated[port.index()] && isolated[usize::from(ingress)]));
                prop_assert!(member_of(forwarding.vid, port.0) && member_of(forwarding.vid, ingress));
            }
            prop_assert!(bridge.fdb().entries(NOW).all(|entry| !entry.mac.is_group()));
        }
    }

    #[test] // proves: batches
    fn frames_of_micro_flow_are_forwarded_like_single_frames(
        ageing in prop::option::of(1u64..40), limit in prop::option::of(0usize..3),
        steps in prop::collection::vec(step(), 1..200)
    ) {
        let mut settings = settings(3);
        let statics = vec![(1, mac(5), PortId(1))];
        settings.fdb = FdbSettings { capacity: 4, ageing: ageing.map(Nanos), statics, seed: HashSeed::PUBLIC };
        settings.ports[0].learn_limit = limit;
        settings.vlans = [1, 2].map(|vid| VlanSettings {
            vid, tagged: vec![PortId(0)], untagged: vec![PortId(1), PortId(2)],
        }).into();
        let (mut whole, mut single) = (Bridge::new(&settings), Bridge::new(&settings));
        let (mut now, mut before) = (NOW, [const { None::<Vec<u8>> }; 3]);
        let mut went = [None::<(Nanos, u64, Forwarding)>; 3];
        for step in steps {
            match step {
                BridgeStep::Frames { ingress, bytes, count } => for _ in 0..count {
                    let header = Header::parse(&bytes).unwrap();
                    let expected = single.forward(now, PortId(ingress), &header);
                    let before = before[usize::from(ingress)].replace(bytes.clone());
                    let follows = before.is_some_and(|before| before == bytes);
                    let last = &mut went[usize::from(ingress)];
                    let same = |&(at, version, _): &(Nanos, u64, Forwarding)| at == now && version == whole.version();
                    let forwarding = match last.filter(|last| follows && last.2.repeats && same(last)) {
                        Some((.., Forwarding { decision: Decision::Unicast(egress), vid, .. })) => {
                            Forwarding { decision: Decision::Unicast(egress), vid, repeats: true, learned: None }
                        }
                        _ => whole.forward(now, PortId(ingress), &header),
                    };
                    *last = Some((now, whole.version(), forwarding));
                    prop_assert_eq!(forwarding, expected);
                },
                BridgeStep::Link(port, up) => {
                    whole.set_link(PortId(port), up);
                    single.set_link(PortId(port), up);
                }
                BridgeStep::Learned(station, port) => {
                    let update = FdbUpdate { vid: 1, mac: mac(station), port: PortId(port), last_active: now };
                    whole.apply_remote(&update);
                    single.apply_remote(&update);
                }
                BridgeStep::Time(by) => {
                    now += Nanos(by);
                    whole.advance(now);
                    single.advance(now);
                }
            }
            let entries = |bridge: &Bridge| bridge.fdb().entries(now).collect::<Vec<_>>();
            prop_assert_eq!(entries(&whole), entries(&single));
            let refused = |bridge: &Bridge| [0, 1, 2].map(|port| bridge.fdb().refused_at(PortId(port)));
            prop_assert_eq!(refused(&whole), refused(&single));
        }
    }
}

#[derive(Clone, Debug)]
enum BridgeStep {
    Frames { ingress: u8, bytes: Vec<u8>, count: u8 },
    Link(u8, bool),
    Learned(u8, u8),
    Time(u64),
}

fn step() -> impl Strategy<Value = BridgeStep> {
    // Use few destinations, so that learning and station moves often interrupt micro-flows.
    let dst = prop_oneof![6 => 0u8..2, 1 => 5u8..7];
    let frame = (0u8..2, dst, prop::option::weighted(0.2, 0u16..3)).prop_map(|(src, dst, vid)| {
        let mut bytes = [mac(dst).0, mac(src).0].concat();
        if let Some(vid) = vid {
            bytes.extend([0x81, 0x00]);
            bytes.extend(vid.to_be_bytes());
        }
        bytes.extend([0x08, 0x00, 0x45, 0]);
        bytes
    });
    prop_oneof![
        8 => (0u8..3, frame, 1u8..4)
            .prop_map(|(ingress, bytes, count)| BridgeStep::Frames { ingress, bytes, count }),
        1 => (0u8..3, any::<bool>()).prop_map(|(port, up)| BridgeStep::Link(port, up)),
        2 => (0u8..2, 0u8..3).prop_map(|(station, port)| BridgeStep::Learned(station, port)),
        2 => (0u64..20).prop_map(BridgeStep::Time),
    ]
}

fn mac(n: u8) -> MacAddr {
    MacAddr([if n == 6 { 3 } else { 2 }, 0, 0, 0, 0, n])
}

// Tests for SPECIFICATION.md: snooping

use std::sync::{Arc, Mutex};

use xoff_dataplane::forward::{MulticastPorts, MulticastTable, SnoopedVlan};
use xoff_dataplane::switch::{Switch, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_wire::ip::Address;
use xoff_wire::units::{MacAddr, Nanos, PortId, PortSet};

use crate::bed::plan::{self, LINK};
use crate::bed::store::MemoryStore;
use crate::by_hand::{Punted, punted_by, sent};

const PORTS: u8 = 5;
const SVI: MacAddr = MacAddr([2, 0, 0, 0, 7, 7]);

struct Bench {
    switch: Switch,
    counters: Arc<Counters>,
    store: MemoryStore,
    punted: Arc<Mutex<Punted>>,
    now: Nanos,
}

impl Bench {
    fn new(router: Option<MacAddr>) -> Bench {
        let mut plan = plan::switch(&[LINK; PORTS as usize]);
        plan.settings.routed_vlans = router.map(|mac| (1, mac)).into_iter().collect();
        let counters = Counters::new(PORTS.into());
        let workers = Workers::single(PORTS.into());
        let mut switch = Switch::new(&plan.settings, 64, workers, Arc::clone(&counters));
        let punted = punted_by(&mut switch);
        Bench { switch, counters, store: MemoryStore::new(60, 4, 16, 1600), punted, now: Nanos(0) }
    }

    fn publish(&mut self, vlan: SnoopedVlan, groups: Vec<((u16, Address), PortSet)>) {
        let table = Arc::new(MulticastTable::new(vec![vlan], groups));
        drop(self.switch.batch(self.now).set_multicast(table));
    }

    fn forward(&mut self, port: u8, frame: &[u8]) -> (Vec<u8>, Vec<PuntReason>) {
        let frame = self.store.fill(frame).expect("no slot is free");
        let mut batch = self.switch.batch(self.now);
        batch.receive(PortId(port), frame, &mut self.store);
        while batch.forward(&mut self.store) {}
        drop(batch);
        let exits = (0..PORTS)
            .filter(|&port| !sent(&mut self.switch, &mut self.store, &mut self.now, PortId(port)).is_empty());
        let exits = exits.collect();
        assert_eq!((self.switch.ledger().missing(), self.store.in_use()), (0, 0));
        let punted = std::mem::take(&mut self.punted.lock().expect("a test thread has panicked").frames);
        assert!(punted.iter().all(|(punt, _)| (punt.vid, punt.port) == (1, PortId(port))));
        (exits, punted.into_iter().map(|(punt, _)| punt.reason).collect())
    }

    fn unwanted(&self, port: u8) -> u64 {
        self.dropped(port, DropReason::NoListener)
    }

    fn dropped(&self, port: u8, reason: DropReason) -> u64 {
        self.counters.class(PortId(port), crate::C0).drops[reason.index()].get()
    }
}

fn ports(ports: &[u8]) -> PortSet {
    ports.iter().copied().map(PortId).collect()
}

fn ipv4(dst: [u8; 4], protocol: u8, kind: u8) -> Vec<u8> {
    let mut frame = vec![1, 0, 0x5e, dst[1] & 0x7f, dst[2], dst[3], 2, 0, 0, 0, 0, 9, 8, 0];
    frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 1, protocol, 0, 0, 10, 0, 0, 9]);
    frame.extend(dst);
    frame.extend([kind, 0, 0, 0]);
    frame.resize(60, 0);
    frame
}

fn ipv6(dst: u128, kind: u8) -> Vec<u8> {
    let mut frame = vec![0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 16, 0, 1];
    frame.extend([0; 16]);
    frame.extend(dst.to_be_bytes());
    frame.extend([if kind == 0 { 17 } else { 58 }, 0, 5, 2, 0, 0, 1, 0, kind, 0, 0, 0, 0, 0, 0, 0]);
    frame
}

const GROUP: [u8; 4] = [239, 1, 2, 3];
const UNKNOWN: [u8; 4] = [239, 9, 9, 9];
const GROUP6: u128 = (0xff05 << 112) | 5;

fn groups() -> Vec<((u16, Address), PortSet)> {
    let group = Address::V4(u32::from_be_bytes(GROUP));
    vec![((1, Address::V6(GROUP6)), ports(&[2])), ((1, group), ports(&[0, 2, 3])), ((2, group), ports(&[1]))]
}

#[test]
fn multicast_frame_leaves_only_by_ports_of_its_group() {
    use PuntReason::Membership;
    let mut bench = Bench::new(None);
    let all = vec![1, 2, 3, 4];
    assert_eq!(bench.forward(0, &ipv4(GROUP, 17, 0)), (all.clone(), vec![]), "without a table");
    let limited = MulticastPorts { reports: Some(ports(&[3])), unknown: Some(ports(&[3])) };
    bench.publish(SnoopedVlan { vid: 1, ipv4: limited, ipv6: MulticastPorts::default() }, groups());
    let reports = [0x12, 0x16, 0x17, 0x22];
    let cases = [
        ("group", ipv4(GROUP, 17, 0), vec![2, 3], vec![]),
        ("unknown group", ipv4(UNKNOWN, 17, 0), vec![3], vec![]),
        ("224.0.0.251", ipv4([224, 0, 0, 251], 17, 0), all.clone(), vec![]),
        ("query", ipv4([224, 0, 0, 1], 2, 0x11), all.clone(), vec![Membership]),
        ("PIM hello", ipv4([224, 0, 0, 13], 103, 0x20), all.clone(), vec![Membership]),
        ("other IGMP", ipv4(GROUP, 2, 0x30), all.clone(), vec![]),
        ("IPv6 group", ipv6(GROUP6, 0), vec![2], vec![]),
        ("unknown IPv6 group", ipv6(GROUP6 + 1, 0), all.clone(), vec![]),
        ("MLD report", ipv6(GROUP6, 131), all.clone(), vec![Membership]),
        ("MLD query", ipv6((0xff02 << 112) | 1, 130), all.clone(), vec![Membership]),
        ("neighbour discovery", ipv6((0xff02 << 112) | 0x1_ff00_0001, 135), all.clone(), vec![]),
    ];
    for (name, frame, exits, punts) in cases {
        assert_eq!(bench.forward(0, &frame), (exits, punts), "{name}");
    }
    for kind in reports {
        assert_eq!(bench.forward(0, &ipv4(GROUP, 2, kind)), (vec![3], vec![Membership]), "{kind:#x}");
    }
    let mut broadcast = ipv4(GROUP, 17, 0);
    broadcast[..6].fill(0xff);
    assert_eq!(bench.forward(0, &broadcast).0, all);
    bench.publish(SnoopedVlan { vid: 2, ipv4: limited, ipv6: limited }, groups());
    assert_eq!(bench.forward(0, &ipv4(GROUP, 2, 0x16)), (all, vec![]), "VLAN 1 is not snooped");
}

#[test]
fn unwanted_multicast_is_filtered_or_consumed() {
    let limited = MulticastPorts { reports: Some(PortSet::NONE), unknown: Some(PortSet::NONE) };
    let vlan = SnoopedVlan { vid: 1, ipv4: limited, ipv6: limited };
    let (data, report) = (ipv4(UNKNOWN, 17, 0), ipv4(UNKNOWN, 2, 0x16));
    let mut bench = Bench::new(None);
    bench.publish(vlan, groups());
    assert_eq!(bench.forward(0, &data), (vec![], vec![]));
    assert_eq!(
        (bench.unwanted(0), DropReason::NoListener.kind()),
        (1, xoff_flow_control::drop_reason::DropKind::Filtered)
    );
    assert_eq!(bench.forward(0, &report), (vec![], vec![PuntReason::Membership]));
    assert_eq!((bench.unwanted(0), bench.switch.ledger().consumed), (1, 1));
    for port in 1..PORTS {
        bench.switch.batch(bench.now).set_link(PortId(port), false, &mut bench.store);
    }
    assert_eq!(
        bench.forward(0, &report).1,
        [PuntReason::Membership],
        "the report of a host at the only port with link was not punted"
    );
    assert_eq!(bench.forward(0, &data), (vec![], vec![]));
    assert_eq!((bench.unwanted(0), bench.dropped(0, DropReason::NoDestination)), (1, 1), "no port is up");
    let mut routed = Bench::new(Some(SVI));
    routed.publish(vlan, groups());
    assert_eq!(routed.forward(0, &report), (vec![], vec![PuntReason::Membership]));
    assert_eq!(routed.forward(0, &ipv4(GROUP, 17, 0)), (vec![2, 3], vec![PuntReason::Group]));
    assert_eq!(routed.forward(0, &data), (vec![], vec![]), "the router of the VLAN is down");
    assert_eq!(routed.unwanted(0), 0);
}

#[test]
fn membership_report_is_forwarded_although_punt_sink_is_full() {
    let mut bench = Bench::new(None);
    let limited = MulticastPorts { reports: Some(ports(&[1])), unknown: None };
    bench.publish(SnoopedVlan { vid: 1, ipv4: limited, ipv6: limited }, vec![]);
    bench.punted.lock().expect("a test thread has panicked").room = 0;
    assert_eq!(
        bench.forward(0, &ipv4(GROUP, 2, 0x16)),
        (vec![1], vec![]),
        "a report was not forwarded although only its punt had no room"
    );
    let punts = &bench.counters.port(PortId(0)).punts[PuntReason::Membership.index()];
    assert_eq!((punts.punted.get(), punts.no_room.get()), (0, 1));
}

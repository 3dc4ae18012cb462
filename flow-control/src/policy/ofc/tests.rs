#![allow(clippy::unwrap_used)]
//! Tests of OFC with X_OFF = 20,000 bytes, X_ON = 10,000, and alpha = 0.9, so that X_OFF^c = 18,000.

use xoff_wire::units::{Bytes, Class};
use xoff_wire::{FlowPause, Header};

use super::*;
use crate::counters::Counters;
use crate::settings::{Accounting, FdbSettings, HashSeed, Memory, SharedMemory, WhenFull};
use crate::testing::port_settings;

const C3: Class = Class::ALL[3];
const OUT: PortId = PortId(4);
const FREE: PortId = PortId(5);
const IN: PortId = PortId(0);

fn key(number: u16) -> FlowKey {
    FlowKey::V4 { protocol: 17, ports: [number, 4791], src: [10, 0, 0, 1], dst: [10, 0, 0, 2] }
}

struct OfcBench {
    buffer: Buffer,
    ofc: Ofc,
    intents: Vec<Intent>,
}

impl OfcBench {
    fn new() -> OfcBench {
        OfcBench::with(OfcSettings::default())
    }

    fn with(ofc: OfcSettings) -> OfcBench {
        OfcBench::in_memory(Memory::Dedicated, ofc)
    }

    fn in_memory(memory: Memory, ofc: OfcSettings) -> OfcBench {
        let mut settings = SwitchSettings {
            ports: (0..6).map(port_settings).collect(),
            accounting: Accounting::default(),
            memory,
            lossy_pool: Default::default(),
            when_full: WhenFull::Drop,
            pipeline: Default::default(),
            policies: Default::default(),
            shadows: Vec::new(),
            qcn: Default::default(),
            policy: Default::default(),
            hash: Default::default(),
            fdb: FdbSettings { capacity: 16, ageing: None, statics: Vec::new(), seed: HashSeed::PUBLIC },
            vlans: Vec::new(),
            routed_vlans: Vec::new(),
            multicast: Default::default(),
            groups: Vec::new(),
        };
        settings.policy.ofc = ofc;
        for (index, port) in settings.ports.iter_mut().enumerate() {
            port.ofc_peer = index != 2;
        }
        let ofc = Ofc::new(Pfc::new(C3, PortSet::ALL), &settings);
        OfcBench { buffer: Buffer::new(&settings, 6, Counters::new(6)), ofc, intents: Vec::new() }
    }

    fn observe(&mut self, event: Event) {
        self.ofc.observe(event, &self.buffer, &mut self.intents);
    }

    fn arrive(&mut self, ingress: PortId, egress: PortId, flow: u16, size: u64) {
        let size = Bytes(size);
        self.buffer.enter_ingress(ingress, C3, size).unwrap();
        self.observe(Event::Received { ingress });
        self.buffer.enter_egress(ingress, egress, C3, size);
        self.ofc.packet_in(egress, ingress, &key(flow));
        self.observe(Event::Enqueued { ingress, egress, size });
    }

    fn leave(&mut self, ingress: PortId, egress: PortId, flow: u16, size: u64) {
        let number = self.ofc.egress[egress.index()].flows.find(&key(flow)).unwrap();
        self.ofc.packet_out(egress, number);
        self.buffer.leave_egress(ingress, egress, C3, Bytes(size));
        self.observe(Event::Dequeued { egress });
        self.buffer.leave_ingress(ingress, C3, Bytes(size));
        self.observe(Event::Released { ingress });
    }

    fn class_intents(&mut self) -> Vec<Intent> {
        let is_of_class =
            |intent: &Intent| !matches!(intent, Intent::PauseFlows { .. } | Intent::ResumeFlows { .. });
        std::mem::take(&mut self.intents).into_iter().filter(is_of_class).collect()
    }

    fn next_frame(&mut self, port: PortId) -> Option<(&'static str, Vec<u16>)> {
        let mut bytes = [0; 1514];
        let written = self.ofc.write_frame(Nanos(0), port, MacAddr::default(), Quanta(9), &mut bytes)?;
        let frame = &bytes[..written.len];
        let list = FlowPause::of_frame(&Header::parse(frame).unwrap(), frame).unwrap().unwrap();
        assert_eq!(list.class, C3);
        let number = |flow| match flow {
            FlowKey::V4 { ports: [number, _], .. } => number,
            other => panic!("{other:?}"),
        };
        let mut flows: Vec<u16> = list.flows().map(number).collect();
        flows.sort_unstable();
        Some((if written.resumes { "resume" } else { "pause" }, flows))
    }
}

#[test] // proves: ofc; Algorithm 1, lines 3 and 4
fn ofc_pauses_flows_when_both_queues_reach_flow_threshold() {
    let mut bench = OfcBench::new();
    bench.arrive(IN, OUT, 1, 17_999);
    assert_eq!(bench.next_frame(IN), None, "flow paused with both queues one byte below X_OFF^c");
    bench.arrive(IN, OUT, 1, 1);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![1])));
    assert_eq!(bench.class_intents(), []);

    let mut bench = OfcBench::new();
    bench.arrive(IN, FREE, 1, 1);
    bench.arrive(IN, OUT, 2, 17_999);
    assert_eq!(bench.next_frame(IN), None, "flow paused with the egress queue one byte below X_OFF^c");
    bench.arrive(IN, OUT, 2, 1);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![2])));

    let mut bench = OfcBench::new();
    bench.arrive(PortId(1), OUT, 1, 17_000);
    bench.arrive(IN, OUT, 2, 17_999);
    assert_eq!(bench.next_frame(IN), None, "flow paused with the ingress queue one byte below X_OFF^c");
    bench.arrive(IN, OUT, 2, 1);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![2])));
}

#[test] // proves: ofc; Algorithm 1, lines 5 and 6
fn original_congestion_pauses_all_flows_from_ingress_to_egress() {
    let mut bench = OfcBench::new();
    bench.arrive(PortId(1), OUT, 1, 5_000);
    bench.arrive(IN, FREE, 2, 1_000);
    bench.arrive(IN, OUT, 3, 8_500);
    bench.arrive(IN, OUT, 4, 8_500);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![3, 4])));
    assert_eq!(
        (bench.next_frame(IN), bench.next_frame(PortId(1)), bench.next_frame(FREE)),
        (None, None, None)
    );
    bench.arrive(IN, OUT, 5, 100);
    assert_eq!(
        bench.next_frame(IN),
        Some(("pause", vec![5])),
        "the pause frame does not name only the new flow"
    );
    bench.arrive(IN, OUT, 4, 100);
    assert_eq!(bench.next_frame(IN), None, "a pause frame is due although nothing changed");
}

#[test] // proves: ofc; Algorithm 1, lines 7 and 8
fn local_congestion_pauses_only_flows_paused_downstream() {
    let mut bench = OfcBench::new();
    bench.ofc.pause_flow(OUT, &key(2), Nanos(100)).unwrap();
    bench.ofc.pause_flow(OUT, &key(9), Nanos(100)).unwrap();
    bench.arrive(IN, OUT, 1, 9_000);
    bench.arrive(IN, OUT, 2, 9_000);
    assert_eq!(
        bench.next_frame(IN),
        Some(("pause", vec![2])),
        "the pause frame does not name only flow 2, the only one with queued frames"
    );
    bench.ofc.pause_flow(OUT, &key(1), Nanos(100)).unwrap();
    assert_eq!(bench.next_frame(IN), None);
    bench.arrive(IN, OUT, 2, 100);
    assert_eq!(
        bench.next_frame(IN),
        Some(("pause", vec![1])),
        "flow 1 not paused although the peer has paused it"
    );
}

#[test] // proves: ofc; Algorithm 1, line 11: a pause of the class pauses all flows
fn class_pause_by_peer_makes_ofc_pause_all_flows() {
    let mut bench = OfcBench::new();
    bench.ofc.pause_flow(OUT, &key(2), Nanos(100)).unwrap();
    bench.ofc.class_is_paused(FREE, true);
    bench.arrive(IN, OUT, 1, 9_000);
    bench.arrive(IN, OUT, 2, 9_000);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![2])), "class pause at another port counts");
    bench.ofc.class_is_paused(OUT, true);
    bench.arrive(IN, OUT, 2, 100);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![1])), "flow 1 not paused during the class pause");
    bench.arrive(IN, OUT, 3, 100);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![3])));
    bench.ofc.class_is_paused(OUT, false);
    bench.arrive(IN, OUT, 4, 100);
    assert_eq!(bench.next_frame(IN), None, "flow 4 paused although the peer pauses only the listed flows");
}

#[test] // Algorithm 1, lines 5 and 7: a port whose peer resumes is original again
fn congestion_is_original_again_after_peer_resumes_flows() {
    let mut bench = OfcBench::new();
    bench.ofc.pause_flow(OUT, &key(2), Nanos(100)).unwrap();
    bench.arrive(IN, OUT, 1, 18_000);
    assert_eq!(bench.next_frame(IN), None, "flow 1 paused although only flow 2 is congested");
    assert!(bench.ofc.resume_flow(OUT, &key(2)).is_some());
    bench.arrive(IN, OUT, 1, 100);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![1])));
}

#[test] // proves: ofc; Algorithm 1, lines 10 and 11: plain PFC
fn ofc_pauses_whole_class_at_xoff_threshold() {
    let mut bench = OfcBench::new();
    bench.arrive(IN, FREE, 1, 10_000);
    bench.arrive(IN, OUT, 2, 9_999);
    assert_eq!(bench.class_intents(), []);
    bench.arrive(IN, OUT, 2, 1);
    let xoff = Intent::Xoff { port: IN, class: C3, trigger: Trigger::Ingress };
    assert_eq!(bench.class_intents(), [xoff]);
    bench.arrive(IN, OUT, 2, 9_000);
    assert_eq!(bench.next_frame(IN), None, "flows paused although the class is paused");
}

#[test] // Algorithm 1, line 14: here flows are added
fn ofc_resumes_flows_of_two_egress_queues_together() {
    let mut bench = OfcBench::new();
    bench.arrive(PortId(1), FREE, 7, 17_900);
    bench.arrive(IN, OUT, 1, 18_000);
    bench.arrive(IN, FREE, 2, 100);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![1, 2])));
    bench.leave(IN, OUT, 1, 18_000);
    assert_eq!(bench.next_frame(IN), Some(("resume", vec![1, 2])));
}

#[test] // proves: ofc; Algorithm 1, lines 16 to 19, when a frame has left
fn ofc_resumes_flows_when_queue_drains_to_xon() {
    let mut bench = OfcBench::new();
    bench.arrive(IN, OUT, 1, 7_999);
    bench.arrive(IN, OUT, 1, 1);
    bench.arrive(IN, OUT, 1, 10_000);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![1])));
    bench.leave(IN, OUT, 1, 7_999);
    assert_eq!(
        (bench.next_frame(IN), bench.ofc.requested_flows(IN)),
        (None, 1),
        "flow resumed at 10,001 bytes, above X_ON"
    );
    bench.leave(IN, OUT, 1, 1);
    assert_eq!(bench.next_frame(IN), Some(("resume", vec![1])));
    assert_eq!((bench.next_frame(IN), bench.ofc.requested_flows(IN)), (None, 0));
}

#[test] // Algorithm 1, line 16, as the paper has it: when a frame is enqueued
fn frame_enqueued_while_queue_is_at_xon_makes_ofc_resume_flows() {
    for (size, resumed) in [(5_000, Some(("resume", vec![1]))), (5_001, None)] {
        let mut bench = OfcBench::new();
        bench.arrive(IN, OUT, 1, 18_000);
        bench.next_frame(IN);
        bench.buffer.enter_egress(IN, OUT, C3, Bytes(0));
        bench.buffer.enter_ingress(IN, C3, Bytes(0)).unwrap();
        bench.buffer.leave_egress(IN, OUT, C3, Bytes(13_000));
        bench.buffer.leave_ingress(IN, C3, Bytes(13_000)); // the policy gets no event
        bench.arrive(IN, OUT, 1, size);
        assert_eq!(bench.next_frame(IN), resumed, "wrong frame with {} bytes queued", 5_000 + size);
    }
}

#[test]
fn ofc_ends_its_flow_pauses_when_class_resumes() {
    let mut bench = OfcBench::new();
    bench.arrive(IN, OUT, 1, 18_000);
    bench.arrive(IN, OUT, 1, 2_000);
    assert_eq!(bench.class_intents().len(), 1);
    bench.leave(IN, OUT, 1, 10_001);
    assert_eq!(bench.class_intents(), [Intent::Xon { port: IN, class: C3 }]);
    assert_eq!(bench.ofc.requested_flows(IN), 0);
}

#[test]
fn peer_without_ofc_gets_plain_pfc() {
    let plain = PortId(2);
    let mut bench = OfcBench::new();
    bench.arrive(plain, OUT, 1, 19_999);
    assert_eq!((bench.next_frame(plain), bench.class_intents()), (None, vec![]));
    bench.arrive(plain, OUT, 1, 1);
    let xoff = Intent::Xoff { port: plain, class: C3, trigger: Trigger::Ingress };
    assert_eq!((bench.next_frame(plain), bench.class_intents()), (None, vec![xoff]));
    bench.leave(plain, OUT, 1, 10_001);
    assert_eq!(bench.class_intents(), [Intent::Xon { port: plain, class: C3 }]);
}

#[test]
fn full_table_of_paused_flows_makes_ofc_pause_whole_class() {
    let mut bench = OfcBench::with(OfcSettings { paused_flows: 2, ..OfcSettings::default() });
    bench.arrive(IN, OUT, 1, 9_000);
    bench.arrive(IN, OUT, 2, 9_000);
    assert_eq!(bench.class_intents(), []);
    bench.arrive(IN, OUT, 3, 100);
    let xoff = Intent::Xoff { port: IN, class: C3, trigger: Trigger::TableFull(OUT) };
    assert_eq!(bench.class_intents(), [xoff]);
    bench.leave(IN, OUT, 1, 9_000);
    assert_eq!(bench.class_intents(), [Intent::Xon { port: IN, class: C3 }]);
}

#[test]
fn congestion_pauses_whole_class_if_ofc_flow_table_is_full() {
    let mut bench = OfcBench::with(OfcSettings { flows: 2, ..OfcSettings::default() });
    for flow in 1..=3 {
        bench.arrive(IN, OUT, flow, 5_000);
    }
    bench.arrive(IN, OUT, 1, 2_999);
    assert_eq!(bench.class_intents(), []);
    bench.arrive(IN, OUT, 4, 1);
    let xoff = Intent::Xoff { port: IN, class: C3, trigger: Trigger::TableFull(OUT) };
    assert_eq!(bench.class_intents(), [xoff]);
    bench.arrive(IN, OUT, 1, 2_000);
    assert_eq!(bench.class_intents(), [], "paused class is paused again");
    bench.leave(IN, OUT, 1, 5_000);
    bench.leave(IN, OUT, 2, 5_000);
    assert_eq!(bench.class_intents(), [], "class resumed at XON, not below");
    bench.leave(IN, OUT, 1, 1);
    assert_eq!(bench.class_intents(), [Intent::Xon { port: IN, class: C3 }]);
}

#[test]
fn ofc_pauses_flow_as_soon_as_pause_frame_table_has_room() {
    let mut bench = OfcBench::with(OfcSettings { paused_flows: 1, ..OfcSettings::default() });
    bench.arrive(IN, FREE, 1, 18_000);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![1])));
    bench.arrive(PortId(1), OUT, 3, 16_000);
    bench.arrive(IN, OUT, 2, 1_900);
    bench.arrive(PortId(1), OUT, 3, 100);
    bench.arrive(IN, OUT, 2, 10);
    let xoff = Intent::Xoff { port: IN, class: C3, trigger: Trigger::TableFull(OUT) };
    assert_eq!(bench.class_intents(), [xoff], "class not paused although flow 1 fills the table");
    bench.leave(IN, FREE, 1, 18_000);
    assert_eq!(bench.class_intents(), [Intent::Xon { port: IN, class: C3 }]);
    assert_eq!(bench.next_frame(IN), Some(("resume", vec![1])));
    bench.arrive(IN, FREE, 4, 16_080);
    bench.arrive(IN, OUT, 2, 10);
    assert_eq!((bench.next_frame(IN), bench.class_intents()), (Some(("pause", vec![2])), vec![]));
}

#[test]
fn unsent_flow_pause_is_dropped_when_queue_drains() {
    let mut bench = OfcBench::new();
    bench.arrive(IN, OUT, 1, 18_000);
    bench.intents.clear();
    bench.leave(IN, OUT, 1, 18_000);
    assert_eq!(bench.intents, [Intent::ResumeFlows { port: IN }], "no intent to resume flows");
    assert_eq!((bench.next_frame(IN), bench.ofc.is_due(IN)), (None, false));
}

#[test] // Algorithm 2, line 4
fn full_ofc_table_ignores_pause_of_a_new_flow() {
    let settings = OfcSettings { congested_flows: 2, ..OfcSettings::default() };
    let mut bench = OfcBench::with(settings);
    assert!(bench.ofc.pause_flow(OUT, &key(1), Nanos(1)).is_some());
    assert!(bench.ofc.pause_flow(OUT, &key(2), Nanos(1)).is_some());
    assert!(bench.ofc.pause_flow(OUT, &key(2), Nanos(9)).is_some(), "pause of a listed flow is refused");
    assert!(bench.ofc.pause_flow(OUT, &key(3), Nanos(1)).is_none());
    let mut bench = OfcBench::with(OfcSettings { flows: 1, ..settings });
    bench.arrive(IN, OUT, 1, 100);
    assert!(bench.ofc.pause_flow(OUT, &key(2), Nanos(1)).is_none());
    assert_eq!(bench.ofc.flows_paused(OUT), 0);
}

#[test] // Algorithm 2, lines 7 and 8; Algorithm 3, line 7
fn flow_counts_as_paused_until_resume_or_expiry() {
    let mut bench = OfcBench::new();
    let [first, second] = [(1, 100), (2, 200)]
        .map(|(flow, until)| bench.ofc.pause_flow(OUT, &key(flow), Nanos(until)).unwrap());
    assert_eq!((bench.ofc.flows_paused(OUT), bench.ofc.next_expiry(OUT)), (2, Nanos(100)));
    assert_eq!(bench.ofc.pop_expired(OUT, Nanos(99)), None);
    assert_eq!(bench.ofc.pop_expired(OUT, Nanos(100)), Some(first));
    assert_eq!(bench.ofc.resume_flow(OUT, &key(1)), None, "flow resumed although its pause had expired");
    assert_eq!(bench.ofc.resume_flow(OUT, &key(2)), Some(second));
    assert_eq!(bench.ofc.table_bytes(OUT), TableBytes::default());
}

#[test]
fn new_congestion_before_resume_is_sent_keeps_flow_paused() {
    let mut bench = OfcBench::new();
    bench.arrive(IN, OUT, 1, 18_000);
    bench.next_frame(IN);
    bench.leave(IN, OUT, 1, 18_000);
    bench.arrive(IN, OUT, 1, 18_000);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![1])));
    assert_eq!(bench.next_frame(IN), None);
}

#[test] // proves: ofc
fn ofc_flow_threshold_is_nine_tenths_of_xoff_in_shared_memory() {
    // X_OFF: reserve of 2,000 bytes, plus the free part of the 8,000-byte pool.
    let pool = SharedMemory {
        pool: Bytes(8_000),
        ingress_limit: Bytes::MAX,
        egress_limit: Bytes::MAX,
        port_limit: Bytes::MAX,
        alpha_log2: None,
        ..SharedMemory::UNLIMITED
    };
    let mut bench = OfcBench::in_memory(Memory::Shared(pool), OfcSettings::default());
    bench.arrive(IN, OUT, 1, 8_999);
    assert_eq!(bench.next_frame(IN), None, "flow paused one byte below 0.9 X_OFF");
    bench.arrive(IN, OUT, 1, 1);
    assert_eq!(bench.next_frame(IN), Some(("pause", vec![1])));
    bench.leave(IN, OUT, 1, 8_999);
    assert_eq!(bench.next_frame(IN), None, "flow resumed at X_ON, which is at X_OFF - 10,000 bytes");
    bench.arrive(IN, FREE, 2, 1);
    bench.leave(IN, OUT, 1, 1);
    bench.leave(IN, FREE, 2, 1);
    assert_eq!(bench.next_frame(IN), Some(("resume", vec![1])));
}

// Tests for SPECIFICATION.md: slow-path

use std::sync::{Arc, Mutex, MutexGuard};

use xoff_dataplane::punt::Punt;
use xoff_dataplane::switch::{Revision, Switch, WorkerId, Workers};
use xoff_flow_control::counters::{Counters, PuntCounters};
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::{Lldp, PuntLimit, SwitchSettings};
use xoff_wire::lldp::NEAREST_BRIDGE;
use xoff_wire::mac_control::{MacControl, Pfc};
use xoff_wire::units::{MacAddr, Nanos, PortId, Quanta};

use crate::bed::plan::{self, LINK};
use crate::bed::store::MemoryStore;
use crate::by_hand::{Punted, punted_by, sent};
use crate::{C3, C4};

const P0: PortId = PortId(0);
const P1: PortId = PortId(1);
const CONTROL_SLOTS: u32 = 6;

struct PuntBench {
    switch: Switch,
    counters: Arc<Counters>,
    store: MemoryStore,
    punted: Arc<Mutex<Punted>>,
    settings: SwitchSettings,
    now: Nanos,
}

impl PuntBench {
    fn new(punt_limit: PuntLimit) -> PuntBench {
        let mut plan = plan::switch(&[LINK; 2]);
        plan.each_port(|port| (port.lldp, port.punt_limit) = (Lldp::Switch, punt_limit));
        let counters = Counters::new(2);
        let mut switch = Switch::new(&plan.settings, 64, Workers::single(2), Arc::clone(&counters));
        let punted = punted_by(&mut switch);
        let store = MemoryStore::new(64 - CONTROL_SLOTS, CONTROL_SLOTS, 16, 1600);
        PuntBench { switch, counters, store, punted, settings: plan.settings, now: Nanos(0) }
    }

    fn receive(&mut self, now: Nanos, port: PortId, bytes: &[u8]) {
        self.now = now;
        let frame = self.store.fill(bytes).expect("no slot is free");
        self.switch.batch(now).receive(port, frame, &mut self.store);
        assert_eq!(self.switch.ledger().missing(), 0);
    }

    fn inject(&mut self, port: PortId, bytes: &[u8]) -> bool {
        let is_injected = self.switch.batch(self.now).inject(port, bytes, &mut self.store);
        assert_eq!(self.switch.ledger().missing(), 0);
        is_injected
    }

    fn sent(&mut self, port: PortId) -> Vec<Vec<u8>> {
        sent(&mut self.switch, &mut self.store, &mut self.now, port)
    }

    fn punted(&self) -> MutexGuard<'_, Punted> {
        self.punted.lock().expect("a test thread has panicked")
    }

    fn counts(&self, port: PortId) -> [u64; 3] {
        let PuntCounters { punted, over_rate, no_room } =
            &self.counters.port(port).punts[PuntReason::Lldp.index()];
        [punted, over_rate, no_room].map(|counter| counter.get())
    }
}

fn lldp(len: usize) -> Vec<u8> {
    let mut bytes = NEAREST_BRIDGE.0.to_vec();
    bytes.extend([2, 0, 0, 0, 0, 9, 0x88, 0xcc]);
    bytes.extend((0..=u8::MAX).cycle().take(len - 14));
    bytes
}

#[test]
fn punted_frame_is_copied_and_freed() {
    let mut bench = PuntBench::new(PuntLimit::PLAIN);
    let frames = [lldp(60), lldp(100)];
    for (frame, port) in frames.iter().zip([P0, P1]) {
        bench.receive(Nanos(7), port, frame);
    }
    let punted = std::mem::take(&mut bench.punted().frames);
    let expected = frames.into_iter().zip([P0, P1]);
    let punt = |port| Punt { at: Nanos(7), port, vid: 0, reason: PuntReason::Lldp };
    let expected = expected.map(|(frame, port)| (punt(port), frame));
    assert_eq!(punted, expected.collect::<Vec<_>>());
    assert_eq!((bench.store.in_use(), bench.switch.ledger().consumed), (0, 2));
    assert_eq!([bench.counts(P0), bench.counts(P1)], [[1, 0, 0]; 2]);
    assert_eq!(
        bench.counters.port(P0).reserved_frames.get(),
        1,
        "the LLDP frame was not counted as a reserved frame"
    );
}

#[test] // proves: lldp
fn lldp_frame_is_punted_only_if_port_has_lldp_enabled() {
    let mut bench = PuntBench::new(PuntLimit::PLAIN);
    let (mut other_group, mut other, mut tagged) = (lldp(60), lldp(60), lldp(60));
    other_group[5] = 0x03;
    other[13] = 0xcd;
    tagged.splice(12..12, [0x81, 0, 0, 1]);
    for frame in [other_group, other, tagged] {
        bench.receive(Nanos(7), P0, &frame);
    }
    assert_eq!((bench.counts(P0), bench.switch.ledger().consumed), ([0; 3], 3));
    bench.settings.ports[0].lldp = Lldp::Off;
    let revision = Revision::new(bench.settings.clone(), &Workers::single(2), 64);
    drop(bench.switch.batch(Nanos(8)).revise(Box::new(revision)));
    bench.receive(Nanos(9), P0, &lldp(60));
    bench.receive(Nanos(9), P1, &lldp(60));
    assert_eq!([bench.counts(P0), bench.counts(P1)], [[0; 3], [1, 0, 0]]);
}

#[test]
fn each_port_punts_at_exactly_its_configured_rate() {
    let mut bench = PuntBench::new(PuntLimit { rate: 100, burst: 10 });
    (0..1_000).for_each(|_| bench.receive(Nanos(0), P0, &lldp(60)));
    assert_eq!(bench.counts(P0), [10, 990, 0]);
    bench.receive(Nanos(9_999_999), P0, &lldp(60));
    assert_eq!(bench.counts(P0), [10, 991, 0], "punted a nanosecond early");
    bench.receive(Nanos(10_000_000), P0, &lldp(60));
    bench.receive(Nanos(10_000_000), P1, &lldp(60));
    assert_eq!([bench.counts(P0), bench.counts(P1)], [[11, 991, 0], [1, 0, 0]]);
    assert_eq!((bench.store.in_use(), bench.punted().frames.len()), (0, 12));
}

#[test]
fn punt_refused_by_full_sink_uses_no_credit() {
    let mut bench = PuntBench::new(PuntLimit { rate: 1, burst: 3 });
    bench.punted().room = 2;
    (0..9).for_each(|_| bench.receive(Nanos(0), P0, &lldp(60)));
    assert_eq!(bench.counts(P0), [2, 0, 7]);
    bench.punted().room = 9;
    (0..9).for_each(|_| bench.receive(Nanos(0), P0, &lldp(60)));
    assert_eq!(bench.counts(P0), [3, 8, 7]);
    assert_eq!((bench.store.in_use(), bench.switch.ledger().consumed), (0, 18));
}

#[test]
fn injected_frames_precede_data_despite_pause() {
    let mut bench = PuntBench::new(PuntLimit::PLAIN);
    let station = MacAddr([2, 0, 0, 0, 0, 1]);
    let stop = MacControl::Pfc(Pfc::default().with(C3, Quanta(u16::MAX)).with(C4, Quanta(u16::MAX)));
    bench.receive(Nanos(0), P0, &stop.encode(station));
    for class in [3u8, 0] {
        let mut data = vec![0xff; 6];
        data.extend(station.0);
        data.extend([0x81, 0, class << 5, 0, 0x12, 0x34]);
        data.resize(100, class);
        bench.receive(Nanos(0), P1, &data);
    }
    while bench.switch.batch(bench.now).forward(&mut bench.store) {}
    assert!(bench.inject(P0, &lldp(60)) && bench.inject(P0, &lldp(90)));
    let sent = bench.sent(P0);
    assert_eq!(sent.len(), 3, "wrong number of frames left although class 3 is paused");
    assert_eq!([&sent[0], &sent[1]], [&lldp(60), &lldp(90)]);
}

#[test]
fn injection_fails_without_link_or_memory_or_valid_length() {
    let mut bench = PuntBench::new(PuntLimit::PLAIN);
    assert_eq!([13, 14, 1514, 1515].map(|len| bench.inject(P0, &vec![1; len])), [false, true, true, false]);
    assert_eq!(
        [0; 3].map(|_| bench.inject(P0, &lldp(60))),
        [true, true, false],
        "a fifth injected frame was accepted"
    );
    assert_eq!(
        [0; 3].map(|_| bench.inject(P1, &lldp(60))),
        [true, true, false],
        "a frame was accepted from the empty pool"
    );
    assert_eq!(bench.counters.port(P1).control_starved.get(), 1);
    assert_eq!(bench.sent(P0).len(), 4);
    assert!(bench.inject(P1, &lldp(60)));
    bench.switch.batch(bench.now).set_link(P1, false, &mut bench.store);
    assert_eq!(
        (bench.store.in_use(), bench.switch.ledger().made),
        (0, 4),
        "injected frames remained after the link was lost"
    );
    assert!(!bench.inject(P1, &lldp(60)));
}

#[test]
fn worker_refuses_injection_at_port_of_another_worker() {
    let plan = plan::switch(&[LINK; 2]);
    let workers = Workers::new([WorkerId(0), WorkerId(1)].into(), WorkerId(0));
    let mut switch = Switch::new(&plan.settings, 64, workers, Counters::new(2));
    let mut store = MemoryStore::new(58, 6, 16, 1600);
    let mut batch = switch.batch(Nanos(0));
    assert_eq!([P0, P1].map(|port| batch.inject(port, &lldp(60), &mut store)), [true, false]);
    drop(batch);
    assert_eq!(switch.ledger().missing(), 0);
}

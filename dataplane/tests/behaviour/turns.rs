// Tests for SPECIFICATION.md: workers

use std::sync::Arc;

use xoff_dataplane::driver::{BATCH, Boundary, Driver, Environment, Progress};
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::switch::{Batch, Switch, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::units::{Bytes, Class, MacAddr, Nanos, PortId};

use crate::bed::payload::{self, Mark};
use crate::bed::plan::{self, LINK};
use crate::bed::ring::Ring;
use crate::bed::store::MemoryStore;
use crate::{C0, C3};

#[derive(Debug, Default)]
struct StepLog(Vec<(&'static str, Option<u8>)>);

impl StepLog {
    fn step(&mut self, step: &'static str, port: Option<u8>) {
        if self.0.last() != Some(&(step, port)) {
            self.0.push((step, port));
        }
    }
}

impl Boundary for StepLog {
    fn advance<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) -> bool {
        self.step("advance", None);
        batch.advance(store)
    }

    fn receive<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        self.step("receive", Some(port.0));
        batch.receive(port, frame, store);
    }

    fn forward_all<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) {
        self.step("forward", None);
        while batch.forward(store) {}
    }

    fn transmit<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
        most: u32,
        send: impl FnMut(&mut S, Frame),
    ) -> u32 {
        self.step("transmit", Some(port.0));
        batch.transmit(port, store, most, send)
    }

    fn announce<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
    ) -> Option<Frame> {
        self.step("announce", Some(port.0));
        batch.announce(port, store)
    }

    fn release<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        self.step("release", Some(port.0));
        batch.release(port, frame, store);
    }
}

#[derive(Default)]
struct Calls {
    obeyed: u32,
    xoffs_sent: u32,
}

impl Environment<Ring, MemoryStore> for Calls {
    fn exchange(&mut self, now: Nanos, switch: &mut Switch, store: &mut MemoryStore) -> Progress {
        assert!(!switch.batch(now).forward(store), "a frame could still be forwarded");
        Progress::default()
    }

    fn pause_obeyed(&mut self) {
        self.obeyed += 1;
    }

    fn xoff_sent(&mut self, _: Nanos) {
        self.xoffs_sent += 1;
    }
}

struct TurnBench {
    switch: Switch,
    counters: Arc<Counters>,
    ports: Vec<(PortId, Ring)>,
    store: MemoryStore,
    now: Nanos,
}

impl TurnBench {
    fn new(headroom: Bytes) -> TurnBench {
        let mut plan = plan::switch(&[LINK; 2]);
        plan.each_lossless(|class| {
            (class.xoff, class.xon, class.headroom) = (Bytes(1), Bytes(1), headroom);
            class.egress_max = Bytes(1_000_000);
        });
        plan.settings.fdb.statics = (0..2).map(|port| (1, host(port), PortId(port))).collect();
        let counters = Counters::new(2);
        TurnBench {
            switch: Switch::new(&plan.settings, 1_000, Workers::single(2), Arc::clone(&counters)),
            counters,
            ports: (0..2).map(|port| (PortId(port), Ring::default())).collect(),
            store: MemoryStore::new(900, 100, 16, 1_600),
            now: Nanos::ZERO,
        }
    }

    fn come(&mut self, port: u8, class: Class) {
        let mark = Mark { class, cn_tag: None, stream: 0, sequence: 0 };
        let bytes = payload::encode(host(1 - port), host(port), mark, 1_000);
        self.ports[usize::from(port)].1.arrived.push_back(bytes);
    }

    fn turn(&mut self, calls: &mut Calls) -> (Vec<(&'static str, Option<u8>)>, Progress) {
        self.now += Nanos::from_micros(1);
        let mut log = StepLog::default();
        let TurnBench { switch, ports, store, now, .. } = self;
        let mut driver = Driver { now: *now, switch, ports, store, boundary: &mut log };
        let progress = driver.turn(calls);
        (log.0, progress)
    }

    fn lost(&self) -> u64 {
        self.counters.dropped(DropReason::HeadroomExhausted)
    }
}

fn host(port: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port])
}

#[test]
fn driver_loop_takes_its_steps_in_documented_order() {
    let (mut turns, mut calls) = (TurnBench::new(Bytes(5_000)), Calls::default());
    for port in [0, 1] {
        turns.come(port, C0);
        turns.come(port, C3);
    }
    let (steps, progress) = turns.turn(&mut calls);
    assert_eq!(progress, Progress { is_busy: true, received: 4 });
    let both = |step| [(step, Some(0)), (step, Some(1))];
    let order = [
        &[("advance", None)],
        &both("receive")[..],
        &[("forward", None)],
        &both("announce"),
        &both("transmit"),
    ];
    assert_eq!(steps, order.concat());
    assert_eq!((calls.xoffs_sent, calls.obeyed), (2, 0), "XOFF was not sent to each peer");

    turns.ports.iter_mut().for_each(|(_, ring)| (0..ring.committed.len()).for_each(|_| ring.leave(false)));
    for port in [0, 1] {
        turns.come(port, C0);
    }
    let (steps, _) = turns.turn(&mut calls);
    let (advance, forward) = ([("advance", None)], [("forward", None)]);
    let in_order = [&advance, &both("release")[..], &both("receive"), &forward].concat();
    assert_eq!(steps[..6], in_order);
}

#[test]
fn driver_releases_sent_frames_of_all_ports_before_receiving() {
    let (mut turns, mut calls) = (TurnBench::new(Bytes(1_010)), Calls::default());
    turns.come(0, C3);
    turns.turn(&mut calls);
    assert_eq!(turns.ports[1].1.committed.len(), 1);
    turns.ports[1].1.leave(false);
    turns.come(0, C3);
    turns.turn(&mut calls);
    assert_eq!(turns.lost(), 0, "a frame within the headroom was lost");
    turns.come(0, C3);
    turns.turn(&mut calls);
    assert_eq!(turns.lost(), 1, "a frame beyond the headroom was not lost");
}

#[test]
fn driver_receives_at_most_one_batch_per_port_and_loop() {
    let (mut turns, mut calls) = (TurnBench::new(Bytes(500_000)), Calls::default());
    (0..BATCH + 5).for_each(|_| turns.come(0, C3));
    turns.come(1, C3);
    assert_eq!(turns.turn(&mut calls).1.received, BATCH + 1);
    assert_eq!(turns.turn(&mut calls).1.received, 5);
    turns.ports.iter_mut().for_each(|(_, ring)| (0..ring.committed.len()).for_each(|_| ring.leave(false)));
    turns.turn(&mut calls);
}

#[test]
fn stopping_driver_sends_xon_but_no_data() {
    let (mut turns, mut calls) = (TurnBench::new(Bytes(5_000)), Calls::default());
    turns.come(0, C3);
    turns.come(0, C3);
    turns.turn(&mut calls);
    let waits = |turns: &TurnBench| [0, 1].map(|port: usize| turns.ports[port].1.committed.len());
    assert_eq!(waits(&turns), [1, 1], "an XOFF and a data frame were not sent");
    let TurnBench { switch, ports, store, now, .. } = &mut turns;
    let mut driver = Driver { now: *now, switch, ports, store, boundary: &mut StepLog::default() };
    driver.release_peers();
    assert!(driver.part(), "the driver reports that XON has left");
    assert_eq!(waits(&turns), [2, 1]);
    turns.ports.iter_mut().for_each(|(_, ring)| (0..ring.committed.len()).for_each(|_| ring.leave(false)));
    let TurnBench { switch, ports, store, now, .. } = &mut turns;
    let mut driver = Driver { now: *now, switch, ports, store, boundary: &mut StepLog::default() };
    assert!(!driver.part());
    assert_eq!(waits(&turns), [0, 0], "the driver sent data before the stop");
}

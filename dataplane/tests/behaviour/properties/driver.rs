//! Driver that takes its steps in any allowed order, and checks the switch after each step.

mod bursts;
mod revised;
mod settled;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use xoff_dataplane::frame::Frame;
use xoff_dataplane::switch::{PolicySwap, Switch, WorkerId, Workers};
use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::{ClassCounters, Counters};
use xoff_flow_control::settings::{
    Accounting, FlowControl, PolicyKind, QueueKind, SwitchSettings, WatchdogAction,
};
use xoff_wire::header::{Header, Tci};
use xoff_wire::mac_control::{MacControl, Pfc};
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos, PortId, Quanta, RateStep};
use xoff_wire::{FlowKey, FlowPauseWriter, Operation, Rates};

use super::settings::{PORTS, PORTS_U8};
use crate::bed::Batches;
use crate::bed::SwitchPlan;
use crate::bed::flow_pauses::{FlowPauses, OfClass};
use crate::bed::store::MemoryStore;
pub use bursts::Burst;
pub use revised::Revised;

#[derive(Clone, Debug)]
pub enum Step {
    Receive { port: u8, to: u8, pcp: Option<u8>, len: u32 },
    Burst(Burst),
    Garbage { port: u8, bytes: Vec<u8> },
    Pause { port: u8, classes: u8, quanta: u16 },
    Flows { port: u8, class: u8, resume: bool, quanta: u16, flows: Vec<(u8, u8)> },
    Rates { port: u8, classes: u8, step: u8, quanta: u16 },
    Forward { worker: u8 },
    HandOver { from: u8, to: u8 },
    GiveBack { from: u8, to: u8 },
    Transmit { port: u8 },
    Release { port: u8 },
    GiveUp { port: u8 },
    Advance { by: u64 },
    SetLink { port: u8, up: bool },
    SetPolicy { class: u8, kind: PolicyKind },
    Revise(Box<Revised>),
}

type Mark = (u8, u8, u32);

const ETHER_TYPE: [u8; 2] = [0x88, 0xb5];

const MOVES_MAX: usize = 10_000;

pub struct Driver {
    plan: SwitchPlan,
    before: Vec<SwitchSettings>,
    pub now: Nanos,
    batches: Batches,
    workers: Vec<Switch>,
    owners: Vec<usize>,
    store: MemoryStore,
    pub counters: Arc<Counters>,
    rings: Vec<VecDeque<Frame>>,
    next_number: u32,
    counted: BTreeMap<Mark, u64>,
    /// Number of the last frame sent, by ingress, class and egress; also by destination if single flows may be paused.
    last: BTreeMap<(u8, u8, u8, u8), u32>,
    departed: BTreeSet<(u32, u8)>,
    flow_pauses: [FlowPauses; PORTS],
    /// For each class, number of the first frame received after the last change of policy.
    of_no_flow: [u32; CLASSES],
    paused_until: [[Nanos; CLASSES]; PORTS],
}

impl Driver {
    pub fn new(plan: SwitchPlan, batches: Batches) -> Driver {
        let owners: Vec<WorkerId> = match plan.owners.len() {
            0 => vec![WorkerId(0); PORTS],
            _ => plan.owners.iter().copied().map(WorkerId).collect(),
        };
        let counters = Counters::new(PORTS);
        let store = MemoryStore::new(plan.slots, plan.control_slots, plan.room, 700);
        let count = owners.iter().map(|owner| owner.0 + 1).max().unwrap_or(1);
        let worker = |me: u8| {
            let workers = Workers::new(owners.clone().into_boxed_slice(), WorkerId(me));
            Switch::new(&plan.settings, plan.slots + plan.control_slots, workers, Arc::clone(&counters))
        };
        Driver {
            now: Nanos::ZERO,
            batches,
            workers: (0..count).map(worker).collect(),
            owners: owners.iter().map(|owner| owner.index()).collect(),
            store,
            counters,
            rings: (0..PORTS).map(|_| VecDeque::new()).collect(),
            next_number: 0,
            counted: BTreeMap::new(),
            last: BTreeMap::new(),
            departed: BTreeSet::new(),
            flow_pauses: Default::default(),
            of_no_flow: [0; CLASSES],
            paused_until: Default::default(),
            before: Vec::new(),
            plan,
        }
    }

    pub fn step(&mut self, step: &Step) {
        match *step {
            Step::Receive { port, to, pcp, len } => self.receive_data(port, to, pcp, len),
            Step::Burst(ref burst) => self.burst(burst),
            Step::Garbage { port, ref bytes } => _ = self.receive(port, bytes),
            Step::Pause { port, classes, quanta } => {
                self.receive_pause(port, ClassSet(classes), Quanta(quanta))
            }
            Step::Flows { port, class, resume, quanta, ref flows } => {
                let time = Quanta(quanta.max(1));
                let operation = if resume { Operation::Resume } else { Operation::Pause(time) };
                self.receive_flows(port, Class::from_low_bits(class), operation, flows);
            }
            Step::Rates { port, classes, step, quanta } => self.receive_rates(port, classes, step, quanta),
            Step::Forward { worker } => _ = self.forward(usize::from(worker) % self.workers.len()),
            Step::HandOver { from, to } => _ = self.hand_over(from.into(), to.into()),
            Step::GiveBack { from, to } => _ = self.give_back(from.into(), to.into()),
            Step::Transmit { port } => _ = self.transmit(port),
            Step::Release { port } => _ = self.release(port),
            Step::GiveUp { port } => self.give_up(port),
            Step::Advance { by } => self.advance(by),
            Step::SetLink { port, up } => self.set_link(port, up),
            Step::SetPolicy { class, kind } => self.set_policy(Class::from_low_bits(class), kind),
            Step::Revise(ref revised) => self.revise(revised),
        }
        self.check();
    }

    /// Returns the state of all workers as text, without counter `control_starved`, which depends on polls.
    pub fn state(&self) -> String {
        let text = format!("{:?}", self.workers);
        let is_count = |c: char| c.is_ascii_digit();
        text.split("control_starved: Counter(").map(|part| part.trim_start_matches(is_count)).collect()
    }

    pub fn drain(&mut self) {
        (0..PORTS_U8).for_each(|port| self.set_link(port, true));
        self.paused_until = Default::default();
        for round in 0.. {
            self.advance(if round % 2 == 0 { 100_000 } else { 10_000 });
            let workers = self.workers.len();
            for worker in 0..workers {
                let moves = (0..MOVES_MAX).take_while(|_| self.forward(worker)).count();
                assert!(moves < MOVES_MAX, "worker {worker} moves frames without end");
                for other in 0..workers {
                    while self.hand_over(worker, other) | self.give_back(worker, other) {}
                }
            }
            for port in 0..PORTS_U8 {
                while self.transmit(port) | self.release(port) {}
            }
            self.check();
            if self.store.in_use() == 0 {
                break;
            }
            assert!(round < 3_000, "{} frames never leave", self.store.in_use());
        }
        self.check_empty();
    }

    fn receive_data(&mut self, port: u8, to: u8, pcp: Option<u8>, len: u32) {
        let bytes = self.data(port, to, pcp, len);
        self.receive(port, &bytes);
    }

    fn data(&mut self, port: u8, to: u8, pcp: Option<u8>, len: u32) -> Vec<u8> {
        let number = self.next_number;
        self.next_number += 1;
        let mut bytes = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, port];
        if to == u8::MAX {
            bytes[..6].fill(0xff);
        }
        if let Some(pcp) = pcp {
            bytes.extend([0x81, 0x00]);
            bytes.extend(Tci::new(Class::from_low_bits(pcp), false, 0).0.to_be_bytes());
        }
        let class = pcp.unwrap_or(0);
        bytes.extend(ETHER_TYPE);
        bytes.extend([port, class]);
        bytes.extend(number.to_be_bytes());
        bytes.resize(bytes.len().max(len as usize), 0);
        self.counted.insert((port, class, number), bytes.len().max(60) as u64 + 4);
        bytes
    }

    fn receive_rates(&mut self, port: u8, classes: u8, step: u8, quanta: u16) {
        let step = RateStep::new(step).expect("invalid rate step");
        let rates = Rates { time: Quanta(quanta), ..Rates::default() };
        let rates = ClassSet(classes).iter().fold(rates, |rates, class| rates.with(class, step));
        self.receive(port, &rates.encode(MacAddr([2, 0, 0, 0, 0, port])));
    }

    fn receive_pause(&mut self, port: u8, classes: ClassSet, quanta: Quanta) {
        let settings = &self.plan.settings.ports[usize::from(port)];
        let until = self.now.after(settings.speed.time_of_quanta(quanta));
        let (control, obeyed) = match settings.flow_control {
            FlowControl::Pause8023x => (MacControl::Pause(quanta), ClassSet::ALL),
            FlowControl::Pfc { obey, .. } => (pfc(classes, quanta), ClassSet(obey.0 & classes.0)),
            FlowControl::Ignore => (pfc(classes, quanta), ClassSet::NONE),
        };
        if !self.receive(port, &control.encode(MacAddr([2, 0, 0, 0, 0, port]))) {
            return;
        }
        for class in obeyed.iter() {
            self.paused_until[usize::from(port)][class.index()] = until;
            self.flow_pauses[usize::from(port)].named(class, quanta);
        }
    }

    fn receive_flows(&mut self, port: u8, class: Class, operation: Operation, flows: &[(u8, u8)]) {
        let mut bytes = [0; 600];
        let mut list = FlowPauseWriter::new(&mut bytes, MacAddr([2, 0, 0, 0, 0, port]), operation, class);
        for &(from, to) in flows {
            let [src, dst] = [from, to].map(|host| MacAddr([2, 0, 0, 0, 0, host]));
            list.push(&FlowKey::L2 { src, dst, ether_type: u16::from_be_bytes(ETHER_TYPE) });
        }
        let list = list.finish();
        if !self.receive(port, list) {
            return;
        }
        let settings = &self.plan.settings.ports[usize::from(port)];
        let FlowControl::Pfc { obey, .. } = settings.flow_control else { return };
        if !obey.contains(class) {
            return;
        }
        let by_flow = settings.ofc_peer
            && self.workers[0].policy(class) == PolicyKind::Ofc
            && settings.classes[class.index()].queue == QueueKind::Fifo;
        let until = &mut self.paused_until[usize::from(port)][class.index()];
        if !settings.ofc_peer {
            if let Operation::Pause(time) = operation {
                *until = self.now.after(settings.speed.time_of_quanta(time));
            }
            return;
        }
        let (now, speed) = (self.now, settings.speed);
        let flow_pauses = &mut self.flow_pauses[usize::from(port)];
        match flow_pauses.received(now, speed, list, by_flow, *until) {
            Some(OfClass::Stops(then)) => *until = then,
            Some(OfClass::Resumes) => *until = self.now,
            Some(OfClass::Nothing) | None => (),
        }
    }

    fn receive(&mut self, port: u8, bytes: &[u8]) -> bool {
        let Some(frame) = self.store.fill(bytes) else { return false };
        let worker = self.owners[usize::from(port)];
        self.workers[worker].batch(self.now).receive(PortId(port), frame, &mut self.store);
        true
    }

    fn forward(&mut self, worker: usize) -> bool {
        self.workers[worker].batch(self.now).forward(&mut self.store)
    }

    fn hand_over(&mut self, from: usize, to: usize) -> bool {
        let (Some(id), true) = (self.pair(from, to), from != to) else { return false };
        let Some(handover) = self.workers[from].batch(self.now).hand_over(id) else { return false };
        self.workers[to].batch(self.now).take_over(handover, &mut self.store);
        true
    }

    fn give_back(&mut self, from: usize, to: usize) -> bool {
        let (Some(id), true) = (self.pair(from, to), from != to) else { return false };
        let Some(back) = self.workers[from].batch(self.now).give_back(id) else { return false };
        self.workers[to].batch(self.now).take_back(back, &mut self.store);
        true
    }

    fn pair(&self, from: usize, to: usize) -> Option<WorkerId> {
        let exist = from.max(to) < self.workers.len();
        exist.then(|| WorkerId(u8::try_from(to).expect("more than 255 workers")))
    }

    fn transmit(&mut self, port: u8) -> bool {
        let worker = &mut self.workers[self.owners[usize::from(port)]];
        let mut sent = None;
        worker.batch(self.now).transmit(PortId(port), &mut self.store, 1, |_, frame| sent = Some(frame));
        let Some(frame) = sent else { return false };
        self.check_sent(port, &frame);
        self.rings[usize::from(port)].push_back(frame);
        true
    }

    fn release(&mut self, port: u8) -> bool {
        let Some(frame) = self.rings[usize::from(port)].pop_front() else { return false };
        let worker = &mut self.workers[self.owners[usize::from(port)]];
        worker.batch(self.now).release(PortId(port), frame, &mut self.store);
        true
    }

    fn give_up(&mut self, port: u8) {
        let worker = &mut self.workers[self.owners[usize::from(port)]];
        for frame in self.rings[usize::from(port)].drain(..) {
            worker.batch(self.now).give_up(PortId(port), frame, &mut self.store);
        }
    }

    fn advance(&mut self, by: u64) {
        self.now = self.now.after(Nanos(by));
        let now = self.now;
        self.workers.iter_mut().for_each(|worker| {
            worker.batch(now).advance(&mut self.store);
        });
    }

    fn set_link(&mut self, port: u8, up: bool) {
        for worker in &mut self.workers {
            worker.batch(self.now).set_link(PortId(port), up, &mut self.store);
        }
        if !up {
            self.paused_until[usize::from(port)] = Default::default();
            self.flow_pauses[usize::from(port)] = FlowPauses::default();
        }
    }

    fn set_policy(&mut self, class: Class, kind: PolicyKind) {
        if let [only] = &mut self.workers[..] {
            let swap = PolicySwap::new(kind, class, &self.plan.settings);
            drop(only.batch(self.now).set_policy(Box::new(swap)));
            self.flow_pauses.iter_mut().for_each(|pauses| pauses.clear(class));
            self.of_no_flow[class.index()] = self.next_number;
        }
    }

    fn check_sent(&mut self, port: u8, frame: &Frame) {
        let Some((ingress, class, number)) = mark(self.store.frame(frame)) else { return };
        let paused = self.now < self.paused_until[usize::from(port)][usize::from(class)];
        assert!(!paused || self.defies(port, class), "a frame was sent while its class was paused");
        let bytes = self.store.frame(frame);
        let passes =
            self.flow_pauses[usize::from(port)].let_pass(self.now, Class::from_low_bits(class), bytes);
        let is_of_flow = number >= self.of_no_flow[usize::from(class)];
        assert!(passes || !is_of_flow, "a frame of a paused flow was sent");
        let by_flow = self.plan.settings.ports[usize::from(port)].ofc_peer;
        let to = if by_flow { bytes[5] } else { 0 };
        let last = self.last.insert((ingress, class, port, to), number);
        assert!(self.departed.insert((number, port)), "frame {number} left by port {port} twice");
        assert!(
            last < Some(number),
            "frame {number} left after {last:?}: ingress {ingress}, class {class}, egress {port}"
        );
    }

    fn defies(&self, port: u8, class: u8) -> bool {
        let settings = self.plan.settings.ports[usize::from(port)].classes[usize::from(class)].watchdog;
        let stormed = self.workers[self.owners[usize::from(port)]].stormed(PortId(port));
        settings.is_some_and(|it| it.action == WatchdogAction::Forward)
            && stormed.contains(Class::from_low_bits(class))
    }

    fn check(&self) {
        let held: u64 = self.workers.iter().map(|worker| worker.ledger().held).sum();
        for worker in &self.workers {
            assert_eq!(worker.ledger().missing(), 0, "{:?}", worker.ledger());
        }
        let in_use = self.store.in_use() as u64;
        if self.workers.len() == 1 {
            assert_eq!(in_use, held);
        }
        assert!(in_use >= held, "{held} frames in the switch, but only {in_use} slots in use");
        if self.plan.settings.accounting == Accounting::UntilTransmitted {
            self.check_ingress();
        }
        self.check_watermarks();
        self.check_classes();
    }

    fn check_ingress(&self) {
        let slots = (0..self.plan.slots).filter_map(|slot| self.store.slot(slot));
        let marks: std::collections::BTreeSet<Mark> = slots.filter_map(mark).collect();
        let mut expected = [[0; CLASSES]; PORTS];
        for mark in marks {
            expected[usize::from(mark.0)][usize::from(mark.1)] += self.counted[&mark];
        }
        for (port, class) in all_queues() {
            let bytes = self.buffer(port).ingress(PortId(port), class);
            let counted = self.counters.class(PortId(port), class).ingress_bytes.get();
            assert_eq!(
                bytes,
                Bytes(expected[usize::from(port)][class.index()]),
                "wrong occupancy of port {port}, class {class}"
            );
            assert_eq!(bytes, Bytes(counted));
        }
    }

    fn check_watermarks(&self) {
        for (port, class) in all_queues() {
            let counted = self.counters.class(PortId(port), class);
            let all = self.before.iter().chain([&self.plan.settings]);
            let all =
                || all.clone().map(|settings| &settings.ports[usize::from(port)].classes[class.index()]);
            assert!(all().any(|settings| settings.lossless) || counted.headroom_watermark.get() == 0);
            assert!(all().any(|settings| counted.egress_watermark.get() < settings.egress_max.0));
        }
    }

    fn check_classes(&self) {
        let [only] = &self.workers[..] else { return }; // chunks in transit to another store look like frames
        let slots = (0..self.plan.slots).filter_map(|slot| self.store.slot(slot));
        let mut waiting = [0; CLASSES];
        slots.filter_map(mark).for_each(|(_, class, _)| waiting[usize::from(class)] += 1);
        let (mut surplus, mut dropped) = (0, 0);
        for class in Class::ALL {
            let of = |count: fn(&ClassCounters) -> u64| -> u64 {
                (0..PORTS_U8).map(|port| count(self.counters.class(PortId(port), class))).sum()
            };
            let drops = of(|class| class.drops.iter().map(Counter::get).sum());
            let came = of(|class| class.rx_frames.get());
            let went = of(|class| class.tx_frames.get()) + waiting[class.index()] + drops;
            assert!(
                went >= came,
                "class {class}: {came} frames received, only {went} sent, queued or dropped"
            );
            (surplus, dropped) = (surplus + went - came, dropped + drops);
        }
        let copies_missing = dropped - only.ledger().dropped;
        assert_eq!(surplus, only.ledger().copied + copies_missing);
    }

    fn check_empty(&self) {
        for (port, class) in all_queues() {
            assert_eq!(self.buffer(port).ingress(PortId(port), class), Bytes::ZERO);
            assert_eq!(self.buffer(port).egress(PortId(port), class), Bytes::ZERO);
            let worker = &self.workers[self.owners[usize::from(port)]];
            assert_eq!(
                worker.requested_rate(PortId(port), class),
                RateStep::FULL,
                "port {port} still requests a rate"
            );
            assert!(worker.held(PortId(port)).classes().is_empty(), "port {port} still pauses its peer");
            assert_eq!(worker.committed(PortId(port)), Bytes::ZERO);
        }
        let totals = self.workers.iter().map(Switch::ledger);
        let (handed, taken) = totals.fold((0, 0), |(h, t), l| (h + l.handed_over, t + l.taken_over));
        assert_eq!(handed, taken);
    }

    fn buffer(&self, port: u8) -> &xoff_flow_control::buffer::Buffer {
        self.workers[self.owners[usize::from(port)]].buffer()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.rings.iter_mut().flat_map(|ring| ring.drain(..)).for_each(|frame| _ = frame.into_parts());
    }
}

fn pfc(classes: ClassSet, quanta: Quanta) -> MacControl {
    MacControl::Pfc(classes.iter().fold(Pfc::default(), |pfc, class| pfc.with(class, quanta)))
}

fn mark(bytes: &[u8]) -> Option<Mark> {
    let header = Header::parse(bytes).ok().filter(|h| h.ether_type.0.to_be_bytes() == ETHER_TYPE)?;
    let [ingress, class, number @ ..] = *header.payload(bytes).first_chunk::<6>()?;
    Some((ingress, class, u32::from_be_bytes(number)))
}

fn all_queues() -> impl Iterator<Item = (u8, Class)> {
    (0..PORTS_U8).flat_map(|port| Class::ALL.map(|class| (port, class)))
}

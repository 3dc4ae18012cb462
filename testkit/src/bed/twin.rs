//! One run of a switch, with large batches or with single frames: a `Switch` per worker over a common store, and a ring per port.
//!
//! A poll processes all events since the last one, by the steps of the [`Driver`] that worker threads use.

use std::fmt::Debug;
use std::sync::Arc;

use xoff_dataplane::driver::{Boundary, Driver, Environment as _};
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::ledger::Ledger;
use xoff_dataplane::switch::{Batch, Revision, Switch, WorkerId, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, Nanos, PortId, PortSet, RateStep};

use super::batches::Batches;
use super::exchange::{Exchange, Links};
use super::plan::SwitchPlan;
use super::ring::Ring;
use super::store::MemoryStore;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LoopStep {
    Release,
    Receive,
    Forward,
    Announce,
    /// Sending. Includes the release of sent frames: a device that sends at once also completes at once.
    Transmit,
}

#[derive(Debug)]
struct Turn {
    batches: Batches,
    at: LoopStep,
    is_in_order: bool,
}

impl Turn {
    const fn new(batches: Batches) -> Turn {
        Turn { batches, at: LoopStep::Release, is_in_order: true }
    }

    fn step(&mut self, step: LoopStep) {
        self.is_in_order &= step >= self.at;
        self.at = step;
    }
}

impl Boundary for Turn {
    fn receive<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        self.step(LoopStep::Receive);
        self.batches.receive(batch, port, frame, store);
    }

    fn forward_all<S: FrameStore>(&mut self, batch: &mut Batch<'_>, store: &mut S) {
        self.step(LoopStep::Forward);
        self.batches.forward_all(batch, store);
    }

    fn transmit<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
        most: u32,
        send: impl FnMut(&mut S, Frame),
    ) -> u32 {
        self.step(LoopStep::Transmit);
        self.batches.transmit(batch, port, store, most, send)
    }

    fn announce<S: FrameStore>(
        &mut self,
        batch: &mut Batch<'_>,
        port: PortId,
        store: &mut S,
    ) -> Option<Frame> {
        self.step(LoopStep::Announce);
        self.batches.announce(batch, port, store)
    }

    fn release<S: FrameStore>(&mut self, batch: &mut Batch<'_>, port: PortId, frame: Frame, store: &mut S) {
        if self.at != LoopStep::Transmit {
            self.step(LoopStep::Release);
        }
        self.batches.release(batch, port, frame, store);
    }
}

#[derive(Debug)]
pub struct Twin {
    pub workers: Vec<Switch>,
    pub counters: Arc<Counters>,
    pub store: MemoryStore,
    ports: Vec<Vec<(PortId, Ring)>>,
    links: Links,
    owners: Vec<WorkerId>,
    slots: u32,
    batches: Batches,
    pub is_in_order: bool,
    rng: fastrand::Rng,
}

impl Twin {
    pub fn new(plan: &SwitchPlan, seed: u64, batches: Batches) -> Twin {
        let ports = plan.settings.ports.len();
        let owners: Vec<WorkerId> = match plan.owners.len() {
            0 => vec![WorkerId(0); ports],
            _ => plan.owners.iter().copied().map(WorkerId).collect(),
        };
        let frame_max = plan.settings.ports.iter().map(|port| port.mtu_frame).max().unwrap_or(0) + 4;
        let counters = Counters::with_shadows(ports, plan.settings.shadows.len());
        let roles = Links::ends(&owners)
            .map(|me| Workers::new(owners.clone().into_boxed_slice(), me))
            .collect::<Vec<_>>();
        let slots = plan.slots + plan.control_slots;
        let rings = |roles: &Workers| roles.own().iter().map(|port| (port, Ring::default())).collect();
        Twin {
            ports: roles.iter().map(rings).collect(),
            links: Links::new(roles.len()),
            workers: roles
                .into_iter()
                .map(|roles| Switch::new(&plan.settings, slots, roles, Arc::clone(&counters)))
                .collect(),
            counters,
            store: MemoryStore::new(plan.slots, plan.control_slots, plan.room, frame_max as usize + 100),
            slots,
            owners,
            batches,
            is_in_order: true,
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    pub fn worker(&self, port: PortId) -> &Switch {
        &self.workers[self.owners[port.index()].index()]
    }

    fn port(&self, port: PortId) -> &Ring {
        let own = &self.ports[self.owners[port.index()].index()];
        let (_, ring) =
            own.iter().find(|(id, _)| *id == port).expect("the worker that owns the port must have its ring");
        ring
    }

    fn port_mut(&mut self, port: PortId) -> &mut Ring {
        let own = &mut self.ports[self.owners[port.index()].index()];
        let (_, ring) = own
            .iter_mut()
            .find(|(id, _)| *id == port)
            .expect("the worker that owns the port must have its ring");
        ring
    }

    fn rings(&self) -> impl Iterator<Item = &(PortId, Ring)> {
        self.ports.iter().flatten()
    }

    pub fn arrived(&mut self, port: PortId, bytes: Vec<u8>) {
        self.port_mut(port).arrived.push_back(bytes);
    }

    pub fn left(&mut self, port: PortId, is_late: bool) {
        self.port_mut(port).leave(is_late);
    }

    pub fn hear(&mut self) {
        self.ports.iter_mut().flatten().for_each(|(_, ring)| ring.hear());
    }

    pub fn has_unseen(&self) -> bool {
        self.rings().any(|(_, ring)| ring.has_unseen())
    }

    pub fn has_reported_all(&self) -> bool {
        !self.rings().any(|(_, ring)| ring.has_unseen() || ring.has_withheld())
    }

    pub fn arrivals(&self) -> impl Iterator<Item = (PortId, &[u8])> {
        self.rings().flat_map(|(port, ring)| ring.arrived.iter().map(|bytes| (*port, &bytes[..])))
    }

    pub fn forget_arrivals(&mut self) {
        self.ports.iter_mut().flatten().for_each(|(_, ring)| ring.arrived.clear());
    }

    pub fn unreceived_frames(&self) -> u64 {
        self.rings().map(|(_, ring)| ring.unreceived_frames).sum()
    }

    pub fn ring(&self, port: PortId) -> impl Iterator<Item = &[u8]> {
        self.port(port).committed.iter().map(|frame| self.store.frame(frame))
    }

    pub fn set_link(&mut self, now: Nanos, port: PortId, up: bool) {
        for worker in self.some_order() {
            self.workers[worker].batch(now).set_link(port, up, &mut self.store);
        }
        self.exchange(now); // returns the dropped frames to their owners
    }

    pub fn revise(&mut self, now: Nanos, settings: &SwitchSettings) {
        for (me, worker) in (0..=u8::MAX).map(WorkerId).zip(&mut self.workers) {
            let roles = Workers::new(self.owners.clone().into_boxed_slice(), me);
            let revision = Box::new(Revision::new(settings.clone(), &roles, self.slots));
            drop(worker.batch(now).revise(revision));
        }
        self.exchange(now);
    }

    /// Runs all workers' drivers, in an order that the seed determines, until all events are processed.
    pub fn look(&mut self, now: Nanos) {
        loop {
            for at in self.some_order() {
                let mut turn = Turn::new(self.batches);
                let (mut driver, mut exchange) = self.driver(at, now, &mut turn);
                driver.turn(&mut exchange);
                self.is_in_order &= turn.is_in_order;
            }
            if self.rings().all(|(_, ring)| ring.arrived.is_empty()) && !self.waits_for_workers() {
                break;
            }
        }
    }

    /// Runs the last steps of workers that stop, after all peers were resumed.
    pub fn part(&mut self, now: Nanos) {
        for at in 0..self.workers.len() {
            let mut batches = self.batches;
            self.driver(at, now, &mut batches).0.part();
        }
        self.exchange(now); // balances the ledgers of the workers
    }

    fn driver<'a, B>(
        &'a mut self,
        at: usize,
        now: Nanos,
        boundary: &'a mut B,
    ) -> (Driver<'a, Ring, MemoryStore, B>, Exchange<'a>) {
        let Twin { workers, ports, store, links, batches, .. } = self;
        let exchange = links.of(at, *batches);
        (Driver { now, switch: &mut workers[at], ports: &mut ports[at], store, boundary }, exchange)
    }

    fn exchange(&mut self, now: Nanos) {
        while self.waits_for_workers() {
            for at in self.some_order() {
                let Twin { workers, store, links, batches, .. } = self;
                links.of(at, *batches).exchange(now, &mut workers[at], store);
            }
        }
    }

    fn waits_for_workers(&self) -> bool {
        !self.links.are_empty() || self.workers.iter().any(Switch::waits_for_workers)
    }

    fn some_order(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.workers.len()).collect();
        self.rng.shuffle(&mut order);
        order
    }

    pub fn difference(&self, other: &Twin) -> Option<String> {
        for port in (0..=u8::MAX).map(PortId).take(self.owners.len()) {
            if !self.ring(port).eq(other.ring(port)) {
                return Some(format!("{port:?}: frames given to the driver differ in content or order"));
            }
        }
        if self.counters != other.counters {
            return differ(&self.counters, &other.counters);
        }
        let slots = |twin: &Twin| (twin.unreceived_frames(), twin.store.in_use());
        if slots(self) != slots(other) {
            return Some(format!(
                "(frames that found no slot, used slots) is {:?} with large batches, {:?} with single frames",
                slots(self),
                slots(other)
            ));
        }
        let mut pairs = self.workers.iter().zip(&other.workers);
        let shows = |worker| Shows::of(worker, self.owners.len());
        pairs.find_map(|(worker, other)| {
            let (mine, others) = (shows(worker), shows(other));
            if mine == others { None } else { differ(&mine, &others) }
        })
    }

    pub fn difference_inside(&self, other: &Twin) -> Option<String> {
        let [mine, others] = [self, other].map(|twin| format!("{:?}", twin.workers));
        if mine == others { None } else { differ(&self.workers, &other.workers) }
    }
}

#[derive(Debug, PartialEq)]
struct Shows {
    ledger: Ledger,
    active_and_due: [PortSet; 2],
    sent_and_obeyed: [u64; 2],
    next_deadline: Nanos,
    ports: Vec<ShowsPort>,
}

#[derive(Debug, PartialEq)]
struct ShowsPort {
    committed: Bytes,
    held: (ClassSet, bool, Nanos),
    paused: (ClassSet, Nanos),
    stormed: ClassSet,
    classes: [(Bytes, Bytes, RateStep); CLASSES],
}

impl Shows {
    fn of(worker: &Switch, ports: usize) -> Shows {
        Shows {
            ledger: worker.ledger(),
            active_and_due: [worker.egress_active(), worker.announcements_due()],
            sent_and_obeyed: [worker.xoffs_sent(), worker.pauses_obeyed()],
            next_deadline: worker.next_deadline(),
            ports: (0..=u8::MAX).map(PortId).take(ports).map(|port| ShowsPort::of(worker, port)).collect(),
        }
    }
}

impl ShowsPort {
    fn of(worker: &Switch, port: PortId) -> ShowsPort {
        let (held, paused, buffer) = (worker.held(port), worker.paused(port), worker.buffer());
        ShowsPort {
            committed: worker.committed(port),
            held: (held.classes(), held.due(), held.next_refresh()),
            paused: (paused.classes(), paused.next_expiry()),
            stormed: worker.stormed(port),
            classes: Class::ALL.map(|class| {
                let queues = (buffer.ingress(port, class), buffer.egress(port, class));
                (queues.0, queues.1, worker.requested_rate(port, class))
            }),
        }
    }
}

fn differ(one: &impl Debug, other: &impl Debug) -> Option<String> {
    let [one, other] = [format!("{one:#?}"), format!("{other:#?}")];
    let lines = one.lines().zip(other.lines());
    let (at, (one, other)) = lines.enumerate().find(|(_, (one, other))| one != other)?;
    Some(format!(
        "state differs in line {at}: {} in large batches, {} in batches of one",
        one.trim(),
        other.trim()
    ))
}

//! A switch as one driver has it: one `Switch` per worker over one store, and a ring per port, from which the wire
//! takes frame after frame.
//!
//! A look takes all that has happened since the last one, port by port as a worker does: in batches as large as a
//! worker's, or each frame in a batch of its own. Nothing else may be different about two drivers that are fed the same.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use xoff_dataplane::counters::Counters;
use xoff_dataplane::frame::Frame;
use xoff_dataplane::ledger::Ledger;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::switch::{Batch, Revision, Switch, WorkerId, Workers};
use xoff_dataplane::units::{Bytes, CLASSES, Class, ClassSet, Nanos, PortId, PortSet, RateStep};

use super::store::MemoryStore;
use super::switch_node::SwitchPlan;

/// How many frames a driver takes in one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// As many as there are.
    Large,
    /// One.
    OfOne,
}

impl Batches {
    /// Takes a step while there is one to take; true where there was.
    pub fn take(self, switch: &mut Switch, now: Nanos, mut step: impl FnMut(&mut Batch<'_>) -> bool) -> bool {
        let mut any = false;
        match self {
            Batches::Large => {
                let mut batch = switch.batch(now);
                while step(&mut batch) {
                    any = true;
                }
            }
            Batches::OfOne => {
                while step(&mut switch.batch(now)) {
                    any = true;
                }
            }
        }
        any
    }

    /// Frames to be sent in one step, of `all` that may be.
    pub fn most(self, all: u32) -> u32 {
        match self {
            Batches::Large => all,
            Batches::OfOne => all.min(1),
        }
    }
}

#[derive(Debug)]
enum Happening {
    Left(PortId, Frame),
    Arrived(PortId, Vec<u8>),
}

impl Happening {
    const fn port(&self) -> PortId {
        match self {
            Happening::Left(port, _) | Happening::Arrived(port, _) => *port,
        }
    }

    /// A worker looks at port after port, and first at what has left.
    const fn turn(&self) -> (PortId, bool) {
        (self.port(), matches!(self, Happening::Arrived(..)))
    }
}

#[derive(Debug)]
pub struct Twin {
    pub workers: Vec<Switch>,
    pub counters: Arc<Counters>,
    pub store: MemoryStore,
    /// Frames that came when the store had no slot: a driver's empty fill ring.
    pub never_seen: u64,
    owners: Vec<WorkerId>,
    slots: u32,
    batches: Batches,
    unseen: Vec<Happening>,
    /// What a driver is told later than it happens.
    withheld: Vec<Happening>,
    rings: Vec<VecDeque<Frame>>,
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
        let count = owners.iter().map(|owner| owner.0 + 1).max().unwrap_or(1);
        let worker = |me: u8| {
            let workers = Workers::new(owners.clone().into_boxed_slice(), WorkerId(me));
            Switch::new(&plan.settings, plan.slots + plan.control_slots, workers, Arc::clone(&counters))
        };
        Twin {
            workers: (0..count).map(worker).collect(),
            counters,
            store: MemoryStore::new(plan.slots, plan.control_slots, plan.room, frame_max as usize + 100),
            never_seen: 0,
            slots: plan.slots + plan.control_slots,
            owners,
            batches,
            unseen: Vec::new(),
            withheld: Vec::new(),
            rings: (0..ports).map(|_| VecDeque::new()).collect(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// The worker that owns a port.
    pub fn worker(&self, port: PortId) -> &Switch {
        &self.workers[self.owners[port.index()].index()]
    }

    pub fn arrived(&mut self, port: PortId, bytes: Vec<u8>) {
        self.unseen.push(Happening::Arrived(port, bytes));
    }

    /// The frame at the head of the ring has left.
    pub fn left(&mut self, port: PortId) {
        let frame = self.rings[port.index()].pop_front().expect("a frame was on the wire");
        self.unseen.push(Happening::Left(port, frame));
    }

    /// The frame at the head of the ring has left, and the driver is not told yet.
    pub fn left_unheard(&mut self, port: PortId) {
        let frame = self.rings[port.index()].pop_front().expect("a frame was on the wire");
        self.withheld.push(Happening::Left(port, frame));
    }

    /// The driver is told all that it has not heard of.
    pub fn hear(&mut self) {
        self.unseen.append(&mut self.withheld);
    }

    /// Whether something has happened since the last look.
    pub fn has_unseen(&self) -> bool {
        !self.unseen.is_empty()
    }

    /// Whether the driver has heard of all that has happened.
    pub fn has_heard_all(&self) -> bool {
        self.unseen.is_empty() && self.withheld.is_empty()
    }

    /// What has come in since the last look.
    pub fn arrivals(&self) -> impl Iterator<Item = (PortId, &[u8])> {
        self.unseen.iter().filter_map(|happening| match happening {
            Happening::Arrived(port, bytes) => Some((*port, &bytes[..])),
            Happening::Left(..) => None,
        })
    }

    /// Frames that the wire of `port` is yet to carry, the next one first.
    pub fn ring(&self, port: PortId) -> impl Iterator<Item = &[u8]> {
        self.rings[port.index()].iter().map(|frame| self.store.frame(frame))
    }

    pub fn set_link(&mut self, now: Nanos, port: PortId, up: bool) {
        for worker in self.some_order() {
            self.workers[worker].batch(now).set_link(port, up, &mut self.store);
        }
        while self.exchange(now) {} // what was dropped goes home
    }

    /// Other settings hold.
    pub fn revise(&mut self, now: Nanos, settings: &SwitchSettings) {
        for (me, worker) in (0..=u8::MAX).map(WorkerId).zip(&mut self.workers) {
            let roles = Workers::new(self.owners.clone().into_boxed_slice(), me);
            let revision = Box::new(Revision::new(settings.clone(), &roles, self.slots));
            drop(worker.batch(now).revise(revision));
        }
        while self.exchange(now) {}
    }

    /// One turn of the loop: everything that has happened, the pipeline, the timers, the ports. One that is `stopping`
    /// sends pauses, and no data.
    pub fn look(&mut self, now: Nanos, stopping: bool) {
        for worker in &mut self.workers {
            worker.batch(now).advance(&mut self.store);
        }
        self.take_in(now);
        while self.forward(now) | self.exchange(now) {}
        self.announce(now);
        self.transmit(now, stopping);
        // A frame that could not get its tag is dropped at transmit, and goes home.
        while self.exchange(now) {}
    }

    /// All that has happened, at all ports of a worker in one batch, or each in one of its own.
    fn take_in(&mut self, now: Nanos) {
        let mut unseen = std::mem::take(&mut self.unseen);
        unseen.sort_by_key(Happening::turn); // in order of time within each
        let (store, never_seen) = (&mut self.store, &mut self.never_seen);
        let mut take = |batch: &mut Batch<'_>, happening| match happening {
            Happening::Left(port, frame) => batch.release(port, frame, store),
            Happening::Arrived(port, bytes) => match store.fill(&bytes) {
                Some(frame) => batch.receive(port, frame, store),
                None => *never_seen += 1,
            },
        };
        match self.batches {
            Batches::Large => {
                let mut batches: Vec<Batch<'_>> =
                    self.workers.iter_mut().map(|worker| worker.batch(now)).collect();
                for happening in unseen {
                    take(&mut batches[self.owners[happening.port().index()].index()], happening);
                }
            }
            Batches::OfOne => {
                for happening in unseen {
                    let owner = self.owners[happening.port().index()].index();
                    take(&mut self.workers[owner].batch(now), happening);
                }
            }
        }
    }

    fn forward(&mut self, now: Nanos) -> bool {
        let mut moved = false;
        for worker in self.some_order() {
            let (worker, store) = (&mut self.workers[worker], &mut self.store);
            moved |= self.batches.take(worker, now, |batch| batch.forward(store));
        }
        moved
    }

    /// Moves everything that waits between workers, in an order that the seed decides.
    fn exchange(&mut self, now: Nanos) -> bool {
        let mut moved = false;
        for from in self.some_order() {
            for to in self.some_order() {
                moved |= from != to && self.exchange_between(now, from, to);
            }
        }
        moved
    }

    fn exchange_between(&mut self, now: Nanos, from: usize, to: usize) -> bool {
        let id = WorkerId(u8::try_from(to).expect("few workers"));
        let [from, into] = self.workers.get_disjoint_mut([from, to]).expect("two workers");
        let store = &mut self.store;
        let mut moved = false;
        match self.batches {
            Batches::Large => {
                let (mut from, mut into) = (from.batch(now), into.batch(now));
                while pass(&mut from, &mut into, id, store) {
                    moved = true;
                }
            }
            Batches::OfOne => {
                while pass(&mut from.batch(now), &mut into.batch(now), id, store) {
                    moved = true;
                }
            }
        }
        moved
    }

    /// Has peers told of what has changed, before any port sends data.
    fn announce(&mut self, now: Nanos) {
        for worker in &mut self.workers {
            for port in worker.untold().iter() {
                let (ring, store) = (&mut self.rings[port.index()], &mut self.store);
                self.batches.take(worker, now, |batch| tell(batch, port, store, ring));
            }
        }
    }

    fn transmit(&mut self, now: Nanos, stopping: bool) {
        let most = self.batches.most(u32::MAX);
        for (port, ring) in (0..=u8::MAX).map(PortId).zip(&mut self.rings) {
            let (worker, store) = (&mut self.workers[self.owners[port.index()].index()], &mut self.store);
            if !worker.egress_active().contains(port) {
                continue;
            }
            self.batches.take(worker, now, |batch| match stopping {
                true => tell(batch, port, store, ring),
                false => batch.transmit(port, store, most, |_, frame| ring.push_back(frame)) > 0,
            });
        }
    }

    fn some_order(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.workers.len()).collect();
        self.rng.shuffle(&mut order);
        order
    }

    /// Where this driver's switch does other than that of another, which was fed the same.
    pub fn difference(&self, other: &Twin) -> Option<String> {
        for port in (0..=u8::MAX).map(PortId).take(self.rings.len()) {
            if !self.ring(port).eq(other.ring(port)) {
                return Some(format!("{port:?}: other frames, or in another order, are given out"));
            }
        }
        if self.counters != other.counters {
            return differ(&self.counters, &other.counters);
        }
        let slots = |twin: &Twin| (twin.never_seen, twin.store.in_use());
        if slots(self) != slots(other) {
            return Some(format!("frames never seen, slots in use: {:?}, {:?}", slots(self), slots(other)));
        }
        let mut pairs = self.workers.iter().zip(&other.workers);
        let shows = |worker| Shows::of(worker, self.rings.len());
        pairs.find_map(|(worker, other)| {
            let (mine, others) = (shows(worker), shows(other));
            if mine == others { None } else { differ(&mine, &others) }
        })
    }

    /// The same, down to what nobody is shown.
    pub fn difference_inside(&self, other: &Twin) -> Option<String> {
        let [mine, others] = [self, other].map(|twin| format!("{:?}", twin.workers));
        if mine == others { None } else { differ(&self.workers, &other.workers) }
    }
}

/// One frame, or one that has left, goes from a worker to another.
fn pass(from: &mut Batch<'_>, into: &mut Batch<'_>, id: WorkerId, store: &mut MemoryStore) -> bool {
    if let Some(handover) = from.hand_over(id) {
        into.take_over(handover, store);
        return true;
    }
    let back = from.give_back(id);
    let any = back.is_some();
    back.into_iter().for_each(|back| into.take_back(back, store));
    any
}

/// A frame that tells the peer of a port something; false where there is none.
fn tell(batch: &mut Batch<'_>, port: PortId, store: &mut MemoryStore, ring: &mut VecDeque<Frame>) -> bool {
    let frame = batch.announce(port, store);
    let any = frame.is_some();
    ring.extend(frame);
    any
}

/// What can be seen of a worker between its batches.
#[derive(Debug, PartialEq)]
struct Shows {
    ledger: Ledger,
    active_untold: [PortSet; 2],
    told_obeyed: [u64; 2],
    next_deadline: Nanos,
    ports: Vec<ShowsPort>,
}

#[derive(Debug, PartialEq)]
struct ShowsPort {
    committed: Bytes,
    held: (ClassSet, bool, Nanos),
    paused: (ClassSet, Nanos),
    stormed: ClassSet,
    /// In the ingress queue, in the egress queue, and what the peer is asked for.
    classes: [(Bytes, Bytes, RateStep); CLASSES],
}

impl Shows {
    fn of(worker: &Switch, ports: usize) -> Shows {
        Shows {
            ledger: worker.ledger(),
            active_untold: [worker.egress_active(), worker.untold()],
            told_obeyed: [worker.stops_told(), worker.pauses_obeyed()],
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
                (queues.0, queues.1, worker.rate_asked(port, class))
            }),
        }
    }
}

/// The first line in which two things differ, in full.
fn differ(one: &impl Debug, other: &impl Debug) -> Option<String> {
    let [one, other] = [format!("{one:#?}"), format!("{other:#?}")];
    let lines = one.lines().zip(other.lines());
    let (at, (one, other)) = lines.enumerate().find(|(_, (one, other))| one != other)?;
    Some(format!("line {at}: {} in large batches, {} in batches of one", one.trim(), other.trim()))
}

/// A test may end while frames are on their way: these handles are not lost.
impl Drop for Twin {
    fn drop(&mut self) {
        let unseen =
            self.unseen.drain(..).chain(self.withheld.drain(..)).filter_map(|happening| match happening {
                Happening::Left(_, frame) => Some(frame),
                Happening::Arrived(..) => None,
            });
        let committed = self.rings.iter_mut().flat_map(|ring| ring.drain(..));
        unseen.chain(committed).for_each(|frame| _ = frame.into_parts());
    }
}

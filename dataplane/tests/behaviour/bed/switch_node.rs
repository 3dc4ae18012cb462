//! A switch in the bed: one `Switch` per worker over one store, and a ring per port as a driver has
//! it, from which the wire takes frame after frame.
//!
//! It may look at its ports only now and then (a loop gap): then everything that happens waits for
//! the next look, as it does for a thread that was busy elsewhere.

use std::collections::VecDeque;
use std::sync::Arc;

use xoff_dataplane::counters::Counters;
use xoff_dataplane::frame::Frame;
use xoff_dataplane::settings::{PolicyKind, SwitchSettings};
use xoff_dataplane::switch::{Switch, WorkerId, Workers};
use xoff_dataplane::units::{Bytes, Class, Nanos, PortId};

use super::store::MemoryStore;
use super::watch::{self, Watch};

/// A switch to be.
#[derive(Clone, Debug)]
pub struct SwitchPlan {
    pub settings: SwitchSettings,
    /// Worker of each port; empty: one for all.
    pub owners: Vec<u8>,
    /// Time from one look at the ports to the next; zero: everything is seen at once.
    pub gap: Nanos,
    /// Slots for data frames.
    pub slots: u32,
    /// Slots for control frames.
    pub control_slots: u32,
    /// Free bytes in front of each frame, for tags.
    pub room: usize,
    /// A lossless class may lose frames: its peer does not obey in time.
    pub may_lose: bool,
    /// Pauses may lapse: control frames are lost on their way.
    pub may_lapse: bool,
}

#[derive(Debug)]
enum Happening {
    Arrived(PortId, Vec<u8>),
    Left(PortId, Frame),
}

#[derive(Debug)]
pub struct SwitchNode {
    pub workers: Vec<Switch>,
    pub counters: Arc<Counters>,
    pub settings: SwitchSettings,
    pub store: MemoryStore,
    pub watches: Vec<Watch>,
    /// Frames that came when the store had no slot: a driver's empty fill ring.
    pub never_seen: u64,
    pub may_lose: bool,
    pub may_lapse: bool,
    /// It has let its peers go: thresholds decide no more, and no data leave.
    pub stopping: bool,
    owners: Vec<WorkerId>,
    gap: Nanos,
    unseen: VecDeque<Happening>,
    rings: Vec<VecDeque<Frame>>,
    rng: fastrand::Rng,
}

impl SwitchNode {
    pub fn new(plan: SwitchPlan, seed: u64) -> SwitchNode {
        let ports = plan.settings.ports.len();
        let owners: Vec<WorkerId> = match plan.owners.len() {
            0 => vec![WorkerId(0); ports],
            _ => plan.owners.iter().copied().map(WorkerId).collect(),
        };
        let frame_max = plan.settings.ports.iter().map(|port| port.mtu_frame).max().unwrap_or(0) + 4;
        let store = MemoryStore::new(plan.slots, plan.control_slots, plan.room, frame_max as usize + 100);
        let counters = Counters::with_shadows(ports, plan.settings.shadows.len());
        let is_by_flow = |class: &Class| plan.settings.policies[class.index()] == PolicyKind::Ofc;
        let by_flow = Class::ALL.into_iter().filter(is_by_flow).collect();
        let count = owners.iter().map(|owner| owner.0 + 1).max().unwrap_or(1);
        let worker = |me: u8| {
            let workers = Workers::new(owners.clone().into_boxed_slice(), WorkerId(me));
            Switch::new(&plan.settings, plan.slots + plan.control_slots, workers, Arc::clone(&counters))
        };
        SwitchNode {
            workers: (0..count).map(worker).collect(),
            watches: plan.settings.ports.iter().map(|port| Watch::new(port, by_flow)).collect(),
            never_seen: 0,
            counters,
            settings: plan.settings,
            store,
            may_lose: plan.may_lose,
            may_lapse: plan.may_lapse,
            stopping: false,
            owners,
            gap: plan.gap,
            unseen: VecDeque::new(),
            rings: (0..ports).map(|_| VecDeque::new()).collect(),
            rng: fastrand::Rng::with_seed(seed),
        }
    }

    /// The worker that owns a port.
    pub fn worker(&self, port: PortId) -> &Switch {
        &self.workers[self.owners[port.index()].index()]
    }

    /// Ports, lowest first.
    pub fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..=u8::MAX).map(PortId).take(self.rings.len())
    }

    pub fn arrived(&mut self, port: PortId, bytes: Vec<u8>) {
        self.unseen.push_back(Happening::Arrived(port, bytes));
    }

    /// The frame at the head of the ring has left.
    pub fn left(&mut self, now: Nanos, port: PortId) {
        let frame = self.rings[port.index()].pop_front().expect("a frame was on the wire");
        self.watches[port.index()].left(now, self.store.frame(&frame));
        self.unseen.push_back(Happening::Left(port, frame));
    }

    /// What the wire of `port` is to carry next.
    pub fn next_frame(&self, port: PortId) -> Option<Vec<u8>> {
        self.rings[port.index()].front().map(|frame| self.store.frame(frame).to_vec())
    }

    pub fn set_link(&mut self, now: Nanos, port: PortId, up: bool) {
        let order = self.some_order();
        for worker in order {
            self.workers[worker].batch(now).set_link(port, up, &mut self.store);
        }
        self.watches[port.index()].set_link(up);
    }

    /// Whether the switch looks at its ports at this time.
    pub fn looks_at(&self, now: Nanos) -> bool {
        self.next_turn(now) == now
    }

    /// When it must look again.
    pub fn next_look(&self, now: Nanos) -> Nanos {
        let deadline = self.workers.iter().map(Switch::next_deadline).min().unwrap_or(Nanos::NEVER);
        let wanted = match (self.unseen.is_empty(), self.stopping) {
            (false, _) => now,
            (true, false) => deadline,
            (true, true) => Nanos::NEVER,
        };
        if wanted == Nanos::NEVER || self.gap == Nanos::ZERO {
            return wanted;
        }
        self.next_turn(wanted.max(now))
    }

    /// The first turn of the loop at or after `when`.
    fn next_turn(&self, when: Nanos) -> Nanos {
        if self.gap == Nanos::ZERO { when } else { Nanos(when.0.div_ceil(self.gap.0) * self.gap.0) }
    }

    /// One turn of the loop: everything that has happened, the pipeline, the timers, the ports.
    pub fn look(&mut self, now: Nanos) {
        for worker in &mut self.workers {
            worker.batch(now).advance(&mut self.store);
        }
        while let Some(happening) = self.unseen.pop_front() {
            match happening {
                Happening::Arrived(port, bytes) => self.receive(now, port, &bytes),
                Happening::Left(port, frame) => {
                    let worker = &mut self.workers[self.owners[port.index()].index()];
                    worker.batch(now).release(port, frame, &mut self.store);
                }
            }
        }
        while self.forward(now) | self.exchange(now) {}
        self.announce(now);
        for port in self.ports() {
            self.transmit(now, port);
        }
        // A frame that could not get its tag is dropped at transmit, and goes home.
        while self.exchange(now) {}
    }

    fn receive(&mut self, now: Nanos, port: PortId, bytes: &[u8]) {
        self.watches[port.index()].received(now, bytes);
        let Some(frame) = self.store.fill(bytes) else {
            self.never_seen += 1;
            return;
        };
        let worker = &mut self.workers[self.owners[port.index()].index()];
        worker.batch(now).receive(port, frame, &mut self.store);
    }

    fn forward(&mut self, now: Nanos) -> bool {
        let mut moved = false;
        for worker in self.some_order() {
            while self.workers[worker].batch(now).forward(&mut self.store) {
                moved = true;
            }
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
        let mut moved = false;
        let pair = self.workers.get_disjoint_mut([from, to]).expect("two workers");
        let [mut from, mut into] = pair.map(|worker| worker.batch(now));
        while let Some(handover) = from.hand_over(id) {
            into.take_over(handover, &mut self.store);
            moved = true;
        }
        while let Some(back) = from.give_back(id) {
            into.take_back(back, &mut self.store);
            moved = true;
        }
        moved
    }

    fn transmit(&mut self, now: Nanos, port: PortId) {
        let owner = self.owners[port.index()].index();
        if !self.workers[owner].egress_active().contains(port) {
            return;
        }
        while let Some(frame) = self.next_of(now, owner, port) {
            self.give_out(now, port, frame);
        }
    }

    /// The next frame that a worker has for the driver of a port: none but pauses, once it stops.
    fn next_of(&mut self, now: Nanos, worker: usize, port: PortId) -> Option<Frame> {
        let mut batch = self.workers[worker].batch(now);
        if self.stopping {
            return batch.announce(port, &mut self.store);
        }
        let mut next = None;
        batch.transmit(port, &mut self.store, 1, |_, frame| next = Some(frame));
        next
    }

    /// A frame of a worker goes to the driver: a pause whenever it is due, any other only where less is there
    /// than may be committed, so that it never delays a pause that is yet to come by more.
    fn give_out(&mut self, now: Nanos, port: PortId, frame: Frame) {
        let bytes = self.store.frame(&frame);
        let ring = &mut self.rings[port.index()];
        let ahead: u64 = ring.iter().map(|frame| Bytes::on_line(frame.len()).0).sum();
        let may_join = ahead < self.settings.ports[port.index()].commit.0 || watch::is_pause(bytes);
        assert!(may_join, "{port:?}: {ahead} bytes are ahead of a frame that is no pause");
        self.watches[port.index()].transmitted(now, bytes);
        ring.push_back(frame);
    }

    /// Has peers told of what has changed, before any port sends data.
    fn announce(&mut self, now: Nanos) {
        for worker in 0..self.workers.len() {
            for port in self.workers[worker].untold().iter() {
                loop {
                    let frame = self.workers[worker].batch(now).announce(port, &mut self.store);
                    let Some(frame) = frame else { break };
                    self.give_out(now, port, frame);
                }
            }
        }
    }

    fn some_order(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.workers.len()).collect();
        self.rng.shuffle(&mut order);
        order
    }
}

/// A test may end while frames are on their way: these handles are not lost.
impl Drop for SwitchNode {
    fn drop(&mut self) {
        let unseen = self.unseen.drain(..).filter_map(|happening| match happening {
            Happening::Left(_, frame) => Some(frame),
            Happening::Arrived(..) => None,
        });
        let committed = self.rings.iter_mut().flat_map(|ring| ring.drain(..));
        unseen.chain(committed).for_each(|frame| _ = frame.into_parts());
    }
}

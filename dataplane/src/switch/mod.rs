//! The only place where the parts meet.
//!
//! A frame's journey has four steps, each one function that a driver calls:
//!
//! * [`Switch::receive`]: control frames are consumed; the others are classified, counted at their
//!   (ingress port, class), and wait in the ingress queue.
//! * [`Switch::forward`]: the pipeline takes one frame, learns, looks up, and admits it to its egress
//!   queue (or to the queue towards another worker).
//! * [`Switch::transmit`]: control frames first; then the scheduler picks among the classes of a port
//!   that are backlogged, unpaused and in rate.
//! * [`Switch::release`]: the frame has left; it is counted out, which may end a pause.
//!
//! [`Switch::advance`] fires what is due by time alone, and [`Switch::next_deadline`] tells when that
//! will be. Over AF_XDP a worker runs all steps to completion; a simulator calls each when its model
//! says so. Neither is visible from here.
//!
//! A switch with several workers has one `Switch` per worker. Each owns some ports completely, and
//! exchanges [`Handover`]s and [`Return`]s with the others (see [`workers`]).

mod batch;
mod egress;
mod flows;
mod groups;
mod ingress;
mod marking;
mod notices;
mod policies;
mod rates;
mod storms;
mod succession;
mod timers;
mod train;
pub mod workers;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::buffer::Buffer;
use crate::classify::Classifier;
use crate::congestion::CongestionPoints;
use crate::counters::Counters;
use crate::drop_reason::DropReason;
use crate::forward::{Bridge, FdbUpdate};
use crate::frame::{Frame, FrameStore};
use crate::ledger::Ledger;
use crate::pause::{AskedRates, Held, Obeyed, ObeyedRates};
use crate::policy::{Event, Intent, Policy, Shadow};
use crate::queue::{ClassQueue, Fifo, FrameMeta, NONE, Nodes};
use crate::rewrite::Rewriter;
use crate::schedule::{Scheduler, Shaper};
use crate::settings::{Accounting, FLOOD_COPIES_MAX, PolicyKind, PortSettings, SwitchSettings, WhenFull};
use crate::units::{Bytes, CLASSES, Class, ClassSet, FCS, Nanos, PortId, PortSet, TAGS};
use crate::watchdog::Watchdog;
pub use batch::Batch;
use batch::Run;
use groups::Groups;
pub use succession::Successor;
use train::Leader;
pub use workers::{Handover, Return, WorkerId, Workers};

/// Any number: the same frames at the same times are marked in every run.
const ECN_SEED: u64 = 3168;

/// The dataplane of one worker.
#[derive(Debug)]
pub struct Switch {
    kinds: [PolicyKind; CLASSES],
    accounting: Accounting,
    when_full: WhenFull,
    workers: Workers,
    ports: Box<[Port]>,
    nodes: Nodes,
    groups: Groups,
    buffer: Buffer,
    policies: [Policy; CLASSES],
    shadows: Box<[Shadow]>,
    /// One of them is OFC.
    shadows_count_flows: bool,
    congestion: CongestionPoints,
    bridge: Bridge,
    counters: Arc<Counters>,
    /// Frames of the batch in hand that are yet to be counted.
    run: Run,
    ledger: Ledger,
    pauses_obeyed: u64,
    stops_told: u64,
    /// What the policy wants done after the event at hand; empty between steps.
    intents: Vec<Intent>,
    /// Decides which frames are marked while a queue is between its ECN thresholds.
    ecn_rng: fastrand::Rng,
    /// Ports with frames that the pipeline can take.
    ingress_ready: PortSet,
    next_ingress: PortId,
    /// Ports with frames to send, or a pause frame due.
    egress_active: PortSet,
    /// Egress ports where frames wait for room ([`WhenFull::Stop`]).
    awaited: PortSet,
    /// Ports whose peers were let go or held, or asked for another rate, since the driver last looked.
    changed: PortSet,
    /// Ports whose pause frame can be sent only after one that is in flight has left.
    starved: PortSet,
    /// Ports that hold a peer or are held by one.
    timed: PortSet,
    next_timer: Nanos,
    /// Per worker, frames on their way to its ports, and slots on their way home.
    outbound: Box<[Outbound]>,
    /// What the other workers' bridges have yet to hear; stays empty with one worker.
    news: VecDeque<FdbUpdate>,
}

#[derive(Debug, Default)]
struct Outbound {
    frames: Fifo,
    returns: Fifo,
}

/// Everything of one port but its buffer counts.
#[derive(Debug)]
struct Port {
    settings: PortSettings,
    classifier: Classifier,
    rewriter: Rewriter,
    up: bool,
    held: Held,
    /// Per class, whose policies want it held: it is while there is one.
    demands: [ClassSet; CLASSES],
    obeyed: Obeyed,
    asked_rates: AskedRates,
    obeyed_rates: ObeyedRates,
    /// CNMs to be sent.
    notices: Fifo,
    /// Classes with something to tell the peer about flows.
    tells_flows: ClassSet,
    /// When the next flow that the peer has paused goes on by itself.
    flows_expire: Nanos,
    /// Classes that the peer has paused as a whole only because its flows could not be paused one by one.
    stopped_for_flows: ClassSet,
    watchdog: Watchdog,
    // Ingress.
    /// Of the last frame that was let in: what the next may follow.
    leader: Option<Leader>,
    arrived: [Fifo; CLASSES],
    backlogged_in: ClassSet,
    /// Classes whose first frame waits for room at an egress queue ([`WhenFull::Stop`]).
    stopped: ClassSet,
    // Egress.
    /// Classes whose frames are marked when the queue is long.
    marks: ClassSet,
    /// Classes whose frames are dropped on their way in if they cannot be marked.
    drops_early: ClassSet,
    /// Classes of which no frame is taken: all without link, those that the watchdog gives up.
    closed: ClassSet,
    queues: [ClassQueue; CLASSES],
    backlogged: ClassSet,
    scheduler: Scheduler,
    line: Shaper,
    class_rates: [Option<Shaper>; CLASSES],
    /// Classes that have a rate of their own.
    shaped: ClassSet,
    /// Layer-1 bytes handed to the driver and not yet released.
    committed: Bytes,
    committed_frames: u64,
    /// Per class, ingress ports that wait for room here.
    awaiting_room: [PortSet; CLASSES],
    /// Per class, frames from other workers' ports that wait for room here.
    handed_over: [Fifo; CLASSES],
}

impl Port {
    fn new(settings: &PortSettings, ports: usize, protected: ClassSet) -> Port {
        let per_class = |class: usize| &settings.classes[class];
        Port {
            settings: settings.clone(),
            classifier: Classifier::new(settings),
            rewriter: Rewriter::new(settings),
            up: true,
            held: Held::new(settings.refresh),
            demands: [ClassSet::NONE; CLASSES],
            obeyed: Obeyed::new(settings.speed),
            asked_rates: AskedRates::new(settings.refresh),
            obeyed_rates: ObeyedRates::new(settings.speed),
            notices: Fifo::default(),
            tells_flows: ClassSet::NONE,
            flows_expire: Nanos::NEVER,
            stopped_for_flows: ClassSet::NONE,
            watchdog: Watchdog::new(std::array::from_fn(|class| per_class(class).watchdog)),
            leader: None,
            arrived: Default::default(),
            backlogged_in: ClassSet::NONE,
            stopped: ClassSet::NONE,
            marks: Class::ALL.into_iter().filter(|c| per_class(c.index()).ecn.is_some()).collect(),
            drops_early: Class::ALL
                .into_iter()
                .filter(|class| !protected.contains(*class))
                .filter(|class| per_class(class.index()).ecn.is_some_and(|ecn| ecn.wred))
                .collect(),
            closed: ClassSet::NONE,
            queues: std::array::from_fn(|class| ClassQueue::new(per_class(class).queue, ports)),
            backlogged: ClassSet::NONE,
            scheduler: Scheduler::new(
                std::array::from_fn(|class| per_class(class).service),
                settings.mtu_frame + TAGS + FCS,
            ),
            line: Shaper::new(settings.speed, settings.burst),
            class_rates: std::array::from_fn(|class| {
                per_class(class).max_rate.map(|rate| rates::shaper(settings, rate))
            }),
            shaped: Class::ALL.into_iter().filter(|c| per_class(c.index()).max_rate.is_some()).collect(),
            committed: Bytes::ZERO,
            committed_frames: 0,
            awaiting_room: [PortSet::NONE; CLASSES],
            handed_over: Default::default(),
        }
    }

    /// Whether a control frame is to be sent now: a pause at once, all else only where data could leave,
    /// so that it never delays a pause by more than data do.
    #[inline]
    fn announces(&self) -> bool {
        self.up && (self.held.due() || self.can_wait() && !self.is_fully_committed())
    }

    /// Whether there is something to announce, now or when what was committed has left.
    #[inline]
    fn has_news(&self) -> bool {
        self.up && (self.held.due() || self.can_wait())
    }

    /// Whether the peer is to be told of a rate or of flows, or a source of congestion.
    #[inline]
    fn can_wait(&self) -> bool {
        self.asked_rates.due() || !self.notices.is_empty() || !self.tells_flows.is_empty()
    }

    /// Whether the peer is to be told of a pause, of a rate, or of the end of one.
    #[inline]
    const fn has_orders(&self) -> bool {
        self.held.due() || self.asked_rates.due()
    }

    /// Whether no more frames may leave before some have been released.
    #[inline]
    fn is_fully_committed(&self) -> bool {
        self.committed >= self.settings.commit
    }

    /// Whether frames wait for room here.
    fn is_awaited(&self) -> bool {
        self.handed_over.iter().any(|fifo| !fifo.is_empty())
            || self.awaiting_room.iter().any(|ports| !ports.is_empty())
    }
}

impl Switch {
    /// A switch whose store has `slots` slots. With one worker, `workers` is [`Workers::single`].
    /// `counters` are those of the whole switch; this worker writes those of its own ports.
    ///
    /// Everything that the switch will ever need is allocated here.
    #[must_use]
    pub fn new(settings: &SwitchSettings, slots: u32, workers: Workers, counters: Arc<Counters>) -> Switch {
        let count = settings.ports.len();
        let protected = settings.lossless_anywhere();
        let ports: Box<[Port]> =
            settings.ports.iter().map(|port| Port::new(port, count, protected)).collect();
        let policy = |class: Class| Policy::new(settings.policies[class.index()], class, settings);
        let shadow = |&kind| Shadow::new(kind, settings, slots);
        let shadows: Box<[Shadow]> = settings.shadows.iter().map(shadow).collect();
        let own = (0..=u8::MAX).map(PortId).take(count).filter(|&port| workers.owns(port));
        let flood_copies_max = own.map(|_| FLOOD_COPIES_MAX).sum();
        let mut switch = Switch {
            kinds: settings.policies,
            accounting: settings.accounting,
            when_full: settings.when_full,
            outbound: (0..workers.count()).map(|_| Outbound::default()).collect(),
            workers,
            ports,
            nodes: Nodes::new(slots),
            groups: Groups::new(slots, protected, flood_copies_max),
            buffer: Buffer::new(settings, Arc::clone(&counters)),
            policies: Class::ALL.map(policy),
            shadows_count_flows: shadows.iter().any(Shadow::counts_flows),
            shadows,
            congestion: CongestionPoints::new(&settings.qcn, &settings.ports, slots),
            bridge: Bridge::new(settings),
            counters,
            run: Run::NONE,
            ledger: Ledger::default(),
            pauses_obeyed: 0,
            stops_told: 0,
            intents: Vec::with_capacity(count * CLASSES),
            ecn_rng: fastrand::Rng::with_seed(ECN_SEED),
            ingress_ready: PortSet::NONE,
            next_ingress: PortId(0),
            egress_active: PortSet::NONE,
            awaited: PortSet::NONE,
            changed: PortSet::NONE,
            starved: PortSet::NONE,
            timed: PortSet::NONE,
            next_timer: Nanos::ZERO,
            news: VecDeque::with_capacity(workers::NEWS_MAX),
        };
        for port in (0..=u8::MAX).map(PortId).take(count) {
            for class in Class::ALL {
                let queue = succession::queue(settings.policies[class.index()], settings);
                switch.begin_flows(port, class, queue);
            }
        }
        switch
    }

    /// The occupancies.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The bridge: forwarding database and VLANs.
    #[must_use]
    pub fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    /// What the peer of `port` is held to, and since when.
    #[must_use]
    pub fn held(&self, port: PortId) -> &Held {
        &self.ports[port.index()].held
    }

    /// What the peer of `port` holds it to, and until when.
    #[must_use]
    pub fn obeyed(&self, port: PortId) -> &Obeyed {
        &self.ports[port.index()].obeyed
    }

    /// How many pause frames have been obeyed.
    #[inline]
    #[must_use]
    pub const fn pauses_obeyed(&self) -> u64 {
        self.pauses_obeyed
    }

    /// How many frames have told a peer to stop a class that it was not told to stop before.
    #[inline]
    #[must_use]
    pub const fn stops_told(&self) -> u64 {
        self.stops_told
    }

    /// This worker's account of its frames, with those that it holds counted now. Not for every
    /// frame: it walks all queues' heads.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let in_port = |port: &Port| {
            let arrived: u64 = port.arrived.iter().map(|fifo| u64::from(fifo.frames())).sum();
            let waiting: u64 = port.handed_over.iter().map(|fifo| u64::from(fifo.frames())).sum();
            let queued: u64 = port.queues.iter().map(|queue| u64::from(queue.frames())).sum();
            let notices = u64::from(port.notices.frames());
            arrived + waiting + queued + notices + port.committed_frames
        };
        let outbound: u64 = self.outbound.iter().map(|out| u64::from(out.frames.frames())).sum();
        Ledger { held: self.ports.iter().map(in_port).sum::<u64>() + outbound, ..self.ledger }
    }

    /// Shows what the forwarding database knows of this worker's ports in their counters. Not for
    /// every frame.
    pub fn show_addresses(&self) {
        let fdb = self.bridge.fdb();
        let own = (0..=u8::MAX).map(PortId).take(self.ports.len()).filter(|&port| self.workers.owns(port));
        for port in own {
            let shown = self.counters.port(port);
            shown.fdb_entries.set(fdb.learned_at(port) as u64);
            shown.station_moves.set(fdb.moved_to(port));
            shown.learn_refused.set(fdb.refused_at(port));
        }
    }

    /// Drops a frame that is in no queue, for `reason`, counted at `port`.
    #[cold]
    fn discard<S: FrameStore>(
        &mut self,
        port: PortId,
        class: Class,
        reason: DropReason,
        frame: Frame,
        store: &mut S,
    ) {
        self.counters.class(port, class).drops[reason.index()].add(1);
        self.ledger.dropped += 1;
        store.free(frame);
    }

    /// Drops a frame that was admitted at its ingress: it is counted out there as if it had left.
    #[cold]
    fn drop_admitted<S: FrameStore>(
        &mut self,
        now: Nanos,
        port: PortId,
        reason: DropReason,
        frame: Frame,
        store: &mut S,
    ) {
        self.settle();
        let meta = self.nodes.meta(&frame);
        let (ingress, class) = (meta.ingress, meta.class);
        self.counters.class(port, class).drops[reason.index()].add(1);
        if reason == DropReason::EgressFull {
            self.note_loss(now, ingress, class);
        }
        self.ledger.dropped += 1;
        self.leave_congestion_point(&frame);
        self.finish(now, frame, store);
    }

    /// The frame is no longer in the switch: counts it out where it came in (here, or at the worker
    /// that owns that port) and gives its slot back.
    #[inline]
    fn finish<S: FrameStore>(&mut self, now: Nanos, frame: Frame, store: &mut S) {
        let meta = *self.nodes.meta(&frame);
        if meta.control {
            store.free(frame);
        } else if self.workers.owns(meta.ingress) {
            if self.accounting == Accounting::UntilTransmitted {
                self.count_out(now, &meta);
            }
            store.free(frame);
        } else {
            let home = self.workers.owner(meta.ingress);
            self.outbound[home.index()].returns.push(&mut self.nodes, frame);
        }
    }

    /// Counts a frame, or the last copy of a flood, out of its ingress queue.
    #[inline]
    fn count_out(&mut self, now: Nanos, meta: &FrameMeta) {
        self.settle();
        if meta.group == NONE || self.groups.leave(meta.class, meta.group) {
            self.buffer.leave_ingress(meta.ingress, meta.class, meta.counted());
            self.observe(now, meta.class, Event::Released { ingress: meta.ingress });
        }
    }
}

/// What a frame takes of the line.
fn on_line(frame: &Frame) -> Bytes {
    Bytes::on_line(frame.len())
}

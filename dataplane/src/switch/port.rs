//! A port: what comes in, what goes out, and what this end and its peer have asked of each other.
//! Occupancies are not here: they are the switch's ([`xoff_flow_control::buffer`]).
//!
//! A switch has many ports, and a frame finds those that it passes in no cache near by. So what every frame touches comes
//! first in each part, in as few cache lines as it needs; what happens seldom comes after it, or lies elsewhere.

use std::mem::offset_of;

use xoff_flow_control::buffer::Load;
use xoff_flow_control::classify::Classifier;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::pause::{AskedRates, Held, KeptRates, Paused, Response, Standstill};
use xoff_flow_control::settings::{ClassSettings, PortSettings};
use xoff_flow_control::watchdog::Watchdog;
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, FCS, Nanos, TAGS};

use super::storm_control::StormControl;
use super::train::Train;
use crate::punt::PuntBucket;
use crate::queue::{ClassQueue, Fifo};
use crate::rewrite::Rewriter;
use crate::schedule::{Ahead, Scheduler, Shaper, Turn};

/// Everything of one port but its occupancies.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Port {
    pub(super) ingress: Ingress,
    pub(super) egress: Egress,
    pub(super) peer: Peer,
    pub(super) up: bool,
    pub(super) punts: PuntBucket,
    pub(super) settings: Box<PortSettings>,
}

/// Frames that have come in, and have yet to be forwarded.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Ingress {
    pub(super) train: Train,
    pub(super) classifier: Classifier,
    /// The longest frame that is let in, but for its tags.
    pub(super) mtu_frame: u32,
    /// What of a class tells its lane.
    lane_bits: u8,
    /// By [lane](Ingress::lane), as is what follows.
    pub(super) backlogged: ClassSet,
    pub(super) arrived: [Fifo; CLASSES],
    /// Frames of the host ([`super::host`]) that are counted here, wherever they wait.
    pub(super) of_host: [u32; CLASSES],
    pub(super) storm_control: Box<StormControl>,
    /// Per class, lossless frames whose neighbour is unknown ([`super::unresolved`]).
    pub(super) unresolved: Box<[Fifo; CLASSES]>,
}

/// Frames that wait to leave, and what decides which may.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Egress {
    pub(super) rewriter: Rewriter,
    /// The longest frame that leaves, but for its tags.
    pub(super) mtu_frame: u32,
    pub(super) backlogged: ClassSet,
    /// Classes of which no frame is taken: all without link, those that the watchdog gives up.
    pub(super) closed: ClassSet,
    /// Classes whose frames are marked when the queue is long.
    pub(super) marks: ClassSet,
    /// Classes whose frames are dropped on their way in if they cannot be marked.
    pub(super) drops_early: ClassSet,
    /// Classes that have a rate of their own; mostly none.
    pub(super) shaped: ClassSet,
    commit_max: Bytes,
    /// Layer-1 bytes handed to the driver and not yet released.
    pub(super) committed: Bytes,
    pub(super) committed_frames: u64,
    /// Of the classes that are `shaped`.
    pub(super) class_rates: Box<[Option<Shaper>; CLASSES]>,
    pub(super) line: Shaper,
    scheduler: Scheduler,
    pub(super) queues: [ClassQueue; CLASSES],
}

/// What this port has asked of its peer, and the peer of it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Peer {
    pub(super) held: Held,
    pub(super) paused: Paused,
    pub(super) kept_rates: KeptRates,
    /// When the next flow that the peer has paused goes on by itself.
    pub(super) flows_expire: Nanos,
    /// Frames to be sent before data: CNMs, and what was made outside.
    pub(super) told: Fifo,
    /// Classes with something to tell the peer about flows.
    pub(super) tells_flows: ClassSet,
    /// Classes that the peer has paused as a whole only because its flows could not be paused one by one.
    pub(super) paused_for_flows: ClassSet,
    pub(super) asked_rates: AskedRates,
    /// Per class, whose policies want it held: it is while there is one.
    pub(super) demands: [ClassSet; CLASSES],
    /// What comes of what is held.
    pub(super) response: Box<Response>,
    pub(super) watchdog: Box<Watchdog>,
    pub(super) standstill: Box<Standstill>,
}

const LINE: usize = 64;
const _: () = assert!(offset_of!(Ingress, of_host) <= 3 * LINE, "what a frame touches where it comes in");
const _: () = assert!(offset_of!(Egress, line) == LINE, "what a frame touches where it goes out");
const _: () = assert!(offset_of!(Egress, scheduler) < 2 * LINE, "what a frame touches where it goes out");
const _: () = assert!(offset_of!(Peer, asked_rates) < 2 * LINE, "what a frame touches before it leaves");

impl Port {
    /// `lossless`: classes that are lossless at a port of the switch; `lane_bits`: those of a class that tell its [lane](Ingress::lane).
    pub(super) fn new(settings: &PortSettings, ports: usize, lossless: ClassSet, lane_bits: u8) -> Port {
        Port {
            ingress: Ingress {
                train: Train::default(),
                classifier: Classifier::new(settings),
                mtu_frame: settings.mtu_frame,
                lane_bits,
                backlogged: ClassSet::NONE,
                arrived: Default::default(),
                of_host: [0; CLASSES],
                storm_control: Box::new(StormControl::new(settings)),
                unresolved: Box::default(),
            },
            egress: Egress::new(settings, ports, lossless),
            peer: Peer {
                held: Held::new(settings.refresh),
                paused: Paused::new(settings.speed),
                kept_rates: KeptRates::new(settings.speed),
                flows_expire: Nanos::NEVER,
                told: Fifo::default(),
                tells_flows: ClassSet::NONE,
                paused_for_flows: ClassSet::NONE,
                asked_rates: AskedRates::new(settings.refresh),
                demands: [ClassSet::NONE; CLASSES],
                response: Box::new(Response::new(settings)),
                watchdog: Box::new(Watchdog::new(settings.classes.map(|class| class.watchdog))),
                standstill: Box::new(Standstill::NONE),
            },
            up: true,
            punts: PuntBucket::new(settings.punt_limit),
            settings: Box::new(settings.clone()),
        }
    }

    /// Whether a control frame is to be sent now: a pause at once, all else only where data could leave,
    /// so that it never delays a pause by more than data do.
    #[inline]
    pub(super) fn announces(&self) -> bool {
        self.has_announcements() && (self.peer.held.due() || !self.egress.is_fully_committed())
    }

    /// Whether there is something to announce, now or when what was committed has left: to the peer, of pauses, rates or
    /// flows, to a source of congestion, or of what was made outside.
    #[inline]
    pub(super) fn has_announcements(&self) -> bool {
        let peer = &self.peer;
        (peer.is_untold() || !peer.told.is_empty() || !peer.tells_flows.is_empty()) && self.up
    }

    /// Classes with frames that may leave as far as the peer is concerned.
    #[inline]
    pub(super) fn eligible(&self) -> ClassSet {
        ClassSet(self.egress.backlogged.0 & !self.peer.paused.blocked().0)
    }

    /// Why no frame of a closed class is taken.
    #[cold]
    pub(super) const fn why_closed(&self) -> DropReason {
        if self.up { DropReason::PausedDiscard } else { DropReason::LinkDown }
    }

    /// Frames that wait here, those that the driver has included.
    pub(super) fn frames(&self) -> u64 {
        let came_in = self.ingress.arrived.iter().chain(&*self.ingress.unresolved);
        let fifos = came_in.chain([&self.peer.told]);
        let queues = self.egress.queues.iter().map(ClassQueue::frames);
        fifos.map(Fifo::frames).chain(queues).map(u64::from).sum::<u64>() + self.egress.committed_frames
    }
}

impl Ingress {
    /// The queue that a frame of `class` waits in: one for each class, or one for all.
    #[inline]
    pub(super) fn lane(&self, class: Class) -> Class {
        Class::from_low_bits(class.get() & self.lane_bits)
    }
}

impl Egress {
    fn new(settings: &PortSettings, ports: usize, lossless: ClassSet) -> Egress {
        let classes = &settings.classes;
        let own_rate = |rate| Shaper::new(rate, class_ahead(settings, rate));
        let (marks, drops_early) = marked(settings, lossless);
        Egress {
            rewriter: Rewriter::new(settings),
            mtu_frame: settings.mtu_frame,
            backlogged: ClassSet::NONE,
            closed: ClassSet::NONE,
            marks,
            drops_early,
            shaped: those_where(settings, |class| class.max_rate.is_some()),
            commit_max: settings.commit,
            committed: Bytes::ZERO,
            committed_frames: 0,
            class_rates: Box::new(classes.map(|class| class.max_rate.map(own_rate))),
            line: Shaper::new(settings.speed, line_ahead(settings)),
            scheduler: scheduler(settings),
            queues: classes.map(|class| ClassQueue::new(class.queue, ports)),
        }
    }

    /// Frames leave by other rules from now on, but for the rates of classes, which depend on the peer, too.
    pub(super) fn revise(&mut self, now: Nanos, settings: &PortSettings, lossless: ClassSet) {
        self.rewriter = Rewriter::new(settings);
        self.mtu_frame = settings.mtu_frame;
        (self.marks, self.drops_early) = marked(settings, lossless);
        self.scheduler = scheduler(settings);
        self.line.set_rate(now, settings.speed, line_ahead(settings));
        self.commit_max = settings.commit;
    }

    /// Whether no more frames may leave before some have been released.
    #[inline]
    pub(super) fn is_fully_committed(&self) -> bool {
        self.committed >= self.commit_max
    }

    /// The class among `eligible` that sends next, and bytes on the line that it may send with the same answer;
    /// `None` where none may send now.
    #[inline]
    pub(super) fn choose(&mut self, now: Nanos, mut eligible: ClassSet) -> Option<Turn> {
        if self.is_fully_committed() || !self.line.credit(now).allows_a_frame() {
            return None;
        }
        for class in ClassSet(eligible.0 & self.shaped.0).iter() {
            if let Some(rate) = self.rate(class)
                && !rate.credit(now).allows_a_frame()
            {
                eligible.remove(class);
            }
        }
        self.scheduler.choose(eligible)
    }

    /// What could send nothing at `now` if the line were free, the line itself included, saves up little from then on.
    #[inline]
    pub(super) fn rest(&mut self, now: Nanos, mut eligible: ClassSet) {
        for class in self.shaped.iter() {
            match &mut self.class_rates[class.index()] {
                Some(rate) if !eligible.contains(class) => rate.rest(now),
                Some(rate) if !rate.is_ready(now) => eligible.remove(class),
                _ => (),
            }
        }
        if eligible.is_empty() {
            self.line.rest(now);
        }
    }

    /// Bytes on the line that may be sent in this turn, one frame after the other, with nothing to decide.
    pub(super) fn margin(&mut self, now: Nanos, turn: &Turn) -> Bytes {
        let of_class = self.rate(turn.class).map_or(Bytes::MAX, |rate| rate.credit(now).bytes());
        let uncommitted = self.commit_max.saturating_sub(self.committed);
        turn.bytes().min(of_class).min(self.line.credit(now).bytes()).min(uncommitted)
    }

    /// Frames have left their queue in this turn, and are given to the driver.
    #[inline]
    pub(super) fn sent(&mut self, now: Nanos, turn: &Turn, load: Load) {
        self.scheduler.sent(turn, load.bytes, !self.backlogged.contains(turn.class));
        if let Some(rate) = self.rate(turn.class) {
            rate.spend(now, load.bytes);
        }
        self.commit(now, load);
    }

    /// The rate of its own that a class has, if it has one.
    #[inline]
    fn rate(&mut self, class: Class) -> Option<&mut Shaper> {
        if self.shaped.contains(class) { self.class_rates[class.index()].as_mut() } else { None }
    }

    /// The driver has these.
    #[inline]
    pub(super) fn commit(&mut self, now: Nanos, load: Load) {
        self.committed += load.bytes;
        self.committed_frames += u64::from(load.frames);
        self.line.spend(now, load.bytes);
    }

    /// The driver no longer has these.
    #[inline]
    pub(super) fn take_back(&mut self, load: Load) {
        self.committed_frames -= u64::from(load.frames);
        self.committed -= load.on_line();
    }

    /// When the next of the `eligible` may start, as far as rates are concerned; `None` where only a release
    /// can tell.
    pub(super) fn ready_at(&self, eligible: ClassSet) -> Option<Nanos> {
        if self.is_fully_committed() {
            return None;
        }
        let in_rate = |class: Class| match &self.class_rates[class.index()] {
            Some(rate) if self.shaped.contains(class) => rate.ready_at(),
            _ => Nanos::ZERO,
        };
        eligible.iter().map(in_rate).min().map(|soonest| soonest.max(self.line.ready_at()))
    }
}

fn those_where(settings: &PortSettings, holds: fn(&ClassSettings) -> bool) -> ClassSet {
    Class::ALL.into_iter().filter(|class| holds(&settings.classes[class.index()])).collect()
}

/// Classes whose frames are marked, and those whose frames are dropped if they cannot be.
fn marked(settings: &PortSettings, lossless: ClassSet) -> (ClassSet, ClassSet) {
    let early = those_where(settings, |class| class.ecn.is_some_and(|ecn| ecn.wred));
    (those_where(settings, |class| class.ecn.is_some()), ClassSet(early.0 & !lossless.0))
}

fn scheduler(settings: &PortSettings) -> Scheduler {
    Scheduler::new(settings.classes.map(|class| class.service), settings.mtu_frame + TAGS + FCS)
}

impl Peer {
    /// Whether the peer is to be told of a pause, of a rate, or of the end of one.
    #[inline]
    pub(super) const fn is_untold(&self) -> bool {
        self.held.due() || self.asked_rates.due()
    }

    /// When something that the peer has asked for ends by itself.
    #[inline]
    pub(super) fn next_expiry(&self) -> Nanos {
        self.paused.next_expiry().min(self.kept_rates.next_expiry()).min(self.flows_expire)
    }

    /// When something here happens by time alone.
    pub(super) fn next_deadline(&self) -> Nanos {
        let held = self.held.next_refresh().min(self.asked_rates.next_refresh());
        held.min(self.next_expiry()).min(self.watchdog.next_look()).min(self.standstill.next_look())
    }
}

/// Returns the length of the longest frame of `port` on its line.
pub(super) fn longest_frame(port: &PortSettings) -> Bytes {
    Bytes::on_line(port.mtu_frame + TAGS)
}

/// Returns how far `port` may run ahead of its line: by its burst where it is late, by its commit where it had nothing to send.
fn line_ahead(port: &PortSettings) -> Ahead {
    Ahead { late: port.burst, idle: port.commit }
}

/// Returns how far a class of `port` may run ahead of a rate of its own. The class has the line's time, at its own rate, and at least
/// one frame.
pub(super) fn class_ahead(port: &PortSettings, rate: BitRate) -> Ahead {
    let part = |of_line: Bytes| rate.bytes_in(port.speed.time_of(of_line)).max(longest_frame(port));
    Ahead { late: part(port.burst), idle: part(port.commit) }
}

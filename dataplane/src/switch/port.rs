//! State of a port: ingress, egress, and pauses and rates exchanged with the peer.
//!
//! Fields that every frame needs come first, in few cache lines.

use std::mem::offset_of;

use xoff_flow_control::buffer::Load;
use xoff_flow_control::classify::Classifier;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::pause::{Held, KeptRates, Paused, RequestedRates, Response, Standstill};
use xoff_flow_control::settings::{ClassSettings, PortSettings};
use xoff_flow_control::watchdog::Watchdog;
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, FCS, Nanos, TAGS};

use super::checksum_probe::ChecksumProbe;
use super::micro_flow::MicroFlow;
use super::storm_control::StormControl;
use crate::punt::PuntBucket;
use crate::queue::{ClassQueue, Fifo};
use crate::rewrite::Rewriter;
use crate::schedule::{Lead, Scheduler, Shaper, Turn};

#[derive(Debug)]
#[repr(C)]
pub(super) struct SwitchPort {
    pub(super) ingress: Ingress,
    pub(super) egress: Egress,
    pub(super) peer: Peer,
    pub(super) up: bool,
    pub(super) punts: PuntBucket,
    pub(super) settings: Box<PortSettings>,
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Ingress {
    pub(super) micro_flow: MicroFlow,
    pub(super) classifier: Classifier,
    pub(super) mtu_frame: u32,
    lane_bits: u8,
    pub(super) backlogged: ClassSet,
    pub(super) arrived: [Fifo; CLASSES],
    pub(super) of_host: [u32; CLASSES],
    pub(super) storm_control: Box<StormControl>,
    pub(super) unresolved: Box<[Fifo; CLASSES]>,
    pub(super) checksum_probe: ChecksumProbe,
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Egress {
    pub(super) rewriter: Rewriter,
    pub(super) mtu_frame: u32,
    pub(super) backlogged: ClassSet,
    /// Classes that accept no frames: those in a storm with watchdog action `drop`; all classes while there is no
    /// link.
    pub(super) closed: ClassSet,
    pub(super) marks: ClassSet,
    pub(super) drops_early: ClassSet,
    pub(super) shaped: ClassSet,
    commit_max: Bytes,
    pub(super) committed: Bytes,
    pub(super) committed_frames: u64,
    pub(super) class_rates: Box<[Option<Shaper>; CLASSES]>,
    pub(super) line: Shaper,
    scheduler: Scheduler,
    pub(super) queues: [ClassQueue; CLASSES],
}

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Peer {
    pub(super) held: Held,
    pub(super) paused: Paused,
    pub(super) kept_rates: KeptRates,
    pub(super) flows_expire: Nanos,
    pub(super) injected: Fifo,
    pub(super) flow_lists_due: ClassSet,
    /// Classes that a flow list pauses as a whole, because the listed flows could not be paused singly.
    pub(super) paused_for_flows: ClassSet,
    pub(super) requested_rates: RequestedRates,
    /// For each class that this switch pauses at the peer, the classes whose policies demand the pause: a policy may
    /// also pause other classes.
    pub(super) demands: [ClassSet; CLASSES],
    pub(super) response: Box<Response>,
    pub(super) watchdog: Box<Watchdog>,
    pub(super) standstill: Box<Standstill>,
}

const LINE: usize = 64;
const _: () = assert!(
    offset_of!(Ingress, of_host) <= 3 * LINE,
    "fields used for every received frame must fit in three cache lines"
);
const _: () = assert!(offset_of!(Egress, line) == LINE, "the line shaper must begin the second cache line");
const _: () = assert!(
    offset_of!(Egress, scheduler) < 2 * LINE,
    "fields used for every sent frame must fit in two cache lines"
);
const _: () = assert!(
    offset_of!(Peer, requested_rates) < 2 * LINE,
    "fields read before each transmission must fit in two cache lines"
);

impl SwitchPort {
    pub(super) fn new(
        settings: &PortSettings,
        ports: usize,
        lossless: ClassSet,
        lane_bits: u8,
    ) -> SwitchPort {
        SwitchPort {
            ingress: Ingress {
                micro_flow: MicroFlow::default(),
                classifier: Classifier::new(settings),
                mtu_frame: settings.mtu_frame,
                lane_bits,
                backlogged: ClassSet::NONE,
                arrived: Default::default(),
                of_host: [0; CLASSES],
                storm_control: Box::new(StormControl::new(settings)),
                unresolved: Box::default(),
                checksum_probe: ChecksumProbe::default(),
            },
            egress: Egress::new(settings, ports, lossless),
            peer: Peer {
                held: Held::new(settings.refresh),
                paused: Paused::new(settings.speed),
                kept_rates: KeptRates::new(settings.speed),
                flows_expire: Nanos::NEVER,
                injected: Fifo::default(),
                flow_lists_due: ClassSet::NONE,
                paused_for_flows: ClassSet::NONE,
                requested_rates: RequestedRates::new(settings.refresh),
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

    #[inline]
    pub(super) fn announces(&self) -> bool {
        self.has_announcements() && (self.peer.held.due() || !self.egress.is_fully_committed())
    }

    #[inline]
    pub(super) fn has_announcements(&self) -> bool {
        let peer = &self.peer;
        (peer.is_announcement_due() || !peer.injected.is_empty() || !peer.flow_lists_due.is_empty())
            && self.up
    }

    #[inline]
    pub(super) fn eligible(&self) -> ClassSet {
        ClassSet(self.egress.backlogged.0 & !self.peer.paused.blocked().0)
    }

    #[cold]
    pub(super) const fn closed_reason(&self) -> DropReason {
        if self.up { DropReason::PausedDiscard } else { DropReason::LinkDown }
    }

    pub(super) fn frames(&self) -> u64 {
        let came_in = self.ingress.arrived.iter().chain(&*self.ingress.unresolved);
        let fifos = came_in.chain([&self.peer.injected]);
        let queues = self.egress.queues.iter().map(ClassQueue::frames);
        fifos.map(Fifo::frames).chain(queues).map(u64::from).sum::<u64>() + self.egress.committed_frames
    }
}

impl Ingress {
    #[inline]
    pub(super) fn lane(&self, class: Class) -> Class {
        Class::from_low_bits(class.get() & self.lane_bits)
    }
}

impl Egress {
    fn new(settings: &PortSettings, ports: usize, lossless: ClassSet) -> Egress {
        let classes = &settings.classes;
        let own_rate = |rate| Shaper::new(rate, class_lead(settings, rate));
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
            line: Shaper::new(settings.sending_rate(), line_lead(settings)),
            scheduler: scheduler(settings),
            queues: classes.map(|class| ClassQueue::new(class.queue, ports)),
        }
    }

    pub(super) fn revise(&mut self, now: Nanos, settings: &PortSettings, lossless: ClassSet) {
        self.rewriter = Rewriter::new(settings);
        self.mtu_frame = settings.mtu_frame;
        (self.marks, self.drops_early) = marked(settings, lossless);
        self.scheduler = scheduler(settings);
        self.line.set_rate(now, settings.sending_rate(), line_lead(settings));
        self.commit_max = settings.commit;
    }

    #[inline]
    pub(super) fn is_fully_committed(&self) -> bool {
        self.committed >= self.commit_max
    }

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

    pub(super) fn margin(&mut self, now: Nanos, turn: &Turn) -> Bytes {
        let of_class = self.rate(turn.class).map_or(Bytes::MAX, |rate| rate.credit(now).bytes());
        let uncommitted = self.commit_max.saturating_sub(self.committed);
        turn.bytes().min(of_class).min(self.line.credit(now).bytes()).min(uncommitted)
    }

    #[inline]
    pub(super) fn sent(&mut self, now: Nanos, turn: &Turn, load: Load) {
        self.scheduler.sent(turn, load.bytes, !self.backlogged.contains(turn.class));
        if let Some(rate) = self.rate(turn.class) {
            rate.spend(now, load.bytes);
        }
        self.commit(now, load);
    }

    #[inline]
    fn rate(&mut self, class: Class) -> Option<&mut Shaper> {
        if self.shaped.contains(class) { self.class_rates[class.index()].as_mut() } else { None }
    }

    #[inline]
    pub(super) fn commit(&mut self, now: Nanos, load: Load) {
        self.committed += load.bytes;
        self.committed_frames += u64::from(load.frames);
        self.line.spend(now, load.bytes);
    }

    #[inline]
    pub(super) fn take_back(&mut self, load: Load) {
        self.committed_frames -= u64::from(load.frames);
        self.committed -= load.on_line();
    }

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

fn marked(settings: &PortSettings, lossless: ClassSet) -> (ClassSet, ClassSet) {
    let early = those_where(settings, |class| class.ecn.is_some_and(|ecn| ecn.wred));
    (those_where(settings, |class| class.ecn.is_some()), ClassSet(early.0 & !lossless.0))
}

fn scheduler(settings: &PortSettings) -> Scheduler {
    Scheduler::new(settings.classes.map(|class| class.service), settings.mtu_frame + TAGS + FCS)
}

impl Peer {
    #[inline]
    pub(super) const fn is_announcement_due(&self) -> bool {
        self.held.due() || self.requested_rates.due()
    }

    #[inline]
    pub(super) fn next_expiry(&self) -> Nanos {
        self.paused.next_expiry().min(self.kept_rates.next_expiry()).min(self.flows_expire)
    }

    pub(super) fn next_deadline(&self) -> Nanos {
        let held = self.held.next_refresh().min(self.requested_rates.next_refresh());
        held.min(self.next_expiry()).min(self.watchdog.next_look()).min(self.standstill.next_look())
    }
}

pub(super) fn longest_frame(port: &PortSettings) -> Bytes {
    Bytes::on_line(port.mtu_frame + TAGS)
}

fn line_lead(port: &PortSettings) -> Lead {
    Lead { late: port.burst, idle: port.commit }
}

pub(super) fn class_lead(port: &PortSettings, rate: BitRate) -> Lead {
    let part = |of_line: Bytes| rate.bytes_in(port.speed.time_of(of_line)).max(longest_frame(port));
    Lead { late: part(port.burst), idle: part(port.commit) }
}

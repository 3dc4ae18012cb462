//! What users see of a switch, per port and class: each number is written by the one worker that owns the
//! port, and read by anyone at any time.

mod asked;
mod culprits;

pub use asked::{FlowsAsked, RateAsked, ShadowCounters};
pub use culprits::Culprit;

use std::mem::offset_of;
use std::sync::Arc;

use xoff_wire::cnm::CnmError;
use xoff_wire::mac_control::MacControlError;
use xoff_wire::units::{CLASSES, Class, Nanos, PortId};

use crate::cause::Causes;
use crate::counter::{Counter, Histogram, RecentMax};
use crate::drop_reason::{DropKind, DropReason};
use crate::occupancy::Occupancy;
use crate::prefetch::prefetch;
use crate::punt_reason::PuntReason;

/// Counters of all ports of a switch.
#[derive(Debug, PartialEq)]
pub struct Counters {
    ports: Box<[PortCounters]>,
    /// What workers decide by, which users see here.
    occupancy: Arc<Occupancy>,
    /// What each shadow policy would have done, by port.
    shadows: Box<[Box<[[ShadowCounters; CLASSES]]>]>,
}

/// Counters of one port, beyond those of its classes.
#[derive(Debug, Default, PartialEq)]
pub struct PortCounters {
    /// Per class.
    pub classes: [ClassCounters; CLASSES],
    /// PFC and PAUSE frames sent.
    pub pause_frames_sent: Counter,
    /// PFC frames with rates (GFC) sent; not among [`PortCounters::pause_frames_sent`].
    pub rate_frames_sent: Counter,
    /// Those received and obeyed; among [`PortCounters::pfc_frames_received`].
    pub rate_frames_received: Counter,
    /// Well-formed PFC frames received.
    pub pfc_frames_received: Counter,
    /// Well-formed 802.3x PAUSE frames received.
    pub pause_frames_received: Counter,
    /// Well-formed pause frames that the port is configured not to obey, or that name no class it
    /// obeys.
    pub pause_frames_ignored: Counter,
    /// MAC control frames that pause nothing, by reason ([`MacControlError::ALL`]).
    pub malformed_control: [Counter; MacControlError::COUNT],
    /// All other frames consumed here: LLDP and the rest of the reserved block.
    pub reserved_frames: Counter,
    /// What became of frames that are not transit, by why they are not ([`PuntReason::ALL`]).
    pub punts: [PuntCounters; PuntReason::COUNT],
    /// Pause frames that had to wait because their reserved pool was in flight.
    pub control_starved: Counter,
    /// Who sent the last pause frame that was obeyed here; zero while there was none.
    pub pause_peer: Counter,
    /// Well-formed CNMs received; they are forwarded.
    pub cnms_received: Counter,
    /// Malformed ones, forwarded too, by reason ([`CnmError::ALL`]).
    pub malformed_cnms: [Counter; CnmError::COUNT],
    /// Addresses learned here now.
    pub fdb_entries: Counter,
    /// Addresses that moved here from another port.
    pub station_moves: Counter,
    /// Frames whose source was not learned for the port's limit or the table's capacity.
    pub learn_refused: Counter,
    /// Loops found: the port was the higher of two with stations moving to and fro.
    pub loops: Counter,
    /// The number of the other port of the last one, and one; zero while there was none.
    pub loop_with: Counter,
    /// 1 for a while after one was found; where the port is to be blocked it takes no part in floods meanwhile.
    pub looped: Counter,
}

/// What became of frames that are not transit: where they came in.
#[derive(Debug, Default, PartialEq)]
pub struct PuntCounters {
    /// Copied out of the switch.
    pub punted: Counter,
    /// Refused: more came than may ([`crate::settings::PuntLimit`]).
    pub over_rate: Counter,
    /// Refused: who takes them had no room.
    pub no_room: Counter,
}

/// Counters of one class on one port. Those that each frame writes come first: in one cache line what comes in, in those
/// that follow what goes out.
#[derive(Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct ClassCounters {
    /// Frames received, those dropped later included.
    pub rx_frames: Counter,
    /// Their bytes, FCS included.
    pub rx_bytes: Counter,
    /// Bytes that came in here and still count, now.
    pub ingress_bytes: Counter,
    /// Most of them at a time.
    pub ingress_watermark: Counter,
    /// Bytes of them in the headroom, now.
    pub headroom_bytes: Counter,
    /// Most of these at a time.
    pub headroom_watermark: Counter,
    /// Most that came of the class after its peer was to be held, in one pause.
    pub after_xoff_max: Counter,
    /// The longest after it was told to stop that something of the class was found to have come, in nanoseconds, with the time in
    /// which nobody looked.
    pub response_max: Counter,
    /// Bytes that wait or are committed here, now.
    pub egress_bytes: Counter,
    /// Most of them at a time.
    pub egress_watermark: Counter,
    /// Frames that left.
    pub tx_frames: Counter,
    /// Their bytes, FCS included.
    pub tx_bytes: Counter,
    /// From receive to transmit.
    pub queueing_delay: Histogram,
    /// Frames dropped, by reason ([`DropReason::ALL`]): at the port where they came in, or, once they were
    /// routed, where they were to go out.
    pub drops: [Counter; DropReason::COUNT],
    /// Frames that came in here and were flooded because no port was known for their destination.
    pub flooded_unknown: Counter,
    /// When the first frame that had come in here was lost for want of room (driver's clock, ns); zero
    /// while none was.
    pub first_loss: Counter,
    /// Frames that came while their class was held, in time, and were more than a peer sends that is as fast as declared.
    pub excess_frames: Counter,
    /// Frames that came while their class was held, later than a peer sends that stops as declared.
    pub late_frames: Counter,
    /// Most headroom used, lately.
    pub headroom_recent: RecentMax,
    /// Times that the peer was told to stop.
    pub xoff_sent: Counter,
    /// Times that it began to be held, by why.
    pub xoff_causes: Causes,
    /// What the policy of the class wanted, as frames came, waited or left here, and cannot be done.
    pub intents_refused: Counter,
    /// Times that it was told to resume.
    pub xon_sent: Counter,
    /// Times that a held XOFF was repeated to keep it alive.
    pub refreshes_sent: Counter,
    /// Pause times above zero received and obeyed.
    pub xoff_received: Counter,
    /// Pause times of zero received and obeyed.
    pub xon_received: Counter,
    /// Rates that the peer is asked to keep (GFC).
    pub rate_asked: RateAsked,
    /// The rate that this port keeps for its peer now, bits per second; zero: no limit.
    pub rate_obeyed: Counter,
    /// How long the peer was held, in nanoseconds: finished pauses only.
    pub held_nanos: Counter,
    /// Since when it is held now (driver's clock, ns); zero when it is not.
    pub held_since: Counter,
    /// Why it is held, or was held last: a [`crate::cause::Cause`], packed; zero before the first time.
    pub held_cause: Counter,
    /// How long the peer held this port, in nanoseconds: finished pauses only.
    pub paused_nanos: Counter,
    /// Since when it holds it now; zero when it does not.
    pub paused_since: Counter,
    /// Samples taken by the congestion point.
    pub qcn_samples: Counter,
    /// Quantized feedback, 0..=63, of the last one.
    pub qcn_feedback: Counter,
    /// CNMs of the congestion point: given to the port that the culprit is behind.
    pub cnms_sent: Counter,
    /// Quantized feedback of all of them together.
    pub cnm_feedback_sum: Counter,
    /// CNMs that could not be sent: the port had no link or no free control frame, or the culprit was a
    /// CNM itself.
    pub cnms_not_sent: Counter,
    /// Pauses of single flows (OFC).
    pub flows: FlowCounters,
    /// Frames marked as having met congestion (ECN).
    pub ecn_marked_frames: Counter,
    /// Their bytes, FCS included.
    pub ecn_marked_bytes: Counter,
    /// Storms that the watchdog has seen.
    pub storms: Counter,
    /// Since when there is one now (driver's clock, ns); zero when there is none.
    pub storm_since: Counter,
    /// How long they took, in nanoseconds: finished storms only.
    pub storm_nanos: Counter,
    /// Frames sent during storms; brought up to date with every pause frame and at the end.
    pub storm_forwarded: Counter,
    /// The latest storm, what it did so far or in the end.
    pub last_storm: StormCounters,
    /// Times that the pipeline was halted because this queue had no room ([`crate::settings::WhenFull::Stop`]).
    pub halts: Counter,
    /// Since when it is halted for that now (driver's clock, ns); zero when it is not.
    pub halted_since: Counter,
    /// How long it was, in nanoseconds: finished halts only.
    pub halted_nanos: Counter,
    /// Lengths of the pauses that the peer was held to.
    pub held_durations: Histogram,
    /// Lengths of the pauses that were obeyed.
    pub paused_durations: Histogram,
}

/// Counters of what is said of single flows, of one class on one port.
#[derive(Debug, Default, PartialEq)]
pub struct FlowCounters {
    /// Frames that asked the peer to pause flows, refreshes included.
    pub pause_frames_sent: Counter,
    /// Frames that asked it to resume flows.
    pub resume_frames_sent: Counter,
    /// Frames by which the peer has paused flows.
    pub pause_frames_received: Counter,
    /// Frames by which it has resumed flows.
    pub resume_frames_received: Counter,
    /// What the peer is asked, whether it has been told yet or not.
    pub asked: FlowsAsked,
    /// Flows that the peer has paused, now.
    pub paused: Counter,
    /// Times that the class was paused as a whole because a table was full, or frames waited whose flow was not known.
    pub fallbacks: Counter,
}

/// One storm.
#[derive(Debug, Default, PartialEq)]
pub struct StormCounters {
    /// When it was detected (driver's clock, ns).
    pub began: Counter,
    /// How long it took, in nanoseconds; zero while it lasts.
    pub nanos: Counter,
    /// [`DropReason::PausedDiscard`] when it was detected.
    pub dropped_before: Counter,
    /// [`ClassCounters::storm_forwarded`] when it was detected.
    pub forwarded_before: Counter,
    /// [`ClassCounters::tx_frames`] when it was detected.
    pub sent_before: Counter,
}

const _: () = assert!(offset_of!(ClassCounters, egress_bytes) == 64, "a cache line");
const _: () =
    assert!((offset_of!(ClassCounters, queueing_delay) + Histogram::USUAL) % 64 == 0, "and another");

impl ClassCounters {
    /// Frames that had a way on and were dropped ([`DropKind::Lost`]).
    #[must_use]
    pub fn lost(&self) -> u64 {
        let reasons = DropReason::ALL.into_iter().filter(|reason| reason.kind() == DropKind::Lost);
        reasons.map(|reason| self.drops[reason.index()].get()).sum()
    }

    /// The watchdog has detected a storm.
    pub fn begin_storm(&self, now: Nanos) {
        let storm = &self.last_storm;
        storm.began.set(now.0);
        storm.nanos.set(0);
        storm.dropped_before.set(self.drops[DropReason::PausedDiscard.index()].get());
        storm.forwarded_before.set(self.storm_forwarded.get());
        storm.sent_before.set(self.tx_frames.get());
        self.storm_since.set(now.0.max(1));
        self.storms.add(1);
    }

    /// The storm goes on; what was sent meanwhile is counted.
    pub fn note_storm(&self) {
        let storm = &self.last_storm;
        let sent = self.tx_frames.get() - storm.sent_before.get();
        self.storm_forwarded.set(storm.forwarded_before.get() + sent);
    }

    /// The storm is over.
    pub fn end_storm(&self, now: Nanos) {
        self.note_storm();
        let lasted = now.since(Nanos(self.last_storm.began.get())).0;
        self.last_storm.nanos.set(lasted);
        self.storm_since.set(0);
        self.storm_nanos.add(lasted);
    }

    /// The pipeline halts: this queue has no room.
    pub fn begin_halt(&self, now: Nanos) {
        self.halted_since.set(now.0.max(1));
        self.halts.add(1);
    }

    /// The halt is over, after so long.
    pub fn end_halt(&self, lasted: Nanos) {
        self.halted_since.set(0);
        self.halted_nanos.add(lasted.0);
    }

    /// The peer, which was held for so long, is let go.
    pub fn end_hold(&self, held_for: Nanos) {
        self.held_since.set(0);
        self.held_nanos.add(held_for.0);
        self.held_durations.record(held_for.0);
    }

    /// Nothing is here any more, and whatever goes on has ended.
    fn begin_anew(&self, now: Nanos) {
        let since = |begin: &Counter| Some(Nanos(begin.get())).filter(|begin| *begin > Nanos::ZERO);
        if let Some(begin) = since(&self.held_since) {
            self.end_hold(now.since(begin));
        }
        if let Some(begin) = since(&self.paused_since) {
            self.paused_nanos.add(now.since(begin).0);
            self.paused_durations.record(now.since(begin).0);
        }
        if self.storm_since.get() > 0 {
            self.end_storm(now);
        }
        if let Some(begin) = since(&self.halted_since) {
            self.end_halt(now.since(begin));
        }
        let now_there = [
            &self.ingress_bytes,
            &self.headroom_bytes,
            &self.egress_bytes,
            &self.paused_since,
            &self.rate_obeyed,
            &self.rate_asked.now,
            &self.flows.paused,
            &self.flows.asked.now,
        ];
        now_there.iter().for_each(|counter| counter.set(0));
    }
}

impl Counters {
    /// All zero, without shadow policies.
    #[must_use]
    pub fn new(ports: usize) -> Arc<Counters> {
        Counters::with_shadows(ports, 0)
    }

    /// All zero.
    #[must_use]
    pub fn with_shadows(ports: usize, shadows: usize) -> Arc<Counters> {
        let of_shadow = |_| (0..ports).map(|_| Default::default()).collect();
        Arc::new(Counters {
            ports: (0..ports).map(|_| PortCounters::default()).collect(),
            shadows: (0..shadows).map(of_shadow).collect(),
            occupancy: Arc::new(Occupancy::new(ports)),
        })
    }

    /// Another switch begins in the place of the one that has counted here, and goes on counting.
    pub fn begin_anew(&self, now: Nanos) {
        for port in &self.ports {
            port.classes.iter().for_each(|class| class.begin_anew(now));
            [&port.fdb_entries, &port.looped].into_iter().for_each(|counter| counter.set(0));
        }
        self.occupancy.clear();
        for shadow in self.shadows.iter().flat_map(|ports| ports.iter().flatten()) {
            if shadow.held_since.get() > 0 {
                shadow.held_nanos.add(now.since(Nanos(shadow.held_since.get())).0);
            }
            let now_there = [&shadow.held_since, &shadow.flows.now, &shadow.rate.now];
            now_there.iter().for_each(|counter| counter.set(0));
        }
    }

    /// Of one port.
    #[inline]
    #[must_use]
    pub fn port(&self, port: PortId) -> &PortCounters {
        &self.ports[port.index()]
    }

    /// Of one class on one port.
    #[inline]
    #[must_use]
    pub fn class(&self, port: PortId, class: Class) -> &ClassCounters {
        &self.ports[port.index()].classes[class.index()]
    }

    /// Bytes of `class` that came in through `ingress` and wait or are committed at `egress`, now.
    #[inline]
    #[must_use]
    pub fn between(&self, ingress: PortId, egress: PortId, class: Class) -> &Counter {
        self.occupancy.between(ingress, egress, class)
    }

    /// What the workers of the switch decide by.
    pub const fn occupancy(&self) -> &Arc<Occupancy> {
        &self.occupancy
    }

    /// Prefetches what each frame of the class changes at an egress as it leaves.
    #[inline]
    pub fn prefetch_egress(&self, port: PortId, class: Class) {
        let of_class = self.class(port, class);
        prefetch(&of_class.egress_bytes);
        of_class.queueing_delay.prefetch_usual();
        self.occupancy.prefetch(port, class);
    }

    /// What shadow policy number `shadow` would have done, by port and class.
    #[must_use]
    pub fn shadow(&self, shadow: usize) -> &[[ShadowCounters; CLASSES]] {
        &self.shadows[shadow]
    }

    /// How many ports there are.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Frames dropped for `reason`, all ports and classes.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        let classes = self.ports.iter().flat_map(|port| &port.classes);
        classes.map(|class| class.drops[reason.index()].get()).sum()
    }
}

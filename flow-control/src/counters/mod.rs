//! Counters and gauges per port and class. Only a port's own worker writes them.

mod culprits;
mod requests;

pub use culprits::CulpritQueue;
pub use requests::{FlowRequests, RateRequests, ShadowCounters};

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

/// Counters of a switch.
#[derive(Debug, PartialEq)]
pub struct Counters {
    ports: Box<[PortCounters]>,
    occupancy: Arc<Occupancy>,
    shadows: Box<[Box<[[ShadowCounters; CLASSES]]>]>,
}

#[derive(Debug, Default, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct PortCounters {
    pub classes: [ClassCounters; CLASSES],
    pub pause_frames_sent: Counter,
    /// Sent PFC frames that carry rates (GFC); not in [`PortCounters::pause_frames_sent`].
    pub rate_frames_sent: Counter,
    /// Obeyed PFC frames that carry rates (GFC); also in [`PortCounters::pfc_frames_received`].
    pub rate_frames_received: Counter,
    pub pfc_frames_received: Counter,
    pub pause_frames_received: Counter,
    /// Well-formed pause frames whose classes the port does not obey.
    pub pause_frames_ignored: Counter,
    /// Classes that the last ignored PFC frame named, as bits; zero if an 802.3x PAUSE was ignored last.
    pub pfc_classes_ignored: Counter,
    pub malformed_control: [Counter; MacControlError::COUNT],
    /// Frames whose DSCP gives a lossy class, although their PCP maps to a lossless one. Not every frame of a
    /// micro-flow (identical headers) is counted.
    pub pcp_overruled: Counter,
    /// Frames to reserved addresses (such as LLDP, but not MAC control) that the switch itself consumed.
    pub reserved_frames: Counter,
    pub punts: [PuntCounters; PuntReason::COUNT],
    /// Number of times that a control frame, such as a pause, had to wait because its frame pool was empty.
    pub control_starved: Counter,
    /// Source address of the last pause frame obeyed; zero if none.
    pub pause_peer: Counter,
    pub cnms_received: Counter,
    pub malformed_cnms: [Counter; CnmError::COUNT],
    pub checksums_examined: Counter,
    /// Examined frames with an unfinished (partial) TCP or UDP checksum. The first two in close succession do not
    /// count, because they may be chance.
    pub checksums_unfinished: Counter,
    pub fdb_entries: Counter,
    pub station_moves: Counter,
    /// Frames whose source was not learned, because the port's limit was reached or the table was full.
    pub learn_refused: Counter,
    pub loops: Counter,
    /// Index of the other port of the last loop, plus one; zero without a loop.
    pub loop_with: Counter,
    /// MAC addresses (at most two, as numbers; zero for none) that moved between the ports of the last loop.
    pub loop_macs: [Counter; 2],
    /// Number of seconds in which addresses that seem to belong to two hosts moved between this port and a
    /// lower-numbered one.
    pub duplicates: Counter,
    /// Index of the lower-numbered port when `duplicates` last rose, plus one; zero before.
    pub duplicate_with: Counter,
    /// Addresses that moved when `duplicates` last rose, at most two, as numbers; zero for none.
    pub duplicate_macs: [Counter; 2],
    /// 1 for some time after a loop. With [`LoopDetection::Block`](crate::settings::LoopDetection::Block), the port is
    /// then kept out of floods.
    pub looped: Counter,
}

/// Counters of one port's slow-path frames (frames for the host), by outcome.
#[derive(Debug, Default, PartialEq)]
pub struct PuntCounters {
    /// Frames copied to the host.
    pub punted: Counter,
    /// Frames not copied to the host, because they exceeded the rate of [`crate::settings::PuntLimit`].
    pub over_rate: Counter,
    /// Frames not copied to the host, because the queue to the host was full.
    pub no_room: Counter,
}

#[derive(Debug, Default, PartialEq)]
#[repr(C, align(64))]
#[allow(missing_docs)] // the names say it
pub struct ClassCounters {
    pub rx_frames: Counter,
    /// Received bytes, FCS included.
    pub rx_bytes: Counter,
    pub ingress_bytes: Counter,
    pub ingress_watermark: Counter,
    pub headroom_bytes: Counter,
    pub headroom_watermark: Counter,
    /// Maximum bytes received from the decision to pause the peer until the end of that pause.
    pub after_xoff_max: Counter,
    /// Longest time (ns) from a sent XOFF to the receipt of a frame of the paused class; includes stalls of this
    /// switch.
    pub response_max: Counter,
    pub egress_bytes: Counter,
    pub egress_watermark: Counter,
    pub tx_frames: Counter,
    /// Transmitted bytes, FCS included.
    pub tx_bytes: Counter,
    /// Delays of frames from receipt to transmission (ns).
    pub queueing_delay: Histogram,
    /// Dropped frames by reason ([`DropReason::ALL`]), counted at the egress port if its queue dropped them, else at
    /// the ingress port.
    pub drops: [Counter; DropReason::COUNT],
    pub flooded_unknown: Counter,
    /// Time (ns, switch's clock) at which a full queue or memory first dropped a frame received here, or zero.
    pub first_loss: Counter,
    /// Frames received within the time limit after an XOFF, but beyond the bytes that an obedient peer may still send.
    pub excess_frames: Counter,
    /// Frames received after an XOFF, later than an obedient peer would send.
    pub late_frames: Counter,
    /// Maximum headroom use in bytes during the last five to six minutes.
    pub headroom_recent: RecentMax,
    pub xoff_sent: Counter,
    pub xoff_causes: Causes,
    /// Actions that a policy requested on events of this port, but that the switch cannot execute.
    pub intents_refused: Counter,
    pub xon_sent: Counter,
    pub refreshes_sent: Counter,
    pub xoff_received: Counter,
    pub xon_received: Counter,
    pub rate_requests: RateRequests,
    /// Rate limit requested by the peer (bit/s); zero means none.
    pub rate_obeyed: Counter,
    /// Total duration (ns) of finished pauses of the peer by this switch.
    pub held_nanos: Counter,
    /// Start (ns, switch's clock) of the current pause of the peer by this switch, or zero.
    pub held_since: Counter,
    /// Cause of the last pause of the peer by this switch, as a packed [`crate::cause::Cause`], or zero.
    pub held_cause: Counter,
    /// Total duration (ns) of finished pauses of this switch by the peer.
    pub paused_nanos: Counter,
    /// Start (ns, switch's clock) of the current pause of this switch by the peer, or zero.
    pub paused_since: Counter,
    pub qcn_samples: Counter,
    /// Quantized feedback of the last QCN sample (0..=63).
    pub qcn_feedback: Counter,
    pub cnms_sent: Counter,
    pub cnm_feedback_sum: Counter,
    /// CNMs not sent: the link was down, no control frame was free, or the blamed frame was a CNM or routed.
    pub cnms_not_sent: Counter,
    pub flows: FlowCounters,
    pub ecn_marked_frames: Counter,
    /// Bytes of frames marked by ECN, FCS included.
    pub ecn_marked_bytes: Counter,
    pub storms: Counter,
    /// Start (ns, switch's clock) of the class's current pause storm, or zero.
    pub storm_since: Counter,
    pub storm_nanos: Counter,
    /// Frames sent during pause storms; updated at each pause frame.
    pub storm_forwarded: Counter,
    pub last_storm: StormCounters,
    /// Number of pipeline halts because this egress queue was full ([`crate::settings::WhenFull::Stop`]).
    pub halts: Counter,
    /// Start (ns, switch's clock) of the current pipeline halt, or zero.
    pub halted_since: Counter,
    pub halted_nanos: Counter,
    pub held_durations: Histogram,
    pub paused_durations: Histogram,
}

/// Counters of pauses of single flows.
#[derive(Debug, Default, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct FlowCounters {
    pub pause_frames_sent: Counter,
    pub resume_frames_sent: Counter,
    pub pause_frames_received: Counter,
    pub resume_frames_received: Counter,
    pub requests: FlowRequests,
    pub paused: Counter,
    /// Pauses of the whole class instead of single flows, because a flow table was full or a queued frame's flow
    /// unknown.
    pub fallbacks: Counter,
}

/// Pause storm, with values of other counters at its detection.
#[derive(Debug, Default, PartialEq)]
pub struct StormCounters {
    /// Time (ns, switch's clock) at which the storm was detected.
    pub began: Counter,
    /// Duration of the storm (ns); zero while it lasts.
    pub nanos: Counter,
    /// Drops for [`DropReason::PausedDiscard`] until the storm's detection.
    pub dropped_before: Counter,
    /// Value of [`ClassCounters::storm_forwarded`] at the storm's detection.
    pub forwarded_before: Counter,
    /// Value of [`ClassCounters::tx_frames`] at the storm's detection.
    pub sent_before: Counter,
}

const _: () = assert!(
    offset_of!(ClassCounters, egress_bytes) == 64,
    "egress counters must begin at the second cache line"
);
const _: () = assert!(
    (offset_of!(ClassCounters, queueing_delay) + Histogram::USUAL) % 64 == 0,
    "the counts of usual queueing delays must begin at a cache line"
);

impl ClassCounters {
    /// Returns the number of lost frames: dropped, although they could have been forwarded ([`DropKind::Lost`]).
    #[must_use]
    pub fn lost(&self) -> u64 {
        let reasons = DropReason::ALL.into_iter().filter(|reason| reason.kind() == DropKind::Lost);
        reasons.map(|reason| self.drops[reason.index()].get()).sum()
    }

    /// Records the start of a pause storm in this class.
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

    /// Updates the number of frames sent during the pause storm.
    pub fn note_storm(&self) {
        let storm = &self.last_storm;
        let sent = self.tx_frames.get() - storm.sent_before.get();
        self.storm_forwarded.set(storm.forwarded_before.get() + sent);
    }

    /// Records the end of a pause storm.
    pub fn end_storm(&self, now: Nanos) {
        self.note_storm();
        let lasted = now.since(Nanos(self.last_storm.began.get())).0;
        self.last_storm.nanos.set(lasted);
        self.storm_since.set(0);
        self.storm_nanos.add(lasted);
    }

    /// Records the start of a pipeline halt by this queue.
    pub fn begin_halt(&self, now: Nanos) {
        self.halted_since.set(now.0.max(1));
        self.halts.add(1);
    }

    /// Records the end of a pipeline halt.
    pub fn end_halt(&self, lasted: Nanos) {
        self.halted_since.set(0);
        self.halted_nanos.add(lasted.0);
    }

    /// Records the end of a pause of the peer by this switch.
    pub fn end_hold(&self, held_for: Nanos) {
        self.held_since.set(0);
        self.held_nanos.add(held_for.0);
        self.held_durations.record(held_for.0);
    }

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
            &self.rate_requests.now,
            &self.flows.paused,
            &self.flows.requests.now,
        ];
        now_there.iter().for_each(|counter| counter.set(0));
    }
}

impl Counters {
    /// Creates counters without shadow policies.
    #[must_use]
    pub fn new(ports: usize) -> Arc<Counters> {
        Counters::with_shadows(ports, 0)
    }

    /// Creates counters with `shadows` shadow policies.
    #[must_use]
    pub fn with_shadows(ports: usize, shadows: usize) -> Arc<Counters> {
        let of_shadow = |_| (0..ports).map(|_| Default::default()).collect();
        Arc::new(Counters {
            ports: (0..ports).map(|_| PortCounters::default()).collect(),
            shadows: (0..shadows).map(of_shadow).collect(),
            occupancy: Arc::new(Occupancy::new(ports)),
        })
    }

    /// Prepares the counters for reuse by a restarted switch: ends pauses, storms and halts, and zeroes gauges.
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

    /// Returns one port's counters.
    #[inline]
    #[must_use]
    pub fn port(&self, port: PortId) -> &PortCounters {
        &self.ports[port.index()]
    }

    /// Returns the counters of a class on a port.
    #[inline]
    #[must_use]
    pub fn class(&self, port: PortId, class: Class) -> &ClassCounters {
        &self.ports[port.index()].classes[class.index()]
    }

    /// Returns the bytes of `class` from port `ingress` at port `egress`, queued or in the driver.
    #[inline]
    #[must_use]
    pub fn between(&self, ingress: PortId, egress: PortId, class: Class) -> &Counter {
        self.occupancy.between(ingress, egress, class)
    }

    /// Returns the occupancies that workers compare with thresholds.
    pub const fn occupancy(&self) -> &Arc<Occupancy> {
        &self.occupancy
    }

    /// Prefetches the counters that change when a frame leaves `port`.
    #[inline]
    pub fn prefetch_egress(&self, port: PortId, class: Class) {
        let of_class = self.class(port, class);
        prefetch(&of_class.egress_bytes);
        of_class.queueing_delay.prefetch_usual();
        self.occupancy.prefetch(port, class);
    }

    /// Returns a shadow policy's counters, by port and class.
    #[must_use]
    pub fn shadow(&self, shadow: usize) -> &[[ShadowCounters; CLASSES]] {
        &self.shadows[shadow]
    }

    /// Returns the number of ports.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Returns how many frames all ports dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        let classes = self.ports.iter().flat_map(|port| &port.classes);
        classes.map(|class| class.drops[reason.index()].get()).sum()
    }
}

//! Flow-control policies: who is asked to pause, and when.
//!
//! A policy sees events (a frame came in, was enqueued, was dequeued, is gone) and the buffer's
//! occupancies, and answers with intents. It never sees bytes of a frame: `wire` encodes what it wants,
//! [`crate::pause`] keeps it alive. The set is closed and matched exhaustively, so the hot path stays
//! inlined.
//!
//! Each class has a policy of its own ([`Policy`]), which sees the events of that class only. It may
//! be replaced at any time: the new one begins with the buffer as it is ([`Policy::adopt`]).
//!
//! ```text
//!   receive   enter_ingress   Received   I(i,p) may become 1
//!   forward   enter_egress    Enqueued   the egress queue may be congested now
//!   release   leave_egress    Dequeued   or no longer
//!             leave_ingress   Released   I(i,p) may become 0
//! ```

#[cfg(test)]
mod bench;
mod blame;
mod capfc;
mod g_pfc;
mod gfc;
#[cfg(test)]
mod margins;
mod ofc;
mod p_pfc;
mod pfc;
mod shadow;
mod share;
mod thresholds;

pub use capfc::{CaPfc, Culprits};
pub use g_pfc::GPfc;
pub use gfc::Gfc;
pub use ofc::{Ofc, TableBytes, Told, memory as flow_memory};
pub use p_pfc::PPfc;
pub use pfc::Pfc;
pub(crate) use shadow::Shadow;

use crate::buffer::{Buffer, Margin};
use crate::cause::Trigger;
use crate::settings::{PolicyKind, SwitchSettings};
use crate::units::{Class, Nanos, PortId, PortSet, RateStep};

/// Something that happened to a frame of the policy's class, after the buffer has counted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was counted in at this ingress port.
    Received {
        /// Where it came in.
        ingress: PortId,
    },
    /// It was counted in at this egress port.
    Enqueued {
        /// Where it came in.
        ingress: PortId,
        /// Where it waits.
        egress: PortId,
        /// What it counts for.
        size: crate::units::Bytes,
    },
    /// It no longer counts at this egress port.
    Dequeued {
        /// Where it waited.
        egress: PortId,
    },
    /// It no longer counts at this ingress port.
    Released {
        /// Where it had come in.
        ingress: PortId,
    },
}

/// What a policy wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The peer of this port is to stop this class.
    Xoff {
        /// The port whose peer is asked.
        port: PortId,
        /// The class: the policy's own, or a lower one.
        class: Class,
        /// Why.
        trigger: Trigger,
    },
    /// The peer of this port is to pause more single flows of the policy's class.
    PauseFlows {
        /// The port whose peer is asked.
        port: PortId,
        /// How many more; the policy knows which.
        count: u32,
    },
    /// It is to resume all of them.
    ResumeFlows {
        /// The port whose peer is told.
        port: PortId,
    },
    /// The peer of this port is to send the policy's class no faster than this.
    Rate {
        /// The port whose peer is asked.
        port: PortId,
        /// The class.
        class: Class,
        /// The step of the peer's line rate; full ends the limit.
        step: RateStep,
    },
    /// As far as this policy goes it may resume.
    Xon {
        /// The port whose peer is told.
        port: PortId,
        /// The class.
        class: Class,
    },
}

/// The policy of one class.
#[derive(Debug)]
pub enum Policy {
    /// 802.1Qbb with thresholds on ingress occupancy.
    Pfc(Pfc),
    /// PFC that also pauses the culprits of a congested egress queue.
    CaPfc(CaPfc),
    /// PFC of single flows at the root of congestion.
    Ofc(Ofc),
    /// PFC that also pauses who feeds an egress queue above the average.
    PPfc(PPfc),
    /// PFC that pauses lower classes first.
    GPfc(GPfc),
    /// PFC that asks for lower rates first.
    Gfc(Gfc),
}

impl Policy {
    /// A policy of `kind` for `class` in a switch of these settings.
    #[must_use]
    pub fn new(kind: PolicyKind, class: Class, settings: &SwitchSettings) -> Policy {
        let pfc = Pfc::new(class, senders(class, settings));
        let capfc = |culprits| Policy::CaPfc(CaPfc::new(pfc.clone(), culprits, settings));
        match kind {
            PolicyKind::Pfc => Policy::Pfc(pfc),
            PolicyKind::CaPfcStopMax => capfc(Culprits::Heaviest),
            PolicyKind::CaPfcStopCalibrate => capfc(Culprits::Share(settings.policy.capfc_cut)),
            PolicyKind::Ofc => Policy::Ofc(Ofc::new(pfc, settings)),
            PolicyKind::PPfc => Policy::PPfc(PPfc::new(pfc, settings)),
            PolicyKind::GPfc => Policy::GPfc(GPfc::new(pfc, settings)),
            PolicyKind::Gfc => Policy::Gfc(Gfc::new(pfc, settings)),
        }
    }

    /// OFC's tables, where it is OFC.
    #[must_use]
    pub(crate) const fn as_ofc(&self) -> Option<&Ofc> {
        match self {
            Policy::Ofc(ofc) => Some(ofc),
            Policy::Pfc(_) | Policy::CaPfc(_) | Policy::PPfc(_) | Policy::GPfc(_) | Policy::Gfc(_) => None,
        }
    }

    /// Takes note of an event; what follows from it is appended to `intents`.
    #[inline(always)] // where it is called the kind of event is a constant
    pub fn observe(&mut self, now: Nanos, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        match self {
            Policy::Pfc(pfc) => pfc.observe(event, buffer, intents),
            Policy::CaPfc(capfc) => capfc.observe(event, buffer, intents),
            Policy::Ofc(ofc) => ofc.observe(event, buffer, intents),
            Policy::PPfc(p_pfc) => p_pfc.observe(now, event, buffer, intents),
            Policy::GPfc(g_pfc) => g_pfc.observe(event, buffer, intents),
            Policy::Gfc(gfc) => gfc.observe(event, buffer, intents),
        }
    }

    /// How much may come, frame by frame with an `event` like this for each (its size does not matter), that the policy
    /// need not be shown: it would want nothing, and be as it was. None where each frame is to be shown to it. Of
    /// frames that come in, only as far as they stay below XOFF.
    #[must_use]
    pub fn margin(&self, event: Event, buffer: &Buffer) -> Margin {
        match self {
            Policy::Pfc(pfc) => pfc.margin(event),
            Policy::CaPfc(capfc) => capfc.margin(event, buffer),
            Policy::Ofc(_) | Policy::PPfc(_) | Policy::GPfc(_) | Policy::Gfc(_) => Margin::NONE,
        }
    }

    /// Begins in a switch that holds frames already: what it wants paused at once.
    pub fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        match self {
            Policy::Pfc(pfc) => pfc.adopt(buffer, intents),
            Policy::CaPfc(capfc) => capfc.adopt(buffer, intents),
            Policy::Ofc(ofc) => ofc.adopt(buffer, intents),
            Policy::PPfc(p_pfc) => p_pfc.adopt(buffer, intents),
            Policy::GPfc(g_pfc) => g_pfc.adopt(buffer, intents),
            Policy::Gfc(gfc) => gfc.adopt(buffer, intents),
        }
    }
}

/// The ports that may send XOFF for `class` at all.
fn senders(class: Class, settings: &SwitchSettings) -> PortSet {
    let ids = (0..=u8::MAX).map(PortId);
    ids.zip(&settings.ports).filter(|(_, port)| port.sends().contains(class)).map(|(id, _)| id).collect()
}

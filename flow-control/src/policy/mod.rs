//! Flow-control policies: who is asked to pause, and when.
//!
//! A policy sees events (a frame came in, was enqueued, was dequeued, is gone) and the buffer's
//! occupancies, and answers with intents ([`crate::decision`]). It never sees bytes of a frame: `wire` encodes what it
//! wants, [`crate::pause`] keeps it alive. The built-in ones are matched exhaustively, so that the hot path stays
//! inlined; a policy that a program brings along ([`CustomPolicy`]) is one more that is called.
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
mod custom;
mod g_pfc;
mod gfc;
#[cfg(test)]
mod margins;
mod ofc;
mod p_pfc;
mod pfc;
mod reach;
mod shadow;
mod share;
mod thresholds;

pub use capfc::{CaPfc, Culprits};
pub use custom::CustomPanic;
pub use g_pfc::GPfc;
pub use gfc::Gfc;
pub use ofc::{BYTES_PER_NESTED_FLOW, Ofc, TableBytes, Told, memory as flow_memory};
pub use p_pfc::PPfc;
pub use pfc::Pfc;
pub use reach::Reach;
pub use shadow::Shadow;

use xoff_wire::units::{Class, Nanos};

use crate::buffer::Buffer;
pub use crate::buffer::Margin;
pub use crate::decision::{CustomPolicy, Event, Intent, Occupancies};
use crate::settings::{PolicyKind, SwitchSettings};

/// The number of a frame's flow where no policy counts flows, or the table of flows is full.
pub const NO_FLOW: u32 = u32::MAX;

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
    /// One that is not built in.
    Custom(Box<dyn CustomPolicy>),
}

impl Policy {
    /// A policy of `kind` for `class` in a switch of these settings.
    ///
    /// # Panics
    /// Where it is to be custom and the settings have none.
    #[must_use]
    pub fn new(kind: PolicyKind, class: Class, settings: &SwitchSettings) -> Policy {
        let pfc = Pfc::new(class, settings.senders(class));
        let capfc = |culprits| Policy::CaPfc(CaPfc::new(pfc.clone(), culprits, settings));
        match kind {
            PolicyKind::Pfc => Policy::Pfc(pfc),
            PolicyKind::CaPfcStopMax => capfc(Culprits::Heaviest),
            PolicyKind::CaPfcStopCalibrate => capfc(Culprits::Share(settings.policy.capfc_cut)),
            PolicyKind::Ofc => Policy::Ofc(Ofc::new(pfc, settings)),
            PolicyKind::PPfc => Policy::PPfc(PPfc::new(pfc, settings)),
            PolicyKind::GPfc => Policy::GPfc(GPfc::new(pfc, settings)),
            PolicyKind::Gfc => Policy::Gfc(Gfc::new(pfc, settings)),
            PolicyKind::Custom => {
                let custom = settings.policy.custom.as_ref().expect("it is chosen only where there is one");
                Policy::Custom(custom.policy(class, settings))
            }
        }
    }

    /// OFC's tables, where it is OFC.
    #[must_use]
    pub const fn as_ofc(&self) -> Option<&Ofc> {
        match self {
            Policy::Ofc(ofc) => Some(ofc),
            Policy::Pfc(_)
            | Policy::CaPfc(_)
            | Policy::PPfc(_)
            | Policy::GPfc(_)
            | Policy::Gfc(_)
            | Policy::Custom(_) => None,
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
            Policy::Custom(policy) => custom::observe(policy.as_mut(), now, &{ event }, buffer, intents),
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
            Policy::Custom(policy) => custom::margin(policy.as_ref(), event, buffer),
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
            Policy::Custom(policy) => custom::adopt(policy.as_mut(), buffer, intents),
        }
    }
}

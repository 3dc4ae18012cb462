//! Flow-control policies, which decide when the switch pauses which peers.
//!
//! A policy gets events and occupancies and returns intents ([`crate::decision`]). Each class has its own [`Policy`].

#[cfg(test)]
mod bench;
mod blame;
mod capabilities;
mod capfc;
mod custom;
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

pub use capabilities::Capabilities;
pub use capfc::{CaPfc, Culprits};
pub use custom::CustomPanic;
pub use g_pfc::GPfc;
pub use gfc::Gfc;
pub use ofc::{BYTES_PER_NESTED_FLOW, FlowPauseFrame, Ofc, TableBytes, memory as flow_memory};
pub use p_pfc::PPfc;
pub use pfc::Pfc;
pub use shadow::Shadow;

use xoff_wire::units::{Class, Nanos};

use crate::buffer::Buffer;
pub use crate::buffer::Margin;
pub use crate::decision::{CustomPolicy, Event, Intent, Occupancies};
use crate::settings::{PolicyKind, SwitchSettings};

/// Flow number of a frame whose flow has no entry in OFC's table.
pub const NO_FLOW: u32 = u32::MAX;

/// Policy of one class.
#[derive(Debug)]
#[allow(missing_docs)] // the names say it
pub enum Policy {
    Pfc(Pfc),
    CaPfc(CaPfc),
    Ofc(Ofc),
    PPfc(PPfc),
    GPfc(GPfc),
    Gfc(Gfc),
    Custom(Box<dyn CustomPolicy>),
}

impl Policy {
    /// Creates a policy of `kind` for `class`.
    ///
    /// # Panics
    /// If `kind` is custom and the settings have no custom policy.
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
                let custom = settings
                    .policy
                    .custom
                    .as_ref()
                    .expect("a custom policy is selected, but the settings have none");
                Policy::Custom(custom.policy(class, settings))
            }
        }
    }

    /// Returns OFC's tables if this policy is OFC.
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

    /// Handles an event and appends intents.
    #[inline(always)] // the kind of event is constant at each call
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

    /// Returns how many further frames and bytes with such an `event` need not be passed to `observe`: they change
    /// nothing. For received frames, this is valid only below XOFF.
    #[must_use]
    pub fn margin(&self, event: Event, buffer: &Buffer) -> Margin {
        match self {
            Policy::Pfc(pfc) => pfc.margin(event),
            Policy::CaPfc(capfc) => capfc.margin(event, buffer),
            Policy::Ofc(_) | Policy::PPfc(_) | Policy::GPfc(_) | Policy::Gfc(_) => Margin::NONE,
            Policy::Custom(policy) => custom::margin(policy.as_ref(), event, buffer),
        }
    }

    /// Starts the policy with the frames already in the buffer, and appends intents that are due.
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

//! Input and output of policies: events, occupancies and intents; never bytes of a frame.
//!
//! Built-in policies ([`crate::policy`]) read the buffer itself, so that the calls are inlined; a [`CustomPolicy`]
//! reads [`Occupancies`].

use std::fmt::Debug;

use xoff_wire::units::{Bytes, Class, Nanos, PortId, RateStep};

use crate::cause::Trigger;
use crate::load::Margin;

/// Event of a frame of the policy's class, counted by the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The frame was counted in at ingress, or was lossless and found no room there.
    Received {
        /// Ingress port.
        ingress: PortId,
    },
    /// The frame was counted in at egress.
    Enqueued {
        /// Ingress port.
        ingress: PortId,
        /// Egress port.
        egress: PortId,
        /// Bytes as buffers count them.
        size: Bytes,
    },
    /// The frame was counted out at egress.
    Dequeued {
        /// Egress port.
        egress: PortId,
    },
    /// The frame was counted out at ingress.
    Released {
        /// Ingress port.
        ingress: PortId,
    },
}

impl Event {
    /// Returns the port of the event, which the reporting worker owns.
    #[inline]
    pub const fn port(self) -> PortId {
        match self {
            Event::Received { ingress } | Event::Released { ingress } => ingress,
            Event::Enqueued { egress, .. } | Event::Dequeued { egress } => egress,
        }
    }
}

/// Action that a policy requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Pause `class` at the peer of `port`.
    Xoff {
        /// Port of the peer.
        port: PortId,
        /// The policy's own class, or a lower one.
        class: Class,
        /// Reason of the pause.
        trigger: Trigger,
    },
    /// Pause more flows of the class at the peer of `port`.
    PauseFlows {
        /// Port of the peer.
        port: PortId,
        /// Additional flows; the policy keeps which they are.
        count: u32,
    },
    /// Resume all flows of the class at the peer of `port`.
    ResumeFlows {
        /// Port of the peer.
        port: PortId,
    },
    /// Limit the rate of `class` at the peer of `port`.
    Rate {
        /// Port of the peer.
        port: PortId,
        /// Class of the limit.
        class: Class,
        /// Step of the peer's line rate; the full step ends the limit.
        step: RateStep,
    },
    /// Withdraw this policy's pause of `class` at the peer of `port`.
    Xon {
        /// Port of the peer.
        port: PortId,
        /// Class to resume.
        class: Class,
    },
}

/// Occupancies of the queues of all classes.
///
/// # Panics
/// Every method panics for a missing port.
pub trait Occupancies {
    /// Returns the bytes received on `port` that still count there.
    fn ingress(&self, port: PortId, class: Class) -> Bytes;
    /// Returns the bytes queued or committed at egress `port`.
    fn egress(&self, port: PortId, class: Class) -> Bytes;
    /// Returns the bytes received on `ingress` and queued or committed at `egress`.
    fn between(&self, ingress: PortId, egress: PortId, class: Class) -> Bytes;
    /// Returns the current XOFF threshold in bytes; in shared memory it depends on other queues.
    fn xoff(&self, port: PortId, class: Class) -> Bytes;
    /// Returns the current XON threshold in bytes.
    fn xon(&self, port: PortId, class: Class) -> Bytes;
    /// Returns whether the ingress queue is at or above XOFF, in bytes or frames.
    fn at_xoff(&self, port: PortId, class: Class) -> bool;
    /// Returns whether the ingress queue is below XON.
    fn below_xon(&self, port: PortId, class: Class) -> bool;
}

/// Custom flow-control policy of one class of one worker's ports.
///
/// Lossless classes stay lossless if the policy requests XOFF no later than [`Occupancies::at_xoff`] and withdraws
/// it no earlier than [`Occupancies::below_xon`]. No peer stays held if it withdraws XOFF when a port has no bytes
/// left.
///
/// The methods run for every frame: they must not allocate, block or read the clock.
pub trait CustomPolicy: Debug + Send {
    /// Handles an event and appends intents. Intents that cannot be executed are removed and counted:
    ///
    /// * XOFF and XON for a class above the policy's own, and rates for any other class;
    /// * any intent for a missing port, another worker's port, or a port that may not send XOFF for the class;
    /// * rates at a peer that is not known to obey rates;
    /// * pauses of single flows.
    fn observe(&mut self, now: Nanos, event: Event, buffer: &dyn Occupancies, intents: &mut Vec<Intent>);

    /// Takes over a switch that already holds frames and requests the initial pauses; no peer is held for this
    /// policy before.
    fn adopt(&mut self, buffer: &dyn Occupancies, intents: &mut Vec<Intent>);

    /// Returns how many frames with such an `event`, of any size, need not be shown: no intents, no change of
    /// state. The default shows every frame.
    ///
    /// When a frame leaves, [`Event::Dequeued`] and [`Event::Released`] are asked separately, and the smaller
    /// margin applies. Each must hold although the other occupancy shrinks, too.
    fn margin(&self, event: Event, buffer: &dyn Occupancies) -> Margin {
        let _ = (event, buffer);
        Margin::NONE
    }
}

//! Input and output of policies: events, occupancies and intents. Policies never see bytes of a frame.
//!
//! Built-in policies ([`crate::policy`]) and custom ones ([`CustomPolicy`]) decide by the same data. Built-in
//! policies read the buffer itself, so that the calls are inlined. Custom ones read [`Occupancies`], which a test can
//! implement, too.

use std::fmt::Debug;

use xoff_wire::units::{Bytes, Class, Nanos, PortId, RateStep};

use crate::cause::Trigger;
use crate::load::Margin;

/// Event of a frame of the policy's class, after the buffer has counted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The frame was counted in at this ingress port, or was lossless and found no room there.
    Received {
        /// Ingress port.
        ingress: PortId,
    },
    /// The frame was counted in at this egress port.
    Enqueued {
        /// Ingress port.
        ingress: PortId,
        /// Egress port.
        egress: PortId,
        /// Size of the frame, as buffers count it.
        size: Bytes,
    },
    /// The frame was counted out at this egress port.
    Dequeued {
        /// Egress port.
        egress: PortId,
    },
    /// The frame was counted out at this ingress port.
    Released {
        /// Ingress port.
        ingress: PortId,
    },
}

impl Event {
    /// Returns the port of the event; it belongs to the reporting worker.
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
        /// Class to pause: the policy's own, or a lower one.
        class: Class,
        /// Reason of the pause.
        trigger: Trigger,
    },
    /// Pause more flows of the policy's class at the peer of `port`.
    PauseFlows {
        /// Port of the peer.
        port: PortId,
        /// Number of additional flows; the policy keeps which they are.
        count: u32,
    },
    /// Resume all flows of the policy's class at the peer of `port`.
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
/// Every method panics for a port that the switch does not have.
pub trait Occupancies {
    /// Returns the bytes received on `port` that still count there.
    fn ingress(&self, port: PortId, class: Class) -> Bytes;
    /// Returns the bytes queued or committed at egress `port`.
    fn egress(&self, port: PortId, class: Class) -> Bytes;
    /// Returns the bytes received on `ingress` and queued or committed at `egress`.
    fn between(&self, ingress: PortId, egress: PortId, class: Class) -> Bytes;
    /// Returns the current XOFF threshold in bytes. In shared memory it depends on the occupancy of other queues.
    fn xoff(&self, port: PortId, class: Class) -> Bytes;
    /// Returns the current XON threshold in bytes: the queue resumes below it.
    fn xon(&self, port: PortId, class: Class) -> Bytes;
    /// Returns whether the ingress queue is at or above XOFF, in bytes or frames; further frames go into its
    /// headroom.
    fn at_xoff(&self, port: PortId, class: Class) -> bool;
    /// Returns whether the ingress queue is below XON.
    fn below_xon(&self, port: PortId, class: Class) -> bool;
}

/// Custom flow-control policy of one class of one worker's ports.
///
/// Lossless classes stay lossless under two conditions. The policy requests XOFF at the latest when a frame is
/// received at [`Occupancies::at_xoff`]. It withdraws XOFF no earlier than [`Occupancies::below_xon`]. No peer stays
/// held if it withdraws XOFF at the latest when a port has no bytes left. In any case frames stay in order, and each
/// is accounted for.
///
/// The methods must not allocate, block or read the clock: they run for every frame.
pub trait CustomPolicy: Debug + Send {
    /// Handles an event and appends the resulting intents to `intents`. Intents that cannot be executed are removed
    /// and counted:
    ///
    /// * XOFF and XON for a class above the policy's own, and rates for any other class;
    /// * any intent for a missing port, another worker's port, or a port that may not send XOFF for the class;
    /// * rates at a peer that is not known to obey rates;
    /// * pauses of single flows.
    fn observe(&mut self, now: Nanos, event: Event, buffer: &dyn Occupancies, intents: &mut Vec<Intent>);

    /// Takes over a switch that already holds frames and requests the initial pauses. No peer is held for this policy
    /// before.
    fn adopt(&mut self, buffer: &dyn Occupancies, intents: &mut Vec<Intent>);

    /// Returns how many frames, each with an `event` like this one of any size, the policy need not be shown. Within
    /// the margin it has no intents and its state does not change. The default shows every frame.
    ///
    /// When a frame leaves, the egress and the ingress occupancy shrink together. The policy is asked separately for
    /// [`Event::Dequeued`] and [`Event::Released`], and the smaller margin applies. Each margin must hold although
    /// the other occupancy shrinks, too.
    fn margin(&self, event: Event, buffer: &dyn Occupancies) -> Margin {
        let _ = (event, buffer);
        Margin::NONE
    }
}

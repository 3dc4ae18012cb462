//! Input of policies (events and occupancies) and their output (intents).
//!
//! Built-in policies ([`crate::policy`]) read the buffer directly, a [`CustomPolicy`] through [`Occupancies`].

use std::fmt::Debug;

use xoff_wire::units::{Bytes, Class, Nanos, PortId, RateStep};

use crate::cause::Trigger;
use crate::load::Margin;

/// Change of occupancy by a frame of the policy's class, already counted by the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Event {
    /// The frame was counted at ingress, or is lossless and found no memory there.
    Received { ingress: PortId },
    /// The frame was counted at egress.
    Enqueued { ingress: PortId, egress: PortId, size: Bytes },
    /// The frame no longer counts at egress.
    Dequeued { egress: PortId },
    /// The frame no longer counts at ingress.
    Released { ingress: PortId },
}

impl Event {
    /// Returns the port of the queue that the event changes.
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
#[allow(missing_docs)] // the names say it
pub enum Intent {
    /// Pause `class` at the peer of `port`.
    Xoff {
        port: PortId,
        /// Class to pause: the policy's own, or a lower one.
        class: Class,
        trigger: Trigger,
    },
    /// Pause `count` more flows of the policy's class at the peer of `port`.
    PauseFlows { port: PortId, count: u32 },
    /// Resume all paused flows of the policy's class at the peer of `port`.
    ResumeFlows { port: PortId },
    /// Limit the rate of `class` at the peer of `port`.
    Rate {
        port: PortId,
        class: Class,
        /// Rate limit: step k allows 1 / 2^k of the line rate; step 0 ends the limit.
        step: RateStep,
    },
    /// Withdraw this policy's pause of `class` at the peer of `port`.
    Xon { port: PortId, class: Class },
}

/// Occupancies of the queues of all classes.
///
/// # Panics
/// If a given port does not exist.
pub trait Occupancies {
    /// Returns how many bytes received on `port` still count at ingress.
    fn ingress(&self, port: PortId, class: Class) -> Bytes;
    /// Returns the bytes at egress `port`, queued or in the driver.
    fn egress(&self, port: PortId, class: Class) -> Bytes;
    /// Returns the bytes from `ingress` at `egress`, queued or in the driver.
    fn between(&self, ingress: PortId, egress: PortId, class: Class) -> Bytes;
    /// Returns the ingress queue's XOFF threshold, which in shared memory depends on other queues.
    fn xoff(&self, port: PortId, class: Class) -> Bytes;
    /// Returns the ingress queue's XON threshold.
    fn xon(&self, port: PortId, class: Class) -> Bytes;
    /// Returns whether the ingress queue is at XOFF, in bytes or frames.
    fn at_xoff(&self, port: PortId, class: Class) -> bool;
    /// Returns whether the ingress queue is below XON.
    fn below_xon(&self, port: PortId, class: Class) -> bool;
}

/// Custom flow-control policy of one class, for the ports of one worker.
///
/// A class stays lossless if its policy requests XOFF no later than [`Occupancies::at_xoff`] and withdraws it no
/// earlier than [`Occupancies::below_xon`]. It must withdraw XOFF from a port whose ingress queue is empty, because
/// otherwise the peer stays paused.
///
/// Its methods run for every frame: they must not allocate, block or read the clock.
pub trait CustomPolicy: Debug + Send {
    /// Handles an event and appends intents. The switch counts and removes intents that it cannot execute:
    ///
    /// * XOFF and XON for a class above the policy's own, and rates for any class but its own;
    /// * intents for a missing port, another worker's port, or a port that may not send XOFF for the class;
    /// * rates at a peer that is not known to obey rates;
    /// * pauses of single flows.
    fn observe(&mut self, now: Nanos, event: Event, buffer: &dyn Occupancies, intents: &mut Vec<Intent>);

    /// Starts the policy with the frames already in the buffer, and appends intents that are due. The class pauses no
    /// peer yet.
    fn adopt(&mut self, buffer: &dyn Occupancies, intents: &mut Vec<Intent>);

    /// Returns how many further frames and bytes with such an `event` need not be passed to `observe`, because they
    /// would change neither the policy nor its intents. Default: none.
    ///
    /// A leaving frame causes [`Event::Dequeued`] and [`Event::Released`]; the smaller margin applies. Both must remain
    /// valid while such frames lower the occupancies at egress and ingress.
    fn margin(&self, event: Event, buffer: &dyn Occupancies) -> Margin {
        let _ = (event, buffer);
        Margin::NONE
    }
}

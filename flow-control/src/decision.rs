//! What a policy sees and what it answers: events, occupancies, intents. It never sees bytes of a frame.
//!
//! Built-in policies ([`crate::policy`]) and those of others ([`CustomPolicy`]) have the same to decide with. The built-in ones
//! look at the buffer itself, so that all of it is inlined; others see its [`Occupancies`], which anything can have: a
//! test, too.

use std::fmt::Debug;

use xoff_wire::units::{Bytes, Class, Nanos, PortId, RateStep};

use crate::cause::Trigger;
use crate::load::Margin;

/// Something that happened to a frame of the policy's class, after the buffer has counted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was counted in at this ingress port; or was lossless, and found no room there.
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
        size: Bytes,
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

impl Event {
    /// The port at which it happened, which belongs to the worker that says so.
    #[inline]
    pub const fn port(self) -> PortId {
        match self {
            Event::Received { ingress } | Event::Released { ingress } => ingress,
            Event::Enqueued { egress, .. } | Event::Dequeued { egress } => egress,
        }
    }
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

/// Who holds how many bytes, of any class.
///
/// # Panics
/// Every method does for a port that the switch does not have.
pub trait Occupancies {
    /// Bytes that came in through `port` and still count there.
    fn ingress(&self, port: PortId, class: Class) -> Bytes;
    /// Bytes that wait or are committed at egress `port`.
    fn egress(&self, port: PortId, class: Class) -> Bytes;
    /// Bytes that came in through `ingress` and wait or are committed at `egress`.
    fn between(&self, ingress: PortId, egress: PortId, class: Class) -> Bytes;
    /// Bytes at which the ingress queue reaches XOFF now: in shared memory that depends on what others hold.
    fn xoff(&self, port: PortId, class: Class) -> Bytes;
    /// Bytes below which it resumes, now.
    fn xon(&self, port: PortId, class: Class) -> Bytes;
    /// Whether the ingress queue is at or above XOFF, by bytes or by frames: what comes now goes into its headroom.
    fn at_xoff(&self, port: PortId, class: Class) -> bool;
    /// Whether it is below XON.
    fn below_xon(&self, port: PortId, class: Class) -> bool;
}

/// A flow-control policy that is not built in: one class of one worker's ports.
///
/// The promise that nothing lossless is lost holds as long as it asks for XOFF at the latest when a frame is
/// received and [`Occupancies::at_xoff`], and takes XOFF back no sooner than [`Occupancies::below_xon`]. Nobody stays held as
/// long as it takes XOFF back at the latest when the last byte of a port is gone. Whatever it does, frames stay in order,
/// and each is accounted for.
///
/// It must not allocate, block or look at the clock while it decides: that would cost every frame.
pub trait CustomPolicy: Debug + Send {
    /// Takes note of an event; what follows from it is appended to `intents`. What cannot be done of them is left out
    /// and counted: XOFF, XON or a rate for another class than its own or (but for rates) a lower one, at a port that there
    /// is not, is another worker's, or may not send XOFF for that class; a rate where the peer is not known to keep
    /// rates; pauses of single flows.
    fn observe(&mut self, now: Nanos, event: Event, buffer: &dyn Occupancies, intents: &mut Vec<Intent>);

    /// Begins in a switch that holds frames already: what it wants paused at once. Nobody is held on its behalf
    /// before.
    fn adopt(&mut self, buffer: &dyn Occupancies, intents: &mut Vec<Intent>);

    /// How much may come, frame by frame with an `event` like this for each (its size does not matter), that it need not
    /// be shown: it would want nothing, and be as it was. As it stands, it is shown every frame.
    ///
    /// Of a frame that leaves, both the egress and the ingress occupancy shrink at once. The policy is asked for
    /// [`Event::Dequeued`] and [`Event::Released`] separately, and as much leaves as both margins allow: each must hold
    /// although the other occupancy shrinks, too.
    fn margin(&self, event: Event, buffer: &dyn Occupancies) -> Margin {
        let _ = (event, buffer);
        Margin::NONE
    }
}

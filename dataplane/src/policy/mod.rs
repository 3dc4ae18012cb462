//! Flow-control policies: who is asked to pause, and when.
//!
//! A policy sees events (a frame came in, was enqueued, left) and the buffer's occupancies, and answers
//! with intents. It never sees bytes of a frame: `wire` encodes what it wants, [`crate::pause`] keeps it
//! alive. The set is closed and matched exhaustively, so the hot path stays inlined.

mod pfc;

pub use pfc::Pfc;

use crate::buffer::Buffer;
use crate::units::{Class, PortId};

/// Something that happened to a frame of `class`, after the buffer has counted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was counted in at this ingress port.
    Received {
        /// Where it came in.
        ingress: PortId,
        /// Its class.
        class: Class,
    },
    /// It no longer counts at this ingress port.
    Released {
        /// Where it had come in.
        ingress: PortId,
        /// Its class.
        class: Class,
    },
}

/// What a policy wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The peer of this port is to stop this class.
    Xoff {
        /// The port whose peer is asked.
        port: PortId,
        /// The class.
        class: Class,
    },
    /// It may resume.
    Xon {
        /// The port whose peer is told.
        port: PortId,
        /// The class.
        class: Class,
    },
}

/// The acting policy.
#[derive(Debug)]
pub enum Policy {
    /// 802.1Qbb with thresholds on ingress occupancy.
    Pfc(Pfc),
}

impl Policy {
    /// Takes note of an event; what follows from it is appended to `intents`.
    #[inline(always)] // where it is called the kind of event is a constant
    pub fn observe(&mut self, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        match self {
            Policy::Pfc(pfc) => pfc.observe(event, buffer, intents),
        }
    }
}

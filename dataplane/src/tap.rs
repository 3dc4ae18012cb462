//! Who looks at frames: a [`Tap`] sees those of some ports as they come in, as they leave, and as they are dropped, and changes
//! nothing.
//!
//! A frame that is dropped as it comes in is seen once, as received and with the reason. One that is dropped later is seen
//! as it came in, and again at the port whose drops it counts among. So at each port what is received, sent and dropped is seen
//! as often as it is counted, but that a frame is seen as sent when it is given to the driver, and counted when it has left.

use std::fmt;

use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::units::{Class, Nanos, PortId, PortSet};

use crate::frame::{Frame, FrameStore};

/// Most taps on a switch at a time.
pub const TAPS_MAX: usize = 4;

/// By which a tap is known to who has put it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapId(pub u64);

/// A frame at a port, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// When, by the driver's clock.
    pub at: Nanos,
    /// Where.
    pub port: PortId,
    /// Its class; `None` where the switch consumes it or has made it itself: it takes part in no class.
    pub class: Option<Class>,
    /// Whether it is about the network and not of its users: what the switch consumes or makes (PFC, PAUSE, rates, lists of
    /// flows, LLDP), and every CNM.
    pub is_control: bool,
    /// What becomes of it.
    pub what: Seen,
}

/// What becomes of a frame that is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It has come in by the port.
    Received {
        /// And was not let in, for this reason.
        dropped: Option<DropReason>,
    },
    /// It is given to the port's driver.
    Sent {
        /// So long after it had come in, or was made.
        after: Nanos,
    },
    /// It was let in, and is dropped.
    Dropped {
        /// Why.
        reason: DropReason,
        /// So long after it had come in.
        after: Nanos,
    },
}

impl Seen {
    /// Why it is dropped, if it is.
    #[must_use]
    pub const fn dropped(&self) -> Option<DropReason> {
        match *self {
            Seen::Received { dropped } => dropped,
            Seen::Dropped { reason, .. } => Some(reason),
            Seen::Sent { .. } => None,
        }
    }
}

/// Sees frames. It is called between two steps of a frame's journey, so it must neither allocate nor wait.
pub trait Tap: fmt::Debug + Send {
    /// Whose frames it is shown.
    fn ports(&self) -> PortSet;

    /// Sees a frame, whose bytes `store` has.
    fn see(&mut self, sighting: &Sighting, frame: &Frame, store: &dyn FrameStore);
}

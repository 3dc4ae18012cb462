//! Taps: observers that see frames as they are received, sent and dropped, and change nothing.
//!
//! A sent frame is shown when given to the driver, but counted when it has left.

use std::fmt;

use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::units::{Class, Nanos, PortId, PortSet};

use crate::frame::{Frame, FrameStore};

/// Maximum number of taps on a switch.
pub const TAPS_MAX: usize = 4;

/// Identifier of a tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapId(pub u64);

/// Observation of a frame: its event, port and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Time of the event by the driver's clock.
    pub at: Nanos,
    /// Port at which the event occurred.
    pub port: PortId,
    /// Class of the frame; `None` for frames that the switch consumes or makes.
    pub class: Option<Class>,
    /// True for network control: frames that the switch consumes or makes, and every CNM.
    pub is_control: bool,
    /// Event of the frame.
    pub event: FrameEvent,
}

/// Event of an observed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEvent {
    /// Received on the port.
    Received {
        /// Drop reason if the frame was not admitted.
        dropped: Option<DropReason>,
    },
    /// Given to the port's driver for transmission.
    Sent {
        /// Time since the frame was received or made.
        after: Nanos,
    },
    /// Dropped after admission.
    Dropped {
        /// Drop reason.
        reason: DropReason,
        /// Time since the frame was received.
        after: Nanos,
    },
}

impl FrameEvent {
    /// Returns the drop reason, if the frame is dropped.
    #[must_use]
    pub const fn dropped(&self) -> Option<DropReason> {
        match *self {
            FrameEvent::Received { dropped } => dropped,
            FrameEvent::Dropped { reason, .. } => Some(reason),
            FrameEvent::Sent { .. } => None,
        }
    }
}

/// Observer of frames. Its methods must neither allocate nor wait.
pub trait Tap: fmt::Debug + Send {
    /// Returns the ports whose frames the tap sees.
    fn ports(&self) -> PortSet;

    /// Observes a frame, whose bytes are in `store`.
    fn see(&mut self, sighting: &Sighting, frame: &Frame, store: &dyn FrameStore);
}

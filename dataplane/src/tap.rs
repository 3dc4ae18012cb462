//! Taps: passive observers of received, sent and dropped frames.
//!
//! A tap sees a sent frame when the driver gets it; counters count the frame when it has left.

use std::fmt;

use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::units::{Class, Nanos, PortId, PortSet};

use crate::frame::{Frame, FrameStore};

/// Maximum taps on a switch.
pub const TAPS_MAX: usize = 4;

/// Identifier of a tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapId(pub u64);

/// Observation of a frame by a tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Time of the event by the driver's clock.
    pub at: Nanos,
    /// Port of the event.
    pub port: PortId,
    /// Class of the frame; `None` for frames that the switch consumes or makes.
    pub class: Option<Class>,
    /// True for CNMs, and for frames that the switch consumes or makes.
    pub is_control: bool,
    /// Event: received, sent or dropped.
    pub event: FrameEvent,
}

/// Event of an observed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameEvent {
    /// The frame was received on the port.
    Received {
        /// Drop reason if the frame was not admitted.
        dropped: Option<DropReason>,
    },
    /// The frame was given to the driver for transmission.
    Sent {
        /// Time since the frame was received or made.
        after: Nanos,
    },
    /// The frame was dropped after admission.
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
    /// Returns the observed ports.
    fn ports(&self) -> PortSet;

    /// Observes a frame, whose bytes are in `store`.
    fn see(&mut self, sighting: &Sighting, frame: &Frame, store: &dyn FrameStore);
}

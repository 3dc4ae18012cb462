//! Taps: passive observers of received, sent and dropped frames.
//!
//! A tap observes a sent frame when the driver gets it; counters count it when it has left.

use std::fmt;

use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::units::{Class, Nanos, PortId, PortSet};

use crate::frame::{Frame, FrameStore};

/// Maximum taps on a switch.
pub const TAPS_MAX: usize = 4;

/// Identifier by which a tap can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TapId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Sighting {
    pub at: Nanos,
    pub port: PortId,
    /// Class of the frame; `None` for frames that the switch consumes or makes.
    pub class: Option<Class>,
    /// True for frames that the switch consumes or makes, and for forwarded congestion notifications (CNMs).
    pub is_control: bool,
    pub event: FrameEvent,
}

/// Event of an observed frame: received, given to the driver, or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FrameEvent {
    Received {
        /// Drop reason if the frame was not admitted.
        dropped: Option<DropReason>,
    },
    /// The frame was given to the driver; `after` is the time since its receipt or creation.
    Sent { after: Nanos },
    /// The frame was dropped after admission; `after` is the time since its receipt.
    Dropped { reason: DropReason, after: Nanos },
}

impl FrameEvent {
    /// Returns the reason if the frame was dropped.
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
#[allow(missing_docs)]
pub trait Tap: fmt::Debug + Send {
    fn ports(&self) -> PortSet;

    fn see(&mut self, sighting: &Sighting, frame: &Frame, store: &dyn FrameStore);
}

//! Raw data of a fabric that ran: what became of each stream, how long queues were, and who was paused when.

use std::fmt;
use std::sync::Arc;

use xoff_wire::units::{Class, Nanos};

use crate::error::FabricError;

/// Takes the raw data of each fabric as soon as it has run.
#[derive(Clone)]
pub struct Recorder(Arc<Take>);

type Take = dyn Fn(&Record) -> Result<(), FabricError> + Send + Sync;

impl Recorder {
    /// One that gives them to `take`.
    pub fn new(take: impl Fn(&Record) -> Result<(), FabricError> + Send + Sync + 'static) -> Recorder {
        Recorder(Arc::new(take))
    }

    pub(crate) fn take(&self, record: &Record) -> Result<(), FabricError> {
        (self.0)(record)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

/// Raw data of one fabric. All times count from when its hosts began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// What tells the fabric from others of the same experiment: `senders=8`.
    pub point: String,
    /// Of every stream that a host had to send.
    pub completions: Vec<Completion>,
    /// In the order of time.
    pub queues: Vec<QueueLook>,
    /// Of each place in the order in which they came.
    pub pauses: Vec<PauseEvent>,
}

/// What became of a stream: a flow, a message, a burst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Who sent it.
    pub sender: String,
    /// To whom.
    pub receiver: String,
    /// Its number at the sender.
    pub stream: u8,
    /// Its class.
    pub class: Class,
    /// Frames that were sent.
    pub sent: u64,
    /// Those that never came.
    pub lost: u64,
    /// When its first frame was due; `None` where none was sent.
    pub due: Option<Nanos>,
    /// From then until its last frame was there; `None` where frames are missing, and of a stream that ends by time.
    pub completion: Option<Nanos>,
}

/// The length of an egress queue where it differs from what the look before saw. All begin empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueLook {
    /// When.
    pub at: Nanos,
    /// At this switch.
    pub switch: String,
    /// At this port.
    pub port: String,
    /// Of this class.
    pub class: Class,
    /// What is in it, frames that the driver has included.
    pub bytes: u64,
}

/// A port's peer was told to stop, or to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseEvent {
    /// When: of an XOFF that still holds at the look to the nanosecond; of what was told before such a hold, not later than
    /// it began; else the time of the look. Never before the last event of the same place.
    pub at: Nanos,
    /// By this switch.
    pub switch: String,
    /// At this port.
    pub port: String,
    /// Of this class.
    pub class: Class,
    /// What.
    pub event: Told,
    /// How often since the look before.
    pub count: u64,
}

/// What a peer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// To stop.
    Xoff,
    /// To go on.
    Xon,
}

impl Told {
    /// As data have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Told::Xoff => "xoff",
            Told::Xon => "xon",
        }
    }
}

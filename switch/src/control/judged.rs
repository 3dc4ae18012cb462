//! What `/status` says of what goes wrong now, and of peers that are not as they were declared.

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_dataplane::units::Nanos;

/// Something that goes wrong now; docs/log.md has all that there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GoingOnStatus {
    /// Its name.
    pub event: String,
    /// Name of the port, where it is one's.
    pub port: Option<String>,
    /// The class.
    pub class: Option<u8>,
    /// Index of the worker.
    pub worker: Option<usize>,
    /// Which counter says so.
    pub cause: Option<String>,
    /// How much was counted since it began.
    pub count: u64,
    /// What else there is to say.
    pub detail: Option<String>,
    /// How long ago it began.
    pub began_nanos_ago: u64,
}

/// What goes on now. Written by the control thread.
#[derive(Debug, Default)]
pub struct GoingOn(Mutex<Vec<(Nanos, GoingOnStatus)>>);

impl GoingOn {
    /// All of it, at `now`.
    pub(super) fn get(&self, now: Nanos) -> Vec<GoingOnStatus> {
        let at = |(since, status): &(Nanos, GoingOnStatus)| GoingOnStatus {
            began_nanos_ago: now.since(*since).0,
            ..status.clone()
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(at).collect()
    }

    /// Exchanges all of it.
    pub(super) fn set(&self, now: Vec<(Nanos, GoingOnStatus)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

/// What was seen of a port's peer that is not as it was declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerStatus {
    /// It sent faster than the port's `speed`, all the time or after an XOFF.
    pub too_fast: bool,
    /// It went on while it was held, for longer than the port's `peer_response` allows.
    pub too_late: bool,
    /// Bytes that the peer sent beyond what the port's line rate allows, as the line counts them.
    pub overspeed_bytes: u64,
    /// How long it was declared to take to stop; `None`: nothing was declared.
    pub response_declared_nanos: Option<u64>,
}

/// What came of a class after XOFF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResponseStatus {
    /// Maximum of bytes that came in one pause after XOFF, since the start.
    pub after_xoff_max_bytes: u64,
    /// Longest observed peer response to XOFF since the start, the worker's own delay included.
    pub response_max_nanos: u64,
    /// Frames that came in time after an XOFF, and were more than a peer as fast as declared sends.
    pub excess_frames: u64,
    /// Frames that came after an XOFF later than a peer that stops as declared sends.
    pub late_frames: u64,
}

/// Frames that a port lost without the switch having seen them, each counted once, by what is known of their classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnseenStatus {
    /// Lossless ones may be among them.
    pub lossless: u64,
    /// Only lossy classes came around that time, which does not prove that none was lossless.
    pub unknown: u64,
    /// The port carried only lossy classes in that time.
    pub lossy: u64,
    /// There may be more than so many: two counters may have the same frames, or others.
    pub at_least: bool,
}

impl UnseenStatus {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.lossless + self.unknown + self.lossy
    }
}

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_wire::units::Nanos;

/// Event of a host that leaves checksums unfinished.
pub const UNFINISHED_CHECKSUM: &str = "unfinished-checksum";

/// Fault that lasts now; docs/log.md lists all kinds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OngoingStatus {
    /// Name of the fault's event in the log.
    pub event: String,
    /// Name of the affected port, if any.
    pub port: Option<String>,
    /// Affected class, if any.
    pub class: Option<u8>,
    /// Index of the affected worker, if any.
    pub worker: Option<usize>,
    /// Drop reason of a loss; `pfc`, `dscp` or `application` of a DCBX mismatch.
    pub cause: Option<String>,
    /// Increase of the fault's counter since the fault began.
    pub count: u64,
    /// More details about the fault, if there are any.
    pub detail: Option<String>,
    /// Time since the fault began.
    pub began_nanos_ago: u64,
}

/// Faults that last now, with the time when each began. Written by the control thread.
#[derive(Debug, Default)]
pub struct OngoingConditions(Mutex<Vec<(Nanos, OngoingStatus)>>);

impl OngoingConditions {
    pub(super) fn get(&self, now: Nanos) -> Vec<OngoingStatus> {
        let at = |(since, status): &(Nanos, OngoingStatus)| OngoingStatus {
            began_nanos_ago: now.since(*since).0,
            ..status.clone()
        };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().map(at).collect()
    }

    pub(super) fn set(&self, now: Vec<(Nanos, OngoingStatus)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

/// Deviations of a port's peer from the peer's declared behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerStatus {
    /// True if the peer sent faster than the port's `speed`, at any time or after an XOFF.
    pub too_fast: bool,
    /// True if the peer sent after XOFF for longer than the port's `peer_response`.
    pub too_late: bool,
    /// Bytes, with preambles and gaps, that the peer sent beyond the port's line rate.
    pub overspeed_bytes: u64,
    /// Frames with a lossy class by DSCP, but a lossless class by PCP (a sample).
    #[serde(default)]
    pub pcp_overruled: u64,
    /// Declared time for the peer to stop; `None` if not declared.
    pub response_declared_nanos: Option<u64>,
}

/// Frames of a class received after XOFF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResponseStatus {
    /// Maximum bytes that arrived after an XOFF, in one pause.
    pub after_xoff_max_bytes: u64,
    /// Longest peer response to XOFF, including the worker's own delay.
    pub response_max_nanos: u64,
    /// Frames received after an XOFF in time, but in excess of the declared speed.
    pub excess_frames: u64,
    /// Frames received after an XOFF, later than declared.
    pub late_frames: u64,
}

/// Frames of a port lost outside the switch, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnseenStatus {
    /// Lost frames that may include lossless ones.
    pub lossless: u64,
    /// Frames lost while only lossy classes arrived; some may have been lossless.
    pub unknown: u64,
    /// Frames lost while the port carried only lossy classes.
    pub lossy: u64,
    /// True if the counts are lower bounds, because two counters may contain the same frames.
    pub at_least: bool,
}

impl UnseenStatus {
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.lossless + self.unknown + self.lossy
    }
}

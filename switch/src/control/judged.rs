use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_wire::units::Nanos;

pub const UNFINISHED_CHECKSUM: &str = "unfinished-checksum";
pub(super) const LACP_OUT: &str = "lacp-out";

/// Fault that exists now; docs/log.md lists all kinds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OngoingStatus {
    /// Name of the fault's event in the log.
    pub event: String,
    /// Sentence of the log line with which the fault began, without counts and details.
    #[serde(default)]
    pub text: String,
    /// Name of the affected port; `None` if no port is affected.
    pub port: Option<String>,
    /// Affected class; `None` if no class is affected.
    pub class: Option<u8>,
    /// Name of the affected group of ports, if any.
    #[serde(default)]
    pub group: Option<String>,
    /// Index of the affected worker, if any.
    pub worker: Option<usize>,
    /// Cause of the fault: the drop reason of a loss, or `pfc`, `dscp` or `application` for a DCBX mismatch.
    pub cause: Option<String>,
    /// Increase of the fault's counter since the fault began.
    pub count: u64,
    /// More details about the fault, if there are any.
    pub detail: Option<String>,
    /// Nanoseconds since the fault began.
    pub began_nanos_ago: u64,
}

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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeerStatus {
    /// True if the peer sent faster than the port's `speed`, in the long run or after an XOFF.
    pub too_fast: bool,
    /// True if frames came too late after an XOFF (`late_frames`).
    pub too_late: bool,
    /// Bytes, with preambles and gaps, that the peer sent in excess of the port's line rate.
    pub overspeed_bytes: u64,
    /// Sampled frames whose DSCP selects a lossy class, but whose PCP selects a lossless class.
    #[serde(default)]
    pub pcp_overruled: u64,
    /// Time until the peer stops after XOFF (`peer_response` of the port), in nanoseconds; `None` if unknown.
    pub response_declared_nanos: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResponseStatus {
    /// Maximum number of bytes received from the peer after an XOFF, in one pause.
    pub after_xoff_max_bytes: u64,
    /// Longest time from an XOFF until the peer stopped sending; includes the worker's own delay.
    pub response_max_nanos: u64,
    /// Frames received after an XOFF beyond `headroom_needed_bytes`, within the time in which the line carries these
    /// bytes.
    pub excess_frames: u64,
    /// Frames received after an XOFF, later than the time in which the line carries `headroom_needed_bytes`.
    pub late_frames: u64,
}

/// Frames of a port lost in the NIC or kernel. A frame that several counters report counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnseenStatus {
    /// Lost frames that count as losses of lossless classes (docs/verdict.md).
    pub lossless: u64,
    /// Frames lost before the XDP program read their class, while only lossy frames came; some may be lossless.
    /// Includes drops that an untested driver may count twice.
    pub unknown: u64,
    /// Lost frames that were certainly lossy.
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

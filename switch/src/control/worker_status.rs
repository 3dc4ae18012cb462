use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::books::Books;

/// Distribution of measured times. Quantiles are upper bounds: at most 1.125 times the true value in a worker's
/// status, twice in a class's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Number of measured times.
    pub count: u64,
    /// Sum of the measured times, in nanoseconds.
    pub sum_nanos: u64,
    /// Upper bound of the median.
    pub p50_nanos: Option<u64>,
    /// Upper bound of the 99th percentile.
    pub p99_nanos: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerStatus {
    /// Core to which the worker is pinned; `None` if it is not pinned.
    pub core: Option<usize>,
    /// Names of the ports that the worker owns.
    pub ports: Vec<String>,
    /// State of the worker.
    pub state: WorkerState,
    /// Iterations of the worker's loop.
    pub loops: u64,
    /// Longest time between two iterations of the worker's loop since the start.
    pub longest_gap_nanos: u64,
    /// Number of stalls: iterations of the worker's loop further apart than the stall budget.
    pub stalls: u64,
    /// Longest stall of the worker that causes no loss in a lossless class.
    pub stall_budget_nanos: u64,
    /// Time between two iterations of the worker's loop, without sleep between them.
    pub gaps: Spread,
    /// Upper bound of the time from crossing a threshold to passing the pause frame to the kernel.
    pub send_reaction: Spread,
    /// Upper bound of the time from receiving a pause frame to passing the last frame of its class to the kernel.
    pub obey_reaction: Spread,
    /// Free frames in the worker's memory; a permanent decrease is a bug.
    pub frames_free: u64,
    /// Free memory cells (96 bytes each) for the worker's frames; a permanent decrease is a bug.
    pub cells_free: u64,
    /// Frames unaccounted for: zero unless the switch has a bug.
    #[serde(default)]
    pub frames_missing: u64,
    /// Numbers of the worker's frames by source and by outcome; `None` if the worker did not answer.
    pub ledger: Option<Books>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// The worker answered.
    Running,
    /// The worker did not answer in time.
    Silent,
    /// The worker has ended.
    Ended,
}

//! Status of workers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::books::Books;

/// Distribution of a time. Quantiles are upper bounds: at most an eighth too high in times of workers, a factor of
/// two in others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Number of measured times.
    pub count: u64,
    /// Sum of the measured times.
    pub sum_nanos: u64,
    /// Median, as an upper bound.
    pub p50_nanos: Option<u64>,
    /// 99th percentile, as an upper bound.
    pub p99_nanos: Option<u64>,
}

/// Status of a worker, a forwarding thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerStatus {
    /// Core to which the thread is pinned; `None` if it is not.
    pub core: Option<usize>,
    /// Names of the worker's ports.
    pub ports: Vec<String>,
    /// State of the worker.
    pub state: WorkerState,
    /// Iterations of the worker's loop.
    pub loops: u64,
    /// Longest time between two iterations of the worker's loop since the start.
    pub longest_gap_nanos: u64,
    /// Times that two iterations of the worker's loop were further apart than the stall budget.
    pub stalls: u64,
    /// Stall budget: longest stall without loss in a lossless class.
    pub stall_budget_nanos: u64,
    /// Time between two iterations of a worker's loop, without sleep.
    pub gaps: Spread,
    /// Upper bound of the time from crossing a threshold to handing the pause frame to the kernel.
    pub send_reaction: Spread,
    /// Upper bound of the time from receiving a pause frame to handing the last frame of its class to the kernel.
    pub obey_reaction: Spread,
    /// Free frames of the worker; a permanent decrease is a bug.
    pub frames_free: u64,
    /// Free cells of 96 bytes of the worker; a permanent decrease is a bug.
    pub cells_free: u64,
    /// Frames missing from the ledger: zero unless the switch has a bug.
    #[serde(default)]
    pub frames_missing: u64,
    /// Ledger of the worker; `None` if it did not answer.
    pub ledger: Option<Books>,
}

/// State of a worker.
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

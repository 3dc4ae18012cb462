//! What is between ingress and egress queues, and for which of these it was halted, as `/status` has it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_dataplane::settings::{PipelineSettings, SwitchSettings};
use xoff_dataplane::units::{Class, PortId};

use super::view::SwitchView;

/// The pipeline as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineStatus {
    /// Most frames that it takes; `None`: as they come.
    pub rate_frames_per_second: Option<u32>,
    /// How long each is in it.
    pub delay_nanos: u64,
    /// `by-class` or `fifo`: which frame of a port is next.
    pub ingress: String,
    /// `drop` or `stop`: what a full egress queue does.
    pub when_full: String,
}

/// Halts of the pipeline (`when_full = "stop"`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HaltStatus {
    /// Times that the pipeline was halted because this egress queue was full.
    pub count: u64,
    /// Whether the pipeline is halted, for every port and class, because this egress queue is full.
    pub now: bool,
    /// Time that the pipeline was halted because this egress queue was full, a halt that lasts included.
    pub nanos: u64,
}

pub(super) fn status(settings: &SwitchSettings) -> PipelineStatus {
    let PipelineSettings { rate, delay, ingress } = settings.pipeline;
    PipelineStatus {
        rate_frames_per_second: rate.map(|rate| rate.0.get()),
        delay_nanos: delay.0,
        ingress: ingress.name().into(),
        when_full: settings.when_full.name().into(),
    }
}

/// Those for the queue of `class` at `port`.
pub(super) fn halts(view: &SwitchView, port: PortId, class: Class) -> HaltStatus {
    let counters = view.counters.class(port, class);
    HaltStatus {
        count: counters.halts.get(),
        now: counters.halted_since.get() != 0,
        nanos: view.pause_times(port, class).halted,
    }
}

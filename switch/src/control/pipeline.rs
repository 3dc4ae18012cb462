use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_flow_control::settings::{PipelineSettings, SwitchSettings};
use xoff_wire::units::{Class, PortId};

use super::view::SwitchView;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineStatus {
    /// Maximum rate of the pipeline in frames per second; `None`: no limit.
    pub rate_frames_per_second: Option<u32>,
    /// Delay of each frame in the pipeline.
    pub delay_nanos: u64,
    /// Order of a port's frames in the pipeline: `by-class` or `fifo`.
    pub ingress: String,
    /// Effect of a full egress queue: `drop` or `stop`.
    pub when_full: String,
}

/// Halts of the pipeline because an egress queue was full (`when_full = "stop"`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HaltStatus {
    /// Number of halts because this egress queue was full.
    pub count: u64,
    /// True if the pipeline is halted because this egress queue is full.
    pub now: bool,
    /// Total time for which this full egress queue halted the pipeline, including a halt that still lasts.
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

pub(super) fn halts(view: &SwitchView, port: PortId, class: Class) -> HaltStatus {
    let counters = view.counters.class(port, class);
    HaltStatus {
        count: counters.halts.get(),
        now: counters.halted_since.get() != 0,
        nanos: view.pause_times(port, class).halted,
    }
}

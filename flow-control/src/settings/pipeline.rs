use std::num::NonZeroU32;

use xoff_wire::units::Nanos;

/// Settings of the pipeline between ingress and egress queues; by default, frames pass at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct PipelineSettings {
    /// Maximum frames per second, taken from the ports in turn; `None` means unlimited. Requires one worker.
    pub rate: Option<FrameRate>,
    pub delay: Nanos,
    pub ingress: IngressOrder,
}

impl PipelineSettings {
    /// Returns whether frames may wait before or in the pipeline.
    #[must_use]
    pub fn keeps_frames(&self) -> bool {
        self.rate.is_some() || self.delay > Nanos::ZERO
    }
}

/// Nonzero rate in frames per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate(pub NonZeroU32);

impl FrameRate {
    /// Returns the time that `frames` frames take at this rate.
    #[must_use]
    pub const fn time_of(self, frames: u64) -> Nanos {
        Nanos(frames.saturating_mul(1_000_000_000) / self.0.get() as u64)
    }

    /// Returns when the frame after one at `at` starts, rounded down to ns, and the new `owed`. `owed` / rate is the
    /// fraction of a nanosecond cut off so far.
    pub fn next(self, at: Nanos, owed: u64) -> (Nanos, u64) {
        let rate = u64::from(self.0.get());
        let second = 1_000_000_000 + owed;
        (at.after(Nanos(second / rate)), second % rate)
    }
}

/// Order in which frames of one ingress port enter the pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum IngressOrder {
    /// Highest class first, one queue per class.
    #[default]
    ByClass,
    Fifo,
}

impl IngressOrder {
    /// Returns the name of this order in configuration and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            IngressOrder::ByClass => "by-class",
            IngressOrder::Fifo => "fifo",
        }
    }
}

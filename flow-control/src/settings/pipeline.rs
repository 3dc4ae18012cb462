//! Between ingress and egress queues: the papers' switches have a pipeline that takes its time.

use std::num::NonZeroU32;

use xoff_wire::units::Nanos;

/// The pipeline. By default a frame passes it at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineSettings {
    /// Most frames that it takes a second, from the ports in turn; `None`: as they come. For a switch of one worker.
    pub rate: Option<FrameRate>,
    /// How long a frame is in it.
    pub delay: Nanos,
    /// Which of the frames that have come in by a port it takes next.
    pub ingress: IngressOrder,
}

impl PipelineSettings {
    /// Whether frames may wait for it, or in it.
    #[must_use]
    pub fn keeps_frames(&self) -> bool {
        self.rate.is_some() || self.delay > Nanos::ZERO
    }
}

/// Frames a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate(pub NonZeroU32);

impl FrameRate {
    /// How long so many take.
    #[must_use]
    pub const fn time_of(self, frames: u64) -> Nanos {
        Nanos(frames.saturating_mul(1_000_000_000) / self.0.get() as u64)
    }

    /// When the frame after one of that time may start; `owed` is what whole nanoseconds leave out, in parts of one
    /// (as many as frames a second).
    pub fn next(self, at: Nanos, owed: u64) -> (Nanos, u64) {
        let rate = u64::from(self.0.get());
        let second = 1_000_000_000 + owed;
        (at.after(Nanos(second / rate)), second % rate)
    }
}

/// In which order frames leave their ingress port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IngressOrder {
    /// The highest class first: each class has a queue.
    #[default]
    ByClass,
    /// As they came, whatever their class.
    Fifo,
}

impl IngressOrder {
    /// Its name in configuration and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            IngressOrder::ByClass => "by-class",
            IngressOrder::Fifo => "fifo",
        }
    }
}

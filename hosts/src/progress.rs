//! What a running host tells while it runs: totals by class, read by whoever shows progress.

use xoff_dataplane::counter::Counter;
use xoff_dataplane::units::{Bytes, CLASSES};

/// Totals of one host; it alone writes them.
#[derive(Debug, Default)]
pub struct Progress {
    /// Data frames sent, by class.
    pub sent: [Volume; CLASSES],
    /// Data frames received, by the class that their sender obeys pauses for.
    pub received: [Volume; CLASSES],
    /// Data frames sent, by stream; of those that it was made for.
    pub streams: Box<[Volume]>,
    /// 1 once all streams are over.
    pub all_sent: Counter,
}

impl Progress {
    /// Of a host whose first `count` streams are told apart.
    #[must_use]
    pub fn of_streams(count: usize) -> Progress {
        Progress { streams: (0..count).map(|_| Volume::default()).collect(), ..Progress::default() }
    }
}

/// An amount of traffic.
#[derive(Debug, Default)]
pub struct Volume {
    /// Frames.
    pub frames: Counter,
    /// Bytes of layer 1: what the frames take of a line.
    pub line_bytes: Counter,
}

impl Volume {
    /// Counts one frame.
    #[inline]
    pub fn add(&self, line_bytes: Bytes) {
        self.frames.add(1);
        self.line_bytes.add(line_bytes.0);
    }
}

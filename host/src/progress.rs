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
    /// Data frames received, by sender; of those that it was made for.
    pub(super) senders: Box<[(u16, Volume)]>,
    /// 1 once all streams are over.
    pub all_sent: Counter,
}

impl Progress {
    /// Of a host that tells the frames of these senders apart.
    #[must_use]
    pub fn of_senders(numbers: impl IntoIterator<Item = u16>) -> Progress {
        let senders = numbers.into_iter().map(|number| (number, Volume::default()));
        Progress { senders: senders.collect(), ..Progress::default() }
    }

    /// What has come from a sender; `None` where it is not told apart.
    #[must_use]
    pub fn received_from(&self, sender: u16) -> Option<&Volume> {
        self.place_of(sender).map(|place| &self.senders[place].1)
    }

    pub(super) fn place_of(&self, sender: u16) -> Option<usize> {
        self.senders.iter().position(|(number, _)| *number == sender)
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

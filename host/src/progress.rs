use xoff_flow_control::counter::Counter;
use xoff_wire::units::{Bytes, CLASSES};

#[derive(Debug, Default)]
pub struct Progress {
    pub sent: [Volume; CLASSES],
    /// Received data frames, by class: a pause of this class stops their stream.
    pub received: [Volume; CLASSES],
    pub(super) senders: Box<[(u16, Volume)]>,
    /// Flag: 1 once all streams are sent.
    pub all_sent: Counter,
}

impl Progress {
    /// Creates counters that also count each of these senders' frames separately.
    #[must_use]
    pub fn of_senders(numbers: impl IntoIterator<Item = u16>) -> Progress {
        let senders = numbers.into_iter().map(|number| (number, Volume::default()));
        Progress { senders: senders.collect(), ..Progress::default() }
    }

    /// Returns the frames received from a sender; `None` if the sender is not counted separately.
    #[must_use]
    pub fn received_from(&self, sender: u16) -> Option<&Volume> {
        self.place_of(sender).map(|place| &self.senders[place].1)
    }

    pub(super) fn place_of(&self, sender: u16) -> Option<usize> {
        self.senders.iter().position(|(number, _)| *number == sender)
    }
}

#[derive(Debug, Default)]
pub struct Volume {
    pub frames: Counter,
    /// Bytes with FCS, preamble and gap.
    pub line_bytes: Counter,
}

impl Volume {
    #[inline]
    pub fn add(&self, line_bytes: Bytes) {
        self.frames.add(1);
        self.line_bytes.add(line_bytes.0);
    }
}

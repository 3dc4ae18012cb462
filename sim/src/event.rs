//! What happens, as a subject of the [`calendar`](crate::calendar).

use crate::calendar::SUBJECTS_MAX;
use crate::ends::{LinkId, NodeId};

/// Links and nodes are numbered below this.
pub(crate) const NUMBERS_MAX: u32 = SUBJECTS_MAX / 4;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The last bit of a frame has left the end that sends.
    Left(LinkId),
    /// The first frame on its way has arrived, whole.
    Arrived(LinkId),
    /// The time that a node waited for.
    Due(NodeId),
}

impl Event {
    #[inline]
    pub(crate) const fn subject(self) -> u32 {
        match self {
            Event::Left(LinkId(number)) => number << 2,
            Event::Arrived(LinkId(number)) => number << 2 | 1,
            Event::Due(NodeId(number)) => number << 2 | 2,
        }
    }

    #[inline]
    pub(crate) const fn of(subject: u32) -> Event {
        let number = subject >> 2;
        match subject & 3 {
            0 => Event::Left(LinkId(number)),
            1 => Event::Arrived(LinkId(number)),
            _ => Event::Due(NodeId(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_what_its_subject_says() {
        for number in [0, 1, NUMBERS_MAX - 1] {
            for event in
                [Event::Left(LinkId(number)), Event::Arrived(LinkId(number)), Event::Due(NodeId(number))]
            {
                assert_eq!(Event::of(event.subject()), event);
                assert!(event.subject() < SUBJECTS_MAX);
            }
        }
    }
}

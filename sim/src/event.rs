//! Events of the simulation, encoded as 32-bit numbers (subjects) for the [`calendar`](crate::calendar).

use crate::ends::{LinkId, NodeId};

pub(crate) const NUMBERS_MAX: u32 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Left(LinkId),
    Arrived(LinkId),
    Due(NodeId),
    Late(LinkId),
}

impl Event {
    #[inline]
    pub(crate) const fn subject(self) -> u32 {
        match self {
            Event::Left(LinkId(number)) => number << 2,
            Event::Arrived(LinkId(number)) => number << 2 | 1,
            Event::Due(NodeId(number)) => number << 2 | 2,
            Event::Late(LinkId(number)) => number << 2 | 3,
        }
    }

    #[inline]
    pub(crate) const fn of(subject: u32) -> Event {
        let number = subject >> 2;
        match subject & 3 {
            0 => Event::Left(LinkId(number)),
            1 => Event::Arrived(LinkId(number)),
            2 => Event::Due(NodeId(number)),
            _ => Event::Late(LinkId(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_event_decodes_to_the_same_event() {
        for number in [0, 1, NUMBERS_MAX - 1] {
            let link = LinkId(number);
            for event in
                [Event::Left(link), Event::Arrived(link), Event::Due(NodeId(number)), Event::Late(link)]
            {
                assert_eq!(Event::of(event.subject()), event);
            }
        }
    }
}

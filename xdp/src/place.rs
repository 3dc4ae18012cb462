use xoff_wire::units::PortId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FramePlace {
    /// No place: the slot is free, or its frame's bytes were only in transmit chunks, now freed.
    Nowhere,
    Received(PortId, u32),
    /// Chain of this port's transmit chunks; the number of the first.
    Sending(PortId, u32),
    /// Chain of cells of the buffer memory; the number of the first.
    Queued(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) place: FramePlace,
    pub(crate) len: u32,
}

impl Row {
    const NOWHERE: u64 = 0;
    const RECEIVED: u64 = 1;
    const SENDING: u64 = 2;
    const QUEUED: u64 = 3;

    #[inline]
    pub(crate) fn pack(self) -> u64 {
        let (kind, port, index) = match self.place {
            FramePlace::Nowhere => (Row::NOWHERE, 0, 0),
            FramePlace::Received(port, chunk) => (Row::RECEIVED, port.0, chunk),
            FramePlace::Sending(port, chunk) => (Row::SENDING, port.0, chunk),
            FramePlace::Queued(cell) => (Row::QUEUED, 0, cell),
        };
        u64::from(index) << 32 | u64::from(port) << 24 | kind << 16 | u64::from(self.len)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // parts of a word
    pub(crate) fn unpack(word: u64) -> Row {
        let (index, port) = ((word >> 32) as u32, PortId((word >> 24) as u8));
        let place = match word >> 16 & 0xff {
            Row::RECEIVED => FramePlace::Received(port, index),
            Row::SENDING => FramePlace::Sending(port, index),
            Row::QUEUED => FramePlace::Queued(index),
            _ => FramePlace::Nowhere,
        };
        Row { place, len: word as u32 & 0xffff }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;

    #[test]
    fn frame_location_is_unchanged_by_packing_into_a_number() {
        let places = [
            FramePlace::Nowhere,
            FramePlace::Received(PortId(63), u32::MAX),
            FramePlace::Sending(PortId(255), 7),
            FramePlace::Queued(u32::MAX - 1),
        ];
        for (place, len) in iter::zip(places, [0, 1, 9_242, 0xffff]) {
            assert_eq!(Row::unpack(Row { place, len }.pack()), Row { place, len });
        }
    }
}

//! Header of packets between leaves and spines.

use xoff_wire::units::Class;

/// Bytes of a header on a line; requests and grants have no more.
pub(super) const BYTES: u32 = 10;
/// Bytes of a header in memory; all enter the hash of a run's events.
pub(super) const LEN: usize = 32;
pub(super) const RETURNED: usize = 13;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Request from an input to an output for a frame's cells.
    Request = 1,
    /// Grant from an output to an input, which may then send its next frame.
    Grant,
    Cell,
    Returned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CellHeader {
    pub(super) kind: Kind,
    pub(super) class: Class,
    pub(super) from: u16,
    pub(super) to: u16,
    pub(super) sequence: u32,
    pub(super) index: u8,
    pub(super) cells: u8,
    pub(super) returned: u8,
    pub(super) frame_len: u16,
}

impl CellHeader {
    pub(super) const ONLY_RETURNED: CellHeader = CellHeader {
        kind: Kind::Returned,
        class: Class::ALL[0],
        from: 0,
        to: 0,
        sequence: 0,
        index: 0,
        cells: 0,
        returned: 0,
        frame_len: 0,
    };

    pub(super) fn encode(&self) -> [u8; LEN] {
        let [from, to] = [self.from, self.to].map(u16::to_be_bytes);
        let [a, b, c, d] = self.sequence.to_be_bytes();
        let [high, low] = self.frame_len.to_be_bytes();
        // Byte 12, the first of the EtherType, is zero, so that no parser takes the packet for MAC control.
        #[rustfmt::skip]
        let fields = [
            self.kind as u8, self.class.get(), from[0], from[1], to[0], to[1], self.index, self.cells,
            a, b, c, d, 0, self.returned, high, low,
        ];
        let mut bytes = [0; LEN];
        bytes[..fields.len()].copy_from_slice(&fields);
        bytes
    }

    pub(super) fn parse(head: &[u8]) -> Option<CellHeader> {
        let head = head.first_chunk::<LEN>()?;
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let kinds = [Kind::Request, Kind::Grant, Kind::Cell, Kind::Returned];
        Some(CellHeader {
            kind: kinds.into_iter().find(|kind| *kind as u8 == head[0])?,
            class: Class::new(head[1])?,
            from: half(2),
            to: half(4),
            sequence: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
            index: head[6],
            cells: head[7],
            returned: head[RETURNED],
            frame_len: half(14),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_cell_header_parses_to_same_header() {
        for kind in [Kind::Request, Kind::Grant, Kind::Cell, Kind::Returned] {
            let header = CellHeader {
                kind,
                class: Class::ALL[7],
                from: 65_000,
                to: 1,
                sequence: u32::MAX - 1,
                index: 254,
                cells: 255,
                returned: 16,
                frame_len: 9_018,
            };
            assert_eq!(CellHeader::parse(&header.encode()), Some(header));
        }
        assert_eq!(CellHeader::parse(&[0; LEN]), None);
        assert_eq!(CellHeader::parse(&[1; LEN - 1]), None);
    }
}

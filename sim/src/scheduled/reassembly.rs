//! Reassembly of frames at an output, which also restores their order: cells and frames overtake each other on the way.

use std::collections::{BTreeMap, VecDeque};

use xoff_wire::units::Class;

use super::header::CellHeader;
use crate::pool::Packet;

#[derive(Debug, Default)]
pub(super) struct Reassembly(BTreeMap<(u16, Class), Arriving>);

#[derive(Debug, Default)]
struct Arriving {
    next: u32,
    frames: VecDeque<Partial>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    arrived: u8,
    cells: u8,
    first: Option<Packet>,
}

pub(super) type Complete = (Packet, u8);

impl Reassembly {
    /// Adds a cell; `first` is the frame's packet if this is its first cell. Yields the complete frames that are next
    /// in order.
    pub(super) fn add(
        &mut self,
        header: &CellHeader,
        first: Option<Packet>,
    ) -> impl Iterator<Item = Complete> {
        let arriving = self.0.entry((header.from, header.class)).or_default();
        let at = header.sequence.wrapping_sub(arriving.next) as usize;
        if arriving.frames.len() <= at {
            arriving.frames.resize(at + 1, Partial::default());
        }
        let partial = &mut arriving.frames[at];
        partial.arrived += 1;
        partial.cells = header.cells;
        partial.first = partial.first.or(first);
        std::iter::from_fn(|| {
            let whole = arriving.frames.front().filter(|partial| partial.arrived == partial.cells)?;
            let complete = (whole.first.filter(|_| whole.cells > 0)?, whole.cells);
            arriving.frames.pop_front();
            arriving.next = arriving.next.wrapping_add(1);
            Some(complete)
        })
    }

    pub(super) fn packets(&self) -> usize {
        let partial = self.0.values().flat_map(|arriving| &arriving.frames);
        partial.filter(|partial| partial.first.is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::Kind;
    use super::*;

    #[test] // proves: sim-scheduled
    fn cells_in_any_order_form_frames_in_order() {
        let header = |from, sequence, index| CellHeader {
            kind: Kind::Cell,
            class: Class::ALL[3],
            from,
            to: 9,
            sequence,
            index,
            cells: 3,
            returned: 0,
            frame_len: 600,
        };
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..100 {
            let frames = [1, 2].into_iter().flat_map(|from| (0..20).map(move |sequence| (from, sequence)));
            let mut cells: Vec<_> = frames
                .flat_map(|(from, sequence)| [0, 1, 2].map(|index| header(from, sequence, index)))
                .collect();
            rng.shuffle(&mut cells);
            let (mut reassembly, mut came) = (Reassembly::default(), [Vec::new(), Vec::new()]);
            for (count, cell) in cells.iter().enumerate() {
                let packet = Packet { number: cell.sequence, len: 600 };
                let whole: Vec<Complete> =
                    reassembly.add(cell, (cell.index == 0).then_some(packet)).collect();
                assert!(whole.iter().all(|(_, cells)| *cells == 3));
                came[usize::from(cell.from - 1)].extend(whole.iter().map(|(packet, _)| packet.number));
                let firsts = cells[..=count].iter().filter(|cell| cell.index == 0).count();
                assert_eq!(reassembly.packets() + came[0].len() + came[1].len(), firsts);
            }
            assert_eq!(came, [(); 2].map(|()| (0..20).collect::<Vec<_>>()));
        }
    }
}

use std::ops::Range;

use xoff_dataplane::frame::CELL;

use crate::cells::{Cells, NONE};

#[derive(Debug)]
pub(crate) struct FreeCells {
    first: u32,
    pub(crate) count: u32,
    pub(crate) control: u32,
}

impl FreeCells {
    pub(crate) fn new(cells: &Cells, own: Range<u32>, control: u32) -> FreeCells {
        let mut free = FreeCells { first: NONE, count: 0, control };
        own.rev().for_each(|cell| free.give(cells, cell));
        free
    }

    #[inline]
    pub(crate) fn for_data(&self) -> u32 {
        self.count.saturating_sub(self.control)
    }

    #[inline]
    pub(crate) fn take(&mut self, cells: &Cells) -> u32 {
        let cell = self.first;
        assert!(cell != NONE, "a free cell must be left");
        self.first = cells.next(cell);
        self.count -= 1;
        cells.link(cell, NONE);
        cell
    }

    #[inline]
    pub(crate) fn give(&mut self, cells: &Cells, first: u32) {
        let mut last = first;
        self.count += 1;
        loop {
            match cells.next(last) {
                NONE => break,
                next => last = next,
            }
            self.count += 1;
        }
        cells.link(last, self.first);
        self.first = first;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) first: u32,
    last: u32,
    pub(crate) len: u32,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain { first: NONE, last: NONE, len: 0 };
}

#[inline]
fn grow(cells: &Cells, free: &mut FreeCells, chain: &mut Chain) -> u32 {
    let cell = free.take(cells);
    match chain.first {
        NONE => chain.first = cell,
        _ => cells.link(chain.last, cell),
    }
    chain.last = cell;
    cell
}

#[inline]
pub(crate) fn append(cells: &Cells, free: &mut FreeCells, chain: &mut Chain, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let filled = chain.len % CELL;
        let cell = if filled == 0 { grow(cells, free, chain) } else { chain.last };
        let here = bytes.len().min((CELL - filled) as usize);
        // SAFETY: the cell was free, and is now in a chain that nobody else knows.
        let room = unsafe { cells.bytes_mut(cell, CELL) };
        room[filled as usize..][..here].copy_from_slice(&bytes[..here]);
        #[allow(clippy::cast_possible_truncation)] // at most a cell
        let added = here as u32;
        chain.len += added;
        bytes = &bytes[here..];
    }
}

#[inline]
pub(crate) fn chain_bytes(cells: &Cells, first: u32, len: u32) -> impl Iterator<Item = (u32, u32)> {
    let (mut next, mut left) = (first, len);
    std::iter::from_fn(move || {
        let cell = (next != NONE && left > 0).then_some(next)?;
        let here = left.min(CELL);
        left -= here;
        next = if left > 0 { cells.next(cell) } else { NONE };
        Some((cell, here))
    })
}

//! Memory pool shared by classes that are lossy at every port.

use xoff_wire::units::Bytes;

use crate::load::{Load, Margin};
use crate::settings::LossyPool;

#[derive(Clone, Copy, Debug)]
pub(super) struct LossyUse {
    pool: LossyPool,
    used: Load,
    own_ports: usize,
    all_ports: usize,
}

impl LossyUse {
    pub(super) fn new(pool: LossyPool, own_ports: usize, all_ports: usize) -> LossyUse {
        LossyUse { pool: pool.part(own_ports, all_ports), used: Load::NONE, own_ports, all_ports }
    }

    pub(super) fn revise(&mut self, pool: LossyPool) {
        *self = LossyUse::new(pool, self.own_ports, self.all_ports);
    }

    /// Returns how much a queue of `held` bytes may take until it is as long as the free pool: half of the difference,
    /// because each byte lengthens the queue and shrinks the pool.
    #[inline]
    pub(super) fn room(&self, held: Bytes) -> Margin {
        let free = self.pool.bytes.saturating_sub(self.used.bytes);
        Margin {
            frames: self.pool.frames.saturating_sub(self.used.frames),
            bytes: Bytes(free.saturating_sub(held).0 / 2),
        }
    }

    #[inline]
    pub(super) fn enter(&mut self, load: Load) {
        self.used += load;
    }

    #[inline]
    pub(super) fn leave(&mut self, load: Load) {
        self.used.bytes -= load.bytes;
        self.used.frames -= load.frames;
    }
}

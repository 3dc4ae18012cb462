//! The pool of queues whose classes are lossy at every port.

use xoff_wire::units::Bytes;

use crate::load::{Load, Margin};
use crate::settings::LossyPool;

/// A worker's part of the pool, and what its queues hold of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LossyUse {
    pool: LossyPool,
    used: Load,
    /// How many ports the worker has, and how many there are.
    own_ports: usize,
    all_ports: usize,
}

impl LossyUse {
    pub(super) fn new(pool: LossyPool, own_ports: usize, all_ports: usize) -> LossyUse {
        LossyUse { pool: pool.part(own_ports, all_ports), used: Load::NONE, own_ports, all_ports }
    }

    /// Another pool from now on, of which nothing is counted yet.
    pub(super) fn revise(&mut self, pool: LossyPool) {
        *self = LossyUse::new(pool, self.own_ports, self.all_ports);
    }

    /// What may enter a queue that holds so much, with no more in it than is free of the pool then: what enters takes as much off
    /// that, too.
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

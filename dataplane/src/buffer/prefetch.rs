//! What frames are counted by is brought near ([`crate::prefetch`]).

use super::Buffer;
use crate::prefetch::prefetch;
use crate::units::{Class, PortId};

impl Buffer {
    /// Where occupancies are, and what kind of memory that is.
    #[inline]
    pub(crate) fn prefetch_itself(&self) {
        prefetch(&self.memory);
        prefetch(&self.ingress);
        prefetch(&self.egress);
        prefetch(&self.counters);
    }

    /// What frames of `class` are counted by at `port`.
    #[inline]
    pub(crate) fn prefetch(&self, port: PortId, class: Class) {
        prefetch(&self.ingress[port.index()][class.index()]);
        prefetch(&self.egress[port.index()][class.index()]);
    }
}

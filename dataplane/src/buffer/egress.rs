//! One egress queue: what it holds, and its own limits.

use crate::settings::ClassSettings;
use crate::units::Bytes;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct EgressQueue {
    pub(super) bytes: Bytes,
    pub(super) max: Bytes,
    pub(super) frames: u32,
    pub(super) frames_max: u32,
    /// Both of them once the queue is empty.
    pub(super) next: (Bytes, u32),
    pub(super) reserve: Bytes,
    /// The class is lossless somewhere, and whatever its ingress lets in has room here: no limit that queues share holds.
    pub(super) exempt: bool,
    /// The class is lossy at every port: what the queue holds is of the lossy pool.
    pub(super) is_lossy: bool,
}

impl EgressQueue {
    pub(super) const fn new(class: &ClassSettings, exempt: bool, is_lossy: bool) -> EgressQueue {
        EgressQueue {
            bytes: Bytes::ZERO,
            max: class.egress_max,
            frames: 0,
            frames_max: class.egress_max_frames,
            next: (class.egress_max, class.egress_max_frames),
            reserve: class.egress_reserve,
            exempt,
            is_lossy,
        }
    }

    /// Other limits from now on. Where it `keeps_room`, what ingress queues have let in under the limits before has it still.
    pub(super) fn revise(&mut self, class: &ClassSettings, exempt: bool, is_lossy: bool, keeps_room: bool) {
        let before = *self;
        let EgressQueue { bytes, frames, .. } = before;
        *self = EgressQueue { bytes, frames, ..EgressQueue::new(class, exempt, is_lossy) };
        if keeps_room {
            self.max = self.max.max(before.max);
            self.frames_max = self.frames_max.max(before.frames_max);
        }
    }

    /// What `size` bytes more take beyond the reserve, where that counts.
    pub(super) fn beyond_reserve_with(&self, size: Bytes) -> Bytes {
        match self.exempt {
            true => Bytes::ZERO,
            false => (self.bytes + size).saturating_sub(self.bytes.max(self.reserve)),
        }
    }
}

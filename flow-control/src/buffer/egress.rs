use xoff_wire::units::Bytes;

use crate::load::Load;
use crate::settings::ClassSettings;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct EgressQueue {
    pub(super) bytes: Bytes,
    pub(super) max: Bytes,
    pub(super) frames: u32,
    pub(super) frames_max: u32,
    /// New limits (bytes, frames) that replace `max` and `frames_max` once the queue is empty.
    pub(super) next: (Bytes, u32),
    pub(super) reserve: Bytes,
    /// True if the shared egress limits do not apply to this queue.
    pub(super) exempt: bool,
    pub(super) is_lossy: bool,
    pooled_bytes: Bytes,
    pooled_frames: u32,
}

const _: () = assert!(size_of::<EgressQueue>() == 64, "an egress queue must fill exactly one cache line");

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
            pooled_bytes: Bytes::ZERO,
            pooled_frames: 0,
        }
    }

    pub(super) const fn pooled(&self) -> Load {
        Load { frames: self.pooled_frames, bytes: self.pooled_bytes }
    }

    #[inline]
    pub(super) fn enter(&mut self, load: Load) -> Load {
        self.bytes += load.bytes;
        self.frames += load.frames;
        if !self.is_lossy {
            return Load::NONE;
        }
        self.pooled_bytes += load.bytes;
        self.pooled_frames += load.frames;
        load
    }

    #[inline]
    pub(super) fn leave(&mut self, load: Load) -> Load {
        self.bytes -= load.bytes;
        self.frames -= load.frames;
        if self.frames == 0 {
            (self.max, self.frames_max) = self.next;
        }
        let back =
            Load { frames: load.frames.min(self.pooled_frames), bytes: load.bytes.min(self.pooled_bytes) };
        self.pooled_bytes -= back.bytes;
        self.pooled_frames -= back.frames;
        back
    }

    pub(super) fn revise(&mut self, class: &ClassSettings, exempt: bool, is_lossy: bool, keeps_room: bool) {
        let before = *self;
        let EgressQueue { bytes, frames, .. } = before;
        *self = EgressQueue { bytes, frames, ..EgressQueue::new(class, exempt, is_lossy) };
        if keeps_room {
            self.max = self.max.max(before.max);
            self.frames_max = self.frames_max.max(before.frames_max);
        }
        let pooled = if is_lossy { Load { frames, bytes } } else { before.pooled() };
        (self.pooled_frames, self.pooled_bytes) = (pooled.frames, pooled.bytes);
    }

    pub(super) fn beyond_reserve_with(&self, size: Bytes) -> Bytes {
        match self.exempt {
            true => Bytes::ZERO,
            false => (self.bytes + size).saturating_sub(self.bytes.max(self.reserve)),
        }
    }
}

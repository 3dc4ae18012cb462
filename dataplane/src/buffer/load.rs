//! What is counted at a time: one frame, or several that count alike.

use crate::units::Bytes;

/// Frames, and their bytes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) frames: u32,
    pub(crate) bytes: Bytes,
}

impl From<Bytes> for Load {
    /// One frame that counts for `size`.
    #[inline]
    fn from(size: Bytes) -> Load {
        Load { frames: 1, bytes: size }
    }
}

impl Load {
    /// Another frame, too.
    #[inline]
    pub(crate) fn add(&mut self, size: Bytes) {
        self.frames += 1;
        self.bytes += size;
    }
}

/// Bytes that are never more than so many frames, however short each is.
pub(super) fn at_most(frames: u32) -> Bytes {
    Bytes(u64::from(frames) * Bytes::of_frame(0).0)
}

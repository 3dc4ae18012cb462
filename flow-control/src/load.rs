//! What is counted at a time: one frame, or several that count alike.

use derive_more::{Add, AddAssign};
use xoff_wire::units::Bytes;

/// Frames, and their bytes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Add, AddAssign)]
pub struct Load {
    /// Number of frames.
    pub frames: u32,
    /// Bytes of all frames together.
    pub bytes: Bytes,
}

impl Load {
    /// Nothing.
    pub const NONE: Load = Load { frames: 0, bytes: Bytes::ZERO };

    /// What it takes of a line, if its bytes are those of frames ([`Bytes::of_frame`]).
    #[inline]
    pub const fn on_line(self) -> Bytes {
        Bytes(self.bytes.0 + self.frames as u64 * Bytes::BETWEEN_FRAMES)
    }
}

impl From<Bytes> for Load {
    /// One frame that counts for `size`.
    #[inline]
    fn from(size: Bytes) -> Load {
        Load { frames: 1, bytes: size }
    }
}

/// The most that may be counted, frame by frame, before something has to be decided. What it allows is so in
/// whichever order the frames come, and for each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margin {
    /// So many frames.
    pub frames: u32,
    /// So many bytes of them together.
    pub bytes: Bytes,
}

impl Margin {
    /// Something is to be decided about the next frame.
    pub const NONE: Margin = Margin { frames: 0, bytes: Bytes::ZERO };
    /// Nothing is, however many come.
    pub const ALL: Margin = Margin { frames: u32::MAX, bytes: Bytes::MAX };

    /// So many bytes, in however many frames.
    #[inline]
    #[must_use]
    pub const fn of(bytes: Bytes) -> Margin {
        Margin { frames: u32::MAX, bytes }
    }

    /// What both allow.
    #[inline]
    #[must_use]
    pub fn min(self, other: Margin) -> Margin {
        Margin { frames: self.frames.min(other.frames), bytes: self.bytes.min(other.bytes) }
    }

    /// Bytes that it allows, however short each frame is.
    #[inline]
    #[must_use]
    pub fn in_bytes(&self) -> Bytes {
        self.bytes.min(Bytes(u64::from(self.frames) * Bytes::of_frame(0).0))
    }

    #[inline]
    pub(crate) fn allows(&self, load: Load) -> bool {
        load.frames <= self.frames && load.bytes <= self.bytes
    }
}

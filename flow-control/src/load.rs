//! Units of counting: one frame, or several frames counted at once.

use derive_more::{Add, AddAssign};
use xoff_wire::units::Bytes;

/// Number of frames with their total bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Add, AddAssign)]
pub struct Load {
    /// Number of frames.
    pub frames: u32,
    /// Total bytes of the frames.
    pub bytes: Bytes,
}

impl Load {
    /// No frames.
    pub const NONE: Load = Load { frames: 0, bytes: Bytes::ZERO };

    /// Returns the bytes that the load takes of a line, if its bytes are those of frames ([`Bytes::of_frame`]).
    #[inline]
    pub const fn on_line(self) -> Bytes {
        Bytes(self.bytes.0 + self.frames as u64 * Bytes::BETWEEN_FRAMES)
    }
}

impl From<Bytes> for Load {
    #[inline]
    fn from(size: Bytes) -> Load {
        Load { frames: 1, bytes: size }
    }
}

/// Load that may be counted, frame by frame and in any order, before a decision is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margin {
    /// Number of frames.
    pub frames: u32,
    /// Total bytes of the frames.
    pub bytes: Bytes,
}

impl Margin {
    /// Empty margin: the next frame needs a decision.
    pub const NONE: Margin = Margin { frames: 0, bytes: Bytes::ZERO };
    /// Unlimited margin: no number of frames needs a decision.
    pub const ALL: Margin = Margin { frames: u32::MAX, bytes: Bytes::MAX };

    /// Returns a margin of so many bytes in any number of frames.
    #[inline]
    #[must_use]
    pub const fn of(bytes: Bytes) -> Margin {
        Margin { frames: u32::MAX, bytes }
    }

    /// Returns the smaller margin in both units.
    #[inline]
    #[must_use]
    pub fn min(self, other: Margin) -> Margin {
        Margin { frames: self.frames.min(other.frames), bytes: self.bytes.min(other.bytes) }
    }

    /// Returns the bytes that the margin allows even for the shortest frames.
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

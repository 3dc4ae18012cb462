//! Frame and byte counts.

use derive_more::{Add, AddAssign};
use xoff_wire::units::Bytes;

/// Number of frames, and the sum of their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Add, AddAssign)]
#[allow(missing_docs)] // the names say it
pub struct Load {
    pub frames: u32,
    pub bytes: Bytes,
}

impl Load {
    /// Load of no frames.
    pub const NONE: Load = Load { frames: 0, bytes: Bytes::ZERO };

    /// Returns the layer-1 bytes: `bytes`, which include padding and FCS, plus each frame's preamble and gap.
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

/// Frames and bytes that may still be counted before a limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Margin {
    pub frames: u32,
    pub bytes: Bytes,
}

impl Margin {
    /// Margin of no frames and no bytes: the next byte may reach a limit.
    pub const NONE: Margin = Margin { frames: 0, bytes: Bytes::ZERO };
    /// Margin without a limit.
    pub const ALL: Margin = Margin { frames: u32::MAX, bytes: Bytes::MAX };

    /// Returns a margin that limits bytes but not frames.
    #[inline]
    #[must_use]
    pub const fn of(bytes: Bytes) -> Margin {
        Margin { frames: u32::MAX, bytes }
    }

    /// Returns the smaller number of frames, and the smaller number of bytes, of two margins.
    #[inline]
    #[must_use]
    pub fn min(self, other: Margin) -> Margin {
        Margin { frames: self.frames.min(other.frames), bytes: self.bytes.min(other.bytes) }
    }

    /// Returns how many bytes fit even if every frame has minimum size.
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

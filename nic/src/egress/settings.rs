use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use super::Leaf;
use crate::config::NicSettings;

/// Bytes that the shaper counts besides each frame: FCS, preamble, gap, and a VLAN tag, which the kernel may keep in metadata.
pub(super) const OVERHEAD: u16 = 4 + 8 + 12 + 4;
const HEADERS: u32 = 14 + 8;

#[derive(Clone, Debug, PartialEq)]
pub struct EgressSettings {
    pub nic: NicSettings,
    /// Layer-1 bytes that the shaper may send at once after a late timer. The peer's headroom covers them.
    pub burst: Bytes,
    pub limit_lossless: u32,
    pub limit_lossy: u32,
    pub leaf: Option<Leaf>,
}

impl EgressSettings {
    /// Share of the line's rate at which the shaper sends. The unused 1 % covers clock differences (0.01 %), and drains the device's ring:
    /// after a timer late by t, a burst adds frames for the time t, and draining them takes up to 100 t.
    pub const SHARE: f64 = 0.99;
    /// Default of `limit_lossless` in bytes: 300 default send buffers of Linux, or 65 soft-RoCE frames of 4 KiB for each of 250 queue
    /// pairs.
    pub const LIMIT_LOSSLESS: u32 = 64 << 20;
    /// Default of `limit_lossy` in bytes: more than Linux's usual 1,000 frames.
    pub const LIMIT_LOSSY: u32 = 4 << 20;

    #[must_use]
    pub fn new(nic: NicSettings) -> EgressSettings {
        EgressSettings {
            burst: EgressSettings::burst_at(nic.speed),
            nic,
            limit_lossless: EgressSettings::LIMIT_LOSSLESS,
            limit_lossy: EgressSettings::LIMIT_LOSSY,
            leaf: None,
        }
    }

    /// Returns the maximum layer-1 bytes that leave after a class is stopped: a frame in the driver, and the shaper's burst. The peer's
    /// headroom covers them.
    #[must_use]
    pub fn overrun(&self, mtu: u32) -> Bytes {
        overrun(self.burst, longest_at(mtu))
    }

    /// Returns the bytes that the line carries in 100 us, the worst timer delay of an idle machine; at least two frames.
    #[must_use]
    pub fn burst_at(speed: BitRate) -> Bytes {
        const TWO_FRAMES: Bytes = Bytes(2 * 1542);
        speed.bytes_in(Nanos::from_micros(100)).max(TWO_FRAMES)
    }

    pub(super) fn limit(&self, class: Class) -> u32 {
        if self.nic.lossless.contains(class) { self.limit_lossless } else { self.limit_lossy }
    }

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // rates are below 2^53
    pub(super) fn shaped_bytes_per_second(&self) -> u64 {
        ((self.nic.speed.bits_per_second() as f64 * EgressSettings::SHARE / 8.0) as u64).max(1)
    }
}

pub(super) fn longest_at(mtu: u32) -> u32 {
    mtu.saturating_add(HEADERS)
}

pub(super) fn overrun(burst: Bytes, longest: u32) -> Bytes {
    let longest = Bytes(longest.into());
    burst.max(longest) + longest + Bytes(OVERHEAD.into())
}

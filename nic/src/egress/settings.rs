//! What the queues of a host are to be.

use xoff_dataplane::units::{BitRate, Bytes, Class, Nanos};

use super::Leaf;
use crate::config::NicSettings;

/// What a frame costs beyond its bytes: FCS, preamble and gap, and a tag, which may not be in it.
pub(super) const OVERHEAD: u16 = 4 + 8 + 12 + 4;
/// Bytes beyond an MTU: Ethernet's header and two tags.
const HEADERS: u32 = 14 + 8;

/// What a host sends by.
#[derive(Clone, Debug, PartialEq)]
pub struct EgressSettings {
    /// The device, its line rate, and the classes of frames.
    pub nic: NicSettings,
    /// How far the shaper may be ahead of its rate, layer 1: what a late timer lets it catch up. It is also what may leave
    /// faster than the line, so that it is part of what a peer's headroom holds.
    pub burst: Bytes,
    /// Most bytes that wait in a lossless class; see [`EgressSettings::LIMIT_LOSSLESS`].
    pub limit_lossless: u32,
    /// Most bytes that wait in a lossy class; see [`EgressSettings::LIMIT_LOSSY`].
    pub limit_lossy: u32,
    /// Which kind of queue can be stopped; `None`: the best that the kernel has.
    pub leaf: Option<Leaf>,
}

impl EgressSettings {
    /// The part of the line that is used, 99 %: what two clocks may differ by is a hundredth of that, and what a timer was late by
    /// leaves the device's ring within a hundred times as long.
    pub const SHARE: f64 = 0.99;
    /// 64 MiB: three hundred sockets with Linux's default send buffer (208 KiB), or the 65 frames of 4 KiB each that
    /// soft-RoCE keeps waiting for 250 queue pairs. It takes memory only as far as somebody fills it.
    pub const LIMIT_LOSSLESS: u32 = 64 << 20;
    /// 4 MiB: what an ordinary queue of a thousand frames holds, and more where they are small.
    pub const LIMIT_LOSSY: u32 = 4 << 20;

    /// The defaults of all but what the agent was told.
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

    /// Most bytes (layer 1) that still leave after [`Egress::stop`](super::Egress::stop) has returned, at a device of that MTU: the frame
    /// in the driver's hands, and what the shaper was ahead of the line. What a peer's headroom holds beyond the time that stopping takes.
    #[must_use]
    pub fn overrun(&self, mtu: u32) -> Bytes {
        overrun(self.burst, longest_at(mtu))
    }

    /// The default burst: 100 us of the line, as late as a timer of an idle machine is at worst, and two frames at least.
    #[must_use]
    pub fn burst_at(speed: BitRate) -> Bytes {
        const TWO_FRAMES: Bytes = Bytes(2 * 1542);
        speed.bytes_in(Nanos::from_micros(100)).max(TWO_FRAMES)
    }

    pub(super) fn limit(&self, class: Class) -> u32 {
        if self.nic.lossless.contains(class) { self.limit_lossless } else { self.limit_lossy }
    }

    /// What the shaper lets through, in bytes a second.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // rates are below 2^53
    pub(super) fn shaped_bytes_per_second(&self) -> u64 {
        ((self.nic.speed.bits_per_second() as f64 * EgressSettings::SHARE / 8.0) as u64).max(1)
    }
}

/// The longest frame of an MTU.
pub(super) fn longest_at(mtu: u32) -> u32 {
    mtu.saturating_add(HEADERS)
}

/// See [`EgressSettings::overrun`].
pub(super) fn overrun(burst: Bytes, longest: u32) -> Bytes {
    let longest = Bytes(longest.into());
    burst.max(longest) + longest + Bytes(OVERHEAD.into())
}

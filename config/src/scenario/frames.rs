//! How long the frames are in which hosts send data: those of RoCEv2, whatever the transport.

use xoff_dataplane::units::Bytes;

/// What a frame has besides its payload, in bytes without FCS: Ethernet 14, IPv4 20, UDP 8, base transport header 12, invariant CRC 4.
const AROUND: u32 = 58;
/// `hosts.payload`: the most payload of a frame where the MTU is 1500.
pub const PAYLOAD_MAX: u32 = 1_456;

/// The length of a frame with so much payload, in bytes without FCS: that is padded to four bytes, and is not less.
#[must_use]
pub const fn frame_len(payload: u32) -> u32 {
    let padded = payload.next_multiple_of(4);
    AROUND + if padded < 4 { 4 } else { padded }
}

/// The most payload of a frame that is no longer than this, without FCS.
pub(super) const fn payload_max(len: u32) -> u32 {
    len.saturating_sub(AROUND) / 4 * 4
}

/// The longest frame of hosts that send so much payload in one, FCS included.
pub(super) fn longest(payload: u32) -> Bytes {
    Bytes::of_frame(frame_len(payload))
}

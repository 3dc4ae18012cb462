//! Frame lengths of RoCEv2, which all transports use.

/// Bytes around the payload without FCS: Ethernet 14, IPv4 20, UDP 8, base transport header 12, invariant CRC 4.
const AROUND: u32 = 58;
/// Maximum payload in bytes at an MTU of 1500.
pub const PAYLOAD_MAX: u32 = 1_456;
/// Maximum payload of a flow in bytes: its frames are counted in 32 bits.
pub const FLOW_BYTES_MAX: u64 = 1 << 37;

/// Returns the frame length in bytes without FCS. Payload is padded to multiples of four bytes, at least four.
#[must_use]
pub const fn frame_len(payload: u32) -> u32 {
    let padded = payload.next_multiple_of(4);
    AROUND + if padded < 4 { 4 } else { padded }
}

/// Returns the maximum payload of a frame of `len` bytes without FCS.
#[must_use]
pub const fn payload_max(len: u32) -> u32 {
    len.saturating_sub(AROUND) / 4 * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_lengths_match_rocev2() {
        assert_eq!([0, 1, 4, 5, PAYLOAD_MAX].map(frame_len), [62, 62, 62, 66, 1_514]);
    }
}

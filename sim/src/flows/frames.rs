use xoff_host::tcp::wire;

/// Bytes of a RoCEv2 frame besides payload and FCS: Ethernet 14, IPv4 20, UDP 8, base transport header 12, invariant
/// CRC 4.
const AROUND: u32 = 58;
/// Maximum RoCEv2 payload in bytes at an MTU of 1500.
pub const PAYLOAD_MAX: u32 = 1_456;

/// Headers and maximum payload of a flow's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Maximum payload of a frame in bytes.
    pub payload_max: u32,
    is_tcp: bool,
}

impl Framing {
    /// Returns the framing of RoCEv2, which flows with [`Transport::LineRate`](super::Transport::LineRate) also use.
    #[must_use]
    pub const fn roce(payload_max: u32) -> Framing {
        Framing { payload_max, is_tcp: false }
    }

    /// Returns the framing of TCP segments with timestamps.
    #[must_use]
    pub const fn tcp(payload_max: u32) -> Framing {
        Framing { payload_max, is_tcp: true }
    }

    /// Returns the length of a data frame with this payload, in bytes without FCS.
    #[inline]
    #[must_use]
    pub const fn frame_len(self, payload: u32) -> u32 {
        if self.is_tcp { wire::AROUND + payload } else { frame_len(payload) }
    }

    /// Returns the length of the longest data frame in bytes without FCS.
    #[must_use]
    pub const fn longest(self) -> u32 {
        self.frame_len(self.payload_max)
    }

    /// Returns the maximum payload of a frame of `len` bytes without FCS.
    #[must_use]
    pub const fn payload_in(self, len: u32) -> u32 {
        if self.is_tcp { len.saturating_sub(wire::AROUND) } else { len.saturating_sub(AROUND) / 4 * 4 }
    }
}

/// Returns the length of a RoCEv2 frame in bytes without FCS. Payload is padded to a multiple of four, at least four.
#[must_use]
pub const fn frame_len(payload: u32) -> u32 {
    let padded = payload.next_multiple_of(4);
    AROUND + if padded < 4 { 4 } else { padded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_lengths_match_rocev2_and_tcp() {
        assert_eq!([0, 1, 4, 5, PAYLOAD_MAX].map(frame_len), [62, 62, 62, 66, 1_514]);
        let tcp = Framing::tcp(1_448);
        assert_eq!([0, 1, 1_448].map(|payload| tcp.frame_len(payload)), [66, 67, 1_514]);
        assert_eq!([Framing::roce(0), tcp].map(|framing| framing.payload_in(1_514)), [1_456, 1_448]);
    }
}

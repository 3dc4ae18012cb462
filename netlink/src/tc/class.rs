use netlink_packet_core::NLM_F_CREATE;

use super::node::Node;
use super::request::{Place, Request, description};
use super::ticks;
use crate::attributes::{Attributes, find, long, word};

const RTM_NEWTCLASS: u16 = 40;
const RTM_DELTCLASS: u16 = 41;

const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Rate in bytes per second; not zero.
    pub bytes_per_second: u64,
    /// Bytes charged for each frame in addition to its length.
    pub overhead: u16,
    /// Minimum bytes charged for each frame, overhead included. Linux before 5.16 ignores the minimum.
    pub least: u16,
}

impl Rate {
    /// Returns the nanoseconds that `bytes` take at this rate, without overhead.
    #[must_use]
    pub fn nanos(self, bytes: u64) -> u64 {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

pub(crate) struct RateBytes(pub(crate) [u8; RateBytes::LEN]);

impl RateBytes {
    pub(crate) const LEN: usize = 12;
    /// Link layer TC_LINKLAYER_ETHERNET, for which the kernel computes sending times without a table.
    const ETHERNET: u8 = 1;

    /// Bytes of struct tc_ratespec that contain the minimum frame size; Linux before 5.16 reports them as 0.
    const LEAST: std::ops::Range<usize> = 6..8;

    pub(crate) fn agrees_with(self, actual: &[u8]) -> bool {
        let RateBytes(mut known) = self;
        if actual.get(RateBytes::LEAST) == Some(&[0, 0]) {
            known[RateBytes::LEAST].fill(0);
        }
        actual == known
    }

    pub(crate) fn of(rate: Rate) -> RateBytes {
        let [o0, o1] = rate.overhead.to_ne_bytes();
        let [l0, l1] = rate.least.to_ne_bytes();
        // The rate field has only 32 bits. For a higher rate it holds its maximum, and a 64-bit attribute holds the
        // rate.
        let [r0, r1, r2, r3] = u32::try_from(rate.bytes_per_second).unwrap_or(u32::MAX).to_ne_bytes();
        RateBytes([0, RateBytes::ETHERNET, o0, o1, 0, 0, l0, l1, r0, r1, r2, r3])
    }
}

/// HTB class. It may always send at `rate`, and up to `ceil` by borrowing from its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClass {
    pub rate: Rate,
    pub ceil: Rate,
    /// Maximum burst above `rate`, in bytes.
    pub burst: u32,
    /// Maximum burst above `ceil`, in bytes.
    pub ceil_burst: u32,
    /// Priority for borrowing, from 0 (served first) to 7.
    pub priority: u32,
    /// Bytes that the class may send in one turn, among classes of equal priority.
    pub quantum: u32,
}

impl HtbClass {
    /// Builds a request to create or change the class; its queue stays.
    #[must_use]
    pub fn put(&self, place: Place) -> Request {
        let HtbClass { rate, ceil, priority, quantum, .. } = *self;
        let [depth, ceil_depth] = self.depths();
        let mut parameters = [RateBytes::of(rate).0, RateBytes::of(ceil).0].concat();
        parameters.extend([depth, ceil_depth, quantum, 0, priority].map(u32::to_ne_bytes).concat());
        let options = Attributes::default()
            .bytes(TCA_HTB_PARMS, &parameters)
            .u64(TCA_HTB_RATE64, rate.bytes_per_second)
            .u64(TCA_HTB_CEIL64, ceil.bytes_per_second);
        let what = description("create or change", "htb class", place);
        Request::new(RTM_NEWTCLASS, NLM_F_CREATE, place, 0, Some(("htb", &options)), what)
    }

    fn depths(&self) -> [u32; 2] {
        [(self.rate, self.burst), (self.ceil, self.ceil_burst)]
            .map(|(rate, burst)| ticks(rate.nanos(burst.into())).max(1))
    }

    /// Returns whether the kernel's `node` has these settings. The quantum is not compared, because the kernel never
    /// changes it in a class with children.
    #[must_use]
    pub fn agrees_with(&self, node: &Node) -> bool {
        const DEPTHS: usize = 2 * RateBytes::LEN;
        let actual = find(&node.options, TCA_HTB_PARMS).unwrap_or_default();
        let rate_is = |rate: Rate, at: usize, beyond_32_bits: u16| {
            let actual_beyond = find(&node.options, beyond_32_bits).map(long);
            RateBytes::of(rate).agrees_with(actual.get(at..at + RateBytes::LEN).unwrap_or_default())
                && actual_beyond.is_none_or(|actual| actual == rate.bytes_per_second)
        };
        let number = |index: usize| word(actual.get(DEPTHS..).unwrap_or_default(), index);
        node.kind == "htb"
            && rate_is(self.rate, 0, TCA_HTB_RATE64)
            && rate_is(self.ceil, RateBytes::LEN, TCA_HTB_CEIL64)
            && [number(0), number(1)] == self.depths()
            && number(4) == self.priority
    }

    #[must_use]
    pub fn delete(place: Place) -> Request {
        Request::new(RTM_DELTCLASS, 0, place, 0, None, description("remove", "class", place))
    }
}

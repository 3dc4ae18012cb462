use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};

use super::class::{Rate, RateBytes};
use super::node::Node;
use super::request::{Place, Request, description};
use super::ticks;
use crate::attributes::{Attributes, find, long, word};

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;

const TCA_HTB_INIT: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// Hierarchical token bucket ([`crate::tc::HtbClass`]), which sends frames without a class before all others.
    Htb,
    Tbf {
        bucket: Bucket,
        limit: u32,
    },
    /// Queue that blocks and releases its frames on command. A new plug is blocked.
    Plug(Plug),
    /// Attachment point of filters for received and sent frames.
    Clsact,
    Other {
        kind: String,
        options: Vec<u8>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// Sends frames at `rate`, in bursts of up to `burst` bytes. Superframes (joined segments) longer than `burst` are
    /// segmented; other longer frames are dropped.
    Open {
        rate: Rate,
        /// Depth of the bucket and maximum frame length, in bytes.
        burst: u32,
    },
    /// Sends no frame, because each frame costs more than the bucket holds. Linux before 5.16 still sends `burst`
    /// bytes, then a few bytes per second.
    Shut {
        /// Depth of the bucket and maximum frame length, in bytes; below 65,535.
        burst: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plug {
    Block,
    Release,
    /// Sets the maximum number of queued bytes. A new plug needs this command.
    Limit(u32),
}

impl Qdisc {
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Qdisc::Htb => "htb",
            Qdisc::Tbf { .. } => "tbf",
            Qdisc::Plug(_) => "plug",
            Qdisc::Clsact => "clsact",
            Qdisc::Other { kind, .. } => kind,
        }
    }

    /// Builds a request to add this qdisc, which the kernel refuses if the place is occupied.
    #[must_use]
    pub fn add(&self, place: Place) -> Request {
        self.message("add", NLM_F_CREATE | NLM_F_EXCL, place)
    }

    /// Builds a request to change a qdisc of the same kind and handle at `place`, or to replace another one, whose
    /// frames are lost.
    #[must_use]
    pub fn replace(&self, place: Place) -> Request {
        self.message("create or replace", NLM_F_CREATE | NLM_F_REPLACE, place)
    }

    /// Builds a request to change a qdisc of this kind and handle; its queued frames stay.
    #[must_use]
    pub fn change(&self, place: Place) -> Request {
        self.message("change", 0, place)
    }

    /// Builds a request to remove a queueing discipline; the kernel then installs its default.
    #[must_use]
    pub fn delete(place: Place) -> Request {
        let what = description("remove", "the queueing discipline", place);
        Request::new(RTM_DELQDISC, 0, place, 0, None, what)
    }

    /// Returns whether the kernel's `node` has these settings. A plug's state and a tbf's maximum frame length are not
    /// compared.
    #[must_use]
    pub fn agrees_with(&self, node: &Node) -> bool {
        let is_it = match *self {
            Qdisc::Tbf { bucket, limit } => bucket.agrees_with(limit, &node.options),
            Qdisc::Htb | Qdisc::Plug(_) | Qdisc::Clsact => true,
            Qdisc::Other { ref options, .. } => *options == node.options,
        };
        is_it && node.kind == self.kind()
    }

    fn message(&self, verb: &str, flags: u16, place: Place) -> Request {
        let what = description(verb, self.kind(), place);
        let options = self.options();
        Request::new(RTM_NEWQDISC, flags, place, 0, Some((self.kind(), &options)), what)
    }

    fn options(&self) -> Attributes {
        let plain = |words: &[u32]| Attributes::plain(words);
        match *self {
            Qdisc::Htb => {
                let [version, rate_to_quantum, no_default, debug, direct] = [3, 10, 0, 0, 0];
                let init = [version, rate_to_quantum, no_default, debug, direct];
                Attributes::default().words(TCA_HTB_INIT, &init)
            }
            Qdisc::Tbf { bucket, limit } => bucket.options(limit),
            Qdisc::Plug(Plug::Block) => plain(&[0, 0]),
            Qdisc::Plug(Plug::Release) => plain(&[2, 0]),
            Qdisc::Plug(Plug::Limit(bytes)) => plain(&[3, bytes]),
            Qdisc::Clsact => Attributes::default(),
            Qdisc::Other { ref options, .. } => Attributes::read(options),
        }
    }
}

impl Bucket {
    fn rate(self) -> Rate {
        match self {
            Bucket::Open { rate, .. } => rate,
            // The minimum frame size exceeds the bucket's depth, so no frame fits. The kernel derives the maximum frame
            // length from the depth, which it stores as sending time, at most 4.3 s (2^32 ns): hence 4 s for `burst`
            // bytes.
            Bucket::Shut { burst } => {
                Rate { bytes_per_second: u64::from(burst).div_ceil(4).max(1), overhead: 0, least: u16::MAX }
            }
        }
    }

    fn agrees_with(self, limit: u32, options: &[u8]) -> bool {
        let actual = find(options, TCA_TBF_PARMS).unwrap_or_default();
        let (rate, rest) = actual.split_at_checked(RateBytes::LEN).unwrap_or_default();
        let beyond_32_bits = find(options, TCA_TBF_RATE64).map(long);
        RateBytes::of(self.rate()).agrees_with(rate)
            && beyond_32_bits.is_none_or(|actual| actual == self.rate().bytes_per_second)
            && rest.get(..RateBytes::LEN) == Some(&[0; RateBytes::LEN]) // no peak rate
            && word(rest, RateBytes::LEN / 4) == limit
    }

    fn options(self, limit: u32) -> Attributes {
        let parameters = |rate: Rate, depth: u32| {
            let mut parameters = RateBytes::of(rate).0.to_vec();
            parameters.extend([0; RateBytes::LEN]);
            parameters.extend([limit, depth, 0].map(u32::to_ne_bytes).concat());
            parameters
        };
        match self {
            Bucket::Open { rate, burst } => {
                let parameters = parameters(rate, ticks(rate.nanos(burst.into())));
                Attributes::default()
                    .bytes(TCA_TBF_PARMS, &parameters)
                    .u64(TCA_TBF_RATE64, rate.bytes_per_second)
                    .u32(TCA_TBF_BURST, burst)
            }
            Bucket::Shut { burst } => {
                let rate = self.rate();
                let depth = ticks((u64::from(burst) + 1) * 1_000_000_000 / rate.bytes_per_second);
                Attributes::default().bytes(TCA_TBF_PARMS, &parameters(rate, depth))
            }
        }
    }
}

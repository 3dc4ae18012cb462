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
    /// Hierarchical token bucket ([`crate::tc::HtbClass`]), which sends frames without a class first.
    Htb,
    /// Token bucket filter.
    Tbf {
        bucket: Bucket,
        /// Maximum number of queued bytes.
        limit: u32,
    },
    /// Queue that commands block and release. A new one is blocked.
    Plug(Plug),
    /// Attachment point of filters, both for received frames and for frames on their way to the device's queues.
    Clsact,
    Other {
        kind: String,
        /// Options of this queueing discipline, in the kernel's encoding.
        options: Vec<u8>,
    },
}

/// Rule by which a [`Qdisc::Tbf`] sends frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// Sends frames at `rate`, with bursts of up to `burst` bytes. The kernel drops frames longer than `burst`, but
    /// segments superframes.
    Open {
        rate: Rate,
        /// Depth of the bucket and maximum frame length, in bytes.
        burst: u32,
    },
    /// Sends no frame, because each frame costs more than the bucket holds. Linux before 5.16 sends `burst` bytes, then
    /// a few bytes per second.
    Shut {
        /// Maximum frame length in bytes; below 65,535.
        burst: u32,
    },
}

/// Command to a [`Qdisc::Plug`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plug {
    Block,
    /// Releases all queued and future frames.
    Release,
    /// Sets the maximum number of queued bytes; a new plug requires this command.
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

    /// Builds a request to add the queueing discipline. The kernel refuses it if the place is occupied.
    #[must_use]
    pub fn add(&self, place: Place) -> Request {
        self.message("add", NLM_F_CREATE | NLM_F_EXCL, place)
    }

    /// Builds a request to create the queueing discipline. One of the same kind and handle is changed; any other is
    /// replaced, and its frames are lost.
    #[must_use]
    pub fn replace(&self, place: Place) -> Request {
        self.message("create or replace", NLM_F_CREATE | NLM_F_REPLACE, place)
    }

    /// Builds a request to change an existing queueing discipline of this kind and handle. Its queued frames are kept.
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

    /// Returns whether `node` has the settings of this queueing discipline, except a plug's state and a tbf's maximum
    /// frame length.
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
            // A huge minimum frame size blocks every frame, because the kernel ignores it when it derives the maximum
            // frame length from the depth. The rate is one at which `burst` bytes take 4 s, because the kernel counts
            // at most 2^32 ns (4.3 s) of depth.
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

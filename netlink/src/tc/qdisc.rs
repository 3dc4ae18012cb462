//! Queueing disciplines, and the messages that make, change and remove them.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};

use super::class::{Rate, RateBytes};
use super::node::Node;
use super::request::{Place, Request, told};
use super::ticks;
use crate::attributes::{Attributes, find, long, word};

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;

const TCA_HTB_INIT: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Qdisc {
    /// Hierarchical token buckets; see [`crate::tc::HtbClass`]. Frames that no filter has a class for leave at once, before all others.
    Htb,
    /// A token bucket.
    Tbf {
        /// Rate and depth.
        bucket: Bucket,
        /// Most bytes that wait.
        limit: u32,
    },
    /// A queue that is stopped and started by [`Qdisc::Plug`]'s own words. A new one is stopped.
    Plug(Plug),
    /// Where filters of a device hang that are asked before its queues, and on receipt; goes below
    /// [`crate::tc::Handle::CLSACT`].
    Clsact,
    /// Any other, with its options as the kernel takes them.
    Other {
        /// Its name.
        kind: String,
        /// What its options attribute has.
        options: Vec<u8>,
    },
}

/// What a [`Qdisc::Tbf`] lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// Frames at a rate, and no more than `burst` bytes ahead of it. A frame longer than that is
    /// dropped, a superframe is cut.
    Open {
        /// The rate.
        rate: Rate,
        /// Depth of the bucket in bytes, and longest frame.
        burst: u32,
    },
    /// No frame, however long it is waited for: each costs more than the bucket holds. Before Linux 5.16, which does not know a
    /// least size of frames, a few bytes a second, and one bucket of `burst` bytes first.
    Shut {
        /// Longest frame that may wait; less than 65,535 bytes.
        burst: u32,
    },
}

/// What a [`Qdisc::Plug`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plug {
    /// To stop.
    Block,
    /// To let go what waits and all that comes.
    Release,
    /// Most bytes that wait. A new plug is made with it.
    Limit(u32),
}

impl Qdisc {
    /// Its name.
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

    /// To make it where nobody has put anything yet. It is refused where somebody has.
    #[must_use]
    pub fn add(&self, place: Place) -> Request {
        self.message("add", NLM_F_CREATE | NLM_F_EXCL, place)
    }

    /// To make it in the place of whatever is there. What waits in that is lost; one of the same kind and number is changed.
    #[must_use]
    pub fn replace(&self, place: Place) -> Request {
        self.message("put", NLM_F_CREATE | NLM_F_REPLACE, place)
    }

    /// To change one of the same kind and number, and nothing that waits in it.
    #[must_use]
    pub fn change(&self, place: Place) -> Request {
        self.message("change", 0, place)
    }

    /// To take away what is there. A device has its default again, a class a pfifo.
    #[must_use]
    pub fn delete(place: Place) -> Request {
        let what = told("remove", "the queueing discipline", place);
        Request::new(RTM_DELQDISC, 0, place, 0, None, what)
    }

    /// Whether the kernel shows this queueing discipline as it was made, or changed to be. A plug does not show whether it
    /// is stopped, nor a tbf its longest frame.
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
        let what = told(verb, self.kind(), place);
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
            // The kernel computes the longest frame from the depth, of which it counts 2^32 ns at most there, and
            // without the least size: the slowest rate at which `burst` bytes take 4 s.
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

    /// struct tc_tbf_qopt: rate, peak rate, limit, depth, depth at the peak rate.
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

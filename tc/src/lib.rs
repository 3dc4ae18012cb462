//! Linux traffic control: queueing disciplines, classes and filters, asked for over rtnetlink.
//!
//! ```text
//!   Qdisc, Class, Filter --add, change, delete--> Request --Tc::send--> the kernel's yes, or its words
//!                                                           Tc::qdiscs, Tc::filters --> Node
//! ```
//!
//! A [`Request`] is a finished message: who has to be quick makes it beforehand, and [`Tc::send`] then is one
//! system call to send it and one to read the kernel's answer, without allocation. A [`Tc`] is one blocking
//! socket, about the network namespace of the thread that opened it. Nothing here knows what the queues are
//! for; what the kernel calls things is kept (`htb`, `tbf`, `plug`), and its words are the text of an error.

#![forbid(unsafe_code)]

mod attributes;
mod bpf;
mod class;
mod filter;
mod node;
mod qdisc;
mod request;
mod socket;

pub use bpf::BpfInstruction;
pub use class::{HtbClass, Rate};
pub use filter::{Answer, Filter};
pub use node::{Node, Statistics};
pub use qdisc::{Bucket, Plug, Qdisc};
pub use request::{Handle, Place, Request};
pub use socket::{Tc, TcError};

/// Nanoseconds of one tick, in which the kernel takes the depths of buckets.
const TICK_NANOS: u64 = 64;

/// A span of time in ticks, rounded up; the longest that there is where it is longer.
fn ticks(nanos: u64) -> u32 {
    u32::try_from(nanos.div_ceil(TICK_NANOS)).unwrap_or(u32::MAX)
}

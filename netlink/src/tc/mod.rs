//! Linux traffic control: queueing disciplines, classes and filters.
//!
//! ```text
//!   Qdisc, Class, Filter --add, change, delete--> Request --Conversation::send--> accepted, or refused in the kernel's words
//!                                                           Conversation::qdiscs, filters --> Node
//! ```
//!
//! A [`Request`] is a finished message: whoever has to be quick makes it beforehand, and [`Conversation::send`](crate::Conversation::send)
//! then is one system call to send it and one to read the kernel's answer, without allocation. Nothing here knows what the queues are
//! for. The kernel's names are kept (`htb`, `tbf`, `plug`).

mod bpf;
mod class;
mod exchange;
mod filter;
mod node;
mod qdisc;
mod request;

pub use bpf::BpfInstruction;
pub use class::{HtbClass, Rate};
pub use exchange::TcError;
pub use filter::{Answer, Filter};
pub use node::{Node, Statistics};
pub use qdisc::{Bucket, Plug, Qdisc};
pub use request::{Handle, Place, Request};

/// Nanoseconds of one tick, in which the kernel takes the depths of buckets.
const TICK_NANOS: u64 = 64;

/// A span of time in ticks, rounded up; the longest that there is where it is longer.
fn ticks(nanos: u64) -> u32 {
    u32::try_from(nanos.div_ceil(TICK_NANOS)).unwrap_or(u32::MAX)
}

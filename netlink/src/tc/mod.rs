//! Linux traffic control: queueing disciplines, classes and filters.
//!
//! ```text
//!   Qdisc, Class, Filter --add, change, delete--> Request --Conversation::send--> accepted, or refused with the kernel's message
//!                               Conversation::qdiscs, filters --> Node
//! ```
//!
//! Time-critical callers encode a [`Request`] in advance. [`Conversation::send`](crate::Conversation::send) then makes
//! two system calls and allocates nothing.

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

const TICK_NANOS: u64 = 64;

fn ticks(nanos: u64) -> u32 {
    u32::try_from(nanos.div_ceil(TICK_NANOS)).unwrap_or(u32::MAX)
}

//! What xoff is measured with, and against.
//!
//! * [`load`]: the frames of a benchmark, as real senders send them;
//! * [`Ports`]: AF_XDP sockets of the crate `xsk-rs`, which has libxdp's rings. A forwarder on them that
//!   switches nothing is a peer in the benchmark, so that xoff's own rings justify themselves in each run;
//!   and in `tests/` they are at one end of a wire, and the rings of the crate `xdp` at the other, so that both
//!   understand the kernel alike;
//! * [`Program`]: the XDP programs.
//!
//! It is no part of a switch, and needs `unsafe` because every call of `xsk-rs` that moves a descriptor is
//! unsafe: all of that is in `ports.rs`, behind functions that are not.

mod error;
pub mod load;
#[allow(unsafe_code)]
mod ports;
mod program;

pub use error::BenchError;
pub use ports::{Buffers, PortSettings, Ports};
pub use program::Program;

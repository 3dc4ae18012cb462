//! Kernel programs of xoff (`xoff.bpf.c`), and the guard that attaches them.
//!
//! The XDP program redirects every frame to the AF_XDP socket of its hardware queue. A [filter](Filter) drops frames
//! that the machine's own stack sends. [`attach`] loads both.
//!
//! The kernel removes a native program with its process. A generic program survives, as does one [attached
//! again](Program::attach_again). The next [`attach`] recognizes it by its name, and by a [`Claim`] that excludes a
//! living xoff.

#![deny(unsafe_code)] // allowed in the skeleton that libbpf generates

mod arrivals;
mod attach;
mod claim;
mod error;
mod filter;
mod program;

pub use arrivals::{Arrivals, Arrived, Head};
pub use attach::{Attached, Dropped, attach, may_replace, take_off_leftover};
pub use claim::Claim;
pub use error::EbpfError;
pub use filter::{Clsact, FILTER_PRIORITY, Filter, Filtered};
pub use program::{Mode, Place, Program};

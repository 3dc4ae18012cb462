//! Kernel programs of xoff (`xoff.bpf.c`), and functions that attach and detach them.
//!
//! The XDP program redirects every frame to the AF_XDP socket of its hardware queue. A variant stamps frames with
//! their time of receipt. A [filter](Filter) drops frames that the machine's own stack sends.
//!
//! A program that is generic, or was [attached again](Program::attach_again), outlives its process. The next
//! [`attach`] recognizes it by its name; the [`Claim`] proves that no other xoff uses it.

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
pub use error::{EbpfError, FORBIDDEN};
pub use filter::{Clsact, FILTER_PRIORITY, Filter, Filtered};
pub use program::{Mode, Place, Program};

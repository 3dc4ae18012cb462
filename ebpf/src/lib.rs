//! xoff's programs in the kernel and the guard that attaches them.
//!
//! They are in `xoff.bpf.c`: the XDP program redirects every frame to the AF_XDP socket of its hardware
//! queue, and a [filter](Filter) holds back what the machine's own stack wants to send. [`attach`] loads one instance of
//! both for one interface and returns a guard, [`Attached`], that takes them off again when dropped.
//!
//! A native program hangs on a bpf link, which the kernel removes with the process, `kill -9`
//! included. Generic mode cannot be had by the link that libbpf-rs offers, so there the program is
//! attached over netlink and survives a killed process, as does one in either mode that was taken off and
//! [attached again](Program::attach_again); the next [`attach`], or [`take_off_leftover`], knows it by its name, for which it takes
//! a [`Claim`] on the interface, which a living xoff does not give up. A program that is not ours is never touched.

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

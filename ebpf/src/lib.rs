//! xoff's kernel programs and the guard that attaches them.
//!
//! The programs are in `xoff.bpf.c`. The XDP program redirects every frame to the AF_XDP socket of its hardware
//! queue; a [filter](Filter) drops frames that the machine's own stack sends. [`attach`] loads both for one interface
//! and returns a guard, [`Attached`], which detaches them when dropped.
//!
//! A native program is attached by a bpf link, which the kernel removes with the process, even after `kill -9`.
//! libbpf-rs offers no such link for generic mode, so there the program is attached over netlink and survives a
//! killed process. So does a program in either mode that was detached and [attached again](Program::attach_again).
//! The next [`attach`], or [`take_off_leftover`], recognizes such a leftover by its name. Both require a [`Claim`] on
//! the interface, which excludes the program of a living xoff. A program that is not xoff's stays in place.

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

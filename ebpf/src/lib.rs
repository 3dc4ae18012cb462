//! xoff's XDP program and the guard that attaches it.
//!
//! The program itself is `xoff.bpf.c`: it redirects every frame to the AF_XDP socket of its hardware
//! queue. [`attach`] loads one instance of it for one interface and returns a guard, [`Attached`],
//! that takes it off again when dropped.
//!
//! A native program hangs on a bpf link, which the kernel removes with the process, `kill -9`
//! included. Generic mode cannot be had by the link that libbpf-rs offers, so there the program is
//! attached over netlink and survives a killed process; the next [`attach`] knows it by its name and
//! replaces it, for which it takes a [`Claim`] on the interface, which a living xoff
//! does not give up. A program that is not ours is never touched.

#![deny(unsafe_code)] // allowed in the skeleton that libbpf generates

mod attach;
mod claim;

pub use attach::{Attached, Dropped, EbpfError, Mode, attach};
pub use claim::Claim;

//! A small PFC switch with optional defects, to prove that `xoff test` finds each of them.
//!
//! The switch's decisions follow IEEE 802.1Q and share no code with the xoff switch, so that they share no errors.

#![forbid(unsafe_code)]

mod arrivals;
mod command;
mod counters;
pub mod defects;
mod egress;
mod frame;
mod holds;
mod ingress;
mod links;
mod lldp;
mod pauses;
mod pfc;
mod run;
mod switch;
mod watchdog;

pub use command::main;

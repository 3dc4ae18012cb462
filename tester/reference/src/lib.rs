//! A small PFC switch with defects that can be switched on. The instrument `xoff test` is proven on it.
//!
//! Its decisions are written after IEEE 802.1Q and share no code with xoff's, so that both can disagree.

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

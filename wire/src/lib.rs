//! Frame formats, one protocol per file, and the [units] of a network.
//!
//! The views of `pnet_packet` speak Ethernet, VLAN, IP, UDP and TCP, and tests hold everything here
//! against them. What is ours: MAC control and congestion notification, which that crate does not
//! have, and the one look that every frame gets on its way through ([`header::Header`]), which reads the dozen bytes that a
//! switch needs in one pass.
//!
//! Nothing here panics, whatever the bytes: what cannot be read is an error with a name, to be
//! counted.

#![forbid(unsafe_code)]

#[macro_use]
mod named;

pub mod cn_tag;
pub mod cnm;
pub mod dcbx;
pub mod dscp;
pub mod ecn;
pub mod flow;
pub mod gfc;
pub mod header;
pub mod ip;
pub mod lldp;
pub mod mac_control;
pub mod ofc;
#[cfg(test)]
mod testing;
pub mod units;
pub mod vlan;

pub use cn_tag::CnTag;
pub use cnm::{Cnm, CnmError};
pub use flow::FlowKey;
pub use gfc::Rates;
pub use header::{Header, Malformed, Tci};
pub use mac_control::{MacControl, MacControlError, Pfc};
pub use ofc::{FlowPause, FlowPauseWriter, Operation};

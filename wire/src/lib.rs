//! Frame formats, one protocol per file, and the [units] of a network.
//!
//! Parsers never panic: unreadable input is a named error that callers count.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

#[macro_use]
mod named;

pub mod checksum;
pub mod cn_tag;
pub mod cnm;
pub mod dcbx;
pub mod dscp;
pub mod ecn;
pub mod flow;
pub mod gfc;
pub mod header;
pub mod ip;
pub mod lacp;
pub mod lldp;
pub mod mac_control;
pub mod multicast;
pub mod ofc;
pub mod path_hash;
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
pub use path_hash::PathHash;

//! The shell around the dataplane: everything of xoff that Linux can refuse.

#![forbid(unsafe_code)]

mod atomics;
pub mod bell;
pub mod capture;
pub mod cli;
pub mod client;
pub mod clock;
pub mod commands;
pub mod confine;
pub mod control;
pub mod demo;
pub mod descriptors;
pub mod handoff;
pub mod host_path;
pub mod lab;
pub mod live;
pub mod lldp;
pub mod machine;
pub mod network;
mod outlet;
pub mod recording;
pub mod router;
pub mod run;
pub mod simulate;
pub mod sleeper;
pub mod spin;
pub mod traffic;
mod turns;
mod unix_socket;
pub mod worker;

pub use commands::main_with;
pub use xoff_config::{OwnPolicy, Parameters};

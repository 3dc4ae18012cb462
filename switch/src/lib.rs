//! The switch process, the shell around the dataplane: workers and their hand-over, the control thread and what it serves,
//! the mirror of the kernel's routes, LLDP, capture, and what the process may do.

#![forbid(unsafe_code)]

mod atomics;
pub mod bell;
pub mod capture;
pub mod causes;
pub mod client;
pub mod confine;
pub mod control;
pub mod descriptors;
pub mod handoff;
pub mod host_path;
pub mod lldp;
pub mod machine;
mod outlet;
mod port_options;
mod promise;
pub mod recording;
pub mod router;
pub mod run;
pub mod spin;
mod turns;
pub mod unix_socket;
pub mod worker;

pub use promise::Promise;

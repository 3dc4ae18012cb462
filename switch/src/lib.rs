//! The switch process around the dataplane: workers, control, HTTP, routes, LLDP, capture, and privileges.

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

//! Switch process around the dataplane: workers, control, HTTP, routes, LLDP, capture, and privileges.

#![forbid(unsafe_code)]

mod atomics;
mod bell;
mod capture;
pub mod causes;
pub mod client;
pub mod confine;
pub mod control;
pub mod descriptors;
mod handoff;
mod host_path;
mod lacp;
pub mod lldp;
pub mod machine;
mod outlet;
pub mod port_options;
mod promise;
mod recording;
pub mod router;
pub mod run;
mod snooping;
mod spin;
mod turns;
pub mod unix_socket;
mod worker;

pub use promise::Promise;
pub use recording::RecordingFile;

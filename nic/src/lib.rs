//! Makes a Linux host obey 802.1Qbb (PFC), by stopping and starting the queues of the kernel's own network stack.
//!
//! ```text
//!   device -- MAC control, CNMs --> sockets --> PauseController --> egress --> queues of the device <-- frames of programs
//!                                                     |               ^
//!                                                  NicView          guard
//! ```

#![forbid(unsafe_code)]

mod agent;
mod arrivals;
mod backlog;
mod bpf;
mod config;
mod controller;
mod dcbx;
pub mod egress;
pub mod facts;
pub mod guard;
mod link;
mod pending_stops;
mod proof;
mod response;
pub mod serve;
mod sockets;
mod stacked;
mod view;
mod wait;

pub use agent::{Agent, AgentError};
pub use config::{DEFAULT_HTTP, NicMissing, NicSettings, NicWishes, class_map};
pub use controller::{Change, PauseController};
pub use response::{NEAR_TIMEOUT, Response};
pub use stacked::own_name;
pub use view::NicView;
pub use wait::await_device;

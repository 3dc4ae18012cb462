//! Slow path of the router: Linux decides on routes, and the workers get a mirror of its tables.
//!
//! ```text
//!   interfaces   one TAP per interface of the router, in a configurable namespace
//!   mirror       follows that namespace by netlink
//!   messages     parses notifications      tables   stores them, and builds the workers' table
//!   view         counters and state for other threads
//! ```
//!
//! [`xoff_dataplane::routing`] is the lookup per packet.

pub mod interfaces;
mod messages;
pub mod mirror;
mod presence;
pub mod tables;
mod view;

pub use interfaces::{OpenedRouter, RouterError, open};
pub use presence::Presence;
pub use view::{InterfaceCounts, InterfaceView, RouterView};

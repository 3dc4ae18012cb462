//! Slow path of the router: Linux decides on routes, and the workers get a mirror of Linux's tables.
//!
//! ```text
//!   interfaces   creates a TAP for each interface of the router, in a configurable namespace
//!   mirror       follows the routes of that namespace by netlink
//!   messages     parses notifications      tables   stores routes, and builds the workers' table
//!   view         counters and state for other threads
//! ```
//!
//! [`xoff_dataplane::routing`] looks up the route of each packet.

mod interfaces;
mod messages;
pub(crate) mod mirror;
mod presence;
pub(crate) mod tables;
mod view;

pub(crate) use interfaces::{OpenedRouter, RouterError, open};
pub use mirror::Page;
pub use presence::Presence;
pub use tables::{Row, RowVia, table};
pub(crate) use view::{InterfaceCounts, InterfaceView, RouterView};

//! The router of a switch, as far as it is not on every packet's way: Linux decides, by whatever routing daemon runs on it, and what it
//! decides is mirrored.
//!
//! ```text
//!   interfaces   a TAP for each interface of the router, in the namespace of the user's choice
//!   mirror       follows that namespace, by netlink
//!   messages     what it is told      tables   what was said, and what workers are to make of it
//!   view         what is seen from outside
//! ```
//!
//! [`xoff_dataplane::routing`] has what a worker asks for each packet; the thread of the [host path](crate::host_path) moves frames
//! between workers and TAPs.

pub mod interfaces;
mod messages;
pub mod mirror;
mod presence;
pub mod tables;
mod view;

pub use interfaces::{Opened, RouterError, open};
pub use presence::Presence;
pub use view::{InterfaceCounts, InterfaceView, RouterView};

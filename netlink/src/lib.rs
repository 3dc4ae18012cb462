//! Netlink: requests to the kernel, its notifications, and Linux traffic control.
//!
//! A socket belongs to the network namespace of the thread that opened it.

#![forbid(unsafe_code)]

mod attributes;
mod conversation;
mod nexthop;
mod notifications;
mod queue_monitor;
mod route;
pub mod tc;

pub use conversation::Conversation;
pub use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
pub use netlink_packet_route as packet_route;
pub use nexthop::Nexthop;
pub use notifications::{Group, Notification, Notifications};
pub use queue_monitor::{QueueEvent, QueueMonitor};
pub use route::{alternative_names, concerns_device, link_at, link_named, neighbour, set_up};

//! A Linux host that obeys 802.1Qbb beside the kernel's own stack: no frame passes through this code, it stops and starts queues.
//!
//! ```text
//!   device -- MAC control, CNMs --> Sockets --> Brain --> egress --> queues of the device <-- what programs send
//!                                                 |         ^
//!                                              NicView    guard
//!
//!   config   the settings: command line over file over defaults
//!   brain    what decides: which class stops, goes on, keeps a rate; no clock, no socket
//!   agent    the thread that receives, asks the brain, and does what it says
//!   egress   the queueing disciplines of a device: a class each, stopped, started, limited
//!   guard    a second process, which opens what the first one left shut
//!   backlog  the other direction: a host that cannot keep up pauses its switch
//!   serve    what people see of it, over HTTP
//!   facts    what a device and its kernel can do of all this
//! ```

#![forbid(unsafe_code)]

mod agent;
mod arrivals;
mod backlog;
mod brain;
mod config;
pub mod egress;
pub mod facts;
pub mod guard;
mod link;
mod pending_stops;
mod proof;
mod response;
pub mod serve;
mod sockets;
mod view;

pub use agent::{Agent, AgentError};
pub use brain::{Brain, Change};
pub use config::{DEFAULT_HTTP, NicMissing, NicSettings, NicWishes};
pub use response::{NEAR_TIMEOUT, Response};
pub use view::NicView;

//! Simulator of lossless fabrics. Every switch runs xoff's own dataplane; links, hosts and time are simulated. A seed
//! determines a run to the picosecond.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod calendar;
mod danger;
mod ends;
mod event;
mod fabric;
mod faults;
pub mod flows;
mod host;
pub mod hpcc;
pub mod ideal;
mod impairments;
mod link;
pub mod load;
mod node;
mod paths;
pub mod permutation;
mod plan;
mod pool;
mod reach;
mod router;
pub mod scheduled;
mod seed;
mod slots;
mod stalls;
mod switch_node;
mod time;
pub mod topology;
mod trace;
mod traffic_host;

pub use ends::{End, Line, NodeId};
pub use fabric::{Fabric, FabricEvent, Tally};
pub use faults::{ControlFaults, FaultCounts};
pub use host::{Flow, Host, address};
pub use impairments::Impairments;
pub use node::{Net, Node, Place};
pub use plan::{At, Forwarding, Plan, PlanError, SwitchKind};
pub use pool::{Packet, Pool};
pub use router::Router;
pub use seed::{Purpose, Seed};
pub use stalls::Stalls;
pub use switch_node::{ImpairmentCounts, SlotCounts, SwitchNode};
pub use time::{Pace, Picos};
pub use traffic_host::{Habits, TrafficHost, TrafficSettings};

//! Flows of simulated hosts: plans, hosts and results.
//!
//! ```text
//!   load --> FlowPlan --> FlowFabric --> FlowHost (from) ==> switches ==> FlowHost (to) --> FlowRecord
//!    ^  sender, receiver,    numbers,       transport: limits            counts, answers,     times and
//!    |  size, start          ideal times    and timing of frames         detects the end      counts
//!    +---------------------- a flow has ended: which flows follow? -----------+
//! ```

mod alone;
mod control;
mod dcqcn;
mod fabric;
mod frames;
mod host;
mod host_link;
mod intake;
mod load;
mod receiving;
mod segment;
mod sending;
mod swift;
mod timely;
mod transport;

pub use alone::Alone;
pub use dcqcn::DcqcnSettings;
pub use fabric::FlowFabric;
pub use frames::{Framing, PAYLOAD_MAX, frame_len};
pub use host::FlowHost;
pub use intake::{ReceiverPause, SlowReceiver};
pub use load::{Load, NewFlows, Query};
pub use swift::SwiftSettings;
pub use timely::TimelySettings;
pub use transport::{Control, HostSettings, RoceSettings, TcpHosts, Transport};
pub use xoff_host::sizes::{BYTES_LIKELY, FLOW_BYTES_MAX};

use xoff_wire::units::Class;

use crate::time::Picos;

/// Plan of a flow: hosts, class, size and start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct FlowPlan {
    pub from: u32,
    pub to: u32,
    pub class: Class,
    pub bytes: u64,
    pub start: Picos,
    /// Index of the load to which the flow belongs; [`FlowFabric::add_load`] sets it.
    pub tag: u16,
}

/// Plan of a flow, and its result so far.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct FlowRecord {
    pub flow: u32,
    pub from: u32,
    pub to: u32,
    pub class: Class,
    pub tag: u16,
    pub bytes: u64,
    pub start: Picos,
    /// Arrival of the last missing byte; `None` while the flow runs.
    pub finish: Option<Picos>,
    /// Arrival of the last acknowledgement at the sender; TCP only.
    pub acknowledged: Option<Picos>,
    /// Completion time that the flow would have if alone in the fabric.
    pub ideal: Picos,
    /// Sent data frames, retransmissions included.
    pub frames_sent: u32,
    pub frames_resent: u32,
    pub timeouts: u32,
    /// Received frames with an ECN mark.
    pub marked: u32,
    /// CNPs that the receiver sent, plus CNMs that the sender obeyed.
    pub cnps: u32,
    pub out_of_order: u32,
}

impl FlowRecord {
    /// Returns the time from the flow's start to its completion; `None` while it runs.
    #[must_use]
    pub fn took(&self) -> Option<Picos> {
        self.finish.map(|finish| finish.since(self.start))
    }

    /// Returns the completion time as a multiple of the ideal one; `None` while the flow runs.
    #[must_use]
    pub fn slowdown(&self) -> Option<f64> {
        self.took().map(|took| took.0 as f64 / self.ideal.0.max(1) as f64)
    }
}

//! Flows that come and go: what is planned of each, the hosts that send and receive them, and what became of them.
//!
//! ```text
//!   load --> FlowPlan --> FlowFabric --> FlowHost (from) ==> switches ==> FlowHost (to) --> FlowRecord
//!    ^  who sends what       numbers,       transport: what may          counts, answers,      when, and how
//!    |  to whom, when        ideal times    be sent, and when            says when it ended    much it took
//!    +------------------------ a flow has ended: what follows? ---------------+
//! ```
//!
//! A host has many flows at a time, and takes turns among those that may send. What a flow may send is its transport's to say
//! ([`Transport`]); what the line may carry is the [`Gate`](xoff_host::Gate)'s, as at every host.

mod alone;
mod control;
mod dcqcn;
mod fabric;
mod frames;
mod host;
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
pub use frames::{FLOW_BYTES_MAX, PAYLOAD_MAX, frame_len, payload_max};
pub use host::FlowHost;
pub use intake::{ReceiverPause, SlowReceiver};
pub use load::{Asked, Load, Query};
pub use swift::SwiftSettings;
pub use timely::TimelySettings;
pub use transport::{Control, HostSettings, RoceSettings, Transport};

use xoff_dataplane::units::Class;

use crate::time::Picos;

/// A flow to be. Its number is its place in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPlan {
    /// The number of the host that sends.
    pub from: u32,
    /// The number of the host that receives; another one.
    pub to: u32,
    /// Its class, by DSCP.
    pub class: Class,
    /// What it carries, in bytes, headers of frames left out.
    pub bytes: u64,
    /// When its first frame may leave.
    pub start: Picos,
    /// Which load of the run it is of; [`FlowFabric`] writes it.
    pub tag: u16,
}

/// What became of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowRecord {
    /// Its number in the run.
    pub flow: u32,
    /// The host that sends.
    pub from: u32,
    /// The host that receives.
    pub to: u32,
    /// Its class.
    pub class: Class,
    /// Which load it is of.
    pub tag: u16,
    /// What it carries, in bytes.
    pub bytes: u64,
    /// When its first frame might leave.
    pub start: Picos,
    /// When its last byte was at the receiver, all those before it too; `None`: not yet.
    pub finish: Option<Picos>,
    /// How long it takes alone in the fabric: store and forward, by the lines on its way.
    pub ideal: Picos,
    /// Frames of data sent, those sent again too.
    pub frames_sent: u32,
    /// Frames that had been sent before.
    pub frames_resent: u32,
    /// How often its sender waited in vain for an acknowledgement.
    pub timeouts: u32,
    /// Frames that came with a mark of congestion.
    pub marked: u32,
    /// Congestion notifications for it: CNPs that its receiver sent, and CNMs of switches that came to its sender.
    pub cnps: u32,
    /// Frames that did not come right after the one that was sent before them.
    pub out_of_order: u32,
}

impl FlowRecord {
    /// How long it took, from its start to its last byte; `None`: it has not ended.
    #[must_use]
    pub fn took(&self) -> Option<Picos> {
        self.finish.map(|finish| finish.since(self.start))
    }

    /// How many times as long as alone in the fabric; `None`: it has not ended.
    #[must_use]
    pub fn slowdown(&self) -> Option<f64> {
        self.took().map(|took| took.0 as f64 / self.ideal.0.max(1) as f64)
    }
}

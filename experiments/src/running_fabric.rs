//! Interface to a running fabric: a machine with namespaces, threads and clocks, or the simulator.

use std::sync::Arc;
use std::time::Duration;

use xoff_flow_control::congestion::ReactionSettings;
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::SwitchSettings;
use xoff_host::{HostReport, Progress, Stream};
use xoff_wire::units::Nanos;

use crate::error::FabricError;
use crate::plan::HostId;

pub trait Clock {
    /// Returns the time of all counters and reports.
    fn now(&self) -> Nanos;

    fn wait(&self, span: Nanos);
}

pub type Sender<'a> = Box<dyn FnMut(&[u8]) -> Result<(), FabricError> + 'a>;

/// Running switches and hosts. The hosts [begin](RunningFabric::begin), then [stop](RunningFabric::stop_hosts), then the fabric
/// [ends](RunningFabric::end); each once.
pub trait RunningFabric: Clock {
    /// Settings include addresses of ports.
    fn switches(&self) -> Vec<(Arc<SwitchSettings>, Arc<Counters>)>;

    /// The host must not have begun.
    fn sender(&self, from: HostId) -> Result<Sender<'_>, FabricError>;

    fn begin(&mut self, hosts: Vec<HostStart>);

    /// Returns whether a host ended before its stop.
    fn has_failed(&self) -> bool;

    fn stop_hosts(&mut self);

    fn end(&mut self, patience: Duration) -> Result<FinalReports, FabricError>;
}

#[derive(Debug)]
pub struct HostStart {
    pub host: HostId,
    pub streams: Vec<Stream>,
    pub progress: Arc<Progress>,
    pub reaction: Option<ReactionSettings>,
}

#[derive(Debug, Default)]
pub struct FinalReports {
    /// Reports of kernel hosts contain only drops.
    pub hosts: Vec<HostReport>,
    pub proofs: Vec<Proof>,
    /// Longest time that a switch was not scheduled while hosts ran, ns.
    pub longest_stall_nanos: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Frames lost before or after the switch without reaching its counters.
    pub unseen_lost: u64,
    /// Unreadable loss counters.
    pub unproved: Vec<String>,
    /// True if every received frame is delivered, queued, or dropped for a named reason.
    pub is_balanced: bool,
}

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
    fn now(&self) -> Nanos;

    fn wait(&self, span: Nanos);
}

pub type Sender<'a> = Box<dyn FnMut(&[u8]) -> Result<(), FabricError> + 'a>;

/// Fabric whose switches run. Its hosts [begin](RunningFabric::begin) and [stop](RunningFabric::stop_hosts); then the
/// fabric [ends](RunningFabric::end).
pub trait RunningFabric: Clock {
    fn switches(&self) -> Vec<(Arc<SwitchSettings>, Arc<Counters>)>;

    fn sender(&self, from: HostId) -> Result<Sender<'_>, FabricError>;

    fn begin(&mut self, hosts: Vec<HostStart>);

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
    pub hosts: Vec<HostReport>,
    pub proofs: Vec<Proof>,
    pub longest_stall_nanos: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Lost frames that no counter of the switch shows.
    pub unseen_lost: u64,
    pub unproved: Vec<String>,
    pub is_balanced: bool,
}

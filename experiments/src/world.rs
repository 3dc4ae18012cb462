//! What a fabric asks of whoever drives it: a machine with its namespaces, threads and clocks, or the simulator.

use std::sync::Arc;
use std::time::Duration;

use xoff_flow_control::congestion::ReactionSettings;
use xoff_flow_control::counters::Counters;
use xoff_flow_control::settings::SwitchSettings;
use xoff_host::{HostReport, Progress, Stream};
use xoff_wire::units::Nanos;

use crate::error::FabricError;
use crate::plan::HostId;

/// Tells the time, and lets it pass.
pub trait Clock {
    /// What time it is, by the clock of all counters and reports.
    fn now(&self) -> Nanos;

    /// Comes back when so much time has passed.
    fn wait(&self, span: Nanos);
}

/// Sends a frame, or says why it cannot.
pub type Sender<'a> = Box<dyn FnMut(&[u8]) -> Result<(), FabricError> + 'a>;

/// Switches that run, and hosts. These [begin](World::begin) once, [stop](World::stop_hosts) after that, and then all of it
/// [ends](World::end); nothing happens twice, and nothing behind the end.
pub trait World: Clock {
    /// What each switch is told, with the addresses of its ports, and what it counts.
    fn switches(&self) -> Vec<(Arc<SwitchSettings>, Arc<Counters>)>;

    /// By what a host that has yet to begin sends frames.
    fn sender(&self, from: HostId) -> Result<Sender<'_>, FabricError>;

    /// These hosts begin, all at once.
    fn begin(&mut self, hosts: Vec<HostStart>);

    /// Whether a host has ended before it was told to.
    fn has_failed(&self) -> bool;

    fn stop_hosts(&mut self);

    /// The switches end, too.
    fn end(&mut self, patience: Duration) -> Result<Ended, FabricError>;
}

/// What a host of streams begins with.
#[derive(Debug)]
pub struct HostStart {
    pub host: HostId,
    pub streams: Vec<Stream>,
    /// Where it tells how far it is.
    pub progress: Arc<Progress>,
    /// Its reaction points; `None`: it has none.
    pub reaction: Option<ReactionSettings>,
}

/// What hosts and switches say in the end, beside what switches have counted.
#[derive(Debug, Default)]
pub struct Ended {
    /// One for each host. Those of the kernel say what was dropped, and no more.
    pub hosts: Vec<HostReport>,
    pub proofs: Vec<Proof>,
    /// Longest time that a switch was kept from running while there were hosts, ns.
    pub longest_stall_nanos: u64,
}

/// What a switch says in the end of frames that it may never have seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Frames that were lost before or behind it.
    pub unseen_lost: u64,
    /// What could tell of such a loss and cannot be read, in words.
    pub unproved: Vec<String>,
    /// Whether every frame that it has seen is delivered, queued, or dropped for a named reason.
    pub is_balanced: bool,
}

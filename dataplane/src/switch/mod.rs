//! Dataplane of one worker ([`Switch`]): module `journey` has the steps of a frame.

mod accounts;
mod announce;
mod batch;
mod checksum_probe;
mod ending;
mod floods;
mod flows;
mod host;
mod journey;
mod marking;
mod micro_flow;
mod notices;
mod obey;
mod paths;
mod paused_floods;
mod peers;
mod pipeline;
mod policies;
mod policy_swap;
mod port;
mod prefetch;
mod punts;
mod rates;
mod ready_sets;
mod revision;
mod room;
mod routed;
mod run;
mod snooping;
mod storm_control;
mod storms;
mod taps;
mod timers;
mod unresolved;
pub mod workers;

use std::sync::Arc;

use xoff_flow_control::buffer::Buffer;
use xoff_flow_control::congestion::CongestionPoints;
use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::Counters;
use xoff_flow_control::occupancy::Occupancy;
use xoff_flow_control::pause::{Held, Paused};
use xoff_flow_control::policy::Capabilities;
use xoff_flow_control::settings::{Accounting, FLOOD_COPIES_MAX, SwitchSettings, WhenFull};
use xoff_wire::units::{Bytes, Class, MacAddr, Nanos, PortId, PortSet};

use crate::forward::{Bridge, Finding};
use crate::ledger::Ledger;
use crate::punt::PuntSink;
use crate::queue::Nodes;
use crate::routing::{Fib, Resolutions};
use accounts::Accounts;
pub use batch::Batch;
use paths::Paths;
use pipeline::Pipeline;
use policies::Policies;
pub use policy_swap::PolicySwap;
use port::SwitchPort;
use ready_sets::ReadySets;
pub use revision::Revision;
use run::Run;
use taps::Taps;
use workers::Outbox;
pub use workers::{HANDOVERS_MAX, Handover, Return, WorkerId, Workers};

/// Dataplane of one worker.
#[derive(Debug)]
pub struct Switch {
    now: Nanos,
    accounting: Accounting,
    when_full: WhenFull,
    workers: Workers,
    ports: Box<[SwitchPort]>,
    pipeline: Pipeline,
    nodes: Nodes,
    accounts: Accounts,
    buffer: Buffer,
    policies: Policies,
    congestion: CongestionPoints,
    bridge: Bridge,
    paths: Paths,
    routed: PortSet,
    fib: Arc<Fib>,
    resolutions: Resolutions,
    occupancy: Arc<Occupancy>,
    counters: Arc<Counters>,
    run: Run,
    ledger: Ledger,
    pauses_obeyed: u64,
    xoffs_sent: u64,
    away: Option<Nanos>,
    next_checksum_probe: Nanos,
    ecn_rng: fastrand::Rng,
    ready: ReadySets,
    outbox: Outbox,
    taps: Taps,
    punt_sink: Option<Box<dyn PuntSink>>,
}

impl Switch {
    /// Creates a worker's switch and allocates all memory. All workers share `counters`.
    ///
    /// # Panics
    ///
    /// If there are several workers and [`WhenFull::Stop`].
    #[must_use]
    pub fn new(settings: &SwitchSettings, slots: u32, workers: Workers, counters: Arc<Counters>) -> Switch {
        assert!(
            settings.when_full != WhenFull::Stop || workers.count() == 1,
            "`WhenFull::Stop` needs a single worker, because its pipeline halts for all ports"
        );
        let count = settings.ports.len();
        let lossless = settings.lossless_anywhere();
        let ports: Box<[SwitchPort]> = {
            let lane_bits = pipeline::lane_bits(settings.pipeline.ingress);
            settings.ports.iter().map(|port| SwitchPort::new(port, count, lossless, lane_bits)).collect()
        };
        let own_ports = workers.own().len();
        let flood_copies_max = workers.own().iter().map(|_| FLOOD_COPIES_MAX).sum();
        let capabilities = Capabilities::new(&settings.ports, |port| workers.owns(port));
        let policies = Policies::new(settings, slots, capabilities);
        let mut switch = Switch {
            now: Nanos::ZERO,
            accounting: settings.accounting,
            when_full: settings.when_full,
            outbox: Outbox::new(workers.count(), own_ports),
            workers,
            ports,
            pipeline: Pipeline::new(&settings.pipeline, slots, Arc::clone(&counters)),
            nodes: Nodes::new(slots),
            accounts: Accounts::new(slots, lossless, flood_copies_max),
            buffer: Buffer::new(settings, own_ports, Arc::clone(&counters)),
            policies,
            congestion: CongestionPoints::new(&settings.qcn, &settings.ports, slots),
            bridge: Bridge::new(settings),
            paths: Paths::new(settings),
            routed: settings.routed_ports(),
            fib: Arc::default(),
            resolutions: Resolutions::new(),
            occupancy: Arc::clone(counters.occupancy()),
            counters,
            run: Run::NONE,
            ledger: Ledger::default(),
            pauses_obeyed: 0,
            xoffs_sent: 0,
            away: None,
            next_checksum_probe: Nanos::ZERO,
            ecn_rng: fastrand::Rng::with_seed(settings.fdb.seed.digest()),
            ready: ReadySets::default(),
            taps: Taps::new(),
            punt_sink: None,
        };
        for port in (0..=u8::MAX).map(PortId).take(count) {
            for class in Class::ALL {
                let queue = policy_swap::queue(settings.policies[class.index()], settings);
                switch.begin_flows(port, class, queue);
            }
        }
        switch
    }

    /// Returns the counts of queued frames and bytes.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Returns the forwarding database and VLANs.
    #[must_use]
    pub fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    /// Returns the classes that this switch pauses at the peer of `port`.
    #[must_use]
    pub fn held(&self, port: PortId) -> &Held {
        &self.ports[port.index()].peer.held
    }

    /// Returns the pauses that the peer of `port` requests.
    #[must_use]
    pub fn paused(&self, port: PortId) -> &Paused {
        &self.ports[port.index()].peer.paused
    }

    /// Returns the number of pause frames of peers that this worker obeyed.
    #[inline]
    #[must_use]
    pub const fn pauses_obeyed(&self) -> u64 {
        self.pauses_obeyed
    }

    /// Returns how many sent pause frames began a pause of a class.
    #[inline]
    #[must_use]
    pub const fn xoffs_sent(&self) -> u64 {
        self.xoffs_sent
    }

    /// Returns ports with unpaused frames, to be sent now or when rate limits allow.
    #[must_use]
    pub fn egress_active(&self) -> PortSet {
        self.ready.egress_active
    }

    /// Returns the layer-1 bytes given to the driver of `port` by this worker and not yet released.
    #[must_use]
    pub fn committed(&self, port: PortId) -> Bytes {
        self.ports[port.index()].egress.committed
    }

    /// Returns whether `port` can be removed without loss: either it has no link, or it has neither frames nor due pause or rate
    /// frames.
    #[must_use]
    pub fn is_drained(&self, port: PortId) -> bool {
        let at = &self.ports[port.index()];
        !at.up || at.frames() == 0 && !at.peer.is_announcement_due()
    }

    /// Returns the counts of this worker's frames. Too slow for every frame: visits all queues.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        let outbound: u64 = self.outbox.by_worker.iter().map(|out| u64::from(out.frames.frames())).sum();
        let inside =
            self.ports.iter().map(SwitchPort::frames).sum::<u64>() + u64::from(self.pipeline.frames());
        Ledger { held: inside + outbound, ..self.ledger }
    }

    /// Exports the numbers of learned addresses and loops to the counters. Too slow for every frame.
    pub fn show_addresses(&self) {
        let fdb = self.bridge.fdb();
        for port in self.workers.own().iter() {
            let counters = self.counters.port(port);
            counters.fdb_entries.set(fdb.learned_at(port) as u64);
            counters.station_moves.set(fdb.moved_to(port));
            counters.learn_refused.set(fdb.refused_at(port));
            let show = |finding: Finding, count: &Counter, with: &Counter, macs: &[Counter; 2]| {
                count.set(finding.count);
                with.set(finding.with.map_or(0, |other| 1 + u64::from(other.0)));
                macs.iter()
                    .zip(finding.movers)
                    .for_each(|(it, mac)| it.set(mac.map_or(0, MacAddr::to_number)));
            };
            show(self.bridge.loops_at(port), &counters.loops, &counters.loop_with, &counters.loop_macs);
            let (with, macs) = (&counters.duplicate_with, &counters.duplicate_macs);
            show(self.bridge.duplicates_at(port), &counters.duplicates, with, macs);
            counters.looped.set(self.bridge.is_looped(port).into());
        }
    }
}

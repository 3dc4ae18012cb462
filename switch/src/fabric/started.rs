//! A fabric whose switches run, and whose hosts have yet to begin.

use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Duration;

use xoff_dataplane::congestion::ReactionSettings;
use xoff_dataplane::units::Nanos;
use xoff_hosts::{HostReport, Progress, Stream, settle};

use super::account::Gaps;
use super::plan::{HostId, PortOf, Stack};
use super::record::{Looks, Record};
use super::routing::Routing;
use super::{Account, Fabric, FabricError, Live, Load, account, probe};
use crate::lab::Switches;
use crate::traffic::{Host, HostError, HostOptions};

/// Hosts end when nothing has moved for so long.
const CALM: Duration = Duration::from_millis(50);

/// Switches that run; where they are routers, all routes are there.
#[derive(Debug)]
pub struct Started<'a> {
    fabric: &'a Fabric,
    /// Ends with this.
    routing: Routing,
    switches: Switches,
}

impl<'a> Started<'a> {
    pub(super) fn start(fabric: &'a Fabric) -> Result<Started<'a>, FabricError> {
        let switches = Switches::start(&fabric.switches).map_err(|(_, error)| error)?;
        let routing = Routing::start(&fabric.plan, &fabric.kernels, &switches.views())?;
        Ok(Started { fabric, routing, switches })
    }

    /// A UDP source port with which a stream from one host to another, to the destination port that streams have unless told
    /// otherwise, leaves a switch of routers here. Which way a flow takes there is by a secret of this start, so that
    /// it is tried: a few frames of another class go to the receiver, which is not there yet.
    ///
    /// # Errors
    /// Where no port does, or no frame gets to the next switch.
    pub fn source_port(&self, from: HostId, to: HostId, by: PortOf) -> Result<u16, FabricError> {
        probe::source_port(self.fabric, &self.switches.views(), [from, to], by)
    }

    /// Lets the hosts send; see [`Fabric::run`].
    ///
    /// # Errors
    /// Where a host cannot run, or routers no longer forward as they did, nor do so again within `patience`.
    pub fn run<T>(
        mut self,
        load: &Load,
        patience: Duration,
        watch: impl FnOnce(&Live) -> T,
    ) -> Result<(T, Account), FabricError> {
        let Fabric { plan, hosts: devices, recorder, .. } = self.fabric;
        let stop = Arc::new(AtomicBool::new(false));
        let start = Arc::new(Barrier::new(plan.hosts_with(Stack::Traffic).count() + 1));
        let (mut threads, mut progress) = (Vec::new(), Vec::new());
        for host in plan.hosts() {
            let streams = load.of(host);
            let of_host = Arc::new(Progress::of_senders(plan.hosts().map(HostId::number)));
            progress.push((of_host.clone(), !streams.is_empty()));
            if plan.hosts[host.0].stack == Stack::Traffic {
                threads.push(self.start_host(host, streams, of_host, &start, &stop));
            }
        }
        start.wait();
        let gaps = Gaps::of(&self.switches.views());
        let looks = recorder.is_some().then(Looks::default);
        let live = Live::new(self.switches.views(), progress, &threads, looks);
        let seen = watch(&live);
        live.wait_until_calm(CALM, patience);
        let (begin, looks) = live.into_looks();
        stop.store(true, Ordering::Relaxed);
        let join = |thread: JoinHandle<_>| thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        let reports: Vec<_> = threads.into_iter().map(join).collect();
        let views = self.switches.views();
        let waited = (account::held(&views), gaps.longest_since(&views));
        // Why hosts failed, before what else there is to say.
        let reports = reports.into_iter().collect::<Result<Vec<HostReport>, _>>()?;
        self.routing.check(plan, &views, patience)?;
        let statuses = self.switches.stop().into_iter().collect::<Result<_, _>>()?;
        let mut hosts = vec![HostReport::default(); devices.len()];
        for (host, report) in plan.hosts_with(Stack::Traffic).zip(reports) {
            hosts[host.0] = report;
        }
        for host in plan.hosts_with(Stack::Kernel) {
            hosts[host.0].drops.total = devices[host.0].counters()?.dropped();
        }
        settle(&mut hosts);
        let account = Account::new(hosts, statuses, &views, waited);
        if let (Some(recorder), Some(looks)) = (recorder, looks) {
            recorder.take(&Record::of(plan, load, &account, begin, looks))?;
        }
        Ok((seen, account))
    }

    fn start_host(
        &self,
        host: HostId,
        streams: Vec<Stream>,
        progress: Arc<Progress>,
        start: &Arc<Barrier>,
        stop: &Arc<AtomicBool>,
    ) -> JoinHandle<Result<HostReport, HostError>> {
        let Fabric { plan, hosts: devices, reaction, .. } = self.fabric;
        let (start, stop) = (Arc::clone(start), Arc::clone(stop));
        let mut options = HostOptions::new("eth0");
        options.line = plan.hosts[host.0].line;
        options.id = Some(host.number());
        options.linger = Some(Nanos::NEVER);
        options.announce = false;
        options.end_markers = false;
        // Their cycles differ from host to host.
        options.qcn = reaction.map(|of| ReactionSettings { seed: of.seed_of(host.number()), ..of });
        devices[host.0].namespace().spawn_thread(move || {
            let host = Host::open(options);
            start.wait(); // also where it failed: the others wait for all
            host?.run(&streams, &stop, &progress)
        })
    }
}

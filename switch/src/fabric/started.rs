//! A fabric whose switches run, and whose hosts have yet to begin.

use std::cell::RefCell;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Duration;

use xoff_dataplane::congestion::ReactionSettings;
use xoff_dataplane::units::{CLASSES, Nanos};
use xoff_hosts::{HostReport, Progress, Stream, settle};

use super::account::Gaps;
use super::live::Drive;
use super::plan::{HostId, PortOf, Stack};
use super::record::{Looks, Record};
use super::routing::Routing;
use super::simulation::Simulation;
use super::{Account, Fabric, FabricError, Ground, Live, Load, Namespaces, ProbeError, account, probe};
use crate::control::SwitchView;
use crate::control::status::Status;
use crate::lab::Switches;
use crate::traffic::emit::Link;
use crate::traffic::{Host, HostError, HostOptions};

/// Hosts end when nothing has moved for so long.
const CALM: Duration = Duration::from_millis(50);

/// Switches that run; where they are routers, all routes are there.
#[derive(Debug)]
pub struct Started<'a> {
    fabric: &'a Fabric,
    world: World<'a>,
}

#[derive(Debug)]
enum World<'a> {
    Machine(Running<'a>),
    Simulator(Box<RefCell<Simulation>>),
}

/// Switches in namespaces.
#[derive(Debug)]
struct Running<'a> {
    namespaces: &'a Namespaces,
    /// Ends with this.
    routing: Routing,
    switches: Switches,
}

/// What is left when all has ended.
struct Ended {
    hosts: Vec<HostReport>,
    switches: Vec<Status>,
    views: Vec<Arc<SwitchView>>,
    /// Frames by class that still waited, and the longest stall.
    waited: ([u64; CLASSES], u64),
    begin: Nanos,
    looks: Option<Looks>,
}

impl<'a> Started<'a> {
    pub(super) fn start(fabric: &'a Fabric) -> Result<Started<'a>, FabricError> {
        let world = match &fabric.ground {
            Ground::Machine(namespaces) => {
                let switches = Switches::start(&namespaces.switches).map_err(|(_, error)| error)?;
                let routing = Routing::start(&fabric.plan, &namespaces.kernels, &switches.views())?;
                World::Machine(Running { namespaces, routing, switches })
            }
            Ground::Simulator(model) => {
                World::Simulator(Box::new(RefCell::new(Simulation::start(&fabric.plan, model)?)))
            }
        };
        Ok(Started { fabric, world })
    }

    /// A UDP source port with which a stream from one host to another, to the destination port that streams have unless told
    /// otherwise, leaves a switch of routers here. Which way a flow takes there is by a secret of this start, or of the seed, so that
    /// it is tried: a few frames of another class go to the receiver, which is not there yet.
    ///
    /// # Errors
    /// Where no port does, or no frame gets to the next switch.
    pub fn source_port(&self, from: HostId, to: HostId, by: PortOf) -> Result<u16, FabricError> {
        let trial = probe::Trial { plan: &self.fabric.plan, flow: [from, to], by };
        Ok(match &self.world {
            World::Machine(running) => {
                let link = self.fabric.device(from).namespace().run(|| Link::open("eth0"));
                let link = link.map_err(ProbeError::from)?;
                let views = running.switches.views();
                trial.source_port(&Drive::Threads(&[]), &views, |frame| Ok(link.send(frame)?))?
            }
            World::Simulator(simulation) => {
                let views = simulation.borrow().views();
                trial.source_port(&Drive::Simulator(simulation), &views, |frame| {
                    simulation.borrow_mut().send(from, frame);
                    Ok(())
                })?
            }
        })
    }

    /// Lets the hosts send; see [`Fabric::run`].
    ///
    /// # Errors
    /// Where a host cannot run, or routers no longer forward as they did, nor do so again within `patience`.
    pub fn run<T>(
        self,
        load: &Load,
        patience: Duration,
        watch: impl FnOnce(&Live) -> T,
    ) -> Result<(T, Account), FabricError> {
        let Fabric { plan, recorder, .. } = self.fabric;
        let (seen, mut ended) = match self.world {
            World::Machine(running) => running.run(self.fabric, load, patience, watch)?,
            World::Simulator(simulation) => simulate(*simulation, self.fabric, load, patience, watch),
        };
        settle(&mut ended.hosts);
        let Ended { hosts, switches, views, waited, begin, looks } = ended;
        let account = Account::new(hosts, switches, &views, waited);
        if let (Some(recorder), Some(looks)) = (recorder, looks) {
            recorder.take(&Record::of(plan, load, &account, begin, looks))?;
        }
        Ok((seen, account))
    }
}

/// What hosts tell while they run, and whether they have anything to send.
fn progress(fabric: &Fabric, load: &Load) -> Vec<(Arc<Progress>, bool)> {
    let plan = &fabric.plan;
    let of_host =
        |host| (Arc::new(Progress::of_senders(plan.hosts().map(HostId::number))), !load.of(host).is_empty());
    plan.hosts().map(of_host).collect()
}

/// The reaction points of a host. Their cycles differ from host to host.
fn reaction(fabric: &Fabric, host: HostId) -> Option<ReactionSettings> {
    fabric.reaction.map(|of| ReactionSettings { seed: of.seed_of(host.number()), ..of })
}

/// The same in the simulator, where whoever watches has time go on.
fn simulate<T>(
    simulation: RefCell<Simulation>,
    fabric: &Fabric,
    load: &Load,
    patience: Duration,
    watch: impl FnOnce(&Live) -> T,
) -> (T, Ended) {
    let plan = &fabric.plan;
    let progress = progress(fabric, load);
    for (host, (progress, _)) in plan.hosts().zip(&progress) {
        simulation.borrow_mut().begin(
            plan,
            host,
            load.of(host),
            Arc::clone(progress),
            reaction(fabric, host),
        );
    }
    let views = simulation.borrow().views();
    let drive = Drive::Simulator(&simulation);
    let looks = fabric.recorder.is_some().then(Looks::default);
    let live = Live::new(views.clone(), progress, (plan.line(), drive), looks);
    let seen = watch(&live);
    live.wait_until_calm(CALM, patience);
    let (begin, looks) = live.into_looks();
    let simulation = simulation.into_inner();
    let (hosts, switches) = (simulation.reports(), simulation.statuses());
    let waited = (account::held(&views), simulation.longest_stall_nanos());
    (seen, Ended { hosts, switches, views, waited, begin, looks })
}

impl Running<'_> {
    fn run<T>(
        mut self,
        fabric: &Fabric,
        load: &Load,
        patience: Duration,
        watch: impl FnOnce(&Live) -> T,
    ) -> Result<(T, Ended), FabricError> {
        let (plan, devices) = (&fabric.plan, &self.namespaces.hosts);
        let stop = Arc::new(AtomicBool::new(false));
        let start = Arc::new(Barrier::new(plan.hosts_with(Stack::Traffic).count() + 1));
        let progress = progress(fabric, load);
        let mut threads = Vec::new();
        for (host, (progress, _)) in plan.hosts().zip(&progress) {
            if plan.hosts[host.0].stack == Stack::Traffic {
                let (streams, progress) = (load.of(host), Arc::clone(progress));
                threads.push(self.start_host(fabric, host, streams, progress, (&start, &stop)));
            }
        }
        start.wait();
        let gaps = Gaps::of(&self.switches.views());
        let looks = fabric.recorder.is_some().then(Looks::default);
        let drive = (plan.line(), Drive::Threads(&threads));
        let live = Live::new(self.switches.views(), progress, drive, looks);
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
        let switches = self.switches.stop().into_iter().collect::<Result<_, _>>()?;
        let mut hosts = vec![HostReport::default(); devices.len()];
        for (host, report) in plan.hosts_with(Stack::Traffic).zip(reports) {
            hosts[host.0] = report;
        }
        for host in plan.hosts_with(Stack::Kernel) {
            hosts[host.0].drops.total = devices[host.0].counters()?.dropped();
        }
        Ok((seen, Ended { hosts, switches, views, waited, begin, looks }))
    }

    fn start_host(
        &self,
        fabric: &Fabric,
        host: HostId,
        streams: Vec<Stream>,
        progress: Arc<Progress>,
        (start, stop): (&Arc<Barrier>, &Arc<AtomicBool>),
    ) -> JoinHandle<Result<HostReport, HostError>> {
        let (start, stop) = (Arc::clone(start), Arc::clone(stop));
        let mut options = HostOptions::new("eth0");
        options.line = fabric.plan.hosts[host.0].line;
        options.id = Some(host.number());
        options.linger = Some(Nanos::NEVER);
        options.announce = false;
        options.end_markers = false;
        options.qcn = reaction(fabric, host);
        self.namespaces.hosts[host.0].namespace().spawn_thread(move || {
            let host = Host::open(options);
            start.wait(); // also where it failed: the others wait for all
            host?.run(&streams, &stop, &progress)
        })
    }
}

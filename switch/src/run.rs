//! Start and stop of a switch. All steps that can fail come before the workers run.

pub(crate) mod open;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use xoff_config::shell::HttpAt;
use xoff_config::{Config, Problem};
use xoff_dataplane::driver::Boundary as _;
use xoff_dataplane::frame::FrameStore as _;
use xoff_dataplane::switch::{Switch, WorkerId, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::policy::CustomPanic;
use xoff_flow_control::settings::SwitchSettings;
use xoff_recording::{Recorder, books};
use xoff_wire::units::{MacAddr, PortId};
use xoff_xdp::XdpError;

use crate::bell::Bell;
pub use crate::confine::Privileges;
use crate::confine::{ConfineError, Part};
use crate::control::aggregation::Aggregators;
use crate::control::current::Current;
use crate::control::host_interfaces::HostInterfaces;
use crate::control::loss_books::LossBooks;
use crate::control::mailbox::{Answer, Mailbox};
use crate::control::mirroring::{self, Mirroring};
use crate::control::neighbors::Speakers;
use crate::control::opener::{self, Opener};
use crate::control::policy_cells::PolicyCells;
use crate::control::reload::{Reloader, Reloads, Reserved, Source, commit_time};
use crate::control::snooping::MulticastSnooper;
use crate::control::status::Status;
use crate::control::{
    self, ControlEnded, ControlError, ControlHandle, Http, Link, OngoingConditions, SwitchView, WorkerFacts,
    WorkerView, snapshot,
};
use crate::descriptors::{Allowed, DescriptorError};
use crate::handoff::{Bells, Handoff};
use crate::host_path::ends::SendCounts;
use crate::host_path::{self, HostPath};
use crate::lacp::LacpPorts;
use crate::lldp::Neighbors;
use crate::machine;
use crate::recording::{CannotRecord, Recording, RecordingFile};
use crate::router::{self, RouterError, RouterView};
use crate::snooping::Snooping;
use crate::worker::{Connections, Outcome, Worker};
use open::{OpenedPorts, in_terms_of, open, owner, shares};
use xoff_xdp::clock;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Xdp(#[from] XdpError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error(transparent)]
    Privileges(#[from] ConfineError),
    #[error(
        "{device} has an MTU of {mtu}, but frames with more than {most} bytes of payload need Linux 6.6 or \
         newer (AF_XDP frames of several chunks): write mtu = {most} or less for all ports"
    )]
    LongFrames { device: String, mtu: u32, most: u32 },
    #[error(
        "receive chunks of 512 bytes at {device} need Linux 6.6 or newer: write receive_chunks = \"whole\" in [memory]"
    )]
    SmallChunks { device: String },
    #[error("{}; {}", misfit.message, misfit.help.as_deref().unwrap_or_default())]
    Misfit { misfit: Problem },
    #[error(transparent)]
    Descriptors(#[from] DescriptorError),
    #[error(
        "the configuration needs more than 2^32 frames or cells of buffer memory; `xoff check` shows their use"
    )]
    TooMuchMemory,
    #[error(transparent)]
    Recording(#[from] CannotRecord),
    #[error(transparent)]
    Router(#[from] RouterError),
    #[error("cannot start the switch: {0}")]
    Thread(#[from] io::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    #[error("worker {worker} ended: {source}")]
    System { worker: usize, source: io::Error },
    #[error("worker {worker} panicked, which is a bug of xoff; the peers of its ports were resumed")]
    Panicked { worker: usize },
    #[error(
        "worker {worker} ended because the custom policy of this program panicked ({message}); the peers of its ports were resumed"
    )]
    CustomPolicy { worker: usize, message: String },
    #[error("{error}; the switch was stopped")]
    Control { error: ControlEnded, status: Box<Status> },
}

#[derive(Debug)]
pub struct Running {
    view: Arc<SwitchView>,
    bells: Arc<Bells>,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<(Worker, Outcome)>>,
    wake: Sender<Wake>,
    woken: Receiver<Wake>,
    host_path: Option<HostPath>,
    mirroring: Option<Mirroring>,
    control: Option<ControlHandle>,
    opening: Option<JoinHandle<()>>,
    reloads: Option<Reloads>,
    recording: Option<Recording>,
}

impl Running {
    #[must_use]
    pub fn view(&self) -> &Arc<SwitchView> {
        &self.view
    }

    #[must_use]
    pub fn http(&self) -> Option<&HttpAt> {
        self.control.as_ref().and_then(ControlHandle::at)
    }

    #[must_use]
    pub fn end(&self) -> End {
        End(self.wake.clone())
    }

    #[must_use]
    pub fn reloads(&self) -> Option<&Reloads> {
        self.reloads.as_ref()
    }

    pub fn wait(&self) {
        let _ = self.woken.recv();
    }

    /// Stops the switch: sends XON to paused peers, detaches the XDP programs, and returns the last status.
    ///
    /// # Errors
    /// If a thread ended early.
    pub fn stop(mut self) -> Result<Status, ThreadError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Status, ThreadError> {
        let outcome = self.end_threads();
        if let Some(opening) = self.opening.take() {
            let _ = opening.join(); // its panic is on standard error
        }
        // Wait for the recording after the devices are restored: a slow reader must not delay peers.
        if let Some(recording) = self.recording.take() {
            recording.wait(|| self.woken.try_iter().any(|wake| wake == Wake::Requested));
        }
        outcome
    }

    fn end_threads(&mut self) -> Result<Status, ThreadError> {
        drop(self.mirroring.take());
        drop(self.host_path.take());
        self.stop.store(true, Ordering::Relaxed);
        self.bells.wake_all();
        let ended: Vec<Result<Worker, ThreadError>> =
            self.workers.drain(..).enumerate().map(|(worker, thread)| join(worker, thread)).collect();
        let workers: Result<Vec<Worker>, ThreadError> = ended.into_iter().collect();
        if let Some(recording) = &self.recording {
            let worker = workers.as_ref().ok().and_then(|workers| workers.first());
            recording.stop(worker.map(|worker| books(&worker.switch, &self.view.counters)));
        }
        let control = self.control.take().map_or(Ok(()), ControlHandle::stop);
        let workers = workers?;
        let ledgers: Vec<_> = workers.iter().map(|worker| Answer::Given(worker.switch.ledger())).collect();
        let status = snapshot(&self.view, &ledgers);
        drop(workers); // not before: a device's losses count only while it is a port
        match control {
            Ok(()) => Ok(status),
            Err(error) => Err(ThreadError::Control { error, status: Box::new(status) }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    Requested,
    ThreadEnded,
}

/// Handle that stops the switch, which may then wait for a recording's reader; a second use ends this wait.
#[derive(Clone, Debug)]
pub struct End(Sender<Wake>);

impl End {
    pub fn now(&self) {
        let _ = self.0.send(Wake::Requested);
    }
}

/// Reports, when dropped, that its thread has ended, even by a panic.
#[derive(Clone)]
struct ReportEnd(Sender<Wake>);

impl Drop for ReportEnd {
    fn drop(&mut self) {
        let _ = self.0.send(Wake::ThreadEnded); // fails if the switch has ended
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.workers.is_empty()
            && let Err(error) = self.finish()
        {
            tracing::error!("{error}");
        }
    }
}

pub fn start(config: &Config, privileges: &Privileges) -> Result<Running, RunError> {
    start_from(None, config, None, privileges)
}

pub fn start_from(
    source: Option<Source>,
    config: &Config,
    wanted: Option<RecordingFile>,
    privileges: &Privileges,
) -> Result<Running, RunError> {
    let shell = &config.shell;
    let open_files = Allowed::raise()?;
    let listen = |at| control::listen(at, shell.http_netns.as_deref(), &shell.http_hosts);
    let http = shell.http.as_ref().map(listen).transpose()?;
    let machine = machine::here(); // the memory was checked with the file
    if let Some(misfit) = config.misfits(&machine).into_iter().find(Problem::is_error) {
        return Err(RunError::Misfit { misfit });
    }
    let config = &config.with_spare_places();
    let shell = &config.shell;
    let plans = config.workers(&machine.cores);
    wanted.iter().try_for_each(|_| RecordingFile::check(config, plans.len()))?;
    let queues = config.queues(&machine);
    open_files.suffices(&queues, plans.len())?;
    let shares = shares(config, &plans, &queues)?;
    let opened = open(config, &plans, &shares);
    let OpenedPorts { stores, ports, views } = opened.map_err(|error| in_terms_of(config, error))?;
    let macs = ports.iter().flatten().map(|(id, port)| (*id, port.facts().mac));
    let settings = settings_here(&config.switch, macs);
    let router = shell.router.as_ref().map(|router| router::open(router, &settings)).transpose()?;
    let counters = Counters::with_shadows(settings.ports.len(), settings.shadows.len());
    let owners: Box<[WorkerId]> =
        (0..=u8::MAX).map(PortId).take(settings.ports.len()).map(|id| owner(&plans, id)).collect();
    let bells = Bells::new(plans.len())?;
    let mut handoffs = Handoff::for_each(&bells).into_iter();
    let bell = Arc::new(Bell::new()?);
    let send_counts = SendCounts::new(owners.len());
    let (host_end, ends) = host_path::ends::ends(&bells, owners.clone(), plans.len(), &bell, &send_counts);
    let mut ends = ends.into_iter();
    let mut workers = Vec::new();
    let mut worker_views = Vec::new();
    let (mut wanted, mut recording) = (wanted, None);
    for ((me, (plan, store)), ports) in (0..=u8::MAX).map(WorkerId).zip(plans.iter().zip(stores)).zip(ports) {
        let (mailbox, inbox) = Mailbox::new()?;
        let facts = Arc::new(WorkerFacts::default());
        worker_views.push(WorkerView {
            core: plan.core.map(usize::from),
            slots: store.capacity(),
            facts: Arc::clone(&facts),
            mailbox,
        });
        let roles = Workers::new(owners.clone(), me);
        let mut switch = Switch::new(&settings, store.capacity(), roles, Arc::clone(&counters));
        let (mut sink, end) = ends.next().expect("each worker must have a connection to the host path");
        let mut recorder = None;
        if let Some(wanted) = wanted.take() {
            let (ring, begun) = wanted.begin(&settings, store.capacity(), privileges)?;
            let of_worker =
                recorder.insert(Box::new(Recorder::new(&mut switch, &settings, clock::now(), ring)));
            sink = of_worker.before(Some(sink));
            recording = Some(begun);
        }
        switch.batch(clock::now()).put_punt_sink(sink);
        let handoff = handoffs.next().expect("each worker must have queues to the other workers");
        let commit_time = commit_time(ports.iter().map(|(id, _)| &config.switch.ports[id.index()]));
        let connections = Connections::new(handoff, end, inbox, facts, commit_time);
        let (poll, stall_budget) = (shell.poll, shell.stall_budget);
        workers.push((plan.core, Worker { switch, store, ports, connections, poll, stall_budget, recorder }));
    }
    let router_view = router.as_ref().map(|router| {
        RouterView::new(router.taps.iter().map(|(interface, _)| interface), &settings, router.handle.clone())
    });
    let view = Arc::new(SwitchView {
        name: shell.name.clone(),
        policies: PolicyCells::new(settings.policies),
        configured: Current::new(settings),
        counters,
        ports: views,
        workers: worker_views,
        stall_budget: shell.stall_budget,
        clock: clock::now,
        started_at: clock::now(),
        router: router_view,
        books: LossBooks::new(owners.len()),
        ongoing: OngoingConditions::default(),
        neighbors: Neighbors::new(owners.len()),
        snooping: Snooping::default(),
        lacp: LacpPorts::new(owners.len()),
        host_bell: Arc::clone(&bell),
    });
    let (opener, opening) = opener::start(config, privileges)?;
    if let Privileges::Drop(confinement) = privileges {
        confinement.enter(Part::Owner)?;
    }
    // Report down links to the dataplane now, because netlink may report them only after the workers have started.
    for (id, _) in view.places().filter(|(_, port)| port.link.get() == Link::Down) {
        for (_, worker) in &mut workers {
            let Worker { switch, store, recorder, .. } = worker;
            match recorder {
                None => switch.batch(clock::now()).set_link(id, false, store),
                Some(by) => {
                    let mut batch = by.batch(switch, clock::now());
                    by.set_link(&mut batch, id, false, store);
                }
            }
        }
    }
    let reserved = Reserved { plans, shares, queues };
    let reload = |source| Reloader::new(Arc::clone(&view), config.clone(), reserved, source, opener.clone());
    let reload = source.map(reload);
    // From here on the ports receive frames. Until the workers run, rings store the frames of at most `stall_budget`.
    // Losses count from `monitor().begin()` on.
    for (_, Worker { ports, store, .. }) in &mut workers {
        for (id, port) in ports {
            port.begin(*id, store);
            port.monitor().begin();
        }
    }
    let mut running = with_control(view, bells, http, Some(opener), reload, privileges)?;
    running.opening = Some(opening);
    running.recording = recording;
    let aggregators = Aggregators::new(Arc::clone(&running.view), Arc::clone(&send_counts));
    let speakers = Speakers::new(Arc::clone(&running.view), running.reloads.clone(), send_counts);
    let snooper = MulticastSnooper::new(Arc::clone(&running.view));
    let interfaces = router.map(|router::OpenedRouter { taps, mirror, handle }| {
        let to_tell = handle.clone();
        running.mirroring = Some(mirroring::start(mirror, handle, Arc::clone(&running.view), privileges)?);
        Ok::<_, ConfineError>(HostInterfaces::new(taps, Arc::clone(&running.view), to_tell))
    });
    let interfaces = interfaces.transpose()?;
    running.host_path = Some(host_path::start(
        host_end,
        &bell,
        (aggregators, ((speakers, snooper), interfaces)),
        privileges,
    )?);
    // Start the workers last: `/healthz` must answer 200 only after every other thread has dropped its privileges.
    for (core, worker) in workers {
        let (stop, end) = (Arc::clone(&running.stop), ReportEnd(running.wake.clone()));
        running.workers.push(spawn(worker, core, stop, end, privileges)?);
    }
    Ok(running)
}

fn settings_here(
    configured: &SwitchSettings,
    macs: impl Iterator<Item = (PortId, MacAddr)>,
) -> SwitchSettings {
    let mut settings = configured.clone();
    settings.fdb.seed = machine::secret();
    for (id, mac) in macs {
        settings.ports[id.index()].mac = mac;
    }
    settings
}

fn with_control(
    view: Arc<SwitchView>,
    bells: Arc<Bells>,
    http: Option<Http>,
    opener: Option<Opener>,
    reload: Option<(Reloads, Reloader)>,
    privileges: &Privileges,
) -> Result<Running, ControlError> {
    let (wake, woken) = mpsc::channel();
    let report_end = ReportEnd(wake.clone());
    let reloads = reload.as_ref().map(|(reloads, _)| reloads.clone());
    let control = control::start(Arc::clone(&view), http, opener, reload, &privileges.of_http(), report_end)?;
    let (stop, workers, control) = (Arc::default(), Vec::new(), Some(control));
    let (host_path, mirroring, opening, recording) = (None, None, None, None);
    Ok(Running {
        view,
        bells,
        stop,
        workers,
        wake,
        woken,
        host_path,
        mirroring,
        control,
        opening,
        reloads,
        recording,
    })
}

fn join(worker: usize, thread: JoinHandle<(Worker, Outcome)>) -> Result<Worker, ThreadError> {
    match thread.join().and_then(|(owned, outcome)| outcome.map(|ended| ended.map(|()| owned))) {
        Ok(ended) => ended.map_err(|source| ThreadError::System { worker, source }),
        Err(cause) => Err(match cause.downcast::<CustomPanic>() {
            Ok(policy) => ThreadError::CustomPolicy { worker, message: policy.message },
            Err(_) => ThreadError::Panicked { worker },
        }),
    }
}

fn spawn(
    worker: Worker,
    core: Option<u16>,
    stop: Arc<AtomicBool>,
    report_end: ReportEnd,
    privileges: &Privileges,
) -> Result<JoinHandle<(Worker, Outcome)>, ConfineError> {
    let work = move || {
        let _report_end = report_end;
        match core {
            Some(core) if core_affinity::set_for_current(core_affinity::CoreId { id: core.into() }) => {
                tracing::info!(core, "worker pinned to a core");
            }
            Some(core) => {
                tracing::warn!(core, "cannot pin a worker to its core; the kernel decides where it runs");
            }
            None => tracing::info!("worker not pinned to a core: `workers` names no core for this worker"),
        }
        worker.run(&stop)
    };
    privileges.spawn(Part::Worker, "xoff-worker", work)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

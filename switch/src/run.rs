//! A switch from a configuration: opens everything, starts the threads, and accounts for everything
//! at the end.
//!
//! Nothing is half-started: what can fail is tried before the first thread runs, and what was opened
//! is closed again when something does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use xoff_config::shell::{Chunks, Worker as WorkerPlan, ZeroCopy};
use xoff_config::{Config, Problem};
use xoff_dataplane::counters::Counters;
use xoff_dataplane::frame::FrameStore as _;
use xoff_dataplane::policy::CustomPanic;
use xoff_dataplane::settings::SwitchSettings;
use xoff_dataplane::switch::{Switch, WorkerId, Workers};
use xoff_dataplane::units::{ETHERNET_HEADER, MacAddr, Nanos, PortId};
use xoff_xdp::{Port, Share, Store, Umem, UmemSettings, XdpError};

use crate::clock;
use crate::control::mailbox::{Answer, Inbox, Mailbox};
use crate::control::policy_cells::PolicyCells;
use crate::control::privileges::{self, PrivilegeError};
use crate::control::status::Status;
use crate::control::{
    self, ControlEnded, ControlError, ControlHandle, Http, PortView, SwitchView, WorkerFacts, WorkerView,
    snapshot,
};
use crate::descriptors::{Allowed, DescriptorError};
use crate::handoff::{Exchange, Handoff};
use crate::machine;
use crate::worker::Worker;

/// Why a switch could not be started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A port or the packet memory.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// HTTP or netlink.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Capabilities.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// The kernel is too old for an MTU.
    #[error(
        "{device} is to forward an MTU of {mtu}, and frames of more than {most} bytes of payload take Linux 6.6 or \
         newer (AF_XDP frames of several chunks): write mtu = {most} or less for all ports"
    )]
    LongFrames {
        /// The device at which the kernel said so.
        device: String,
        /// The largest MTU of the ports.
        mtu: u32,
        /// The largest that works.
        most: u32,
    },
    /// The machine does not have what the devices turned out to need.
    #[error("{}; {}", misfit.message, misfit.help.as_deref().unwrap_or_default())]
    Misfit {
        /// What it lacks.
        misfit: Problem,
    },
    /// Open files.
    #[error(transparent)]
    Descriptors(#[from] DescriptorError),
    /// More packet memory than chunks can be numbered.
    #[error(
        "the configuration asks for {chunks} chunks of packet memory, more than 2^32; `xoff check` shows for what"
    )]
    TooMuchMemory {
        /// How many.
        chunks: u64,
    },
    /// Frames as long as the switch forwards would not go through the device.
    #[error(
        "port {port} has an MTU of {mtu}, but its device {device} one of {device_mtu}: \
         `ip link set {device} mtu {mtu}` (at both ends of the cable), or write mtu = {device_mtu}"
    )]
    Mtu {
        /// Name of the port.
        port: String,
        /// Its MTU.
        mtu: u32,
        /// Its device.
        device: String,
        /// The device's MTU.
        device_mtu: u32,
    },
    /// A thread, or what it needs.
    #[error("cannot start a worker: {0}")]
    Thread(#[from] io::Error),
}

/// Why a thread of a switch ended before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum ThreadError {
    /// The system refused what a sleep needs.
    #[error("worker {worker} ended: {source}")]
    System {
        /// Its number.
        worker: usize,
        /// The system's words.
        source: io::Error,
    },
    /// A bug of ours. What it said stands on standard error.
    #[error("worker {worker} panicked, which is a bug of xoff; its peers were let go")]
    Panicked {
        /// Its number.
        worker: usize,
    },
    /// A bug of the policy that the program brings along.
    #[error(
        "worker {worker} ended because the custom policy of this program panicked ({said}); its peers were let go"
    )]
    CustomPolicy {
        /// Its number.
        worker: usize,
        /// What the policy said.
        said: String,
    },
    /// HTTP is not served and links are not followed any more. The workers were stopped, and lost nothing by it.
    #[error("{error}; the switch was stopped")]
    Control {
        /// How it ended.
        error: ControlEnded,
        /// What the switch was like when it was stopped.
        status: Box<Status>,
    },
}

/// What becomes of the privileges of the calling thread and its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privileges {
    /// They stay: the switch is part of a larger program.
    Keep,
    /// All that is not needed any more goes, before the first frame is looked at.
    Drop,
}

/// A running switch. Dropping it stops it.
#[derive(Debug)]
pub struct Running {
    view: Arc<SwitchView>,
    exchange: Arc<Exchange>,
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<io::Result<Worker>>>,
    report_end: Sender<()>,
    ended: Receiver<()>,
    control: Option<ControlHandle>,
}

impl Running {
    /// What can be seen of it.
    #[must_use]
    pub fn view(&self) -> &Arc<SwitchView> {
        &self.view
    }

    /// Where it serves HTTP.
    #[must_use]
    pub fn http(&self) -> Option<std::net::SocketAddr> {
        self.control.as_ref().and_then(ControlHandle::address)
    }

    /// Ends [`Running::wait`] from another thread.
    #[must_use]
    pub fn end(&self) -> End {
        End(self.report_end.clone())
    }

    /// Waits until somebody calls [`End::now`], or a thread has ended by itself.
    pub fn wait(&self) {
        let _ = self.ended.recv(); // fails only without senders, and this has one
    }

    /// Stops it: every held peer is let go, the programs are taken off, and the books are closed.
    ///
    /// # Errors
    /// What a thread ended with before it was asked to; the others have stopped as they should.
    pub fn stop(mut self) -> Result<Status, ThreadError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Status, ThreadError> {
        self.stop.store(true, Ordering::Relaxed);
        self.exchange.wake_all();
        // All of them are waited for, whatever becomes of one.
        let ended: Vec<Result<Worker, ThreadError>> =
            self.workers.drain(..).enumerate().map(|(worker, thread)| join(worker, thread)).collect();
        let workers: Result<Vec<Worker>, ThreadError> = ended.into_iter().collect();
        let control = self.control.take().map_or(Ok(()), ControlHandle::stop);
        let ledgers: Vec<_> = workers?.iter().map(|worker| Answer::Given(worker.switch.ledger())).collect();
        let status = snapshot(&self.view, &ledgers);
        match control {
            Ok(()) => Ok(status),
            Err(error) => Err(ThreadError::Control { error, status: Box::new(status) }),
        }
    }
}

/// Ends a [`Running::wait`].
#[derive(Clone, Debug)]
pub struct End(Sender<()>);

impl End {
    /// Now.
    pub fn now(&self) {
        let _ = self.0.send(()); // or it has ended already
    }
}

/// Tells that a thread has ended, by a panic too.
struct Tell(End);

impl Drop for Tell {
    fn drop(&mut self) {
        self.0.now();
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

/// Starts a switch in the network namespace of the calling thread.
///
/// # Errors
/// Where anything of it cannot be had; then nothing is left open.
pub fn start(config: &Config, privileges: Privileges) -> Result<Running, RunError> {
    let shell = &config.shell;
    let open_files = Allowed::raise()?;
    let http = shell.http.map(|address| control::listen(address, &shell.http_hosts)).transpose()?;
    check_mtus(config)?;
    let machine = machine::here();
    if let Some(misfit) = config.misfits(&machine).into_iter().find(Problem::is_error) {
        return Err(RunError::Misfit { misfit });
    }
    let plans = config.workers(&machine.cores);
    let queues = config.queues(&machine);
    open_files.suffices(&queues, plans.len())?;
    let shares = shares(config, &plans, &queues)?;
    let opened = match open(config, &plans, &shares, shell.zero_copy) {
        // One memory for all ports: where one device cannot share it, none does.
        Err(XdpError::NotZeroCopy { .. }) if shell.zero_copy == ZeroCopy::Auto => {
            open(config, &plans, &shares, ZeroCopy::Off)
        }
        opened => opened,
    };
    let Opened { stores, ports, views } = opened.map_err(|error| in_terms_of(config, error))?;
    let macs = ports.iter().flatten().map(|(id, port)| (*id, port.facts().mac));
    let settings = settings_here(&config.switch, macs);
    let counters = Counters::with_shadows(settings.ports.len(), settings.shadows.len());
    let owners: Box<[WorkerId]> =
        (0..=u8::MAX).map(PortId).take(settings.ports.len()).map(|id| owner(&plans, id)).collect();
    let exchange = Exchange::new(plans.len())?;
    let mut workers = Vec::new();
    let mut worker_views = Vec::new();
    for ((me, (plan, store)), ports) in (0..=u8::MAX).map(WorkerId).zip(plans.iter().zip(stores)).zip(ports) {
        let (mailbox, inbox) = Mailbox::new()?;
        let facts = Arc::new(WorkerFacts::default());
        worker_views.push(WorkerView {
            core: plan.core.map(usize::from),
            facts: Arc::clone(&facts),
            mailbox,
        });
        let roles = Workers::new(owners.clone(), me);
        let switch = Switch::new(&settings, store.capacity(), roles, Arc::clone(&counters));
        let handoff = Handoff::new(Arc::clone(&exchange), me);
        workers.push((plan.core, worker(config, switch, store, ports, handoff, inbox, facts)));
    }
    let view = Arc::new(SwitchView {
        name: shell.name.clone(),
        policies: PolicyCells::new(settings.policies),
        settings,
        counters,
        ports: views,
        workers: worker_views,
        stall_budget: shell.stall_budget,
        clock: clock::now,
        started_at: clock::now(),
        started: SystemTime::now(),
    });
    if privileges == Privileges::Drop {
        privileges::drop_all_but_network_administration()?;
    }
    let mut running = with_control(view, exchange, http)?;
    for (core, worker) in workers {
        let (stop, end) = (Arc::clone(&running.stop), running.end());
        running.workers.push(spawn(worker, core, stop, end)?);
    }
    Ok(running)
}

/// What was configured, with what is known at a start only: a secret of its own, and the devices' addresses.
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

/// A switch whose workers do not run yet.
fn with_control(
    view: Arc<SwitchView>,
    exchange: Arc<Exchange>,
    http: Option<Http>,
) -> Result<Running, ControlError> {
    let (report_end, ended) = mpsc::channel();
    let control = control::start(Arc::clone(&view), http, Tell(End(report_end.clone())))?;
    let stop = Arc::default();
    Ok(Running { view, exchange, stop, workers: Vec::new(), report_end, ended, control: Some(control) })
}

/// What a refusal means for what was configured.
fn in_terms_of(config: &Config, error: XdpError) -> RunError {
    match error {
        XdpError::NoMultiBuffer { device } => {
            let mtus = config.switch.ports.iter().map(|port| port.mtu_frame - ETHERNET_HEADER);
            RunError::LongFrames { device, mtu: mtus.max().unwrap_or(0), most: Chunks::MTU_OF_ONE }
        }
        error => error.into(),
    }
}

fn check_mtus(config: &Config) -> Result<(), RunError> {
    for (shell, port) in config.shell.ports.iter().zip(&config.switch.ports) {
        let (mtu, device_mtu) = (port.mtu_frame - ETHERNET_HEADER, xoff_xdp::mtu(&shell.device)?);
        if mtu > device_mtu {
            let (port, device) = (port.name.clone(), shell.device.clone());
            return Err(RunError::Mtu { port, mtu, device, device_mtu });
        }
    }
    Ok(())
}

/// Everything that is taken from the kernel.
struct Opened {
    stores: Vec<Store>,
    /// By worker.
    ports: Vec<Vec<(PortId, Port)>>,
    views: Vec<PortView>,
}

fn open(
    config: &Config,
    plans: &[WorkerPlan],
    shares: &[Share],
    zero_copy: ZeroCopy,
) -> Result<Opened, XdpError> {
    let (umem, mut stores) = Umem::new(umem_settings(config, zero_copy), shares)?;
    let mut views = Vec::new();
    let mut ports: Vec<Vec<(PortId, Port)>> = plans.iter().map(|_| Vec::new()).collect();
    for (id, port) in (0..=u8::MAX).map(PortId).zip(&config.shell.ports) {
        let worker = owner(plans, id).index();
        let open = Port::open(&umem, &mut stores[worker], port)?;
        views.push(port_view(&open, worker));
        ports[worker].push((id, open));
    }
    Ok(Opened { stores, ports, views })
}

fn worker(
    config: &Config,
    switch: Switch,
    store: Store,
    ports: Vec<(PortId, Port)>,
    handoff: Handoff,
    inbox: Inbox,
    facts: Arc<WorkerFacts>,
) -> Worker {
    let (poll, stall_budget) = (config.shell.poll, config.shell.stall_budget);
    let lines = ports.iter().map(|(id, _)| &config.switch.ports[id.index()]);
    let commit_time = lines.map(|port| port.speed.time_of(port.commit)).min().unwrap_or(Nanos::NEVER);
    Worker { switch, store, ports, handoff, inbox, facts, poll, stall_budget, commit_time }
}

fn join(worker: usize, thread: JoinHandle<io::Result<Worker>>) -> Result<Worker, ThreadError> {
    match thread.join() {
        Ok(ended) => ended.map_err(|source| ThreadError::System { worker, source }),
        Err(cause) => Err(match cause.downcast::<CustomPanic>() {
            Ok(policy) => ThreadError::CustomPolicy { worker, said: policy.said },
            Err(_) => ThreadError::Panicked { worker },
        }),
    }
}

fn spawn(
    worker: Worker,
    core: Option<u16>,
    stop: Arc<AtomicBool>,
    end: End,
) -> io::Result<JoinHandle<io::Result<Worker>>> {
    thread::Builder::new().name("xoff-worker".into()).spawn(move || {
        let _tell = Tell(end);
        match core {
            Some(core) if core_affinity::set_for_current(core_affinity::CoreId { id: core.into() }) => {
                tracing::info!(core, "a worker is pinned");
            }
            Some(core) => {
                tracing::warn!(core, "cannot pin a worker to its core; the kernel decides where it runs");
            }
            None => tracing::info!("a worker is not pinned: `workers` gives it no core"),
        }
        worker.run(&stop)
    })
}

fn owner(plans: &[WorkerPlan], port: PortId) -> WorkerId {
    let ids = (0..=u8::MAX).map(WorkerId).zip(plans);
    let mut owners = ids.filter(|(_, plan)| plan.ports.contains(&port)).map(|(id, _)| id);
    owners.next().expect("a plan gives every port to one worker")
}

fn umem_settings(config: &Config, zero_copy: ZeroCopy) -> UmemSettings {
    let shell = &config.shell;
    let largest = |size: fn(&xoff_config::shell::Rings) -> u32| {
        shell.ports.iter().map(|port| size(&port.rings)).max().unwrap_or(64)
    };
    UmemSettings {
        chunk_bytes: shell.chunks.bytes,
        multi_buffer: shell.chunks.multi_buffer,
        zero_copy,
        fill: largest(|rings| rings.fill),
        completion: largest(|rings| rings.completion),
    }
}

/// Each worker has the chunks of its ports.
fn shares(config: &Config, plans: &[WorkerPlan], queues: &[Option<u32>]) -> Result<Vec<Share>, RunError> {
    let sum = |plan: &WorkerPlan, control: bool| -> u64 {
        let chunks = config.worker_chunks(&plan.ports, queues).into_iter();
        chunks.filter(|(what, _)| (*what == "control frames") == control).map(|(_, chunks)| chunks).sum()
    };
    let number = |chunks: u64| u32::try_from(chunks).map_err(|_| RunError::TooMuchMemory { chunks });
    plans
        .iter()
        .map(|plan| Ok(Share { chunks: number(sum(plan, false))?, control: number(sum(plan, true))? }))
        .collect()
}

fn port_view(port: &Port, worker: usize) -> PortView {
    let facts = port.facts();
    for warning in &facts.warnings {
        tracing::warn!("{warning}");
    }
    tracing::info!(
        device = %facts.device,
        mac = %facts.mac,
        queues = facts.queues,
        mode = ?facts.mode,
        zero_copy = facts.zero_copy,
        "port open"
    );
    let ifindex = u32::try_from(facts.ifindex).unwrap_or(0);
    let mut view = PortView::new(&facts.device, ifindex, port.monitor());
    view.worker = worker;
    view.native = facts.mode == xoff_ebpf::Mode::Native;
    view.zero_copy = facts.zero_copy;
    view.queues = facts.queues;
    view
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_config::Machine;
    use xoff_dataplane::settings::HashSeed;
    use xoff_dataplane::units::{Class, Nanos};

    use super::*;

    #[test]
    fn a_control_thread_that_ends_by_itself_ends_the_switch_and_is_told() {
        let (mut view, _inbox) = control::tests::view();
        let seen = Arc::get_mut(&mut view).unwrap();
        // Whoever tells of a storm that is over asks for the time.
        seen.counters.class(PortId(1), Class::ALL[3]).storm_since.set(0);
        seen.clock = || match thread::current().name() {
            Some("xoff-control") => panic!("this test wants it to"),
            _ => Nanos::from_secs(9),
        };
        let running = with_control(view, Exchange::new(1).unwrap(), None).unwrap();
        running.wait();
        let error = running.stop().unwrap_err();
        assert!(
            matches!(&error, ThreadError::Control { error: ControlEnded::Panicked, status } if status.name == "s1"),
            "{error:?}"
        );
    }

    #[test]
    fn two_starts_of_one_configuration_have_secrets_of_their_own() {
        let text = "[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\n";
        let config = Config::from_toml("test", text, Machine::default()).unwrap();
        let mac = MacAddr([2, 0, 0, 0, 0, 7]);
        let starts = [0, 1].map(|_| settings_here(&config.switch, [(PortId(0), mac)].into_iter()));
        assert!(starts[0].fdb.seed != starts[1].fdb.seed);
        for settings in starts {
            assert!(settings.fdb.seed != config.switch.fdb.seed && settings.fdb.seed != HashSeed::KNOWN);
            assert_eq!(settings.ports[0].mac, mac);
        }
    }

    #[test]
    fn a_worker_that_a_custom_policy_ended_does_not_call_it_a_bug_of_xoff() {
        let said = |cause: Box<dyn std::any::Any + Send>| {
            let thread = thread::spawn(move || std::panic::resume_unwind(cause));
            join(3, thread).map(|_| ()).unwrap_err().to_string()
        };
        let policy = said(Box::new(CustomPanic { said: "no such share".into() }));
        let expected =
            "worker 3 ended because the custom policy of this program panicked (no such share); its";
        assert!(policy.starts_with(expected), "{policy}");
        assert!(said(Box::new("a bug")).contains("which is a bug of xoff"));
    }

    #[test]
    fn a_kernel_without_multi_buffer_is_told_as_an_mtu() {
        let port = |name, mtu| {
            format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\nspeed = \"1G\"\nmtu = {mtu}\n")
        };
        let text = port("a", 1500) + &port("b", 9000);
        let config = Config::from_toml("test", &text, Machine::default()).unwrap();
        let said = in_terms_of(&config, XdpError::NoMultiBuffer { device: "a".into() }).to_string();
        assert!(
            said.contains("MTU of 9000") && said.contains("Linux 6.6") && said.contains("mtu = 3818"),
            "{said}"
        );
        let other = in_terms_of(&config, XdpError::NoAfXdp).to_string();
        assert!(other.contains("Linux 5.18"), "{other}");
    }
}

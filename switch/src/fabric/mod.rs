//! Hosts and switches in namespaces of this process: built from a plan, run under a load, and accounted
//! for. What the demo and the experiments stand on.
//!
//! The switches are what `xoff run` starts and the hosts what `xoff traffic` is, each a thread or two in
//! a namespace of its own; or a host is left to the kernel, and whoever watches has sockets in it. Nothing
//! is left when the process goes, however it goes ([`crate::lab`]).

mod account;
mod credit;
mod live;
mod plan;
mod record;
mod settings;

use std::io;
use std::panic;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Duration;

use xoff_config::{Config, ConfigError, Device as DeviceFacts, Machine};
use xoff_dataplane::congestion::ReactionSettings;
use xoff_dataplane::units::{Bytes, Class, Nanos};
use xoff_hosts::{HostReport, Progress, STREAMS_MAX, Stream, settle};

pub use account::{Account, Pfc, Totals, jain};
pub use live::{Live, settled};
use plan::Stack;
pub use plan::{HostId, Plan, PortOf, SwitchId};
use record::Looks;
pub use record::{Completion, PauseEvent, QueueLook, Record, Recorder, Told};
pub use settings::Settings;

use crate::lab::{Device, Lab, LabError, Namespace, Switches, VethOptions};
use crate::machine;
use crate::run::{RunError, ThreadError};
use crate::traffic::{Host, HostError, HostOptions};

/// Why a fabric could not be built or run.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum FabricError {
    /// Namespaces and wires.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A switch.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A switch cannot be as it is told.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Config(#[from] ConfigError),
    /// A thread of a switch ended early.
    #[error(transparent)]
    Worker(#[from] ThreadError),
    /// Raw data find no place.
    #[error("cannot write raw data to {path}: {error}", path = .path.display())]
    #[diagnostic(help("look after the file system, or leave --csv out"))]
    Raw {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// The class that fabrics keep lossless.
pub const LOSSLESS: Class = Class::ALL[3];
/// Its DSCP: CS3.
const LOSSLESS_DSCP: u8 = 24;

/// Hosts end when nothing has moved for so long.
const CALM: Duration = Duration::from_millis(50);

/// A stream in the lossless class, as fast as the line and without end.
#[must_use]
pub fn lossless(to: HostId) -> Stream {
    Stream { class: LOSSLESS, dscp: LOSSLESS_DSCP, dst: to.address(), ..Stream::default() }
}

/// What the hosts send.
#[derive(Debug, Default)]
pub struct Load {
    streams: Vec<(HostId, Stream)>,
}

impl Load {
    /// One more stream of `host`, which is none of the kernel's.
    ///
    /// # Panics
    /// Where it has as many already as a host can number.
    pub fn send(&mut self, host: HostId, stream: Stream) -> &mut Load {
        let before = self.streams.iter().filter(|(of, _)| *of == host).count();
        assert!(before < STREAMS_MAX, "a host has at most {STREAMS_MAX} streams");
        self.streams.push((host, stream));
        self
    }

    /// When the first frame of stream `number` of `host` was due, by the clock of its report: its streams
    /// begin so long after the host, which is known from the one that was least late.
    #[must_use]
    pub fn due(&self, account: &Account, host: HostId, number: u8) -> Option<Nanos> {
        let streams = self.of(host);
        let sent = account.host(host).sent.iter().filter(|sent| sent.frames > 0);
        let began = sent.map(|sent| sent.first_ns - streams[usize::from(sent.stream)].start.0).min()?;
        streams.get(usize::from(number)).map(|stream| Nanos(began).after(stream.start))
    }

    /// From when stream `number` of `from` was due until its last frame was at `to`; `None` where not all of
    /// its frames came, and of a stream without a count.
    #[must_use]
    pub fn completion(&self, account: &Account, from: HostId, to: HostId, number: u8) -> Option<Nanos> {
        let count = self.of(from).get(usize::from(number))?.count?;
        let completed = account.stream(from, to, number)?.completed(count)?;
        Some(completed.since(self.due(account, from, number)?))
    }

    /// The streams of a host, by number.
    fn of(&self, host: HostId) -> Vec<Stream> {
        self.streams.iter().filter(|(of, _)| *of == host).map(|(_, stream)| stream.clone()).collect()
    }
}

/// Built, not running.
#[derive(Debug)]
pub struct Fabric {
    plan: Plan,
    switches: Vec<(Namespace, Config)>,
    hosts: Vec<Device>,
    reaction: Option<ReactionSettings>,
    recorder: Option<Recorder>,
    _lab: Lab,
}

impl Fabric {
    /// Namespaces, wires, and a configuration for each switch: what the plan says, with `variant` on top.
    /// Streams of the hosts have the reaction points of `variant`.
    ///
    /// # Errors
    /// Where the machine refuses namespaces or has too little memory, or a setting makes no sense.
    pub fn build(plan: Plan, variant: &Settings) -> Result<Fabric, FabricError> {
        let mut lab = Lab::new();
        let mut switches = Vec::new();
        // Devices of these names in the namespace of the caller are others.
        let machine = Machine { device: |_| DeviceFacts::Unknown, ..machine::here() };
        for switch in plan.switches() {
            let config = plan.config(switch, variant, machine.clone())?;
            switches.push((lab.namespace(plan.switch_name(switch))?, config));
        }
        let mut hosts = Vec::new();
        for (id, host) in plan.hosts().zip(&plan.hosts) {
            let namespace = lab.namespace(&host.name)?;
            let port = switches[host.at.switch.0].0.end(&host.name);
            let end = namespace.end("eth0").mac(id.address());
            let (_, device) = lab.veth(port, end, &VethOptions::default())?;
            if host.stack == Stack::Kernel {
                introduce(&plan, id, &device)?;
            }
            hosts.push(device);
        }
        for &(a, b) in &plan.trunks {
            let [a, b] = [a, b].map(|at| (&switches[at.switch.0].0, plan.port_name(at)));
            lab.veth(a.0.end(a.1), b.0.end(b.1), &VethOptions::default())?;
        }
        let (reaction, recorder) = (variant.reaction, variant.recorder.clone());
        Ok(Fabric { plan, switches, hosts, reaction, recorder, _lab: lab })
    }

    /// Its plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// By how much time a port runs ahead of its line after it was idle, while it sends so many frames of this size.
    #[must_use]
    pub fn credit(&self, at: PortOf, frame: Bytes, frames: u64) -> Nanos {
        let switch = &self.switches[at.switch.0].1.switch;
        credit::credit(&switch.ports[at.port.index()], &switch.pipeline, frame, frames)
    }

    /// The device of a host.
    #[must_use]
    pub fn device(&self, host: HostId) -> &Device {
        &self.hosts[host.0]
    }

    /// Starts the switches, lets the hosts send, and calls `watch`, which comes back when it has seen
    /// enough. Then the hosts end: as soon as all is sent and has arrived, at the latest after `patience`. Namespaces and
    /// devices are there as long as the fabric.
    ///
    /// # Errors
    /// Where a switch or a host cannot run.
    pub fn run<T>(
        &self,
        load: &Load,
        patience: Duration,
        watch: impl FnOnce(&Live) -> T,
    ) -> Result<(T, Account), FabricError> {
        let mut switches = Switches::start(&self.switches).map_err(|(_, error)| error)?;
        let stop = Arc::new(AtomicBool::new(false));
        let start = Arc::new(Barrier::new(self.plan.hosts_with(Stack::Traffic).count() + 1));
        let (mut threads, mut progress) = (Vec::new(), Vec::new());
        for host in self.plan.hosts() {
            let streams = load.of(host);
            let of_host = Arc::new(Progress::of_senders(self.plan.hosts().map(HostId::number)));
            progress.push((of_host.clone(), !streams.is_empty()));
            if self.plan.hosts[host.0].stack == Stack::Traffic {
                threads.push(self.start_host(host, streams, of_host, &start, &stop));
            }
        }
        start.wait();
        let looks = self.recorder.is_some().then(Looks::default);
        let live = Live::new(switches.views(), progress, &threads, looks);
        let seen = watch(&live);
        live.wait_until_calm(CALM, patience);
        let (begin, looks) = live.into_looks();
        stop.store(true, Ordering::Relaxed);
        let join = |thread: JoinHandle<_>| thread.join().unwrap_or_else(|cause| panic::resume_unwind(cause));
        let reports: Vec<Result<HostReport, HostError>> = threads.into_iter().map(join).collect();
        let views = switches.views();
        let held = account::held(&views);
        let statuses = switches.stop().into_iter().collect::<Result<_, _>>()?;
        let mut hosts = vec![HostReport::default(); self.hosts.len()];
        for (host, report) in self.plan.hosts_with(Stack::Traffic).zip(reports) {
            hosts[host.0] = report?;
        }
        for host in self.plan.hosts_with(Stack::Kernel) {
            hosts[host.0].drops.total = self.hosts[host.0].counters()?.dropped();
        }
        settle(&mut hosts);
        let account = Account::new(hosts, statuses, &views, held);
        if let (Some(recorder), Some(looks)) = (&self.recorder, looks) {
            recorder.take(&Record::of(&self.plan, load, &account, begin, looks))?;
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
        let (start, stop) = (Arc::clone(start), Arc::clone(stop));
        let mut options = HostOptions::new("eth0");
        options.line = self.plan.hosts[host.0].line;
        options.id = Some(host.number());
        options.linger = Some(Nanos::NEVER);
        options.announce = false;
        options.end_markers = false;
        // Their cycles differ from host to host.
        options.qcn = self.reaction.map(|of| ReactionSettings { seed: of.seed_of(host.number()), ..of });
        self.hosts[host.0].namespace().spawn_thread(move || {
            let host = Host::open(options);
            start.wait(); // also where it failed: the others wait for all
            host?.run(&streams, &stop, &progress)
        })
    }
}

/// Gives a host of the kernel its address, and tells it where all others are.
fn introduce(plan: &Plan, host: HostId, device: &Device) -> Result<(), LabError> {
    device.finish_frames()?;
    device.add_address(host.ipv4().into(), 16)?;
    let mut others = plan.hosts_with(Stack::Kernel).filter(|&other| other != host);
    others.try_for_each(|other| device.add_neighbour(other.ipv4().into(), other.address()))
}

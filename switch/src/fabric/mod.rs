//! Hosts and switches in namespaces of this process, or in the simulator: built from a plan, run under a load, and accounted
//! for. What the demo and the experiments stand on.
//!
//! Whoever runs a fabric and watches it need not know which of the two it is: settings, loads, counters, looks and accounts are
//! the same, and time is told by whoever drives it ([`Live`]).
//!
//! The switches are what `xoff run` starts and the hosts what `xoff traffic` is, each a thread or two in
//! a namespace of its own; or a host is left to the kernel, and whoever watches has sockets in it. Switches may be routers, with a
//! routing daemon beside each. In the simulator (`simulation.rs`) the same dataplanes and hosts are driven by events, which needs no
//! privilege, and routes are values (`table.rs`). Nothing is left when the process goes, however it goes ([`crate::lab`]).

mod account;
mod addresses;
mod credit;
mod line;
mod live;
mod plan;
mod probe;
mod record;
mod routing;
mod settings;
mod simulation;
mod started;
mod table;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use xoff_config::{Config, ConfigError, Hardware};
use xoff_dataplane::congestion::ReactionSettings;
use xoff_dataplane::settings::Spread;
use xoff_dataplane::units::{Bytes, Class, Nanos};
use xoff_hosts::{STREAMS_MAX, Stream};
use xoff_sim::Stalls;

pub use account::{Account, Pfc, Totals, jain};
pub use line::Line;
pub use live::{Live, settled};
use plan::Stack;
pub use plan::{HostId, Plan, PortOf, SwitchId};
pub use probe::ProbeError;
pub use record::{Completion, PauseEvent, QueueLook, Record, Recorder, Told};
pub use routing::RoutingError;
pub use settings::Settings;
pub use started::Started;

use crate::lab::{Device, Lab, LabError, Namespace, VethOptions};
use crate::machine;
use crate::run::{RunError, ThreadError};
use crate::traffic::HostError;

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
    /// Routers without routes.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Routing(#[from] RoutingError),
    /// There is no such thing in the simulator.
    #[error("this cannot be simulated: {0}")]
    #[diagnostic(help("leave --simulated out"))]
    Unsimulated(&'static str),
    /// Nobody knows which way a flow takes.
    #[error(transparent)]
    Probe(#[from] ProbeError),
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
    ground: Ground,
    reaction: Option<ReactionSettings>,
    recorder: Option<Recorder>,
}

/// What it stands on.
#[derive(Debug)]
enum Ground {
    Machine(Namespaces),
    Simulator(Model),
}

/// On this machine.
#[derive(Debug)]
struct Namespaces {
    switches: Vec<(Namespace, Config)>,
    /// Where the kernel of each router is; none where switches bridge.
    kernels: Vec<Namespace>,
    hosts: Vec<Device>,
    _lab: Lab,
}

/// To be simulated.
#[derive(Debug)]
struct Model {
    switches: Vec<Config>,
    /// Where chance begins.
    seed: u64,
    stalls: Option<Stalls>,
}

impl Fabric {
    /// A configuration for each switch: what the plan says, with `variant` on top; and namespaces and wires, unless the plan's lines
    /// are simulated. Streams of the hosts have the reaction points of `variant`.
    ///
    /// # Errors
    /// Where the machine refuses namespaces or has too little memory, a setting makes no sense, switches of a machine are to route and
    /// there is no FRR, or the simulator has not what it takes.
    ///
    /// # Panics
    /// Where switches are to route, and a host is the kernel's.
    pub fn build(plan: Plan, variant: &Settings) -> Result<Fabric, FabricError> {
        let is_simulated = plan.line().is_simulated();
        let ground = match plan.needs_a_machine() {
            Some(why) if is_simulated => return Err(FabricError::Unsimulated(why)),
            None if is_simulated => Ground::Simulator(Model::build(&plan, variant)?),
            _ => Ground::Machine(Namespaces::build(&plan, variant)?),
        };
        Ok(Fabric { plan, ground, reaction: variant.reaction, recorder: variant.recorder.clone() })
    }

    /// Its plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// By how much time a port runs ahead of its line after it was idle, while it sends so many frames of this size. On a line of ideal
    /// hardware frames are never faster than it.
    #[must_use]
    pub fn credit(&self, at: PortOf, frame: Bytes, frames: u64) -> Nanos {
        if self.plan.line().hardware() == Hardware::Ideal {
            return Nanos::ZERO;
        }
        let switch = &self.config(at.switch).switch;
        credit::credit(&switch.ports[at.port.index()], &switch.pipeline, frame, frames)
    }

    /// Whether all frames of a flow take the same of several equal ways.
    #[must_use]
    pub fn keeps_flows(&self) -> bool {
        let mut configs = self.plan.switches().map(|switch| self.config(switch));
        configs.all(|config| config.shell.router.as_ref().is_none_or(|router| router.spread == Spread::Flow))
    }

    fn config(&self, switch: SwitchId) -> &Config {
        match &self.ground {
            Ground::Machine(namespaces) => &namespaces.switches[switch.0].1,
            Ground::Simulator(model) => &model.switches[switch.0],
        }
    }

    /// The device of a host.
    ///
    /// # Panics
    /// Where it is simulated.
    #[must_use]
    pub fn device(&self, host: HostId) -> &Device {
        &self.machine().hosts[host.0]
    }

    fn machine(&self) -> &Namespaces {
        let Ground::Machine(namespaces) = &self.ground else { panic!("what is simulated has no namespaces") };
        namespaces
    }

    /// Starts the switches, and where they route, waits until routes are there.
    ///
    /// # Errors
    /// Where a switch cannot run, or a route does not come.
    pub fn start(&self) -> Result<Started<'_>, FabricError> {
        Started::start(self)
    }

    /// Starts the switches, lets the hosts send, and calls `watch`, which comes back when it has seen
    /// enough. Then the hosts end: as soon as all is sent and has arrived, at the latest after `patience`, which is that for lines of
    /// 100 Mb/s. Namespaces and devices are there as long as the fabric.
    ///
    /// # Errors
    /// Where a switch or a host cannot run.
    pub fn run<T>(
        &self,
        load: &Load,
        patience: Duration,
        watch: impl FnOnce(&Live) -> T,
    ) -> Result<(T, Account), FabricError> {
        self.start()?.run(load, patience, watch)
    }
}

impl Model {
    fn build(plan: &Plan, variant: &Settings) -> Result<Model, FabricError> {
        let machine = machine::here().without_networks();
        let configs = plan.switches().map(|switch| plan.config(switch, variant, machine.clone()));
        let switches = configs.collect::<Result<_, _>>()?;
        Ok(Model { switches, seed: variant.seed, stalls: variant.stalls.clone() })
    }
}

impl Namespaces {
    fn build(plan: &Plan, variant: &Settings) -> Result<Namespaces, FabricError> {
        if plan.is_routed {
            let of_kernel = plan.hosts_with(Stack::Kernel).count();
            assert_eq!(of_kernel, 0, "hosts of the kernel would take all others for neighbours");
        }
        plan.check_programs()?;
        let mut lab = Lab::new();
        let mut switches = Vec::new();
        // Devices of these names in the namespace of the caller are others.
        let machine = machine::here().without_networks();
        for switch in plan.switches() {
            let config = plan.config(switch, variant, machine.clone())?;
            switches.push((lab.namespace(plan.switch_name(switch))?, config));
        }
        let kernels = routing::kernels(plan, &lab)?;
        for ((_, config), kernel) in switches.iter_mut().zip(&kernels) {
            if let Some(router) = &mut config.shell.router {
                router.netns = Some(kernel.entrance().join("net"));
            }
        }
        let end = |at: PortOf| {
            let end = switches[at.switch.0].0.end(plan.port_name(at));
            if plan.is_routed { end.mac(addresses::device_address(at)) } else { end }
        };
        let mut hosts = Vec::new();
        for (id, host) in plan.hosts().zip(&plan.hosts) {
            let namespace = lab.namespace(&host.name)?;
            let device = namespace.end("eth0").mac(id.address());
            let (_, device) = lab.veth(end(host.at), device, &VethOptions::default())?;
            if host.stack == Stack::Kernel {
                introduce(plan, id, &device)?;
            }
            hosts.push(device);
        }
        for &(a, b) in &plan.trunks {
            lab.veth(end(a), end(b), &VethOptions::default())?;
        }
        Ok(Namespaces { switches, kernels, hosts, _lab: lab })
    }
}

/// Gives a host of the kernel its address, and tells it where all others are.
fn introduce(plan: &Plan, host: HostId, device: &Device) -> Result<(), LabError> {
    device.finish_frames()?;
    device.add_address(host.ipv4().into(), 8)?;
    let mut others = plan.hosts_with(Stack::Kernel).filter(|&other| other != host);
    others.try_for_each(|other| device.add_neighbour(other.ipv4().into(), other.address()))
}

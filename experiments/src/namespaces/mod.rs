//! Fabrics on this machine: the live half of [`crate`], which has plans, experiments and all that is the same in its simulator.
//!
//! The switches are what `xoff run` starts and the hosts what `xoff traffic` is, each a thread or two in
//! a namespace of its own; or a host is left to the kernel, whose sockets (`tcp.rs`) an experiment asks for. Switches may be routers, with
//! a routing daemon beside each. Nothing is left when the process goes, however it goes ([`xoff_lab`]).

mod gaps;
mod routing;
mod running;
mod tcp;

use std::thread;

use crate::experiment::LINES;
use crate::kernel::{Counts, Ecn, Kernels, Options, Transfer};
use crate::{Built, FabricError, Ground, HostId, Plan, PortOf, Refused, Stack, World, device_address};
use xoff_config::{Config, Machine};
use xoff_wire::units::BitRate;

use routing::RoutingError;
use running::Running;
use xoff_lab::{Device, Lab, LabError, Namespace, VethOptions};
use xoff_switch::machine;
use xoff_switch::run::{RunError, ThreadError};
use xoff_traffic::HostError;
use xoff_traffic::emit::LinkError;

/// Why a fabric could not be built or run here.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
enum LiveError {
    /// Namespaces and wires.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A switch.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A host's device.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Routers without routes.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Routing(#[from] RoutingError),
    /// A thread of a switch ended early.
    #[error(transparent)]
    Worker(#[from] ThreadError),
}

impl From<LiveError> for FabricError {
    fn from(error: LiveError) -> FabricError {
        Refused::new(error).into()
    }
}

/// Rate of the lines where none is given: 50 Mb/s for each core, so that hosts and switches, which all
/// share the cores, have time to spare; 1 Gb/s at most.
#[must_use]
pub fn rate_of_this_machine() -> BitRate {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    BitRate::from_mbps(50 * cores as u64).min(*LINES.end())
}

/// What the switches of a fabric have to fit into. Devices of their names in the namespace of the caller are others.
#[must_use]
pub fn machine() -> Machine {
    machine::here().without_networks()
}

/// Namespaces of this process, to build fabrics in.
#[derive(Clone, Copy, Debug)]
pub struct Namespaces;

impl Ground for Namespaces {
    fn check(&self, plan: &Plan) -> Result<(), FabricError> {
        if plan.is_routed() {
            routing::look_for_frr().map_err(LiveError::from)?;
        }
        Ok(())
    }

    fn build(&self, plan: &Plan, configs: &[Config]) -> Result<Box<dyn Built>, FabricError> {
        Ok(Box::new(Network::build(plan, configs).map_err(LiveError::from)?))
    }
}

/// A fabric in namespaces.
#[derive(Debug)]
struct Network {
    switches: Vec<(Namespace, Config)>,
    /// Where the kernel of each router is; none where switches bridge.
    kernels: Vec<Namespace>,
    hosts: Vec<Device>,
    _lab: Lab,
}

impl Network {
    /// # Panics
    /// Where switches are to route, and a host is the kernel's.
    fn build(plan: &Plan, configs: &[Config]) -> Result<Network, LabError> {
        if plan.is_routed() {
            let of_kernel = plan.hosts_with(Stack::Kernel).count();
            assert_eq!(of_kernel, 0, "hosts of the kernel would take all others for neighbours");
        }
        let mut lab = Lab::new();
        let mut switches = Vec::new();
        for (switch, config) in plan.switches().zip(configs) {
            switches.push((lab.namespace(plan.switch_name(switch))?, config.clone()));
        }
        let kernels = routing::kernels(plan, &lab)?;
        for ((_, config), kernel) in switches.iter_mut().zip(&kernels) {
            if let Some(router) = &mut config.shell.router {
                router.netns = Some(kernel.entrance().join("net"));
            }
        }
        let end = |at: PortOf| {
            let end = switches[at.switch.index()].0.end(plan.port_name(at));
            if plan.is_routed() { end.mac(device_address(at)) } else { end }
        };
        let mut hosts = Vec::new();
        for id in plan.hosts() {
            let host = plan.host_of(id);
            let namespace = lab.namespace(&host.name)?;
            let device = namespace.end("eth0").mac(id.address());
            let (_, device) = lab.veth(end(host.at), device, &VethOptions::default())?;
            if host.stack == Stack::Kernel {
                introduce(plan, id, &device)?;
            }
            hosts.push(device);
        }
        for &(a, b) in plan.trunks() {
            lab.veth(end(a), end(b), &VethOptions::default())?;
        }
        Ok(Network { switches, kernels, hosts, _lab: lab })
    }

    fn namespace(&self, host: HostId) -> &Namespace {
        self.hosts[host.index()].namespace()
    }
}

/// Gives a host of the kernel its address, and tells it where all others are.
fn introduce(plan: &Plan, host: HostId, device: &Device) -> Result<(), LabError> {
    device.finish_frames()?;
    device.add_address(host.ipv4().into(), 8)?;
    let mut others = plan.hosts_with(Stack::Kernel).filter(|&other| other != host);
    others.try_for_each(|other| device.add_neighbour(other.ipv4().into(), other.address()))
}

impl Built for Network {
    fn start<'a>(&'a self, plan: &'a Plan) -> Result<Box<dyn World + 'a>, FabricError> {
        Ok(Box::new(Running::start(self, plan)?))
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }
}

impl Kernels for Network {
    fn prepare(&self, host: HostId, options: &Options) -> Result<(), FabricError> {
        Ok(tcp::prepare(self.namespace(host), options).map_err(LiveError::from)?)
    }

    fn transfer(&self, flows: &[(HostId, HostId)], ecn: Ecn) -> Result<Box<dyn Transfer>, FabricError> {
        let pair = |&(from, to): &(HostId, HostId)| tcp::Pair {
            sender: self.namespace(from),
            receiver: self.namespace(to),
            address: to.ipv4(),
        };
        let pairs: Vec<tcp::Pair<'_>> = flows.iter().map(pair).collect();
        Ok(Box::new(tcp::Flows::start(&pairs, ecn).map_err(LiveError::from)?))
    }

    fn counts(&self, host: HostId) -> Result<Counts, FabricError> {
        Ok(tcp::counts(self.namespace(host)).map_err(LiveError::from)?)
    }

    fn frames(&self, host: HostId) -> Result<[u64; 2], FabricError> {
        let counters = self.hosts[host.index()].counters().map_err(LiveError::from)?;
        Ok([counters.tx_packets, counters.rx_packets])
    }
}

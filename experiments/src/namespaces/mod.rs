//! Live fabrics: switches (`xoff run`) and hosts (`xoff traffic`) as threads, each in its own network namespace.
//!
//! Namespaces end with the process ([`xoff_lab`]).

mod gaps;
mod routing;
mod running;
mod tcp;

use xoff_config::{Config, Machine};
use xoff_lab::{Device, Lab, LabError, Namespace, VethOptions};
use xoff_switch::machine;

use crate::addresses::device_address;
use crate::error::{FabricError, RoutingError};
use crate::plan::{HostId, Plan, PortOf, Stack};

use running::Running;
pub(crate) use tcp::{Counts, Ecn, Flows, LossDetection, Options, Volume};

/// Returns this machine's limits (memory, cores, CPU quota), without its network devices: a fabric uses only devices in
/// its own namespaces.
pub fn machine() -> Machine {
    machine::here().without_networks()
}

pub(crate) fn check(plan: &Plan) -> Result<(), RoutingError> {
    if plan.is_routed() { routing::look_for_frr() } else { Ok(()) }
}

#[derive(Debug)]
pub(crate) struct Network {
    switches: Vec<(Namespace, Config)>,
    kernels: Vec<Namespace>,
    hosts: Vec<Device>,
    _lab: Lab,
}

impl Network {
    pub(crate) fn build(plan: &Plan, configs: &[Config]) -> Result<Network, LabError> {
        if plan.is_routed() {
            let of_kernel = plan.hosts_with(Stack::Kernel).count();
            assert_eq!(
                of_kernel, 0,
                "a routed plan must have no kernel hosts: they need all other hosts as neighbours"
            );
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

fn introduce(plan: &Plan, host: HostId, device: &Device) -> Result<(), LabError> {
    device.finish_frames()?;
    device.add_address(host.ipv4().into(), 8)?;
    let mut others = plan.hosts_with(Stack::Kernel).filter(|&other| other != host);
    others.try_for_each(|other| device.add_neighbour(other.ipv4().into(), other.address()))
}

impl Network {
    pub(crate) fn start<'a>(&'a self, plan: &'a Plan) -> Result<Running<'a>, FabricError> {
        Running::start(self, plan)
    }

    pub(crate) fn prepare(&self, host: HostId, options: &Options) -> Result<(), LabError> {
        tcp::prepare(self.namespace(host), options)
    }

    pub(crate) fn transfer(&self, flows: &[(HostId, HostId)], ecn: Ecn) -> Result<Flows, LabError> {
        let pair = |&(from, to): &(HostId, HostId)| tcp::Pair {
            sender: self.namespace(from),
            receiver: self.namespace(to),
            address: to.ipv4(),
        };
        Flows::start(&flows.iter().map(pair).collect::<Vec<_>>(), ecn)
    }

    pub(crate) fn counts(&self, host: HostId) -> Result<Counts, LabError> {
        tcp::counts(self.namespace(host))
    }

    pub(crate) fn frames(&self, host: HostId) -> Result<[u64; 2], LabError> {
        let counters = self.hosts[host.index()].counters()?;
        Ok([counters.tx_packets, counters.rx_packets])
    }
}

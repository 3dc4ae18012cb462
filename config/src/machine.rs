use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml_span::{Span, Spanned};
use xoff_flow_control::settings::PortSettings;
use xoff_wire::units::{Bytes, ETHERNET_HEADER, Nanos};

use crate::document::{Document, Port};
use crate::keys::WorkersKey;
use crate::own::OwnPolicy;
use crate::reader::problem::Problem;
use crate::shell::{PortShell, Queues};
use crate::uses::{self, Uses};
use crate::written::grouped;
use crate::{Config, written};

/// Machine and program that run a configuration. By default there are no limits, and only built-in policies.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Available memory; `None` means no limit.
    pub memory: Option<AvailableMemory>,
    /// Cores that the process may use, ascending; empty if unknown.
    pub cores: Vec<u16>,
    pub cpu_quota: Option<CpuQuota>,
    pub device: fn(&str) -> Device,
    pub is_netns: fn(&Path) -> bool,
    pub own_policy: Option<OwnPolicy>,
    pub has_small_chunks: fn() -> bool,
    /// Configuration of the running switch on a reload, which keeps its memory plan.
    pub running: Option<Arc<Config>>,
}

/// Processor time that a cgroup may use in each period, summed over all cores (`cpu.max` of cgroup version 2,
/// `cpu.cfs_quota_us` of version 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    pub used_max: Nanos,
    pub period: Nanos,
    pub file: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    pub bytes: Bytes,
    /// File with a cgroup's memory limit, if this limit leaves less memory than the machine has.
    pub cgroup_limit: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    Unknown,
    Missing,
    Has { index: u32, queues: u32, mtu: u32, uses: Uses },
}

impl From<Bytes> for AvailableMemory {
    fn from(bytes: Bytes) -> AvailableMemory {
        AvailableMemory { bytes, cgroup_limit: None }
    }
}

impl fmt::Display for AvailableMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} MiB available memory", grouped(self.bytes.0 >> 20))?;
        match &self.cgroup_limit {
            Some(file) => write!(formatter, " (limit of the cgroup: {})", file.display()),
            None => Ok(()),
        }
    }
}

impl Default for Machine {
    fn default() -> Machine {
        let device = |_: &_| Device::Unknown;
        Machine {
            memory: None,
            cores: Vec::new(),
            cpu_quota: None,
            device,
            is_netns: |_| true,
            own_policy: None,
            has_small_chunks: || false,
            running: None,
        }
    }
}

impl Machine {
    #[must_use]
    pub fn without_networks(self) -> Machine {
        let Machine { device, is_netns, .. } = Machine::default();
        Machine { device, is_netns, ..self }
    }
}

pub(crate) fn misfits(config: &Config, machine: &Machine, document: Option<&Document>) -> Vec<Problem> {
    let mut problems = foreign_cores(config, &machine.cores, document);
    let workers = config.workers(&machine.cores).len();
    problems.extend(
        machine.cpu_quota.as_ref().and_then(|quota| throttling(quota, workers, config.shell.stall_budget)),
    );
    let mut taken = BTreeMap::new();
    let ports = config.shell.ports.iter().zip(&config.switch.ports).enumerate();
    for (number, (shell, port)) in ports {
        let place = document.and_then(|document| document.ports.get(number));
        let device = (machine.device)(&shell.device);
        problems.extend(of_device(shell, port, &device, place));
        if let Device::Has { index, .. } = device
            && let Some((name, first)) = taken.insert(index, (&port.name, &shell.device))
            && *first != shell.device
        {
            let problem = Problem::error(format!(
                "ports {name} and {} have the same device: {first} and {} are names of one interface",
                port.name, shell.device
            ));
            let at = place.and_then(|port| port.identity.device.as_ref()).map(|key| key.span);
            let problem =
                at.map_or(problem.clone(), |span| problem.at(span, "also the device of another port"));
            problems.push(problem.help(format!(
                "give each port a different device; `ip link show dev {first}` lists the names of this interface"
            )));
        }
    }
    problems.extend(no_netns(config, machine.is_netns, document));
    problems
}

/// Warns if the quota lets the kernel stop busy workers for longer than `stall_budget`.
fn throttling(quota: &CpuQuota, workers: usize, stall_budget: Nanos) -> Option<Problem> {
    let CpuQuota { used_max, period, file } = quota;
    let workers = workers.max(1) as u64;
    let stopped = period.0.saturating_sub(used_max.0 / workers);
    let millis = |time: u64| time.div_ceil(1_000_000);
    (stopped > stall_budget.0).then(|| {
        Problem::warning(format!(
            "the cgroup of xoff may use {} ms of processor time in {} ms: the kernel may stop the switch for up to {} ms",
            millis(used_max.0),
            millis(period.0),
            millis(stopped)
        ))
        .help(format!(
            "remove the limit of processor time ({}; `resources.limits.cpu` in Kubernetes, `--cpus` in Docker), or give `stall_budget` \
             at least {} ms",
            file.display(),
            millis(stopped)
        ))
    })
}

fn foreign_cores(config: &Config, cores: &[u16], document: Option<&Document>) -> Vec<Problem> {
    let listed = match document.and_then(|document| document.switch.workers.as_ref()).map(|key| &key.value) {
        Some(WorkersKey::List(list)) => list.as_slice(),
        _ => &[],
    };
    let workers = config.workers(cores);
    let pinned = workers.iter().filter_map(|worker| worker.core);
    let foreign = pinned.filter(|core| !cores.is_empty() && !cores.contains(core)).map(|core| {
        let allowed = written::ranges(cores);
        let problem = Problem::error(format!(
            "core {core} is not available to xoff on this machine; available cores are {allowed}"
        ))
        .help(
            "give another `core` in `workers`, or none; `taskset` and cpusets limit the cores of a process; \
                 `xoff check --elsewhere` checks a file for another machine",
        );
        let place = listed.iter().filter_map(|worker| worker.core.as_ref()).find(|key| key.value == core);
        place.map_or(problem.clone(), |key| problem.at(key.span, "not available"))
    });
    foreign.collect()
}

fn no_netns(config: &Config, is_netns: fn(&Path) -> bool, document: Option<&Document>) -> Vec<Problem> {
    let router = config.shell.router.as_ref().and_then(|router| router.netns.as_ref());
    let named = [
        (router, document.and_then(|document| document.router.netns.as_ref())),
        (config.shell.http_netns.as_ref(), document.and_then(|document| document.switch.http_netns.as_ref())),
    ];
    let absent =
        named.into_iter().filter_map(|(netns, key)| Some((netns.filter(|netns| !is_netns(netns))?, key)));
    let problem = |(netns, key): (&PathBuf, Option<&Spanned<PathBuf>>)| {
        let problem = Problem::error(format!("{} is not a network namespace", netns.display())).help(
            "`ip netns list` shows network namespaces with names, `ip netns add NAME` creates one; a path such as /proc/PID/ns/net may be \
             given, too; `xoff check --elsewhere` checks a file for another machine",
        );
        key.map_or(problem.clone(), |key| problem.at(key.span, "not available"))
    };
    absent.map(problem).collect()
}

pub(crate) fn of_device(
    shell: &PortShell,
    port: &PortSettings,
    device: &Device,
    place: Option<&Port>,
) -> Vec<Problem> {
    let name = &shell.device;
    let at_device = place.and_then(|port| port.identity.device.as_ref()).map(|key| key.span);
    let placed = |(problem, span, text): (Problem, Option<Span>, String)| match span {
        Some(span) => problem.at(span, text),
        None => problem,
    };
    let lost = match device {
        Device::Has { uses, .. } => uses::lost(&port.name, name, uses),
        Device::Missing | Device::Unknown => Vec::new(),
    };
    let lost = lost.into_iter().map(|(problem, text)| (problem, at_device, text));
    lost.chain(cannot(shell, port, device, place)).map(placed).collect()
}

fn cannot(
    shell: &PortShell,
    port: &PortSettings,
    device: &Device,
    place: Option<&Port>,
) -> Option<(Problem, Option<Span>, String)> {
    let name = &shell.device;
    let at_device = place.and_then(|port| port.identity.device.as_ref()).map(|key| key.span);
    Some(match *device {
        Device::Unknown => return None,
        Device::Missing => (
            Problem::error(format!("port {}: no interface {name} in this network namespace", port.name)).help(
                "`ip link` lists the interfaces; `xoff check --elsewhere` checks a file for another machine",
            ),
            at_device,
            "not here".to_owned(),
        ),
        Device::Has { queues, mtu, .. } => {
            let wanted = port.mtu_frame - ETHERNET_HEADER;
            if wanted > mtu {
                let problem = Problem::error(format!(
                    "port {} has an MTU of {wanted}, but its device {name} has an MTU of {mtu}",
                    port.name
                ));
                let help =
                    format!("run `ip link set {name} mtu {wanted}` at both ends of the cable, or write mtu = {mtu}");
                let at = place.and_then(|port| port.keys.mtu.as_ref()).map(|key| key.span).or(at_device);
                (problem.help(help), at, format!("MTU of {name}: {mtu}"))
            } else {
                let Queues::List(list) = &shell.queues else { return None };
                let absent = list.iter().find(|&&queue| queue >= queues)?;
                let has = counted(queues);
                let help = format!("`ethtool -l {name}` shows the possible number of queues; `queues = \"all\"` uses all existing queues");
                let at = place.and_then(|port| port.keys.queues.as_ref()).map(|key| key.span);
                let problem = Problem::error(format!("device {name} has {has}, but no queue {absent}"));
                (problem.help(help), at, format!("{name} has {has}"))
            }
        }
    })
}

fn counted(queues: u32) -> String {
    match queues {
        1 => "1 hardware queue (0)".into(),
        _ => format!("{queues} hardware queues (0 to {})", queues.saturating_sub(1)),
    }
}

//! Lab in one process: network namespaces and veth pairs.
//!
//! When the process ends, even by `kill -9`, the kernel removes its namespaces and devices.
//!
//! ```no_run
//! # fn main() -> Result<(), xoff_lab::LabError> {
//! use xoff_lab::{Lab, VethOptions};
//!
//! let mut lab = Lab::new();
//! let (switch, host) = (lab.namespace("switch")?, lab.namespace("host")?);
//! let options = VethOptions::default();
//! lab.veth(switch.end("p1"), host.end("eth0").address([10, 0, 0, 1], 24), &options)?;
//! let interfaces = host.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
//! # Ok(()) }
//! ```
//!
//! The veth pairs carry only frames that programs send: IPv6 is enabled only on devices with an IPv6 address, and without
//! autoconfiguration, link-local addresses and duplicate detection.

#![forbid(unsafe_code)]

pub mod config;
mod device;
pub mod display;
pub mod line;
mod mark;
mod mounts;
mod namespace;
mod netlink;
pub mod network;
mod parallel;
mod queue;
mod switches;
mod tap;
mod veth;

use std::io;

pub use device::{Counters, Device};
pub use mark::{marks, set_mark};
pub use namespace::Namespace;
pub use queue::QueueCounts;
pub use switches::Switches;
pub use tap::Tie;
pub use veth::{VethEnd, VethOptions};

#[derive(Debug, Default)]
pub struct Lab {
    devices: Vec<Device>,
}

impl Lab {
    #[must_use]
    pub fn new() -> Lab {
        Lab::default()
    }

    /// Creates a namespace with loopback up. The thread that keeps it alive has the same name.
    pub fn namespace(&self, name: &str) -> Result<Namespace, LabError> {
        let namespace = Namespace::create(name)?;
        device::loopback_up(&namespace)?;
        Ok(namespace)
    }

    pub fn veth(
        &mut self,
        a: VethEnd<'_>,
        b: VethEnd<'_>,
        options: &VethOptions,
    ) -> Result<(Device, Device), LabError> {
        let (a, b) = veth::veth(a, b, options)?;
        self.devices.extend([a.clone(), b.clone()]);
        Ok((a, b))
    }

    /// Creates several veth pairs. If one pair fails, the other pairs still exist.
    pub fn veths(
        &mut self,
        pairs: Vec<(VethEnd<'_>, VethEnd<'_>, VethOptions)>,
    ) -> Result<Vec<(Device, Device)>, LabError> {
        let made = parallel::each(pairs, |(a, b, options)| veth::veth(a, b, &options));
        self.devices.extend(made.iter().flatten().flat_map(|(a, b)| [a.clone(), b.clone()]));
        made.into_iter().collect()
    }

    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error(
        "cannot make network namespace {name}: {source}; run as root (CAP_SYS_ADMIN is needed), \
         on a kernel with CONFIG_NET_NS"
    )]
    Namespace { name: String, source: io::Error },
    #[error("cannot {what} in namespace {namespace}: {source}")]
    Io { what: String, namespace: String, source: io::Error },
}

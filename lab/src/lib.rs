//! A laboratory in one process: hosts and wires made of network namespaces and veth pairs.
//!
//! Nothing here has to be cleaned up, and nothing can be left behind. A [`Namespace`] is an open file
//! descriptor and one thread that lives in it; nothing is mounted, nothing is named in `/run/netns`.
//! When the process goes, by whatever road (`kill -9` included), the kernel closes the descriptor,
//! ends the thread, and with the last user of a namespace takes its devices away.
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
//! The wires are quiet: a namespace speaks IPv6 only on a device that was given an IPv6 address, and
//! there without autoconfiguration, link-local addresses or duplicate detection, so that a frame
//! seen on a wire is one that somebody sent on purpose.

#![forbid(unsafe_code)]

pub mod config;
mod device;
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
pub use veth::{End, VethOptions};

/// Namespaces and the wires between them.
#[derive(Debug, Default)]
pub struct Lab {
    devices: Vec<Device>,
}

impl Lab {
    /// An empty laboratory.
    #[must_use]
    pub fn new() -> Lab {
        Lab::default()
    }

    /// A new namespace, with nothing in it but its loopback device, which is up. The name appears in
    /// messages and as its thread's name only.
    ///
    /// # Errors
    /// [`LabError::Namespace`] without CAP_SYS_ADMIN.
    pub fn namespace(&self, name: &str) -> Result<Namespace, LabError> {
        let namespace = Namespace::create(name)?;
        device::loopback_up(&namespace)?;
        Ok(namespace)
    }

    /// A veth pair between two namespaces, set up as `options` and the ends say, both ends up.
    ///
    /// # Errors
    /// What the kernel refuses: a name taken or too long, an address of the wrong form.
    pub fn veth(
        &mut self,
        a: End<'_>,
        b: End<'_>,
        options: &VethOptions,
    ) -> Result<(Device, Device), LabError> {
        let (a, b) = veth::veth(a, b, options)?;
        self.devices.extend([a.clone(), b.clone()]);
        Ok((a, b))
    }

    /// Makes several veth pairs at once; see [`Lab::veth`].
    ///
    /// # Errors
    /// That of the first pair that the kernel refuses; the others are there.
    pub fn veths(
        &mut self,
        pairs: Vec<(End<'_>, End<'_>, VethOptions)>,
    ) -> Result<Vec<(Device, Device)>, LabError> {
        let made = parallel::each(pairs, |(a, b, options)| veth::veth(a, b, &options));
        self.devices.extend(made.iter().flatten().flat_map(|(a, b)| [a.clone(), b.clone()]));
        made.into_iter().collect()
    }

    /// Every veth end made so far.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }
}

/// What can go wrong while a laboratory is built.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The kernel gave no namespace.
    #[error(
        "cannot make network namespace {name}: {source}; run as root (CAP_SYS_ADMIN is needed), \
         on a kernel with CONFIG_NET_NS"
    )]
    Namespace {
        /// What the namespace was to be called.
        name: String,
        /// The system's words.
        source: io::Error,
    },
    /// A file, a socket or a request to the kernel failed.
    #[error("cannot {what} in namespace {namespace}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Where.
        namespace: String,
        /// The system's words.
        source: io::Error,
    },
}

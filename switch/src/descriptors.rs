//! The number of open files that a switch needs. The switch raises its limit, or fails, before it attaches anything: a
//! later failure would leave it with some of its ports, or without HTTP.

use std::fs;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::control::CONNECTIONS_MAX;

/// Files per socket: the socket, its duplicate for sleeping, and one for its counters.
const BY_SOCKET: u64 = 3;
/// Files per port: program, maps, link, and two netlink sockets.
const BY_PORT: u64 = 16;
/// Files per worker: its wake-up descriptors, and duplicates of them.
const BY_WORKER: u64 = 6;
/// Other files: HTTP, netlink, timers, signals, and short-lived files.
const ALWAYS: u64 = 32;
/// Served connections, and rejected ones.
const CONNECTIONS: u64 = 2 * CONNECTIONS_MAX as u64;

/// Reason for which the switch cannot open as many files as it needs.
#[derive(Debug, thiserror::Error)]
pub enum DescriptorError {
    /// The hard limit is too low.
    #[error(
        "the switch needs {needed} open files ({sockets} sockets on {ports} ports, {CONNECTIONS} HTTP connections, \
         and more), and this process may have {allowed}: raise the limit (`ulimit -Hn {needed}`, or \
         LimitNOFILE={needed} for systemd), or list fewer `queues`"
    )]
    TooFew {
        /// Number of open files needed, including those already open.
        needed: u64,
        /// Number of port sockets among the files.
        sockets: u64,
        /// Number of ports.
        ports: usize,
        /// Hard limit of open files.
        allowed: u64,
    },
    /// The system refused to read or raise the limit.
    #[error("cannot raise the limit of open files to {allowed}: {error}")]
    System {
        /// Hard limit of open files; zero if unknown.
        allowed: u64,
        /// Error of the system.
        error: Errno,
    },
}

/// Number of files that the process may open.
#[derive(Clone, Copy, Debug)]
pub struct Allowed(u64);

impl Allowed {
    /// Raises the soft limit of open files to the hard limit, and returns it.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn raise() -> Result<Allowed, DescriptorError> {
        let system = |allowed| move |error| DescriptorError::System { allowed, error };
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(system(0))?;
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(system(hard))?;
        }
        Ok(Allowed(hard))
    }

    /// Checks that a switch can open its files beside those already open. `queues` has the number of queues of each
    /// port; one is assumed for `None`.
    ///
    /// # Errors
    /// Returns [`DescriptorError::TooFew`] if the limit is too low.
    pub fn suffices(self, queues: &[Option<u32>], workers: usize) -> Result<(), DescriptorError> {
        let sockets: Vec<u64> = queues.iter().map(|queues| u64::from(queues.unwrap_or(1))).collect();
        let (needed, allowed) = (open() + needed(&sockets, workers), self.0);
        let (sockets, ports) = (sockets.iter().sum(), queues.len());
        match needed <= allowed {
            true => Ok(()),
            false => Err(DescriptorError::TooFew { needed, sockets, ports, allowed }),
        }
    }
}

/// Returns the number of files for these numbers of sockets. The largest port counts twice, because its old sockets may
/// be open when it is reopened.
fn needed(sockets: &[u64], workers: usize) -> u64 {
    let ports = sockets.iter().chain(sockets.iter().max()).map(|sockets| sockets * BY_SOCKET + BY_PORT);
    ports.sum::<u64>() + workers as u64 * BY_WORKER + CONNECTIONS + ALWAYS
}

fn open() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64)
}

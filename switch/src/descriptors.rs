//! The number of open files that a switch needs: it raises its limit, or fails, before it attaches anything.

use std::fs;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::control::CONNECTIONS_MAX;

/// Files per socket: the socket, a duplicate for sleeping, and its counters.
const BY_SOCKET: u64 = 3;
/// Files per port: program, maps, link, and two netlink sockets.
const BY_PORT: u64 = 16;
/// Files per worker: wake-up descriptors and duplicates.
const BY_WORKER: u64 = 6;
/// Other files: HTTP, netlink, timers, signals, and short-lived ones.
const ALWAYS: u64 = 32;
/// Served and rejected connections.
const CONNECTIONS: u64 = 2 * CONNECTIONS_MAX as u64;

/// Error of the limit of open files.
#[derive(Debug, thiserror::Error)]
pub enum DescriptorError {
    /// The hard limit is too low.
    #[error(
        "the switch needs {needed} open files ({sockets} sockets on {ports} ports, {CONNECTIONS} HTTP connections, \
         and more), and this process may have {allowed}: raise the limit (`ulimit -Hn {needed}`, or \
         LimitNOFILE={needed} for systemd), or list fewer `queues`"
    )]
    TooFew {
        /// Files needed, including open ones.
        needed: u64,
        /// Port sockets among them.
        sockets: u64,
        /// Ports.
        ports: usize,
        /// Hard limit.
        allowed: u64,
    },
    /// The system refused to read or raise the limit.
    #[error("cannot raise the limit of open files to {allowed}: {error}")]
    System {
        /// Hard limit; zero if unknown.
        allowed: u64,
        /// System's error.
        error: Errno,
    },
}

/// Files that the process may open.
#[derive(Clone, Copy, Debug)]
pub struct Allowed(u64);

impl Allowed {
    /// Raises the soft limit to the hard limit, and returns it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn raise() -> Result<Allowed, DescriptorError> {
        let system = |allowed| move |error| DescriptorError::System { allowed, error };
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(system(0))?;
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(system(hard))?;
        }
        Ok(Allowed(hard))
    }

    /// Checks the limit; `queues` has the queues of each port, one for `None`.
    ///
    /// # Errors
    /// [`DescriptorError::TooFew`].
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

/// Counts the largest port twice: when it is reopened, its old sockets may be open.
fn needed(sockets: &[u64], workers: usize) -> u64 {
    let ports = sockets.iter().chain(sockets.iter().max()).map(|sockets| sockets * BY_SOCKET + BY_PORT);
    ports.sum::<u64>() + workers as u64 * BY_WORKER + CONNECTIONS + ALWAYS
}

fn open() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64)
}

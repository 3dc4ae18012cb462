//! Open files: how many a switch takes, and that the process may have as many, before anything is
//! attached. A switch that found out later would be a switch with half of its ports, or one that nobody
//! can ask.

use std::fs;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::control::CONNECTIONS_MAX;

/// For each socket: it, the duplicate that its worker sleeps on, and that by which its counters are read.
const BY_SOCKET: u64 = 3;
/// For each port: its program, maps and link, and two conversations with netlink.
const BY_PORT: u64 = 16;
/// For each worker: what wakes it, and duplicates of that.
const BY_WORKER: u64 = 6;
/// HTTP, netlink and the timers of the control thread, signals, and what is open for a moment only.
const ALWAYS: u64 = 32;
/// Those that are served, and those that are told to come again.
const CONNECTIONS: u64 = 2 * CONNECTIONS_MAX as u64;

/// Why a switch may not have as many open files as it needs.
#[derive(Debug, thiserror::Error)]
pub enum DescriptorError {
    /// The limit is too low.
    #[error(
        "the switch needs {needed} open files ({sockets} sockets on {ports} ports, {CONNECTIONS} HTTP connections, \
         and more), and this process may have {allowed}: raise the limit (`ulimit -Hn {needed}`, or \
         LimitNOFILE={needed} for systemd), or list fewer `queues`"
    )]
    TooFew {
        /// How many, those that are open already included.
        needed: u64,
        /// Of these, sockets of ports.
        sockets: u64,
        /// How many ports.
        ports: usize,
        /// The hard limit.
        allowed: u64,
    },
    /// The system does not tell, or does not let.
    #[error("cannot raise the limit of open files to {allowed}: {error}")]
    System {
        /// The hard limit, or zero where not even that is known.
        allowed: u64,
        /// The system's words.
        error: Errno,
    },
}

/// How many files the process may have open.
#[derive(Clone, Copy, Debug)]
pub struct Allowed(u64);

impl Allowed {
    /// As many as the hard limit has; the soft one is raised to it.
    ///
    /// # Errors
    /// The system does not let it.
    pub fn raise() -> Result<Allowed, DescriptorError> {
        let system = |allowed| move |error| DescriptorError::System { allowed, error };
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(system(0))?;
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(system(hard))?;
        }
        Ok(Allowed(hard))
    }

    /// Makes sure that a switch with so many queues at each port (`None`: one is assumed) can have its files,
    /// beside those that are open.
    ///
    /// # Errors
    /// It cannot.
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

/// With so many sockets at each port. One port counts twice: while it is opened again, its old sockets may not be closed yet.
fn needed(sockets: &[u64], workers: usize) -> u64 {
    let ports = sockets.iter().chain(sockets.iter().max()).map(|sockets| sockets * BY_SOCKET + BY_PORT);
    ports.sum::<u64>() + workers as u64 * BY_WORKER + CONNECTIONS + ALWAYS
}

/// How many the process has open.
fn open() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64)
}

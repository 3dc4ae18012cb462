use std::fs;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::control::CONNECTIONS_MAX;

/// Open files per XDP socket: the socket, a duplicate for sleeping, and its counters.
const BY_SOCKET: u64 = 3;
/// Open files per port: XDP program, BPF maps, link, and two netlink sockets.
const BY_PORT: u64 = 16;
/// Open files per worker: descriptors that wake it up, and duplicates.
const BY_WORKER: u64 = 6;
/// Open files independent of ports and workers: HTTP, netlink, timers, signals, and briefly opened files.
const ALWAYS: u64 = 32;
/// Open files of `xoff nic` without HTTP connections: sockets, queues, guard process, LLDP, and briefly opened files.
const OF_AGENT: u64 = 40;
const CONNECTIONS: u64 = 2 * CONNECTIONS_MAX as u64;

#[derive(Debug, thiserror::Error)]
pub enum DescriptorError {
    #[error(
        "the switch needs {needed} open files ({sockets} sockets on {ports} ports, {CONNECTIONS} HTTP connections, \
         and more), but this process may open {allowed}: raise the limit (`ulimit -Hn {needed}`, or \
         LimitNOFILE={needed} for systemd), or list fewer `queues`"
    )]
    TooFew { needed: u64, sockets: u64, ports: usize, allowed: u64 },
    #[error(
        "the agent needs {needed} open files ({connections} HTTP connections, and more), but this process may open {allowed}: \
         raise the limit (`ulimit -Hn {needed}`, or LimitNOFILE={needed} for systemd){}",
        if *.connections > 0 { ", or turn HTTP off (`--http off`)" } else { "" }
    )]
    TooFewForAgent { needed: u64, connections: u64, allowed: u64 },
    #[error("cannot raise the limit of open files to {allowed}: {error}")]
    System { allowed: u64, error: Errno },
}

#[derive(Clone, Copy, Debug)]
pub struct Allowed(u64);

impl Allowed {
    pub fn raise() -> Result<Allowed, DescriptorError> {
        let system = |allowed| move |error| DescriptorError::System { allowed, error };
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(system(0))?;
        if soft < hard {
            setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(system(hard))?;
        }
        Ok(Allowed(hard))
    }

    /// Checks that the limit of open files suffices for `xoff nic`, even while all HTTP clients are connected.
    pub fn suffices_for_agent(self, has_http: bool) -> Result<(), DescriptorError> {
        let connections = if has_http { CONNECTIONS } else { 0 };
        let (needed, allowed) = (open() + OF_AGENT + connections, self.0);
        match needed <= allowed {
            true => Ok(()),
            false => Err(DescriptorError::TooFewForAgent { needed, connections, allowed }),
        }
    }

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

/// Returns the number of open files needed. The port with most sockets counts twice: its old sockets may be open
/// while it is reopened.
fn needed(sockets: &[u64], workers: usize) -> u64 {
    let ports = sockets.iter().chain(sockets.iter().max()).map(|sockets| sockets * BY_SOCKET + BY_PORT);
    ports.sum::<u64>() + workers as u64 * BY_WORKER + CONNECTIONS + ALWAYS
}

fn open() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: host-service
    fn open_files_needed_by_agent_include_http_connections() {
        let needed = |has_http| match Allowed(0).suffices_for_agent(has_http) {
            Err(DescriptorError::TooFewForAgent { needed, .. }) => needed,
            other => panic!("{other:?}"),
        };
        // Tolerate 10 files fewer, because other tests open and close files.
        assert!(needed(true) >= needed(false) + CONNECTIONS - 10, "HTTP must need {CONNECTIONS} more files");
        let message = Allowed(64).suffices_for_agent(true).map_err(|error| error.to_string());
        assert!(message.is_err_and(|message| message.contains("may open 64: raise the limit (`ulimit -Hn ")));
        assert!(Allowed(1 << 20).suffices_for_agent(true).is_ok());
    }
}

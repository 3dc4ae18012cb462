//! Settings of the switch outside the dataplane: devices, threads, HTTP, log.

use std::cmp::Reverse;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use xoff_flow_control::settings::{LossyPool, Spread};
use xoff_wire::units::{BitRate, Bytes, ETHERNET_HEADER, Nanos, PortId, Site, TAGS};

use crate::defaults;

#[derive(Clone, Debug, PartialEq)]
pub struct ShellSettings {
    pub name: String,
    pub ports: Vec<PortShell>,
    pub workers: Workers,
    pub spare_ports: u8,
    pub poll: Poll,
    pub http: Option<HttpAt>,
    /// Network namespace of the HTTP server; `None` means the switch's namespace.
    pub http_netns: Option<PathBuf>,
    /// Accepted host names in HTTP requests, besides `localhost`, the machine's name, and addresses.
    pub http_hosts: Vec<String>,
    /// User to which the process changes after opening the devices; `None` means no change.
    pub user: Option<String>,
    pub log: String,
    pub log_format: LogFormat,
    pub sighup: Sighup,
    /// Longest stall of a worker in which lossless classes lose no frame.
    pub stall_budget: Nanos,
    /// Smallest average frame (bytes with FCS) at which a stall of `stall_budget` loses no lossless frame.
    pub smallest_frame: u32,
    pub zero_copy: ZeroCopy,
    pub chunks: Chunks,
    pub router: Option<Router>,
    pub budget: Option<Bytes>,
    pub lossy_pool: Option<LossyPool>,
    pub pool: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    pub netns: Option<PathBuf>,
    pub interfaces: Vec<RouterInterface>,
    pub spread: Spread,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterInterface {
    pub site: Site,
    pub name: String,
    pub mtu: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Reaction to signal SIGHUP, which can mean that a terminal was closed or that a reload is requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sighup {
    #[default]
    Stop,
    Reload,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAt {
    Tcp(SocketAddr),
    /// Unix socket, which belongs to no network namespace.
    Unix(PathBuf),
}

impl From<SocketAddr> for HttpAt {
    fn from(address: SocketAddr) -> HttpAt {
        HttpAt::Tcp(address)
    }
}

impl fmt::Display for HttpAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpAt::Tcp(address) => address.fmt(f),
            HttpAt::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

const SOCKET_LEN_MAX: usize = 107;

impl FromStr for HttpAt {
    type Err = String;

    fn from_str(text: &str) -> Result<HttpAt, String> {
        let at = match text.strip_prefix("unix:") {
            Some(path) => Some(HttpAt::Unix(path.into()))
                .filter(|_| path.starts_with('/') && path.len() <= SOCKET_LEN_MAX && !path.contains('\0')),
            None => text.parse().ok().map(HttpAt::Tcp),
        };
        at.ok_or_else(|| {
            format!(
                "an address and port, such as \"127.0.0.1:9464\", or \"unix:\" and the path of a socket from the root on, of at most \
                 {SOCKET_LEN_MAX} bytes, such as \"unix:/run/xoff/s1.sock\""
            )
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// Bytes of a transmit chunk, and of a receive chunk unless `Small`: 2048 or 4096.
    pub bytes: u32,
    pub receive: ReceiveChunks,
    /// True if long frames need several transmit chunks (XDP multi-buffer).
    pub multi_buffer: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveChunks {
    /// Receive chunks hold as much of a frame as transmit chunks do.
    #[default]
    Whole,
    /// Receive chunks have [`Chunks::SMALL`] bytes; the kernel copies frames into them.
    Small,
}

impl Chunks {
    const LARGEST: Chunks = Chunks { bytes: 4_096, receive: ReceiveChunks::Whole, multi_buffer: false };
    /// Maximum MTU whose frames, with tags, fit into one chunk.
    pub const MTU_OF_ONE: u32 = Chunks::LARGEST.room() - ETHERNET_HEADER - TAGS;

    pub const SMALL: u32 = 512;

    /// Returns the smallest chunks that hold a frame of this MTU, or the largest ones if a frame needs several.
    #[must_use]
    pub fn for_mtu(mtu: u32) -> Chunks {
        let small = Chunks { bytes: 2_048, ..Chunks::LARGEST };
        match mtu + ETHERNET_HEADER + TAGS <= small.room() {
            true => small,
            false => Chunks { multi_buffer: mtu > Chunks::MTU_OF_ONE, ..Chunks::LARGEST },
        }
    }

    #[must_use]
    pub fn with_small(self) -> Chunks {
        Chunks { receive: ReceiveChunks::Small, ..self }
    }

    pub(crate) fn frames_take_several(self) -> bool {
        self.multi_buffer || self.receive == ReceiveChunks::Small
    }

    const fn room(self) -> u32 {
        self.bytes - 256
    }

    pub(crate) const fn receive_room(self) -> u32 {
        match self.receive {
            ReceiveChunks::Whole => self.room(),
            ReceiveChunks::Small => Chunks::SMALL,
        }
    }

    pub(crate) const fn receive_bytes(self) -> u32 {
        match self.receive {
            ReceiveChunks::Whole => self.bytes,
            ReceiveChunks::Small => Chunks::SMALL,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortShell {
    pub device: String,
    pub queues: Queues,
    pub mode: Mode,
    pub rings: Rings,
    /// Number of receive chunks needed in a stall of the whole `stall_budget`.
    pub stall_chunks: u32,
    /// Number of transmit chunks: the maximum number of frames in the driver.
    pub transmit_chunks: u32,
}

impl PortShell {
    #[must_use]
    pub fn is_vacant(&self) -> bool {
        self.device.is_empty()
    }

    /// Returns this port with the rings and chunks of `running` if these suffice, so that its speed may fall and rise again
    /// without a restart.
    pub(crate) fn with_rings_of(self, running: &PortShell) -> PortShell {
        let sizes = |port: &PortShell| {
            let Rings { fill, rx, tx, completion } = port.rings;
            [fill, rx, tx, completion, port.stall_chunks, port.transmit_chunks]
        };
        let suffices = sizes(&self).iter().zip(sizes(running)).all(|(needed, given)| *needed <= given);
        if running.device != self.device || !suffices {
            return self;
        }
        let PortShell { rings, stall_chunks, transmit_chunks, .. } = *running;
        PortShell { rings, stall_chunks, transmit_chunks, ..self }
    }

    pub(crate) fn vacated(&self) -> PortShell {
        PortShell { device: String::new(), stall_chunks: 0, transmit_chunks: 0, ..self.clone() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Queues {
    #[default]
    All,
    List(Vec<u32>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    #[default]
    Auto,
    Native,
    Generic,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    #[default]
    Auto,
    On,
    Off,
}

/// Sizes of a socket's rings, in entries; powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    pub fill: u32,
    pub rx: u32,
    pub tx: u32,
    pub completion: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// Workers in proportion to line rates (see [`Workers::assign`]).
    #[default]
    Auto,
    Count(u16),
    List(Vec<Worker>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Core to which the worker is pinned; `None` lets the kernel choose.
    pub core: Option<u16>,
    pub ports: Vec<PortId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Polls without sleep: least delay, but each worker takes one core.
    Busy,
    /// Polls while frames arrive, then sleeps until the next frame or deadline.
    Adaptive { idle_after: Nanos },
}

impl Workers {
    /// Returns whether ports for which `stays` returns true keep their workers if `other` replaces this setting. The switch has `count`
    /// workers.
    pub(crate) fn keeps_workers(
        &self,
        count: usize,
        other: &Workers,
        stays: impl Fn(&PortId) -> bool,
    ) -> bool {
        let (old, new) = match (self, other) {
            (Workers::List(old), Workers::List(new)) => (old, new),
            (Workers::List(_), _) | (_, Workers::List(_)) => return false,
            (_, Workers::Auto) => return true,
            (_, Workers::Count(other)) => return usize::from(*other) == count,
        };
        let those_that_stay = |worker: &Worker| {
            let mut ports: Vec<PortId> = worker.ports.iter().copied().filter(&stays).collect();
            ports.sort_unstable();
            (worker.core, ports)
        };
        old.iter().map(those_that_stay).eq(new.iter().map(those_that_stay))
    }

    /// Assigns ports of these line rates to threads on `cores` cores (zero means unknown).
    ///
    /// `Auto` starts a thread for each 20 Gb/s, for at most half the cores. Each port, the fastest first, goes to the worker with the
    /// lowest rate so far. Threads are not pinned, because two switches would choose the same core.
    #[must_use]
    pub fn assign(&self, rates: &[BitRate], cores: usize) -> Vec<Worker> {
        let sum: u64 = rates.iter().map(|rate| rate.bits_per_second()).sum();
        let wanted = match self {
            Workers::List(list) => return list.clone(),
            Workers::Count(count) => usize::from(*count),
            Workers::Auto => {
                let by_rate = usize::try_from(sum.div_ceil(defaults::WORKER_RATE.bits_per_second()));
                let most = if cores == 0 { usize::MAX } else { cores / 2 };
                by_rate.unwrap_or(usize::MAX).min(most)
            }
        };
        let mut order: Vec<(usize, BitRate)> = rates.iter().copied().enumerate().collect();
        order.sort_by_key(|(_, rate)| Reverse(*rate));
        let mut loads = vec![(0_u64, Vec::new()); wanted.clamp(1, rates.len().max(1))];
        for (port, rate) in order {
            let least = loads.iter_mut().min_by_key(|(load, _)| *load).expect("there must be a worker");
            least.0 += rate.bits_per_second();
            least.1.extend(u8::try_from(port).ok().map(PortId));
        }
        loads.into_iter().map(|(_, ports)| Worker { core: None, ports }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports_of(workers: &[Worker]) -> Vec<Vec<u8>> {
        workers.iter().map(|worker| worker.ports.iter().map(|port| port.0).collect()).collect()
    }

    #[test] // proves: workers
    fn switch_with_slow_ports_gets_one_worker_without_fixed_core() {
        let workers = Workers::Auto.assign(&[BitRate::from_gbps(1); 8], 16);
        assert_eq!(
            workers.iter().map(|worker| (worker.core, worker.ports.len())).collect::<Vec<_>>(),
            [(None, 8)]
        );
    }

    #[test]
    fn automatic_workers_use_at_most_half_the_cores() {
        let rates = [BitRate::from_gbps(10); 4];
        for (cores, workers) in [(4, 2), (3, 1), (1, 1), (0, 2)] {
            assert_eq!(Workers::Auto.assign(&rates, cores).len(), workers, "{cores} cores");
        }
    }

    #[test]
    fn two_workers_share_fast_and_slow_ports_evenly() {
        let rates = [1, 100, 1, 100].map(BitRate::from_gbps);
        assert_eq!(ports_of(&Workers::Count(2).assign(&rates, 4)), [vec![1, 0], vec![3, 2]]);
    }

    #[test]
    fn switch_has_no_more_workers_than_ports() {
        assert_eq!(Workers::Count(64).assign(&[BitRate::from_gbps(1); 3], 4).len(), 3);
    }
}

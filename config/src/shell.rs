//! What the AF_XDP shell is told beside [`SwitchSettings`](xoff_flow_control::settings::SwitchSettings):
//! devices, queues, rings, memory, threads, and where it can be asked.

use std::cmp::Reverse;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use xoff_flow_control::settings::{LossyPool, Spread};
use xoff_wire::units::{BitRate, Bytes, ETHERNET_HEADER, Nanos, PortId, Site, TAGS};

use crate::defaults;

/// Everything outside the dataplane.
#[derive(Clone, Debug, PartialEq)]
pub struct ShellSettings {
    /// The switch's name in logs and metrics.
    pub name: String,
    /// One for each port of the switch; the index is its [`PortId`].
    pub ports: Vec<PortShell>,
    /// Who works on which ports.
    pub workers: Workers,
    /// How many places there are for ports that a running switch may be given.
    pub spare_ports: u8,
    /// What a worker does when there is nothing to do.
    pub poll: Poll,
    /// Where `/metrics`, `/status`, `/addresses`, `/healthz` and `/policy` are served; `None`: nowhere.
    pub http: Option<HttpAt>,
    /// The network namespace of that address; `None`: the switch's own.
    pub http_netns: Option<PathBuf>,
    /// Names that it may be asked by there, beside `localhost`, the machine's own, and addresses.
    pub http_hosts: Vec<String>,
    /// Who the switch becomes once it has opened its devices; `None`: it stays who started it.
    pub user: Option<String>,
    /// What is logged: a `tracing` filter.
    pub log: String,
    /// How.
    pub log_format: LogFormat,
    /// What SIGHUP does.
    pub sighup: Sighup,
    /// The longest stall of a worker through which nothing lossless is lost.
    pub stall_budget: Nanos,
    /// Smallest average frame (bytes with FCS) for which that holds.
    pub smallest_frame: u32,
    /// Whether devices read and write packet memory themselves.
    pub zero_copy: ZeroCopy,
    /// Size of the chunks of packet memory, the same for every port.
    pub chunks: Chunks,
    /// The router; `None`: everything is bridged.
    pub router: Option<Router>,
    /// Bytes of `memory.budget`, where it is written.
    pub budget: Option<Bytes>,
    /// `memory.lossy_pool`, where it is written.
    pub lossy_pool: Option<LossyPool>,
}

/// The router, as far as it is the kernel's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// The network namespace of the host interfaces; `None`: the switch's own.
    pub netns: Option<PathBuf>,
    /// Its interfaces.
    pub interfaces: Vec<RouterInterface>,
    /// How packets go to several next hops.
    pub spread: Spread,
}

/// An interface of the router, and its host interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterInterface {
    /// Where it is.
    pub site: Site,
    /// What the kernel calls it.
    pub name: String,
    /// Most bytes of a packet.
    pub mtu: u32,
}

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What SIGHUP does: a closed terminal sends it, and so does who wants a service to read its configuration again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sighup {
    /// The switch stops, as by SIGTERM.
    #[default]
    Stop,
    /// The switch reads its configuration again.
    Reload,
}

/// Where HTTP is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAt {
    /// At an address and port.
    Tcp(SocketAddr),
    /// At a Unix socket, which is a file and of no network namespace.
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

/// Of the kernel's address of a Unix socket, without the end.
const SOCKET_LEN_MAX: usize = 107;

impl FromStr for HttpAt {
    /// What it may be.
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

/// Division of packet memory (UMEM) into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// Bytes of a transmit chunk, and of a receive chunk that is not small: 2048 or 4096.
    pub bytes: u32,
    /// Size of receive chunks.
    pub receive: ReceiveChunks,
    /// Whether some frames need more than one (XDP multi-buffer).
    pub multi_buffer: bool,
}

/// Size of receive chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveChunks {
    /// A chunk holds a frame.
    #[default]
    Whole,
    /// A chunk holds [`Chunks::SMALL`] bytes of a frame. The kernel copies.
    Small,
}

impl Chunks {
    /// The largest of which one holds a whole frame.
    const LARGEST: Chunks = Chunks { bytes: 4_096, receive: ReceiveChunks::Whole, multi_buffer: false };
    /// The largest MTU whose frames, tags included, take one chunk each.
    pub const MTU_OF_ONE: u32 = Chunks::LARGEST.room() - ETHERNET_HEADER - TAGS;

    /// Bytes of a small receive chunk.
    pub const SMALL: u32 = 512;

    /// The smallest of which each holds a frame of this MTU, with the tags that the MTU leaves out.
    #[must_use]
    pub fn for_mtu(mtu: u32) -> Chunks {
        let small = Chunks { bytes: 2_048, ..Chunks::LARGEST };
        match mtu + ETHERNET_HEADER + TAGS <= small.room() {
            true => small,
            false => Chunks { multi_buffer: mtu > Chunks::MTU_OF_ONE, ..Chunks::LARGEST },
        }
    }

    /// The same with small receive chunks, which hold frames of any MTU.
    #[must_use]
    pub fn with_small(self) -> Chunks {
        Chunks { receive: ReceiveChunks::Small, multi_buffer: true, ..self }
    }

    /// Bytes of a frame that one holds: 256 are the kernel's.
    const fn room(self) -> u32 {
        self.bytes - 256
    }

    /// Bytes of a frame that a receive chunk holds.
    pub(crate) const fn receive_room(self) -> u32 {
        match self.receive {
            ReceiveChunks::Whole => self.room(),
            ReceiveChunks::Small => Chunks::SMALL,
        }
    }

    /// Bytes of packet memory that a receive chunk takes.
    pub(crate) const fn receive_bytes(self) -> u32 {
        match self.receive {
            ReceiveChunks::Whole => self.bytes,
            ReceiveChunks::Small => Chunks::SMALL,
        }
    }
}

/// One port's device and sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortShell {
    /// The Linux interface.
    pub device: String,
    /// Which of its hardware queues get a socket.
    pub queues: Queues,
    /// How the XDP program is attached.
    pub mode: Mode,
    /// Ring sizes of every socket of the port.
    pub rings: Rings,
    /// Receive chunks that arriving frames may fill while the worker is stalled, the whole budget long.
    pub stall_chunks: u32,
    /// Chunks to send from: what the driver may hold.
    pub transmit_chunks: u32,
}

impl PortShell {
    /// Whether this is a place without a port: no device is without a name.
    #[must_use]
    pub fn is_vacant(&self) -> bool {
        self.device.is_empty()
    }

    /// The place without the port.
    pub(crate) fn vacated(&self) -> PortShell {
        PortShell { device: String::new(), stall_chunks: 0, transmit_chunks: 0, ..self.clone() }
    }
}

/// Hardware queues of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Queues {
    /// All that the device has.
    #[default]
    All,
    /// These, in this order.
    List(Vec<u32>),
}

/// How the XDP program is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Native where the driver can, else generic.
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// In the kernel's network stack.
    Generic,
}

/// Whether devices read and write packet memory themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    /// Each whose driver can.
    #[default]
    Auto,
    /// Or not at all.
    On,
    /// Copy.
    Off,
}

/// Entries of a socket's four rings, each a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Chunks for the kernel to receive into.
    pub fill: u32,
    /// Received and not yet seen.
    pub rx: u32,
    /// Handed over to be sent.
    pub tx: u32,
    /// Sent, to be reused.
    pub completion: u32,
}

/// Who works on which ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// As many as the line rates ask for; see [`Workers::assign`].
    #[default]
    Auto,
    /// So many.
    Count(u16),
    /// These; every port belongs to exactly one.
    List(Vec<Worker>),
}

/// One thread and the ports that it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The core to which it is pinned; `None`: the kernel decides.
    pub core: Option<u16>,
    /// Its ports.
    pub ports: Vec<PortId>,
}

/// What a worker does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Ask again, always: least delay, one core for each worker.
    Busy,
    /// Ask again as long as that has been worth it lately, then sleep until a frame or a deadline comes.
    Adaptive {
        /// Most time of asking again before sleep.
        idle_after: Nanos,
    },
}

impl Workers {
    /// Whether these, which came to so many, and others leave the ports of which `stays` holds where they are.
    pub(crate) fn are_alike(&self, count: usize, other: &Workers, stays: impl Fn(&PortId) -> bool) -> bool {
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

    /// The threads for ports of these line rates on a machine with so many cores (zero: not known).
    ///
    /// `Auto` takes one for each 20 Gb/s, at most half the cores. Ports are dealt out fastest first, each
    /// to the worker with the least rate so far. Nobody is pinned to a core that was not given: two switches that chose by
    /// the same rule would meet on the same core, and only the kernel knows which one others leave free.
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
            let least = loads.iter_mut().min_by_key(|(load, _)| *load).expect("at least one worker");
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

    #[test]
    fn a_slow_switch_is_one_worker_that_is_pinned_nowhere() {
        let workers = Workers::Auto.assign(&[BitRate::from_gbps(1); 8], 16);
        assert_eq!(
            workers.iter().map(|worker| (worker.core, worker.ports.len())).collect::<Vec<_>>(),
            [(None, 8)]
        );
    }

    #[test]
    fn auto_counts_rates_up_to_half_the_cores() {
        let rates = [BitRate::from_gbps(10); 4];
        for (cores, workers) in [(4, 2), (3, 1), (1, 1), (0, 2)] {
            assert_eq!(Workers::Auto.assign(&rates, cores).len(), workers, "{cores} cores");
        }
    }

    #[test]
    fn fast_ports_are_spread() {
        let rates = [1, 100, 1, 100].map(BitRate::from_gbps);
        assert_eq!(ports_of(&Workers::Count(2).assign(&rates, 4)), [vec![1, 0], vec![3, 2]]);
    }

    #[test]
    fn there_are_no_more_workers_than_ports() {
        assert_eq!(Workers::Count(64).assign(&[BitRate::from_gbps(1); 3], 4).len(), 3);
    }
}

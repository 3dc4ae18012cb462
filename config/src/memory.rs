//! What the switch takes of the machine's memory: a sum with one line for each consumer.
//!
//! A frame that waits is a UMEM chunk; what holds frames therefore takes chunks, as many as it can hold
//! frames. The sum is exact for the number of sockets that it is given.

use xoff_dataplane::congestion::points;
use xoff_dataplane::forward::table_bytes;
use xoff_dataplane::policy::flow_memory;
use xoff_dataplane::settings::{Accounting, FLOOD_COPIES_MAX, HOST_FRAMES_MAX, WhenFull};
use xoff_dataplane::units::{Bytes, CLASSES, Nanos, PortId, TAGS};

use crate::Config;
use crate::shell::{PortShell, Rings, Worker};
use crate::sizing::FRAME_MIN;

/// Bytes of an entry in a fill or completion ring, and in an RX or TX ring (a descriptor).
const ADDRESS: u64 = 8;
const DESCRIPTOR: u64 = 16;
/// Frames for pause, congestion and LLDP frames, for each port.
pub const CONTROL_FRAMES: u32 = 64;
/// What the shell remembers of each chunk: a row, and a place in a free list.
const PER_CHUNK: u64 = 12;
/// What each worker remembers of each chunk: the dataplane's node, and a place in a free list.
const PER_CHUNK_AND_WORKER: u64 = xoff_dataplane::queue::BYTES_PER_SLOT as u64 + 4;
/// What the kernel remembers of each chunk for each socket, beside the process (`struct xdp_buff_xsk`, Linux 6.18).
const KERNEL_PER_CHUNK_AND_SOCKET: u64 = 128;
/// The program itself, its threads, its XDP programs and what it serves.
const PROCESS: u64 = 17 << 20;

/// UMEM chunks by consumer.
pub type Chunks = [(&'static str, u64); 9];
/// Where some of them stand.
pub(crate) const EGRESS: usize = 3;
const HOST: usize = 6;
pub(crate) const CONTROL: usize = 7;
const SPARE: usize = 8;

/// One consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// What it is.
    pub what: &'static str,
    /// UMEM chunks, zero for what is not in the UMEM.
    pub chunks: u64,
    /// Bytes, chunks included.
    pub bytes: Bytes,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Line by line.
    pub consumers: Vec<Consumer>,
    /// Chunks of the UMEM.
    pub chunks: u64,
    /// All that the process takes.
    pub total: Bytes,
    /// What the kernel takes beside it: for each socket it remembers all chunks.
    pub kernel: Bytes,
}

impl Plan {
    /// What the machine must have.
    #[must_use]
    pub fn needed(&self) -> Bytes {
        self.total.saturating_add(self.kernel)
    }
}

impl Config {
    /// The memory that this takes with these workers where port `n` has `queues[n]` sockets (one, where
    /// `queues` says nothing); see [`Config::queues`].
    #[must_use]
    pub fn memory(&self, workers: &[Worker], queues: &[Option<u32>]) -> Plan {
        let shares = workers.iter().map(|worker| self.worker_chunks(&worker.ports, queues));
        let mut consumers: Vec<Consumer> = (0..)
            .zip(total(shares))
            .filter(|&(at, (_, chunks))| ![HOST, SPARE].contains(&at) || chunks > 0)
            .map(|(_, consumer)| consumer)
            .map(|(what, chunks)| {
                let bytes = Bytes(chunks.saturating_mul(self.shell.chunks.bytes.into()));
                Consumer { what, chunks, bytes }
            })
            .collect();
        let chunks = consumers.iter().map(|consumer| consumer.chunks).sum::<u64>();
        let plain = |what, bytes| Consumer { what, chunks: 0, bytes: Bytes(bytes) };
        consumers.push(plain("ring memory", self.ring_bytes(queues)));
        let threads = workers.len() as u64;
        let tables = PER_CHUNK + threads * PER_CHUNK_AND_WORKER;
        consumers.push(plain("frame tables", chunks.saturating_mul(tables)));
        consumers.push(plain("addresses", threads * table_bytes(self.switch.fdb.capacity) as u64));
        let points = points::memory(&self.switch.qcn, self.switch.ports.len(), chunks);
        if points > 0 {
            consumers.push(plain("congestion points", points));
        }
        let flows = flow_memory(&self.switch, chunks);
        if flows > 0 {
            consumers.push(plain("flow tables", flows));
        }
        if self.switch.pipeline.delay > Nanos::ZERO {
            consumers.push(plain("pipeline", chunks.saturating_mul(threads * size_of::<Nanos>() as u64)));
        }
        consumers.push(plain("process", PROCESS));
        let total = consumers.iter().fold(Bytes::ZERO, |sum, consumer| sum.saturating_add(consumer.bytes));
        let sockets: u64 = (0..self.shell.ports.len()).map(|port| known_or_one(queues, port)).sum();
        let kernel = Bytes(chunks.saturating_mul(sockets * KERNEL_PER_CHUNK_AND_SOCKET));
        Plan { consumers, chunks, total, kernel }
    }

    /// One UMEM has one size of fill and completion rings: the largest that a port asks for.
    fn ring_bytes(&self, queues: &[Option<u32>]) -> u64 {
        let ports = &self.shell.ports;
        let largest = |size: fn(&Rings) -> u32| {
            ports.iter().map(|port| u64::from(size(&port.rings))).max().unwrap_or(0)
        };
        let addresses = largest(|rings| rings.fill) + largest(|rings| rings.completion);
        let of_socket = |rings: &Rings| addresses * ADDRESS + u64::from(rings.rx + rings.tx) * DESCRIPTOR;
        let of_port =
            |(index, port): (usize, &PortShell)| known_or_one(queues, index) * of_socket(&port.rings);
        ports.iter().enumerate().map(of_port).sum()
    }

    /// UMEM chunks for the share of a worker that owns `ports`, by consumer.
    ///
    /// A frame stays a chunk of the worker that received it wherever it waits, and a class that is lossy
    /// everywhere is bounded only where it waits: any worker's frames may fill such queues of all ports,
    /// so each share has room for that.
    #[must_use]
    pub fn worker_chunks(&self, ports: &[PortId], queues: &[Option<u32>]) -> Chunks {
        let mut share = Successive(&[self]).worker_chunks(ports, queues);
        share[SPARE].1 = self.spare_chunks(ports, queues);
        share
    }

    /// The same for a worker that holds what all of these configurations, with the same places of ports, have let in or will;
    /// nothing is for spare places.
    #[must_use]
    pub fn worker_chunks_of(successive: &[&Config], ports: &[PortId], queues: &[Option<u32>]) -> Chunks {
        Successive(successive).worker_chunks(ports, queues)
    }

    /// UMEM chunks that port number `index` takes, by consumer.
    #[must_use]
    pub fn port_chunks(&self, index: usize, queues: &[Option<u32>]) -> Chunks {
        Successive(&[self]).port_chunks(index, queues)
    }

    /// Chunks of the longest frame.
    fn longest_in_chunks(&self) -> u32 {
        let longest = self.switch.ports.iter().map(|port| port.mtu_frame + TAGS).max().unwrap_or(0);
        longest.div_ceil(self.shell.chunks.room())
    }

    fn buffered_frames(&self, port: usize, class: usize) -> Buffered {
        let smallest = u64::from(self.shell.smallest_frame);
        let settings = &self.switch.ports[port].classes[class];
        let protected = self.switch.ports.iter().any(|port| port.classes[class].lossless);
        let stops = self.switch.when_full == WhenFull::Stop || self.switch.pipeline.keeps_frames();
        let mut buffered = Buffered::default();
        if settings.lossless {
            let before_xoff = settings.ingress_reserve.saturating_add(settings.xoff).0.div_ceil(FRAME_MIN);
            buffered.before_xoff = before_xoff.min(settings.xoff_frames.into());
            buffered.headroom = settings.headroom.0.div_ceil(smallest);
        } else if protected || stops {
            buffered.entered = settings.ingress_most().0.div_ceil(FRAME_MIN);
        }
        if !protected || self.switch.accounting == Accounting::UntilForwarded {
            let frames = settings.egress_max.0.div_ceil(FRAME_MIN);
            buffered.waiting = frames.min(settings.egress_max_frames.into());
        }
        buffered
    }
}

/// Configurations that hold one after the other, while what an earlier one has let in may still be there.
struct Successive<'a>(&'a [&'a Config]);

impl Successive<'_> {
    fn worker_chunks(&self, ports: &[PortId], queues: &[Option<u32>]) -> Chunks {
        let own = |index: &usize| ports.iter().any(|port| port.index() == *index);
        let mut share = total(ports.iter().map(|port| self.port_chunks(port.index(), queues)));
        let places = self.0.iter().map(|config| config.shell.ports.len()).min().unwrap_or(0);
        let others = (0..places).filter(|index| !own(index));
        let foreign = others.map(|index| self.buffered_frames(index).waiting).sum::<u64>();
        share[EGRESS].1 = share[EGRESS].1.saturating_add(foreign);
        share
    }

    fn port_chunks(&self, index: usize, queues: &[Option<u32>]) -> Chunks {
        let queues = known_or_one(queues, index);
        let most = |of: &dyn Fn(&Config, &PortShell) -> u32| {
            let there = self.0.iter().map(|config| (config, &config.shell.ports[index]));
            let there = there.filter(|(_, port)| !port.is_vacant());
            u64::from(there.map(|(config, port)| of(config, port)).max().unwrap_or(0))
        };
        let stall_frames = most(&|_, port| port.stall_frames);
        let buffered = self.buffered_frames(index);
        let Buffered { before_xoff, headroom, entered, waiting } = buffered;
        [
            // Waiting in fill rings: every queue ready for the next stall.
            ("fill rings", queues * stall_frames),
            // Arrived during a stall and not yet looked at; the line bounds it for all queues together.
            ("rx rings", stall_frames),
            // Lossless: up to XOFF, and the headroom beyond.
            ("lossless buffers", before_xoff.saturating_add(headroom)),
            // What only the limits of egress queues bound, and lossy frames that share a class with lossless.
            ("egress buffers", entered.saturating_add(waiting)),
            // Handed to the driver, not yet completed; only the first queue sends.
            ("tx rings", most(&|_, port| port.rings.tx)),
            // Copies of flooded frames of lossless classes, which count only once at their ingress; there
            // are never more.
            ("flooding", most(&|config, _| FLOOD_COPIES_MAX * config.longest_in_chunks())),
            // Of the host beside the switch, which count at no ingress.
            ("host frames", most(&|config, _| host_frames(config) * config.longest_in_chunks())),
            // Never taken by data, so that a pause frame never lacks a frame.
            ("control frames", CONTROL_FRAMES.into()),
            // Set aside for ports that are not there yet.
            ("spare ports", 0),
        ]
    }

    /// Of each class the most of each kind that one of them lets in.
    fn buffered_frames(&self, port: usize) -> Buffered {
        let mut sum = Buffered::default();
        for class in 0..CLASSES {
            let mut most = Buffered::default();
            for config in self.0 {
                most = most.with(&config.buffered_frames(port, class), u64::max);
            }
            sum = sum.with(&most, u64::saturating_add);
        }
        sum
    }
}

/// Frames that a port's classes can hold.
#[derive(Clone, Copy, Debug, Default)]
struct Buffered {
    /// Lossless ones that came in, up to XOFF.
    before_xoff: u64,
    /// And beyond.
    headroom: u64,
    /// Lossy ones that came in, where that is bounded.
    entered: u64,
    /// Those that wait to go out, whoever received them, and count nowhere else.
    waiting: u64,
}

impl Buffered {
    fn with(self, other: &Buffered, by: fn(u64, u64) -> u64) -> Buffered {
        let Buffered { before_xoff, headroom, entered, waiting } = self;
        Buffered {
            before_xoff: by(before_xoff, other.before_xoff),
            headroom: by(headroom, other.headroom),
            entered: by(entered, other.entered),
            waiting: by(waiting, other.waiting),
        }
    }
}

/// Frames of the host that wait at a port, at most.
fn host_frames(config: &Config) -> u32 {
    if config.shell.router.is_some() { HOST_FRAMES_MAX } else { 0 }
}

fn total(shares: impl Iterator<Item = Chunks>) -> Chunks {
    let add = |sum: Chunks, share: Chunks| {
        std::array::from_fn(|at| (share[at].0, sum[at].1.saturating_add(share[at].1)))
    };
    shares.reduce(add).unwrap_or_default()
}

fn known_or_one(queues: &[Option<u32>], port: usize) -> u64 {
    queues.get(port).copied().flatten().unwrap_or(1).into()
}

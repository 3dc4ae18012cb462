//! Memory plan of the switch: a sum with a line for each consumer.
//!
//! A queued frame takes cells ([`CELL`]) of buffer memory, and a row in the frame tables. An arriving frame takes
//! chunks of its port's packet memory.

use xoff_dataplane::driver::BATCH;
use xoff_dataplane::forward::table_bytes;
use xoff_dataplane::frame::{CELL, FRAME_MAX, cells_of};
use xoff_dataplane::switch::HANDOVERS_MAX;
use xoff_flow_control::congestion::points;
use xoff_flow_control::policy::flow_memory;
use xoff_flow_control::settings::{Accounting, FLOOD_COPIES_MAX, HOST_FRAMES_MAX, PortSettings, WhenFull};
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet, FCS, Nanos, PortId, TAGS};

use crate::Config;
use crate::shell::{PortShell, Worker};
use crate::sizing::FRAME_MIN;

const ADDRESS: u64 = 8;
const DESCRIPTOR: u64 = 16;
/// Number of frames reserved at each port for pauses, congestion notifications and LLDP.
pub const CONTROL_FRAMES: u32 = 64;
/// Bytes that the process needs per frame outside the dataplane.
const PER_FRAME: u64 = 12;
const PER_CELL: u64 = 5;
const PER_CHUNK: u64 = 8;
const PER_FRAME_AND_WORKER: u64 = xoff_dataplane::queue::BYTES_PER_SLOT as u64;
/// Bytes that the kernel needs per chunk and socket (`struct xdp_buff_xsk`, Linux 6.18).
const KERNEL_PER_CHUNK_AND_SOCKET: u64 = 128;
const KERNEL_PER_PAGE: u64 = 16;
const KERNEL_PER_SOCKET: u64 = 200 << 10;
const PAGE: u64 = 4096;
pub const PROCESS: u64 = 17 << 20;
const PER_TRANSMIT_CHUNK: u64 = 32;
/// Maximum number of frames on their way from one worker to another.
pub const HANDOVER_QUEUE: u32 = 1024;

/// Number of a device queue's latest frames that stay in receive chunks: as many as two rounds of the driver loop may receive. Older
/// frames move to buffer cells.
pub const WINDOW: u32 = 2 * BATCH;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub frames: u64,
    pub cells: u64,
}

impl Held {
    pub const NONE: Held = Held { frames: 0, cells: 0 };

    /// Returns buffer memory for `frames` frames with `bytes` bytes in all, FCS included. It suffices even if each frame's last cell
    /// holds one byte.
    #[must_use]
    pub fn of(bytes: Bytes, frames: u64) -> Held {
        let cell = u64::from(CELL);
        let rounded_up = frames.saturating_mul(cell - 1 - u64::from(FCS));
        Held { frames, cells: bytes.0.saturating_add(rounded_up).div_ceil(cell) }
    }

    const fn without_cells(frames: u64) -> Held {
        Held { frames, cells: 0 }
    }

    fn of_longest(frames: u64, longest: u32) -> Held {
        Held { frames, cells: frames.saturating_mul(cells_of(longest).into()) }
    }

    #[must_use]
    pub const fn fits(self, other: Held) -> bool {
        self.frames <= other.frames && self.cells <= other.cells
    }

    #[must_use]
    pub fn plus(self, other: Held) -> Held {
        Held {
            frames: self.frames.saturating_add(other.frames),
            cells: self.cells.saturating_add(other.cells),
        }
    }

    #[must_use]
    pub fn times(self, count: u64) -> Held {
        Held { frames: self.frames.saturating_mul(count), cells: self.cells.saturating_mul(count) }
    }

    pub(crate) fn minus(self, other: Held) -> Held {
        Held {
            frames: self.frames.saturating_sub(other.frames),
            cells: self.cells.saturating_sub(other.cells),
        }
    }

    pub(crate) fn max(self, other: Held) -> Held {
        Held { frames: self.frames.max(other.frames), cells: self.cells.max(other.cells) }
    }

    fn min(self, other: Held) -> Held {
        Held { frames: self.frames.min(other.frames), cells: self.cells.min(other.cells) }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub received: Held,
    /// Memory for lossless frames, up to XOFF and in the headroom.
    pub lossless: Held,
    /// Memory for lossy frames up to their ingress limit. If frames count at ingress only until forwarded, also memory for frames up
    /// to their egress limit.
    pub queued: Held,
    pub lossy: Held,
    pub handed_over: Held,
    /// Memory for copies of flooded frames, which share the cells of the original.
    pub flooding: Held,
    pub host: Held,
    pub control: Held,
    pub spare: Held,
}

impl Share {
    #[must_use]
    pub const fn consumers(&self) -> [(&'static str, Held); 9] {
        [
            ("received frames", self.received),
            ("lossless buffers", self.lossless),
            ("egress buffers", self.queued),
            ("lossy pool", self.lossy),
            ("between workers", self.handed_over),
            ("flood copies", self.flooding),
            ("host frames", self.host),
            ("control frames", self.control),
            ("spare ports", self.spare),
        ]
    }

    #[must_use]
    pub fn all(&self) -> Held {
        self.consumers().into_iter().fold(Held::NONE, |sum, (_, held)| sum.plus(held))
    }

    /// Returns the memory for all frames except control frames.
    #[must_use]
    pub fn data(&self) -> Held {
        Share { control: Held::NONE, ..*self }.all()
    }

    fn with(self, other: Share, by: fn(Held, Held) -> Held) -> Share {
        Share {
            received: by(self.received, other.received),
            lossless: by(self.lossless, other.lossless),
            queued: by(self.queued, other.queued),
            lossy: by(self.lossy, other.lossy),
            handed_over: by(self.handed_over, other.handed_over),
            flooding: by(self.flooding, other.flooding),
            host: by(self.host, other.host),
            control: by(self.control, other.control),
            spare: by(self.spare, other.spare),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    pub what: &'static str,
    pub frames: u64,
    pub bytes: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub consumers: Vec<Consumer>,
    pub total: Bytes,
    /// Part of `total` that the process takes only while spare ports are in use.
    pub spare: Bytes,
    pub kernel: Bytes,
}

impl Plan {
    #[must_use]
    pub fn needed(&self) -> Bytes {
        self.total.saturating_add(self.kernel)
    }
}

impl Config {
    /// Returns the memory plan. Port `n` has `queues[n]` sockets; `None` means one.
    #[must_use]
    pub fn memory(&self, workers: &[Worker], queues: &[Option<u32>]) -> Plan {
        let shares = workers.iter().map(|worker| self.share(workers.len(), &worker.ports, queues));
        let share = shares.fold(Share::default(), |sum, share| sum.with(share, Held::plus));
        let chunk = u64::from(self.shell.chunks.bytes);
        let of_ports = |of: &dyn Fn(&PortShell, u64) -> u64| -> u64 {
            let ports = (0..self.shell.ports.len()).map(|port| (self.like(port), queues_of(queues, port)));
            ports.map(|(port, queues)| of(port, queues)).fold(0, u64::saturating_add)
        };
        let chunks = |what, frames: u64, size: u64| Consumer {
            what,
            frames,
            bytes: Bytes(frames.saturating_mul(size)),
        };
        let [receive, transmit] =
            [of_ports(&receive_chunks), of_ports(&|port, _| port.transmit_chunks.into())];
        let receive_bytes = u64::from(self.shell.chunks.receive_bytes());
        let mut consumers = vec![
            chunks("receive chunks", receive, receive_bytes),
            chunks("transmit chunks", transmit, chunk),
        ];
        let held = share.consumers().into_iter().filter(|(_, held)| *held != Held::NONE);
        consumers.extend(held.map(|(what, Held { frames, cells })| Consumer {
            what,
            frames,
            bytes: Bytes(cells.saturating_mul(CELL.into())),
        }));
        let plain = |what, bytes| Consumer { what, frames: 0, bytes: Bytes(bytes) };
        consumers.push(plain("ring memory", of_ports(&ring_bytes)));
        let threads = workers.len() as u64;
        let Held { frames, cells } = share.all();
        let tables = frames
            .saturating_mul(PER_FRAME + threads * PER_FRAME_AND_WORKER)
            .saturating_add(cells.saturating_mul(PER_CELL))
            .saturating_add(receive.saturating_mul(PER_CHUNK))
            .saturating_add(transmit.saturating_mul(PER_TRANSMIT_CHUNK));
        consumers.push(plain("frame tables", tables));
        consumers.push(plain("addresses", threads * table_bytes(self.switch.fdb.capacity) as u64));
        let points = points::memory(&self.switch.qcn, self.switch.ports.len(), frames);
        if points > 0 {
            consumers.push(plain("congestion points", points));
        }
        let flows = flow_memory(&self.switch, frames);
        if flows > 0 {
            consumers.push(plain("flow tables", flows));
        }
        if self.switch.pipeline.delay > Nanos::ZERO {
            consumers.push(plain("pipeline", frames.saturating_mul(threads * size_of::<Nanos>() as u64)));
        }
        consumers.push(plain("process", PROCESS));
        let total = consumers.iter().fold(Bytes::ZERO, |sum, consumer| sum.saturating_add(consumer.bytes));
        let spare = (0..self.shell.ports.len()).filter(|&port| self.is_spare(port));
        let spare = spare.map(|port| self.packet_memory(self.like(port), queues_of(queues, port)));
        let spare = Bytes(spare.fold(0, u64::saturating_add));
        let kernel = Bytes(of_ports(&|port, queues| self.kernel_memory(port, queues)));
        Plan { consumers, total, spare, kernel }
    }

    pub(crate) fn port_memory(&self, port: PortId, queues: Option<u32>) -> Bytes {
        let (port, queues) = (&self.shell.ports[port.index()], u64::from(queues.unwrap_or(1)));
        Bytes(self.packet_memory(port, queues).saturating_add(self.kernel_memory(port, queues)))
    }

    fn packet_memory(&self, port: &PortShell, queues: u64) -> u64 {
        let chunks = &self.shell.chunks;
        let received =
            receive_chunks(port, queues).saturating_mul(u64::from(chunks.receive_bytes()) + PER_CHUNK);
        let transmitted =
            u64::from(port.transmit_chunks).saturating_mul(u64::from(chunks.bytes) + PER_TRANSMIT_CHUNK);
        received.saturating_add(transmitted).saturating_add(ring_bytes(port, queues))
    }

    fn kernel_memory(&self, port: &PortShell, queues: u64) -> u64 {
        let (chunk, transmitted) = (u64::from(self.shell.chunks.bytes), u64::from(port.transmit_chunks));
        let received =
            receive_chunks(port, queues).saturating_mul(u64::from(self.shell.chunks.receive_bytes()));
        // Small receive chunks are parts of whole chunks, and the kernel needs its own bytes once per whole chunk.
        let chunks = received.div_ceil(chunk).saturating_add(transmitted);
        let of_socket = chunks.saturating_mul(KERNEL_PER_CHUNK_AND_SOCKET).saturating_add(KERNEL_PER_SOCKET);
        let bytes = received.saturating_add(transmitted.saturating_mul(chunk));
        queues.saturating_mul(of_socket).saturating_add(bytes.saturating_mul(KERNEL_PER_PAGE) / PAGE)
    }

    fn like(&self, index: usize) -> &PortShell {
        match self.is_spare(index) {
            true => &self.shell.ports[self.largest_port().unwrap_or(index)],
            false => &self.shell.ports[index],
        }
    }

    /// Returns the buffer memory of one worker: for its `ports`, and for all ports' lossy queues, because a frame stays with the
    /// worker that received it.
    #[must_use]
    pub fn share(&self, workers: usize, ports: &[PortId], queues: &[Option<u32>]) -> Share {
        Share { spare: self.spare_share(ports, queues), ..Successive(&[self]).share(workers, ports, queues) }
    }

    #[must_use]
    pub fn share_of(
        successive: &[&Config],
        workers: usize,
        ports: &[PortId],
        queues: &[Option<u32>],
    ) -> Share {
        Successive(successive).share(workers, ports, queues)
    }

    #[must_use]
    pub fn port_share(&self, index: usize, queues: &[Option<u32>]) -> Share {
        Successive(&[self]).port_share(index, queues)
    }

    /// Returns the buffer memory for the received frames of one device queue. A frame of several receive chunks moves to
    /// cells immediately, so cells must hold a batch of full chunks, plus an incomplete frame.
    fn received(&self) -> Held {
        let chunks = &self.shell.chunks;
        let cells = u64::from(BATCH) * u64::from(chunks.receive_room().div_ceil(CELL))
            + u64::from(cells_of(FRAME_MAX));
        Held { frames: WINDOW.into(), cells: if chunks.frames_take_several() { cells } else { 0 } }
    }

    fn longest(&self) -> u32 {
        self.switch.ports.iter().map(|port| port.mtu_frame + TAGS).max().unwrap_or(0)
    }

    fn pooled(&self) -> ClassSet {
        let lossless = self.switch.lossless_anywhere();
        Class::ALL.into_iter().filter(|class| !lossless.contains(*class)).collect()
    }

    /// Returns the memory for queues of classes that are lossy at every port, at most the lossy pool. Each of `spare` further ports
    /// counts as the largest port.
    pub(crate) fn lossy_everywhere(&self, spare: u64) -> Held {
        let classes = self.pooled();
        let of_port = |port: &PortSettings| {
            let settings = classes.iter().map(|class| &port.classes[class.index()]);
            let waiting = settings.map(|class| waiting(class.egress_max, class.egress_max_frames));
            waiting.fold(Held::NONE, Held::plus)
        };
        let [sum, largest] =
            [Held::plus, Held::max].map(|by| self.switch.ports.iter().map(of_port).fold(Held::NONE, by));
        let pool = self.switch.lossy_pool;
        sum.plus(largest.times(spare)).min(Held::of(pool.bytes, pool.frames.into()))
    }

    fn buffered(&self, port: usize, class: usize) -> Share {
        let smallest = u64::from(self.shell.smallest_frame);
        let settings = &self.switch.ports[port].classes[class];
        let protected = self.switch.ports.iter().any(|port| port.classes[class].lossless);
        let stops = self.switch.when_full == WhenFull::Stop || self.switch.pipeline.keeps_frames();
        let mut buffered = Share::default();
        if settings.lossless {
            let before_xoff = settings.ingress_reserve.saturating_add(settings.xoff);
            let frames = before_xoff.0.div_ceil(FRAME_MIN).min(settings.xoff_frames.into());
            let headroom = settings.headroom;
            buffered.lossless =
                Held::of(before_xoff, frames).plus(Held::of(headroom, headroom.0.div_ceil(smallest)));
        } else if protected || stops {
            let most = settings.ingress_most();
            buffered.queued = Held::of(most, most.0.div_ceil(FRAME_MIN));
        }
        if protected && self.switch.accounting == Accounting::UntilForwarded {
            let waits = waiting(settings.egress_max, settings.egress_max_frames);
            buffered.queued = buffered.queued.plus(waits);
        }
        buffered
    }
}

fn waiting(most: Bytes, frames_most: u32) -> Held {
    Held::of(most, most.0.div_ceil(FRAME_MIN).min(frames_most.into()))
}

fn receive_chunks(port: &PortShell, queues: u64) -> u64 {
    queues.saturating_mul(u64::from(port.stall_chunks) + u64::from(WINDOW))
}

fn ring_bytes(port: &PortShell, queues: u64) -> u64 {
    let rings = &port.rings;
    let addresses = u64::from(rings.fill) + u64::from(rings.completion);
    queues.saturating_mul(addresses * ADDRESS + (u64::from(rings.rx) + u64::from(rings.tx)) * DESCRIPTOR)
}

struct Successive<'a>(&'a [&'a Config]);

impl Successive<'_> {
    fn share(&self, workers: usize, ports: &[PortId], queues: &[Option<u32>]) -> Share {
        let own = ports.iter().map(|port| self.port_share(port.index(), queues));
        let mut share = own.fold(Share::default(), |sum, share| sum.with(share, Held::plus));
        share.lossy = self.0.iter().map(|config| config.lossy_everywhere(0)).fold(Held::NONE, Held::max);
        let longest = self.0.iter().map(|config| config.longest()).max().unwrap_or(0);
        let others = workers.saturating_sub(1) as u64;
        let is_lossy = self.0.iter().any(|config| !config.pooled().is_empty());
        if others > 0 && is_lossy {
            let frames = ports.len() as u64 * u64::from(HANDOVERS_MAX) + others * u64::from(HANDOVER_QUEUE);
            share.handed_over = Held::of_longest(frames, longest);
        }
        // Before a worker receives a frame, it needs free cells for the longest frame.
        share.received.cells = share.received.cells.saturating_add(cells_of(FRAME_MAX).into());
        share
    }

    fn port_share(&self, index: usize, queues: &[Option<u32>]) -> Share {
        let most = |of: &dyn Fn(&Config) -> Held| {
            let there = self.0.iter().filter(|config| !config.shell.ports[index].is_vacant());
            there.map(|config| of(config)).fold(Held::NONE, Held::max)
        };
        let queues = queues_of(queues, index);
        let buffered = (0..CLASSES).map(|class| {
            let of_class = |config: &&Config| config.buffered(index, class);
            self.0.iter().map(of_class).fold(Share::default(), |most, share| most.with(share, Held::max))
        });
        let buffered = buffered.fold(Share::default(), |sum, share| sum.with(share, Held::plus));
        Share {
            received: most(&|config| config.received().times(queues)),
            flooding: most(&|_| Held::without_cells(FLOOD_COPIES_MAX.into())),
            host: most(&|config| Held::of_longest(host_frames(config).into(), config.longest())),
            // A removed port's index keeps its memory for control frames.
            control: Held::of_longest(
                CONTROL_FRAMES.into(),
                self.0.iter().map(|config| config.longest()).max().unwrap_or(0),
            ),
            ..buffered
        }
    }
}

fn host_frames(config: &Config) -> u32 {
    if config.shell.router.is_some() { HOST_FRAMES_MAX } else { 0 }
}

fn queues_of(queues: &[Option<u32>], port: usize) -> u64 {
    queues.get(port).copied().flatten().unwrap_or(1).into()
}

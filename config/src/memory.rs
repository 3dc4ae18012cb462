//! What the switch takes of the machine's memory: a sum with one line for each consumer.
//!
//! A frame that waits is a UMEM chunk; what holds frames therefore takes chunks, as many as it can hold
//! frames. The sum is exact for the number of hardware queues that it is given.

use xoff_dataplane::settings::{ClassSettings, WhenFull};
use xoff_dataplane::units::Bytes;

use crate::Config;
use crate::shell::PortShell;
use crate::sizing::FRAME_MIN;

/// Bytes of an entry in a fill or completion ring, and in an RX or TX ring (a descriptor).
const ADDRESS: u64 = 8;
const DESCRIPTOR: u64 = 16;
/// Frames for pause, congestion and LLDP frames, for each port.
pub const CONTROL_FRAMES: u64 = 64;
/// Frames for copies of flooded lossless frames, for each port.
pub const FLOOD_FRAMES: u64 = 512;
/// What the dataplane and the shell remember of a frame, for each chunk.
const PER_CHUNK: u64 = 48;
/// What the forwarding database takes for each address.
const PER_ADDRESS: u64 = 32;
/// The program itself, its threads, its XDP programs and what it serves.
const PROCESS: u64 = 12 << 20;

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
    /// All of it.
    pub total: Bytes,
}

impl Config {
    /// The memory that this takes where port `n` has `queues[n]` hardware queues (one, where `queues`
    /// says nothing and the file gives no list).
    #[must_use]
    pub fn memory(&self, queues: &[u32]) -> Plan {
        let mut consumers: Vec<Consumer> = Vec::new();
        for index in 0..self.shell.ports.len() {
            for (at, (what, chunks)) in self.port_chunks(index, queues).into_iter().enumerate() {
                if consumers.len() == at {
                    consumers.push(Consumer { what, chunks: 0, bytes: Bytes::ZERO });
                }
                consumers[at].chunks = consumers[at].chunks.saturating_add(chunks);
            }
        }
        for consumer in &mut consumers {
            consumer.bytes = Bytes(consumer.chunks.saturating_mul(self.shell.chunk_bytes.into()));
        }
        let chunks = consumers.iter().map(|consumer| consumer.chunks).sum::<u64>();
        let plain = |what, bytes| Consumer { what, chunks: 0, bytes: Bytes(bytes) };
        let ports = self.shell.ports.iter().enumerate();
        let rings = ports.map(|(index, port)| queue_count(port, queues.get(index)) * ring_bytes(port)).sum();
        consumers.push(plain("ring memory", rings));
        consumers.push(plain("frame tables", chunks.saturating_mul(PER_CHUNK)));
        consumers.push(plain("addresses", self.switch.fdb.capacity as u64 * PER_ADDRESS));
        consumers.push(plain("process", PROCESS));
        let total = consumers.iter().fold(Bytes::ZERO, |sum, consumer| sum.saturating_add(consumer.bytes));
        Plan { consumers, chunks, total }
    }

    /// UMEM chunks that port number `index` takes, by consumer; the worker that owns the port has them in
    /// its share.
    #[must_use]
    pub fn port_chunks(&self, index: usize, queues: &[u32]) -> [(&'static str, u64); 7] {
        let port = &self.shell.ports[index];
        let queues = queue_count(port, queues.get(index));
        let stall_frames = u64::from(port.stall_frames);
        let (lossless, lossy) = self.buffered_frames(index);
        [
            // Waiting in fill rings: every queue ready for the next stall.
            ("fill rings", queues * stall_frames),
            // Arrived during a stall and not yet looked at; the line bounds it for all queues together.
            ("rx rings", stall_frames),
            // Lossless: up to XOFF, and the headroom beyond.
            ("lossless buffers", lossless),
            // Lossy: what their limits let in.
            ("lossy buffers", lossy),
            // Handed to the driver, not yet completed.
            ("tx rings", queues * u64::from(port.rings.tx)),
            // Copies of flooded frames of lossless classes, which count only once at their ingress.
            ("flooding", FLOOD_FRAMES),
            // Never taken by data, so that a pause frame never lacks a frame.
            ("control frames", CONTROL_FRAMES),
        ]
    }

    /// Frames that lossless classes, and lossy ones, of a port can hold.
    fn buffered_frames(&self, port: usize) -> (u64, u64) {
        let smallest = u64::from(self.shell.smallest_frame);
        let (mut lossless, mut lossy) = (0_u64, 0_u64);
        for (class, settings) in self.switch.ports[port].classes.iter().enumerate() {
            if settings.lossless {
                let bytes = settings.xoff.saturating_add(settings.headroom);
                lossless = lossless.saturating_add(bytes.0.div_ceil(smallest));
            } else {
                let protected = self.switch.ports.iter().any(|port| port.classes[class].lossless);
                lossy = lossy.saturating_add(self.lossy_frames(settings, protected));
            }
        }
        (lossless, lossy)
    }

    fn lossy_frames(&self, settings: &ClassSettings, protected: bool) -> u64 {
        let incoming = settings.ingress_max.0.div_ceil(FRAME_MIN);
        let outgoing = u64::from(settings.egress_max_frames).min(settings.egress_max.0.div_ceil(FRAME_MIN));
        match (protected, self.switch.when_full) {
            (true, _) => incoming,
            (false, WhenFull::Drop) => outgoing,
            (false, WhenFull::Stop) => incoming.saturating_add(outgoing),
        }
    }
}

fn queue_count(port: &PortShell, known: Option<&u32>) -> u64 {
    match &port.queues {
        crate::shell::Queues::List(list) => list.len() as u64,
        crate::shell::Queues::All => known.copied().unwrap_or(1).into(),
    }
}

fn ring_bytes(port: &PortShell) -> u64 {
    let rings = &port.rings;
    u64::from(rings.fill + rings.completion) * ADDRESS + u64::from(rings.rx + rings.tx) * DESCRIPTOR
}

//! What the AF_XDP shell is told beside [`SwitchSettings`](xoff_dataplane::settings::SwitchSettings):
//! devices, queues, rings, memory, threads, and where it can be asked.

use std::cmp::Reverse;
use std::net::SocketAddr;

use xoff_dataplane::units::{BitRate, ETHERNET_HEADER, Nanos, PortId, TAGS};

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
    /// What a worker does when there is nothing to do.
    pub poll: Poll,
    /// Where `/metrics`, `/status`, `/addresses`, `/healthz` and `/policy` are served; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// Names that it may be asked by there, beside `localhost`, the machine's own, and addresses.
    pub http_hosts: Vec<String>,
    /// What is logged: a `tracing` filter.
    pub log: String,
    /// The longest stall of a worker through which nothing lossless is lost.
    pub stall_budget: Nanos,
    /// Smallest average frame (bytes with FCS) for which that holds.
    pub smallest_frame: u32,
    /// Whether frames go in and out without a copy: one packet memory, so for all ports or for none.
    pub zero_copy: ZeroCopy,
    /// How packet memory is cut, so that the frames of every port fit.
    pub chunks: Chunks,
}

/// How packet memory (UMEM) is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    /// Bytes of one chunk: 2048 or 4096.
    pub bytes: u32,
    /// Whether some frames need more than one (XDP multi-buffer).
    pub multi_buffer: bool,
}

impl Chunks {
    /// The largest of which one holds a whole frame.
    const LARGEST: Chunks = Chunks { bytes: 4_096, multi_buffer: false };
    /// The largest MTU whose frames, tags included, take one chunk each.
    pub const MTU_OF_ONE: u32 = Chunks::LARGEST.room() - ETHERNET_HEADER - TAGS;

    /// The smallest of which each holds a frame of this MTU, with the tags that the MTU leaves out.
    #[must_use]
    pub fn for_mtu(mtu: u32) -> Chunks {
        let small = Chunks { bytes: 2_048, multi_buffer: false };
        match mtu + ETHERNET_HEADER + TAGS <= small.room() {
            true => small,
            false => Chunks { multi_buffer: mtu > Chunks::MTU_OF_ONE, ..Chunks::LARGEST },
        }
    }

    /// Bytes of a frame that one holds: 256 are the kernel's.
    #[must_use]
    pub const fn room(self) -> u32 {
        self.bytes - 256
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
    /// Frames that may arrive while its worker is stalled, the whole budget long.
    pub stall_frames: u32,
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

/// Whether the packet memory is shared with the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    /// Where the first port's driver can.
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

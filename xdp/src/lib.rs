//! Ports by AF_XDP: packet memory, rings and devices, without switching decisions.
//!
//! The holder of a chunk's number owns its bytes:
//!
//! ```text
//!   chunk -- fill ring --> kernel -- RX ring --> a received frame     of the port that receives
//!   a frame to be sent --> chunk -- TX ring --> kernel -- completion  of the port that sends
//! ```
//!
//! A frame is copied once, to a chunk of the port that sends it. A queued frame moves to cells of the buffer memory when its chunk is
//! needed.
//!
//! Of the program xoff, only this crate contains handwritten `unsafe`: for packet memory, shared rings, and system calls that rustix and
//! nix lack.

mod atomics;
pub mod bare;
mod cells;
mod chain;
mod chunks;
pub mod clock;
mod device;
mod driver;
mod error;
mod fallback;
pub mod host;
mod host_interface;
mod interface;
mod journal;
mod layout;
mod limits;
mod losses;
mod mapping;
mod monitor;
mod netlink;
mod offloads;
mod options;
mod packet;
mod place;
mod port;
mod reading;
mod receive;
mod ring;
mod shared_ring;
pub mod sleeper;
mod socket;
mod store;
mod sys;
mod transmit;
mod umem;

use std::io;

pub use device::{Facts, restore_port};
pub use driver::Driver;
pub use error::{Obstacle, XdpError, check_agent_privileges};
pub use fallback::Fallbacks;
pub use host_interface::HostInterface;
pub use interface::{DeviceReader, DeviceState, Interface};
pub use journal::{Journal, Left, Owner};
pub use layout::{ReceiveChunks, SMALL as SMALL_CHUNK};
pub use limits::{name_file_limit, spawn, thread_refused};
pub use losses::{Losses, Overlap};
pub use monitor::{Look, Monitor, PortDriver, Unread, XdpStatistics};
pub use offloads::{Offloads, OffloadsBefore, finish_frames};
pub use options::PortOptions;
pub use packet::PacketSender;
pub use port::{Port, rx_queues};
pub use reading::{DeviceDrops, LINK_COUNTERS, Role};
pub use store::{Share, Store};
pub use umem::{Rings, ZeroCopy};
pub use xoff_ebpf::{Arrivals, Head};

pub fn mtu(device: &str) -> Result<u32, XdpError> {
    let refused =
        |source| XdpError::Device { fault: "cannot read the interface", device: device.to_owned(), source };
    let link = netlink::Netlink::open().and_then(|netlink| netlink.link(device)).map_err(refused)?;
    link.map(|link| link.mtu).ok_or_else(|| XdpError::NoSuchInterface { device: device.to_owned() })
}

/// Returns whether the kernel supports [small receive chunks](ReceiveChunks::Small): Linux 6.6 or newer, with several
/// queues 6.6.11.
#[must_use]
pub fn has_small_chunks() -> bool {
    umem::has_small_chunks()
}

/// Gives a device a qdisc, so that the kernel reports a full ring as busy instead of dropping frames.
pub fn add_queue(ifindex: i32) -> io::Result<()> {
    netlink::Netlink::open()?.add_pfifo(ifindex, 0)
}

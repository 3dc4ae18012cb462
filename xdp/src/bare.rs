//! AF_XDP sockets without ports and stores, for comparison with other libraries.
//!
//! This process never reads the packet memory, so a chunk in two rings at once would garble frames, but cause no memory
//! error.

use std::io;
use std::os::fd::AsFd as _;

use nix::net::if_::if_nametoindex;

pub use crate::ring::{CompletionRing, Descriptor, FillRing, Kick, RxRing, TxRing};
pub use crate::socket::{Socket, XskCompletion, XskFill, XskRx, XskTx};

use crate::error::{XdpError, check_privileges};
use crate::layout::{Layout, ReceiveChunks};
use crate::mapping::Mapping;
use crate::sys;
use crate::umem::{Rings, Umem, UmemSettings, ZeroCopy};

/// Opens a socket on queue 0 of each device. Both share a packet memory; no XDP program is attached.
///
/// The memory has `chunks` chunks of 2048 bytes, numbered from 0. Each ring has `entries` entries, a power of two.
pub fn open(devices: [&str; 2], entries: u32, chunks: u32) -> Result<[Socket; 2], XdpError> {
    check_privileges()?;
    let rings = Rings { fill: entries, rx: entries, tx: entries, completion: entries };
    let chunks = Layout::new(2048, ReceiveChunks::Whole, [0, chunks]);
    let settings = UmemSettings { chunks, multi_buffer: false, zero_copy: ZeroCopy::Auto, rings };
    let bytes = chunks.bytes();
    let memory = usize::try_from(bytes).map_err(io::Error::other).and_then(Mapping::anonymous);
    // The memory may be unmapped when this function ends, because the kernel has pinned its pages.
    let umem = Umem::new(&memory.map_err(|source| XdpError::Memory { bytes, source })?, settings)?;
    let open = |device: &str| -> Result<Socket, XdpError> {
        let ifindex =
            if_nametoindex(device).map_err(|_| XdpError::NoSuchInterface { device: device.to_owned() })?;
        let socket = Socket::open(&umem, (device, ifindex), 0)?;
        sys::set_tx_budget(socket.rx.as_fd(), entries);
        Ok(socket)
    };
    Ok([open(devices[0])?, open(devices[1])?])
}

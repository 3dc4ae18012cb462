//! Sockets without ports and stores: their four rings, for comparisons with rings of other libraries.
//!
//! Nobody reads or writes the bytes of the packet memory: a chunk in two rings at a time garbles frames, and breaks nothing else.

use std::os::fd::AsFd as _;

use nix::net::if_::if_nametoindex;

pub use crate::ring::{CompletionRing, Descriptor, FillRing, Kick, RxRing, TxRing};
pub use crate::socket::{Socket, XskCompletion, XskFill, XskRx, XskTx};

use crate::error::XdpError;
use crate::sys;
use crate::umem::{Share, Umem, UmemSettings};

/// Opens a socket on queue 0 of each of two devices, with one packet memory for both: `chunks` chunks of 2048 bytes, numbered from 0. Each
/// ring has `entries` entries, a power of two. No XDP program is attached.
///
/// # Errors
/// [`XdpError`], for example where the process lacks privileges or another socket has the queue.
pub fn open(devices: [&str; 2], entries: u32, chunks: u32) -> Result<[Socket; 2], XdpError> {
    let settings = UmemSettings {
        chunk_bytes: 2048,
        multi_buffer: false,
        zero_copy: None,
        fill: entries,
        completion: entries,
    };
    // The kernel pins the pages: they outlive this process's mapping of them.
    let (umem, _stores) = Umem::new(settings, &[Share { chunks, control: 0 }])?;
    let open = |device: &str| -> Result<Socket, XdpError> {
        let ifindex =
            if_nametoindex(device).map_err(|_| XdpError::NoSuchInterface { device: device.to_owned() })?;
        let socket = Socket::open(&umem, (entries, entries), (device, ifindex), 0)?;
        sys::set_tx_budget(socket.rx.as_fd(), entries);
        Ok(socket)
    };
    Ok([open(devices[0])?, open(devices[1])?])
}

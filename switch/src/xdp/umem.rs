//! The packet memory of the whole switch.

use std::num::NonZeroU32;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use xoff_config::shell::ZeroCopy;
use xsk_rs::config::{BindFlags, FrameSize, QueueSize, UmemConfig};

use super::error::{XdpError, check_privileges};
use super::region::{HEADROOM, Region};
use super::socket::Table;
use super::store::Store;
use super::sys;

/// How the packet memory is laid out. One switch has one such memory, so these hold for all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UmemSettings {
    /// Bytes of a chunk: 2048 holds frames up to 1792 bytes, 4096 up to 3840.
    pub chunk_bytes: u32,
    /// Whether longer frames may take several chunks (XDP multi-buffer, Linux 6.6).
    pub multi_buffer: bool,
    /// Whether the memory is shared with the devices. All ports or none: the first port opened
    /// decides, and later ones must be able to do the same.
    pub zero_copy: ZeroCopy,
    /// Entries of every socket's fill ring: the largest that any port asks for.
    pub fill: u32,
    /// Entries of every socket's completion ring: the largest that any port asks for.
    pub completion: u32,
}

/// One worker's share of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Chunks for frames.
    pub chunks: u32,
    /// Further chunks, kept for control frames.
    pub control: u32,
}

/// The packet memory of the whole switch. Ports are opened on it; it lives until the last of them and
/// the last [`Store`] are gone.
#[derive(Clone, Debug)]
pub struct Umem {
    table: Arc<Table>,
    settings: UmemSettings,
}

impl Umem {
    /// Takes the memory from the kernel, and cuts it into shares.
    ///
    /// # Errors
    /// Where the process lacks privileges, the kernel AF_XDP, or the machine memory.
    pub fn new(settings: UmemSettings, shares: &[Share]) -> Result<(Umem, Vec<Store>), XdpError> {
        check_privileges()?;
        if !sys::has_af_xdp() {
            return Err(XdpError::NoAfXdp);
        }
        if !matches!(settings.chunk_bytes, 2048 | 4096) {
            let (what, allowed) = ("the size of a chunk", "2048 or 4096");
            return Err(XdpError::Size { what, given: settings.chunk_bytes, allowed });
        }
        let config = UmemConfig::builder()
            .frame_size(FrameSize::new(settings.chunk_bytes).expect("checked above"))
            .fill_queue_size(queue_size("the fill ring", settings.fill)?)
            .comp_queue_size(queue_size("the completion ring", settings.completion)?)
            .build()
            .expect("2048 and 4096 bytes leave room for a packet");
        let chunks: u64 = shares.iter().map(|share| u64::from(share.chunks) + u64::from(share.control)).sum();
        let bytes = chunks * u64::from(settings.chunk_bytes);
        let count = u32::try_from(chunks).ok().and_then(NonZeroU32::new);
        let count =
            count.ok_or(XdpError::Memory { bytes, source: std::io::ErrorKind::InvalidInput.into() })?;
        let (umem, descriptors) = xsk_rs::Umem::new(config, count, false)
            .map_err(|error| XdpError::Memory { bytes, source: io_error(&error) })?;
        let region = region(&umem, &descriptors[0], settings.chunk_bytes, count.get());
        let table = Table {
            umem,
            descriptors: descriptors.into_boxed_slice(),
            chunk_bytes: settings.chunk_bytes as usize,
            chunk_bits: settings.chunk_bytes.trailing_zeros(),
        };
        let stores = cut(&Arc::new(region), shares);
        Ok((Umem { table: Arc::new(table), settings }, stores))
    }

    /// How it was laid out.
    #[must_use]
    pub fn settings(&self) -> &UmemSettings {
        &self.settings
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(super) fn bind_flags(&self) -> BindFlags {
        let mut flags = BindFlags::XDP_USE_NEED_WAKEUP;
        flags.set(BindFlags::XDP_USE_SG, self.settings.multi_buffer);
        flags.set(BindFlags::XDP_COPY, self.settings.zero_copy == ZeroCopy::Off);
        flags.set(BindFlags::XDP_ZEROCOPY, self.settings.zero_copy == ZeroCopy::On);
        flags
    }
}

/// `size` as xsk-rs wants it.
pub(super) fn queue_size(what: &'static str, size: u32) -> Result<QueueSize, XdpError> {
    let allowed = "a power of two, 4 or more";
    let valid = QueueSize::new(size).ok().filter(|_| size >= 4);
    valid.ok_or(XdpError::Size { what, given: size, allowed })
}

/// The operating system's error behind one of xsk-rs's.
pub(super) fn io_error(error: &dyn std::error::Error) -> std::io::Error {
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    match source.and_then(std::io::Error::raw_os_error) {
        Some(errno) => std::io::Error::from_raw_os_error(errno),
        None => std::io::Error::other(error.to_string()),
    }
}

/// The memory that xsk-rs mapped, whose first packet `first` describes.
fn region(
    umem: &xsk_rs::Umem,
    first: &xsk_rs::umem::frame::FrameDesc,
    chunk_bytes: u32,
    chunks: u32,
) -> Region {
    // SAFETY: the descriptor is of this memory, and nobody else has it yet.
    let data = unsafe { umem.data(first) }.contents().as_ptr();
    // The memory comes from mmap and is known to the kernel by its address: a pointer made from that
    // address may be used for all of it, not only for the (empty) packet that xsk-rs shows.
    let base = ptr::with_exposed_provenance_mut(data.expose_provenance() - HEADROOM as usize);
    let base = NonNull::new(base).expect("mmap never maps address zero");
    // SAFETY: xsk-rs mapped `chunks * chunk_bytes` bytes there and keeps them as long as a clone of
    // `umem` exists. This program looks at packets only by the region made here.
    unsafe { Region::new(base, chunk_bytes, chunks, Some(umem.clone())) }
}

fn cut(region: &Arc<Region>, shares: &[Share]) -> Vec<Store> {
    let mut start = 0;
    let range = |share: &Share| {
        let own = start..start + share.chunks + share.control;
        start = own.end;
        own
    };
    let ranges: Arc<[_]> = shares.iter().map(range).collect();
    let store = |(index, share): (usize, &Share)| {
        Store::new(Arc::clone(region), Arc::clone(&ranges), index, share.control)
    };
    shares.iter().enumerate().map(store).collect()
}

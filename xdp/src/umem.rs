//! The packet memory of the whole switch.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rustix::net::xdp::SocketAddrXdpFlags as BindFlags;

use crate::error::{XdpError, check_privileges};
use crate::mapping::Mapping;
use crate::region::Region;
use crate::store::{Lent, Store};
use crate::sys;

/// How the packet memory is laid out. One switch has one such memory, so these hold for all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UmemSettings {
    /// Bytes of a chunk: 2048 holds frames up to 1792 bytes, 4096 up to 3840.
    pub chunk_bytes: u32,
    /// Whether longer frames may take several chunks (XDP multi-buffer, Linux 6.6).
    pub multi_buffer: bool,
    /// Whether the memory is shared with the devices; `None`: where the first port's driver can. All ports or none: the first port
    /// opened decides, and later ones must be able to do the same.
    pub zero_copy: Option<bool>,
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

/// The packet memory of the whole switch, as the kernel knows it: by a socket that it is registered
/// with. Ports are opened on it, also while others work; its bytes live until the last of them and the last
/// [`Store`] are gone.
///
/// Whoever joins names a socket that is bound. A device that goes takes its sockets along, the first one too; where
/// none is left, the same memory is registered once more, and shared with devices or not as it was.
#[derive(Debug)]
pub struct Umem {
    /// The memory is registered with it; it becomes the first port's.
    first: Mutex<Option<OwnedFd>>,
    /// Those that were bound, as long as their ports are open.
    bound: Mutex<Vec<Weak<OwnedFd>>>,
    /// Whether the first that was bound shares the memory with its device: so do all others, or none.
    is_shared: OnceLock<bool>,
    numbers: AtomicU32,
    region: Arc<Region>,
    settings: UmemSettings,
}

impl Umem {
    /// Takes the memory from the kernel, and cuts it into shares.
    ///
    /// # Errors
    /// Where the process lacks privileges, the kernel AF_XDP, or the machine memory.
    pub fn new(settings: UmemSettings, shares: &[Share]) -> Result<(Umem, Vec<Store>), XdpError> {
        check_privileges()?;
        if !matches!(settings.chunk_bytes, 2048 | 4096) {
            let (what, allowed) = ("the size of a chunk", "2048 or 4096");
            return Err(XdpError::Size { what, given: settings.chunk_bytes, allowed });
        }
        checked_size("the fill ring", settings.fill)?;
        checked_size("the completion ring", settings.completion)?;
        let chunks: u64 = shares.iter().map(|share| u64::from(share.chunks) + u64::from(share.control)).sum();
        let bytes = chunks.saturating_mul(settings.chunk_bytes.into());
        let refused = |source| XdpError::Memory { bytes, source };
        let too_large = |_| refused(io::ErrorKind::InvalidInput.into());
        let count = u32::try_from(chunks).map_err(too_large)?;
        let memory = Mapping::anonymous(usize::try_from(bytes).map_err(too_large)?).map_err(refused)?;
        let socket = sys::xdp_socket().map_err(|error| match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => XdpError::NoAfXdp,
            _ => refused(error),
        })?;
        sys::register_umem(socket.as_fd(), &memory, settings.chunk_bytes).map_err(refused)?;
        let region = Arc::new(Region::new(memory, settings.chunk_bytes, count));
        let stores = cut(&region, shares);
        let (first, bound, is_shared) = (Mutex::new(Some(socket)), Mutex::default(), OnceLock::new());
        let numbers = AtomicU32::default();
        Ok((Umem { first, bound, is_shared, numbers, region, settings }, stores))
    }

    /// How it was laid out.
    #[must_use]
    pub fn settings(&self) -> &UmemSettings {
        &self.settings
    }

    /// All chunks.
    pub(crate) fn chunks(&self) -> u32 {
        self.region.chunks()
    }

    /// Most bytes of a frame in one chunk.
    pub(crate) fn chunk_room(&self) -> u32 {
        self.region.room()
    }

    /// Numbers that no other sockets on this memory have.
    pub(crate) fn numbers(&self, count: u32) -> Lent {
        Lent { first: self.numbers.fetch_add(count, Ordering::Relaxed), count }
    }

    /// Whether it is known by now that devices share it.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared.get().is_some_and(|&shared| shared)
    }

    /// A socket to be given rings, and then bound.
    pub(crate) fn socket(&self) -> io::Result<OwnedFd> {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        first.map_or_else(sys::xdp_socket, Ok)
    }

    /// Binds what [`socket`](Self::socket) has given to a queue of a device.
    pub(crate) fn bind(&self, socket: &Arc<OwnedFd>, ifindex: u32, queue: u32) -> io::Result<()> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.retain(|other| other.strong_count() > 0);
        let joined = bound.iter().filter_map(Weak::upgrade).find_map(|other| {
            let named = Some(other.as_fd());
            match sys::bind_xdp(socket.as_fd(), ifindex, queue, BindFlags::XDP_SHARED_UMEM, named) {
                Err(error) if error.raw_os_error() == Some(libc::EBADF) => None, // its device is gone
                answer => Some(answer),
            }
        });
        joined.unwrap_or_else(|| self.bind_alone(socket, ifindex, queue))?;
        bound.push(Arc::downgrade(socket));
        Ok(())
    }

    /// Binds a socket that can name none that is bound.
    fn bind_alone(&self, socket: &OwnedFd, ifindex: u32, queue: u32) -> io::Result<()> {
        match sys::register_umem(socket.as_fd(), self.region.memory(), self.settings.chunk_bytes) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {} // the memory is registered with it
            registered => registered?,
        }
        sys::bind_xdp(socket.as_fd(), ifindex, queue, self.flags(), None)?;
        self.is_shared.get_or_init(|| sys::is_zero_copy(socket.as_fd()));
        Ok(())
    }

    /// What the first socket is bound with; the others take over what came of it, also where none of the first are left.
    fn flags(&self) -> BindFlags {
        let sharing = match self.is_shared.get().copied().or(self.settings.zero_copy) {
            None => BindFlags::empty(),
            Some(true) => BindFlags::XDP_ZEROCOPY,
            Some(false) => BindFlags::XDP_COPY,
        };
        let chains = if self.settings.multi_buffer { BindFlags::XDP_USE_SG } else { BindFlags::empty() };
        BindFlags::XDP_USE_NEED_WAKEUP | sharing | chains
    }
}

/// Entries of a ring, if the kernel takes that many.
pub(crate) fn checked_size(what: &'static str, size: u32) -> Result<u32, XdpError> {
    let allowed = "a power of two, 4 or more";
    if size >= 4 && size.is_power_of_two() {
        Ok(size)
    } else {
        Err(XdpError::Size { what, given: size, allowed })
    }
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

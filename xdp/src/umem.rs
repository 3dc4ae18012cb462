use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::net::xdp::SocketAddrXdpFlags as BindFlags;

use crate::driver;
use crate::error::{XdpError, forbidden};
use crate::layout::{Layout, ReceiveChunks};
use crate::mapping::Mapping;
use crate::sys;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    #[default]
    Auto,
    /// Zero copy only: the port is not opened without it.
    On,
    Off,
}

/// Numbers of entries of a socket's rings; each is a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    pub fill: u32,
    pub rx: u32,
    pub tx: u32,
    pub completion: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UmemSettings {
    pub(crate) chunks: Layout,
    pub(crate) multi_buffer: bool,
    pub(crate) zero_copy: ZeroCopy,
    pub(crate) rings: Rings,
}

/// Packet memory, which its first socket registers at the kernel; further sockets refer to the first. The kernel keeps the pages even after
/// an unmap.
#[derive(Debug)]
pub(crate) struct Umem {
    registered: Arc<OwnedFd>,
    is_taken: OnceLock<()>,
    settings: UmemSettings,
}

impl Umem {
    pub(crate) fn new(memory: &Mapping, settings: UmemSettings) -> Result<Umem, XdpError> {
        let Rings { fill, rx, tx, completion } = settings.rings;
        let sizes = [
            ("the size of the fill ring", fill),
            ("the size of the RX ring", rx),
            ("the size of the TX ring", tx),
            ("the size of the completion ring", completion),
        ];
        sizes.into_iter().try_for_each(|(what, size)| check_size(what, size))?;
        let (_, bytes) = memory.place();
        let refused = |source| XdpError::Memory { bytes, source };
        let socket = sys::xdp_socket().map_err(|error| match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => XdpError::NoAfXdp,
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
                forbidden("cannot open an AF_XDP socket", error)
            }
            _ => refused(error),
        })?;
        sys::register_umem(socket.as_fd(), memory, &settings.chunks).map_err(refused)?;
        Ok(Umem { registered: Arc::new(socket), is_taken: OnceLock::new(), settings })
    }

    pub(crate) fn settings(&self) -> &UmemSettings {
        &self.settings
    }

    pub(crate) fn socket(&self) -> io::Result<Arc<OwnedFd>> {
        match self.is_taken.set(()) {
            Ok(()) => Ok(Arc::clone(&self.registered)),
            Err(()) => sys::xdp_socket().map(Arc::new),
        }
    }

    pub(crate) fn bind(&self, socket: &Arc<OwnedFd>, ifindex: u32, queue: u32) -> io::Result<()> {
        if Arc::ptr_eq(socket, &self.registered) {
            return sys::bind_xdp(socket.as_fd(), ifindex, queue, self.flags(), None);
        }
        let named = Some(self.registered.as_fd());
        sys::bind_xdp(socket.as_fd(), ifindex, queue, BindFlags::XDP_SHARED_UMEM, named)
    }

    fn flags(&self) -> BindFlags {
        let sharing = match self.settings.zero_copy {
            ZeroCopy::Auto => BindFlags::empty(),
            ZeroCopy::On => BindFlags::XDP_ZEROCOPY,
            ZeroCopy::Off => BindFlags::XDP_COPY,
        };
        let chains = if self.settings.multi_buffer { BindFlags::XDP_USE_SG } else { BindFlags::empty() };
        BindFlags::XDP_USE_NEED_WAKEUP | sharing | chains
    }
}

/// Tests for small receive chunks by binding a socket to no device: a kernel without multi-buffer refuses the flag
/// (EINVAL) before it notices the missing device (ENODEV).
pub(crate) fn has_small_chunks() -> bool {
    let layout = Layout::new(2048, ReceiveChunks::Small, [1, 1]);
    let tried = || -> io::Result<()> {
        let memory =
            usize::try_from(layout.bytes()).map_err(io::Error::other).and_then(Mapping::anonymous)?;
        let socket = sys::xdp_socket()?;
        sys::register_umem(socket.as_fd(), &memory, &layout)?;
        sys::bind_xdp(socket.as_fd(), 0, 0, BindFlags::XDP_USE_SG, None)
    };
    match tried().map_err(|error| error.raw_os_error()) {
        Ok(()) | Err(Some(libc::ENODEV)) => true,
        // Without privileges the attempt fails before the kernel checks the flag, so decide by the kernel's version.
        Err(Some(libc::EPERM)) => driver::kernel_version().is_some_and(|version| version >= (6, 6)),
        Err(_) => false,
    }
}

fn check_size(what: &'static str, size: u32) -> Result<(), XdpError> {
    let is_taken = size >= 4 && size.is_power_of_two();
    is_taken.then_some(()).ok_or(XdpError::Size { what, given: size, allowed: "a power of two, 4 or more" })
}

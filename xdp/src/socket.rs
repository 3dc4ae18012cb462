//! AF_XDP sockets, opened by system calls (Documentation/networking/af_xdp.rst).

use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libc::xdp_desc;
use rustix::net::sockopt;
use rustix::net::xdp::XdpRingOffset;

use crate::error::{Obstacle, XdpError};
use crate::layout::Layout as Chunks;
use crate::mapping::Mapping;
use crate::ring::{CompletionRing, Descriptor, FillRing, Kick, RxRing, TxRing};
use crate::shared_ring::{Consumer, Producer, RingLayout};
use crate::sys;
use crate::umem::{Rings, Umem};

/// Maximum number of bind retries: a killed process's socket keeps its queue for a moment.
const BUSY_RETRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

pub struct Socket {
    pub rx: XskRx,
    pub fill: XskFill,
    pub tx: XskTx,
    pub completion: XskCompletion,
}

impl Socket {
    pub(crate) fn open(umem: &Umem, device: (&str, u32), queue: u32) -> Result<Socket, XdpError> {
        let (name, ifindex) = device;
        let refused = |source| XdpError::Device {
            fault: "cannot open an AF_XDP socket",
            device: name.to_owned(),
            source,
        };
        let fd = umem.socket().map_err(refused)?;
        let socket = Socket::with_rings(&fd, umem).map_err(refused)?;
        bind(umem, &fd, name, ifindex, queue)?;
        Ok(socket)
    }

    fn with_rings(fd: &Arc<OwnedFd>, umem: &Umem) -> io::Result<Socket> {
        let Rings { fill, rx, tx, completion } = umem.settings().rings;
        sockopt::set_xdp_umem_fill_ring_size(fd, fill)?;
        sockopt::set_xdp_umem_completion_ring_size(fd, completion)?;
        sockopt::set_xdp_rx_ring_size(fd, rx)?;
        sockopt::set_xdp_tx_ring_size(fd, tx)?;
        let at = sockopt::xdp_mmap_offsets(fd)?;
        let chunks = umem.settings().chunks;
        let (rx_memory, rx_layout) = map::<xdp_desc>(fd, libc::XDP_PGOFF_RX_RING, &at.rx, rx)?;
        let (tx_memory, tx_layout) = map::<xdp_desc>(fd, libc::XDP_PGOFF_TX_RING, &at.tx, tx)?;
        let (fill_memory, fill_layout) = map::<u64>(fd, FILL, &at.fr, fill)?;
        let (completion_memory, completion_layout) = map::<u64>(fd, COMPLETION, &at.cr, completion)?;
        Ok(Socket {
            rx: XskRx { ring: Consumer::new(rx_memory, rx_layout, rx), socket: Arc::clone(fd), chunks },
            fill: XskFill {
                ring: Producer::new(fill_memory, fill_layout, fill),
                socket: Arc::clone(fd),
                chunks,
            },
            tx: XskTx { ring: Producer::new(tx_memory, tx_layout, tx), socket: Arc::clone(fd), chunks },
            completion: XskCompletion {
                ring: Consumer::new(completion_memory, completion_layout, completion),
                chunks,
            },
        })
    }
}

const FILL: i64 = 0x1_0000_0000;
const COMPLETION: i64 = 0x1_8000_0000;
const _: () = assert!(
    FILL.cast_unsigned() == libc::XDP_UMEM_PGOFF_FILL_RING
        && COMPLETION.cast_unsigned() == libc::XDP_UMEM_PGOFF_COMPLETION_RING
);

fn map<T>(socket: &OwnedFd, offset: i64, at: &XdpRingOffset, size: u32) -> io::Result<(Mapping, RingLayout)> {
    let place = |offset: u64| usize::try_from(offset).map_err(io::Error::other);
    let layout = RingLayout {
        producer: place(at.producer)?,
        consumer: place(at.consumer)?,
        flags: place(at.flags.ok_or(io::ErrorKind::Unsupported)?)?, // the flag exists since Linux 5.4
        entries: place(at.desc)?,
    };
    let bytes = layout.entries + size as usize * mem::size_of::<T>();
    Ok((Mapping::of_socket(socket.as_fd(), offset, bytes)?, layout))
}

fn bind(umem: &Umem, socket: &Arc<OwnedFd>, name: &str, ifindex: u32, queue: u32) -> Result<(), XdpError> {
    for _ in 0..BUSY_RETRIES {
        match umem.bind(socket, ifindex, queue) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => thread::sleep(BUSY_PAUSE),
            bound => return bound.map_err(|error| refusal(error, name, umem.settings().multi_buffer)),
        }
    }
    Err(XdpError::QueueBusy { device: name.to_owned(), queue })
}

fn refusal(source: io::Error, device: &str, multi_buffer: bool) -> XdpError {
    let device = device.to_owned();
    match source.raw_os_error() {
        Some(libc::EOPNOTSUPP) => XdpError::NotZeroCopy { device, why: Obstacle::Driver },
        // The queue is known to exist, so EINVAL means that the kernel lacks XDP_USE_SG.
        Some(libc::EINVAL) if multi_buffer => XdpError::NoMultiBuffer { device },
        _ => XdpError::Device { fault: "cannot bind an AF_XDP socket", device, source },
    }
}

#[derive(Debug)]
pub struct XskRx {
    ring: Consumer<xdp_desc>,
    socket: Arc<OwnedFd>,
    chunks: Chunks,
}

impl AsFd for XskRx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl RxRing for XskRx {
    #[inline]
    fn available(&mut self) -> u32 {
        self.ring.available()
    }

    #[inline]
    fn peek(&self, n: u32) -> Descriptor {
        let from = self.ring.peek(n);
        let (chunk, offset) = self.chunks.received(from.addr);
        let in_place = offset == self.chunks.receive_offset();
        let len = if in_place { from.len } else { 0 };
        Descriptor { chunk, offset, len, more: from.options & libc::XDP_PKT_CONTD != 0 }
    }

    #[inline]
    fn release(&mut self, n: u32) {
        self.ring.release(n);
    }
}

#[derive(Debug)]
pub struct XskFill {
    ring: Producer<u64>,
    socket: Arc<OwnedFd>,
    chunks: Chunks,
}

impl FillRing for XskFill {
    #[inline]
    fn push(&mut self, chunk: u32) {
        self.ring.push(self.chunks.address(chunk));
    }

    #[inline]
    fn submit(&mut self) {
        if self.ring.publish() && self.ring.needs_wakeup() {
            sys::kick_rx(self.socket.as_fd());
        }
    }
}

#[derive(Debug)]
pub struct XskTx {
    ring: Producer<xdp_desc>,
    socket: Arc<OwnedFd>,
    chunks: Chunks,
}

impl TxRing for XskTx {
    #[inline]
    fn push(&mut self, Descriptor { chunk, offset, len, more }: Descriptor) {
        let options = if more { libc::XDP_PKT_CONTD } else { 0 };
        let addr = self.chunks.address(chunk) + u64::from(offset);
        self.ring.push(xdp_desc { addr, len, options });
    }

    #[inline]
    fn submit(&mut self) {
        self.ring.publish();
    }

    #[inline]
    fn unsent(&self) -> u32 {
        self.ring.unread()
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        self.ring.needs_wakeup()
    }

    #[inline]
    fn kick(&mut self) -> Kick {
        sys::kick_tx(self.socket.as_fd())
    }
}

#[derive(Debug)]
pub struct XskCompletion {
    ring: Consumer<u64>,
    chunks: Chunks,
}

impl CompletionRing for XskCompletion {
    #[inline]
    fn completed(&mut self, mut each: impl FnMut(u32)) -> u32 {
        let n = self.ring.available();
        (0..n).for_each(|at| each(self.chunks.transmitted(self.ring.peek(at))));
        self.ring.release(n);
        n
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::atomics::{AtomicU32, Ordering};
    use crate::layout::ReceiveChunks;

    #[test] // proves: frames
    fn fill_ring_refill_wakes_driver_only_if_it_waits() {
        let layout = RingLayout { producer: 0, consumer: 64, flags: 128, entries: 192 };
        let memory = Mapping::anonymous(256).unwrap();
        let flags = memory.at::<AtomicU32>(layout.flags, 1);
        let (message, socket) = UnixDatagram::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut fill = XskFill {
            ring: Producer::new(memory, layout, 4),
            socket: Arc::new(socket.try_clone().unwrap().into()),
            chunks: Chunks::new(2048, ReceiveChunks::Whole, [4, 1]),
        };
        let mut is_woken = |flag, chunks: u32| {
            // SAFETY: the flag is in memory that the ring keeps.
            unsafe { flags.as_ref() }.store(flag, Ordering::Relaxed);
            message.send(&[0]).unwrap();
            (0..chunks).for_each(|chunk| fill.push(chunk));
            fill.submit();
            socket.recv(&mut [0]).is_err()
        };
        assert!(!is_woken(0, 1), "a driver that polls by itself must not be woken");
        assert!(is_woken(libc::XDP_RING_NEED_WAKEUP, 1));
        assert!(!is_woken(libc::XDP_RING_NEED_WAKEUP, 0), "the driver must not be woken without new chunks");
        assert!(!is_woken(0, 1), "a driver that does not wait must not be woken");
    }

    #[test]
    fn bind_einval_means_no_multi_buffer_only_if_port_wants_it() {
        let refused =
            |errno, multi_buffer| refusal(io::Error::from_raw_os_error(errno), "eth1", multi_buffer);
        assert!(
            matches!(refused(libc::EINVAL, true), XdpError::NoMultiBuffer { device } if device == "eth1")
        );
        assert!(matches!(refused(libc::EINVAL, false), XdpError::Device { .. }));
        assert!(matches!(refused(libc::EOPNOTSUPP, true), XdpError::NotZeroCopy { .. }));
    }
}

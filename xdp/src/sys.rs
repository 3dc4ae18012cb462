//! System calls on sockets that no safe crate offers: kicks, AF_XDP's options, ethtool's requests.
//!
//! Each function is one call with arguments of the type that the kernel expects, and none keeps a
//! pointer beyond it.

use std::io;
use std::mem;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::mapping::Mapping;
use crate::ring::Kick;

/// XDP_MAX_TX_SKB_BUDGET (linux/if_xdp.h): most frames that one kick sends.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// PACKET_MR_PROMISC (linux/if_packet.h).
const PACKET_MR_PROMISC: libc::c_ushort = 1;

/// Makes the kernel send what is in the socket's TX ring.
#[inline]
pub(crate) fn kick_tx(socket: BorrowedFd<'_>) -> Kick {
    let socket = socket.as_raw_fd();
    // SAFETY: no memory is passed.
    let sent = unsafe { libc::sendto(socket, ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if sent >= 0 {
        return Kick::Done;
    }
    match io::Error::last_os_error().raw_os_error().unwrap_or(0) {
        libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR => Kick::Busy,
        libc::EBUSY => Kick::Dropped,
        libc::ENETDOWN => Kick::Down,
        libc::ENXIO => Kick::Gone,
        errno => Kick::Failed(errno),
    }
}

/// Tells the driver that the fill ring has entries again.
pub(crate) fn kick_rx(socket: BorrowedFd<'_>) {
    let socket = socket.as_raw_fd();
    // SAFETY: no memory is passed. The result says nothing that the next kick would not say.
    unsafe {
        libc::recvfrom(socket, ptr::null_mut(), 0, libc::MSG_DONTWAIT, ptr::null_mut(), ptr::null_mut());
    }
}

/// Whether the kernel has unbound the socket, as it does for good when its device goes.
pub(crate) fn is_unbound(socket: BorrowedFd<'_>) -> bool {
    let socket = socket.as_raw_fd();
    // SAFETY: no memory is passed.
    let received = unsafe {
        libc::recvfrom(socket, ptr::null_mut(), 0, libc::MSG_DONTWAIT, ptr::null_mut(), ptr::null_mut())
    };
    received < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO)
}

/// Lets one kick send `frames`, where the kernel knows the option (Linux 6.17); others send 32.
pub(crate) fn set_tx_budget(socket: BorrowedFd<'_>, frames: u32) {
    // Only a matter of speed: kicks are repeated until the ring is empty.
    let _ = set_xdp_option(socket, XDP_MAX_TX_SKB_BUDGET, &frames);
}

/// Whether the socket shares its memory with the device.
pub(crate) fn is_zero_copy(socket: BorrowedFd<'_>) -> bool {
    // struct xdp_options is one u32.
    let options = xdp_option(socket, libc::XDP_OPTIONS, 0_u32);
    options.is_ok_and(|options| options & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// What an AF_XDP socket has counted.
pub(crate) fn xdp_statistics(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_statistics> {
    let zeros = libc::xdp_statistics {
        rx_dropped: 0,
        rx_invalid_descs: 0,
        tx_invalid_descs: 0,
        rx_ring_full: 0,
        rx_fill_ring_empty_descs: 0,
        tx_ring_empty_descs: 0,
    };
    xdp_option(socket, libc::XDP_STATISTICS, zeros)
}

/// Where the parts of a socket's rings are, in each ring's memory.
pub(crate) fn ring_offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    let zeros = libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
    let zeros = libc::xdp_mmap_offsets { rx: zeros, tx: zeros, fr: zeros, cr: zeros };
    xdp_option(socket, libc::XDP_MMAP_OFFSETS, zeros)
}

/// An AF_XDP socket. EAFNOSUPPORT: the kernel does not know such.
pub(crate) fn xdp_socket() -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened above, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Tells a socket that packets are to be in `memory`, which consists of chunks of `chunk_bytes`. The
/// kernel holds the pages themselves from now on, not their addresses.
pub(crate) fn register_umem(socket: BorrowedFd<'_>, memory: &Mapping, chunk_bytes: u32) -> io::Result<()> {
    let (addr, len) = memory.place();
    set_xdp_option(
        socket,
        libc::XDP_UMEM_REG,
        &libc::xdp_umem_reg_v1 { addr, len, chunk_size: chunk_bytes, headroom: 0 },
    )
}

/// Binds a socket to a queue; `umem`: the bound socket that has the packet memory, if it is another.
pub(crate) fn bind_xdp(
    socket: BorrowedFd<'_>,
    ifindex: u32,
    queue: u32,
    flags: u16,
    umem: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: u16::try_from(libc::AF_XDP).expect("a small number"),
        sxdp_flags: flags,
        sxdp_ifindex: ifindex,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: umem.map_or(0, |umem| umem.as_raw_fd().cast_unsigned()),
    };
    // SAFETY: `address` is readable, and of the size given.
    let failed = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_xdp>())
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Keeps the interface promiscuous as long as the result lives: the kernel takes the membership away
/// with the socket, however the process ends.
pub(crate) fn promiscuous(ifindex: i32) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    let request =
        libc::packet_mreq { mr_ifindex: ifindex, mr_type: PACKET_MR_PROMISC, mr_alen: 0, mr_address: [0; 8] };
    set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)?;
    Ok(socket)
}

/// The size of a `T`, as socket options want it.
#[allow(clippy::cast_possible_truncation)] // a few bytes
const fn size_of<T>() -> libc::socklen_t {
    mem::size_of::<T>() as libc::socklen_t
}

/// Sets an option of an AF_XDP socket, one of the kernel's plain structs.
pub(crate) fn set_xdp_option<T: Copy>(socket: BorrowedFd<'_>, name: i32, value: &T) -> io::Result<()> {
    set_option(socket, libc::SOL_XDP, name, value)
}

fn set_option<T: Copy>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let (socket, value) = (socket.as_raw_fd(), ptr::from_ref(value).cast());
    // SAFETY: `value` is readable and of the size given.
    let failed = unsafe { libc::setsockopt(socket, level, name, value, size_of::<T>()) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An option of an AF_XDP socket, of a type that any bytes are a value of; what an older kernel does not know of it stays.
fn xdp_option<T: Copy>(socket: BorrowedFd<'_>, name: i32, mut value: T) -> io::Result<T> {
    let (socket, mut len) = (socket.as_raw_fd(), size_of::<T>());
    // SAFETY: `value` is writable, of the size given, and any bytes are a value of it: this function is
    // private, and called with integers and structs of such only.
    let failed =
        unsafe { libc::getsockopt(socket, libc::SOL_XDP, name, (&raw mut value).cast(), &raw mut len) };
    if failed == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// A request of ethtool's (linux/ethtool.h) that carries one number.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// struct ethtool_channels.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// ethtool's requests about one interface. The socket fixes the network namespace.
#[derive(Debug)]
pub(crate) struct Ethtool {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Ethtool {
    const GET_FLAGS: u32 = 0x25;
    const SET_FLAGS: u32 = 0x26;
    const GET_CHANNELS: u32 = 0x3c;
    /// ETHTOOL_STXCSUM.
    pub(crate) const SET_TX_CHECKSUM: u32 = 0x17;
    /// ETHTOOL_STSO.
    pub(crate) const SET_TSO: u32 = 0x1f;
    /// ETHTOOL_SGRO.
    pub(crate) const SET_GRO: u32 = 0x2c;
    /// ETH_FLAG_TXVLAN and ETH_FLAG_RXVLAN: tags beside the frame instead of in it.
    pub(crate) const VLAN_FLAGS: u32 = 1 << 7 | 1 << 8;

    pub(crate) fn new(device: &str) -> io::Result<Ethtool> {
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        let mut name = [0; libc::IFNAMSIZ];
        for (to, &from) in name[..libc::IFNAMSIZ - 1].iter_mut().zip(device.as_bytes()) {
            *to = from.cast_signed();
        }
        Ok(Ethtool { socket, name })
    }

    /// What a request without arguments answers; `None` where the driver does not know it.
    pub(crate) fn get(&self, command: u32) -> Option<u32> {
        let mut value = Value { command, data: 0 };
        self.request(&mut value).ok().map(|()| value.data)
    }

    /// A request with one argument.
    pub(crate) fn set(&self, command: u32, data: u32) -> io::Result<()> {
        self.request(&mut Value { command, data })
    }

    pub(crate) fn flags(&self) -> Option<u32> {
        self.get(Ethtool::GET_FLAGS)
    }

    pub(crate) fn set_flags(&self, flags: u32) -> io::Result<()> {
        self.set(Ethtool::SET_FLAGS, flags)
    }

    /// Receive queues in use; 1 where the driver does not say.
    pub(crate) fn rx_queues(&self) -> u32 {
        let mut channels = Channels { command: Ethtool::GET_CHANNELS, ..Channels::default() };
        match self.request(&mut channels) {
            Ok(()) => (channels.rx + channels.combined).max(1),
            Err(_) => 1,
        }
    }

    fn request<T>(&self, request: &mut T) -> io::Result<()> {
        let mut ifreq = libc::ifreq {
            ifr_name: self.name,
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: ptr::from_mut(request).cast() },
        };
        // SAFETY: SIOCETHTOOL reads and writes the ifreq and the request behind it; both are of the
        // kernel's layout for the command, and live until the call is over.
        let failed = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut ifreq) };
        if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

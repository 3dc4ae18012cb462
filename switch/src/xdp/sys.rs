//! System calls on sockets that no safe crate offers: kicks, AF_XDP's options, ethtool's requests.
//!
//! Each function is one call with arguments of the type that the kernel expects, and none keeps a
//! pointer beyond it.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::ring::Kick;

/// XDP_MAX_TX_SKB_BUDGET (linux/if_xdp.h): most frames that one kick sends.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// PACKET_MR_PROMISC (linux/if_packet.h).
const PACKET_MR_PROMISC: libc::c_ushort = 1;

/// Makes the kernel send what is in the socket's TX ring.
#[inline]
pub(super) fn kick_tx(socket: RawFd) -> Kick {
    // SAFETY: no memory is passed; a descriptor that is not a socket only gives an error.
    let sent = unsafe { libc::sendto(socket, ptr::null(), 0, libc::MSG_DONTWAIT, ptr::null(), 0) };
    if sent >= 0 {
        return Kick::Done;
    }
    match io::Error::last_os_error().raw_os_error().unwrap_or(0) {
        libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR => Kick::Busy,
        libc::EBUSY => Kick::Dropped,
        libc::ENETDOWN | libc::ENXIO => Kick::Down,
        errno => Kick::Failed(errno),
    }
}

/// Tells the driver that the fill ring has entries again.
pub(super) fn kick_rx(socket: RawFd) {
    // SAFETY: no memory is passed. The result says nothing that the next kick would not say.
    unsafe {
        libc::recvfrom(socket, ptr::null_mut(), 0, libc::MSG_DONTWAIT, ptr::null_mut(), ptr::null_mut());
    }
}

/// Lets one kick send `frames`, where the kernel knows the option (Linux 6.17); others send 32.
pub(super) fn set_tx_budget(socket: RawFd, frames: u32) {
    // Only a matter of speed: kicks are repeated until the ring is empty.
    let _ = set_option(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &frames);
}

/// Whether the socket shares its memory with the device.
pub(super) fn is_zero_copy(socket: RawFd) -> bool {
    let mut options: u32 = 0;
    let mut len = size_of::<u32>();
    // SAFETY: `options` is writable and of the size given; struct xdp_options is one u32.
    let failed = unsafe {
        libc::getsockopt(socket, libc::SOL_XDP, libc::XDP_OPTIONS, (&raw mut options).cast(), &raw mut len)
    };
    failed == 0 && options & libc::XDP_OPTIONS_ZEROCOPY != 0
}

/// What an AF_XDP socket has counted.
#[allow(clippy::cast_possible_truncation)] // a small struct
pub(super) fn xdp_statistics(socket: RawFd) -> io::Result<libc::xdp_statistics> {
    let mut statistics = libc::xdp_statistics {
        rx_dropped: 0,
        rx_invalid_descs: 0,
        tx_invalid_descs: 0,
        rx_ring_full: 0,
        rx_fill_ring_empty_descs: 0,
        tx_ring_empty_descs: 0,
    };
    let mut len = mem::size_of_val(&statistics) as libc::socklen_t;
    // SAFETY: `statistics` is writable, of the size given, and any bytes are a value of it.
    let failed = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_XDP,
            libc::XDP_STATISTICS,
            (&raw mut statistics).cast(),
            &raw mut len,
        )
    };
    if failed == 0 { Ok(statistics) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel knows AF_XDP at all.
pub(super) fn has_af_xdp() -> bool {
    // SAFETY: no memory is passed.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return io::Error::last_os_error().raw_os_error() != Some(libc::EAFNOSUPPORT);
    }
    // SAFETY: the descriptor was opened above and is used nowhere else.
    unsafe { libc::close(socket) };
    true
}

/// Keeps the interface promiscuous as long as the result lives: the kernel takes the membership away
/// with the socket, however the process ends.
pub(super) fn promiscuous(ifindex: i32) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    let request =
        libc::packet_mreq { mr_ifindex: ifindex, mr_type: PACKET_MR_PROMISC, mr_alen: 0, mr_address: [0; 8] };
    set_option(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)?;
    Ok(socket)
}

/// The size of a `T`, as socket options want it.
#[allow(clippy::cast_possible_truncation)] // a few bytes
const fn size_of<T>() -> libc::socklen_t {
    mem::size_of::<T>() as libc::socklen_t
}

fn set_option<T>(socket: RawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: `value` is readable and of the size given.
    let failed =
        unsafe { libc::setsockopt(socket, level, name, ptr::from_ref(value).cast(), size_of::<T>()) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
pub(super) struct Ethtool {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Ethtool {
    const GET_FLAGS: u32 = 0x25;
    const SET_FLAGS: u32 = 0x26;
    const GET_CHANNELS: u32 = 0x3c;
    /// ETHTOOL_GTXCSUM: checksums left to the device.
    pub(super) const TX_CHECKSUM: u32 = 0x16;
    /// ETHTOOL_GTSO: segmentation left to the device.
    pub(super) const TSO: u32 = 0x1e;
    /// ETHTOOL_GGSO: segmentation left to the kernel's last moment.
    pub(super) const GSO: u32 = 0x23;
    /// ETH_FLAG_TXVLAN and ETH_FLAG_RXVLAN: tags beside the frame instead of in it.
    pub(super) const VLAN_FLAGS: u32 = 1 << 7 | 1 << 8;

    pub(super) fn new(device: &str) -> io::Result<Ethtool> {
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        let mut name = [0; libc::IFNAMSIZ];
        for (to, &from) in name[..libc::IFNAMSIZ - 1].iter_mut().zip(device.as_bytes()) {
            *to = from.cast_signed();
        }
        Ok(Ethtool { socket, name })
    }

    /// What a request without arguments answers; `None` where the driver does not know it.
    pub(super) fn get(&self, command: u32) -> Option<u32> {
        let mut value = Value { command, data: 0 };
        self.request(&mut value).ok().map(|()| value.data)
    }

    pub(super) fn flags(&self) -> Option<u32> {
        self.get(Ethtool::GET_FLAGS)
    }

    pub(super) fn set_flags(&self, flags: u32) -> io::Result<()> {
        self.request(&mut Value { command: Ethtool::SET_FLAGS, data: flags })
    }

    /// Receive queues in use; 1 where the driver does not say.
    pub(super) fn rx_queues(&self) -> u32 {
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

/// The descriptor `raw` of a socket that the caller keeps open.
pub(super) fn borrow<T>(raw: RawFd, _keeper: &T) -> BorrowedFd<'_> {
    // SAFETY: the descriptor is that of a socket owned by `_keeper`, which the result borrows.
    unsafe { BorrowedFd::borrow_raw(raw) }
}

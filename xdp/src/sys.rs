//! System calls that no safe crate offers, and AF_XDP by rustix.
//!
//! No call keeps a pointer after its return.

use std::ffi::CStr;
use std::io;
use std::mem;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::Arc;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XdpOptionsFlags, XdpUmemReg,
};
use rustix::net::{self, RecvFlags, SendFlags, sockopt};
use xoff_wire::units::{BitRate, MacAddr};

use crate::driver::{FlowControl, ReceiveRing};
use crate::layout::Layout;
use crate::mapping::Mapping;
use crate::ring::Kick;

const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

const PACKET_MR_PROMISC: libc::c_ushort = 1;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const PACKET_MR_MULTICAST: libc::c_ushort = 0;

pub(crate) const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;

pub(crate) fn make_tap(file: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let mut ifr_name = [0; libc::IFNAMSIZ];
    for (into, &byte) in ifr_name.iter_mut().zip(name.to_bytes()).take(libc::IFNAMSIZ - 1) {
        *into = byte.cast_signed();
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL;
    #[allow(clippy::cast_possible_truncation)] // three bits of a short
    let mut ifreq = libc::ifreq {
        ifr_name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags as libc::c_short },
    };
    // SAFETY: TUNSETIFF reads and writes an ifreq, which lives until the call is over.
    let failed = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut ifreq) };
    if failed < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn set_carrier(tap: BorrowedFd<'_>, is_there: bool) -> io::Result<()> {
    let value = libc::c_int::from(is_there);
    // SAFETY: TUNSETCARRIER reads an int, which lives until the call is over.
    let failed = unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETCARRIER, &raw const value) };
    if failed < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[inline]
pub(crate) fn kick_tx(socket: BorrowedFd<'_>) -> Kick {
    match net::send(socket, &[], SendFlags::DONTWAIT) {
        Ok(_) => Kick::Done,
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => Kick::Busy,
        Err(Errno::BUSY) => Kick::Dropped,
        Err(Errno::NETDOWN) => Kick::Down,
        Err(Errno::NXIO) => Kick::Gone,
        Err(errno) => Kick::Failed(errno.raw_os_error()),
    }
}

pub(crate) fn kick_rx(socket: BorrowedFd<'_>) {
    let _ = net::recv(socket, &mut [0; 0], RecvFlags::DONTWAIT); // the next kick reports the same error again
}

pub(crate) fn is_unbound(socket: BorrowedFd<'_>) -> bool {
    net::recv(socket, &mut [0; 0], RecvFlags::DONTWAIT) == Err(Errno::NXIO)
}

/// Raises the number of frames that one kick (send system call) may send (Linux 6.17). Older kernels always send 32.
pub(crate) fn set_tx_budget(socket: BorrowedFd<'_>, frames: u32) {
    // Ignore an error, which costs only speed: kicks are repeated until the ring is empty.
    let _ = set_option(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &frames);
}

pub(crate) fn is_zero_copy(socket: BorrowedFd<'_>) -> bool {
    sockopt::xdp_options(socket).is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
}

pub(crate) fn xdp_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (net::AddressFamily::XDP, net::SocketType::RAW);
    Ok(net::socket_with(family, kind, net::SocketFlags::CLOEXEC, None)?)
}

pub(crate) fn register_umem(socket: BorrowedFd<'_>, memory: &Mapping, chunks: &Layout) -> io::Result<()> {
    let (addr, len) = memory.place();
    let (chunk_size, headroom, flags) = (chunks.chunk_bytes(), chunks.kernel_headroom(), chunks.flags());
    let memory = XdpUmemReg { addr, len, chunk_size, headroom, flags, tx_metadata_len: 0 };
    Ok(sockopt::set_xdp_umem_reg(socket, memory)?)
}

pub(crate) fn bind_xdp(
    socket: BorrowedFd<'_>,
    ifindex: u32,
    queue: u32,
    flags: SocketAddrXdpFlags,
    umem: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let addr = SocketAddrXdp::new(flags, ifindex, queue);
    Ok(match umem {
        Some(shared_umem_fd) => net::bind(socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd }),
        None => net::bind(socket, &addr),
    }?)
}

pub(crate) fn promiscuous(ifindex: i32) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    join(socket.as_fd(), ifindex, PACKET_MR_PROMISC, None)?;
    Ok(socket)
}

pub(crate) fn join_group(socket: BorrowedFd<'_>, ifindex: i32, group: MacAddr) -> io::Result<()> {
    join(socket, ifindex, PACKET_MR_MULTICAST, Some(group))
}

fn join(socket: BorrowedFd<'_>, ifindex: i32, kind: u16, group: Option<MacAddr>) -> io::Result<()> {
    let mut request =
        libc::packet_mreq { mr_ifindex: ifindex, mr_type: kind, mr_alen: 0, mr_address: [0; 8] };
    if let Some(MacAddr(octets)) = group {
        request.mr_alen = 6;
        request.mr_address[..6].copy_from_slice(&octets);
    }
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

pub(crate) fn run_in_real_time(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` is readable; 0 is the calling thread.
    let failed = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters)
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn packet_sender(ifindex: i32) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    bind_packet(socket.as_fd(), ifindex, 0)?; // EtherType 0: the socket receives nothing
    Ok(socket)
}

pub(crate) fn bind_packet(socket: BorrowedFd<'_>, ifindex: i32, ether_type: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: u16::try_from(libc::AF_PACKET).expect("a small number"),
        sll_protocol: ether_type.to_be(),
        sll_ifindex: ifindex,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: `address` is readable, and of the size given.
    let failed = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>())
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn receive_only(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)
}

pub(crate) fn missed(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let [_received, missed] = option(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, [0_u32; 2])?;
    Ok(missed)
}

#[allow(clippy::cast_possible_truncation)] // a few bytes
const fn size_of<T>() -> libc::socklen_t {
    mem::size_of::<T>() as libc::socklen_t
}

fn set_option<T: Copy>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let (socket, value) = (socket.as_raw_fd(), ptr::from_ref(value).cast());
    // SAFETY: `value` is readable and of the size given.
    let failed = unsafe { libc::setsockopt(socket, level, name, value, size_of::<T>()) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn option<T: Copy>(socket: BorrowedFd<'_>, level: i32, name: i32, mut value: T) -> io::Result<T> {
    let (socket, mut len) = (socket.as_raw_fd(), size_of::<T>());
    // SAFETY: `value` is writable and of the size given. Any bytes are a valid value, because callers pass only
    // integers and structs of integers.
    let failed = unsafe { libc::getsockopt(socket, level, name, (&raw mut value).cast(), &raw mut len) };
    if failed == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Returns a number that identifies the network namespace until the next boot; 0 if the kernel gives none.
pub(crate) fn namespace_cookie() -> u64 {
    const SO_NETNS_COOKIE: i32 = 71;
    let socket = std::os::unix::net::UnixDatagram::unbound();
    let cookie = socket.and_then(|socket| option(socket.as_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, 0));
    cookie.unwrap_or(0)
}

#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

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

pub(crate) const FEATURE_WORDS: usize = 4;

/// `struct ethtool_gfeatures`. Each block has four words for 32 features: available, requested, active, never changed.
#[repr(C)]
struct GetFeatures {
    command: u32,
    size: u32,
    blocks: [[u32; 4]; FEATURE_WORDS],
}

/// `struct ethtool_sfeatures`. Each block has two words for 32 features: valid, requested.
#[repr(C)]
struct SetFeatures {
    command: u32,
    size: u32,
    blocks: [[u32; 2]; FEATURE_WORDS],
}

#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

#[repr(C)]
#[derive(Default)]
struct RingParameters {
    command: u32,
    rx_max: u32,
    other_max: [u32; 3],
    rx: u32,
    other: [u32; 3],
}

#[repr(C)]
#[derive(Default)]
struct Pause {
    command: u32,
    autonegotiated: u32,
    rx: u32,
    tx: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkSettings {
    command: u32,
    modes: [u32; 2],
    speed_low: u16,
    ports: [u8; 6],
    packets: [u32; 2],
    speed_high: u16,
    crossing: [u8; 2],
    rest: [u32; 3],
}

fn name_of(device: &str) -> [libc::c_char; libc::IFNAMSIZ] {
    let mut name = [0; libc::IFNAMSIZ];
    for (to, &from) in name[..libc::IFNAMSIZ - 1].iter_mut().zip(device.as_bytes()) {
        *to = from.cast_signed();
    }
    name
}

#[derive(Debug)]
pub(crate) struct Ethtool {
    socket: Arc<OwnedFd>,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Ethtool {
    const GET_LINK_SETTINGS: u32 = 0x01;
    const GET_DRIVER_INFO: u32 = 0x03;
    const GET_FLAGS: u32 = 0x25;
    const SET_FLAGS: u32 = 0x26;
    const GET_CHANNELS: u32 = 0x3c;
    const GET_FEATURES: u32 = 0x3a;
    const SET_FEATURES: u32 = 0x3b;
    pub(crate) const SET_TX_CHECKSUM: u32 = 0x17;
    pub(crate) const SET_TSO: u32 = 0x1f;
    pub(crate) const SET_GSO: u32 = 0x24;
    pub(crate) const SET_GRO: u32 = 0x2c;
    /// Flag ETH_FLAG_RXVLAN, with which the driver removes VLAN tags from received frames.
    pub(crate) const RX_VLAN_FLAG: u32 = 1 << 8;
    pub(crate) const VLAN_FLAGS: u32 = 1 << 7 | Ethtool::RX_VLAN_FLAG;
    const GET_RINGS: u32 = 0x10;
    const GET_FLOW_CONTROL: u32 = 0x12;

    pub(crate) fn new(device: &str) -> io::Result<Ethtool> {
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        Ok(Ethtool { socket: Arc::new(socket), name: name_of(device) })
    }

    pub(crate) fn about(&self, device: &str) -> Ethtool {
        Ethtool { socket: Arc::clone(&self.socket), name: name_of(device) }
    }

    pub(crate) fn get(&self, command: u32) -> Option<u32> {
        let mut value = Value { command, data: 0 };
        self.request(&mut value).ok().map(|()| value.data)
    }

    pub(crate) const fn get_of(set: u32) -> u32 {
        set - 1
    }

    pub(crate) fn set(&self, command: u32, data: u32) -> io::Result<()> {
        self.request(&mut Value { command, data })
    }

    pub(crate) fn set_if_supported(&self, command: u32, data: u32) -> io::Result<()> {
        match self.set(command, data) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
            result => result,
        }
    }

    pub(crate) fn driver(&self) -> io::Result<String> {
        let mut info = DriverInfo { command: Ethtool::GET_DRIVER_INFO, driver: [0; 32], rest: [0; 160] };
        self.request(&mut info)?;
        let name = info.driver.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    pub(crate) fn features(&self) -> io::Result<Vec<[u32; 2]>> {
        let size = u32::try_from(FEATURE_WORDS).expect("a small number");
        let mut features =
            GetFeatures { command: Ethtool::GET_FEATURES, size, blocks: [[0; 4]; FEATURE_WORDS] };
        self.request(&mut features)?;
        let size = usize::try_from(features.size).unwrap_or(FEATURE_WORDS).min(FEATURE_WORDS);
        let choice = |&[available, requested, _, fixed]: &[u32; 4]| [available & !fixed, requested];
        Ok(features.blocks[..size].iter().map(choice).collect())
    }

    pub(crate) fn set_features(&self, features: &[[u32; 2]]) -> io::Result<()> {
        let size = u32::try_from(features.len()).unwrap_or(0);
        let mut request =
            SetFeatures { command: Ethtool::SET_FEATURES, size, blocks: [[0; 2]; FEATURE_WORDS] };
        for (block, &[valid, requested]) in request.blocks.iter_mut().zip(features) {
            *block = [valid, requested & valid];
        }
        self.request(&mut request)
    }

    pub(crate) fn flags(&self) -> Option<u32> {
        self.get(Ethtool::GET_FLAGS)
    }

    pub(crate) fn set_flags(&self, flags: u32) -> io::Result<()> {
        self.set(Ethtool::SET_FLAGS, flags)
    }

    pub(crate) fn rx_queues(&self) -> u32 {
        self.reported_rx_queues().unwrap_or(1)
    }

    pub(crate) fn reported_rx_queues(&self) -> Option<u32> {
        let mut channels = Channels { command: Ethtool::GET_CHANNELS, ..Channels::default() };
        self.request(&mut channels).ok().map(|()| (channels.rx + channels.combined).max(1))
    }

    pub(crate) fn receive_ring(&self) -> Option<ReceiveRing> {
        let mut rings = RingParameters { command: Ethtool::GET_RINGS, ..RingParameters::default() };
        self.request(&mut rings).ok().map(|()| ReceiveRing { entries: rings.rx, max: rings.rx_max })
    }

    pub(crate) fn flow_control(&self) -> Option<FlowControl> {
        let mut pause = Pause { command: Ethtool::GET_FLOW_CONTROL, ..Pause::default() };
        self.request(&mut pause).ok().map(|()| FlowControl { rx: pause.rx != 0, tx: pause.tx != 0 })
    }

    pub(crate) fn speed(&self) -> io::Result<Option<BitRate>> {
        let mut link = LinkSettings { command: Ethtool::GET_LINK_SETTINGS, ..LinkSettings::default() };
        match self.request(&mut link) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
            result => result?,
        }
        let megabits = u32::from(link.speed_high) << 16 | u32::from(link.speed_low);
        Ok(BitRate::new(u64::from(megabits) * 1_000_000).filter(|_| megabits != u32::MAX))
    }

    fn request<T>(&self, request: &mut T) -> io::Result<()> {
        let mut ifreq = libc::ifreq {
            ifr_name: self.name,
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: ptr::from_mut(request).cast() },
        };
        // SAFETY: SIOCETHTOOL reads and writes the ifreq and its request. Both have the kernel's layout for the
        // command, and live until the call is over.
        let failed = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut ifreq) };
        // A positive result is a success with additional information.
        if failed >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

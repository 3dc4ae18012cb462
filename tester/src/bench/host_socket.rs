//! A program behind the NIC under test: a UDP socket of this machine, which reads only when the case permits. The socket reads limited
//! broadcasts, so the NIC's interface needs no address.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use nix::sys::socket::{setsockopt, sockopt};
use xoff_host::payload::{STAMP_LEN, read_stamp};
use xoff_wire::units::Nanos;
use xoff_xdp::clock::now;

use super::records::{Arrival, StreamId};
use super::stream::is_intact;
use super::{Bench, Moment, Void};

/// Bytes that the socket may queue: more than the unread data above which `xoff nic --pause-above` usually pauses.
const BUFFER: usize = 8 << 20;
const BATCH: usize = 256;
const HEADERS: usize = 14 + 20 + 8;

#[derive(Debug)]
pub(super) struct HostSocket {
    socket: UdpSocket,
    udp_port: u16,
    pub port: usize,
    reads: bool,
    polled: Nanos,
}

impl HostSocket {
    fn open(device: &str, port: usize) -> io::Result<HostSocket> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        setsockopt(&socket, sockopt::BindToDevice, &OsString::from(device))?;
        setsockopt(&socket, sockopt::RcvBufForce, &BUFFER)?;
        socket.set_nonblocking(true)?;
        let udp_port = socket.local_addr()?.port();
        Ok(HostSocket { socket, udp_port, port, reads: false, polled: now() })
    }

    /// Reads datagrams of streams, if [`Bench::read_host_socket`] was called. Calls `note` with each and its sending time.
    pub(super) fn receive(&mut self, epoch: u16, mut note: impl FnMut(&Arrival, Nanos)) {
        let earliest = self.polled;
        self.polled = now();
        let mut bytes = [0; 2_048];
        for _ in 0..if self.reads { BATCH } else { 0 } {
            let Ok(len) = self.socket.recv(&mut bytes) else { return };
            let when = Moment { earliest, latest: now() };
            if let Some((arrival, sent_at)) = arrival(&bytes[..len], epoch, when) {
                note(&arrival, sent_at);
            }
        }
    }
}

fn arrival(bytes: &[u8], epoch: u16, when: Moment) -> Option<(Arrival, Nanos)> {
    let stamp = read_stamp(bytes).filter(|stamp| stamp.sender == epoch)?;
    let arrival = Arrival {
        when,
        stream: StreamId(stamp.stream),
        sequence: stamp.sequence,
        class: stamp.class,
        tag: None,
        dscp: 0,
        ecn: 0,
        len: u32::try_from(bytes.len() + HEADERS).unwrap_or(u32::MAX),
        is_intact: is_intact(stamp.sequence, STAMP_LEN, bytes),
    };
    Some((arrival, stamp.sent))
}

impl Bench {
    /// Opens a socket of this machine behind the NIC of test port `port`, and returns its UDP port. The socket reads nothing until
    /// [`Bench::read_host_socket`].
    ///
    /// # Errors
    ///
    /// If the kernel refuses the socket: the case is then not possible.
    pub fn host_socket(&mut self, port: usize) -> Result<u16, Void> {
        if self.socket.is_none() {
            let device = &self.ports[port].settings.device;
            let socket = HostSocket::open(device, port).map_err(|error| {
                Void::NotPossible(format!("the kernel refuses a UDP socket at {device}: {error}"))
            })?;
            self.socket = Some(socket);
        }
        let socket = self.socket.as_mut().expect("the socket was opened");
        socket.reads = false;
        Ok(socket.udp_port)
    }

    pub fn read_host_socket(&mut self) -> Moment {
        self.socket.iter_mut().for_each(|socket| socket.reads = true);
        Moment { earliest: now(), latest: now() }
    }
}

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use socket2::{Domain, Socket, Type};
use xoff_lab::{Device, Lab, Namespace, VethOptions};
use xoff_nic::NicWishes;
use xoff_nic::egress::{Egress, EgressError, EgressSettings, LeafCounts};
use xoff_wire::units::{BitRate, Class};

const PATIENCE: Duration = Duration::from_secs(20);

pub const LOSSLESS: Class = Class::ALL[3];
/// Lossy class of the tests. It is not class 0, which the kernel's own frames (IPv6 multicast reports) use.
pub const LOSSY: Class = Class::ALL[1];
pub const DSCP_LOSSLESS: u8 = 24;
pub const DSCP_LOSSY: u8 = 8;

const PORT: u16 = 7000;

pub fn install(settings: &EgressSettings) -> Result<Egress, EgressError> {
    Egress::prepare(settings)?.install(settings)
}

pub const DEVICE: &str = "nic0";

pub fn nic(device: &str) -> u32 {
    nix::net::if_::if_nametoindex(device).unwrap()
}

pub struct Bed {
    _lab: Lab,
    pub host: Device,
    pub peer: Device,
}

impl Bed {
    pub fn new() -> Bed {
        let mut lab = Lab::new();
        let (a, b) = (lab.namespace("host").unwrap(), lab.namespace("peer").unwrap());
        let near = a.end(DEVICE).address([10, 0, 0, 1], 24).address(v6(1), 64);
        let far = b.end(DEVICE).address([10, 0, 0, 2], 24).address(v6(2), 64);
        let (host, peer) = lab.veth(near, far, &VethOptions::default()).unwrap();
        host.finish_frames().unwrap();
        peer.finish_frames().unwrap(); // enables GRO, so that frames arrive in order whichever CPU sends
        for (device, other, number) in [(&host, &peer, 2), (&peer, &host, 1)] {
            device.add_neighbour(IpAddr::from([10, 0, 0, number]), other.mac()).unwrap();
            device.add_neighbour(v6(number.into()).into(), other.mac()).unwrap();
        }
        for device in [&host, &peer] {
            wait_for("the carrier of the link", || {
                Bed::description_in(device.namespace()).contains(" state UP ").then_some(())
            });
        }
        Bed { _lab: lab, host, peer }
    }

    pub fn namespace(&self) -> &Namespace {
        self.host.namespace()
    }

    pub fn install(&self, settings: &EgressSettings) -> Egress {
        self.namespace().run(|| install(settings)).unwrap()
    }

    pub fn description(&self) -> String {
        Bed::description_in(self.namespace())
    }

    pub fn description_in(namespace: &Namespace) -> String {
        let show = |program: &str, words: &str| {
            let output = namespace.output(Command::new(program).args(words.split(' '))).unwrap();
            format!("{program} {words}\n{}", String::from_utf8(output.stdout).unwrap())
        };
        [
            show("tc", "-d qdisc show dev nic0"),
            show("tc", "class show dev nic0"),
            show("tc", "filter show dev nic0"),
            show("ethtool", "-k nic0"),
            show("ip", "-d link show dev nic0"),
            show("cat", "/proc/sys/net/ipv4/neigh/nic0/unres_qlen_bytes"),
            show("cat", "/proc/sys/net/ipv6/neigh/nic0/unres_qlen_bytes"),
        ]
        .concat()
    }

    pub fn run(&self, program: &str, words: &str) {
        let output = self.namespace().output(Command::new(program).args(words.split(' '))).unwrap();
        assert!(output.status.success(), "{program} {words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn send(&self, dscp: u8, to: IpAddr, count: usize) -> Sender {
        let socket = self.namespace().run(|| {
            let domain = Domain::for_address(SocketAddr::new(to, PORT));
            let socket = Socket::new(domain, Type::DGRAM, None).unwrap();
            let traffic_class = u32::from(dscp) << 2;
            if to.is_ipv6() { socket.set_tclass_v6(traffic_class) } else { socket.set_tos_v4(traffic_class) }
                .unwrap();
            socket.connect(&SocketAddr::new(to, port_of(dscp)).into()).unwrap();
            UdpSocket::from(socket)
        });
        let sent = Arc::new(AtomicUsize::new(0));
        let (task_sender, task_receiver) = mpsc::channel();
        let counter = Arc::clone(&sent);
        let thread = thread::spawn(move || {
            task_sender.send(nix::unistd::gettid()).unwrap();
            for number in 0..count {
                let mut datagram = [0; DATAGRAM];
                datagram[..8].copy_from_slice(&number.to_be_bytes());
                socket.send(&datagram).unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
            }
        });
        Sender { sent, task: task_receiver.recv().unwrap().as_raw(), thread }
    }

    pub fn receive(&self, dscp: u8, at: IpAddr) -> UdpSocket {
        self.peer.namespace().run(|| {
            let domain = Domain::for_address(SocketAddr::new(at, PORT));
            let socket = Socket::new(domain, Type::DGRAM, None).unwrap();
            setsockopt(&socket, RcvBufForce, &(64 << 20)).unwrap(); // works beyond the limit net.core.rmem_max
            socket.bind(&SocketAddr::new(at, port_of(dscp)).into()).unwrap();
            UdpSocket::from(socket)
        })
    }
}

/// Bytes of payload in a datagram that makes a frame of [`FRAME`] bytes over IPv4.
pub const DATAGRAM: usize = 1000;
pub const FRAME: u64 = DATAGRAM as u64 + 8 + 20 + 14;

fn port_of(dscp: u8) -> u16 {
    PORT + u16::from(dscp)
}

pub fn peer_ipv4() -> IpAddr {
    [10, 0, 0, 2].into()
}

pub fn peer_ipv6() -> IpAddr {
    v6(2).into()
}

fn v6(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host)
}

pub fn settings() -> EgressSettings {
    settings_at(BitRate::from_mbps(200))
}

pub fn settings_at(speed: BitRate) -> EgressSettings {
    let wishes = NicWishes { device: Some(DEVICE.into()), speed: Some(speed), ..NicWishes::default() };
    EgressSettings::new(wishes.settings().unwrap())
}

pub struct Sender {
    sent: Arc<AtomicUsize>,
    task: i32,
    thread: JoinHandle<()>,
}

impl Sender {
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    pub fn await_sleep(&self) {
        wait_for("the sender's sleep in sendto", || {
            let call = fs::read_to_string(format!("/proc/self/task/{}/syscall", self.task)).ok()?;
            let number = call.split(' ').next()?.parse::<i64>().ok()?;
            (number == nix::libc::SYS_sendto).then_some(())
        });
    }

    pub fn join(self) {
        self.thread.join().unwrap();
    }
}

pub fn received(socket: &UdpSocket, count: usize) -> Vec<usize> {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut datagram = [0; DATAGRAM];
    let mut next = || {
        socket.recv(&mut datagram).unwrap();
        usize::from_be_bytes(*datagram.first_chunk().unwrap())
    };
    (0..count).map(|_| next()).collect()
}

pub fn nothing(socket: &UdpSocket) {
    socket.set_nonblocking(true).unwrap();
    assert_eq!(socket.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    socket.set_nonblocking(false).unwrap();
}

pub fn of(counts: [LeafCounts; 8], class: Class) -> LeafCounts {
    counts[class.index()]
}

pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "no success within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

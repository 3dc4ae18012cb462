//! The AF_XDP layer against the kernel: real frames over real veth pairs. Needs root.

#![allow(clippy::unwrap_used)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use xoff::lab::{Device, Lab, Namespace, VethOptions};
use xoff::xdp::{Port, Share, Store, Umem, UmemSettings};
use xoff_config::shell::{Mode, PortShell, Queues, Rings, ZeroCopy};
use xoff_dataplane::frame::{Frame, FrameStore};

const RING: u32 = 256;
const CHUNKS: u32 = 4 * RING;
const SHARE: Share = Share { chunks: CHUNKS, control: 8 };

fn umem_settings() -> UmemSettings {
    UmemSettings {
        chunk_bytes: 2048,
        multi_buffer: false,
        zero_copy: ZeroCopy::Auto,
        fill: RING,
        completion: RING,
    }
}

fn shell(device: &str) -> PortShell {
    PortShell {
        device: device.to_owned(),
        queues: Queues::All,
        mode: Mode::Auto,
        zero_copy: ZeroCopy::Auto,
        rings: Rings { fill: RING, rx: RING, tx: RING, completion: RING },
    }
}

/// A namespace "switch" with p0 and p1, each wired to a host of its own, and ports on both.
struct Bench {
    lab: Lab,
    switch: Namespace,
    hosts: [Host; 2],
    store: Store,
    ports: [Port; 2],
}

/// The far end of a wire, seen by a packet socket.
struct Host {
    device: Device,
    socket: OwnedFd,
}

impl Host {
    fn new(device: Device) -> Host {
        let socket = device.namespace().run(|| {
            let (family, flags) = (AddressFamily::Packet, SockFlag::SOCK_CLOEXEC);
            let socket = socket(family, SockType::Raw, flags, SockProtocol::EthAll).unwrap();
            let address = getifaddrs()
                .unwrap()
                .filter(|found| found.interface_name == device.name())
                .find_map(|found| found.address.and_then(|address| address.as_link_addr().copied()))
                .unwrap();
            bind(socket.as_raw_fd(), &address).unwrap();
            setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(5, 0)).unwrap();
            socket
        });
        Host { device, socket }
    }

    fn send(&self, frame: &[u8]) {
        assert_eq!(send(self.socket.as_raw_fd(), frame, MsgFlags::empty()).unwrap(), frame.len());
    }

    fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 10_000];
        let len = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).expect("a frame within 5 s");
        buffer.truncate(len);
        buffer
    }
}

impl Bench {
    fn new(options: &VethOptions, umem: UmemSettings, change: fn(&mut PortShell)) -> Bench {
        let mut lab = Lab::new();
        let switch = lab.namespace("switch").unwrap();
        let hosts = [("p0", "h0"), ("p1", "h1")].map(|(port, name)| {
            let namespace = lab.namespace(name).unwrap();
            let (_, far) = lab.veth(switch.end(port), namespace.end("eth0"), options).unwrap();
            Host::new(far)
        });
        let (store, ports) = switch.run(|| {
            let (umem, mut stores) = Umem::new(umem, &[SHARE]).unwrap();
            let mut store = stores.remove(0);
            let ports = ["p0", "p1"].map(|device| {
                let mut shell = shell(device);
                change(&mut shell);
                Port::open(&umem, &mut store, &shell).unwrap()
            });
            (store, ports)
        });
        Bench { lab, switch, hosts, store, ports }
    }

    /// Forwards between the two ports until `frames` have been received, and all of them sent.
    fn forward(&mut self, frames: usize) {
        self.forward_changed(frames, |_, _| {});
    }

    fn forward_changed(&mut self, frames: usize, change: impl Fn(&mut Store, &mut Frame)) {
        let mut batch = Vec::with_capacity(64);
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut forwarded = 0;
        while forwarded < frames || self.ports.iter().any(Port::in_flight) {
            assert!(Instant::now() < deadline, "forwarded {forwarded} of {frames}");
            for (from, to) in [(0, 1), (1, 0)] {
                self.ports[from].refill(&mut self.store);
                self.ports[from].receive(&mut self.store, &mut batch, 32);
                forwarded += batch.len();
                for mut frame in batch.drain(..) {
                    change(&mut self.store, &mut frame);
                    self.ports[to].send(&self.store, frame).expect("a ring with room for all");
                }
                self.ports[to].flush();
                self.ports[to].reap(&mut self.store, |store, frame| store.free(frame));
            }
        }
    }

    /// Nothing was lost anywhere, and every chunk is where it was at first.
    fn assert_clean(&mut self) {
        self.ports.iter_mut().for_each(|port| port.refill(&mut self.store));
        let out = CHUNKS - self.store.free_chunks();
        assert!(out <= 2 * RING && out > 2 * (RING - 64), "{out} chunks are out");
        for port in &self.ports {
            let statistics = port.statistics();
            assert_eq!(statistics.lost(), 0, "{statistics:?}");
            assert_eq!(port.failed_kicks().0, 0);
        }
        for device in self.lab.devices() {
            let counters = device.counters().unwrap();
            assert_eq!((counters.rx_dropped, counters.tx_dropped), (0, 0), "{}", device.name());
        }
    }
}

fn frame(number: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend((frame.len()..len).map(|at| number ^ u8::try_from(at % 251).unwrap()));
    frame
}

#[test]
fn frames_cross_two_ports_unchanged_and_in_order() {
    let mut bench = Bench::new(&VethOptions::default(), umem_settings(), |_| {});
    let sent: Vec<Vec<u8>> =
        [60, 61, 512, 1514].iter().cycle().take(17).zip(0..).map(|(&len, n)| frame(n, len)).collect();
    for (from, to) in [(0, 1), (1, 0)] {
        sent.iter().for_each(|frame| bench.hosts[from].send(frame));
        bench.forward(sent.len());
        for frame in &sent {
            assert_eq!(&bench.hosts[to].receive(), frame);
        }
    }
    bench.assert_clean();
}

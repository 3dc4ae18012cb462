use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;
use xoff_lab::{Device, Lab, Namespace, VethOptions};
use xoff_nic::serve::{NicClassStatus, NicStatus};
use xoff_wire::units::MacAddr;

use crate::host::dies_with_us;
use crate::{Host, PATIENCE, wait_for};

/// Host under test (10.0.0.1), connected to its peer (10.0.0.2). Both devices are named eth0.
pub struct Wire {
    binary: PathBuf,
    namespace: Namespace,
    device: Device,
    peer: Host,
    lab: Lab,
}

impl Wire {
    #[must_use]
    pub fn build(binary: impl AsRef<Path>) -> Wire {
        let mut lab = Lab::new();
        let [here, there] = ["host", "peer"].map(|name| lab.namespace(name).unwrap());
        let a = here.end("eth0").mac(Host::mac_of(1)).address([10, 0, 0, 1], 24);
        let b = there.end("eth0").mac(Host::mac_of(2)).address([10, 0, 0, 2], 24);
        let (device, peer) = lab.veth(a, b, &VethOptions::default()).unwrap();
        device.add_neighbour(Ipv4Addr::new(10, 0, 0, 2).into(), Host::mac_of(2)).unwrap();
        peer.add_neighbour(Ipv4Addr::new(10, 0, 0, 1).into(), Host::mac_of(1)).unwrap();
        let peer = Host::new(2, peer);
        Wire { binary: binary.as_ref().to_owned(), namespace: here, device, peer, lab }
    }

    #[must_use]
    pub fn peer(&self) -> &Host {
        &self.peer
    }

    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    #[must_use]
    pub fn mac(&self) -> MacAddr {
        self.device.mac()
    }

    #[must_use]
    pub fn run(&self, program: impl AsRef<Path>, args: &str) -> (String, ExitStatus) {
        let mut command = Command::new(program.as_ref());
        let output = self.namespace.output(command.args(args.split_whitespace())).unwrap();
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8_lossy(&text).into_owned(), output.status)
    }

    #[must_use]
    pub fn state(&self) -> String {
        self.run("tc", "qdisc show dev eth0").0 + &self.run("ethtool", "-k eth0").0
    }

    /// Starts `xoff nic --device eth0`, without waiting until it is ready.
    #[must_use]
    pub fn launch(&self, args: &str) -> Agent {
        let directory = TempDir::new().unwrap();
        let mut command = dies_with_us(self.binary.to_str().unwrap());
        command.args(["nic", "--device", "eth0"]).args(args.split_whitespace()).stdin(Stdio::null());
        let stderr = fs::File::create(directory.path().join("stderr")).unwrap();
        let child = self.namespace.spawn({
            command.stdout(Stdio::null()).stderr(stderr);
            command
        });
        Agent { namespace: self.namespace.clone(), child: child.unwrap(), directory }
    }

    #[must_use]
    pub fn start(&self, args: &str) -> Agent {
        let mut agent = self.launch(args);
        wait_for("readiness of the agent", || {
            if let Some(status) = agent.child.try_wait().unwrap() {
                panic!("the agent ended during its start with {status}:\n{}", agent.stderr());
            }
            agent.get("/healthz").map(drop)
        });
        agent
    }

    /// Sends `count` datagrams of 1000 bytes, numbered from 0. The socket's send buffer holds only a few of them.
    #[must_use]
    pub fn send(&self, port: u16, dscp: u8, count: u32) -> DatagramSender {
        let sent = Arc::new(AtomicU32::new(0));
        let progress = Arc::clone(&sent);
        let thread = self.namespace.spawn_thread(move || {
            let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
            socket.set_send_buffer_size(16_384).unwrap();
            socket.set_tos_v4(u32::from(dscp) << 2).unwrap();
            let to = SocketAddr::from(([10, 0, 0, 2], port)).into();
            for number in 0..count {
                let mut datagram = [0; 1_000];
                datagram[..4].copy_from_slice(&number.to_be_bytes());
                socket.send_to(&datagram, &to).unwrap();
                progress.store(number + 1, Relaxed);
            }
        });
        DatagramSender { sent, thread }
    }

    #[must_use]
    pub fn arrived(&self, port: u16) -> Vec<u32> {
        let frames = self.peer.tap().matching(|frame| is_datagram_to(frame, port));
        frames.iter().map(|frame| u32::from_be_bytes(frame.bytes[42..46].try_into().unwrap())).collect()
    }

    pub fn await_arrival(&self, port: u16, count: u32) -> Vec<u32> {
        wait_for(&format!("{count} datagrams"), || {
            let arrived = self.arrived(port);
            (arrived.len() >= count as usize).then_some(arrived)
        })
    }

    /// Opens a UDP port at the peer, so that datagrams cause no ICMP error.
    #[must_use]
    pub fn listen(&self, port: u16) -> UdpSocket {
        self.peer.namespace().run(|| UdpSocket::bind(("0.0.0.0", port)).unwrap())
    }

    pub fn assert_nothing_dropped(&self) {
        for device in self.lab.devices() {
            let counters = device.counters().unwrap();
            assert_eq!(counters.tx_dropped, 0, "{}: {counters:?}", device.namespace().name());
        }
    }
}

fn is_datagram_to(frame: &[u8], port: u16) -> bool {
    frame.len() >= 46 && frame[12..14] == [8, 0] && frame[23] == 17 && frame[36..38] == port.to_be_bytes()
}

pub struct DatagramSender {
    sent: Arc<AtomicU32>,
    thread: JoinHandle<()>,
}

impl DatagramSender {
    #[must_use]
    pub fn sent(&self) -> u32 {
        self.sent.load(Relaxed)
    }

    pub fn finish(self) {
        wait_for("the end of the sender", || self.thread.is_finished().then_some(()));
        self.thread.join().unwrap();
    }
}

pub struct Agent {
    namespace: Namespace,
    child: Child,
    directory: TempDir,
}

impl Agent {
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    #[must_use]
    pub fn status(&self) -> NicStatus {
        let text = self.get("/status").unwrap_or_else(|| panic!("no /status:\n{}", self.stderr()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("/status: {error} in {text}"))
    }

    #[must_use]
    pub fn class(&self, class: usize) -> NicClassStatus {
        self.status().classes.swap_remove(class)
    }

    pub fn await_pause(&self, class: usize, now: bool) {
        let what = format!("{} of class {class}", if now { "the pause" } else { "the end of the pause" });
        wait_for(&what, || (self.class(class).pause_received.now == now).then_some(()));
    }

    #[must_use]
    pub fn get(&self, path: &str) -> Option<String> {
        let url = format!("http://127.0.0.1:9465{path}");
        let get = || ureq::get(&url).config().timeout_global(Some(PATIENCE)).build().call();
        self.namespace.run(|| get().ok()?.body_mut().read_to_string().ok())
    }

    pub fn signal(&self, signal: Signal) {
        signal::kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    pub fn end(mut self, signal: Signal) -> (ExitStatus, String) {
        self.signal(signal);
        self.wait()
    }

    pub fn wait(&mut self) -> (ExitStatus, String) {
        let status = wait_for("the end of the agent", || self.child.try_wait().unwrap());
        (status, self.stderr())
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        let path = self.directory.path().join("stderr");
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = writeln!(std::io::stderr(), "the agent logged:\n{}", self.stderr());
        }
        let _ = self.child.kill(); // fails if the agent has ended
        let _ = self.child.wait();
    }
}

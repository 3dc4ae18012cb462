//! Tests of the AF_XDP layer with a real kernel, over veth pairs. They need root.

#![allow(clippy::unwrap_used)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeVal;
use xoff_dataplane::driver::Port as _;
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_ebpf::{EbpfError, Mode};
use xoff_lab::{Device, Lab, Namespace, VethOptions};
use xoff_wire::units::PortId;
use xoff_xdp::{
    Port, PortDriver as _, PortOptions, ReceiveChunks, Rings, Share, Store, XdpError, ZeroCopy,
    check_agent_privileges,
};

mod arrivals;
mod chunks;
mod stamps;

const RING: u32 = 256;
const SHARE: Share = Share { frames: 4 * RING, cells: 16 * RING, control_frames: 8, control_cells: 8 };
const FREE: (u32, u32) = (4 * RING + 8, 16 * RING + 8);
const P0: PortId = PortId(0);
const P1: PortId = PortId(1);

fn port_options(device: &str) -> PortOptions {
    PortOptions {
        device: device.to_owned(),
        queues: None,
        mode: None,
        zero_copy: ZeroCopy::Auto,
        rings: Rings { fill: RING, rx: RING, tx: RING, completion: RING },
        chunk_bytes: 2048,
        receive_size: ReceiveChunks::Whole,
        multi_buffer: false,
        receive_chunks: RING,
        window: RING,
        transmit_chunks: RING,
    }
}

struct Bench {
    lab: Lab,
    hosts: [Host; 2],
    store: Store,
    ports: [Port; 2],
}

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
        let len = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty())
            .expect("no frame arrived within 5 s");
        buffer.truncate(len);
        buffer
    }
}

impl Bench {
    fn new(options: &VethOptions, change: impl Fn(&mut PortOptions) + Sync) -> Bench {
        let mut lab = Lab::new();
        let switch = lab.namespace("switch").unwrap();
        let hosts = [("p0", "h0"), ("p1", "h1")].map(|(port, name)| {
            let namespace = lab.namespace(name).unwrap();
            let (_, far) = lab.veth(switch.end(port), namespace.end("eth0"), options).unwrap();
            Host::new(far)
        });
        let (store, ports) = switch.run(|| {
            let mut store = Store::cut(&[SHARE]).unwrap().remove(0);
            let ports = [(P0, "p0"), (P1, "p1")].map(|(id, device)| {
                let mut port = port_options(device);
                change(&mut port);
                Port::open(&mut store, id, &port).unwrap()
            });
            (store, ports)
        });
        Bench { lab, hosts, store, ports }
    }

    fn forward(&mut self, frames: usize) {
        self.forward_changed(frames, |_, _, _| {});
    }

    fn forward_changed(&mut self, frames: usize, change: impl Fn(&mut Store, PortId, &mut Frame)) {
        let mut batch = Vec::with_capacity(64);
        let deadline = Instant::now() + Duration::from_secs(10);
        let mut forwarded = 0;
        while forwarded < frames || self.ports.iter().any(Port::in_flight) {
            assert!(Instant::now() < deadline, "only {forwarded} of {frames} frames were forwarded in time");
            for (from, to, id) in [(0, 1, P1), (1, 0, P0)] {
                self.ports[from].refill(&mut self.store);
                self.ports[from].receive(&mut self.store, 32, |_, frame| batch.push(frame));
                forwarded += batch.len();
                for mut frame in batch.drain(..) {
                    change(&mut self.store, id, &mut frame);
                    self.ports[to]
                        .send(&mut self.store, frame)
                        .expect("the TX ring must have room for the frame");
                }
                self.ports[to].flush();
                self.ports[to].reap(&mut self.store, |store, frame| store.free(frame));
            }
        }
    }

    fn assert_clean(&mut self) {
        assert_eq!((self.store.free_frames(), self.store.free_cells()), FREE);
        for port in &mut self.ports {
            port.refill(&mut self.store);
            let out = port.chunks_out();
            assert!(out <= RING && out > RING - 64, "{out} chunks are out");
            let statistics = port.monitor().xdp_statistics().unwrap();
            assert_eq!(statistics.lost(), 0, "{statistics:?}");
            assert_eq!(
                statistics.tx_failed_kicks, 0,
                "kicks failed with error number {}",
                statistics.tx_failed_errno
            );
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
    let mut bench = Bench::new(&VethOptions::default(), |_| {});
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

#[test]
fn tag_can_be_inserted_into_and_removed_from_a_frame() {
    // Use an EtherType that is no VLAN's: a packet socket would remove a VLAN tag from the frame.
    const TAG: [u8; 4] = [0x88, 0xb6, 0x60, 0x07];
    let mut bench = Bench::new(&VethOptions::default(), |_| {});
    bench.hosts[0].send(&frame(1, 1510));
    bench.forward_changed(1, |store, port, frame| {
        assert!(store.stage(port, frame) && store.move_start(frame, -4));
        let head = store.head_mut(frame);
        head.copy_within(4..16, 0);
        head[12..16].copy_from_slice(&TAG);
    });
    let tagged = bench.hosts[1].receive();
    assert_eq!([&tagged[..12], &tagged[16..]].concat(), frame(1, 1510));
    assert_eq!(tagged[12..16], TAG);
    bench.hosts[1].send(&tagged);
    bench.forward_changed(1, |store, port, frame| {
        assert!(store.stage(port, frame));
        store.head_mut(frame).copy_within(0..12, 4);
        assert!(store.move_start(frame, 4));
    });
    assert_eq!(bench.hosts[0].receive(), frame(1, 1510));
    bench.assert_clean();
}

const FLOWS: u16 = 64;

fn send_flows(host: &Host, len: usize) {
    for port in 0..FLOWS {
        let mut frame = frame(0, len);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        let ip = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        frame[14..34].copy_from_slice(&ip);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        host.send(&frame);
    }
}

#[test] // proves: devices
fn port_receives_frames_from_all_hardware_queues() {
    let options = VethOptions { queues: 2, ..VethOptions::default() };
    let mut bench = Bench::new(&options, |_| {});
    assert_eq!(bench.ports[0].facts().queues, 2);
    assert_eq!(bench.ports[0].sockets().count(), 2);
    send_flows(&bench.hosts[0], 60);
    bench.forward(FLOWS.into());
    (0..FLOWS).for_each(|_| assert_eq!(bench.hosts[1].receive().len(), 60));
    for port in &bench.ports {
        assert_eq!(port.monitor().xdp_statistics().unwrap().lost(), 0);
    }
}

#[test]
fn port_in_generic_xdp_mode_forwards_frames() {
    let mut bench = Bench::new(&VethOptions::default(), |port| port.mode = Some(Mode::Generic));
    assert_eq!(bench.ports[0].facts().mode, Mode::Generic);
    bench.hosts[0].send(&frame(1, 1514));
    bench.forward(1);
    assert_eq!(bench.hosts[1].receive(), frame(1, 1514));
    bench.assert_clean();
}

#[test]
fn port_reports_address_mtu_and_mode_of_its_device() {
    let bench = Bench::new(&VethOptions::default(), |_| {});
    let facts = bench.ports[0].facts();
    let device = bench.lab.devices().iter().find(|device| device.name() == "p0").unwrap();
    assert_eq!((facts.mac, facts.mtu, facts.queues), (device.mac(), 1500, 1));
    assert_eq!((facts.mode, facts.zero_copy, facts.tags_kept), (Mode::Native, false, true));
    assert!(facts.warnings.is_empty(), "{:?}", facts.warnings);
    assert_eq!(bench.ports[0].monitor().device_drops().unwrap(), xoff_xdp::DeviceDrops::default());
    assert_eq!(bench.hosts[0].device.name(), "eth0");
}

fn described(namespace: &Namespace, device: &str) -> String {
    let text = |program: &str, args: &[&str]| {
        let output = namespace.output(Command::new(program).args(args)).unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let link = text("ip", &["-d", "link", "show", "dev", device]);
    let features = text("ethtool", &["-k", device]);
    let vlan = features.lines().filter(|line| line.contains("vlan-offload")).collect::<Vec<_>>().join("\n");
    format!("{link}{vlan}")
}

#[test]
fn closed_port_restores_its_device() {
    let mut lab = Lab::new();
    let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
    lab.veth(switch.end("p0"), host.end("eth0"), &VethOptions::default()).unwrap();
    switch.output(Command::new("tc").args(["qdisc", "del", "dev", "p0", "root"])).unwrap();
    switch.output(Command::new("ip").args(["link", "set", "p0", "down"])).unwrap();
    for mode in [Mode::Native, Mode::Generic].map(Some) {
        let before = described(&switch, "p0");
        for expected in ["qdisc noqueue", "promiscuity 0", "state DOWN", "rx-vlan-offload: on"] {
            assert!(before.contains(expected), "{expected} in {before}");
        }
        let open = switch.run(|| open_one(&PortOptions { mode, ..port_options("p0") }).unwrap());
        let during = described(&switch, "p0");
        for expected in [
            "qdisc pfifo",
            "promiscuity 1",
            "state UP",
            "rx-vlan-offload: off",
            "tx-vlan-offload: off",
            "prog/xdp",
        ] {
            assert!(during.contains(expected), "{expected} in {during}");
        }
        switch.run(|| drop(open));
        assert_eq!(described(&switch, "p0"), before);
    }
}

fn open_one(options: &PortOptions) -> Result<(Port, Store), XdpError> {
    let mut store = Store::cut(&[SHARE])?.remove(0);
    Port::open(&mut store, P0, options).map(|port| (port, store))
}

fn one_device() -> (Lab, Namespace) {
    let mut lab = Lab::new();
    let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
    lab.veth(switch.end("p0"), host.end("eth0"), &VethOptions::default()).unwrap();
    (lab, switch)
}

#[test]
fn error_of_opening_an_unusable_device_names_the_reason() {
    let (_lab, switch) = one_device();
    let open = |options: PortOptions| switch.run(|| open_one(&options).map(drop)).unwrap_err();
    let error = open(port_options("p7"));
    assert!(matches!(&error, XdpError::NoSuchInterface { device } if device == "p7"), "{error}");
    let error = open(PortOptions { queues: Some(vec![0, 1]), ..port_options("p0") });
    assert!(matches!(error, XdpError::NoSuchQueue { queue: 1, queues: 1, .. }), "{error}");
    let rings = Rings { rx: 100, ..port_options("p0").rings };
    let error = open(PortOptions { rings, ..port_options("p0") });
    assert_eq!(error.to_string(), "the size of the RX ring is 100; it must be a power of two, 4 or more");
    let _holder = switch.run(|| open_one(&port_options("p0")).unwrap());
    let error = open(port_options("p0"));
    assert!(matches!(error, XdpError::Program(EbpfError::AnotherXoff { .. })), "{error}");
    let (error, of_agent) = switch.run(|| {
        for capability in [caps::Capability::CAP_NET_ADMIN, caps::Capability::CAP_SYS_ADMIN] {
            caps::drop(None, caps::CapSet::Effective, capability).unwrap();
        }
        let of_agent = check_agent_privileges().unwrap_err();
        (open_one(&port_options("p0")).map(drop).unwrap_err(), of_agent)
    });
    assert!(
        of_agent.to_string().ends_with("`setcap cap_net_admin,cap_net_raw,cap_sys_nice,cap_ipc_lock+ep`")
    );
    assert!(
        matches!(&error, XdpError::NotPrivileged { missing, .. } if missing == &["CAP_NET_ADMIN"]),
        "{error}"
    );
}

fn attach_a_stranger(switch: &Namespace) {
    let directory = tempfile::tempdir().unwrap();
    let (source, object) = (directory.path().join("s.c"), directory.path().join("s.o"));
    let code = "__attribute__((section(\"xdp\"), used)) int stranger(void *frame) { return 2; }";
    fs::write(&source, code).unwrap();
    let clang = ["-O2", "-target", "bpf", "-c"];
    let compiled = Command::new("clang").args(clang).arg(&source).arg("-o").arg(&object).status().unwrap();
    assert!(compiled.success());
    let mut attach = Command::new("ip");
    attach.args(["link", "set", "dev", "p0", "xdpgeneric", "obj"]).arg(&object).args(["sec", "xdp"]);
    assert!(switch.output(&mut attach).unwrap().status.success());
}

#[test] // proves: start-stop
fn foreign_xdp_program_is_left_attached() {
    let (_lab, switch) = one_device();
    attach_a_stranger(&switch);
    let before = described(&switch, "p0");
    for mode in [None, Some(Mode::Generic)] {
        let error =
            switch.run(|| open_one(&PortOptions { mode, ..port_options("p0") }).map(drop)).unwrap_err();
        let XdpError::Program(EbpfError::Stranger { name, .. }) = &error else { panic!("{error}") };
        assert_eq!(name, "stranger");
    }
    assert_eq!(described(&switch, "p0"), before);
}

#[test] // proves: start-stop
fn leftover_xdp_program_is_replaced_only_if_from_xoff() {
    let (_lab, switch) = one_device();
    let poorly = || caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_SYS_ADMIN);
    let open = || switch.run(|| poorly().map(|()| open_one(&port_options("p0")).map(drop)).unwrap());
    let mut killed = victim(&switch, "generic");
    wait_for(|| described(&switch, "p0").contains("prog/xdp").then_some(()));
    killed.kill().and_then(|()| killed.wait()).unwrap();
    open().unwrap();
    attach_a_stranger(&switch);
    let before = described(&switch, "p0");
    let error = open().unwrap_err();
    assert!(matches!(&error, XdpError::Program(EbpfError::Unknown { .. })), "{error}");
    assert_eq!(described(&switch, "p0"), before);
}

#[test] // proves: start-stop
fn switch_refuses_device_of_another_running_switch() {
    let mut lab = Lab::new();
    let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
    let two = VethOptions { queues: 2, ..VethOptions::default() };
    lab.veth(switch.end("p0"), host.end("eth0"), &two).unwrap();
    let on = |queue, mode| PortOptions { mode, queues: Some(vec![queue]), ..port_options("p0") };
    for mode in [Mode::Native, Mode::Generic].map(Some) {
        let first = switch.run(|| open_one(&on(0, mode)).unwrap());
        let before = described(&switch, "p0");
        for other in [None, Some(Mode::Native), Some(Mode::Generic)] {
            let error = switch.run(|| open_one(&on(1, other)).map(drop)).unwrap_err();
            let another =
                matches!(&error, XdpError::Program(EbpfError::AnotherXoff { device, .. }) if device == "p0");
            assert!(another, "{mode:?}, {other:?}: {error}");
        }
        assert_eq!(described(&switch, "p0"), before);
        switch.run(|| drop(first));
    }
}

/// Environment variable that makes `restart_after_sigkill_restores_the_device` run as the process to be killed.
const VICTIM: &str = "XOFF_XDP_VICTIM";

#[test] // proves: start-stop
fn restart_after_sigkill_restores_the_device() {
    if let Ok(mode) = env::var(VICTIM) {
        let mode = if mode == "generic" { Mode::Generic } else { Mode::Native };
        let _open = open_one(&PortOptions { mode: Some(mode), ..port_options("p0") }).unwrap();
        loop {
            thread::park();
        }
    }
    let (_lab, switch) = one_device();
    switch.output(Command::new("tc").args(["qdisc", "del", "dev", "p0", "root"])).unwrap();
    for (mode, left) in [("native", false), ("generic", true)] {
        let mut victim = victim(&switch, mode);
        wait_for(|| described(&switch, "p0").contains("prog/xdp").then_some(()));
        victim.kill().unwrap();
        victim.wait().unwrap();
        if left {
            assert!(
                described(&switch, "p0").contains("prog/xdp"),
                "the killed process must leave its XDP program"
            );
        }
        let (port, _store) = switch.run(|| open_one(&port_options("p0")).unwrap());
        assert_eq!(port.facts().mode, Mode::Native);
        switch.run(|| drop(port));
        let after = described(&switch, "p0");
        assert!(!after.contains("prog/xdp") && after.contains("qdisc noqueue"), "{after}");
    }
}

#[test] // proves: start-stop
fn closing_a_port_keeps_foreign_queueing_discipline() {
    let (_lab, switch) = one_device();
    let before = described(&switch, "p0");
    assert!(before.contains("qdisc pfifo"), "{before}");
    switch.run(|| drop(open_one(&port_options("p0")).unwrap()));
    assert_eq!(described(&switch, "p0"), before);
}

fn victim(namespace: &Namespace, mode: &str) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "restart_after_sigkill_restores_the_device"])
        .env(VICTIM, mode)
        .stdout(Stdio::null());
    namespace.spawn(command).unwrap()
}

fn wait_for<T>(ready: impl Fn() -> Option<T>) -> T {
    for _ in 0..1000 {
        if let Some(value) = ready() {
            return value;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("no result in time");
}

#[test] // proves: workers
fn frame_sent_by_another_worker_is_freed_by_its_owner() {
    let mut lab = Lab::new();
    let switch = lab.namespace("switch").unwrap();
    let hosts = [("p0", "h0"), ("p1", "h1")].map(|(port, name)| {
        let namespace = lab.namespace(name).unwrap();
        Host::new(lab.veth(switch.end(port), namespace.end("eth0"), &VethOptions::default()).unwrap().1)
    });
    let (mut stores, mut ports) = switch.run(|| {
        let mut stores = Store::cut(&[SHARE, SHARE]).unwrap();
        let devices = [(P0, "p0"), (P1, "p1")].into_iter().zip(&mut stores);
        let open = |((id, device), store)| Port::open(store, id, &port_options(device)).unwrap();
        let ports: Vec<Port> = devices.map(open).collect();
        (stores, ports)
    });
    hosts[0].send(&frame(5, 300));
    let mut batch = Vec::new();
    wait_for_mut(|| ports[0].receive(&mut stores[0], 8, |_, frame| batch.push(frame)) == 1);
    let frame_in = batch.pop().unwrap();
    assert!(stores[0].settle(&frame_in));
    ports[1].send(&mut stores[1], frame_in).unwrap();
    ports[1].flush();
    wait_for_mut(|| {
        ports[1].reap(&mut stores[1], |_, frame| batch.push(frame));
        !batch.is_empty()
    });
    assert_eq!(hosts[1].receive(), frame(5, 300));
    stores[0].free(batch.pop().unwrap());
    assert!(stores.iter().all(|store| (store.free_frames(), store.free_cells()) == FREE));
}

fn wait_for_mut(mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !ready() {
        assert!(Instant::now() < deadline, "no result in time");
    }
}

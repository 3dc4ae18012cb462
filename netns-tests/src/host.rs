use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use pcap::{Active, Capture};
use socket2::{Domain, Protocol, Socket, Type};
use xoff_lab::{Device, Namespace};
use xoff_wire::units::MacAddr;

use crate::frames::{EXPERIMENTAL, Frame};
use crate::tap::{self, Tap};

/// Host n of a test bed, counted from 1. Its addresses are 02:00:00:00:00:n, 10.0.0.n and fd00::n.
pub struct Host {
    number: u8,
    device: Device,
    tap: Tap,
    sender: RefCell<Capture<Active>>,
    takers: Vec<Socket>,
}

/// EtherTypes for which each host has a socket, because the kernel counts frames without a socket as dropped. In tagged frames, the kernel
/// compares the EtherType after the tag.
const TAKEN: [u16; 4] = [EXPERIMENTAL, 0x8100, 0x88a8, 0x88cc];

impl Host {
    pub(crate) fn new(number: u8, device: Device) -> Host {
        let tap = Tap::on(&device);
        let mut sender = tap::open(&device, tap::SENDING);
        sender.filter("less 1", true).unwrap(); // it never reads
        let takers = TAKEN.iter().map(|&ether_type| taker(&device, ether_type)).collect();
        let host = Host { number, device, tap, sender: RefCell::new(sender), takers };
        // Turn offloads off, so that frames are complete (checksum, tag, at most the MTU). With GRO on, a veth keeps
        // the order of frames when their sender moves to another CPU.
        host.run("ethtool", &["-K", "eth0", "tx", "off", "txvlan", "off", "tso", "off", "gro", "on"]);
        host
    }

    /// Closes all sockets in parallel, because the kernel takes long for each.
    pub(crate) fn end(hosts: impl IntoIterator<Item = Host>) {
        thread::scope(|scope| {
            for Host { tap, sender, takers, .. } in hosts {
                scope.spawn(move || drop(tap));
                scope.spawn(move || drop(sender));
                takers.into_iter().for_each(|taker| _ = scope.spawn(move || drop(taker)));
            }
        });
    }

    #[must_use]
    pub const fn mac_of(number: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, number])
    }

    #[must_use]
    pub fn number(&self) -> u8 {
        self.number
    }

    #[must_use]
    pub fn mac(&self) -> MacAddr {
        self.device.mac()
    }

    #[must_use]
    pub fn ipv4(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, self.number)
    }

    #[must_use]
    pub fn ipv6(&self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, self.number.into())
    }

    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        self.device.namespace()
    }

    #[must_use]
    pub fn tap(&self) -> &Tap {
        &self.tap
    }

    #[must_use]
    pub fn to(&self, other: &Host) -> Frame {
        Frame::new(self.mac(), other.mac())
    }

    pub fn send(&self, frame: impl AsRef<[u8]>) {
        let frame = frame.as_ref();
        self.sender.borrow_mut().sendpacket(frame).unwrap_or_else(|error| {
            panic!("host {} cannot send a frame of {} bytes: {error}", self.number, frame.len())
        });
    }

    pub fn send_all(&self, frames: impl IntoIterator<Item = Vec<u8>>, gap: Duration) {
        for frame in frames {
            self.send(frame);
            thread::sleep(gap);
        }
    }

    pub fn run(&self, program: &str, args: &[&str]) -> String {
        let child = self.start(program, args);
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "host {}: {program} {args:?} failed: {printed}{}",
            self.number,
            String::from_utf8_lossy(&output.stderr)
        );
        printed
    }

    pub fn start(&self, program: &str, args: &[&str]) -> Child {
        let mut command = dies_with_us(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.namespace().spawn(command);
        child.unwrap_or_else(|error| panic!("cannot start {program}: {error}"))
    }
}

fn taker(device: &Device, ether_type: u16) -> Socket {
    let protocol = Protocol::from(i32::from(ether_type.to_be()));
    device.namespace().run(|| Socket::new(Domain::PACKET, Type::RAW, Some(protocol))).unwrap()
}

/// Returns a command that is killed when this process ends for any reason.
#[must_use]
pub fn dies_with_us(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}

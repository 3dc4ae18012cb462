// Tests for SPECIFICATION.md: experiments

use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, bind, recv, send, socket, sockopt,
};
use nix::sys::time::TimeVal;

use xoff_wire::units::Bytes;

use super::*;
use xoff_lab::{Device, Lab, VethOptions};

#[test]
fn kernel_tcp_counter_is_found_by_group_and_name() {
    let text = "Ip: A B\nIp: 1 2\nTcp: A RetransSegs\nTcp: 3 4\nTcpExt: A B\nTcpExt: 5 6\n";
    assert_eq!(counter(text, "Tcp:", "RetransSegs"), Some(4));
    assert_eq!(counter(text, "TcpExt:", "A"), Some(5));
    assert_eq!(counter(text, "Tcp:", "B"), None);
    assert_eq!(counter(text, "IpExt:", "InCEPkts"), None);
}

const OPTIONS: Options =
    Options { ecn: Ecn::Incapable, detection: LossDetection::Rack, receive_buffer: Bytes(100_000) };

#[test]
fn tcp_receiver_reads_all_written_bytes() {
    let mut lab = Lab::new();
    let (a, b) = (lab.namespace("a").unwrap(), lab.namespace("b").unwrap());
    let to = Ipv4Addr::new(10, 0, 0, 2);
    let (from, end) = (a.end("eth0").address([10, 0, 0, 1], 24), b.end("eth0").address(to, 24));
    lab.veth(from, end, &VethOptions::default()).unwrap();
    [&a, &b].iter().for_each(|host| prepare(host, &OPTIONS).unwrap());
    let pair = Pair { sender: &a, receiver: &b, address: to };
    let transfer = Flows::start(&[pair, pair], OPTIONS.ecn).unwrap();
    while transfer.read().contains(&0) {
        thread::sleep(Duration::from_millis(1));
    }
    let volumes = Box::new(transfer).finish().unwrap();
    assert_eq!(volumes.len(), 2);
    for flow in volumes {
        assert!(flow.read > 0);
        assert_eq!(flow.written, flow.read);
    }
    let [sent, got] = [&a, &b].map(|host| counts(host).unwrap());
    assert!(
        sent.segments > got.segments,
        "the host without data sent as many segments as the sender: {sent:?} {got:?}"
    );
    assert_eq!(got.marked, 0);
}

/// Number of segments of which one is delayed until the next `OVERTAKEN_BY` segments have passed it.
const ONE_OF: u64 = 40;
const OVERTAKEN_BY: u64 = 6;

const OVERTAKEN_MAX: u64 = 5_000;

struct Relay {
    stop: Arc<AtomicBool>,
    overtaken: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    fn start(between: [&Device; 2]) -> Relay {
        let (stop, overtaken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let [left, right] = between.map(|device| Arc::new(packets_of(device)));
        let there = {
            let (left, right) = (Arc::clone(&left), Arc::clone(&right));
            let (stop, overtaken) = (Arc::clone(&stop), Arc::clone(&overtaken));
            thread::spawn(move || relay_out_of_order(&left, &right, &stop, &overtaken))
        };
        let back = {
            let stop = Arc::clone(&stop);
            thread::spawn(move || relay(&right, &left, &stop))
        };
        Relay { stop, overtaken, threads: vec![there, back] }
    }

    fn overtaken(&self) -> u64 {
        self.overtaken.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

fn packets_of(device: &Device) -> OwnedFd {
    device.namespace().run(|| {
        let socket =
            socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
                .unwrap();
        let links = getifaddrs().unwrap().filter(|found| found.interface_name == device.name());
        let link = links.filter_map(|found| found.address?.as_link_addr().copied()).next().unwrap();
        bind(socket.as_raw_fd(), &link).unwrap();
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 10_000)).unwrap();
        socket
    })
}

fn next(from: &OwnedFd, stop: &AtomicBool) -> Option<Vec<u8>> {
    let mut frame = vec![0; 2_000];
    while !stop.load(Ordering::Relaxed) {
        match recv(from.as_raw_fd(), &mut frame, MsgFlags::empty()) {
            Ok(length) => {
                frame.truncate(length);
                return Some(frame);
            }
            Err(Errno::EAGAIN) => {}
            Err(error) => panic!("{error}"),
        }
    }
    None
}

fn relay(from: &OwnedFd, to: &OwnedFd, stop: &AtomicBool) {
    while let Some(frame) = next(from, stop) {
        send(to.as_raw_fd(), &frame, MsgFlags::empty()).unwrap();
    }
}

fn relay_out_of_order(from: &OwnedFd, to: &OwnedFd, stop: &AtomicBool, overtaken: &AtomicU64) {
    let (mut held, mut segments) = (None, 0);
    while let Some(frame) = next(from, stop) {
        let is_segment = frame.len() > 1_000;
        segments += u64::from(is_segment);
        if is_segment && held.is_none() && segments % ONE_OF == 0 {
            held = Some((frame, segments));
            continue;
        }
        send(to.as_raw_fd(), &frame, MsgFlags::empty()).unwrap();
        if let Some((frame, _)) = held.take_if(|(_, place)| segments >= *place + OVERTAKEN_BY) {
            send(to.as_raw_fd(), &frame, MsgFlags::empty()).unwrap();
            overtaken.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn sent_out_of_order(detection: LossDetection, enough: impl Fn(Counts, u64) -> bool) {
    let mut lab = Lab::new();
    let [a, b, between] = ["a", "b", "between"].map(|name| lab.namespace(name).unwrap());
    let [from, to] = [1, 2].map(|host| Ipv4Addr::new(10, 0, 0, host));
    let mut wire = |host: &Namespace, at: &str, address| {
        let end = host.end("eth0").address(address, 24);
        let (device, relayed) = lab.veth(end, between.end(at), &VethOptions::default()).unwrap();
        device.finish_frames().unwrap();
        relayed
    };
    let (left, right) = (wire(&a, "left", from), wire(&b, "right", to));
    let options = Options { detection, ..OPTIONS };
    [&a, &b].iter().for_each(|host| prepare(host, &options).unwrap());
    let relay = Relay::start([&left, &right]);
    let transfer = Flows::start(&[Pair { sender: &a, receiver: &b, address: to }], options.ecn).unwrap();
    loop {
        let counted = counts(&a).unwrap();
        if enough(counted, relay.overtaken()) {
            break;
        }
        assert!(relay.overtaken() < OVERTAKEN_MAX, "TCP did not detect any lost segment: {counted:?}");
        thread::sleep(Duration::from_millis(1));
    }
    Box::new(transfer).finish().unwrap();
    assert!(counts(&b).unwrap().out_of_order >= OVERTAKEN_BY);
}

#[test]
fn tcp_resends_overtaken_segment_after_duplicate_acks() {
    sent_out_of_order(LossDetection::Dupack, |counts, _| {
        assert_eq!(counts.sack_recoveries, 0, "{counts:?}");
        counts.dupack_recoveries > 0 && counts.retransmitted > 0
    });
}

#[test]
fn tcp_with_rack_resends_overtaken_segment() {
    sent_out_of_order(LossDetection::Rack, |counts, _| {
        assert_eq!(counts.dupack_recoveries, 0, "{counts:?}");
        counts.sack_recoveries > 0 && counts.retransmitted > 0
    });
}

#[test]
fn tcp_without_loss_detection_resends_only_at_timeout() {
    sent_out_of_order(LossDetection::Timeout, |counts, overtaken| {
        assert_eq!((counts.dupack_recoveries, counts.sack_recoveries), (0, 0), "{counts:?}");
        overtaken >= 50
    });
}

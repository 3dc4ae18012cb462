// Tests for SPECIFICATION.md: host-guard

use std::env;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::thread;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};
use xoff_nic::egress::EgressSettings;
use xoff_wire::units::ClassSet;
use xoff_xdp::PacketSender;

use crate::bed::{Bed, DSCP_LOSSLESS, FRAME, LOSSLESS, install, of, peer_ipv4, received, settings, wait_for};

#[test]
fn queue_removal_restores_the_device_exactly() {
    let roots = [
        "qdisc del dev nic0 root",
        "qdisc replace dev nic0 root handle ff: pfifo limit 77",
        "qdisc replace dev nic0 root handle 8: bfifo limit 50000",
        "qdisc replace dev nic0 root handle 7: tbf rate 90mbit burst 20000 limit 90000",
    ];
    let bed = Bed::new();
    bed.run("ethtool", "-K nic0 gso on tx-udp-segmentation on gro off");
    let others = Bed::description_in(bed.peer.namespace());
    for root in roots {
        bed.run("tc", root);
        let before = bed.description();
        let egress = bed.install(&settings());
        assert_eq!(egress.warnings(), [""; 0]);
        let during = bed.description();
        for expected in [
            "qdisc htb 786e: root refcnt 2 r2q 10 default 0 ", // no class receives a frame before its leaf exists
            "class htb 786e:13 parent 786e:1 leaf 7873:",
            "tx-checksum-ip-generic: off",
            "tx-tcp-segmentation: off",
            "generic-segmentation-offload: off",
            "gso_max_segs 1 ",
            "ipv4/neigh/nic0/unres_qlen_bytes\n67108864\n",
            "ipv6/neigh/nic0/unres_qlen_bytes\n67108864\n",
        ] {
            assert!(during.contains(expected), "no {expected:?} in {during}");
        }
        // Call `remove` in the peer's namespace, where a device of the same name must not change.
        let removed = bed.peer.namespace().run(|| egress.remove());
        assert_eq!(Bed::description_in(bed.peer.namespace()), others);
        assert_eq!((removed.lost, removed.warnings), ([0; 8], vec![]));
        assert_eq!(bed.description(), before);
        drop(bed.install(&settings()));
        assert_eq!(bed.description(), before, "dropping the tree did not restore the device");
    }
}

#[test]
fn queue_removal_restores_root_qdisc_in_one_request() {
    const TC_GROUP: u32 = 1 << 3;
    const DELETED: u16 = 37;
    const NEW: u16 = 36;
    let bed = Bed::new();
    bed.run("tc", "qdisc replace dev nic0 root handle 9: pfifo limit 55");
    let egress = bed.install(&settings());
    let monitor = bed.namespace().run(|| {
        let (kind, flags) = (SockType::Raw, SockFlag::SOCK_NONBLOCK);
        let monitor = socket(AddressFamily::Netlink, kind, flags, SockProtocol::NetlinkRoute).unwrap();
        bind(monitor.as_raw_fd(), &NetlinkAddr::new(0, TC_GROUP)).unwrap();
        monitor
    });
    assert_eq!(egress.remove().warnings, [""; 0]);
    let mut bytes = [0; 8192];
    let of_roots = |mut rest: &[u8]| {
        let mut parts = Vec::new();
        while let Some((len, _)) = rest.split_first_chunk() {
            let (message, others) = rest.split_at(u32::from_ne_bytes(*len) as usize);
            let number = |at: usize| u32::from_ne_bytes(*message[at..].first_chunk().unwrap());
            let kind = u16::from_ne_bytes(*message[4..].first_chunk().unwrap());
            let is_root = number(28) == u32::MAX;
            parts.extend(is_root.then(|| (kind, number(24))));
            rest = others;
        }
        parts
    };
    let mut announced = Vec::new();
    while let Ok(len) = recv(monitor.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
        announced.push(of_roots(&bytes[..len]));
    }
    let changes: Vec<_> = announced.into_iter().filter(|parts| !parts.is_empty()).collect();
    assert_eq!(changes, [[(DELETED, 0x786e_0000), (NEW, 0x9_0000)]]);
}

#[test]
fn agent_refuses_device_whose_root_qdisc_it_cannot_restore() {
    let bed = Bed::new();
    bed.run("tc", "qdisc replace dev nic0 root handle 1: htb default 1");
    bed.run("tc", "class add dev nic0 parent 1: classid 1:1 htb rate 10mbit");
    let before = bed.description();
    let refused = bed.namespace().run(|| install(&settings())).unwrap_err().to_string();
    assert_eq!(
        refused,
        "nic0 has queueing discipline htb 1: at its root, which xoff could not restore later: remove it first \
         (`tc qdisc del dev nic0 root`)"
    );
    assert_eq!(bed.description(), before);
    let mut nowhere = settings();
    nowhere.nic.device = "eth9".to_owned();
    let refused = bed.namespace().run(|| install(&nowhere)).unwrap_err().to_string();
    assert_eq!(
        refused,
        "network device eth9 does not exist in this namespace; `ip link` lists the existing ones"
    );
}

#[test]
fn second_agent_on_a_device_is_refused() {
    let bed = Bed::new();
    let _egress = bed.install(&settings());
    let refused = bed.namespace().run(|| install(&settings())).unwrap_err().to_string();
    assert!(refused.starts_with("nic0 is a port of this xoff already"), "{refused}");
}

const VICTIM: &str = "XOFF_NIC_VICTIM";

#[test]
fn next_agent_adopts_queues_and_frames_of_killed_agent() {
    const COUNT: usize = 50;
    if env::var_os(VICTIM).is_some() {
        let limit_lossless = u32::try_from(FRAME).unwrap() * u32::try_from(COUNT).unwrap();
        let mut egress = install(&EgressSettings { limit_lossless, ..settings() }).unwrap();
        egress.stop(LOSSLESS).unwrap();
        println!("\nstopped");
        loop {
            thread::park();
        }
    }
    let bed = Bed::new();
    let before = bed.description();
    let this = "removal::next_agent_adopts_queues_and_frames_of_killed_agent";
    let mut victim = Command::new(env::current_exe().unwrap());
    victim.args(["--exact", this, "--nocapture"]).env(VICTIM, "1").stdout(Stdio::piped());
    let mut victim = bed.namespace().spawn(victim).unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "stopped"));
    let receiver = bed.receive(DSCP_LOSSLESS, peer_ipv4());
    bed.send(DSCP_LOSSLESS, peer_ipv4(), COUNT + 5).join(); // the last five exceed the queue's limit
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert_ne!(bed.description(), before);

    let mut egress = bed.install(&settings());
    assert_eq!(received(&receiver, COUNT), (0..COUNT).collect::<Vec<_>>());
    assert_eq!(of(egress.counts().unwrap(), LOSSLESS).dropped, 0, "drops of the killed agent count again");
    assert_eq!(egress.remove().warnings, [""; 0]);
    assert_eq!(bed.description(), before);
}

#[test]
fn frames_still_queued_at_removal_are_counted_as_lost() {
    let bed = Bed::new();
    let mut settings = settings();
    settings.nic.speed = xoff_wire::units::BitRate::new(8_000).unwrap(); // each frame takes longer than a second
    let mut egress = bed.install(&settings);
    let sender = bed.namespace().run(|| PacketSender::open(egress.ifindex()).unwrap());
    egress.stop(LOSSLESS).unwrap();
    let mut frame = vec![0; 1514];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, DSCP_LOSSLESS << 2]);
    (0..20).for_each(|_| sender.send(&frame).unwrap());
    let lost = egress.remove().lost[LOSSLESS.index()];
    assert!((1..20).contains(&lost), "{lost}");
}

#[test]
fn queue_removal_reports_drops_since_last_counter_read() {
    let bed = Bed::new();
    let mut egress = bed.install(&EgressSettings { limit_lossless: 600, ..settings() });
    let sender = bed.namespace().run(|| PacketSender::open(egress.ifindex()).unwrap());
    egress.stop(LOSSLESS).unwrap();
    let mut frame = vec![0; 60];
    frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, DSCP_LOSSLESS << 2]);
    (0..17).for_each(|_| _ = sender.send(&frame)); // fails if the queue is full
    let removed = egress.remove();
    assert_eq!((removed.dropped[LOSSLESS.index()], removed.lost[LOSSLESS.index()]), (7, 0));
}

#[test]
fn queue_removal_keeps_root_qdisc_of_other_program() {
    let bed = Bed::new();
    bed.run("ethtool", "-K nic0 gso on gro off");
    let theirs = "qdisc replace dev nic0 root handle 9: pfifo limit 55";
    bed.run("tc", theirs);
    let expected = bed.description();
    bed.run("tc", "qdisc replace dev nic0 root handle 8: bfifo limit 50000");
    let mut egress = bed.install(&settings());
    let mut look = || {
        let dump = egress.dump().unwrap();
        egress.repair(&dump, ClassSet::NONE, false)
    };
    assert!(look().found.is_empty());
    bed.run("tc", theirs);
    let error = look().refused.unwrap().to_string();
    assert!(error.contains("replaced the root queueing discipline of nic0 by pfifo 9:"), "{error}");
    assert_eq!(
        egress.remove().warnings,
        ["another program replaced the queues of nic0; they are left as they are"]
    );
    assert_eq!(bed.description(), expected);
}

#[test]
fn queue_removal_warns_if_replaced_root_qdisc_is_unrestorable() {
    let bed = Bed::new();
    let mut egress = bed.install(&settings());
    bed.run("tc", "qdisc replace dev nic0 root handle 1: htb");
    let dump = egress.dump().unwrap();
    let repair = egress.repair(&dump, ClassSet::NONE, true);
    assert!(repair.left.is_empty(), "{repair:?}");
    let warnings = egress.remove().warnings;
    assert!(matches!(&warnings[..], [only] if only.contains("htb 1:")), "{warnings:?}");
    assert!(!bed.description().contains("htb"), "{}", bed.description());
}

#[test]
fn queue_removal_restores_renamed_device_but_not_its_namesake() {
    let bed = Bed::new();
    let before = bed.description();
    let egress = bed.install(&settings());
    let rename = |from: &str, to: &str| {
        bed.run("ip", &format!("link set {from} down"));
        bed.run("ip", &format!("link set {from} name {to}"));
        bed.run("ip", &format!("link set {to} up"));
    };
    rename("nic0", "nic9");
    bed.run("ip", "link add nic0 type veth peer name nic8");
    let other = bed.description();
    let removed = bed.namespace().run(|| egress.remove());
    assert_eq!(removed.warnings, [""; 0]);
    assert_eq!(bed.description(), other);
    bed.run("ip", "link del nic0");
    rename("nic9", "nic0");
    wait_for("the restoration of the device", || (bed.description() == before).then_some(()));
}

#[test]
fn queue_removal_after_deletion_of_device_gives_no_warning() {
    let bed = Bed::new();
    let egress = bed.install(&settings());
    bed.run("ip", "link del nic0");
    assert_eq!(egress.remove(), xoff_nic::egress::Removed::default());
}

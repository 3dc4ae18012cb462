// Tests for SPECIFICATION.md: route-mirror

mod neighbours;
mod nexthops;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use xoff_lab::Namespace;
use xoff_netns_tests::frames::Frame;
use xoff_netns_tests::{Bed, Host, Switch, wait_for};
use xoff_switch::control::RoutePage;
use xoff_switch::router::Presence;
use xoff_wire::units::MacAddr;

use crate::{PATIENT, bed};

const GAP: Duration = Duration::from_micros(500);

/// Test bed with a routing switch. Host N has 172.16.N.2 and fd16:N::2; the router has 172.16.N.1 and fd16:N::1.
struct Fabric {
    bed: Bed,
    switch: Switch,
}

impl Fabric {
    fn new(hosts: u8, lines: &str) -> Fabric {
        Fabric::with_vlan(hosts, None, lines)
    }

    /// Port `bridged` is not routed, but in VLAN 1, for which `lines` must set `router = true`.
    fn with_vlan(hosts: u8, bridged: Option<u8>, lines: &str) -> Fabric {
        let bed = bed(hosts).ipv6().build();
        let kernel = bed.far_namespace();
        for (setting, value) in [
            ("ipv4/ip_forward", "1"),
            ("ipv6/conf/all/disable_ipv6", "0"),
            ("ipv6/conf/default/disable_ipv6", "0"),
            ("ipv6/conf/all/forwarding", "1"),
            ("ipv4/icmp_ratelimit", "0"),
        ] {
            kernel.sysctl(setting, value).unwrap();
        }
        let netns = kernel.entrance().join("net");
        let router = format!("[router]\nnetns = {:?}\n{lines}", netns.to_str().unwrap());
        let mut config = bed.config("speed = \"1G\"\nrouted = true").switch(PATIENT).more(&router);
        if let Some(number) = bridged {
            config = config.port(number.into(), "routed = false");
        }
        let switch = bed.start(&config);
        for number in 1..=hosts {
            let host = bed.host(number.into());
            let device = if bridged == Some(number) { "vlan1".to_owned() } else { format!("p{number}") };
            ip(kernel, &format!("address add 172.16.{number}.1/24 dev {device}"));
            ip(kernel, &format!("address add fd16:{number}::1/64 dev {device} nodad"));
            for line in [
                &format!("address add 172.16.{number}.2/24 dev eth0"),
                &format!("route add 172.16.0.0/12 via 172.16.{number}.1"),
                &format!("address add fd16:{number}::2/64 dev eth0 nodad"),
                &format!("route add fd16::/16 via fd16:{number}::1"),
            ] {
                ip(host.namespace(), line);
            }
        }
        Fabric { bed, switch }
    }

    fn host(&self, number: usize) -> &Host {
        self.bed.host(number)
    }

    fn ip(&self, line: &str) -> String {
        ip(self.bed.far_namespace(), line)
    }

    fn ping(&self, from: usize, to: &str) {
        self.host(from).run("ping", &["-c", "3", "-i", "0.05", "-W", "5", to]);
    }

    fn answer(&self, from: usize, args: &str) -> String {
        let mut ping = Command::new("ping");
        ping.args(["-c", "1", "-W", "2"]).args(args.split(' '));
        let output = self.host(from).namespace().output(&mut ping).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    fn routes(&self) -> RoutePage {
        serde_json::from_str(&self.switch.get("/routes?limit=10000").unwrap()).unwrap()
    }

    fn drops(&self, port: usize, reason: &str) -> u64 {
        self.switch.port(port).classes.iter().map(|class| class.drops[reason]).sum()
    }

    fn packet(&self, from: usize, to: [u8; 4], number: u32) -> Vec<u8> {
        self.packet_of(24, from, to, number)
    }

    fn packet_of(&self, dscp: u8, from: usize, to: [u8; 4], number: u32) -> Vec<u8> {
        let router = MacAddr([2, 0, 0, 0, 1, u8::try_from(from).unwrap()]);
        let mut bytes = Frame::new(self.host(from).mac(), router).udp(dscp, &number.to_be_bytes()).build();
        bytes[26..30].copy_from_slice(&[172, 16, u8::try_from(from).unwrap(), 2]);
        bytes[30..34].copy_from_slice(&to);
        bytes[40..42].fill(0); // no checksum
        bytes[24..26].fill(0);
        let sum = bytes[14..34]
            .chunks(2)
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
            .sum::<u32>();
        let folded = (sum & 0xffff) + (sum >> 16);
        let sum = !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap();
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn finish(self) {
        self.bed.finish(self.switch);
    }
}

fn ip(namespace: &Namespace, line: &str) -> String {
    let output = namespace.output(Command::new("ip").args(line.split(' '))).unwrap();
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn batch(namespace: &Namespace, lines: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    let mut batch = Command::new("ip");
    batch.arg("-batch").arg(file.path()).stdout(Stdio::null());
    let output = namespace.output(&mut batch).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn many(count: u32, verb: &str, rest: &str) -> String {
    (0..count).map(|n| format!("route {verb} 100.{}.{}.0/24 {rest}\n", n / 256, n % 256)).collect()
}

fn numbers(host: &Host, count: usize) -> Vec<u32> {
    let is_one = |bytes: &[u8]| {
        bytes.len() >= 46 && bytes[12..14] == [8, 0] && bytes[23] == 17 && bytes[15] == 24 << 2
    };
    let number = |bytes: &[u8]| u32::from_be_bytes([bytes[42], bytes[43], bytes[44], bytes[45]]);
    host.tap().wait(count, is_one).iter().map(|frame| number(&frame.bytes)).collect()
}

#[test] // proves: routing
fn routed_hosts_reach_each_other() {
    let fabric = Fabric::new(3, "");
    for to in ["172.16.1.1", "fd16:1::1"] {
        fabric.ping(1, to); // the router itself
    }
    for (from, to) in [(1, 2), (2, 3), (3, 1)] {
        fabric.ping(from, &format!("172.16.{to}.2"));
        fabric.ping(from, &format!("fd16:{to}::2"));
    }
    for (target, first) in [("172.16.2.2", "172.16.1.1"), ("fd16:2::2", "fd16:1::1")] {
        let reply = fabric.answer(1, &format!("-t 1 {target}"));
        assert!(reply.contains("exceeded") && reply.contains(first), "{reply}");
        assert!(
            fabric.answer(1, &format!("-t 2 {target}")).contains("1 received"),
            "a packet with one more hop did not arrive"
        );
    }
    let status = fabric.switch.status();
    let router = status.router.unwrap();
    assert!(router.routes_v4 >= 9 && router.routes_v6 >= 9, "{router:?}");
    assert!(router.interfaces.iter().all(|it| it.to_host > 0 && it.from_host > 0), "{router:?}");
    // With known neighbours, almost no packet is passed to the kernel.
    let before = fabric.ip("-s link show p1");
    let to_host = |fabric: &Fabric| fabric.switch.status().router.unwrap().interfaces[0].to_host;
    let punted = to_host(&fabric);
    let packets = (0..100).map(|number| fabric.packet(1, [172, 16, 2, 2], number));
    fabric.host(1).send_all(packets, Duration::ZERO);
    assert_eq!(numbers(fabric.host(2), 100), (0..100).collect::<Vec<u32>>());
    assert!(to_host(&fabric) - punted < 20, "{before}");
    wait_for("all to have left in the class of their DSCP", || {
        (fabric.switch.class(2, 3).tx_frames == 100).then_some(())
    });
    fabric.finish();
}

#[test] // proves: slow-path
fn packets_above_the_mtu_are_fragmented_or_refused() {
    let fabric = Fabric::new(2, "");
    fabric.ping(1, "172.16.2.2");
    fabric.ip("link set p2 mtu 1300");
    wait_for("the new MTU to apply", || {
        fabric.answer(1, "-M do -s 1400 172.16.2.2").contains("mtu").then_some(())
    });
    assert!(fabric.answer(1, "-M dont -s 1400 172.16.2.2").contains("1 received"), "number of fragments");
    let reply = fabric.answer(1, "-M do -s 1400 fd16:2::2");
    assert!(reply.contains("Packet too big") || reply.contains("mtu"), "{reply}");
    fabric.finish();
}

#[test] // proves: routing
fn router_obeys_route_mtu_that_is_below_interface_mtu() {
    let fabric = Fabric::new(2, "");
    fabric.ping(1, "172.16.2.2");
    for address in ["172.20.0.9/32", "fd16:20::9/128 nodad"] {
        ip(fabric.host(2).namespace(), &format!("address add {address} dev eth0"));
    }
    for (network, gateway, to) in
        [("172.20.0.0/24", "172.16.2.2", "172.20.0.9"), ("fd16:20::/64", "fd16:2::2", "fd16:20::9")]
    {
        fabric.ip(&format!("route add {network} via {gateway}"));
        wait_for("the route", || {
            fabric.answer(1, &format!("-M do -s 1400 {to}")).contains("1 received").then_some(())
        });
        fabric.ip(&format!("route replace {network} via {gateway} mtu 1300"));
        wait_for("the kernel to say what fits", || {
            let reply = fabric.answer(1, &format!("-M do -s 1400 {to}"));
            (reply.contains("mtu=1300") || reply.contains("mtu = 1300") || reply.contains("mtu: 1300"))
                .then_some(())
        });
        assert!(fabric.answer(1, &format!("-M do -s 1200 {to}")).contains("1 received"), "{to}");
    }
    fabric.finish();
}

#[test]
fn switch_follows_all_kinds_of_route_changes() {
    let fabric = Fabric::new(3, "");
    let (one, two, three) = (fabric.host(1), fabric.host(2), fabric.host(3));
    for host in [two, three] {
        ip(host.namespace(), "address add 172.20.0.9/32 dev lo");
    }
    fabric.ping(1, "172.16.2.2");
    fabric.ping(1, "172.16.3.2");
    assert!(
        fabric.answer(1, "172.20.0.9").contains("Net Unreachable"),
        "a packet without a route got no answer"
    );
    let mut number = 0;
    let mut arrives = |host: &Host| {
        // The kernel forwards packets until the workers have the new routing table.
        wait_for("a datagram to arrive", || {
            number += 1;
            one.send(fabric.packet(1, [172, 20, 0, 9], number));
            thread::sleep(Duration::from_millis(20));
            let has = |host: &Host| {
                host.tap().count(|bytes| bytes.len() >= 46 && bytes[42..46] == number.to_be_bytes())
            };
            (has(host) == 1).then_some(())
        });
    };
    fabric.ip("route add 172.20.0.0/24 via 172.16.2.2");
    arrives(two);
    fabric.ip("route replace 172.20.0.0/24 via 172.16.3.2");
    arrives(three);
    fabric.ip("route add 172.20.0.9/32 via 172.16.2.2 metric 5");
    arrives(two);
    fabric.ip("route del 172.20.0.9/32");
    arrives(three);
    fabric.ip("route del 172.20.0.0/24");
    fabric.ip("nexthop add id 2 via 172.16.2.2 dev p2");
    fabric.ip("nexthop add id 3 via 172.16.3.2 dev p3");
    fabric.ip("nexthop add id 9 group 2/3");
    fabric.ip("route add 172.20.0.0/24 nhid 9");
    wait_for("a status with both next hops of the route", || {
        let page = fabric.routes();
        let row = page.routes.iter().find(|row| row.prefix == "172.20.0.0/24")?;
        (row.via.len() == 2).then_some(())
    });
    fabric.ip("nexthop del id 2"); // without a message about the route
    wait_for("a status without the removed next hop", || {
        let page = fabric.routes();
        let row = page.routes.iter().find(|row| row.prefix == "172.20.0.0/24")?;
        (row.via.len() == 1 && row.via[0].interface == "p3").then_some(())
    });
    arrives(three);
    fabric.ip("route replace blackhole 172.20.0.0/24");
    wait_for("nothing to arrive", || {
        one.send(fabric.packet(1, [172, 20, 0, 9], 0));
        (fabric.drops(1, "blackhole") > 0).then_some(())
    });
    fabric.ip("route replace unreachable 172.20.0.0/24");
    wait_for("an answer", || fabric.answer(1, "172.20.0.9").contains("Host Unreachable").then_some(()));
    let metrics = fabric.switch.get("/metrics").unwrap();
    assert!(metrics.contains("xoff_router_routes{"), "{metrics}");
    fabric.finish();
}

#[test]
fn stable_route_loses_no_frame_while_other_routes_flap() {
    let fabric = Fabric::new(3, "");
    fabric.ping(1, "172.16.2.2");
    fabric.ping(1, "172.16.3.2");
    let kernel = fabric.bed.far_namespace().clone();
    let end = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&end);
    let flaps = thread::spawn(move || {
        for round in (0..).take_while(|_| !ended.load(Ordering::Relaxed)) {
            let ways = ["nexthop via 172.16.2.2", "nexthop via 172.16.2.2 nexthop via 172.16.2.2 weight 2"]
                [round % 2];
            ip(&kernel, &format!("route replace 172.21.0.0/24 {ways}"));
            ip(&kernel, &format!("route replace 172.22.{}.0/24 via 172.16.3.2", round % 50));
            thread::sleep(Duration::from_millis(10));
        }
    });
    ip(fabric.host(2).namespace(), "address add 172.21.0.9/32 dev lo");
    wait_for("the route", || fabric.answer(1, "172.21.0.9").contains("1 received").then_some(()));
    let sent = 4_000;
    for number in 0..sent {
        fabric.host(1).send(fabric.packet(1, [172, 21, 0, 9], number));
        thread::sleep(Duration::from_micros(500));
    }
    end.store(true, Ordering::Relaxed);
    flaps.join().unwrap();
    assert_eq!(
        numbers(fabric.host(2), sent as usize),
        (0..sent).collect::<Vec<u32>>(),
        "numbers of received datagrams"
    );
    let tables = fabric.switch.status().router.unwrap().tables;
    assert!(tables > 10, "{tables}");
    fabric.finish();
}

#[test]
fn switch_loses_no_frame_while_routing_daemon_restarts() {
    let fabric = Fabric::new(3, "");
    fabric.ping(1, "172.16.2.2");
    fabric.ping(1, "172.16.3.2");
    ip(fabric.host(2).namespace(), "address add 172.21.0.9/32 dev lo");
    fabric.ip("route add 172.20.0.0/14 via 172.16.2.2"); // fallback without a daemon
    let kernel = fabric.bed.far_namespace().clone();
    let daemon_routes = |verb: &str, rest: &str| {
        let own = format!("route {verb} 172.21.0.0/24 via 172.16.2.2 {rest}\n");
        many(2_000, verb, &format!("via 172.16.3.2 {rest}")) + &own
    };
    batch(&kernel, &daemon_routes("add", "proto bgp"));
    wait_for("all routes", || (fabric.switch.status().router.unwrap().routes_v4 > 2_000).then_some(()));
    wait_for("an answer", || fabric.answer(1, "172.21.0.9").contains("1 received").then_some(()));
    let begin = fabric.switch.status().router.unwrap();
    let lines = [
        daemon_routes("replace", "proto ospf"), // the first daemon is dead, another has the same routes
        daemon_routes("del", "proto ospf"),
        daemon_routes("add", "proto bgp"), // its routes coexist with those of the next daemon, and are then flushed
        daemon_routes("add", "proto isis metric 30"),
        "route flush proto bgp\n".to_owned(),
        daemon_routes("add", "proto bgp"),
        daemon_routes("del", "proto isis metric 30"),
    ];
    let (end, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (ended, is_round) = (Arc::clone(&end), Arc::clone(&rounds));
    let daemons = thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            lines.iter().for_each(|lines| batch(&kernel, lines));
            is_round.store(true, Ordering::Relaxed);
        }
    });
    let mut sent = 0;
    while sent < 4_000 || !rounds.load(Ordering::Relaxed) {
        fabric.host(1).send(fabric.packet(1, [172, 21, 0, 9], sent));
        sent += 1;
        thread::sleep(Duration::from_micros(500));
    }
    end.store(true, Ordering::Relaxed);
    daemons.join().unwrap();
    assert_eq!(
        numbers(fabric.host(2), sent as usize),
        (0..sent).collect::<Vec<u32>>(),
        "numbers of received datagrams"
    );
    let router = fabric.switch.status().router.unwrap();
    assert!(router.tables > begin.tables && router.routes_v4 > 2_000, "{router:?}");
    let to_host = router.interfaces[0].to_host - begin.interfaces[0].to_host;
    let is_seldom = to_host < u64::from(sent) / 100; // other frames to the router are few
    assert!(is_seldom, "of {sent} frames, {to_host} were passed to the kernel");
    fabric.finish();
}

#[test]
fn missed_route_messages_make_switch_read_all_routes() {
    let fabric = Fabric::new(2, "");
    fabric.ping(1, "172.16.2.2");
    // A switch stopped by SIGSTOP reads no route messages, so their buffer overflows.
    fabric.switch.signal(Signal::SIGSTOP);
    batch(fabric.bed.far_namespace(), &many(30_000, "add", "via 172.16.2.2"));
    fabric.switch.signal(Signal::SIGCONT);
    let status = wait_for("all routes", || {
        let router = fabric.switch.status().router.unwrap();
        (router.routes_v4 >= 30_000).then_some(router)
    });
    assert!(status.resyncs >= 1, "{status:?}");
    let page = fabric.routes();
    assert!(
        page.routes.len() == 10_000 && page.next == Some(10_000) && page.total > 30_000,
        "{}",
        page.total
    );
    // The kernel reports only the removal of the address, not that of the address's routes.
    fabric.ip("address del 172.16.2.1/24 dev p2");
    wait_for("none to be left", || (fabric.switch.status().router.unwrap().routes_v4 < 100).then_some(()));
    fabric.ping(1, "fd16:2::2");
    let status = fabric.switch.status();
    assert!(status.verdict.lossless || !status.verdict.unproved.is_empty(), "{:?}", status.verdict);
}

#[test]
fn removal_of_a_host_interface_affects_no_other_interface() {
    let fabric = Fabric::new(3, "");
    fabric.ping(1, "172.16.2.2");
    fabric.ip("link set p2 down");
    wait_for("the interface to be none", || {
        fabric.host(2).send(fabric.packet(2, [172, 16, 3, 2], 1));
        (fabric.drops(2, "no_router") > 0).then_some(())
    });
    fabric.ping(1, "172.16.3.2");
    fabric.ip("link set p2 up");
    fabric.ping(1, "172.16.2.2");
    fabric.bed.port(2).set_up(false).unwrap();
    wait_for("the carrier to be gone", || fabric.ip("link show p2").contains("NO-CARRIER").then_some(()));
    fabric.bed.port(2).set_up(true).unwrap();
    wait_for("the carrier to be back", || (!fabric.ip("link show p2").contains("NO-CARRIER")).then_some(()));
    fabric.ping(1, "172.16.2.2");
    fabric.ip("link del p3");
    wait_for("the message", || {
        fabric.switch.stderr().contains("the host interface p3 was deleted").then_some(())
    });
    wait_for("the removed interface to leave the router", || {
        fabric.host(3).send(fabric.packet(3, [172, 16, 2, 2], 1));
        (fabric.drops(3, "no_router") > 0).then_some(())
    });
    fabric.ping(1, "172.16.2.2");
    fabric.finish();
}

#[test]
fn renamed_host_interface_still_routes() {
    let fabric = Fabric::new(2, "");
    fabric.ping(1, "172.16.2.2");
    for line in ["link set p2 down", "link set p2 name uplink", "link set uplink up"] {
        fabric.ip(line);
    }
    for line in ["link add p2 type veth peer name other", "link set other up", "link set p2 up"] {
        fabric.ip(line);
    }
    fabric.ip("route add 172.21.0.0/16 dev p2");
    let message = "the host interface p2 was renamed to uplink";
    wait_for("the message", || fabric.switch.stderr().contains(message).then_some(()));
    fabric.ping(1, "172.16.2.2");
    fabric.ping(2, "172.16.1.2");
    let is_of_switch = |prefix: &str, interface: &str| {
        let routes = fabric.routes().routes;
        let via = routes.iter().filter(|row| row.prefix == prefix).flat_map(|row| &row.via);
        via.filter(|via| via.interface == interface).map(|via| via.is_of_switch).collect::<Vec<bool>>()
    };
    wait_for("the switch's route", || (is_of_switch("172.16.2.0/24", "uplink") == [true]).then_some(()));
    wait_for("the other's route", || (is_of_switch("172.21.0.0/16", "p2") == [false]).then_some(()));
    for line in ["link del p2", "link set uplink down", "link set uplink name p2", "link set p2 up"] {
        fabric.ip(line);
    }
    let message = "the host interface uplink was renamed back to p2";
    wait_for("the message", || fabric.switch.stderr().contains(message).then_some(()));
    assert_eq!(fabric.switch.stderr().matches("name it back").count(), 1, "{}", fabric.switch.stderr());
    fabric.ping(1, "172.16.2.2");
    fabric.finish();
}

#[test]
fn faults_of_host_interfaces_are_reported() {
    let fabric = Fabric::new(2, "");
    fabric.ping(1, "172.16.2.2");
    let state = || fabric.switch.status().router.unwrap().interfaces[1].state;
    let is = |presence: Presence| wait_for("its state", || (state() == presence).then_some(()));
    fabric.ip("link set p2 mtu 4000");
    is(Presence::Wide);
    let message = "p2: the host interface has an MTU above that of its port";
    wait_for("the message", || fabric.switch.stderr().contains(message).then_some(()));
    fabric.ip("link set p2 mtu 1500");
    is(Presence::Up);
    fabric.ip("link set p2 down");
    is(Presence::Down);
    let (code, text) = fabric.switch.health();
    assert!(code == 200 && text.contains("host interface p2: ready: the host interface is down"), "{text}");
    fabric.ip("link set p2 up");
    is(Presence::Up);
    fabric.ping(1, "172.16.2.2");
    fabric.ip("link del p2");
    is(Presence::Gone);
    let (code, text) = fabric.switch.health();
    assert!(
        code == 503 && text.contains("host interface p2: not ready: the host interface is gone"),
        "{text}"
    );
    let log = fabric.switch.stderr();
    assert!(
        log.contains("p2: the host interface is up again")
            && log.contains("the host interface p2 was deleted"),
        "{log}"
    );
    fabric.host(1).send(fabric.packet(1, [172, 16, 2, 2], 1));
    fabric.ping(1, "172.16.1.1");
    fabric.finish();
}

#[test] // proves: slow-path
fn punt_limit_protects_forwarded_frames_from_punted_frames() {
    let fabric = Fabric::new(2, "[punt]\nrate = 200\nburst = 50\n");
    fabric.ping(1, "172.16.2.2");
    let flood = (0..2_000).map(|number| fabric.packet_of(0, 1, [172, 16, 1, 1], number));
    fabric.host(1).send_all(flood, Duration::ZERO);
    let packets = (0..100).map(|number| fabric.packet(1, [172, 16, 2, 2], number));
    fabric.host(1).send_all(packets, Duration::ZERO);
    assert_eq!(numbers(fabric.host(2), 100), (0..100).collect::<Vec<u32>>());
    assert!(fabric.drops(1, "punt_limit") > 1_000);
    fabric.finish();
}

#[test]
fn router_with_missing_namespace_or_name_conflict_is_refused() {
    let bed = bed(2).build();
    let refused = |netns: &str| {
        let config = bed.config("speed = \"1G\"\nrouted = true").more(&format!("[router]\n{netns}"));
        let exit = bed.launch(&config).wait();
        assert!(!exit.status.success());
        exit.stderr
    };
    let message = refused("netns = \"no-such-namespace\"");
    assert!(message.contains("no-such-namespace") && message.contains("ip netns add"), "{message}");
    let message = refused("");
    assert!(message.contains("has the name of its device") && message.contains("netns"), "{message}");
}

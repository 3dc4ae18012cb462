// Tests for SPECIFICATION.md: devices

use std::process::{Child, Command};

use xoff_netns_tests::{Bed, Host, Switch, Traffic, frames, stream, wait_for};
use xoff_switch::Promise;
use xoff_switch::control::Link;

use crate::{BINARY, PATIENT, bed, frame};

const SMALL: &str = "[class.3]\nxoff = 2000";

const TWO: &str = "workers = [{ ports = [\"p1\", \"p2\"] }, { ports = [\"p3\"] }]";

fn ip(bed: &Bed, words: &str) {
    let output = bed.namespace().output(Command::new("ip").args(words.split(' '))).unwrap();
    assert!(output.status.success(), "ip {words}: {output:?}");
}

/// Process in a host's namespace, by whose id `ip` can name the namespace.
struct NamespaceHolder(Child);

impl NamespaceHolder {
    fn at(host: &Host) -> NamespaceHolder {
        NamespaceHolder(host.start("sleep", &["1000"]))
    }
}

impl Drop for NamespaceHolder {
    fn drop(&mut self) {
        let _ = self.0.kill(); // fails if the process has ended
        let _ = self.0.wait();
    }
}

pub fn recreate_wire(bed: &Bed, number: usize, with: &str) {
    let host = bed.host(number);
    let holder = NamespaceHolder::at(host);
    ip(bed, &format!("link add p{number}{with} type veth peer name eth0 netns {}", holder.0.id()));
    ip(bed, &format!("link set p{number} up"));
    host.run("ip", &["link", "set", "eth0", "up"]);
    host.run("ip", &["address", "add", &format!("{}/24", host.ipv4()), "dev", "eth0"]);
}

pub fn await_removal(switch: &Switch, number: usize) {
    wait_for("the device to be gone", || (switch.port(number).link == Link::Gone).then_some(()));
}

pub fn await_return(switch: &Switch, number: usize, times: u64) {
    wait_for("the port to be open again", || {
        let port = switch.port(number);
        (port.link == Link::Up && port.returns == times).then_some(())
    });
}

fn ping(from: &Host, to: &Host) {
    from.run("ip", &["neigh", "flush", "dev", "eth0"]);
    from.run("ping", &["-c", "3", "-i", "0.2", "-W", "5", &to.ipv4().to_string()]);
}

fn free_memory(switch: &Switch) -> Vec<(u64, u64)> {
    switch.status().workers.iter().map(|worker| (worker.frames_free, worker.cells_free)).collect()
}

fn assert_device_returns(remove: impl FnOnce(&Bed, &Switch), restore: impl FnOnce(&Bed)) {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"10M\"").more(SMALL));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    b.send(frame(b, a, 0, 0));
    c.send(frame(c, a, 0, 1));
    a.tap().numbered(0);
    a.tap().numbered(1);
    let free = free_memory(&switch);
    b.send(frames::pfc(b.mac(), &[(3, 65535)]));
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
    (2..=7).for_each(|number| a.send(a.to(b).tag(3, 0).numbered(number).build_len(1000)));
    wait_for("the sender to be held", || switch.class(1, 3).pause_sent.now.then_some(()));

    remove(&bed, &switch);
    await_removal(&switch, 2);
    wait_for("the sender to resume", || (!switch.class(1, 3).pause_sent.now).then_some(()));
    let (code, health) = switch.health();
    assert!(code == 503 && health.contains("\nport p2: not ready: the device p2 is gone\n"), "{health}");
    let metrics = switch.metrics();
    assert!(metrics.lines().any(|line| line == "xoff_port_gone{switch=\"xoff\",port=\"p2\"} 1"), "{metrics}");
    (8..=20).for_each(|number| a.send(frame(a, b, 3, number)));
    c.tap().numbered(20);
    let lost = switch.class(2, 3);
    assert_eq!((lost.tx_frames, lost.drops["link_down"]), (0, 6));

    restore(&bed);
    await_return(&switch, 2, 1);
    ping(a, b);
    ping(b, c);
    let port = switch.port(2);
    let device = bed.namespace().output(Command::new("ip").args(["link", "show", "dev", "p2"])).unwrap();
    let device = String::from_utf8(device.stdout).unwrap();
    assert!(device.contains(&port.mac), "it sends as the device that it has: {device}");
    assert_eq!(port.classes[3].drops["link_down"], 6, "counters of the port after its device returned");
    assert_eq!(switch.health().0, 200);
    let back = switch.metrics();
    for line in [
        "xoff_port_gone{switch=\"xoff\",port=\"p2\"} 0",
        "xoff_port_returns_total{switch=\"xoff\",port=\"p2\"} 1",
    ] {
        assert!(back.lines().any(|it| it == line), "{line}");
    }
    wait_for("all memory to be free", || (free_memory(&switch) == free).then_some(()));
    let status = switch.status();
    assert_eq!(status.verdict.ledger_balanced, Some(true));
    assert_eq!(status.verdict.unproved, ["p2: the device was gone once; its last drop counters are lost"]);
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(1), "six frames of a lossless class were dropped: {}", exit.stderr);
    for line in ["device gone; port closed", "the port's device is back; port reopened"] {
        assert!(exit.stderr.contains(line), "{line}: {}", exit.stderr);
    }
}

#[test]
fn port_reopens_on_recreated_device() {
    assert_device_returns(|bed, _| ip(bed, "link del p2"), |bed| recreate_wire(bed, 2, ""));
}

#[test] // proves: devices, check
fn device_that_returns_is_checked_as_at_switch_start() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\""));
    ip(&bed, "link del p2");
    await_removal(&switch, 2);
    ip(&bed, "tuntap add p2 mode tun");
    let refused = "port p2: not ready: the device p2 is gone, and the device of the configured name cannot be opened: port p2: p2 (tun) \
                   carries no Ethernet frames";
    wait_for("the refusal of a TUN device", || switch.health().1.contains(refused).then_some(()));
    ip(&bed, "link del p2");
    ip(&bed, "link add p2 type bridge");
    ip(&bed, "link set p2 up");
    wait_for("the port to be open again", || (switch.port(2).returns == 1).then_some(()));
    ip(&bed, "link add br0 type bridge");
    ip(&bed, "link set p1 master br0");
    ip(&bed, "link set p1 nomaster");
    wait_for("both changes", || switch.stderr().contains("taken out of bridge br0").then_some(()));
    let exit = switch.stop();
    let lines = [
        "WARN port p2: p2 (bridge) is a bridge, which consumes pauses at its own ports; make the bridge's interfaces ports",
        "the port's device was put into bridge br0, which gets no frames",
    ];
    for line in lines {
        assert_eq!(exit.stderr.matches(line).count(), 1, "{line}: {}", exit.stderr);
    }
}

#[test] // proves: verdict
fn acknowledged_device_loss_does_not_break_losslessness() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\"").switch("log = \"info\""));
    let acknowledge = || {
        let output = bed.namespace().output(Command::new(BINARY).arg("acknowledge")).unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(acknowledge(), "there is nothing to acknowledge\n");
    ip(&bed, "link del p2");
    await_removal(&switch, 2);
    let removed = "NOT PROVED: p2: the device p2 is gone; its last drop counters are lost\n";
    assert_eq!(acknowledge(), format!("there is nothing to acknowledge\n{removed}"), "it still is");
    recreate_wire(&bed, 2, "");
    await_return(&switch, 2, 1);
    let unproved = |value| format!("xoff_port_unproved{{switch=\"xoff\",port=\"p2\"}} {value}");
    let has = |line: String| switch.metrics().lines().any(|it| it == line);
    assert!(has(unproved(1)));
    let was = "p2: the device was gone once; its last drop counters are lost";
    assert_eq!(acknowledge(), format!("acknowledged: {was}\n"));
    assert!(has(unproved(0)));
    ping(bed.host(1), bed.host(2));
    let verdict = switch.status().verdict;
    assert_eq!((verdict.promise, verdict.acknowledged), (Promise::Kept, vec![was.to_owned()]));
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
    assert_eq!(
        exit.stderr.matches(was).count(),
        2,
        "the acknowledged gap is logged at another time: {}",
        exit.stderr
    );
}

#[test]
fn port_reopens_on_new_device_with_index_of_deleted_device() {
    assert_device_returns(
        |bed, _| ip(bed, "link del p2"),
        |bed| recreate_wire(bed, 2, &format!(" index {}", bed.port(2).index())),
    );
}

#[test]
fn port_reopens_on_device_from_another_namespace() {
    let away = |bed: &Bed, _: &Switch| {
        let holder = NamespaceHolder::at(bed.host(3));
        ip(bed, &format!("link set p2 netns {}", holder.0.id()));
    };
    assert_device_returns(away, |bed| {
        let readlink = bed.namespace().output(Command::new("readlink").arg("/proc/self/ns/net")).unwrap();
        assert!(readlink.status.success());
        let mut sleep = Command::new("sleep");
        sleep.arg("1000");
        let holder = NamespaceHolder(bed.namespace().spawn(sleep).unwrap());
        bed.host(3).run("ip", &["link", "set", "p2", "netns", &holder.0.id().to_string()]);
        ip(bed, "link set p2 up");
    });
}

#[test]
fn other_ports_lose_no_frame_when_a_port_device_returns() {
    const TIMES: u64 = 8;
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"100M\"").switch(PATIENT).switch(TWO));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    let free = free_memory(&switch);
    let traffic = Traffic::at_mbps(100)
        .source(a, &[stream(c, 3, "40M", 30_000)])
        .source(c, &[stream(a, 3, "40M", 30_000)])
        .start();
    traffic.wait_received(100);
    for times in 1..=TIMES {
        ip(&bed, "link del p2");
        await_removal(&switch, 2);
        recreate_wire(&bed, 2, "");
        await_return(&switch, 2, times);
    }
    assert!(traffic.received() < 60_000, "the load continues");
    traffic.finish().assert_lossless(&[3]);
    ping(b, c);
    wait_for("all memory to be free", || (free_memory(&switch) == free).then_some(()));
    let status = switch.status();
    assert_eq!((status.verdict.lossless_lost, status.verdict.ledger_balanced), (0, Some(true)));
    for port in [1, 3] {
        let port = switch.port(port);
        assert_eq!(
            (port.xdp_statistics.unwrap().lost(), port.device_drops.unwrap().lost()),
            (0, 0),
            "{port:?}"
        );
    }
    // The verdict may also be "not proved": frames flooded to the deleted device are lost with its counters.
    let exit = switch.stop();
    assert!(
        [Some(1), Some(3)].contains(&exit.status.code()),
        "exit code is neither 1 (not kept) nor 3 (not proved): {}",
        exit.stderr
    );
}

#[test]
fn switch_survives_removal_of_all_its_devices() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\""));
    let (a, b) = (bed.host(1), bed.host(2));
    ping(a, b);
    for (times, removed) in [(1, [1].as_slice()), (2, &[1, 2]), (3, &[2, 1])] {
        removed.iter().for_each(|number| ip(&bed, &format!("link del p{number}")));
        removed.iter().for_each(|&number| await_removal(&switch, number));
        removed.iter().for_each(|&number| recreate_wire(&bed, number, ""));
        removed
            .iter()
            .for_each(|&number| await_return(&switch, number, if number == 1 { times } else { times - 1 }));
        ping(a, b);
        ping(b, a);
    }
    assert_eq!(switch.status().verdict.ledger_balanced, Some(true));
    switch.stop();
}

#[test]
fn port_reopens_on_device_with_more_queues() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\""));
    ip(&bed, "link del p2");
    await_removal(&switch, 2);
    recreate_wire(&bed, 2, " numrxqueues 2");
    wait_for("the port to be open again", || (switch.port(2).link == Link::Up).then_some(()));
    assert_eq!(switch.port(2).queues, 2);
    ping(bed.host(1), bed.host(2));
    switch.stop();
}

#[test]
fn port_reopens_once_its_device_fits_the_configuration() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\""));
    ip(&bed, "link del p2");
    await_removal(&switch, 2);
    recreate_wire(&bed, 2, " mtu 1000");
    let refused = "port p2 has an MTU of 1500, but its device p2 has an MTU of 1000";
    wait_for("it to be refused", || switch.stderr().contains(refused).then_some(()));
    let (code, text) = switch.health();
    assert_eq!(code, 503);
    assert!(text.contains("the device of the configured name cannot be opened: "), "{text}");
    ip(&bed, "link set p2 mtu 1500");
    wait_for("the port to be open again", || (switch.port(2).link == Link::Up).then_some(()));
    ping(bed.host(1), bed.host(2));
    let reports = switch.stderr().matches("cannot be opened").count();
    assert_eq!(reports, 1, "the failure is logged at each attempt: {}", switch.stderr());
    switch.stop();
}

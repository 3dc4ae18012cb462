// Tests for SPECIFICATION.md: own-stack

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use xoff_netns_tests::{Bed, Config, Switch, wait_for};
use xoff_switch::control::Link;

use crate::device_returns::{await_removal, await_return, recreate_wire};
use crate::{BINARY, bed, frame};

fn ip(bed: &Bed, words: &str) -> String {
    let output = bed.namespace().output(Command::new("ip").args(words.split(' '))).unwrap();
    assert!(output.status.success(), "ip {words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn with_ipv6() -> Bed {
    let bed = bed(2).build();
    ip(&bed, "link set p1 down");
    for device in ["p1", "default"] {
        bed.namespace().sysctl(&format!("ipv6/conf/{device}/disable_ipv6"), "0").unwrap();
    }
    assert_eq!(own_addresses(&bed), "eui64");
    bed
}

fn start(bed: &Bed) -> Switch {
    bed.start(&bed.config("speed = \"1G\""))
}

fn own_addresses(bed: &Bed) -> String {
    let link = ip(bed, "-details link show dev p1");
    let mode = link.split("addrgenmode ").nth(1).expect("the host has no IPv6 address");
    mode.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn kernel_sends_nothing_on_a_port_of_the_switch() {
    let bed = with_ipv6();
    let switch = start(&bed);
    let (a, b) = (bed.host(1), bed.host(2));
    let await_link = |link| wait_for("the link", || (switch.port(1).link == link).then_some(()));
    for number in [1, 2] {
        await_link(Link::Up);
        b.send(frame(b, a, 3, number));
        a.tap().numbered(number);
        assert_eq!(own_addresses(&bed), "none");
        assert_eq!(ip(&bed, "-6 -oneline address show dev p1"), "");
        ip(&bed, "link set p1 down");
        await_link(Link::Down);
        ip(&bed, "link set p1 up");
    }
    assert_eq!(switch.port(1).xdp_statistics.unwrap().tx_held_back, 0);
    assert_eq!(a.tap().matching(|bytes| bytes[12..14] == [0x86, 0xdd]), []);
    bed.finish(switch);
    assert_eq!(own_addresses(&bed), "eui64");
    assert!(!ip(&bed, "link show dev p1").contains(",UP"), "it was down");
    assert_eq!(ip(&bed, "-6 -oneline address show dev p1"), "");
}

#[test]
fn egress_filter_removed_by_others_is_attached_again() {
    let bed = bed(2).build();
    let switch = start(&bed);
    let tc = |words: &str| {
        let output = bed.namespace().output(Command::new("tc").args(words.split(' '))).unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let is_there = || tc("filter show dev p1 egress").contains("xoff_hold_back");
    assert!(is_there());
    for (times, removal) in (1..).zip(["filter del dev p1 egress", "qdisc del dev p1 clsact"]) {
        tc(removal);
        wait_for("the removal to be noticed", || (switch.port(1).filter_detached == times).then_some(()));
        assert!(is_there(), "{removal}");
    }
    let exit = switch.stop();
    assert_eq!(
        exit.stderr.matches("another program removed the egress filter").count(),
        2,
        "{}",
        exit.stderr
    );
    assert!(!tc("qdisc show dev p1").contains("clsact"));
}

#[test]
fn next_switch_restores_ipv6_address_mode_of_killed_switch() {
    let bed = with_ipv6();
    for killed in 0..2 {
        start(&bed).kill();
        assert_eq!(own_addresses(&bed), "none", "address mode after {killed} killed switches");
    }
    start(&bed).stop();
    assert_eq!(own_addresses(&bed), "eui64");
    ip(&bed, "link set p1 addrgenmode none");
    start(&bed).kill();
    start(&bed).stop();
    assert_eq!(own_addresses(&bed), "none");
}

fn state(bed: &Bed) -> String {
    let qdiscs = bed.namespace().output(Command::new("tc").args(["qdisc", "show", "dev", "p1"])).unwrap();
    ip(bed, "-details link show dev p1") + &String::from_utf8(qdiscs.stdout).unwrap()
}

#[test] // proves: host-guard
fn next_switch_restores_ipv6_mode_after_kill_during_start() {
    let bed = with_ipv6();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("switch.toml");
    fs::write(&file, bed.config("speed = \"1G\"").to_string()).unwrap();
    let before = state(&bed);
    for moment in [10, 30, 40, 50, 60, 70, 100] {
        let mut command = Command::new(BINARY);
        command.arg("run").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = bed.namespace().spawn(command).unwrap();
        thread::sleep(Duration::from_millis(moment));
        child.kill().unwrap();
        child.wait().unwrap();
        start(&bed).stop();
        assert_eq!(state(&bed), before, "killed after {moment} ms");
    }
}

#[test] // proves: host-guard
fn next_switch_restores_ipv6_mode_after_mac_address_changed() {
    let bed = with_ipv6();
    let switch = start(&bed);
    ip(&bed, "link set p1 address 02:00:00:00:00:77");
    switch.kill();
    assert_eq!(own_addresses(&bed), "none");
    start(&bed).stop();
    assert_eq!(own_addresses(&bed), "eui64");
}

#[test] // proves: host-guard
fn agent_restores_ipv6_address_mode_of_killed_switch() {
    let bed = with_ipv6();
    let before = state(&bed);
    let nic = |arguments: &str| {
        let mut command = Command::new(BINARY);
        command.arg("nic").args(arguments.split_whitespace()).stdout(Stdio::null());
        bed.namespace().spawn(command).unwrap()
    };
    for mode in ["native", "generic"] {
        bed.start(&bed.config(&format!("speed = \"1G\"\nmode = \"{mode}\""))).kill();
        assert!(nic("restore --device p1").wait().unwrap().success());
        assert_eq!(state(&bed), before, "{mode}, restored");
    }
    start(&bed).kill();
    let mut agent = nic("--device p1 --speed 1G --http off");
    wait_for("the agent's queues", || state(&bed).contains("qdisc htb 786e:").then_some(()));
    kill(Pid::from_raw(agent.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(agent.wait().unwrap().success());
    assert_eq!(state(&bed), before, "address mode after an agent's run");
}

#[test]
fn kernel_gives_no_ipv6_address_to_recreated_port_device() {
    let bed = with_ipv6();
    let switch = start(&bed);
    ip(&bed, "link del p1");
    await_removal(&switch, 1);
    recreate_wire(&bed, 1, "");
    await_return(&switch, 1, 1);
    assert_eq!(own_addresses(&bed), "none");
    switch.stop();
    assert_eq!(own_addresses(&bed), "eui64");
}

/// Returns the error of `xoff check`, which `xoff run` must repeat.
fn refused_by_both(bed: &Bed, config: &Config) -> String {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("switch.toml");
    fs::write(&file, config.to_string()).unwrap();
    let [check, run] = ["check", "run"].map(|command| {
        let mut command_line = Command::new(BINARY);
        let Output { status, stderr, .. } =
            bed.namespace().output(command_line.arg(command).arg(&file)).unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{command}: {stderr}");
        stderr
    });
    assert_eq!(check, run);
    let mut command = Command::new(BINARY);
    let command = command.args(["check", "--elsewhere"]).arg(&file);
    assert!(bed.namespace().output(command).unwrap().status.success());
    check
}

#[test] // proves: check
fn device_that_the_machine_needs_is_refused_as_port() {
    let bed = bed(2).build();
    let config = bed.config("speed = \"1G\"");
    let refused = |config: &Config, words: &[&str]| {
        let message = refused_by_both(&bed, config);
        for words in words {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
    };
    let loopback = config.clone().more("[[port]]\nname = \"p9\"\ndevice = \"lo\"");
    refused(&loopback, &["port p9: lo is the machine's loopback", "no cable", "switch.toml:"]);
    ip(&bed, "link add br0 type bridge");
    ip(&bed, "link set p2 master br0");
    refused(
        &config,
        &["port p2: p2 belongs to bridge br0, which would lose this interface", "ip link set p2 nomaster"],
    );
    ip(&bed, "link set p2 nomaster");
    bed.namespace().sysctl("ipv6/conf/p1/disable_ipv6", "0").unwrap();
    ip(&bed, "address add 10.9.9.1/24 dev p1");
    ip(&bed, "address add fd09::1/64 dev p1 nodad");
    for gateway in ["10.9.9.2", "fd09::2"] {
        let family = if gateway.contains(':') { "-6" } else { "-4" };
        ip(&bed, &format!("{family} route add default via {gateway} dev p1"));
        refused(&config, &["the machine's default route uses p1", "ip route del default dev p1"]);
        ip(&bed, &format!("{family} route del default via {gateway} dev p1"));
    }
    // The switch refuses a port with an advertised default route only if the port's device has an address.
    let advertised = "via fe80::42 dev p1 proto ra";
    ip(&bed, &format!("-6 route add default {advertised}"));
    refused(&config, &["the machine's default route uses p1", "ip route del default dev p1"]);
    ip(&bed, &format!("-6 route del default {advertised}"));
    let switch = bed.start(&config);
    let exit = switch.stop();
    let warning =
        "port p1: p1 has the address 10.9.9.1 (and 1 more), which is unreachable while the switch runs";
    assert!(exit.stderr.contains(warning), "{}", exit.stderr);
    ip(&bed, "address del 10.9.9.1/24 dev p1");
    ip(&bed, "address del fd09::1/64 dev p1");
    ip(&bed, &format!("-6 route add default {advertised}"));
    bed.start(&config).stop();
}

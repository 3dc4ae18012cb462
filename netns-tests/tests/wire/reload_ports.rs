// Tests for SPECIFICATION.md: reload

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use xoff_netns_tests::{Bed, Config, Host, Switch, Traffic, frames, stream, unstalled, wait_for};

use crate::reload::reload;
use crate::{BINARY, PATIENT, bed, frame};

fn config(ports: u8) -> Config {
    at("100M", ports)
}

/// Returns a configuration with lines so slow that a pause lasts over three seconds.
fn slow(ports: u8) -> Config {
    at("10M", ports)
}

fn at(speed: &str, ports: u8) -> Config {
    Config::new(ports, &format!("speed = {speed:?}")).switch(PATIENT).switch("spare_ports = 1")
}

fn assert_reloaded(bed: &Bed, switch: &Switch, config: &Config, change: &str) {
    switch.write(config);
    let (done, text) = reload(bed, &[]);
    assert!(done && text.contains(change), "{text}");
}

fn device(bed: &Bed, name: &str) -> String {
    let output = bed.namespace().output(Command::new("ip").args(["-details", "link", "show", "dev", name]));
    String::from_utf8(output.unwrap().stdout).unwrap()
}

fn ping(from: &Host, to: &Host) {
    from.run("ping", &["-c", "2", "-i", "0.2", "-W", "5", &to.ipv4().to_string()]);
}

fn free_memory(switch: &Switch) -> Vec<(u64, u64)> {
    switch.status().workers.iter().map(|worker| (worker.frames_free, worker.cells_free)).collect()
}

#[test] // proves: reload, devices
fn reload_accepts_new_name_of_a_renamed_device() {
    let bed = bed(2).build();
    let switch = bed.start(&config(2));
    let ip = |words: &str| {
        let output = bed.namespace().output(Command::new("ip").args(words.split(' '))).unwrap();
        assert!(output.status.success(), "ip {words}: {output:?}");
    };
    ["link set p2 down", "link set p2 name other", "link set other up"].into_iter().for_each(ip);
    let device = |number: usize| switch.port(number).device;
    wait_for("the new name", || (device(2) == "other").then_some(()));
    let named = |name: &str| {
        let text = config(2).to_string().replace("device = \"p2\"", &format!("device = {name:?}"));
        std::fs::write(switch.config_file(), text).unwrap();
        reload(&bed, &[])
    };
    let (done, text) = named("absent");
    assert!(!done && text.contains("port \"p2\": device: p2 -> absent"), "{text}");
    let (done, text) = named("other");
    assert!(done && text.contains("port \"p2\": device: p2 -> other"), "{text}");
    let (done, text) = named("other");
    assert!(done && text.contains("no changes"), "{text}");
    let exit = switch.stop();
    for words in
        ["its former name is p2; the next start needs the new name", "port \"p2\": device: p2 -> other"]
    {
        assert!(exit.stderr.contains(words), "{words}: {}", exit.stderr);
    }
}

#[test]
fn adding_and_removing_ports_under_load_is_lossless() {
    for workers in ["workers = 1", "workers = 2"] {
        unstalled(|| {
            let bed = bed(5).build();
            let config = |ports| config(ports).switch(workers);
            let found = device(&bed, "p5");
            let switch = bed.start(&config(4));
            let free = free_memory(&switch);
            let [a, b, sink, other, late] = [1, 2, 3, 4, 5].map(|number| bed.host(number));
            let much = [stream(sink, 3, "90M", 6_000)];
            let traffic = Traffic::at_mbps(100).sink(sink).source(a, &much).source(b, &much).start();
            for round in 1..=4 {
                traffic.wait_received(round * 2_000);
                assert_reloaded(&bed, &switch, &config(5), "port \"p5\": none -> p5");
                wait_for("its link", || {
                    (switch.port(5).link == xoff_switch::control::Link::Up).then_some(())
                });
                assert!(device(&bed, "p5").contains("prog/xdp"));
                ping(late, other);
                assert_eq!(switch.health().0, 200);
                assert_reloaded(&bed, &switch, &config(4), "port \"p5\": p5 -> none");
                assert_eq!(device(&bed, "p5"), found, "the removed port's device is not restored");
                let status = switch.status();
                assert!(status.ports.iter().map(|port| &port.name).eq(["p1", "p2", "p3", "p4"]));
                assert!(!switch.metrics().contains("port=\"p5\""));
            }
            traffic.finish().assert_lossless(&[3]);
            wait_for("all memory to be free", || (free_memory(&switch) == free).then_some(()));
            bed.finish(switch);
        });
    }
}

const TOO_MANY: u32 = 10_000;

/// The rings of the new port overflow before the switch has opened it.
#[test]
fn frames_that_arrive_before_port_is_added_count_as_no_loss() {
    unstalled(|| {
        let bed = bed(8).build();
        let (to, late) = (bed.host(1), bed.host(3));
        let entry = format!("[[fdb.static]]\nmac = \"{}\"\nport = \"p1\"", to.mac());
        let config = |ports| {
            let config = Config::new(ports, "speed = \"100M\"").switch(PATIENT).switch("spare_ports = 6");
            config.more(&entry)
        };
        let switch = bed.start(&config(2));
        let mut number = 0;
        let mut send = |count| {
            for _ in 0..count {
                late.send(late.to(to).tag(3, 0).numbered(number).build_len(1000));
                number += 1;
            }
            number
        };
        let early = loop {
            let open = switch.stderr().matches("port open").count();
            switch.write(&config(8));
            let mut early = None;
            let mut reload = Command::new(BINARY);
            reload.arg("reload").stdout(Stdio::null());
            let mut reload = bed.namespace().spawn(reload).unwrap();
            while reload.try_wait().unwrap().is_none() {
                if early.is_none() && device(&bed, "p3").contains("prog/xdp") {
                    switch.halt(); // while other ports are being opened
                    let is_adopted = switch.stderr().matches("port open").count() > open;
                    early = Some((!is_adopted).then(|| send(TOO_MANY)));
                    switch.signal(Signal::SIGCONT);
                }
            }
            assert!(reload.wait().unwrap().success());
            if let Some(Some(early)) = early {
                break early;
            }
            assert_reloaded(&bed, &switch, &config(2), "port \"p3\": p3 -> none");
        };
        wait_for("its link", || (switch.port(3).link == xoff_switch::control::Link::Up).then_some(()));
        for _ in 0..100 {
            send(1);
            thread::sleep(Duration::from_millis(1)); // no faster than the line
        }
        let end = send(0);
        to.tap().numbered(end - 1);
        assert_eq!(to.tap().numbers(), (early..end).collect::<Vec<u32>>());
        let port = switch.port(3);
        assert_eq!(port.classes[3].rx_frames, 100, "frames from before the port was added count as lost");
        assert_eq!((port.xdp_statistics.unwrap().lost(), port.device_drops.unwrap().lost()), (0, 0));
        let status = switch.status();
        let verdict = &status.verdict;
        assert_eq!((verdict.lossless_lost, verdict.unseen_lost, verdict.ledger_balanced), (0, 0, Some(true)));
        let exit = switch.stop();
        assert!(exit.status.success(), "{}", exit.stderr);
    });
}

#[test]
fn frames_that_arrive_while_port_is_removed_count_as_no_loss() {
    let bed = bed(3).build();
    let switch = bed.start(&config(2));
    let (a, leaving) = (bed.host(1), bed.host(3));
    for _ in 0..5 {
        assert_reloaded(&bed, &switch, &config(3), "port \"p3\": none -> p3");
        wait_for("its link", || (switch.port(3).link == xoff_switch::control::Link::Up).then_some(()));
        switch.write(&config(2));
        let mut reload = Command::new(BINARY);
        reload.arg("reload");
        bed.watched_by(reload, |_| (0..20).for_each(|number| leaving.send(frame(leaving, a, 3, number))));
    }
    let exit = switch.stop();
    assert!(exit.status.success(), "{}", exit.stderr);
}

#[test]
fn removed_port_sends_xon_and_drains_its_queues() {
    let bed = bed(4).build();
    let small = |ports| slow(ports).more("[class.3]\nxoff = 2000");
    let switch = bed.start(&small(4));
    let (a, b, leaving) = (bed.host(1), bed.host(2), bed.host(4));
    for (host, number) in [(b, 0), (leaving, 1)] {
        host.send(frame(host, a, 0, number));
        a.tap().numbered(number);
    }
    b.send(frames::pfc(b.mac(), &[(3, 65535)]));
    leaving.send(frames::pfc(leaving.mac(), &[(3, 65535)]));
    wait_for("the pauses", || {
        [2, 4].iter().all(|&port| switch.class(port, 3).pause_received.xoff == 1).then_some(())
    });
    (2..=7).for_each(|number| leaving.send(leaving.to(b).tag(3, 0).numbered(number).build_len(1000)));
    wait_for("its peer to be held", || switch.class(4, 3).pause_sent.now.then_some(()));
    (8..=10).for_each(|number| a.send(frame(a, leaving, 3, number)));
    wait_for("frames for it", || (switch.class(1, 3).rx_frames == 3).then_some(()));
    leaving.tap().clear();
    switch.write(&small(3));
    let mut reload = Command::new(BINARY);
    reload.arg("reload");
    // Let the peer send XON only after the switch has sent XON.
    let is_let_go = |bytes: &[u8]| frames::pfc_time(bytes, 3) == Some(0);
    let mut lets_go = true;
    bed.watched_by(reload, |_| {
        if leaving.tap().count(is_let_go) > 0 && std::mem::take(&mut lets_go) {
            leaving.send(frames::pfc(leaving.mac(), &[(3, 0)]));
        }
    });
    assert!(leaving.tap().count(is_let_go) > 0);
    (8..=10).for_each(|number| drop(leaving.tap().numbered(number)));
    b.send(frames::pfc(b.mac(), &[(3, 0)]));
    (2..=7).for_each(|number| drop(b.tap().numbered(number)));
    bed.finish(switch);
}

#[test]
fn paused_port_is_removed_at_once_with_counted_drops() {
    let bed = bed(3).build();
    let switch = bed.start(&slow(3));
    let (a, b, leaving) = (bed.host(1), bed.host(2), bed.host(3));
    leaving.send(frame(leaving, a, 0, 0));
    a.tap().numbered(0);
    leaving.send(frames::pfc(leaving.mac(), &[(3, 65535)]));
    wait_for("the pause", || switch.class(3, 3).pause_received.now.then_some(()));
    (1..=4).for_each(|number| a.send(frame(a, leaving, 3, number)));
    wait_for("frames to wait", || (switch.class(1, 3).rx_frames == 4).then_some(()));
    switch.write(&slow(2));
    let mut reload = Command::new(BINARY);
    reload.arg("reload");
    bed.watched_by(reload, |_| leaving.send(frames::pfc(leaving.mac(), &[(3, 65535)])));
    assert_eq!(switch.status().ports.len(), 2);
    a.send(frame(a, b, 3, 5));
    b.tap().numbered(5);
    assert_eq!(switch.status().verdict.lossless_lost, 4);
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(1), "{}", exit.stderr);
    let message = "port p3: 4 lossless frames of class 3 were dropped by the removal";
    assert!(exit.stderr.contains(message), "{}", exit.stderr);
}

#[test]
fn refused_change_of_ports_leaves_switch_unchanged() {
    let bed = bed(3).build();
    let with = |ports, xoff: u32| config(ports).more(&format!("[class.3]\nxoff = {xoff}"));
    let switch = bed.start(&with(2, 100_000));
    let free = free_memory(&switch);
    let refused = |config: &Config, why: &str| {
        switch.write(config);
        let (done, text) = reload(&bed, &[]);
        assert!(!done && text.contains("nothing was changed") && text.contains(why), "{text}");
        assert_eq!((switch.status().ports.len(), switch.class(1, 3).ingress.xoff_bytes), (2, 100_000));
    };
    refused(&with(3, 90_000).port(3, "mtu = 9000"), "but its device p3 has an MTU of 1500");
    refused(&with(4, 90_000), "need `spare_ports`");
    let missing = with(2, 90_000).more("[[port]]\nname = \"x\"\ndevice = \"veth7\"");
    refused(&missing, "port x: no interface veth7");
    let third = Config::new(0, "speed = \"100M\"").more("[[port]]\nname = \"p3\"\ndevice = \"p3\"");
    let other = bed.launch(&third.switch("http = \"127.0.0.1:9465\""));
    wait_for("the other switch", || device(&bed, "p3").contains("prog/xdp").then_some(()));
    refused(&with(3, 90_000), "the added port p3 cannot be opened: another xoff (process ");
    assert!(other.stop().status.success());
    assert_reloaded(&bed, &switch, &with(3, 90_000), "port \"p3\": none -> p3");
    assert_reloaded(&bed, &switch, &with(2, 90_000), "port \"p3\": p3 -> none");
    wait_for("all memory to be free", || (free_memory(&switch) == free).then_some(()));
    bed.finish(switch);
}

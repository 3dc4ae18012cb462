#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering::Relaxed;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use xoff_config::{Config, Machine};
use xoff_netlink::packet_route::link::Prop;

use super::*;
use crate::confine::{Confinement, Privileges};
use crate::control::mailbox::Inbox;
use crate::control::testing::{device, view, view_on};
use crate::control::tests::FickleDriver;
use crate::control::{opener, start};
use xoff_lab::{Lab, VethOptions};

fn take(inbox: &Inbox) -> Request {
    let mut wake = [PollFd::new(inbox.fd(), PollFlags::POLLIN)];
    loop {
        if let Some(request) = inbox.take() {
            return request;
        }
        assert_eq!(poll(&mut wake, PollTimeout::from(20_000u16)).unwrap(), 1, "no request came");
        inbox.acknowledge();
    }
}

fn next(inbox: &Inbox) -> (PortId, bool) {
    match take(inbox) {
        Request::Link { port, up } => (port, up),
        request => panic!("{request:?}"),
    }
}

#[test]
fn control_thread_reports_every_link_change_to_workers() {
    let mut lab = Lab::new();
    let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
    for port in ["l0", "r0"] {
        lab.veth(switch.end(port), host.end(port), &VethOptions::default()).unwrap();
    }
    let index = |name| {
        let mut devices = lab.devices().iter();
        let device = devices.find(|it| it.name() == name && it.namespace().name() == "switch");
        device.unwrap().index()
    };
    let (view, inbox) = view_on([index("l0"), index("r0")]);
    let (left, right) = (PortId(0), PortId(1));
    let peer = lab.devices().iter().find(|it| it.name() == "r0" && it.namespace().name() == "host").unwrap();
    peer.set_up(false).unwrap();
    let _control =
        switch.run(|| start(Arc::clone(&view), None, None, None, &Confinement::default(), ())).unwrap();
    assert_eq!(next(&inbox), (right, false));
    assert_eq!((view.ports[0].link.get(), view.ports[1].link.get()), (Link::Up, Link::Down));
    peer.set_up(true).unwrap();
    assert_eq!(next(&inbox), (right, true));
    assert_eq!(view.ports[1].link.get(), Link::Up);
    let mut delete = std::process::Command::new("ip");
    assert!(host.output(delete.args(["link", "del", "l0"])).unwrap().status.success());
    assert_eq!(next(&inbox), (left, false));
}

#[test]
fn port_reports_device_gone_only_if_its_sockets_confirm_that() {
    let (mut view, inbox) = view();
    let driver = FickleDriver::default();
    let is_missing = Arc::clone(&driver.is_missing);
    Arc::get_mut(&mut view).unwrap().ports[0] = PortView::new("l0", 0, device(7, driver));
    let mut links = Links::new(Arc::clone(&view), None).unwrap();
    links.lost(7);
    assert_eq!(view.ports[0].link.get(), Link::Up);
    is_missing.store(true, Relaxed);
    links.lost(7);
    assert_eq!(view.ports[0].link.get(), Link::Gone);
    assert_eq!(next(&inbox), (PortId(0), false), "worker was not notified of the lost link");
    assert!(inbox.take().is_none());
}

#[test] // proves: devices
fn port_keeps_its_device_after_the_device_is_renamed() {
    let mut lab = Lab::new();
    let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
    lab.veth(switch.end("l0"), host.end("l0"), &VethOptions::default()).unwrap();
    let index = lab.devices().iter().find(|it| it.namespace().name() == "switch").unwrap().index();
    let (view, inbox) = view_on([index; 2]);
    let _control =
        switch.run(|| start(Arc::clone(&view), None, None, None, &Confinement::default(), ())).unwrap();
    for words in ["link set l0 down", "link set l0 name other", "link set other up"] {
        let output = switch.output(std::process::Command::new("ip").args(words.split(' '))).unwrap();
        assert!(output.status.success(), "ip {words}: {output:?}");
    }
    while !next(&inbox).1 {}
    assert_eq!(view.ports[0].device.get(), "other");
    let status = crate::control::snapshot(&view, &[]);
    assert_eq!((status.ports[0].name.as_str(), status.ports[0].device.as_str()), ("left", "other"));
}

#[test] // proves: devices
fn port_opened_by_alternative_name_shows_main_device_name() {
    let (mut view, _inbox) = view();
    Arc::get_mut(&mut view).unwrap().ports[0] =
        PortView::new("enp9s0", 0, device(7, FickleDriver::default()));
    let mut links = Links::new(Arc::clone(&view), None).unwrap();
    let mut link = xoff_netlink::link_at(7);
    link.attributes = vec![
        LinkAttribute::IfName("eth0".into()),
        LinkAttribute::PropList(vec![Prop::AltIfName("enp9s0".into()), Prop::AltIfName("other".into())]),
    ];
    assert_eq!(alternative_names(&link), ["enp9s0", "other"]);
    assert!(is_renamed("eth1", &link) && !is_renamed("enp9s0", &link));
    links.found(&link);
    assert_eq!(view.ports[0].device.get(), "eth0");
}

#[test] // proves: reload
fn port_removed_while_device_returns_is_closed() {
    const FILE: &str = r#"port = [{ name = "left", device = "l0", speed = "1G" }, { name = "right", device = "r0", speed = "1G" }]"#;
    let mut lab = Lab::new();
    let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
    lab.veth(switch.end("l0"), host.end("l0"), &VethOptions::default()).unwrap();
    let (mut view, inbox) = view();
    let driver = FickleDriver::default();
    driver.is_missing.store(true, Relaxed);
    Arc::get_mut(&mut view).unwrap().ports[0] = PortView::new("l0", 0, device(7, driver));
    view.ports[0].link.set(Link::Gone);
    let config = Config::from_toml("test", FILE, Machine::default()).unwrap();
    let (opener, _thread) = switch.run(|| opener::start(&config, &Privileges::Keep).unwrap());
    let worker = std::thread::spawn({
        let view = Arc::clone(&view);
        move || {
            let Request::Adopt { opened, done, .. } = take(&inbox) else { panic!("not adopted") };
            view.ports[0].removed();
            done.send(()).unwrap();
            let Request::GiveUp { port: PortId(0), done, .. } = take(&inbox) else {
                panic!("port stays at worker")
            };
            done.send(Some(opened)).unwrap();
        }
    });
    let mut links = Links::new(Arc::clone(&view), Some(opener.clone())).unwrap();
    links.open(PortId(0));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let opened = runtime.block_on(links.opening.next()).unwrap();
    assert!(!links.opened(opened));
    worker.join().unwrap();
    assert_eq!((view.ports[0].is_there(), view.ports[0].returns.get()), (false, 0));
    let again = runtime.block_on(opener.open(PortId(0))).unwrap();
    assert!(again.is_ok(), "port was not closed, so its queue is busy: {again:?}");
}

#[test] // proves: link-down
fn port_stays_open_when_its_device_leaves_a_kernel_bridge() {
    let mut lab = Lab::new();
    let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
    for port in ["l0", "r0"] {
        lab.veth(switch.end(port), host.end(port), &VethOptions::default()).unwrap();
    }
    let ip = |words: &str| {
        let output = switch.output(std::process::Command::new("ip").args(words.split(' '))).unwrap();
        assert!(output.status.success(), "ip {words}: {output:?}");
    };
    ip("link add br0 type bridge");
    ip("link set l0 master br0");
    let index = |name| {
        let mut devices = lab.devices().iter();
        devices.find(|it| it.name() == name && it.namespace().name() == "switch").unwrap().index()
    };
    let (view, inbox) = view_on([index("l0"), index("r0")]);
    let _control =
        switch.run(|| start(Arc::clone(&view), None, None, None, &Confinement::default(), ())).unwrap();
    ip("link set l0 nomaster");
    ip("link set r0 down"); // reported after everything about l0
    assert_eq!(next(&inbox), (PortId(1), false));
    assert_eq!(view.ports[0].link.get(), Link::Up);
}

#[test] // proves: devices
fn kernel_bridge_over_port_device_is_known_until_device_leaves() {
    let mut lab = Lab::new();
    let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
    let (device, _peer) = lab.veth(switch.end("l0"), host.end("l0"), &VethOptions::default()).unwrap();
    let ip = |words: &str| {
        let output = switch.output(std::process::Command::new("ip").args(words.split(' '))).unwrap();
        assert!(output.status.success(), "ip {words}: {output:?}");
    };
    let (view, _inbox) = view_on([device.index(), 99]);
    let mut links = switch.run(|| Links::new(Arc::clone(&view), None).unwrap());
    ip("link add br0 type bridge");
    for (words, master) in [
        ("link set br0 up", None),
        ("link set l0 master br0", Some("bridge br0")),
        ("link set l0 mtu 1400", Some("bridge br0")),
        ("link set l0 nomaster", None),
    ] {
        ip(words);
        links.read_all();
        assert_eq!(links.masters.get(&device.index()).map(String::as_str), master, "after ip {words}");
    }
}

#[test]
fn queue_changes_of_other_devices_reopen_no_port() {
    let changed = |ifindex, rx_queues| QueueEvent::Changed { ifindex, rx_queues };
    let other_device = [changed(8, 4), changed(9, 1)];
    assert_eq!(changed_meanwhile(&other_device, 7, 2), None);
    assert_eq!(
        changed_meanwhile(&[changed(7, 2)], 7, 2),
        None,
        "the number of queues at the opening must not count as a change"
    );
    assert_eq!(changed_meanwhile(&[changed(8, 4), changed(7, 4), changed(7, 2)], 7, 2), Some(4));
    assert_eq!(
        changed_meanwhile(&[QueueEvent::Missed], 7, 2),
        Some(2),
        "missed events must cause a reopening"
    );
}

#[test] // proves: devices
fn device_mtu_below_port_mtu_is_reported_as_fault() {
    let mut lab = Lab::new();
    let (switch, host) = (lab.namespace("switch").unwrap(), lab.namespace("host").unwrap());
    let (device, peer) = lab.veth(switch.end("l0"), host.end("l0"), &VethOptions::default()).unwrap();
    let (view, inbox) = view_on([device.index(), 99]);
    let _control =
        switch.run(|| start(Arc::clone(&view), None, None, None, &Confinement::default(), ())).unwrap();
    let mut is_up = true;
    let mut fault_at = |mtu: &str| {
        let mut set = std::process::Command::new("ip");
        assert!(switch.output(set.args(["link", "set", "l0", "mtu", mtu])).unwrap().status.success());
        is_up = !is_up;
        peer.set_up(is_up).unwrap(); // its notification comes after that of the MTU
        while next(&inbox) != (PortId(0), is_up) {}
        view.ports[0].short_mtu.get()
    };
    let fault = fault_at("1499").unwrap();
    let words = "l0 has an MTU of 1499, the port one of 1500: the device drops longer frames (`rx_dropped`); run \
                 `ip link set l0 mtu 1500`";
    assert_eq!(fault, words);
    assert_eq!(fault_at("1500"), None);
}

// Tests for SPECIFICATION.md: lossless

use xoff_netns_tests::{Bed, Host, Switch, Traffic, frames, stream, unstalled, wait_for};

use crate::{PATIENT, bed};

fn pause(host: &Host, switch: &Switch, classes: &[u8]) {
    host.send(host.to(host).numbered(0).build()); // learned
    send_pfc(host, classes, u16::MAX);
    wait_for("the pause", || {
        let port = switch.port(usize::from(host.number()));
        classes.iter().all(|&class| port.classes[usize::from(class)].pause_received.now).then_some(())
    });
}

fn send_pfc(host: &Host, classes: &[u8], quanta: u16) {
    let times: Vec<(u8, u16)> = classes.iter().map(|&class| (class, quanta)).collect();
    host.send(frames::pfc(host.mac(), &times));
}

fn send(bed: &Bed, switch: &Switch, (from, to): (usize, usize), class: u8, counted: usize) {
    let index = usize::from(class);
    let before = switch.class(from, index).rx_frames;
    let (from_host, to_host) = (bed.host(from), bed.host(to));
    from_host.send(from_host.to(to_host).tag(class, 0).numbered(1).build_len(counted - 4));
    wait_for("the frame", || (switch.class(from, index).rx_frames > before).then_some(()));
}

fn is_held(switch: &Switch, port: usize, class: usize) -> bool {
    switch.class(port, class).pause_sent.now
}

fn await_pfc(host: &Host, class: u8, quanta: u16) {
    host.tap().wait(1, |frame| frames::pfc_time(frame, class) == Some(quanta));
}

#[test] // proves: p-pfc
fn p_pfc_pauses_ports_that_feed_congested_queue() {
    let bed = bed(4).build();
    let thresholds = "[class.3]\nxoff = 20000\negress_xoff = 3000\negress_xon = 2000";
    let config = bed.config("speed = \"10M\"").switch("policy = \"p-pfc\"").more(thresholds);
    let switch = bed.start(&config);
    pause(bed.host(3), &switch, &[3]);
    send(&bed, &switch, (1, 3), 3, 1_500);
    send(&bed, &switch, (2, 3), 3, 1_500);
    assert!(!is_held(&switch, 1, 3) && !is_held(&switch, 2, 3), "a port was paused at the threshold");
    send(&bed, &switch, (2, 3), 3, 64);
    await_pfc(bed.host(1), 3, u16::MAX);
    await_pfc(bed.host(2), 3, u16::MAX);
    assert!(!is_held(&switch, 4, 3), "a port that does not feed the queue was paused");
    send_pfc(bed.host(3), &[3], 0);
    await_pfc(bed.host(1), 3, 0);
    await_pfc(bed.host(2), 3, 0);
    let status = bed.finish(switch);
    for port in &status.ports[..2] {
        assert_eq!((port.classes[3].pause_sent.xoff, port.classes[3].pause_sent.xon), (1, 1));
    }
}

#[test] // proves: g-pfc
fn g_pfc_pauses_lower_classes_before_congested_class() {
    let bed = bed(3).build();
    let config = bed
        .config("speed = \"10M\"\nlossless = [1, 3, 4]")
        .switch("policy = \"g-pfc\"")
        .more("[class.3]\nxoff = 4000\nxon = 3000");
    let switch = bed.start(&config);
    pause(bed.host(2), &switch, &[3]);
    send(&bed, &switch, (1, 2), 3, 1_000);
    send(&bed, &switch, (1, 2), 3, 999);
    assert!(!is_held(&switch, 1, 1), "the policy acted a byte below half of XOFF");
    send(&bed, &switch, (1, 2), 3, 64);
    await_pfc(bed.host(1), 1, u16::MAX);
    let of_port = switch.port(1);
    let now: Vec<bool> = of_port.classes.iter().map(|class| class.pause_sent.now).collect();
    assert_eq!(now.iter().filter(|now| **now).count(), 1, "class 3 or 4 is still paused: {now:?}");
    send(&bed, &switch, (1, 2), 3, 1_500);
    send(&bed, &switch, (1, 2), 3, 1_500);
    await_pfc(bed.host(1), 3, u16::MAX);
    send_pfc(bed.host(2), &[3], 0);
    await_pfc(bed.host(1), 3, 0);
    await_pfc(bed.host(1), 1, 0);
    let status = bed.finish(switch);
    for class in [1, 3] {
        let sent = status.ports[0].classes[class].pause_sent;
        assert_eq!((sent.xoff, sent.xon, sent.now), (1, 1, false), "class {class}");
    }
    assert_eq!(status.ports[0].classes[4].pause_sent.xoff, 0);
}

fn rate_step(bytes: &[u8], class: u8) -> Option<u8> {
    let named = frames::is_pfc(bytes) && bytes[34..38] == *b"GFC1" && bytes[38] >> class & 1 == 1;
    named.then(|| bytes[40 + usize::from(class)])
}

#[test] // proves: gfc
fn gfc_switch_slows_its_peer_before_it_pauses_the_class() {
    let bed = bed(2).build();
    let config = bed
        .config("speed = \"10M\"\ngfc_peer = true")
        .switch("policy = \"gfc\"")
        .more("[class.3]\nxoff = 4000\nxon = 3000");
    let switch = bed.start(&config);
    pause(bed.host(2), &switch, &[3]);
    send(&bed, &switch, (1, 2), 3, 1_000);
    send(&bed, &switch, (1, 2), 3, 999);
    assert_eq!(
        switch.class(1, 3).requested_rate_bits_per_second,
        None,
        "the policy acted a byte below half of XOFF"
    );
    send(&bed, &switch, (1, 2), 3, 64);
    bed.host(1).tap().wait(1, |frame| rate_step(frame, 3) == Some(1) && frame[17] == 0);
    assert_eq!(switch.class(1, 3).requested_rate_bits_per_second, Some(5_000_000));
    send(&bed, &switch, (1, 2), 3, 1_000);
    bed.host(1).tap().wait(1, |frame| rate_step(frame, 3) == Some(2));
    assert!(!is_held(&switch, 1, 3), "the peer was paused instead of slowed down");
    send(&bed, &switch, (1, 2), 3, 1_000);
    await_pfc(bed.host(1), 3, u16::MAX);
    send_pfc(bed.host(2), &[3], 0);
    await_pfc(bed.host(1), 3, 0);
    bed.host(1).tap().wait(1, |frame| rate_step(frame, 3) == Some(0));
    let status = bed.finish(switch);
    assert_eq!(status.ports[0].classes[3].requested_rate_bits_per_second, None);
    assert!(status.ports[0].rate_frames_sent >= 3);
}

#[test] // proves: gfc
fn gfc_switch_sends_rate_frames_only_to_gfc_peers() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"10M\"").port(1, "gfc_peer = true"));
    let request_rate = |number: usize, step: u8| {
        let host = bed.host(number);
        let mut bytes = frames::pfc(host.mac(), &[]);
        bytes[34..39].copy_from_slice(b"GFC1\x08");
        bytes[43] = step;
        bytes[48..50].copy_from_slice(&[0xff, 0xff]);
        host.send(bytes);
        wait_for("the frame", || (switch.port(number).pfc_frames_received > 0).then_some(()));
    };
    request_rate(2, 2);
    request_rate(1, 2);
    wait_for("a quarter", || {
        (switch.class(1, 3).rate_obeyed_bits_per_second == Some(2_500_000)).then_some(())
    });
    assert_eq!(switch.class(2, 3).rate_obeyed_bits_per_second, None, "a port without GFC received a rate");
    request_rate(1, 0);
    wait_for("no limit", || switch.class(1, 3).rate_obeyed_bits_per_second.is_none().then_some(()));
    let status = bed.finish(switch);
    assert_eq!([0, 1].map(|port: usize| status.ports[port].rate_frames_received), [2, 0]);
}

fn incast(policy: &str, parameters: &str) {
    unstalled(|| {
        let bed = bed(3).build();
        let config = bed.config("speed = \"200M\"\nlossless = [3, 4]").switch(PATIENT);
        let switch = bed.start(&config.switch(&format!("policy = {policy:?}")).more(parameters));
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let offered = [stream(sink, 3, "100M", 3_000), stream(sink, 4, "100M", 3_000)];
        let reports = Traffic::at_mbps(200).sink(sink).source(a, &offered).source(b, &offered).run();
        reports.assert_lossless(&[3, 4]);
        let status = bed.finish(switch);
        for port in &status.ports[..2] {
            let pauses: Vec<_> = port.classes.iter().map(|class| class.pause_sent).collect();
            assert!(pauses.iter().any(|sent| sent.xoff > 0), "host {} was never paused", port.name);
            assert!(
                pauses.iter().all(|sent| sent.xoff == sent.xon && !sent.now),
                "{}: {pauses:?}",
                port.name
            );
        }
    });
}

#[test]
fn incast_is_lossless_with_p_pfc() {
    incast("p-pfc", "");
}

#[test]
fn incast_is_lossless_with_predictive_p_pfc() {
    incast("p-pfc", "[policy.p-pfc]\nprediction = \"1ms\"");
}

#[test]
fn incast_is_lossless_with_g_pfc() {
    incast("g-pfc", "");
}

#[test]
fn incast_is_lossless_with_gfc() {
    incast("gfc", "");
}

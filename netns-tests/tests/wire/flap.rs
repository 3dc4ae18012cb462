use std::process::Command;

use nix::sys::signal::Signal;
use xoff_netns_tests::{Bed, Switch, Traffic, frames, stream, wait_for};
use xoff_switch::control::Link;

use crate::{bed, frame};

fn flap(bed: &Bed, switch: &Switch, port: usize) {
    for (up, link) in [(false, Link::Down), (true, Link::Up)] {
        bed.port(port).set_up(up).unwrap();
        wait_for("the link to change", || (switch.port(port).link == link).then_some(()));
    }
}

#[test] // proves: link-down
fn other_ports_lose_no_frame_if_one_link_is_down_at_start() {
    let bed = bed(3).build();
    bed.host(3).device().set_up(false).unwrap();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    assert_eq!(switch.port(3).link, Link::Down);
    let (a, b) = (bed.host(1), bed.host(2));
    (1..=10).for_each(|number| a.send(frame(a, b, 3, number)));
    b.tap().numbered(10);
    assert_eq!(switch.port(3).device_drops.unwrap().tx_dropped, 0);
    bed.host(3).device().set_up(true).unwrap();
    wait_for("the link", || (switch.port(3).link == Link::Up).then_some(()));
    bed.finish(switch);
}

#[test]
fn link_flap_ends_pause_that_the_port_received() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"10M\""));
    let (a, b) = (bed.host(1), bed.host(2));
    b.send(frames::pfc(b.mac(), &[(3, 65535)]));
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
    flap(&bed, &switch, 2);
    assert!(!switch.class(2, 3).pause_received.now);
    (1..=10).for_each(|number| a.send(frame(a, b, 3, number)));
    b.tap().numbered(10);
    assert_eq!(b.tap().numbers(), (1..=10).collect::<Vec<_>>());
    b.send(frame(b, a, 3, 11));
    a.tap().numbered(11);
    bed.finish(switch);
}

#[test]
fn link_flap_makes_switch_resend_xoff_of_paused_class() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"10M\"").more("[class.3]\nxoff = 2000"));
    let (a, b) = (bed.host(1), bed.host(2));
    let xoffs = || a.tap().count(|frame| frames::pfc_time(frame, 3) == Some(65535));
    b.send(frame(b, a, 0, 0)); // learned
    b.send(frames::pfc(b.mac(), &[(3, 65535)]));
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
    (1..=3).for_each(|number| a.send(a.to(b).tag(3, 0).numbered(number).build_len(1000)));
    wait_for("an XOFF", || (xoffs() == 1).then_some(()));
    flap(&bed, &switch, 1);
    wait_for("another XOFF", || (xoffs() > 1).then_some(()));

    b.send(frames::pfc(b.mac(), &[(3, 0)]));
    b.tap().numbered(3);
    a.tap().wait(1, |frame| frames::pfc_time(frame, 3) == Some(0));
    (4..=9).for_each(|number| a.send(frame(a, b, 3, number)));
    b.tap().numbered(9);
    assert_eq!(b.tap().numbers(), (1..=9).collect::<Vec<_>>());
    let status = bed.finish(switch);
    assert!(!status.ports[0].classes[3].pause_sent.now);
}

#[test] // proves: link-down
fn port_drops_queued_frames_when_its_device_is_deleted() {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"10M\"").more("[class.3]\nxoff = 2000"));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    b.send(frame(b, a, 0, 0));
    c.send(frame(c, a, 0, 1));
    a.tap().numbered(0);
    a.tap().numbered(1);
    switch.signal(Signal::SIGSTOP);
    (2..=7).for_each(|number| a.send(a.to(b).tag(3, 0).numbered(number).build_len(1000)));
    let mut delete = Command::new("ip");
    assert!(
        bed.namespace().output(delete.args(["link", "del", bed.port(2).name()])).unwrap().status.success()
    );
    switch.signal(Signal::SIGCONT);
    wait_for("the device to be gone", || (switch.port(2).link == Link::Gone).then_some(()));
    wait_for("the frames to be dropped", || (switch.class(1, 3).ingress.bytes == 0).then_some(()));
    let lost = switch.class(2, 3);
    assert_eq!(lost.tx_frames + lost.drops["link_down"], 6);
    assert!(!switch.class(1, 3).pause_sent.now);
    (8..=20).for_each(|number| a.send(frame(a, c, 3, number)));
    c.tap().numbered(20);
    assert!(switch.status().verdict.ledger_balanced == Some(true));
}

#[test]
fn no_frames_are_queued_at_port_without_link() {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"10M\"\nlossless = []"));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    b.send(frame(b, a, 0, 0));
    b.send(frames::pfc(b.mac(), &[(3, 65535)]));
    a.tap().numbered(0);
    (1..=4).for_each(|number| a.send(frame(a, b, 1, number)));
    b.tap().numbered(4);
    bed.port(2).set_up(false).unwrap();
    wait_for("the link to go down", || (switch.port(2).link == Link::Down).then_some(()));
    (5..=8).for_each(|number| a.send(frame(a, b, 1, number)));
    c.tap().numbered(8);
    bed.port(2).set_up(true).unwrap();
    wait_for("the link to come up", || (switch.port(2).link == Link::Up).then_some(()));
    a.send(frame(a, b, 1, 9));
    b.tap().numbered(9);
    assert_eq!(b.tap().numbers(), [1, 2, 3, 4, 9]);
    bed.finish(switch);
}

#[test] // proves: link-down
fn host_sends_remaining_frames_after_its_link_returns() {
    const FRAMES: u64 = 2_000;
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\"\nlossless = []"));
    let (a, b) = (bed.host(1), bed.host(2));
    let traffic = Traffic::at_mbps(100).sink(b).source(a, &[stream(b, 0, "50M", FRAMES)]).start();
    traffic.wait_received(100);
    a.device().set_up(false).unwrap();
    let mut sample = ((0, 0), 0);
    wait_for("it to be stuck", || {
        let now = (traffic.sent(), traffic.received());
        sample = if now == sample.0 { (now, sample.1 + 1) } else { (now, 0) };
        (sample.1 == 20).then_some(())
    });
    let (sent, received) = sample.0;
    assert!(sent < FRAMES, "a frame was sent while the link was down");
    a.device().set_up(true).unwrap();
    let reports = traffic.finish();
    // Frames in the device may be lost at link loss, so host b may miss some.
    let got = reports.received(a, 0, b);
    assert_eq!(reports.of(a).sent[0].frames, FRAMES);
    assert!(got.lost <= sent - received, "{} of {} frames in flight were lost", got.lost, sent - received);
    assert_eq!((got.frames + got.lost, got.duplicated, got.reordered), (FRAMES, 0, 0));
    let status = switch.status();
    assert_eq!(status.verdict.ledger_balanced, Some(true));
    assert_eq!(
        status.ports[1].classes[0].tx_frames, status.ports[0].classes[0].rx_frames,
        "the switch lost frames"
    );
    let _ = switch.stop();
}

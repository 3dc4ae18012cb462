use std::process::Command;

use xoff_netns_tests::{Bed, Switch, Traffic, frames, stream, wait_for};

use crate::{PATIENT, bed, frame};

/// Thresholds that two frames of 1000 bytes reach. The longest pause at 10 Mb/s lasts 3.4 s.
const SMALL: &str = "[class.3]\nxoff = 2000\n[class.4]\nxoff = 2000";

fn programs(bed: &Bed) -> usize {
    let output = bed.namespace().output(Command::new("ip").args(["-o", "link"])).unwrap();
    String::from_utf8(output.stdout).unwrap().matches("prog/xdp").count()
}

fn start_with_held_sender(bed: &Bed) -> Switch {
    let switch = bed.start(&bed.config("speed = \"10M\"\nlossless = [3, 4]").more(SMALL));
    let (a, b) = (bed.host(1), bed.host(2));
    b.send(frame(b, a, 0, 0)); // learned
    b.send(frames::pfc(b.mac(), &[(3, 65535), (4, 65535)]));
    wait_for("the pause", || switch.class(2, 4).pause_received.now.then_some(()));
    for class in [3, 4] {
        (1..=3).for_each(|number| a.send(a.to(b).tag(class, 0).numbered(number).build_len(1000)));
        a.tap().wait(1, |frame| frames::pfc_time(frame, class).is_some_and(|time| time > 0));
    }
    switch
}

#[test]
fn stopping_switch_sends_xon_for_classes_that_it_paused() {
    let bed = bed(2).build();
    let switch = start_with_held_sender(&bed);
    let a = bed.host(1);
    assert_eq!(a.tap().count(|frame| frames::pfc_time(frame, 3) == Some(0)), 0);
    let exit = switch.stop();
    for class in [3, 4] {
        a.tap().wait(1, |frame| frames::pfc_time(frame, class) == Some(0));
    }
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
    assert_eq!(programs(&bed), 0);
    bed.assert_no_drops();
}

#[test]
fn stopping_switch_sends_no_xon_if_no_peer_is_paused() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"10M\""));
    let (a, b) = (bed.host(1), bed.host(2));
    a.send(frame(a, b, 3, 1));
    b.tap().numbered(1);
    bed.finish(switch);
    for host in [a, b] {
        assert_eq!(host.tap().count(|frame| frames::has_type(frame, frames::MAC_CONTROL)), 0);
    }
}

#[test]
fn restarted_switch_forgets_received_pauses() {
    let bed = bed(2).build();
    start_with_held_sender(&bed).stop();
    let (a, b) = (bed.host(1), bed.host(2));
    a.tap().clear();
    let switch = bed.start(&bed.config("speed = \"10M\"\nlossless = [3, 4]").more(SMALL));
    (11..=15).for_each(|number| a.send(frame(a, b, 3, number)));
    b.tap().numbered(15);
    assert_eq!(b.tap().numbers(), (11..=15).collect::<Vec<_>>());
    assert_eq!(a.tap().count(frames::is_pfc), 0);
    bed.finish(switch);
}

/// Kills a switch that pauses host 1. The queued frames are lost, and no XON is sent.
fn kill_while_sender_is_held(mode: &str) {
    let bed = bed(2).build();
    let config = bed.config(&format!("speed = \"100M\"\nmode = \"{mode}\"")).switch(PATIENT);
    let switch = bed.start(&config);
    let (a, b) = (bed.host(1), bed.host(2));
    let traffic = Traffic::at_mbps(100).sink(b).source(a, &[stream(b, 3, "line", 16_000)]).start();
    traffic.wait("the sender to be held", || {
        b.send(frames::pfc(b.mac(), &[(3, 65535)]));
        switch.class(1, 3).pause_sent.now
    });
    switch.kill();
    let sent = traffic.sent();
    traffic.wait("the sender to resume by itself", || traffic.sent() > sent + 1_000);

    let again = bed.start(&config);
    let received = traffic.received();
    traffic.wait("frames through the new switch", || traffic.received() > received + 1_000);
    let reports = traffic.finish();
    let stream = reports.received(a, 0, b);
    assert_eq!((stream.duplicated, stream.reordered), (0, 0));
    let status = again.status();
    assert!(status.verdict.lossless, "{status:#?}");
    let exit = again.stop();
    assert!(exit.status.success(), "{}", exit.stderr);
    assert_eq!(programs(&bed), 0);
}

#[test]
fn peers_of_killed_switch_resume_when_pauses_expire() {
    kill_while_sender_is_held("native");
}

#[test]
fn next_switch_replaces_xdp_program_of_killed_switch() {
    kill_while_sender_is_held("generic");
}

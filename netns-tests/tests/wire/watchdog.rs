//! The watchdog against pause storms from `xoff traffic pause`. The longest pause at 100 Mb/s is 335 ms; detection takes
//! longer.

// Tests for SPECIFICATION.md: watchdog

use std::process::Child;

use xoff_netns_tests::{Bed, Host, Switch, frames, wait_for};
use xoff_switch::control::status::WatchdogStatus;

use crate::{BINARY, bed, frame};

const DETECT_NANOS: u64 = 400_000_000;
const RESTORE_NANOS: u64 = 200_000_000;

fn start_watched(action: &str) -> (Bed, Switch) {
    let bed = bed(2).build();
    let class = format!(
        "[class.3]\nxoff = 10000\nwatchdog = \"{action}\"\nwatchdog_detect = \"400ms\"\nwatchdog_restore = \"200ms\""
    );
    let switch = bed.start(&bed.config("speed = \"100M\"").more(&class));
    bed.host(2).send(frame(bed.host(2), bed.host(1), 0, 0));
    bed.host(1).tap().numbered(0);
    (bed, switch)
}

fn storm(host: &Host, pause: &str, more: &[&str]) -> Child {
    let args = ["traffic", "pause", "--device", host.device().name(), "--pause", pause];
    host.start(BINARY, &[&args, more].concat())
}

fn watchdog(switch: &Switch) -> WatchdogStatus {
    switch.class(2, 3).watchdog.expect("the class has no watchdog")
}

fn wait_for_pause(switch: &Switch) {
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
}

fn send_large(bed: &Bed, numbers: std::ops::RangeInclusive<u32>) {
    let (a, b) = (bed.host(1), bed.host(2));
    for number in numbers {
        let mut bytes = frame(a, b, 3, number);
        bytes.resize(1_000, 0);
        a.send(bytes);
    }
}

fn end_storm(switch: &Switch, mut storm: Child) -> WatchdogStatus {
    storm.kill().unwrap();
    storm.wait().unwrap();
    wait_for("the end of the storm", || Some(watchdog(switch)).filter(|it| !it.storm))
}

#[test]
fn watchdog_drops_only_frames_of_class_in_storm() {
    let (bed, switch) = start_watched("drop");
    let (a, b) = (bed.host(1), bed.host(2));
    let child = storm(b, "3=65535", &["--every", "50ms", "--duration", "1min"]);
    wait_for_pause(&switch);
    send_large(&bed, 1..=20);
    wait_for("XOFF to the sender", || (switch.class(1, 3).pause_sent.xoff > 0).then_some(()));
    let begun = wait_for("the storm", || {
        let class = switch.class(2, 3);
        let watchdog = class.watchdog.filter(|it| it.storm)?;
        Some((class.pause_received.nanos, watchdog))
    });
    let (paused_nanos, counters) = begun;
    let storm = counters.last.unwrap();
    assert!(paused_nanos - storm.began_nanos_ago >= DETECT_NANOS, "{paused_nanos} {storm:?}");
    assert_eq!((counters.storms, counters.dropped, storm.dropped, storm.forwarded), (1, 20, 20, 0));
    assert!(!switch.class(1, 3).pause_sent.now, "the sender resumes");

    // The watchdog drops new frames of the class at once, so they pause no sender.
    send_large(&bed, 21..=60);
    wait_for("the drops", || (watchdog(&switch).dropped == 60).then_some(()));
    a.send(frame(a, b, 0, 100));
    b.tap().numbered(100);
    assert_eq!(b.tap().numbers(), [100], "numbers of received frames; the class in the storm sends none");
    assert_eq!(switch.class(1, 3).pause_sent.xoff, 1);
    let status = switch.status();
    assert_eq!(status.ports[1].classes[3].drops["paused_discard"], 60);
    assert_eq!((status.verdict.lossless, status.verdict.lossless_lost), (false, 60));
    assert_eq!(status.verdict.ledger_balanced, Some(true));

    let after = end_storm(&switch, child);
    assert!(after.last.unwrap().nanos >= RESTORE_NANOS, "{after:?}");
    send_large(&bed, 201..=210);
    b.tap().numbered(210);
    assert_eq!((watchdog(&switch).dropped, watchdog(&switch).storms), (60, 1));
    assert!(
        switch.metrics().contains("xoff_watchdog_storms_total{switch=\"xoff\",port=\"p2\",class=\"3\"} 1")
    );
    wait_for("the log", || switch.stderr().contains("the pause storm is over").then_some(()));
    let exit = switch.stop();
    assert_eq!(exit.stderr.matches("pause storm: the peer keeps the class paused").count(), 1);
    let line = exit.stderr.lines().find(|line| line.contains("the pause storm is over")).unwrap();
    assert!(line.contains("with 60 frames dropped and 0 forwarded") && line.contains("port=p2"), "{line}");
    assert_eq!(exit.status.code(), Some(1), "frames of a lossless class were lost");
}

#[test]
fn watchdog_drops_nothing_in_pause_shorter_than_detect_time() {
    let (bed, switch) = start_watched("drop");
    let child = storm(bed.host(2), "3=65535", &[]);
    wait_for_pause(&switch);
    (1..=20).for_each(|number| bed.host(1).send(frame(bed.host(1), bed.host(2), 3, number)));
    bed.host(2).tap().numbered(20);
    assert!(child.wait_with_output().unwrap().status.success());
    let counters = watchdog(&switch);
    assert_eq!((counters.storms, counters.dropped, counters.last), (0, 0, None));
    bed.finish(switch);
}

#[test]
fn pause_of_class_without_queued_frames_is_no_storm() {
    let (bed, switch) = start_watched("drop");
    let (a, b) = (bed.host(1), bed.host(2));
    let child = storm(b, "3=65535", &["--every", "50ms", "--duration", "1min"]);
    wait_for("a long pause", || {
        a.send(frame(a, b, 0, 1)); // another class
        (switch.class(2, 3).pause_received.nanos > 3 * DETECT_NANOS).then_some(())
    });
    assert_eq!(end_storm(&switch, child).storms, 0);
    b.send(frames::pfc(b.mac(), &[(3, 0)]));
    a.send(frame(a, b, 3, 2));
    b.tap().numbered(2);
    bed.finish(switch);
}

#[test]
fn watchdog_with_action_forward_sends_in_a_pause_storm() {
    let (bed, switch) = start_watched("forward");
    let child = storm(bed.host(2), "3=65535", &["--every", "50ms", "--duration", "1min"]);
    wait_for_pause(&switch);
    send_large(&bed, 1..=20);
    bed.host(2).tap().numbered(20);
    let class = switch.class(2, 3);
    assert!(class.pause_received.now && class.watchdog.unwrap().storm);
    let after = end_storm(&switch, child);
    assert_eq!((after.storms, after.dropped, after.forwarded), (1, 0, 20));
    assert!(bed.finish(switch).verdict.lossless);
}

use xoff_netns_tests::{Bed, Exit, Host, Switch, frames, wait_for};
use xoff_switch::control::status::IngressStatus;

use crate::bed;

const CLASS: u8 = 3;
/// Speed at which the longest pause lasts 3.4 s.
const SLOW: &str = "speed = \"10M\"";
const SMALL: &str = "[class.3]\nxoff = 3000\nxon = 1500\nheadroom = 3000";

fn start_paused() -> (Bed, Switch) {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config(SLOW).more(SMALL));
    for number in [2, 3] {
        let host = bed.host(number);
        host.send(host.to(bed.host(1)).numbered(0).build()); // learned
        host.send(frames::pfc(host.mac(), &[(CLASS, 65535)]));
        wait_for("the pause", || switch.class(number, 3).pause_received.now.then_some(()));
    }
    (bed, switch)
}

fn send(from: &Host, to: &Host, counted: usize) {
    from.send(from.to(to).tag(CLASS, 0).numbered(1).build_len(counted - 4));
}

fn fill(bed: &Bed, switch: &Switch, to: usize, sizes: &[usize]) -> IngressStatus {
    let before = switch.class(1, 3).rx_frames;
    sizes.iter().for_each(|&size| send(bed.host(1), bed.host(to), size));
    let all = before + sizes.len() as u64;
    wait_for("the frames", || {
        let class = switch.class(1, 3);
        (class.rx_frames == all).then_some(class.ingress)
    })
}

fn xoffs(host: &Host) -> usize {
    host.tap().count(|frame| frames::pfc_time(frame, CLASS).is_some_and(|time| time > 0))
}

fn xons(host: &Host) -> usize {
    host.tap().count(|frame| frames::pfc_time(frame, CLASS) == Some(0))
}

fn resume(host: &Host) {
    host.send(frames::pfc(host.mac(), &[(CLASS, 0)]));
}

#[test] // proves: thresholds
fn xoff_threshold_is_exact_to_the_byte() {
    let (bed, switch) = start_paused();
    let (a, b) = (bed.host(1), bed.host(2));
    assert_eq!(fill(&bed, &switch, 2, &[1000, 1000, 999]).bytes, 2999);
    assert_eq!(
        (xoffs(a), switch.class(1, 3).pause_sent.now),
        (0, false),
        "the peer was paused one byte below XOFF"
    );
    resume(b);
    wait_for("the frames to leave", || (switch.class(1, 3).ingress.bytes == 0).then_some(()));
    assert_eq!((xoffs(a), xons(a)), (0, 0), "no XON without XOFF");

    b.send(frames::pfc(b.mac(), &[(CLASS, 65535)]));
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
    assert_eq!(fill(&bed, &switch, 2, &[1000, 1000, 1000]).bytes, 3000);
    a.tap().wait(1, |frame| frames::pfc_time(frame, CLASS) == Some(65535));
    assert_eq!((xoffs(a), switch.class(1, 3).pause_sent.now), (1, true));

    resume(b);
    a.tap().wait(1, |frame| frames::pfc_time(frame, CLASS) == Some(0));
    b.tap().wait(6, |frame| frames::sequence(frame) == Some(1));
    let status = bed.finish(switch);
    let pauses = status.ports[0].classes[3].pause_sent;
    assert_eq!((pauses.xoff, pauses.xon, pauses.now), (1, 1, false));
}

#[test] // proves: headroom
fn headroom_takes_exactly_its_configured_bytes() {
    let (bed, switch) = start_paused();
    let b = bed.host(2);
    let full = fill(&bed, &switch, 2, &[1000; 5]);
    assert_eq!((full.bytes, full.headroom_free_min_bytes), (5000, Some(1000)));
    assert_eq!(fill(&bed, &switch, 2, &[1001]).bytes, 5000, "a frame one byte beyond the headroom was kept");
    let full = fill(&bed, &switch, 2, &[1000]);
    assert_eq!(
        (full.bytes, full.headroom_free_min_bytes),
        (6000, Some(0)),
        "a frame that fits exactly into the headroom was lost"
    );
    assert_eq!(fill(&bed, &switch, 2, &[64]).bytes, 6000);

    let class = switch.class(1, 3);
    assert_eq!((class.drops["headroom_exhausted"], class.lost), (2, 2));
    resume(b);
    b.tap().wait(6, |frame| frames::sequence(frame) == Some(1));
    let status = switch.status();
    assert_eq!((status.verdict.lossless, status.verdict.lossless_lost), (false, 2));
    assert_eq!((status.verdict.unseen_lost, status.verdict.ledger_balanced), (0, Some(true)));
    let Exit { status, stderr, .. } = switch.stop();
    assert_eq!(status.code(), Some(1), "the log does not report the lost lossless frame:\n{stderr}");
    bed.assert_no_drops();
}

#[test] // proves: thresholds
fn sender_stays_paused_until_queue_is_below_xon_threshold() {
    for (left, released) in [(1500, false), (1499, true)] {
        let (bed, switch) = start_paused();
        let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
        fill(&bed, &switch, 2, &[left]);
        assert_eq!(fill(&bed, &switch, 3, &[1000, 1000]).bytes, left as u64 + 2000);
        a.tap().wait(1, |frame| frames::pfc_time(frame, CLASS) == Some(65535));

        resume(c);
        c.tap().wait(2, |frame| frames::sequence(frame) == Some(1));
        wait_for("two frames to be gone", || (switch.class(1, 3).ingress.bytes == left as u64).then_some(()));
        assert_eq!(
            switch.class(1, 3).pause_sent.now,
            !released,
            "the peer was resumed at {left} bytes, not below XON"
        );
        if released {
            a.tap().wait(1, |frame| frames::pfc_time(frame, CLASS) == Some(0));
        }
        assert_eq!(xons(a), usize::from(released));
        resume(b);
        a.tap().wait(1, |frame| frames::pfc_time(frame, CLASS) == Some(0));
        bed.finish(switch);
    }
}

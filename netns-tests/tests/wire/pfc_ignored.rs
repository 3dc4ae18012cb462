// Tests for SPECIFICATION.md: pause-modes

use std::collections::BTreeMap;

use xoff_netns_tests::frames::{self, Frame, MAC_CONTROL, PAUSE_ADDRESS};
use xoff_netns_tests::{Bed, Switch, wait_for};
use xoff_wire::units::MacAddr;

use crate::{bed, frame};

const ALL_AT_MAXIMUM: [(u8, u16); 8] =
    [(0, 65535), (1, 65535), (2, 65535), (3, 65535), (4, 65535), (5, 65535), (6, 65535), (7, 65535)];

fn start(defaults: &str) -> (Bed, Switch) {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config(&format!("speed = \"1M\"\n{defaults}")));
    (bed, switch)
}

fn assert_nothing_paused(bed: &Bed, switch: &Switch) {
    let (a, b) = (bed.host(1), bed.host(2));
    (0..8).for_each(|class| a.send(frame(a, b, class, class.into())));
    (0..8).for_each(|class| _ = b.tap().numbered(class));
    for class in switch.port(2).classes {
        let pause = class.pause_received;
        assert_eq!((pause.now, pause.nanos), (false, 0), "class {}", class.class);
    }
    b.send(frame(b, a, 0, 99));
    a.tap().numbered(99);
    assert_eq!(a.tap().count(|bytes| frames::ether_type(bytes) == MAC_CONTROL), 0);
}

fn await_malformed(switch: &Switch, malformed: &[(&str, u64)]) {
    let expected: BTreeMap<String, u64> =
        malformed.iter().map(|&(why, count)| (why.to_owned(), count)).collect();
    wait_for("MAC control to be counted", || {
        let mut counted = switch.port(2).malformed_control;
        counted.retain(|_, count| *count > 0);
        (counted == expected).then_some(())
    });
}

#[test] // proves: pause-timing
fn pfc_frame_without_enabled_class_pauses_nothing() {
    let (bed, switch) = start("");
    let b = bed.host(2);
    let mut bytes = frames::pfc(b.mac(), &ALL_AT_MAXIMUM);
    bytes[17] = 0;
    b.send(bytes);
    wait_for("the frame", || (switch.port(2).pfc_frames_received == 1).then_some(()));
    assert_nothing_paused(&bed, &switch);
    bed.finish(switch);
}

#[test]
fn received_xon_for_unpaused_class_changes_nothing() {
    let (bed, switch) = start("pause = \"asymmetric\"");
    let b = bed.host(2);
    b.send(frames::pfc(b.mac(), &ALL_AT_MAXIMUM.map(|(class, _)| (class, 0))));
    wait_for("the frame", || (switch.class(2, 7).pause_received.xon == 1).then_some(()));
    assert_nothing_paused(&bed, &switch);
    bed.finish(switch);
}

#[test]
fn pfc_port_ignores_802_3x_storm() {
    let (bed, switch) = start("");
    let b = bed.host(2);
    (0..500).for_each(|_| b.send(frames::pause(b.mac(), 65535)));
    wait_for("the storm", || (switch.port(2).pause_frames_received == 500).then_some(()));
    assert_eq!(switch.port(2).pause_frames_ignored, 500);
    assert_nothing_paused(&bed, &switch);
    bed.finish(switch);
}

#[test]
fn malformed_pfc_frame_pauses_nothing() {
    let (bed, switch) = start("");
    let (a, b) = (bed.host(1), bed.host(2));
    let good = frames::pfc(b.mac(), &ALL_AT_MAXIMUM);
    for opcode in [0x0002_u16, 0x0100, 0x1001, 0xffff] {
        b.send([&good[..14], &opcode.to_be_bytes(), &good[16..]].concat());
    }
    await_malformed(&switch, &[("unknown_opcode", 4)]);
    for destination in [a.mac(), MacAddr([0x01, 0, 0x5e, 0, 0, 1]), frames::BROADCAST] {
        b.send([&destination.0, &good[6..]].concat());
    }
    await_malformed(&switch, &[("unknown_opcode", 4), ("wrong_destination", 3)]);
    for len in [15, 17, 33] {
        b.send(&good[..len]);
    }
    await_malformed(&switch, &[("unknown_opcode", 4), ("wrong_destination", 3), ("truncated", 3)]);
    b.send(Frame::new(b.mac(), PAUSE_ADDRESS).tag(3, 0).payload(MAC_CONTROL, &good[14..]).build());
    await_malformed(
        &switch,
        &[("unknown_opcode", 4), ("wrong_destination", 3), ("truncated", 3), ("tagged", 1)],
    );
    assert_nothing_paused(&bed, &switch);
    assert_eq!(switch.port(2).pfc_frames_received, 0);
    bed.finish(switch);
}

#[test]
fn port_without_flow_control_ignores_pauses() {
    let (bed, switch) = start("pause = \"ignore\"");
    let b = bed.host(2);
    b.send(frames::pfc(b.mac(), &ALL_AT_MAXIMUM));
    b.send(frames::pause(b.mac(), 65535));
    wait_for("both", || (switch.port(2).pause_frames_ignored == 2).then_some(()));
    assert_nothing_paused(&bed, &switch);
    bed.finish(switch);
}

#[test]
fn pfc_for_lossy_class_is_ignored() {
    let (bed, switch) = start("lossless = [3]");
    let b = bed.host(2);
    let lossy: Vec<(u8, u16)> = ALL_AT_MAXIMUM.into_iter().filter(|&(class, _)| class != 3).collect();
    b.send(frames::pfc(b.mac(), &lossy));
    wait_for("the frame", || (switch.port(2).pause_frames_ignored == 1).then_some(()));
    assert_nothing_paused(&bed, &switch);
    bed.finish(switch);
}

//! PFC frames that the switch sends, decoded by tshark and scapy. Host 2 pauses port 2, where frames queue until the switch pauses host 1.

use std::time::Duration;

use serde_json::Value;
use xoff_netns_tests::frames::{self, PAUSE_ADDRESS};
use xoff_netns_tests::{Bed, Switch, decode, wait_for};
use xoff_wire::units::MacAddr;

use crate::{bed, frame};

/// Duration of a pause of 65535 quanta at 1 Mb/s.
const PAUSE: Duration = Duration::from_micros(33_553_920);

const CLASS: &str = "xoff = 4000\nxon = 2000\n";

fn start(defaults: &str) -> (Bed, Switch) {
    let bed = bed(2).build();
    let defaults = format!("speed = \"1M\"\nlossless = [3, 4]\n{defaults}");
    let config = bed.config(&defaults).more(&format!("[class.3]\n{CLASS}[class.4]\n{CLASS}"));
    let switch = bed.start(&config);
    bed.host(2).send(frame(bed.host(2), bed.host(1), 0, 0));
    bed.host(1).tap().numbered(0);
    (bed, switch)
}

fn send_pfc(bed: &Bed, switch: &Switch, classes: &[(u8, u16)]) {
    let before = switch.port(2).pfc_frames_received;
    bed.host(2).send(frames::pfc(bed.host(2).mac(), classes));
    wait_for("the pause", || (switch.port(2).pfc_frames_received > before).then_some(()));
}

fn send_three(bed: &Bed, class: u8, first: u32) {
    for number in first..first + 3 {
        bed.host(1).send(bed.host(1).to(bed.host(2)).tag(class, 0).numbered(number).build_len(1_500));
    }
}

fn control_frame(bed: &Bed, skipped: usize) -> Vec<u8> {
    let control = |bytes: &[u8]| frames::ether_type(bytes) == frames::MAC_CONTROL;
    bed.host(1).tap().wait(skipped + 1, control).swap_remove(skipped).bytes
}

pub(crate) fn assert_is_pfc(bytes: &[u8], port: MacAddr, classes: &[(u8, u16)]) {
    assert_eq!(bytes, frames::pfc(port, classes));
    let vector = classes.iter().fold(0_u16, |vector, (class, _)| vector | 1 << class);
    let time = |class: u8| classes.iter().find(|it| it.0 == class).map_or(0, |it| it.1);

    let mut fields: Vec<String> =
        ["eth.dst", "eth.src", "eth.type", "macc.opcode", "macc.cbfc.enbv"].map(String::from).into();
    let mut values = vec![
        PAUSE_ADDRESS.to_string(),
        port.to_string(),
        "0x8808".to_owned(),
        "0x0101".to_owned(),
        format!("0x{vector:04x}"),
    ];
    for class in 0..8 {
        fields.push(format!("macc.cbfc.pause_time.c{class}"));
        values.push(time(class).to_string());
    }
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    assert_eq!(decode::tshark(bytes, &fields), values);

    let layers = decode::scapy(bytes);
    let ethernet = &layers["Ether"];
    assert_eq!(
        (&ethernet["dst"], &ethernet["src"], &ethernet["type"]),
        (&PAUSE_ADDRESS.to_string().into(), &port.to_string().into(), &0x8808.into())
    );
    let control = &layers["MACControlClassBasedFlowControl"];
    for class in 0..8 {
        let named = Value::from(vector >> class & 1);
        assert_eq!(control[format!("c{class}_enabled")], named, "class {class}");
        assert_eq!(control[format!("c{class}_pause_time")], Value::from(time(class)), "class {class}");
    }
}

#[test] // proves: pause-frames
fn pfc_frame_contains_all_paused_classes() {
    let (bed, switch) = start("");
    send_pfc(&bed, &switch, &[(3, u16::MAX), (4, u16::MAX)]);
    send_three(&bed, 3, 1);
    let first = control_frame(&bed, 0);
    send_three(&bed, 4, 11);
    let second = control_frame(&bed, 1);
    assert!(switch.class(1, 3).pause_sent.now && switch.class(1, 4).pause_sent.now);
    send_pfc(&bed, &switch, &[(3, 0)]);
    let third = control_frame(&bed, 2);
    send_pfc(&bed, &switch, &[(4, 0)]);
    let fourth = control_frame(&bed, 3);
    bed.host(2).tap().wait(6, |bytes| frames::sequence(bytes).is_some());
    let port = bed.port(1).mac();
    assert_is_pfc(&first, port, &[(3, 65535)]);
    assert_is_pfc(&second, port, &[(3, 65535), (4, 65535)]);
    assert_is_pfc(&third, port, &[(3, 0), (4, 65535)]);
    assert_is_pfc(&fourth, port, &[(4, 0)]);
    let status = bed.finish(switch);
    for class in &status.ports[0].classes[3..=4] {
        assert_eq!((class.pause_sent.xoff, class.pause_sent.xon, class.pause_sent.now), (1, 1, false));
    }
    assert_eq!((status.ports[0].pause_frames_sent, status.ports[0].control_starved), (4, 0));
    assert_eq!(bed.host(1).tap().count(frames::is_pfc), 4, "number of PFC frames; none is due at the end");
}

#[test] // proves: pause-frames
fn pause_is_refreshed_before_its_expiry() {
    let (bed, switch) = start("refresh = \"150ms\"");
    send_pfc(&bed, &switch, &[(3, u16::MAX)]);
    send_three(&bed, 3, 1);
    let refreshes = bed.host(1).tap().wait(5, frames::is_pfc);
    for (earlier, later) in refreshes.iter().zip(&refreshes[1..]) {
        assert_eq!(later.bytes, frames::pfc(bed.port(1).mac(), &[(3, 65535)]));
        assert!(later.at - earlier.at < PAUSE, "the pause expired before its refresh");
    }
    send_pfc(&bed, &switch, &[(3, 0)]);
    bed.host(1).tap().wait(1, |bytes| frames::pfc_time(bytes, 3) == Some(0));
    let sent = switch.class(1, 3);
    assert_eq!((sent.pause_sent.xoff, sent.pause_sent.xon), (1, 1));
    assert!(sent.refreshes_sent >= 4);
    bed.finish(switch);
}

#[test] // proves: pause-modes
fn port_with_802_3x_pauses_all_classes_of_its_peer() {
    let bed = bed(2).build();
    let config = bed.config("speed = \"1M\"").port(1, "pause = \"802.3x\"").more("[class.3]\nxoff = 4000");
    let switch = bed.start(&config);
    send_pfc(&bed, &switch, &[(3, u16::MAX)]);
    send_three(&bed, 3, 1);
    let start = control_frame(&bed, 0);
    send_pfc(&bed, &switch, &[(3, 0)]);
    let end = control_frame(&bed, 1);
    assert_eq!(start, frames::pause(bed.port(1).mac(), 65535));
    assert_eq!(decode::scapy(&start)["MACControlPause"]["pause_time"], 65535);
    assert_eq!(decode::tshark(&start, &["macc.opcode"]), ["0x0001"]);
    assert_eq!(end, frames::pause(bed.port(1).mac(), 0));

    bed.host(1).send(frames::pause(bed.host(1).mac(), u16::MAX));
    wait_for("the pause", || (switch.port(1).pause_frames_received == 1).then_some(()));
    assert!(switch.port(1).classes.iter().all(|class| class.pause_received.now));
    bed.host(1).send(frames::pause(bed.host(1).mac(), 0));
    wait_for("the end of it", || (!switch.class(1, 0).pause_received.now).then_some(()));
    bed.finish(switch);
}

use std::process::Stdio;

use xoff_lab::{Device, Lab};
use xoff_netns_tests::frames::{self, BROADCAST, Frame};
use xoff_netns_tests::{Host, Tap, dies_with_us, unstalled, wait_for};
use xoff_traffic::emit::Link;
use xoff_wire::units::MacAddr;

use crate::pfc_sent::assert_is_pfc;
use crate::tester::{bridged, cabled, examine};

const REFERENCE: &str = env!("CARGO_BIN_EXE_xoff-reference-under-test");

fn assert_are_pfc(tap: &Tap, mac: MacAddr, expected: &[&[(u8, u16)]]) {
    let mut unique = Vec::new();
    for frame in tap.matching(frames::is_pfc) {
        if !unique.contains(&frame.bytes) {
            unique.push(frame.bytes);
        }
    }
    assert_eq!(unique.len(), expected.len(), "{unique:x?}");
    unique.iter().zip(expected).for_each(|(bytes, classes)| assert_is_pfc(bytes, mac, classes));
}

#[test] // proves: conformance
fn tshark_decodes_classes_and_times_of_tester_pfc() {
    let mut lab = Lab::new();
    let (tester, device) = cabled(&mut lab);
    let tap = bridged(&device);
    let all = |time: u16| [0, 1, 2, 3, 4, 5, 6, 7].map(|class| (class, time));
    let mut timers = all(65_535);
    (timers[3].1, timers[5].1) = (24_570, 36_855);
    let others: Vec<_> = all(21_845).into_iter().filter(|(class, _)| *class != 3).collect();
    unstalled(|| {
        tap.clear();
        examine(&tester, "100M", &["--only", "receive.timers"]);
        assert_are_pfc(&tap, Host::mac_of(2), &[&all(0), &timers, &[(3, 65_535)], &others]);
    });
}

#[test] // proves: conformance
fn tshark_decodes_xoff_and_xon_of_reference_switch() {
    let mut lab = Lab::new();
    let (tester, device) = cabled(&mut lab);
    let mut reference = dies_with_us(REFERENCE);
    reference.args(["--port", "p1", "--port", "p2", "--speed", "10M"]).stdout(Stdio::null());
    let mut reference = device.spawn(reference).unwrap();
    let [sender, receiver] = ["t1", "t2"].map(|name| tester.run(|| Link::open(name).unwrap()));
    let tap = Tap::on(&Device::find(&tester, "t1").unwrap());
    let xoff = frames::pfc(Host::mac_of(2), &[(3, 65_535)]);
    let data = Frame::new(Host::mac_of(1), BROADCAST).udp(24, &[]).build_len(1_000);
    let time = |bytes: &[u8]| frames::pfc_time(bytes, 3);
    wait_for("XOFF", || {
        receiver.try_send(&xoff).unwrap();
        (0..4).for_each(|_| _ = sender.try_send(&data).unwrap());
        tap.matching(|bytes| time(bytes).is_some()).pop()
    });
    receiver.try_send(&frames::pfc(Host::mac_of(2), &[(3, 0)])).unwrap();
    tap.wait(1, |bytes| time(bytes) == Some(0));
    reference.kill().unwrap();
    reference.wait().unwrap();
    assert_are_pfc(&tap, MacAddr([2, 0, 0, 0, 1, 1]), &[&[(3, 0xa010)], &[(3, 0)]]);
}

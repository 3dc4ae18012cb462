use xoff_netns_tests::{frames, wait_for};

use crate::bed;

#[test] // proves: pause-modes
fn lossy_class_with_asymmetric_pfc_obeys_but_sends_no_pauses() {
    let bed = bed(2).build();
    let config = bed
        .config("speed = \"1M\"\npause = \"asymmetric\"\nlossless = [3]")
        .more("[class.3]\nxoff = 4000")
        .more("[class.5]\negress_max = \"64KB\"");
    let switch = bed.start(&config);
    let (a, b) = (bed.host(1), bed.host(2));
    b.send(frames::pfc(b.mac(), &[(3, u16::MAX), (5, u16::MAX)]));
    wait_for("the pause", || switch.class(2, 5).pause_received.now.then_some(()));
    for number in 0..20 {
        a.send(a.to(b).tag(5, 0).numbered(number).build_len(1_500));
    }
    for number in 100..103 {
        a.send(a.to(b).tag(3, 0).numbered(number).build_len(1_500));
    }
    let pauses = a.tap().wait(1, frames::is_pfc);
    assert_eq!(pauses[0].bytes, frames::pfc(bed.port(1).mac(), &[(3, u16::MAX)]));
    assert_eq!(b.tap().numbers(), [0; 0]);
    assert!(switch.class(1, 5).ingress.bytes > 4_000, "{:?}", switch.class(1, 5));

    b.send(frames::pfc(b.mac(), &[(3, 0), (5, 0)]));
    b.tap().wait(23, |bytes| frames::sequence(bytes).is_some());
    let status = bed.finish(switch);
    assert_eq!(status.ports[0].classes[5].pause_sent.xoff, 0);
    assert_eq!(status.ports[0].classes[3].pause_sent.xoff, 1);
    assert_eq!(status.ports[1].classes[5].drops.values().sum::<u64>(), 0);
}

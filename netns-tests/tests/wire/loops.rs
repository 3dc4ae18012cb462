use std::process::Command;

use xoff_netns_tests::frames::{self, Frame};
use xoff_netns_tests::wait_for;

use crate::bed;

#[test] // proves: floods
fn loop_between_ports_is_detected_and_blocked() {
    let bed = bed(2).build();
    for line in ["link add loop0 type veth peer name loop1", "link set loop0 up", "link set loop1 up"] {
        let done = bed
            .namespace()
            .output(Command::new("ip").args(line.split(' ')))
            .expect("the command ip cannot be run");
        assert!(done.status.success(), "{line}: {done:?}");
    }
    let ports =
        [0, 1].map(|end| format!("[[port]]\nname = \"loop{end}\"\ndevice = \"loop{end}\"\n")).concat();
    let switch = bed.start(&bed.config("speed = \"1G\"\nloop_detection = \"block\"").more(&ports));
    let (a, b) = (bed.host(1), bed.host(2));
    a.send(Frame::new(a.mac(), frames::BROADCAST).numbered(1).build());
    wait_for("the loop", || (switch.port(2).loops > 0).then_some(()));
    assert_eq!(switch.port(1).loops, 0, "the blocked port is not the one with the higher number");
    assert!(switch.metrics().contains("xoff_loops_total{switch=\"xoff\",port=\"loop1\"}"));
    assert_eq!(switch.port(2).loop_with.as_deref(), Some("loop0"));
    let copies = |number| b.tap().count(|bytes| frames::sequence(bytes) == Some(number));
    a.send(Frame::new(a.mac(), frames::BROADCAST).numbered(2).build());
    b.tap().numbered(2);
    a.send(Frame::new(a.mac(), frames::BROADCAST).numbered(3).build());
    b.tap().numbered(3);
    assert_eq!(copies(2), 1, "a frame circulated in the loop");
    let exit = switch.stop();
    let messages = ["the other port is loop0", "event=loop phase=began port=loop1 count=1"];
    messages.iter().for_each(|words| assert!(exit.stderr.contains(words), "{}", exit.stderr));
}

#[test] // proves: floods
fn storm_limit_drops_only_excess_flooded_frames() {
    const FRAMES: u32 = 2_000;
    let bed = bed(2).build();
    let config = bed.config("speed = \"1G\"").port(1, "storm_limit = { broadcast = \"1M\" }");
    let switch = bed.start(&config);
    let (a, b) = (bed.host(1), bed.host(2));
    for number in 0..FRAMES {
        a.send(Frame::new(a.mac(), frames::BROADCAST).numbered(number).build());
    }
    let last = Frame::new(a.mac(), b.mac()).numbered(FRAMES).build();
    b.send(Frame::new(b.mac(), a.mac()).numbered(FRAMES + 1).build());
    a.tap().numbered(FRAMES + 1);
    a.send(last);
    b.tap().numbered(FRAMES);
    let came = b.tap().count(|bytes| frames::sequence(bytes).is_some_and(|number| number < FRAMES)) as u64;
    let dropped = || switch.class(1, 0).drops.get("storm_limit").copied().unwrap_or(0);
    wait_for("the count", || (came + dropped() == u64::from(FRAMES)).then_some(()));
    assert!(dropped() > 0 && came > 0, "{came} came");
    bed.finish(switch);
}

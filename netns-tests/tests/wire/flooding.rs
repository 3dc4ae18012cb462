use xoff_netns_tests::frames::{self, Frame};
use xoff_netns_tests::wait_for;
use xoff_wire::units::MacAddr;

use crate::{bed, frame};

const NOBODY: MacAddr = MacAddr([2, 0, 0, 0, 9, 9]);
const GROUP: MacAddr = MacAddr([1, 0, 0x5e, 1, 2, 3]);

#[test] // proves: bridging
fn frames_are_flooded_only_to_configured_ports() {
    let bed = bed(4).build();
    let config = bed
        .config("speed = \"1G\"")
        .port(2, "flood_unknown = false")
        .port(3, "flood_group = false")
        .port(4, "flood_unknown = false\nflood_group = false");
    let switch = bed.start(&config);
    let a = bed.host(1);
    (2..=4).for_each(|host| bed.host(host).send(frame(bed.host(host), a, 0, host as u32)));
    (2..=4).for_each(|number| _ = a.tap().numbered(number));
    for (number, to) in [(11, NOBODY), (12, GROUP), (13, frames::BROADCAST)] {
        a.send(Frame::new(a.mac(), to).numbered(number).build());
    }
    (2..=4).for_each(|host| a.send(frame(a, bed.host(host), 0, 99)));
    let expected: [&[u32]; 3] = [&[12, 13, 99], &[11, 99], &[99]];
    for (host, numbers) in (2..).zip(expected) {
        bed.host(host).tap().numbered(99);
        let received: Vec<u32> =
            bed.host(host).tap().numbers().into_iter().filter(|&number| number > 10).collect();
        assert_eq!(received, numbers, "host {host}");
    }
    assert_eq!(a.tap().count(|bytes| frames::sequence(bytes).is_some_and(|number| number > 10)), 0);
    bed.finish(switch);
}

#[test] // proves: bridging
fn frames_to_reserved_addresses_are_never_forwarded() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let (a, b) = (bed.host(1), bed.host(2));
    for last in 0..=0x1f {
        let to = MacAddr([0x01, 0x80, 0xc2, 0, 0, last]);
        a.send(Frame::new(a.mac(), to).numbered(last.into()).build());
        a.send(Frame::new(a.mac(), to).tag(3, 0).numbered(u32::from(last) + 100).build());
    }
    let lldp = Frame::new(a.mac(), MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e])).payload(0x88cc, &[0, 0]).build();
    a.send(lldp);
    a.send(Frame::new(a.mac(), frames::BROADCAST).numbered(999).build());
    b.tap().numbered(999);
    let forwarded: Vec<u32> = (0x10..=0x1f).flat_map(|last| [last, last + 100]).collect();
    let (tagged, untagged): (Vec<u32>, Vec<u32>) =
        b.tap().numbers().iter().partition(|&&number| number >= 100);
    assert_eq!(untagged, (0x10..=0x1f).collect::<Vec<_>>());
    assert_eq!(tagged.len() - 1, forwarded.len() / 2);
    assert!(tagged.iter().all(|number| *number == 999 || forwarded.contains(number)));
    wait_for("the count", || (switch.port(1).reserved_frames == 33).then_some(()));
    bed.finish(switch);
}

/// The longest pause at 100 Mb/s is 335 ms, long enough to be refreshed in time on a busy machine.
#[test] // proves: stalled-floods
fn paused_port_does_not_stall_floods_to_other_ports() {
    const FRAMES: u32 = 200;
    let bed = bed(3).build();
    let thresholds = "[class.3]\nxoff = \"40KB\"\nxon = \"20KB\"";
    let switch = bed.start(&bed.config("speed = \"100M\"").more(thresholds));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    b.send(frame(b, a, 0, 0)); // learned
    a.tap().numbered(0);
    let pause = || c.send(frames::pfc(c.mac(), &[(3, 65_535)]));
    pause();
    wait_for("the pause", || switch.class(3, 3).pause_received.now.then_some(()));
    for number in 1..=FRAMES {
        a.send(Frame::new(a.mac(), NOBODY).tag(3, 0).build_len(1_000));
        a.send(frame(a, b, 3, number));
    }
    wait_for("the frames to the unpaused host", || {
        pause();
        let unicast = b.tap().count(|bytes| frames::sequence(bytes).is_some_and(|number| number > 0));
        let flooded = b.tap().count(|bytes| bytes.starts_with(&NOBODY.0));
        ((unicast, flooded) == (FRAMES as usize, FRAMES as usize)).then_some(())
    });
    let missed = wait_for("frames for host 3 to hold no sender", || {
        pause();
        (!switch.class(1, 3).pause_sent.now).then(|| switch.class(3, 3).drops["flood_paused"])
    });
    assert!(missed > 0);
    c.send(frames::pfc(c.mac(), &[(3, 0)]));
    c.tap().wait(FRAMES as usize - usize::try_from(missed).unwrap(), |bytes| bytes.starts_with(&NOBODY.0));
    assert_eq!(switch.status().verdict.lossless_lost, missed, "frames were dropped for other reasons");
    assert_eq!(switch.stop().status.code(), Some(1));
}

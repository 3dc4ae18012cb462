use xoff_netns_tests::frames::{self, Frame};
use xoff_netns_tests::{Bed, wait_for};

use crate::bed;

fn tagged_numbers(bed: &Bed, host: usize) -> Vec<(Option<u16>, u32)> {
    let received = bed.host(host).tap().all();
    let mut numbers: Vec<_> = received
        .iter()
        .filter_map(|frame| {
            Some((frames::tag_of(&frame.bytes).map(|tag| tag.1), frames::sequence(&frame.bytes)?))
        })
        .collect();
    numbers.sort_unstable_by_key(|&(_, number)| number);
    numbers
}

#[test] // proves: bridging
fn frames_reach_only_ports_of_their_vlan() {
    let bed = bed(3).build();
    let list = |low: u16, high: u16| format!("tagged = [\"{low}-{high}\"]\nuntagged = []\npvid = \"none\"");
    let config = bed
        .config("speed = \"1G\"")
        .port(1, &list(1, 4094))
        .port(2, &list(1, 2000))
        .port(3, &list(1001, 4094));
    let switch = bed.start(&config);
    let a = bed.host(1);
    for vids in (0..=4095_u16).collect::<Vec<_>>().chunks(64) {
        for &vid in vids {
            a.send(Frame::new(a.mac(), frames::BROADCAST).tag(0, vid).numbered(vid.into()).build());
        }
        let last = vids[vids.len() - 1];
        wait_for("a part of the frames", || {
            (switch.class(1, 0).rx_frames == u64::from(last) + 1).then_some(())
        });
    }
    let expected =
        |low: u16, high: u16| -> Vec<_> { (low..=high).map(|vid| (Some(vid), u32::from(vid))).collect() };
    bed.host(2).tap().numbered(2000);
    bed.host(3).tap().numbered(4094);
    assert_eq!(tagged_numbers(&bed, 2), expected(1, 2000));
    assert_eq!(tagged_numbers(&bed, 3), expected(1001, 4094));
    let drops = &bed.finish(switch).ports[0].classes[0].drops;
    assert_eq!((drops["not_admitted"], drops["reserved_vid"]), (1, 1), "VID 0 without a PVID, and VID 4095");
}

#[test] // proves: bridging
fn ports_add_and_remove_vlan_tags() {
    let bed = bed(4).build();
    let config = bed
        .config("speed = \"1G\"")
        .port(1, "pvid = 10\nuntagged = [10]")
        .port(2, "pvid = 20\nuntagged = [20]")
        .port(3, "pvid = \"none\"\nuntagged = []\ntagged = [10, 20]")
        .port(4, "pvid = 20\nuntagged = [10, 20]");
    let switch = bed.start(&config);
    let broadcast = |host: usize| Frame::new(bed.host(host).mac(), frames::BROADCAST);
    bed.host(1).send(broadcast(1).numbered(1).build());
    bed.host(2).send(broadcast(2).numbered(2).build());
    bed.host(3).send(broadcast(3).tag(5, 10).numbered(3).build());
    bed.host(3).send(broadcast(3).tag(5, 20).numbered(4).build());
    bed.host(3).send(broadcast(3).numbered(5).build()); // not admitted
    bed.host(3).send(broadcast(3).tag(5, 30).numbered(6).build()); // not a member
    bed.host(1).send(broadcast(1).tag(5, 10).numbered(7).build()); // its own VLAN, with explicit tag
    bed.host(1).send(broadcast(1).tag(5, 20).numbered(8).build()); // not a member
    let expected: [&[(Option<u16>, u32)]; 4] = [
        &[(None, 3)],
        &[(None, 4)],
        &[(Some(10), 1), (Some(20), 2), (Some(10), 7)],
        &[(None, 1), (None, 2), (None, 3), (None, 4), (None, 7)],
    ];
    for (host, frames) in (1..).zip(expected) {
        wait_for("the frames", || (tagged_numbers(&bed, host).len() >= frames.len()).then_some(()));
    }
    wait_for("the last one", || (switch.class(1, 5).drops["not_member"] == 1).then_some(()));
    wait_for("the one before", || (switch.class(3, 5).drops["not_member"] == 1).then_some(()));
    for (host, frames) in (1..).zip(expected) {
        assert_eq!(tagged_numbers(&bed, host), frames, "host {host}");
    }
    let longer = broadcast(1).numbered(9).build_len(200);
    bed.host(1).send(&longer);
    assert_eq!(bed.host(4).tap().numbered(9).bytes, longer);
    assert_eq!(
        bed.host(3).tap().numbered(9).bytes,
        broadcast(1).tag(0, 10).numbered(9).build_len(204),
        "class 0 as PCP"
    );
    bed.finish(switch);
}

#[test] // proves: classification
fn frames_with_priority_or_service_tags_are_forwarded() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let (a, b) = (bed.host(1), bed.host(2));
    let frames = [
        a.to(b).tag(6, 0).numbered(1).build_len(100),
        a.to(b).tag_of_type(0x88a8, 6, 300).numbered(2).build_len(100),
        a.to(b).tag_of_type(0x88a8, 6, 300).tag(1, 7).numbered(3).build_len(100),
        a.to(b).tag(6, 0).tag(1, 7).numbered(4).build_len(100),
    ];
    for frame in &frames {
        a.send(frame);
    }
    b.tap().wait(4, |bytes| bytes.len() == 100);
    let received: Vec<Vec<u8>> =
        b.tap().matching(|bytes| bytes.len() == 100).into_iter().map(|it| it.bytes).collect();
    for frame in &frames {
        assert!(received.contains(frame), "{frame:02x?} not in {received:02x?}");
    }
    bed.finish(switch);
}

/// A veth device accepts one VLAN tag beyond its MTU.
#[test] // proves: classification
fn longest_frame_with_two_vlan_tags_is_forwarded() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\"\nmtu = 1496"));
    let (a, b) = (bed.host(1), bed.host(2));
    // Raise the MTU by a tag's 4 bytes: beyond the MTU, a packet socket accepts 802.1Q tags, but no service tag.
    a.run("ip", &["link", "set", "eth0", "mtu", "1504"]);
    let service = || a.to(b).tag_of_type(0x88a8, 6, 300);
    let too_long = [a.to(b).numbered(1).build_len(1_511), service().numbered(2).build_len(1_515)];
    let longest = [
        a.to(b).numbered(3).build_len(1_510),
        service().numbered(4).build_len(1_514),
        service().tag(1, 7).numbered(5).build_len(1_518),
    ];
    for frame in too_long.iter().chain(&longest) {
        a.send(frame);
    }
    let received = b.tap().wait(3, |bytes| bytes.len() >= 1_510);
    let received: Vec<Vec<u8>> = received.into_iter().map(|frame| frame.bytes).collect();
    assert_eq!(received, longest);
    assert_eq!(bed.finish(switch).ports[0].classes[0].drops["too_long"], 2);
}

// Tests for SPECIFICATION.md: frames

use xoff_netns_tests::frames::{self, Frame};
use xoff_netns_tests::{Bed, Host, wait_for};

use crate::bed;

fn patterned(frame: Frame, number: u32, len: usize) -> Vec<u8> {
    let mut bytes = frame.numbered(number).build_len(len);
    let from = bytes.len().min(24);
    for (at, byte) in bytes.iter_mut().enumerate().skip(from) {
        *byte = (at as u32).wrapping_mul(2_654_435_761).wrapping_add(number).to_be_bytes()[1];
    }
    bytes
}

fn cross_whole(bed: &Bed, lengths: impl IntoIterator<Item = usize>) {
    let (a, b) = (bed.host(1), bed.host(2));
    for (number, len) in (0..).zip(lengths) {
        let tagged = patterned(a.to(b).tag(3, 0), number, len + 4);
        let untagged = patterned(a.to(b), number, len);
        for frame in [&tagged, &untagged] {
            a.send(frame);
        }
        let received = b.tap().wait(2, |bytes| frames::sequence(bytes) == Some(number));
        assert!(received.iter().any(|frame| frame.bytes == tagged), "tagged frame of {len} bytes and a tag");
        assert!(received.iter().any(|frame| frame.bytes == untagged), "untagged, {len} bytes");
    }
}

fn flood_whole(bed: &Bed, len: usize) {
    let a = bed.host(1);
    let frame = patterned(Frame::new(a.mac(), frames::BROADCAST), 1_000, len);
    a.send(&frame);
    for host in [2, 3] {
        assert!(bed.host(host).tap().numbered(1_000).bytes == frame, "frame of {len} bytes to host {host}");
    }
}

#[test]
fn jumbo_frames_cross_switch_in_one_descriptor_each() {
    let bed = bed(3).mtu(3_818).build();
    let switch = bed.start(&bed.config("speed = \"1G\"\nmtu = 3818"));
    cross_whole(&bed, [60, 1_514, 1_788, 1_792, 1_796, 2_048, 3_831, 3_832]);
    flood_whole(&bed, 3_832);
    bed.finish(switch);
}

#[test]
fn jumbo_frames_cross_switch_in_several_descriptors_each() {
    let bed = bed(3).mtu(9_000).build();
    let switch = bed.start(&bed.config("speed = \"1G\"\nmtu = 9000"));
    cross_whole(
        &bed,
        [60, 1_514, 3_835, 3_836, 3_839, 3_840, 3_841, 7_675, 7_676, 7_680, 7_681, 9_013, 9_014],
    );
    flood_whole(&bed, 9_014);
    bed.finish(switch);
}

#[test]
fn ports_add_and_remove_vlan_tags_of_jumbo_frames() {
    let bed = bed(2).mtu(9_000).build();
    let config =
        bed.config("speed = \"1G\"\nmtu = 9000").port(2, "untagged = []\ntagged = [1]\npvid = \"none\"");
    let switch = bed.start(&config);
    let (a, b) = (bed.host(1), bed.host(2));
    for (number, len) in (0..).step_by(2).zip([1_514, 3_836, 3_837, 3_840, 7_680, 9_014]) {
        let with_tag = |frame: Frame| frame.tag(0, 1);
        a.send(patterned(a.to(b), number, len));
        let arrived = b.tap().numbered(number).bytes;
        let sent = patterned(a.to(b), number, len);
        let tag = &with_tag(a.to(b)).build()[12..16];
        assert!(
            arrived == [&sent[..12], tag, &sent[12..]].concat(),
            "frame of {len} bytes that gained a tag"
        );

        let sent = patterned(with_tag(b.to(a)), number + 1, len + 4);
        b.send(&sent);
        let arrived = a.tap().numbered(number + 1).bytes;
        assert!(arrived == [&sent[..12], &sent[16..]].concat(), "frame of {} bytes that lost a tag", len + 4);
    }
    bed.finish(switch);
}

#[test]
fn port_drops_frames_above_its_own_mtu_at_ingress_and_egress() {
    let bed = bed(3).mtu(9_000).build();
    let switch =
        bed.start(&bed.config("speed = \"1G\"\nmtu = 9000").port(2, "mtu = 2000").port(3, "mtu = 1500"));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    let send = |from: &Host, to: &Host, number, len| from.send(from.to(to).numbered(number).build_len(len));
    for (from, number) in [(a, 10), (b, 11), (c, 12)] {
        from.send(Frame::new(from.mac(), frames::BROADCAST).numbered(number).build()); // learned
    }
    wait_for("number of learned addresses", || (switch.status().fdb.len() == 3).then_some(()));
    send(a, b, 1, 2_014);
    send(a, b, 2, 2_015);
    send(a, c, 3, 1_514);
    send(a, c, 4, 1_515);
    send(c, a, 5, 1_514);
    send(c, a, 6, 1_515);
    send(b, a, 7, 2_014);
    b.tap().numbered(1);
    c.tap().numbered(3);
    a.tap().numbered(5);
    a.tap().numbered(7);
    let too_long = |port: usize| switch.class(port, 0).drops["too_long"];
    wait_for("the drops", || (too_long(2) == 1 && too_long(3) == 2).then_some(()));
    for host in [a, b, c] {
        assert!(host.tap().numbers().iter().all(|number| ![2, 4, 6].contains(number)));
    }
    bed.finish(switch);
}

#[test]
fn hosts_exchange_large_pings_with_jumbo_frames() {
    let bed = bed(2).ipv6().mtu(9_000).build();
    let switch = bed.start(&bed.config("speed = \"1G\"\nmtu = 9000"));
    let (a, b) = (bed.host(1), bed.host(2));
    for (address, bytes) in [(b.ipv4().to_string(), "8972"), (b.ipv6().to_string(), "8952")] {
        a.run("ping", &["-c", "3", "-i", "0.05", "-W", "5", "-M", "do", "-s", bytes, &address]);
    }
    bed.finish(switch);
}

/// The shortest dropped frame fits into a receive chunk, the others do not.
#[test]
fn frames_above_receive_chunk_or_mtu_are_dropped_and_counted() {
    let sizes = [(3_000, 1_792), (9_000, 1_792), (9_000, 3_840)];
    for ((device_mtu, chunk), receive) in
        sizes.into_iter().flat_map(|size| [(size, "whole"), (size, "small")])
    {
        let bed = bed(2).mtu(device_mtu).build();
        let mtu = if chunk == 1_792 { 1_500 } else { 3_000 };
        let memory = format!("[memory]\nreceive_chunks = \"{receive}\"\n");
        let switch = bed.start(&bed.config(&format!("speed = \"1G\"\nmtu = {mtu}")).more(&memory));
        let (a, b) = (bed.host(1), bed.host(2));
        for (number, len) in [(1, chunk), (2, chunk + 1), (3, device_mtu as usize + 14), (4, 1_514)] {
            a.send(patterned(a.to(b), number, len));
        }
        b.tap().numbered(4);
        assert_eq!(
            b.tap().numbers(),
            [4],
            "MTU of {device_mtu}, chunks of {chunk} bytes, receive mode {receive}"
        );
        let port = &bed.finish(switch).ports[0];
        let beyond = port.xdp_statistics.unwrap().rx_too_long;
        assert_eq!((beyond, port.classes[0].drops["too_long"]), (2, 1));
    }
}

// Tests for SPECIFICATION.md: snooping

use std::process::{Child, Command};

use xoff_netns_tests::frames::{self, Frame, IPV4, IPV6};
use xoff_netns_tests::{Bed, Host, Switch, wait_for};
use xoff_switch::control::status::MulticastVlanStatus;
use xoff_wire::units::MacAddr;

use crate::reload::reload;
use crate::{BINARY, bed};

/// Script that sends general IGMPv2 and MLDv1 queries with response times of 100 ms, and an IGMPv2 query for
/// 239.1.2.3.
const IGMP_QUERY: &str =
    "01005e0000010200000000010800460000200001000001023ad50a000001e0000001940400001101eefe00000000";
const MLD_QUERY: &str = "33330000000102000000000186dd6000000000200001fe80000000000000000000fffe000001ff0200000000000000000000\
                         000000013a00050200000100820080c30064000000000000000000000000000000000000";
const GROUP_QUERY: &str =
    "01005e01020302000000000108004600002000010000010229d20a000001ef010203940400001101fdf9ef010203";

const JOIN: &str = "
import socket, struct, time
v4 = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
v4.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.2.3') + struct.pack('@Ii', 0, socket.if_nametoindex('eth0')))
v6 = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, 'ff05::123') + struct.pack('@I', socket.if_nametoindex('eth0')))
time.sleep(100)
";

const GROUP: [u8; 4] = [239, 1, 2, 3];
const UNKNOWN: [u8; 4] = [239, 9, 9, 9];
const MDNS: [u8; 4] = [224, 0, 0, 251];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn joined(host: &Host) -> Child {
    host.start("/usr/bin/python3", &["-c", JOIN])
}

fn packet(from: &Host, group: [u8; 4], number: u8) -> Vec<u8> {
    let mut frame = Frame::new(from.mac(), MacAddr([1, 0, 0x5e, group[1] & 0x7f, group[2], group[3]]))
        .udp(0, &[number])
        .build();
    frame[30..34].copy_from_slice(&group);
    frame
}

fn packet6(from: &Host, number: u8) -> Vec<u8> {
    let mut frame = Frame::new(from.mac(), MacAddr([0x33, 0x33, 0, 0, 1, 0x23])).ipv6(0, &[number]).build();
    frame[38..54].copy_from_slice(&[0xff, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x23]);
    frame
}

fn received(bed: &Bed, to: usize, last: u32) -> Vec<u8> {
    bed.host(to).tap().numbered(last);
    let number = |bytes: &[u8]| match frames::ether_type(bytes) {
        IPV4 if bytes[23] == 17 => Some(bytes[42]),
        IPV6 if bytes[20] == 59 => Some(bytes[54]),
        _ => None,
    };
    bed.host(to).tap().all().iter().filter_map(|frame| number(&frame.bytes)).collect()
}

/// Sends numbered packets from host 1, one to each of four groups. Returns the packet numbers that hosts 2 to 4 receive.
fn deliveries(bed: &Bed, last: u32) -> [Vec<u8>; 3] {
    let from = bed.host(1);
    (2..=4).for_each(|host| bed.host(host).tap().clear());
    for (number, group) in [(1, GROUP), (2, UNKNOWN), (3, MDNS)] {
        from.send(packet(from, group, number));
    }
    from.send(packet6(from, 6));
    from.send(Frame::new(from.mac(), frames::BROADCAST).numbered(last).build());
    [2, 3, 4].map(|host| received(bed, host, last))
}

fn vlan(switch: &Switch, protocol: &str) -> MulticastVlanStatus {
    let multicast = switch.status().multicast.unwrap();
    multicast.vlans.into_iter().find(|vlan| vlan.protocol == protocol).unwrap()
}

fn wait_for_ports(switch: &Switch, ports: &[&str]) {
    for (protocol, address) in [("igmp", "239.1.2.3"), ("mld", "ff05::123")] {
        wait_for(&format!("members of {address} at {ports:?}"), || {
            let group = vlan(switch, protocol).groups.into_iter().find(|group| group.address == address)?;
            (group.ports == ports).then_some(())
        });
    }
}

#[test]
fn multicast_traffic_reaches_only_ports_with_group_members() {
    let bed = bed(4).ipv6().build();
    let config = |more: &str| {
        bed.config("speed = \"1G\"")
            .switch("workers = 2")
            .more(&format!("[multicast]\nsnooping = true\n{more}"))
    };
    let switch = bed.start(&config(""));
    let querier = bed.host(1);
    let mut member = joined(bed.host(2));
    wait_for_ports(&switch, &["p2"]);
    assert_eq!(deliveries(&bed, 100), [[1, 2, 3, 6]; 3], "restricted without a querier");

    for query in [IGMP_QUERY, MLD_QUERY] {
        querier.send(bytes(query));
    }
    for protocol in ["igmp", "mld"] {
        wait_for("answers to the query", || vlan(&switch, protocol).restricted.then_some(()));
    }
    assert_eq!(vlan(&switch, "igmp").querier.as_deref(), Some("10.0.0.1"));
    assert_eq!(vlan(&switch, "mld").router_ports, ["p1"]);
    assert_eq!(deliveries(&bed, 101), [vec![1, 2, 3, 6], vec![2, 3], vec![2, 3]]);

    querier.tap().clear();
    let mut late = joined(bed.host(4));
    wait_for_ports(&switch, &["p2", "p4"]);
    let is_report = |bytes: &[u8]| bytes.starts_with(&[1, 0, 0x5e, 1, 2, 3]) && bytes[23] == 2;
    querier.tap().wait(1, is_report);
    assert_eq!(deliveries(&bed, 102), [vec![1, 2, 3, 6], vec![2, 3], vec![1, 2, 3, 6]]);
    assert_eq!(bed.host(3).tap().count(is_report), 0, "a host without a querier got a report");

    member.kill().unwrap();
    member.wait().unwrap();
    querier.tap().wait(1, |bytes| bytes.starts_with(&[1, 0, 0x5e, 0, 0, 2]) && bytes[23] == 2);
    querier.send(bytes(GROUP_QUERY));
    wait_for("the end of the membership", || {
        let groups = vlan(&switch, "igmp").groups;
        groups.iter().any(|group| group.address == "239.1.2.3" && group.ports == ["p4"]).then_some(())
    });
    let [left, _, stayed] = deliveries(&bed, 103).map(|numbers| numbers.contains(&1));
    assert_eq!([left, stayed], [false, true]);

    switch.write(&config("unknown = \"routers\""));
    let (is_done, text) = reload(&bed, &[]);
    assert!(is_done && text.contains("multicast.unknown: flood -> routers"), "{text}");
    let last = (104..).find(|&last| deliveries(&bed, last)[1] == [3]);
    assert!(last.is_some_and(|last| last < 1_000));
    let output = bed.namespace().output(Command::new(BINARY).args(["status", "multicast"])).unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("10.0.0.1 (port p1)") && shown.contains("239.1.2.3"), "{shown}");
    assert!(switch.metrics().contains("xoff_multicast_groups{"), "no metric of groups");
    late.kill().unwrap();
    late.wait().unwrap();
    assert!(bed.finish(switch).ports[0].classes[0].drops["no_listener"] > 0, "only the querier wants it");
}

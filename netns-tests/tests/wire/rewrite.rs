use pnet_packet::ipv4::{self, Ipv4Packet};
use xoff_netns_tests::{decode, frames};

use crate::bed;

const MAPS: &str = "
    rewrite_pcp = [7, 6, 5, 4, 3, 2, 1, 0]
    rewrite_dscp = [1, 2, 3, 46, 5, 6, 7, 8]
";

#[test] // proves: classification
fn rewritten_pcp_and_dscp_follow_class_of_frame() {
    let bed = bed(3).build();
    let tagged = format!("{MAPS}\nuntagged = []\ntagged = [1]\npvid = \"none\"");
    let switch = bed.start(&bed.config("speed = \"1G\"").port(2, MAPS).port(3, &tagged));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    let class_of = |dscp: u8| usize::from(dscp / 8);
    let dscps = [1, 2, 3, 46, 5, 6, 7, 8];
    for dscp in [0_u8, 10, 26, 46, 63] {
        let (class, data) = (class_of(dscp), [dscp; 100]);
        let (new_dscp, new_pcp) = (dscps[class], 7 - class as u8);
        a.send(a.to(b).udp(dscp, &data).build());
        a.send(a.to(b).tag(7, 0).ipv6(dscp, &data).build());
        a.send(a.to(c).udp(dscp, &data).build());
        let arrives = |host: &xoff_netns_tests::Host, expected: Vec<u8>| {
            host.tap().wait(1, |bytes| *bytes == expected);
        };
        arrives(b, a.to(b).udp(new_dscp, &data).build());
        arrives(b, a.to(b).tag(new_pcp, 0).ipv6(new_dscp, &data).build());
        arrives(c, a.to(c).tag(new_pcp, 1).udp(new_dscp, &data).build());
    }
    // A frame without IP has no DSCP to rewrite.
    a.send(a.to(b).tag(2, 0).numbered(1).build());
    assert_eq!(b.tap().numbered(1).bytes, a.to(b).tag(5, 0).numbered(1).build());
    bed.finish(switch);
}

#[test]
fn rewriting_dscp_keeps_checksum_valid_and_ecn_unchanged() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\"").port(2, MAPS));
    let (a, b) = (bed.host(1), bed.host(2));
    for ecn in 0..4 {
        let mut frame = a.to(b).udp(26, b"ecn").build();
        frame[15] |= ecn;
        let checksum = ipv4::checksum(&Ipv4Packet::new(&frame[14..34]).unwrap());
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        a.send(frame);
    }
    let received = b.tap().wait(4, |bytes| frames::ether_type(bytes) == frames::IPV4);
    for (ecn, frame) in (0..4).zip(received) {
        let packet = Ipv4Packet::new(&frame.bytes[14..34]).unwrap();
        assert_eq!((packet.get_dscp(), packet.get_ecn()), (46, ecn));
        assert_eq!(packet.get_checksum(), ipv4::checksum(&packet));
        let fields = ["ip.dsfield.dscp", "ip.dsfield.ecn"];
        assert_eq!(decode::tshark(&frame.bytes, &fields), ["46".to_owned(), ecn.to_string()]);
    }
    bed.finish(switch);
}

#[test]
fn hosts_accept_rewritten_packets() {
    let bed = bed(2).ipv6().build();
    let switch = bed.start(&bed.config(&format!("speed = \"1G\"\n{MAPS}")));
    let (a, b) = (bed.host(1), bed.host(2));
    for tos in ["0x00", "0x68", "0xb8"] {
        for address in [b.ipv4().to_string(), b.ipv6().to_string()] {
            a.run("ping", &["-c", "2", "-i", "0.05", "-W", "5", "-Q", tos, &address]);
        }
    }
    bed.finish(switch);
}

use std::fs;
use std::path::Path;

use xoff_netns_tests::frames::{self, Frame, PAUSE_ADDRESS};
use xoff_netns_tests::{Bed, decode};

use crate::bed;

fn bridge(bed: &Bed, ports: usize) {
    let ip = |words: &str| {
        let mut command = std::process::Command::new("ip");
        let output = bed.namespace().output(command.args(words.split(' '))).unwrap();
        assert!(output.status.success(), "ip {words}: {output:?}");
    };
    ip("link add br0 type bridge");
    ip("link set br0 up");
    (1..=ports).for_each(|port| ip(&format!("link set p{port} master br0")));
}

#[test]
fn pings_of_harness_hosts_cross_kernel_bridge_without_loss() {
    let bed = bed(2).ipv6().build();
    bridge(&bed, 2);
    let (a, b) = (bed.host(1), bed.host(2));
    a.run("ping", &["-c", "2", "-i", "0.2", "-W", "5", &b.ipv4().to_string()]);
    a.run("ping", &["-c", "2", "-i", "0.2", "-W", "5", &b.ipv6().to_string()]);
    bed.assert_no_drops();
}

#[test]
fn tap_captures_frames_with_their_vlan_tags() {
    let bed = bed(2).build();
    bridge(&bed, 2);
    let (a, b) = (bed.host(1), bed.host(2));
    let sent = a.to(b).tag(3, 100).numbered(7).build_len(200);
    a.send(&sent);
    let captured = b.tap().wait(1, |bytes| frames::sequence(bytes) == Some(7));
    assert_eq!(captured[0].bytes, sent);
    assert_eq!(frames::tag_of(&captured[0].bytes), Some((3, 100)));
    assert_eq!(
        a.tap().count(|bytes| frames::sequence(bytes).is_some()),
        0,
        "the tap captured a frame that its own host sent"
    );
}

#[test]
fn tshark_and_scapy_agree_on_a_pfc_frame() {
    let bed = bed(1).build();
    let host = bed.host(1);
    let sent = frames::pfc(host.mac(), &[(0, 1), (3, 65535), (7, 0)]);
    assert_eq!((sent.len(), frames::pfc_time(&sent, 3), frames::pfc_time(&sent, 4)), (60, Some(65535), None));
    let tap = xoff_netns_tests::Tap::on(bed.port(1));
    host.send(&sent);
    assert_eq!(tap.wait(1, frames::is_pfc)[0].bytes, sent);

    let fields = ["eth.dst", "macc.opcode", "macc.cbfc.enbv", "macc.cbfc.pause_time.c3"];
    assert_eq!(decode::tshark(&sent, &fields), ["01:80:c2:00:00:01", "0x0101", "0x0089", "65535"]);
    let layers = decode::scapy(&sent);
    assert_eq!(layers["Ether"]["dst"], PAUSE_ADDRESS.to_string());
    let control = &layers["MACControlClassBasedFlowControl"];
    assert_eq!((&control["c3_enabled"], &control["c3_pause_time"]), (&1.into(), &65535.into()));
    assert_eq!((&control["c0_enabled"], &control["c1_enabled"]), (&1.into(), &0.into()));
}

#[test]
fn tshark_and_scapy_accept_udp_frame_of_harness() {
    let (a, b) = (xoff_netns_tests::Host::mac_of(1), xoff_netns_tests::Host::mac_of(2));
    let bytes = Frame::new(a, b).tag(5, 0).udp(26, b"0123456789").build();
    let fields = ["vlan.priority", "ip.dsfield.dscp", "udp.dstport", "udp.length"];
    assert_eq!(decode::tshark(&bytes, &fields), ["5", "26", "9", "18"]);
    let layers = decode::scapy(&bytes);
    assert_eq!((&layers["Dot1Q"]["prio"], &layers["IP"]["tos"]), (&5.into(), &(26 << 2).into()));
}

#[test] // proves: verdict
#[should_panic(expected = "devices dropped frames")]
fn frame_dropped_by_a_device_fails_the_test() {
    let bed = bed(1).build();
    let nobody = Frame::new(bed.host(1).mac(), bed.port(1).mac()).numbered(1).build();
    bed.host(1).send(nobody);
    bed.host(1).run("sleep", &["0.1"]);
    bed.assert_no_drops();
}

#[test]
fn modules_in_nextest_configuration_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
    let runner = fs::read_to_string(format!("{root}../.config/nextest.toml")).unwrap();
    let named = runner.split_once("^(").unwrap().1.split_once(")::/").unwrap().0;
    let has_no_file = |name: &&str| !Path::new(&format!("{root}tests/wire/{name}.rs")).exists();
    let unknown: Vec<&str> = named.split('|').map(str::trim).filter(has_no_file).collect();
    assert!(unknown.is_empty(), "the configuration names modules that do not exist: {unknown:?}");
}

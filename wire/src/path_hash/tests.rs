use proptest::prelude::*;
use xoff_explore::explore;

use super::*;
use crate::testing::frame_bytes;

const PLAIN: PathHash = PathHash { protocol: true, ports: true, flow_label: false, inner: false };
const INNER: PathHash = PathHash { inner: true, ..PLAIN };
const LABEL: PathHash = PathHash { flow_label: true, ..PLAIN };

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

fn eth(ether_type: u16, rest: &[u8]) -> Vec<u8> {
    [&MACS[..], &ether_type.to_be_bytes(), rest].concat()
}

fn v4(host: u8, protocol: u8, fragment: u16, rest: &[u8]) -> Vec<u8> {
    let [high, low] = fragment.to_be_bytes();
    let fixed = [0x45, 0, 0, 0, 0, 0, high, low, 64, protocol, 0, 0, 10, 0, 0, host, 10, 0, 0, 9];
    [&fixed[..], rest].concat()
}

fn v6(label: u16, next: u8, rest: &[u8]) -> Vec<u8> {
    let [high, low] = label.to_be_bytes();
    [&[0x60, 0, high, low, 0, 0, next, 64][..], &[0xfd; 16], &[0xfe; 16], rest].concat()
}

fn ports(src: u16, dst: u16) -> Vec<u8> {
    [&src.to_be_bytes()[..], &dst.to_be_bytes(), &[0; 4]].concat()
}

fn of(hash: PathHash, bytes: &[u8]) -> u64 {
    hash.digest(&Header::parse(bytes).unwrap(), bytes)
}

fn all_differ(hash: PathHash, frames: &[Vec<u8>], case: &str) {
    let mut digests: Vec<u64> = frames.iter().map(|bytes| of(hash, bytes)).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), frames.len(), "frames of different flows have one hash: {case}");
}

fn all_equal(hash: PathHash, frames: &[Vec<u8>], case: &str) {
    assert!(
        frames.iter().all(|bytes| of(hash, bytes) == of(hash, &frames[0])),
        "frames of one flow have different hashes: {case}"
    );
}

#[test] // proves: path-hash
fn ip_packets_without_ports_hash_by_addresses_and_protocol() {
    const NUMBERS: [u8; 9] = [1, 2, 4, 41, 47, 50, 51, 89, 115];
    let frame = |host, protocol, rest: &[u8]| eth(0x0800, &v4(host, protocol, 0, rest));
    let by_host: Vec<_> = (1..50).map(|host| frame(host, 47, &[0; 8])).collect();
    all_differ(PLAIN, &by_host, "GRE by address");
    all_differ(PLAIN, &NUMBERS.map(|number| frame(1, number, &[0; 8])), "by protocol");
    for number in NUMBERS {
        all_equal(PLAIN, &[frame(1, number, &[0; 8]), frame(1, number, &[9; 8])], "no port");
    }
    for number in [6, 17, 33, 132, 136] {
        let by_port = [[1, 2], [1, 3], [2, 1]].map(|[a, b]| frame(1, number, &ports(a, b)));
        all_differ(PLAIN, &by_port, "by port");
        all_equal(PathHash { ports: false, ..PLAIN }, &by_port, "ports left out");
    }
    let no_protocol = PathHash { protocol: false, ports: false, ..PLAIN };
    all_equal(no_protocol, &[frame(1, 1, &[]), frame(1, 47, &[])], "protocol left out");
}

#[test] // proves: path-hash
fn fragments_of_datagram_share_one_hash() {
    const MORE: u16 = 0x2000;
    let fragments = [(MORE, [1, 2]), (MORE | 100, [7, 8]), (200, [9, 9])];
    let v4 = fragments.map(|(fragment, [a, b])| eth(0x0800, &v4(1, 17, fragment, &ports(a, b))));
    all_equal(PLAIN, &v4, "IPv4");
    let v6_fragment = |offset: u16, rest: &[u8]| {
        let [high, low] = offset.to_be_bytes();
        eth(0x86dd, &v6(0, 44, &[&[17, 0, high, low, 0, 0, 0, 1], rest].concat()))
    };
    all_equal(
        PLAIN,
        &[v6_fragment(1, &ports(1, 2)), v6_fragment(0x101, &ports(7, 8)), v6_fragment(0x200, &[0; 8])],
        "IPv6",
    );
    all_differ(
        PLAIN,
        &[v6_fragment(0, &ports(1, 2)), v6_fragment(0, &ports(1, 3))],
        "atomic fragments are whole datagrams",
    );
    for frames in [&v4[1..], &[v6_fragment(1, &[]), v6_fragment(8, &[])]] {
        all_equal(INNER, frames, "inner headers");
    }
}

#[test]
fn path_hash_skips_ipv6_extension_headers() {
    let udp =
        |extension: &[u8], first, port| eth(0x86dd, &v6(0, first, &[extension, &ports(port, 4791)].concat()));
    let extensions: [(u8, &[u8]); 5] = [
        (17, &[]),
        (0, &[17, 0, 0, 0, 0, 0, 0, 0]),
        (60, &[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        (43, &[51, 0, 0, 0, 0, 0, 0, 0, 17, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]),
        (44, &[17, 0, 0, 0, 0, 0, 0, 7]),
    ];
    for port in [1, 2] {
        all_equal(PLAIN, &extensions.map(|(first, bytes)| udp(bytes, first, port)), "UDP over IPv6");
    }
    all_differ(PLAIN, &[1, 2].map(|port| udp(extensions[3].1, 43, port)), "ports behind extensions");
}

#[test] // proves: path-hash
fn path_hash_takes_ipv6_flow_label_instead_of_ports() {
    let udp = |label, port| eth(0x86dd, &v6(label, 17, &ports(port, 2)));
    all_equal(LABEL, &[udp(5, 1), udp(5, 7), eth(0x86dd, &v6(5, 44, &[17, 0, 0, 1, 0, 0, 0, 0]))], "label");
    all_differ(LABEL, &[udp(5, 1), udp(6, 1), udp(0, 1), udp(0, 7)], "label, or none");
    all_equal(PLAIN, &[udp(5, 1), udp(6, 1)], "label not in use");
}

#[test] // proves: path-hash
fn inner_headers_of_tunnels_select_the_path() {
    type Wrap = fn(&[u8]) -> Vec<u8>;
    let tunnels: [(&str, Wrap); 10] = [
        ("IPIP", |packet| eth(0x0800, &v4(1, 4, 0, packet))),
        ("6in4 outside", |packet| eth(0x86dd, &v6(0, 4, packet))),
        ("GRE", |packet| eth(0x0800, &v4(1, 47, 0, &[&[0, 0, 8, 0], packet].concat()))),
        ("GRE with key", |packet| {
            eth(0x0800, &v4(1, 47, 0, &[&[0xb0, 0, 8, 0][..], &[0; 12], packet].concat()))
        }),
        ("GRE over IPv6", |packet| eth(0x86dd, &v6(0, 47, &[&[0, 0, 8, 0], packet].concat()))),
        ("NVGRE", |packet| {
            let inner = [&[0x20, 0, 0x65, 0x58, 0, 0, 1, 0][..], &eth(0x0800, packet)].concat();
            eth(0x0800, &v4(1, 47, 0, &inner))
        }),
        ("VXLAN", |packet| {
            let inner = [&ports(7, 4789)[..], &[8, 0, 0, 0, 0, 0, 1, 0], &eth(0x0800, packet)].concat();
            eth(0x0800, &v4(1, 17, 0, &inner))
        }),
        ("tagged VXLAN", |packet| {
            let inner = [&ports(7, 4789)[..], &[8, 0, 0, 0, 0, 0, 1, 0], &eth(0x0800, packet)].concat();
            [&MACS[..], &[0x81, 0, 0, 5, 8, 0], &v4(1, 17, 0, &inner)].concat()
        }),
        ("GENEVE with IP", |packet| {
            let inner = [&ports(7, 6081)[..], &[0, 0, 8, 0, 0, 0, 1, 0], packet].concat();
            eth(0x0800, &v4(1, 17, 0, &inner))
        }),
        ("GENEVE with options", |packet| {
            let inner = [&ports(7, 6081)[..], &[1, 0, 8, 0, 0, 0, 1, 0, 9, 9, 9, 9], packet].concat();
            eth(0x0800, &v4(1, 17, 0, &inner))
        }),
    ];
    let packets = [(5, 1), (6, 1), (5, 2)].map(|(host, port)| v4(host, 17, 0, &ports(port, 2)));
    for (tunnel, around) in tunnels {
        let frames = packets.each_ref().map(|packet| around(packet));
        all_differ(INNER, &frames, tunnel);
        all_equal(PLAIN, &frames, tunnel);
        assert_eq!(
            of(INNER, &frames[0]),
            of(INNER, &eth(0x0800, &packets[0])),
            "{tunnel}: the path depends on the tunnel"
        );
    }
    let arp = |host: u8| {
        let inner =
            [&ports(7, 4789)[..], &[8, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, host], &MACS[6..], &[8, 6]];
        eth(0x0800, &v4(1, 17, 0, &inner.concat()))
    };
    all_differ(INNER, &[arp(1), arp(2)], "ARP in VXLAN");
    let unreadable: [&[u8]; 4] = [&[0x40, 0, 8, 0], &[0, 1, 8, 0], &[0, 0, 0x88, 0xbe], &[0]];
    let outer = unreadable.map(|gre| eth(0x0800, &v4(1, 47, 0, &[gre, &[1; 8]].concat())));
    assert!(outer.iter().all(|bytes| of(INNER, bytes) == of(PLAIN, bytes)), "unreadable tunnel");
}

explore! {
    #[test]
    fn path_hash_depends_only_on_first_96_bytes_of_frame(
        bytes in frame_bytes(), protocol: bool, ports: bool, flow_label: bool, inner: bool
    ) {
        let hash = PathHash { protocol, ports, flow_label, inner };
        if let Ok(header) = Header::parse(&bytes) {
            let stored = &bytes[..bytes.len().min(96)];
            prop_assert_eq!(hash.digest(&header, &bytes), hash.digest(&header, stored));
        }
    }
}

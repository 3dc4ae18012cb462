use pnet_packet::ipv4::{Ipv4Packet, MutableIpv4Packet, checksum};
use proptest::prelude::*;

use crate::FlowKey;
use crate::units::MacAddr;

/// Returns a frame whose IPv4 header ends with `rest` (checksum corrected), and that header's offset.
#[allow(clippy::unwrap_used)]
pub fn ipv4_frame(mut rest: [u8; 19], tagged: bool) -> (Vec<u8>, usize) {
    rest[9..11].fill(0);
    let mut bytes = vec![2; 12];
    if tagged {
        bytes.extend([0x81, 0x00, 0x60, 0x05]);
    }
    bytes.extend([0x08, 0x00, 0x45]);
    bytes.extend(rest);
    let l3 = bytes.len() - 20;
    let sum = checksum(&Ipv4Packet::new(&bytes[l3..]).unwrap());
    MutableIpv4Packet::new(&mut bytes[l3..]).unwrap().set_checksum(sum);
    (bytes, l3)
}

pub fn frame_bytes() -> impl Strategy<Value = Vec<u8>> {
    let ether_type =
        prop_oneof![Just(0x0800u16), Just(0x86dd), Just(0x8808), Just(0x8100), Just(0x88a8), any::<u16>()];
    let version = prop_oneof![Just(0x45u8), Just(0x44), Just(0x60), Just(0x4f), any::<u8>()];
    let tag = prop::option::of(any::<u16>());
    let cn_tag = prop::option::of(any::<u16>());
    (any::<[u8; 12]>(), tag, cn_tag, ether_type, version, any::<[u8; 100]>(), 0usize..=118).prop_map(
        |(macs, tag, cn_tag, ether_type, version, rest, len)| {
            let mut bytes = macs.to_vec();
            for (tpid, word) in [([0x81, 0x00], tag), ([0x22, 0xe9], cn_tag)] {
                if let Some(word) = word {
                    bytes.extend(tpid);
                    bytes.extend(word.to_be_bytes());
                }
            }
            bytes.extend(ether_type.to_be_bytes());
            bytes.push(version);
            bytes.extend(rest);
            bytes.truncate(len);
            bytes
        },
    )
}

pub fn any_flow() -> impl Strategy<Value = FlowKey> {
    let ip = || (any::<u8>(), any::<[u16; 2]>());
    prop_oneof![
        (ip(), any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|((protocol, ports), src, dst)| FlowKey::V4 {
            protocol,
            ports,
            src,
            dst
        }),
        (ip(), any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|((protocol, ports), src, dst)| FlowKey::V6 {
            protocol,
            ports,
            src,
            dst
        }),
        (any::<[u8; 6]>(), any::<[u8; 6]>(), any::<u16>()).prop_map(|(src, dst, ether_type)| {
            FlowKey::L2 { src: MacAddr(src), dst: MacAddr(dst), ether_type }
        }),
    ]
}

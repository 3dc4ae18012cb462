use proptest::prelude::*;
use xoff_explore::explore;

use super::*;
use crate::Header;

const G: Address = Address::V4(0xef01_0203);
const G6: Address = Address::V6((0xff05 << 112) | 0x123);
const HOST: Address = Address::V6((0xfe80 << 112) | 9);

/// Packets composed by scapy.
const PACKETS: [(&str, Role, &str); 12] = [
    ("igmpv1 report", Role::Report, "4500001c000100000102beda0a000001ef0102031200fcfaef010203"),
    ("igmpv2 report", Role::Report, "4600002000010000010229d20a000001ef010203940400001614f8e6ef010203"),
    ("igmpv2 leave", Role::Report, "460000200001000001023ad40a000001e0000002940400001714f7e6ef010203"),
    ("igmpv2 query", Role::OfRouter, "460000200001000001023acd0a000009e0000001940400001164ee9b00000000"),
    (
        "igmpv3 query",
        Role::OfRouter,
        "46c0002800010000010229020a000009ef01020394040000110ae060ef0102030a7d00010a090909",
    ),
    (
        "igmpv3 report",
        Role::Report,
        "46c0005400010000010239cc0a000001e0000016940400002200f4ab0000000504000000ef01020303000000ef010204\
         05000002e80101010a0909090a09090806000001e80101020a09090901000000e8010103",
    ),
    (
        "mldv1 report",
        Role::Report,
        "6000000000200001fe800000000000000000000000000001ff0500000000000000000000000001233a00050200000100\
         83007dd900000000ff050000000000000000000000000123",
    ),
    (
        "mldv1 done",
        Role::Report,
        "6000000000200001fe800000000000000000000000000001ff0200000000000000000000000000023a00050200000100\
         84007dfd00000000ff050000000000000000000000000123",
    ),
    (
        "mldv2 report",
        Role::Report,
        "6000000000380001fe800000000000000000000000000001ff0200000000000000000000000000163a00050200000100\
         8f006ba50000000204000000ff05000000000000000000000000012303000000ff050000000000000000000000000124",
    ),
    (
        "mldv2 query",
        Role::OfRouter,
        "6000000000240001fe800000000000000000000000000009ff0200000000000000000000000000013a00050200000100\
         8200557c2710000000000000000000000000000000000000038f0000",
    ),
    (
        "mldv1 query",
        Role::OfRouter,
        "6000000000200001fe800000000000000000000000000009ff0200000000000000000000000000013a00050200000100\
         82007c3703e8000000000000000000000000000000000000",
    ),
    ("pim hello", Role::OfRouter, "4500001e000100000167cf620a000009e000000d2000df93000100020069"),
];

fn packet(hex: &str) -> (EtherType, Vec<u8>) {
    let digit = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..hex.len() / 2).map(digit).collect();
    (if bytes[0] >> 4 == 4 { EtherTypes::Ipv4 } else { EtherTypes::Ipv6 }, bytes)
}

fn summary(message: Message<'_>) -> String {
    let group = |group: Address| match group {
        Address::V4(group) => std::net::Ipv4Addr::from(group).to_string(),
        Address::V6(group) => std::net::Ipv6Addr::from(group).to_string(),
    };
    match message {
        Message::Hello => "hello".into(),
        Message::Query(query) => {
            let Query { has_sources, suppresses, max_response, robustness, interval, .. } = query;
            let of = query.group.map_or("all".into(), group);
            let interval = interval.map(|interval| interval.0 / 1_000_000_000);
            let [sources, suppresses] = [has_sources, suppresses].map(u8::from);
            format!(
                "{of} {} ms {robustness:?} {interval:?} {sources}{suppresses}",
                max_response.0 / 1_000_000
            )
        }
        Message::Records(records) => {
            let record = |record: Record| format!("{:?} {}", record.change, group(record.group));
            records.map(record).collect::<Vec<_>>().join(", ")
        }
    }
}

#[test] // proves: snooping
fn membership_messages_from_scapy_are_read_correctly() {
    let expected = [
        "Join 239.1.2.3",
        "Join 239.1.2.3",
        "Leave 239.1.2.3",
        "all 10000 ms None None 00",
        "239.1.2.3 1000 ms Some(2) Some(125) 11",
        "Join 239.1.2.3, Leave 239.1.2.4, Join 232.1.1.1, Block 232.1.1.2",
        "Join ff05::123",
        "Leave ff05::123",
        "Join ff05::123, Leave ff05::124",
        "all 10000 ms Some(3) Some(248) 00",
        "all 1000 ms None None 00",
        "hello",
    ];
    for ((name, role_expected, hex), expected) in PACKETS.into_iter().zip(expected) {
        let (ether_type, mut bytes) = packet(hex);
        assert_eq!(role(ether_type, &bytes), role_expected, "{name}");
        assert_eq!(parse(ether_type, &bytes).map(summary), Ok(expected.into()), "{name}");
        bytes.resize(bytes.len().max(46), 0xaa);
        assert_eq!(parse(ether_type, &bytes).map(summary), Ok(expected.into()), "{name} with padding");
    }
}

#[test] // proves: snooping
fn damaged_membership_message_is_refused() {
    for (name, _, hex) in PACKETS {
        let (ether_type, good) = packet(hex);
        for len in 0..good.len() {
            let error = parse(ether_type, &good[..len]).unwrap_err();
            assert!(matches!(error, MembershipError::Truncated | MembershipError::Other), "{name} {len}");
        }
        let first = if ether_type == EtherTypes::Ipv4 { 8 * 4 } else { 8 * 8 };
        for bit in first..8 * good.len() {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let is_hop_by_hop = ether_type == EtherTypes::Ipv6 && (40..48).contains(&(bit / 8));
            assert!(parse(ether_type, &bytes).is_err() || is_hop_by_hop, "{name}: flipped bit {bit}");
        }
    }
    let (ether_type, mut bytes) = packet(PACKETS[8].2);
    bytes[7] = 2;
    assert_eq!(parse(ether_type, &bytes), Err(MembershipError::Source), "MLD with a hop limit of 2");
}

#[test] // proves: snooping
fn mld_without_router_alert_is_refused() {
    let (ether_type, good) = packet(PACKETS[6].2);
    let with = |options: [u8; 6]| {
        let mut bytes = good.clone();
        bytes[42..48].copy_from_slice(&options);
        parse(ether_type, &bytes).map(summary)
    };
    for options in [[0, 5, 2, 0, 0, 0], [1, 0, 5, 2, 0, 0], [0, 0, 5, 2, 0, 0]] {
        assert!(with(options).is_ok(), "{options:?}");
    }
    for options in [[1, 4, 5, 2, 0, 0], [5, 2, 0, 1, 1, 0], [1, 9, 0, 0, 0, 0], [0, 0, 0, 0, 5, 2]] {
        assert_eq!(with(options), Err(MembershipError::RouterAlert), "{options:?}");
    }
    let mut bare = [&good[..40], &good[48..]].concat();
    (bare[5], bare[6]) = (24, 58);
    assert_eq!(parse(ether_type, &bare), Err(MembershipError::RouterAlert));
}

#[test] // proves: snooping
fn link_local_groups_are_always_flooded() {
    let v4 = |dst: [u8; 4]| {
        let mut bytes = [0; 28];
        (bytes[0], bytes[9]) = (0x45, 17);
        bytes[16..20].copy_from_slice(&dst);
        role(EtherTypes::Ipv4, &bytes)
    };
    let v6 = |dst: u128| {
        let mut bytes = [0; 48];
        (bytes[0], bytes[6]) = (0x60, 17);
        bytes[24..40].copy_from_slice(&dst.to_be_bytes());
        role(EtherTypes::Ipv6, &bytes)
    };
    assert_eq!([v4([224, 0, 0, 1]), v4([224, 0, 0, 251]), v4([10, 0, 0, 1])], [Role::Flooded; 3]);
    assert_eq!(v4([224, 0, 1, 129]), Role::Data(Address::V4(0xe000_0181)));
    assert_eq!(v4([225, 0, 0, 1]), Role::Data(Address::V4(0xe100_0001)), "same MAC address as 224.0.0.1");
    assert_eq!([v6((0xff02 << 112) | 1), v6(0xff02_0000_0000_0000_0000_0001_ff00_0001)], [Role::Flooded; 2]);
    assert_eq!(v6((0xff15 << 112) | 7), Role::Data(Address::V6((0xff15 << 112) | 7)));
    assert_eq!(role(EtherTypes::Arp, &[0; 46]), Role::Flooded);
}

#[test] // proves: snooping
fn written_membership_query_is_read_unchanged() {
    let general = Query {
        source: Address::V4(0),
        group: None,
        has_sources: false,
        suppresses: false,
        max_response: Nanos::from_secs(10),
        robustness: Some(2),
        interval: Some(Nanos::from_secs(125)),
    };
    let cases = [
        (general, [1, 0, 0x5e, 0, 0, 1]),
        (Query { source: Address::V4(0x0a00_0001), group: Some(G), ..general }, [1, 0, 0x5e, 1, 2, 3]),
        (Query { source: HOST, ..general }, [0x33, 0x33, 0, 0, 0, 1]),
        (Query { source: HOST, group: Some(G6), ..general }, [0x33, 0x33, 0, 0, 1, 0x23]),
    ];
    for ((query, mac), tag) in cases.into_iter().flat_map(|case| [None, Some(Tci(7))].map(|tag| (case, tag)))
    {
        let mut bytes = [0xaa; QUERY_LEN];
        let frame = query.write(MacAddr([2; 6]), tag, &mut bytes);
        let header = Header::parse(frame).unwrap();
        assert_eq!((header.dst, header.tag, frame.len() >= 60), (MacAddr(mac), tag, true));
        let message = parse(header.ether_type, header.payload(frame));
        assert_eq!(message, Ok(Message::Query(query)));
        assert_eq!(role(header.ether_type, header.payload(frame)), Role::OfRouter);
    }
}

explore! {
    #[test] // proves: snooping
    fn multicast_parsers_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..120), which in 0..PACKETS.len(), kept in 0_usize..60
    ) {
        let (ether_type, good) = packet(PACKETS[which].2);
        let kept = kept.min(good.len()).min(bytes.len());
        bytes[..kept].copy_from_slice(&good[..kept]);
        let _ = role(ether_type, &bytes);
        let len = u16::try_from(bytes.len()).unwrap();
        if ether_type == EtherTypes::Ipv4 && bytes.len() > 20 {
            bytes[2..4].copy_from_slice(&len.to_be_bytes());
        } else if bytes.len() > 48 {
            bytes[4..6].copy_from_slice(&(len - 40).to_be_bytes());
        }
        let _ = parse(ether_type, &bytes).map(summary);
        // Parse without checking checksums, because random bytes never have right ones.
        let _ = igmp::parse(G, &bytes).map(summary);
        let (_, mut query) = packet(PACKETS[10].2);
        let _ = mld::parse(HOST, &query, &bytes).map(summary);
        query.truncate(40);
        query.extend(&bytes);
        let _ = mld::parse(HOST, &query, &bytes).map(summary);
    }
}

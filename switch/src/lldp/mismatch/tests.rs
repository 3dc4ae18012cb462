// Tests for SPECIFICATION.md: dcbx

use xoff_flow_control::settings::{FlowControl, PortSettings, Service};
use xoff_wire::Header;
use xoff_wire::dcbx::{Ets, PfcState};
use xoff_wire::lldp::{LldpError, Tlv, is_lldp};
use xoff_wire::units::{CLASSES, Nanos};

use super::*;
use crate::lldp::Port;
use crate::lldp::table::NeighborChange;
use crate::lldp::tests::{announcement, frame, settings, speaker};
use crate::lldp::timer::TTL;

fn port(lossless: u8, trust: Trust) -> PortSettings {
    let lossless = ClassSet(lossless);
    PortSettings { trust, flow_control: FlowControl::Pfc { obey: lossless, send: lossless }, ..settings() }
}

type Entry = (usize, u8, u16);

fn applications(list: &[Entry]) -> Announcement {
    let application =
        |&(class, selector, protocol)| Application { class: Class::ALL[class], selector, protocol };
    Announcement { applications: list.iter().map(application).collect(), ..Announcement::default() }
}

fn kinds(port: &PortSettings, announced: &Announcement) -> Vec<(MismatchKind, String)> {
    all(port, announced).into_iter().map(|it| (it.kind, it.detail)).collect()
}

#[test]
fn port_settings_that_differ_from_lldp_neighbor_are_listed() {
    let here = settings();
    let kinds = |there: &PortSettings| kinds(&here, &announcement(&dcbx::frame(&speaker(), there, TTL)));
    assert_eq!(kinds(&here), []);
    let mut there = port(0b1000, here.trust);
    let detail = "PFC is used for classes 3, 4 here, for class 3 at the neighbor".to_owned();
    assert_eq!(kinds(&there), [(MismatchKind::Pfc, detail)]);
    there = settings();
    there.classes[0].service = Service::Strict;
    assert_eq!(kinds(&there), [(MismatchKind::Ets, "class 0 is 15 % here, strict at the neighbor".into())]);
    there.classes[0].service = Service::Weighted(3);
    assert_eq!(kinds(&there), [(MismatchKind::Ets, "class 0 is 15 % here, 34 % at the neighbor".into())]);
    there = settings();
    for (dscp, class) in [(26, 2), (27, 2), (46, 6)] {
        there.dscp_to_class[dscp] = Class::ALL[class];
    }
    let lossless = "DSCP 26 is class 3 here, class 2 at the neighbor; 1 more differ".to_owned();
    let lossy = "DSCP 46 is class 5 here, class 6 at the neighbor".to_owned();
    assert_eq!(kinds(&there), [(MismatchKind::Dscp, lossless), (MismatchKind::Lossy, lossy)]);
    assert_eq!(
        kinds(&PortSettings { dcbx: Dcbx::Off, ..there.clone() }),
        [],
        "mismatch although DCBX is off"
    );
    let off = PortSettings { dcbx: Dcbx::Off, ..here.clone() };
    assert_eq!(all(&off, &announcement(&dcbx::frame(&speaker(), &there, TTL))), []);
}

#[test]
fn ets_mismatch_with_ordinary_nic_is_reported_as_harmless() {
    let differs = |traffic_class, bandwidth, algorithm| {
        let ets = Some(Ets { traffic_class, bandwidth, algorithm, ..Ets::default() });
        kinds(&settings(), &Announcement { ets, ..Announcement::default() })
    };
    let each = std::array::from_fn(|class| u8::try_from(class).unwrap());
    let ets = |detail: &str| vec![(MismatchKind::Ets, detail.to_owned())];
    assert_eq!(differs(each, [0; CLASSES], [255; CLASSES]), []);
    assert_eq!(
        differs(each, [0; CLASSES], [0; CLASSES]),
        ets("class 0 is 15 % here, strict at the neighbor")
    );
    let three = differs([0, 0, 0, 1, 2, 0, 0, 0], [10, 30, 60, 0, 0, 0, 0, 0], [2, 2, 2, 0, 0, 0, 0, 0]);
    assert_eq!(three, ets("class 0 is 15 % here, 10 % at the neighbor"));
    assert_eq!(
        differs([15; CLASSES], [0; CLASSES], [2; CLASSES]),
        ets("class 0 is 15 % here, strict at the neighbor")
    );
    assert!(!MismatchKind::Ets.can_lose() && !MismatchKind::Lossy.can_lose() && MismatchKind::Pfc.can_lose());
}

#[test]
fn dcbx_application_is_compared_by_field_that_port_trusts() {
    use selector::{DSCP, ETHER_TYPE, UDP_PORT};
    let rocev2 = (3, UDP_PORT, 4791);
    let cases: [(Trust, &[Entry], Option<&str>); 12] = [
        (Trust::Dscp, &[rocev2], Some("UDP port 4791 is classified by DSCP here, class 3 at the neighbor")),
        (Trust::Both, &[rocev2], Some("UDP port 4791 is classified by DSCP here, class 3 at the neighbor")),
        (Trust::Both, &[rocev2, (3, DSCP, 26)], None),
        (Trust::Pcp, &[rocev2], None),
        (Trust::Port, &[rocev2], Some("UDP port 4791 is class 0 here, class 3 at the neighbor")),
        (
            Trust::Dscp,
            &[(3, ETHER_TYPE, 0x8915)],
            Some("EtherType 0x8915 is class 0 here, class 3 at the neighbor"),
        ),
        (Trust::Both, &[(3, ETHER_TYPE, 0x8915)], None),
        (Trust::Dscp, &[(3, ETHER_TYPE, 0x0800), (3, ETHER_TYPE, 0x86dd)], None),
        (
            Trust::Dscp,
            &[(3, ETHER_TYPE, 0)],
            Some("the default application is class 0 here, class 3 at the neighbor"),
        ),
        (Trust::Both, &[(3, ETHER_TYPE, 0)], None),
        (Trust::Pcp, &[(4, DSCP, 26)], None),
        (Trust::Dscp, &[(3, DSCP, 99), (3, 0, 7)], None),
    ];
    for (trust, list, expected) in cases {
        let expected = expected.map(|detail| (MismatchKind::Application, detail.to_owned()));
        assert_eq!(
            kinds(&port(0b1000, trust), &applications(list)),
            Vec::from_iter(expected),
            "{trust:?} {list:?}"
        );
    }
    let lossy = kinds(&port(0b1000, Trust::Dscp), &applications(&[(5, UDP_PORT, 53)]));
    assert_eq!(lossy[0].0, MismatchKind::Lossy);
    let theirs = Announcement {
        pfc: Some(PfcState { classes: ClassSet(0b10_1000), ..PfcState::default() }),
        ..applications(&[(5, UDP_PORT, 53)])
    };
    assert_eq!(kinds(&port(0b1000, Trust::Dscp), &theirs)[1].0, MismatchKind::Application, "lossless there");
}

#[test]
fn dcbx_mismatch_is_counted_once_when_it_begins() {
    let (mut at, here) = (Port::default(), settings());
    let mut receive = |classes: u8| {
        at.receive(Nanos(0), &frame(1, 120, &[pfc(classes)]));
        at.compare(&here);
        (at.mismatches.len(), at.counts.mismatches[MismatchKind::Pfc.index()])
    };
    assert_eq!([0b1000, 0b10, 0b1_1000, 0b1000].map(&mut receive), [(1, 1), (1, 1), (0, 1), (1, 2)]);
}

fn pfc(classes: u8) -> Tlv<'static> {
    Tlv::Pfc(PfcState { classes: ClassSet(classes), ..PfcState::default() })
}

#[test]
fn dcbx_mismatch_stays_while_two_neighbors_announce_dcbx() {
    let (mut at, here) = (Port::default(), settings());
    let mut receive = |number, ttl, tlv: Tlv<'_>| {
        at.receive(Nanos(0), &frame(number, ttl, &[tlv]));
        let begins = at.compare(&here);
        (begins, at.mismatches.len(), at.not_compared(&here).unwrap_or_default())
    };
    let plain = Tlv::SystemName(b"daemon");
    assert_eq!(receive(1, 120, plain), (false, 0, "no neighbor announces DCBX".into()));
    assert_eq!(receive(2, 120, pfc(0b1000)), (false, 1, String::new()), "a daemon without DCBX counts");
    let several = "2 neighbors announce DCBX: 02:00:00:00:01:02, 02:00:00:00:01:03".to_owned();
    assert_eq!(receive(3, 120, pfc(0b1_1000)), (true, 1, several.clone()));
    assert_eq!(receive(3, 120, pfc(0b1)), (false, 1, several));
    assert_eq!(receive(2, 0, pfc(0)), (false, 1, String::new()));
    assert_eq!(receive(3, 120, pfc(0b1_1000)), (false, 0, String::new()));
    assert_eq!(receive(3, 0, pfc(0)).1, 0);
    assert_eq!(at.not_compared(&PortSettings { dcbx: Dcbx::Off, ..here }).unwrap(), "`dcbx` is \"off\"");
}

fn effect(frame: &[u8]) -> String {
    let header = Header::parse(frame).unwrap();
    if !is_lldp(&header) {
        return "not punted".into();
    }
    let (mut at, here) = (Port::default(), port(0b1000, Trust::Dscp));
    let change = at.receive(Nanos(0), frame);
    at.compare(&here);
    let named = |counts: &[u64; LldpError::COUNT], what| {
        let counted = LldpError::ALL.into_iter().filter(|error| counts[error.index()] > 0);
        counted.map(|error| format!("{what} {}", error.name())).collect::<Vec<_>>()
    };
    let mut parts = match change {
        NeighborChange::New => vec!["neighbor".to_owned()],
        _ => vec!["none".to_owned()],
    };
    parts.extend(named(&at.counts.malformed, "malformed"));
    parts.extend(named(&at.counts.discarded, "discarded"));
    parts.extend(
        at.table.all().iter().flat_map(|it| it.announced.dcbx.iter().map(|version| (*version).to_owned())),
    );
    parts.extend(at.mismatches.iter().map(|it| format!("differs in {}", it.kind.name())));
    parts.join(", ")
}

/// LLDP frames as other vendors' devices send them, and malformed LLDP frames.
const ODD: &[u8] = include_bytes!("../odd.pcap");
const EFFECTS: &str = "\
1 plain: neighbor
2 PFC of class 3: neighbor, ieee
3 two management addresses: neighbor, ieee
4 nine management addresses: neighbor, ieee
5 CEE: neighbor, cee
6 CEE and IEEE: neighbor, ieee, cee, differs in ets
7 CIN: neighbor, cin
8 ETS all strict: neighbor, ieee, differs in ets
9 ETS of the vendor: neighbor, ieee
10 three traffic classes: neighbor, ieee, differs in ets
11 traffic class 15: neighbor, ieee, differs in ets
12 shares of 400 %: neighbor, discarded shares, ieee
13 PFC of 3 bytes: neighbor, discarded length
14 PFC twice: neighbor, discarded repeated, ieee
15 applications: neighbor, ieee, differs in application, differs in lossy
16 willing without classes: neighbor, ieee, differs in pfc
17 PFC of class 4: neighbor, ieee, differs in pfc
18 padding of 0xff: neighbor
19 no end: neighbor
20 odd byte at the end: neighbor, discarded truncated
21 no end, no padding: neighbor
22 TTL of 3 bytes: none, malformed length
23 TTL 0: none
24 TTL 1: neighbor
25 TTL 65535: neighbor
26 chassis subtype 0: neighbor
27 reserved subtypes: neighbor
28 unknown address family: neighbor
29 MAC of 7 bytes: neighbor
30 port ID of 256 bytes: none, malformed length
31 texts not in UTF-8: neighbor, ieee
32 unknown TLVs: neighbor, ieee
33 capabilities of 5 bytes: neighbor, discarded length, ieee
34 priority tag: not punted
35 to the nearest customer bridge: not punted
36 to the nearest non-TPMR bridge: not punted
37 to a unicast address: not punted
38 long organizations: neighbor, ieee
39 200 organizations: neighbor, ieee
40 other chassis: neighbor, ieee
";

#[test] // proves: lldp
fn unusual_lldpdus_have_the_listed_effects() {
    let mut left = &ODD[24..];
    for (expected, number) in EFFECTS.lines().zip(1..) {
        let (head, rest) = left.split_first_chunk::<16>().unwrap();
        let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let (frame, rest) = rest.split_at(len as usize);
        let (description, effects) = expected.split_once(": ").unwrap();
        assert!(description.starts_with(&format!("{number} ")));
        assert_eq!(effect(frame), effects, "{description}");
        left = rest;
    }
    assert!(left.is_empty());
}

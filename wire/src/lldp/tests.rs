// Tests for SPECIFICATION.md: lldp

use proptest::prelude::*;
use xoff_explore::explore;

use super::*;
use crate::dcbx::{Application, selector};
use crate::units::{Class, ClassSet};

const SRC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const CHASSIS: Tlv<'_> = Tlv::ChassisId(Id { subtype: 4, value: &[2, 0, 0, 0, 0, 1] });
const PORT: Tlv<'_> = Tlv::PortId(Id { subtype: 5, value: b"swp1" });

fn frame(tlvs: &[Tlv<'_>]) -> Vec<u8> {
    let mut bytes = [0; LEN_MAX];
    let mut writer = Writer::new(&mut bytes, SRC);
    assert!(tlvs.iter().all(|tlv| writer.push(tlv)));
    writer.finish().to_vec()
}

fn payload(rest: &[u8]) -> Vec<u8> {
    let head = [&[2, 7, 4, 2, 0, 0, 0, 0, 1][..], b"\x04\x05\x05swp1", &[6, 2, 0, 121]].concat();
    [&head, rest].concat()
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let [high, low] = u16::try_from(value.len()).expect("value has more than 65,535 bytes").to_be_bytes();
    [&[kind << 1 | high, low], value].concat()
}

fn read(payload: &[u8]) -> Vec<Result<Tlv<'_>, LldpError>> {
    Lldpdu::parse(payload).expect("LLDP frame is rejected").tlvs().collect()
}

fn ets() -> Ets {
    Ets {
        willing: true,
        credit_based: false,
        classes_max: 0,
        traffic_class: [0, 1, 2, 3, 4, 5, 6, 7],
        bandwidth: [20, 0, 0, 50, 30, 0, 0, 0],
        algorithm: [2, 0, 0, 2, 2, 0, 0, 0],
    }
}

#[test]
fn lldp_bytes_match_standards() {
    let pfc = PfcState { willing: true, needs_macsec: false, capability: 8, classes: ClassSet(0b0001_1000) };
    let applications = [
        Application { class: Class::ALL[3], selector: selector::DSCP, protocol: 26 },
        Application { class: Class::ALL[4], selector: selector::ETHER_TYPE, protocol: 0x8906 },
    ];
    let applications = applications.map(Application::to_bytes);
    let bytes = frame(&[
        CHASSIS,
        PORT,
        Tlv::Ttl(121),
        Tlv::Capabilities { has: BRIDGE | ROUTER, enabled: BRIDGE },
        Tlv::Ets(ets()),
        Tlv::Pfc(pfc),
        Tlv::Applications(Applications::new(&applications)),
        Tlv::Understands(Understands { flow_lists: false, rates: true }),
        Tlv::MaxFrame(1518),
    ]);
    let expected = [
        &[0x01, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc][..],
        &payload(&[]),
        &[0x0e, 4, 0, 0x14, 0, 0x04],
        &[0xfe, 25, 0, 0x80, 0xc2, 9, 0x80, 0x01, 0x23, 0x45, 0x67],
        &[20, 0, 0, 50, 30, 0, 0, 0, 2, 0, 0, 2, 2, 0, 0, 0],
        &[0xfe, 6, 0, 0x80, 0xc2, 0xb, 0x88, 0x18],
        &[0xfe, 11, 0, 0x80, 0xc2, 0xc, 0, 3 << 5 | 5, 0, 26, 4 << 5 | 1, 0x89, 0x06],
        &[0xfe, 5, 0x02, 0x78, 0x6f, 1, 2],
        &[0xfe, 6, 0, 0x12, 0x0f, 4, 0x05, 0xee],
        &[0, 0],
    ];
    assert_eq!(bytes, expected.concat());
}

#[test]
fn lldp_padding_is_ignored() {
    let bytes = frame(&[CHASSIS, PORT, Tlv::Ttl(0)]);
    assert_eq!(bytes.len(), 60);
    let header = Header::parse(&bytes).expect("Ethernet header is truncated");
    assert!(is_lldp(&header));
    let read = Lldpdu::parse(header.payload(&bytes)).expect("LLDP frame is rejected");
    assert_eq!((read.ttl, read.tlvs().count()), (0, 0));
    let behind_the_end = payload(&[&[0, 0][..], &tlv(5, b"nobody")].concat());
    assert_eq!(Lldpdu::parse(&behind_the_end).expect("LLDP frame is rejected").tlvs().count(), 0);
    assert!(Lldpdu::parse(&payload(&[])).is_ok(), "list without an end TLV is rejected");
}

#[test]
fn tlv_of_fixed_length_is_refused_with_any_other_length() {
    let of_802_1 = |subtype| [0, 0x80, 0xc2, subtype];
    let organizations = [
        (of_802_1(9), 21),
        (of_802_1(0xa), 21),
        (of_802_1(0xb), 2),
        ([0, 0x12, 0x0f, 4], 2),
        ([2, 0x78, 0x6f, 1], 1),
    ];
    let mut cases: Vec<(u8, Vec<u8>)> = vec![(7, vec![0; 4])];
    cases.extend(organizations.map(|(who, len)| (127, [&who[..], &vec![0; len]].concat())));
    for (kind, exact) in cases {
        for (len, fits) in [(exact.len() - 1, false), (exact.len(), true), (exact.len() + 1, false)] {
            let mut value = exact.clone();
            value.resize(len, 0);
            let bytes = payload(&tlv(kind, &value));
            let read = read(&bytes);
            assert_eq!(read.len(), 1);
            assert_eq!(read[0].is_ok(), fits, "TLV {kind} {exact:?} with {len} bytes");
            assert!(fits || read[0] == Err(LldpError::Length));
        }
    }
}

#[test]
fn tlv_of_variable_length_is_refused_outside_its_bounds() {
    let one = |kind, value: &[u8]| read(&payload(&tlv(kind, value)))[0].is_ok();
    for kind in [4, 5, 6] {
        assert_eq!([0, 255, 256].map(|len| one(kind, &vec![b'x'; len])), [true, true, false]);
    }
    let mandatory = |kind: usize, value: &[u8]| {
        let mut tlvs = [tlv(1, b"\x04m"), tlv(2, b"\x05p"), tlv(3, &[0, 9])];
        tlvs[kind - 1] = tlv(u8::try_from(kind).expect("TLV type is above 255"), value);
        Lldpdu::parse(&tlvs.concat()).err()
    };
    let too_long = Some(LldpError::Length);
    for kind in [1, 2] {
        let of = |len| mandatory(kind, &vec![1; len]);
        assert_eq!([0, 1, 2, 256, 257].map(of), [too_long, too_long, None, None, too_long]);
    }
    assert_eq!([1, 2, 3].map(|len| mandatory(3, &vec![0; len])), [too_long, None, too_long]);
    let application = |len| one(127, &[&[0, 0x80, 0xc2, 0xc][..], &vec![0; len]].concat());
    assert_eq!([0, 1, 3, 4, 5, 7].map(application), [false, true, false, true, false, true]);
    let address = |address: usize, object: usize, more: usize| {
        let len = u8::try_from(address + 1).expect("address has more than 254 bytes");
        let value = [
            &[len, 1][..],
            &vec![9; address],
            &[2, 0, 0, 0, 7],
            &[u8::try_from(object).expect("object identifier has more than 255 bytes")],
            &vec![3; object],
        ];
        one(8, &[&value.concat()[..], &vec![0; more]].concat())
    };
    assert_eq!([0, 1, 31, 32].map(|len| address(len, 0, 0)), [false, true, true, false]);
    assert_eq!([0, 128, 129].map(|len| address(4, len, 0)), [true, true, false]);
    assert!(!address(4, 0, 1), "management address with an extra byte is accepted");
    assert!(!one(127, &[0, 0x80, 0xc2]), "TLV without a subtype is accepted");
}

#[test]
fn lldp_frame_that_ends_within_a_tlv_is_rejected() {
    let whole = payload(&tlv(5, b"name"));
    for len in 0..whole.len() {
        let cut = Lldpdu::parse(&whole[..len]).err();
        let expected = match len {
            0 | 9 | 16 => Some(LldpError::Mandatory), // between mandatory TLVs
            20 | 21 => None,                          // before the name, which is optional, or one byte later
            _ => Some(LldpError::Truncated),
        };
        assert_eq!(cut, expected, "list cut to {len} bytes");
    }
    assert!(Lldpdu::parse(&whole).is_ok());
    assert_eq!(read(&whole[..21]), [Err(LldpError::Truncated)], "an odd byte is not counted");
}

#[test]
fn lldp_frame_needs_mandatory_tlvs_first_and_only_once() {
    let [chassis, port, ttl] = [tlv(1, b"\x04m"), tlv(2, b"\x05p"), tlv(3, &[0, 9])];
    for wrong in [[&port, &chassis, &ttl], [&chassis, &ttl, &port], [&chassis, &chassis, &ttl]] {
        assert_eq!(Lldpdu::parse(&wrong.map(|tlv| &tlv[..]).concat()), Err(LldpError::Mandatory));
    }
    for again in [tlv(1, b"\x04m"), tlv(2, b"\x05p"), tlv(3, &[0, 0])] {
        assert_eq!(Lldpdu::parse(&payload(&again)), Err(LldpError::Repeated));
    }
}

#[test]
fn lldp_reader_continues_after_unknown_or_faulty_tlv() {
    let unknown =
        [tlv(9, b"?"), tlv(126, b""), tlv(127, b"\x00\x12\x0f\x01more"), tlv(7, b"bad"), tlv(5, b"me")];
    let bytes = payload(&unknown.concat());
    let read = read(&bytes);
    assert_eq!(read[0], Ok(Tlv::Other(9, b"?")));
    assert_eq!(read[2], Ok(Tlv::Other(127, b"\x00\x12\x0f\x01more")));
    assert_eq!(read[3..], [Err(LldpError::Length), Ok(Tlv::SystemName(b"me"))]);
    let bits = payload(&tlv(127, &[2, 0x78, 0x6f, 1, 0xfd]));
    let understood = Understands { flow_lists: true, rates: false };
    assert_eq!(super::tests::read(&bits), [Ok(Tlv::Understands(understood))], "unknown bits are not ignored");
}

#[test]
fn lldp_writer_refuses_tlvs_that_do_not_fit() {
    let mut bytes = [0; LEN_MAX];
    let mut writer = Writer::new(&mut bytes, SRC);
    assert!([CHASSIS, PORT, Tlv::Ttl(1)].iter().all(|tlv| writer.push(tlv)));
    assert!(!writer.push(&Tlv::SystemName(&[b'x'; 256])) && !writer.push(&Tlv::Other(9, &[0; 512])));
    assert!(!writer.push(&Tlv::Other(0, b"")) && !writer.push(&Tlv::Other(128, b"")));
    let many = [[0; 3]; Applications::MOST + 1];
    assert!(!writer.push(&Tlv::Applications(Applications::new(&many))));
    let text = [b'x'; 255];
    let written = std::iter::from_fn(|| writer.push(&Tlv::SystemDescription(&text)).then_some(())).count();
    assert_eq!(written, (LEN_MAX - 14 - 20 - 2) / 257);
    let left = LEN_MAX - 14 - 20 - 2 - written * 257;
    assert!(!writer.push(&Tlv::Other(9, &vec![0; left - 1])), "TLV with one byte too many is accepted");
    assert!(writer.push(&Tlv::Other(9, &vec![0; left - 2])));
    let bytes = writer.finish();
    assert_eq!(bytes.len(), LEN_MAX);
    assert!(Lldpdu::parse(&bytes[14..]).is_ok());
}

#[test]
fn dcbx_class_gets_bandwidth_share_of_its_traffic_class() {
    let mut ets = ets();
    assert_eq!(ets.shares(), [Some(20), None, None, Some(50), Some(30), None, None, None]);
    ets.traffic_class = [0, 0, 3, 3, 15, 8, 1, 7];
    ets.algorithm[7] = 255;
    assert_eq!(ets.shares(), [Some(20), Some(20), Some(50), Some(50), None, None, None, None]);
    assert_eq!(ets.algorithms(), [2, 2, 2, 2, 0, 0, 0, 255]);
}

#[test]
fn ets_shares_with_sum_above_100_percent_are_refused() {
    let of = |bandwidth, algorithm| {
        let tlv = Tlv::Ets(Ets { bandwidth, algorithm, ..ets() });
        read(&frame(&[CHASSIS, PORT, Tlv::Ttl(1), tlv])[14..]).remove(0).map(|_| ())
    };
    assert_eq!(of([50, 50, 0, 0, 0, 0, 0, 0], [2; 8]), Ok(()));
    assert_eq!(of([50, 51, 0, 0, 0, 0, 0, 0], [2; 8]), Err(LldpError::Shares));
    assert_eq!(
        of([50, 51, 0, 0, 0, 0, 0, 0], [2, 0, 2, 2, 2, 2, 2, 2]),
        Ok(()),
        "a strict class has no share"
    );
}

#[test] // proves: dcbx
fn cee_features_are_read_as_their_ieee_equivalents() {
    let of = |features: &[u8]| {
        let bytes = payload(&tlv(127, &[&[0, 0x1b, 0x21, 2][..], features].concat()));
        match read(&bytes).remove(0) {
            Ok(Tlv::Cee(cee)) => Ok((cee.pfc(), cee.ets(), cee.applications().collect::<Vec<_>>())),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        }
    };
    let groups = tlv(2, &[0, 0, 0xc0, 0, 0x01, 0x23, 0x0f, 0xff, 40, 30, 20, 10, 0, 0, 0, 0, 8]);
    let pfc = |flags| tlv(3, &[0, 0, flags, 0, 0x18, 4]);
    let applications =
        tlv(4, &[0, 0, 0x80, 0, 0x89, 0x06, 0, 0x1b, 0x21, 0x08, 0x0c, 0xbc, 1, 0x1b, 0x21, 0x12]);
    let (state, ets, applications) =
        of(&[tlv(1, &[0; 10]), groups, pfc(0xc0), applications].concat()).expect("refused");
    let expected = PfcState { willing: true, needs_macsec: false, capability: 4, classes: ClassSet(0x18) };
    assert_eq!(state, Some(expected));
    let ets = ets.expect("no priority groups");
    assert_eq!(ets.shares(), [Some(40), Some(30), Some(20), Some(10), Some(40), None, None, None]);
    assert!(ets.willing && ets.algorithms()[7] == 0);
    let application =
        |class: usize, selector, protocol| Application { class: Class::ALL[class], selector, protocol };
    let iscsi = [1, 4].map(|class| application(class, selector::PORT, 3260));
    assert_eq!(applications, [application(3, selector::ETHER_TYPE, 0x8906), iscsi[0], iscsi[1]]);
    assert_eq!(
        of(&pfc(0x40)).expect("refused").0.map(|pfc| pfc.classes),
        Some(ClassSet::NONE),
        "feature is off"
    );
    assert_eq!(of(&[]), Ok((None, None, Vec::new())));
    assert_eq!(of(&pfc(0x80)[..7]), Err(LldpError::Length));
}

explore! {
    #[test]
    fn parsed_lldpdu_is_unchanged_when_encoded_and_parsed_again(
        bytes in prop::collection::vec(any::<u8>(), 0..400), is_begun in any::<bool>(),
    ) {
        let bytes = if is_begun { payload(&bytes) } else { bytes };
        let Ok(list) = Lldpdu::parse(&bytes) else { return Ok(()) };
        let tlvs: Vec<Tlv<'_>> = list.tlvs().flatten().collect();
        let mut again = [0; LEN_MAX];
        let mut writer = Writer::new(&mut again, SRC);
        let head = [Tlv::ChassisId(list.chassis), Tlv::PortId(list.port), Tlv::Ttl(list.ttl)];
        for tlv in head.iter().chain(&tlvs) {
            prop_assert!(writer.push(tlv), "{tlv:?}");
        }
        let again = writer.finish();
        let again = Lldpdu::parse(&again[14..]).expect("encoded LLDP frame is rejected");
        prop_assert!(again.tlvs().map(|tlv| tlv.expect("encoded TLV is rejected")).eq(tlvs));
    }
}

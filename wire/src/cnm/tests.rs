use proptest::prelude::*;

use super::*;
use crate::testing::frame_bytes;
use xoff_explore::explore;

const ENVELOPE: Envelope = Envelope {
    dst: MacAddr([2, 0, 0, 0, 0, 1]),
    src: MacAddr([2, 0, 0, 0, 0xff, 9]),
    tag: Some(Tci(0x6005)),
    cn_tag: Some(CnTag(0x1234)),
};

fn cnm(msdu: &[u8]) -> Cnm {
    Cnm {
        feedback: 42,
        congestion_point: CongestionPointId::new(ENVELOPE.src, Class::ALL[3]),
        q_offset: 0x0102,
        q_delta: -2,
        priority: Class::ALL[3],
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        msdu: Msdu::of(msdu),
    }
}

fn parse(bytes: &[u8]) -> Result<Cnm, CnmError> {
    let header = Header::parse(bytes).unwrap();
    assert!(Cnm::is_cnm(&header));
    Cnm::parse(&header, bytes)
}

#[test] // proves: qcn
fn cnm_bytes_match_standard() {
    let frame = cnm(&[0x88, 0xb5, 7]).encode(&ENVELOPE);
    #[rustfmt::skip]
    let expected = [
        2, 0, 0, 0, 0, 1, // destination: the source of the sampled frame
        2, 0, 0, 0, 0xff, 9, // source: the congestion point
        0x81, 0x00, 0x60, 0x05, // VLAN tag of the sampled frame
        0x22, 0xe9, 0x12, 0x34, // CN-TAG of the sampled frame
        0x22, 0xe7,
        0, 42, // version 0, reserved bits, feedback
        2, 0, 0, 0, 0xff, 9, 3, 0, // congestion point
        0x01, 0x02, 0xff, 0xfe, // cnmQOffset, cnmQDelta
        0x60, 0, // encapsulated priority
        2, 0, 0, 0, 0, 2, // encapsulated destination
        0, 3, // length of the MSDU
        0x88, 0xb5, 7,
    ];
    assert_eq!(frame.as_bytes()[..expected.len()], expected);
    assert_eq!(
        frame.as_bytes()[expected.len()..],
        [0; 60][expected.len()..],
        "CNM is not padded with zeros to 60 bytes"
    );
}

#[test]
fn cnm_has_the_tags_of_the_sampled_frame() {
    for tag in [None, Some(Tci(0xe000))] {
        for cn_tag in [None, Some(CnTag(0))] {
            let frame = cnm(&[]).encode(&Envelope { tag, cn_tag, ..ENVELOPE });
            let header = Header::parse(frame.as_bytes()).unwrap();
            assert_eq!((header.dst, header.src), (ENVELOPE.dst, ENVELOPE.src));
            assert_eq!((header.tag, header.cn_tag, header.ether_type), (tag, cn_tag, CNM));
        }
    }
}

#[test]
fn cnm_quotes_at_most_64_bytes_of_sampled_frame() {
    let long: Vec<u8> = (0..100).collect();
    assert_eq!(Msdu::of(&long[..63]).as_bytes(), &long[..63]);
    assert_eq!(Msdu::of(&long[..64]).as_bytes(), &long[..64]);
    assert_eq!(Msdu::of(&long).as_bytes(), &long[..64]);
    assert_eq!(cnm(&long).encode(&ENVELOPE).as_bytes().len(), LEN_MAX);
}

#[test]
fn cnm_with_reserved_bits_and_padding_is_accepted() {
    let mut bytes = cnm(&[1]).encode(&ENVELOPE).as_bytes().to_vec();
    bytes[22] = 0x0f;
    bytes[23] |= 0xc0;
    bytes[36] |= 0x1f;
    bytes[37] = 0xff;
    let end = bytes.len();
    bytes[end - 3..].fill(0xff);
    assert_eq!(parse(&bytes), Ok(cnm(&[1])));
}

#[test] // proves: qcn
fn malformed_cnm_is_refused_with_its_reason() {
    let good = cnm(&[7; 64]).encode(&ENVELOPE).as_bytes().to_vec();
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(parse(&good), Ok(cnm(&[7; 64])));
    assert_eq!(parse(&with(0, 3)), Err(CnmError::GroupAddress));
    assert_eq!(parse(&with(22, 0x10)), Err(CnmError::UnknownVersion));
    assert_eq!(parse(&with(45, 65)), Err(CnmError::MsduTooLong));
    assert_eq!(parse(&with(44, 1)), Err(CnmError::MsduTooLong));
    assert_eq!(parse(&good[..good.len() - 1]), Err(CnmError::MsduTruncated));
    let none = with(45, 0);
    assert_eq!(parse(&none[..45]), Err(CnmError::Truncated));
    assert_eq!(parse(&none[..46]), Ok(cnm(&[])));
}

explore! {
    #[test] // proves: qcn
    fn encoded_cnm_is_parsed_unchanged(
        feedback in 0u8..64,
        congestion_point in any::<[u8; 8]>(),
        (q_offset, q_delta) in any::<(i16, i16)>(),
        priority in 0usize..8,
        destination in any::<[u8; 6]>(),
        msdu in prop::collection::vec(any::<u8>(), 0..=64),
        (tag, cn_tag) in any::<(Option<u16>, Option<u16>)>(),
    ) {
        let cnm = Cnm {
            feedback,
            congestion_point: CongestionPointId(congestion_point),
            q_offset,
            q_delta,
            priority: Class::ALL[priority],
            destination: MacAddr(destination),
            msdu: Msdu::of(&msdu),
        };
        let envelope = Envelope { tag: tag.map(Tci), cn_tag: cn_tag.map(CnTag), ..ENVELOPE };
        let frame = cnm.encode(&envelope);
        prop_assert!((60..=LEN_MAX).contains(&frame.as_bytes().len()));
        prop_assert_eq!(parse(frame.as_bytes()), Ok(cnm));
    }

    #[test]
    fn cnm_with_arbitrary_contents_is_parsed_or_refused(contents in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut bytes = cnm(&[]).encode(&ENVELOPE).as_bytes()[..22].to_vec();
        bytes.extend(&contents);
        let read = parse(&bytes);
        prop_assert!(read.is_err() || contents.len() >= 24 && contents[0] >> 4 == 0);
    }

    #[test]
    fn frame_to_group_address_is_never_a_valid_cnm(bytes in frame_bytes()) {
        if let Ok(header) = Header::parse(&bytes) {
            let read = Cnm::parse(&header, &bytes);
            prop_assert!(read.is_err() || !header.dst.is_group());
        }
    }
}

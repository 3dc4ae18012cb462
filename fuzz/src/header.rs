use xoff_wire::{FlowKey, Header, Malformed, dscp, vlan};

pub fn check(bytes: &[u8]) {
    let header = match Header::parse(bytes) {
        Ok(header) => header,
        Err(Malformed::TooShort) => return assert!(bytes.len() < 14),
        Err(Malformed::TagTruncated) => return assert!((14..18).contains(&bytes.len())),
        Err(Malformed::CnTagTruncated) => return assert!((14..22).contains(&bytes.len())),
    };
    assert_eq!(header.tag, vlan::get(bytes));
    assert_eq!(header.payload(bytes).len() + usize::from(header.l3), bytes.len());
    assert!(header.dscp.is_none_or(|dscp| dscp < 64));
    let flow = FlowKey::of(&header, bytes);

    let mut rewritten = bytes.to_vec();
    dscp::set(&mut rewritten, &header, 46);
    let after = Header::parse(&rewritten).expect("a rewritten frame must have a valid header");
    assert_eq!(after, Header { dscp: header.dscp.map(|_| 46), ..header });
    assert_eq!(FlowKey::of(&after, &rewritten), flow, "the flow key must not depend on the DSCP");
}

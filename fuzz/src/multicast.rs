use xoff_wire::Header;
use xoff_wire::multicast::{MembershipError, Message, QUERY_LEN, Role, is_group, parse, role};
use xoff_wire::units::MacAddr;

/// Checks that reports contain only group addresses, and that re-encoding a query keeps source and group.
pub fn check(bytes: &[u8]) {
    let Ok(header) = Header::parse(bytes) else { return };
    let packet = header.payload(bytes);
    if let Role::Data(group) = role(header.ether_type, packet) {
        assert!(is_group(group));
    }
    match parse(header.ether_type, packet) {
        Ok(Message::Query(query)) => {
            let mut again = [0; QUERY_LEN];
            let again = query.write(MacAddr([2, 0, 0, 0, 0, 1]), None, &mut again);
            let header = Header::parse(again).expect("an encoded query must have a valid header");
            let Ok(Message::Query(parsed)) = parse(header.ether_type, header.payload(again)) else {
                panic!("an encoded query must be well-formed");
            };
            assert_eq!((parsed.source, parsed.group), (query.source, query.group));
        }
        Ok(Message::Records(mut records)) => assert!(records.all(|record| is_group(record.group))),
        Ok(Message::Hello) => {}
        Err(reason) => assert_eq!(MembershipError::ALL[reason.index()], reason),
    }
}

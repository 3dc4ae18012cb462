use xoff_wire::Header;
use xoff_wire::lacp::{LacpError, Lacpdu, is_lacp, is_marker, marker_response};
use xoff_wire::units::MacAddr;

const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// Checks that parsed LACP is encoded to the same bytes, and that the response to a marker needs no response.
pub fn check(bytes: &[u8]) {
    let Ok(header) = Header::parse(bytes) else { return };
    if !is_lacp(&header, bytes) {
        return;
    }
    if is_marker(bytes) {
        let Some(response) = marker_response(bytes, OWN) else { return };
        let header = Header::parse(&response).expect("the response to a marker must have a valid header");
        assert!(header.src == OWN && is_lacp(&header, &response) && is_marker(&response));
        assert_eq!(marker_response(&response, OWN), None, "a response is answered");
        return;
    }
    match Lacpdu::parse(bytes) {
        Ok(pdu) => {
            let again = pdu.frame(OWN);
            let header = Header::parse(&again).expect("an encoded LACP frame must have a valid header");
            assert!(is_lacp(&header, &again) && !is_marker(&again));
            assert_eq!(Lacpdu::parse(&again), Ok(pdu));
        }
        Err(reason) => assert_eq!(LacpError::ALL[reason.index()], reason),
    }
}

use xoff_wire::units::MacAddr;
use xoff_wire::{Header, MacControl, MacControlError};

pub fn check(bytes: &[u8]) {
    let Some(header) = Header::parse(bytes).ok().filter(MacControl::is_mac_control) else { return };
    match MacControl::parse(&header, bytes) {
        Ok(control) => {
            assert!(header.tag.is_none());
            let again = control.encode(MacAddr([2, 0, 0, 0, 0, 1]));
            let header =
                Header::parse(&again).expect("an encoded MAC control frame must have a valid header");
            assert_eq!(MacControl::parse(&header, &again), Ok(control));
        }
        Err(reason) => assert_eq!(MacControlError::ALL[reason.index()], reason),
    }
}

use xoff_wire::units::MacAddr;
use xoff_wire::{Header, MacControl, MacControlError, Rates};

pub fn check(bytes: &[u8]) {
    match read(bytes) {
        Ok(Some(rates)) => {
            let again = rates.encode(MacAddr([2, 0, 0, 0, 0, 1]));
            assert_eq!(read(&again), Ok(Some(rates)));
        }
        Ok(None) => (),
        Err(reason) => assert_eq!(MacControlError::ALL[reason.index()], reason),
    }
}

fn read(bytes: &[u8]) -> Result<Option<Rates>, MacControlError> {
    let Some(header) = Header::parse(bytes).ok().filter(MacControl::is_mac_control) else { return Ok(None) };
    match MacControl::parse(&header, bytes)? {
        MacControl::Pfc(pfc) => Rates::parse(&pfc, bytes),
        MacControl::Pause(_) => Ok(None),
    }
}

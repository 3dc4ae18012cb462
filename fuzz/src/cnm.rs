use xoff_wire::Header;
use xoff_wire::cnm::{Cnm, CnmError, Envelope};

pub fn check(bytes: &[u8]) {
    let Some(header) = Header::parse(bytes).ok().filter(Cnm::is_cnm) else { return };
    match Cnm::parse(&header, bytes) {
        Ok(cnm) => {
            let envelope =
                Envelope { dst: header.dst, src: header.src, tag: header.tag, cn_tag: header.cn_tag };
            let again = cnm.encode(&envelope);
            let read = Header::parse(again.as_bytes()).expect("an encoded CNM must have a valid header");
            assert_eq!(read, header);
            assert_eq!(Cnm::parse(&read, again.as_bytes()), Ok(cnm));
        }
        Err(reason) => assert_eq!(CnmError::ALL[reason.index()], reason),
    }
}

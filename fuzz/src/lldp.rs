use xoff_wire::Header;
use xoff_wire::lldp::{LEN_MAX, LldpError, Lldpdu, Tlv, Writer, is_lldp};
use xoff_wire::units::MacAddr;

pub fn check(bytes: &[u8]) {
    let Some(header) = Header::parse(bytes).ok().filter(is_lldp) else { return };
    let list = match Lldpdu::parse(header.payload(bytes)) {
        Ok(list) => list,
        Err(reason) => return assert_eq!(LldpError::ALL[reason.index()], reason),
    };
    let head = [Tlv::ChassisId(list.chassis), Tlv::PortId(list.port), Tlv::Ttl(list.ttl)];
    let tlvs: Vec<Tlv<'_>> = list.tlvs().flatten().collect();
    for application in
        tlvs.iter().filter_map(|tlv| if let Tlv::Applications(list) = tlv { Some(list) } else { None })
    {
        assert!(application.iter().all(|application| application.selector < 8));
    }
    let mut again = [0; LEN_MAX];
    let mut writer = Writer::new(&mut again, MacAddr([2, 0, 0, 0, 0, 1]));
    let fit = head.iter().chain(&tlvs).take_while(|tlv| writer.push(tlv)).count();
    assert!(
        fit == 3 + tlvs.len() || bytes.len() + 2 > LEN_MAX,
        "the TLVs of a received frame must fit into one frame"
    );
    let again = writer.finish();
    let header = Header::parse(again).expect("an encoded LLDP frame must have a valid header");
    assert!(is_lldp(&header));
    let again = Lldpdu::parse(header.payload(again)).expect("an encoded LLDP frame must be well-formed");
    assert_eq!((again.chassis, again.port, again.ttl), (list.chassis, list.port, list.ttl));
    assert!(again.tlvs().flatten().eq(tlvs.into_iter().take(fit - 3)));
}

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use xoff_wire::dcbx::{Application, Ets, PfcState};
use xoff_wire::lldp::{BRIDGE, Id, LldpError, Lldpdu, ManagementAddress, ROUTER, STATION, Tlv, Understands};
use xoff_wire::units::MacAddr;

const ADDRESSES_MAX: usize = 8;

const CAPABILITIES: [&str; 8] =
    ["other", "repeater", "bridge", "access-point", "router", "telephone", "docsis", "station"];
const _: () = assert!(BRIDGE == 1 << 2 && ROUTER == 1 << 4 && STATION == 1 << 7);

/// Content of a neighbor's LLDPDU. Control characters in its strings are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    pub port_description: String,
    pub system_name: String,
    pub system_description: String,
    pub capabilities: u16,
    pub management: Vec<String>,
    /// Maximum frame size that the neighbor announced, in bytes with FCS.
    pub max_frame: Option<u16>,
    pub ets: Option<Ets>,
    pub recommendation: Option<Ets>,
    pub pfc: Option<PfcState>,
    pub applications: Vec<Application>,
    /// DCBX versions that the neighbor announced: `ieee`, `cee`, `cin`. The first one gives the settings; those of CIN are not read.
    pub dcbx: Vec<&'static str>,
    pub understands: Understands,
}

impl Announcement {
    #[must_use]
    pub fn read(list: &Lldpdu<'_>, discarded: &mut [u64; LldpError::COUNT]) -> Announcement {
        let mut announcement = Announcement::default();
        let (mut received, mut cee) = (TlvSet::default(), None);
        for tlv in list.tlvs() {
            let read =
                tlv.and_then(|tlv| if received.again(&tlv) { Err(LldpError::Repeated) } else { Ok(tlv) });
            match read {
                Ok(Tlv::Cee(tlv)) => cee = Some(tlv),
                Ok(tlv) => announcement.take(&tlv),
                Err(error) => discarded[error.index()] += 1,
            }
        }
        let versions = [("ieee", TlvSet::IEEE), ("cee", TlvSet::CEE), ("cin", TlvSet::CIN)];
        announcement.dcbx = versions
            .into_iter()
            .filter(|(_, tlvs)| received.0 & tlvs != 0)
            .map(|(version, _)| version)
            .collect();
        if let Some(cee) = cee.filter(|_| received.0 & TlvSet::IEEE == 0) {
            (announcement.pfc, announcement.ets) = (cee.pfc(), cee.ets());
            announcement.applications = cee.applications().collect();
        }
        announcement
    }

    fn take(&mut self, tlv: &Tlv<'_>) {
        match *tlv {
            Tlv::PortDescription(text) => self.port_description = harmless(text),
            Tlv::SystemName(text) => self.system_name = harmless(text),
            Tlv::SystemDescription(text) => self.system_description = harmless(text),
            Tlv::Capabilities { enabled, .. } => self.capabilities = enabled,
            Tlv::ManagementAddress(address) if self.management.len() < ADDRESSES_MAX => {
                self.management.push(management(&address));
            }
            Tlv::MaxFrame(bytes) => self.max_frame = Some(bytes),
            Tlv::Ets(ets) => self.ets = Some(ets),
            Tlv::EtsRecommendation(ets) => self.recommendation = Some(ets),
            Tlv::Pfc(pfc) => self.pfc = Some(pfc),
            Tlv::Applications(list) => self.applications = list.iter().collect(),
            Tlv::Understands(understands) => self.understands = understands,
            Tlv::ChassisId(_)
            | Tlv::PortId(_)
            | Tlv::Ttl(_)
            | Tlv::ManagementAddress(_)
            | Tlv::Cee(_)
            | Tlv::Cin(_)
            | Tlv::Other(..) => {}
        }
    }

    #[must_use]
    pub fn has_dcbx(&self) -> bool {
        !self.dcbx.is_empty()
    }

    #[must_use]
    pub fn capabilities(&self) -> Vec<&'static str> {
        let named = CAPABILITIES.into_iter().enumerate();
        named.filter(|(bit, _)| self.capabilities & 1 << bit != 0).map(|(_, name)| name).collect()
    }
}

#[derive(Default)]
struct TlvSet(u16);

impl TlvSet {
    const IEEE: u16 = 0b1_1110_0000;
    const CEE: u16 = 1 << 10;
    const CIN: u16 = 1 << 11;

    fn again(&mut self, tlv: &Tlv<'_>) -> bool {
        let bit = match tlv {
            Tlv::PortDescription(_) => 0,
            Tlv::SystemName(_) => 1,
            Tlv::SystemDescription(_) => 2,
            Tlv::Capabilities { .. } => 3,
            Tlv::MaxFrame(_) => 4,
            Tlv::Ets(_) => 5,
            Tlv::EtsRecommendation(_) => 6,
            Tlv::Pfc(_) => 7,
            Tlv::Applications(_) => 8,
            Tlv::Understands(_) => 9,
            Tlv::Cee(_) => 10,
            Tlv::Cin(_) => 11,
            Tlv::ChassisId(_) | Tlv::PortId(_) | Tlv::Ttl(_) | Tlv::ManagementAddress(_) | Tlv::Other(..) => {
                return false;
            }
        };
        let again = self.0 & 1 << bit != 0;
        self.0 |= 1 << bit;
        again
    }
}

/// Escapes invalid UTF-8, and characters that a terminal could interpret.
#[must_use]
pub fn harmless(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
            if c.is_control() || turns {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[must_use]
pub fn chassis(id: Id<'_>) -> String {
    name(id, 4, 5)
}

#[must_use]
pub fn port(id: Id<'_>) -> String {
    name(id, 3, 4)
}

fn name(id: Id<'_>, mac: u8, network: u8) -> String {
    match (id.value, <[u8; 6]>::try_from(id.value)) {
        (_, Ok(bytes)) if id.subtype == mac => MacAddr(bytes).to_string(),
        (&[family, ref address @ ..], _) if id.subtype == network => of_network(family, address),
        (text, _) => harmless(text),
    }
}

fn management(address: &ManagementAddress<'_>) -> String {
    of_network(address.family, address.address)
}

fn of_network(family: u8, address: &[u8]) -> String {
    match family {
        1 => <[u8; 4]>::try_from(address).ok().map(|bytes| Ipv4Addr::from(bytes).to_string()),
        2 => <[u8; 16]>::try_from(address).ok().map(|bytes| Ipv6Addr::from(bytes).to_string()),
        6 => <[u8; 6]>::try_from(address).ok().map(|bytes| MacAddr(bytes).to_string()),
        _ => None,
    }
    .unwrap_or_else(|| address.iter().map(|byte| format!("{byte:02x}")).collect())
}

//! LLDP (IEEE 802.1AB): frames of TLVs, each with 7 bits of type, 9 bits of length, and a value.
//!
//! A frame is rejected if its TLVs do not fit, or do not begin with chassis, port and time to live. Other unreadable
//! TLVs, and a single trailing byte, are skipped.

use pnet_packet::ethernet::EtherType;

use super::Header;
use super::dcbx::{self, Applications, Cee, Ets, PfcState};
use crate::units::MacAddr;

/// EtherType of LLDP.
pub const LLDP: EtherType = EtherType(0x88cc);

/// Destination of LLDP frames.
pub const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

/// Maximum length of an LLDP frame in bytes, without FCS.
pub const LEN_MAX: usize = 1514;

const LEN_MIN: usize = 60;

/// Maximum length in bytes of an ID, name or description.
pub const TEXT_MAX: usize = 255;

/// Returns whether a frame is untagged LLDP for the nearest bridge.
#[must_use]
pub fn is_lldp(header: &Header) -> bool {
    header.ether_type == LLDP && header.tag.is_none() && header.dst == NEAREST_BRIDGE
}

mod kind {
    pub const END: u8 = 0;
    pub const CHASSIS_ID: u8 = 1;
    pub const PORT_ID: u8 = 2;
    pub const TTL: u8 = 3;
    pub const PORT_DESCRIPTION: u8 = 4;
    pub const SYSTEM_NAME: u8 = 5;
    pub const SYSTEM_DESCRIPTION: u8 = 6;
    pub const CAPABILITIES: u8 = 7;
    pub const MANAGEMENT_ADDRESS: u8 = 8;
    pub const ORGANIZATION: u8 = 127;
}

/// Identifiers of organization-specific TLVs: organization (three bytes) and subtype (one byte).
mod organization {
    /// TLV of IEEE 802.3 with the maximum frame size.
    pub const MAX_FRAME: [u8; 4] = [0x00, 0x12, 0x0f, 4];
    /// TLV of xoff's own, which lists the PFC extensions that a station understands.
    pub const UNDERSTANDS: [u8; 4] = [0x02, 0x78, 0x6f, 1];
}

/// Capability bit of a bridge.
pub const BRIDGE: u16 = 1 << 2;
/// Capability bit of a router.
pub const ROUTER: u16 = 1 << 4;
/// Capability bit of an end station.
pub const STATION: u16 = 1 << 7;

/// Reason for rejecting an LLDP frame or TLV.
#[allow(missing_docs)] // the messages say it
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LldpError {
    #[error("a TLV is longer than the rest of the LLDP frame")]
    Truncated,
    #[error("the LLDP frame does not begin with chassis ID, port ID and TTL")]
    Mandatory,
    #[error("a TLV that may occur only once is repeated")]
    Repeated,
    #[error("a TLV is too short or too long for its type")]
    Length,
    #[error("shares of the line exceed 100 %")]
    Shares,
}

named! { LldpError {
    Truncated: "truncated",
    Mandatory: "mandatory",
    Repeated: "repeated",
    Length: "length",
    Shares: "shares",
} }

/// Identifier of a chassis or of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub struct Id<'a> {
    /// Kind of identifier. For a chassis, 4 is a MAC address. For a port, 3 is a MAC address, and 5 an interface name.
    pub subtype: u8,
    /// Value of 1 to [`TEXT_MAX`] bytes.
    pub value: &'a [u8],
}

/// Management address of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagementAddress<'a> {
    /// Address family (IANA): 1 is IPv4, 2 is IPv6, 6 is a MAC address.
    pub family: u8,
    /// Address, 1 to 31 bytes.
    pub address: &'a [u8],
    /// Numbering scheme of the interface, and its number.
    pub interface: (u8, u32),
    /// Object identifier, at most 128 bytes, usually empty.
    pub object: &'a [u8],
}

/// PFC extensions understood by the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Understands {
    /// True if the sender understands flow lists (OFC1, [`super::ofc`]).
    pub flow_lists: bool,
    /// True if the sender understands rates (GFC1, [`super::gfc`]).
    pub rates: bool,
}

/// TLV of an LLDP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Tlv<'a> {
    ChassisId(Id<'a>),
    PortId(Id<'a>),
    /// Seconds for which the frame is valid; zero withdraws it.
    Ttl(u16),
    PortDescription(&'a [u8]),
    SystemName(&'a [u8]),
    SystemDescription(&'a [u8]),
    Capabilities {
        has: u16,
        enabled: u16,
    },
    ManagementAddress(ManagementAddress<'a>),
    /// Maximum frame size in bytes, FCS included.
    MaxFrame(u16),
    Ets(Ets),
    EtsRecommendation(Ets),
    Pfc(PfcState),
    Applications(Applications<'a>),
    Cee(Cee<'a>),
    /// DCBX of version CIN, with its unread value.
    Cin(&'a [u8]),
    Understands(Understands),
    Other(u8, &'a [u8]),
}

/// Parsed LLDP data unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Lldpdu<'a> {
    pub chassis: Id<'a>,
    pub port: Id<'a>,
    pub ttl: u16,
    rest: &'a [u8],
}

impl<'a> Lldpdu<'a> {
    /// Parses the payload of an LLDP frame.
    ///
    /// # Errors
    /// Fails if the frame must be rejected.
    pub fn parse(payload: &'a [u8]) -> Result<Lldpdu<'a>, LldpError> {
        let (first, rest) = Raw::next(payload)?.ok_or(LldpError::Mandatory)?;
        let (second, rest) = Raw::next(rest)?.ok_or(LldpError::Mandatory)?;
        let (third, rest) = Raw::next(rest)?.ok_or(LldpError::Mandatory)?;
        let (Tlv::ChassisId(chassis), Tlv::PortId(port), Tlv::Ttl(ttl)) =
            (first.read()?, second.read()?, third.read()?)
        else {
            return Err(LldpError::Mandatory);
        };
        let mut left = rest;
        // Ignore a single byte at the end, which is too short for a TLV. Some senders put one before the padding.
        while left.len() > 1
            && let Some((raw, behind)) = Raw::next(left)?
        {
            if matches!(raw.kind, kind::CHASSIS_ID | kind::PORT_ID | kind::TTL) {
                return Err(LldpError::Repeated);
            }
            left = behind;
        }
        Ok(Lldpdu { chassis, port, ttl, rest })
    }

    /// Returns the optional TLVs, with an error for each unreadable TLV.
    pub fn tlvs(&self) -> impl Iterator<Item = Result<Tlv<'a>, LldpError>> + use<'a> {
        let mut left = self.rest;
        std::iter::from_fn(move || match Raw::next(std::mem::take(&mut left)) {
            Ok(next) => {
                let (raw, behind) = next?;
                left = behind;
                Some(raw.read())
            }
            Err(error) => Some(Err(error)),
        })
    }
}

#[derive(Clone, Copy)]
struct Raw<'a> {
    kind: u8,
    value: &'a [u8],
}

impl<'a> Raw<'a> {
    fn next(bytes: &'a [u8]) -> Result<Option<(Raw<'a>, &'a [u8])>, LldpError> {
        let Some((&[high, low], rest)) = bytes.split_first_chunk() else {
            return if bytes.is_empty() { Ok(None) } else { Err(LldpError::Truncated) };
        };
        if high >> 1 == kind::END {
            return Ok(None);
        }
        let len = usize::from(high & 1) << 8 | usize::from(low);
        let (value, rest) = rest.split_at_checked(len).ok_or(LldpError::Truncated)?;
        Ok(Some((Raw { kind: high >> 1, value }, rest)))
    }

    fn read(self) -> Result<Tlv<'a>, LldpError> {
        let Raw { kind, value } = self;
        match kind {
            kind::CHASSIS_ID => id(value).map(Tlv::ChassisId),
            kind::PORT_ID => id(value).map(Tlv::PortId),
            kind::TTL => exactly(value).map(|seconds| Tlv::Ttl(u16::from_be_bytes(seconds))),
            kind::PORT_DESCRIPTION => text(value).map(Tlv::PortDescription),
            kind::SYSTEM_NAME => text(value).map(Tlv::SystemName),
            kind::SYSTEM_DESCRIPTION => text(value).map(Tlv::SystemDescription),
            kind::CAPABILITIES => exactly(value).map(|[a, b, c, d]| Tlv::Capabilities {
                has: u16::from_be_bytes([a, b]),
                enabled: u16::from_be_bytes([c, d]),
            }),
            kind::MANAGEMENT_ADDRESS => management_address(value).map(Tlv::ManagementAddress),
            kind::ORGANIZATION => of_organization(value),
            _ => Ok(Tlv::Other(kind, value)),
        }
    }
}

fn id(value: &[u8]) -> Result<Id<'_>, LldpError> {
    match value {
        &[subtype, ref value @ ..] if (1..=TEXT_MAX).contains(&value.len()) => Ok(Id { subtype, value }),
        _ => Err(LldpError::Length),
    }
}

fn text(value: &[u8]) -> Result<&[u8], LldpError> {
    if value.len() <= TEXT_MAX { Ok(value) } else { Err(LldpError::Length) }
}

fn exactly<const N: usize>(value: &[u8]) -> Result<[u8; N], LldpError> {
    value.try_into().map_err(|_| LldpError::Length)
}

fn management_address(value: &[u8]) -> Result<ManagementAddress<'_>, LldpError> {
    let read = || {
        let (&len, rest) = value.split_first()?;
        let (address, rest) = rest.split_at_checked(usize::from(len))?;
        let (&family, address) = address.split_first()?;
        let (&[numbering, a, b, c, d, object_len], object) = rest.split_first_chunk()?;
        let fits = (1..=31).contains(&address.len())
            && object.len() == usize::from(object_len)
            && object.len() <= 128;
        let interface = (numbering, u32::from_be_bytes([a, b, c, d]));
        fits.then_some(ManagementAddress { family, address, interface, object })
    };
    read().ok_or(LldpError::Length)
}

fn of_organization(value: &[u8]) -> Result<Tlv<'_>, LldpError> {
    let (&who, rest) = value.split_first_chunk::<4>().ok_or(LldpError::Length)?;
    let tlv = match who {
        organization::MAX_FRAME => Tlv::MaxFrame(u16::from_be_bytes(exactly(rest)?)),
        organization::UNDERSTANDS => {
            let [bits] = exactly(rest)?;
            Tlv::Understands(Understands { flow_lists: bits & 1 != 0, rates: bits & 2 != 0 })
        }
        dcbx::ETS => Tlv::Ets(Ets::read(exactly(rest)?).ok_or(LldpError::Shares)?),
        dcbx::ETS_RECOMMENDATION => {
            Tlv::EtsRecommendation(Ets::read(exactly(rest)?).ok_or(LldpError::Shares)?)
        }
        dcbx::PFC => Tlv::Pfc(PfcState::read(exactly(rest)?)),
        dcbx::APPLICATIONS => Tlv::Applications(Applications::read(rest).ok_or(LldpError::Length)?),
        dcbx::CEE => Tlv::Cee(Cee::read(rest).ok_or(LldpError::Length)?),
        dcbx::CIN => Tlv::Cin(rest),
        _ => Tlv::Other(kind::ORGANIZATION, value),
    };
    Ok(tlv)
}

/// Writer that builds an LLDP frame TLV by TLV.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// Starts an LLDP frame with source address `src`.
    ///
    /// # Panics
    /// If `bytes` is shorter than [`LEN_MAX`].
    pub fn new(bytes: &'a mut [u8], src: MacAddr) -> Writer<'a> {
        assert!(
            bytes.len() >= LEN_MAX,
            "the buffer of an LLDP frame has {} bytes; it needs {LEN_MAX}",
            bytes.len()
        );
        let mut writer = Writer { bytes, len: 0 };
        writer.write(&NEAREST_BRIDGE.0);
        writer.write(&src.0);
        writer.write(&LLDP.0.to_be_bytes());
        writer
    }

    /// Appends a TLV to the frame. Returns false, and changes nothing, if the frame has no space or the value is too
    /// long.
    pub fn push(&mut self, tlv: &Tlv<'_>) -> bool {
        let before = self.len;
        self.len += 2;
        let kind = self.value(tlv);
        let len = self.len - before - 2;
        let ends = self.len + 2; // the list ends with two bytes
        let Some(kind) = kind.filter(|_| ends <= LEN_MAX && len < 512) else {
            self.len = before;
            return false;
        };
        let [high, low] = u16::try_from(len).unwrap_or(0).to_be_bytes();
        self.bytes[before..before + 2].copy_from_slice(&[kind << 1 | high, low]);
        true
    }

    /// Ends the list of TLVs, and pads the frame to the minimum length.
    #[must_use]
    pub fn finish(mut self) -> &'a [u8] {
        self.write(&[0, 0]);
        while self.len < LEN_MIN {
            self.write(&[0]);
        }
        &self.bytes[..self.len]
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(into) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            into.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    fn value(&mut self, tlv: &Tlv<'_>) -> Option<u8> {
        let (kind, text) = match *tlv {
            Tlv::ChassisId(id) => return self.id(kind::CHASSIS_ID, id),
            Tlv::PortId(id) => return self.id(kind::PORT_ID, id),
            Tlv::Ttl(seconds) => {
                self.write(&seconds.to_be_bytes());
                return Some(kind::TTL);
            }
            Tlv::Capabilities { has, enabled } => {
                self.write(&has.to_be_bytes());
                self.write(&enabled.to_be_bytes());
                return Some(kind::CAPABILITIES);
            }
            Tlv::ManagementAddress(address) => return self.address(&address),
            Tlv::MaxFrame(len) => return self.organization(organization::MAX_FRAME, &len.to_be_bytes()),
            Tlv::Ets(ets) => return self.organization(dcbx::ETS, &ets.to_bytes()),
            Tlv::EtsRecommendation(ets) => {
                return self.organization(dcbx::ETS_RECOMMENDATION, &ets.to_bytes());
            }
            Tlv::Pfc(pfc) => return self.organization(dcbx::PFC, &pfc.to_bytes()),
            Tlv::Applications(applications) => {
                self.organization(dcbx::APPLICATIONS, &[0]);
                self.write(applications.bytes());
                return Some(kind::ORGANIZATION);
            }
            Tlv::Cee(cee) => return self.organization(dcbx::CEE, cee.bytes()),
            Tlv::Cin(value) => return self.organization(dcbx::CIN, value),
            Tlv::Understands(Understands { flow_lists, rates }) => {
                let bits = u8::from(flow_lists) | u8::from(rates) << 1;
                return self.organization(organization::UNDERSTANDS, &[bits]);
            }
            Tlv::PortDescription(text) => (kind::PORT_DESCRIPTION, text),
            Tlv::SystemName(text) => (kind::SYSTEM_NAME, text),
            Tlv::SystemDescription(text) => (kind::SYSTEM_DESCRIPTION, text),
            Tlv::Other(kind, value) => {
                self.write(value);
                return (1..=127).contains(&kind).then_some(kind);
            }
        };
        self.write(text);
        (text.len() <= TEXT_MAX).then_some(kind)
    }

    fn id(&mut self, kind: u8, Id { subtype, value }: Id<'_>) -> Option<u8> {
        self.write(&[subtype]);
        self.write(value);
        (1..=TEXT_MAX).contains(&value.len()).then_some(kind)
    }

    fn organization(&mut self, who: [u8; 4], what: &[u8]) -> Option<u8> {
        self.write(&who);
        self.write(what);
        Some(kind::ORGANIZATION)
    }

    fn address(&mut self, address: &ManagementAddress<'_>) -> Option<u8> {
        let ManagementAddress { family, address, interface: (numbering, number), object } = *address;
        self.write(&[u8::try_from(address.len() + 1).ok()?, family]);
        self.write(address);
        self.write(&[numbering]);
        self.write(&number.to_be_bytes());
        self.write(&[u8::try_from(object.len()).ok()?]);
        self.write(object);
        let fits = (1..=31).contains(&address.len()) && object.len() <= 128;
        fits.then_some(kind::MANAGEMENT_ADDRESS)
    }
}

#[cfg(test)]
mod tests;

//! LLDP (IEEE 802.1AB): what a station says of itself to the one at the other end of its link, as a list of TLVs: 7 bits of
//! type, 9 bits of length, a value. What is said of classes ([`super::dcbx`]) is among them.
//!
//! A frame whose list overruns it, or does not begin with who speaks and for how long that holds, says nothing. Beyond these
//! three, a TLV that cannot be read is left out, and what is not known is no fault.

use pnet_packet::ethernet::EtherType;

use super::Header;
use super::dcbx::{self, Applications, Ets, PfcState};
use crate::units::MacAddr;

/// The EtherType of LLDP.
pub const LLDP: EtherType = EtherType(0x88cc);

/// Where it goes: the nearest bridge, which never forwards it.
pub const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

/// The longest frame that is sent, and the least room of a [`Writer`].
pub const LEN_MAX: usize = 1514;

/// The shortest Ethernet frame, without FCS.
const LEN_MIN: usize = 60;

/// Most bytes of a chassis ID, a port ID, a name or a description.
pub const TEXT_MAX: usize = 255;

/// Whether the frame is LLDP for the nearest bridge. It is never tagged.
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

/// Organizations and their subtypes: three bytes and one.
mod organization {
    /// IEEE 802.3: the longest frame.
    pub const MAX_FRAME: [u8; 4] = [0x00, 0x12, 0x0f, 4];
    /// Ours, locally administered: what is understood beside PFC.
    pub const UNDERSTANDS: [u8; 4] = [0x02, 0x78, 0x6f, 1];
}

/// A bridge, among the capabilities of a system.
pub const BRIDGE: u16 = 1 << 2;
/// A router.
pub const ROUTER: u16 = 1 << 4;

/// Why a frame, or a TLV of it, says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LldpError {
    /// A TLV is longer than what is left of the frame.
    #[error("a TLV overruns the frame")]
    Truncated,
    /// It does not begin with chassis, port and time to live.
    #[error("it does not begin with chassis ID, port ID and TTL")]
    Mandatory,
    /// What may stand there once stands there again.
    #[error("a TLV is there twice")]
    Repeated,
    /// A TLV of known type is too short or too long for that.
    #[error("a TLV is too short or too long")]
    Length,
}

named! { LldpError {
    Truncated: "truncated",
    Mandatory: "mandatory",
    Repeated: "repeated",
    Length: "length",
} }

/// Who speaks: a chassis, or a port of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id<'a> {
    /// What kind of name it is; of a chassis 4 is a MAC address, of a port 3 is one and 5 an interface's name.
    pub subtype: u8,
    /// 1 to [`TEXT_MAX`] bytes.
    pub value: &'a [u8],
}

/// Where a system is managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagementAddress<'a> {
    /// The family by IANA's numbers: 1 is IPv4, 2 is IPv6, 6 is a MAC address.
    pub family: u8,
    /// 1 to 31 bytes.
    pub address: &'a [u8],
    /// How the interface is numbered, and its number.
    pub interface: (u8, u32),
    /// An object identifier; mostly none. 128 bytes at most.
    pub object: &'a [u8],
}

/// What a peer understands beside PFC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Understands {
    /// Lists of flows (OFC1, [`super::ofc`]).
    pub flow_lists: bool,
    /// Rates (GFC1, [`super::gfc`]).
    pub rates: bool,
}

/// One thing that is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tlv<'a> {
    /// Whose chassis.
    ChassisId(Id<'a>),
    /// Which port of it.
    PortId(Id<'a>),
    /// For how many seconds it holds; none: no longer.
    Ttl(u16),
    /// What the port is.
    PortDescription(&'a [u8]),
    /// What the system is called.
    SystemName(&'a [u8]),
    /// What it is.
    SystemDescription(&'a [u8]),
    /// What it can be, and what it is now.
    Capabilities {
        /// By bits, [`BRIDGE`] and [`ROUTER`] among them.
        has: u16,
        /// Those that are on.
        enabled: u16,
    },
    /// Where it is managed.
    ManagementAddress(ManagementAddress<'a>),
    /// The longest frame that it takes, FCS included.
    MaxFrame(u16),
    /// How classes share the line.
    Ets(Ets),
    /// How the peer's should.
    EtsRecommendation(Ets),
    /// Which classes are paused.
    Pfc(PfcState),
    /// Which class what belongs to.
    Applications(Applications<'a>),
    /// What is understood beside PFC.
    Understands(Understands),
    /// Anything else, with its type.
    Other(u8, &'a [u8]),
}

/// What a station says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lldpdu<'a> {
    /// Whose chassis.
    pub chassis: Id<'a>,
    /// Which port of it.
    pub port: Id<'a>,
    /// For how many seconds it holds.
    pub ttl: u16,
    rest: &'a [u8],
}

impl<'a> Lldpdu<'a> {
    /// Reads what follows Ethernet's header. Whatever follows the end of the list is padding.
    ///
    /// # Errors
    /// Where it says nothing: see [`LldpError`].
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
        while let Some((raw, behind)) = Raw::next(left)? {
            if matches!(raw.kind, kind::CHASSIS_ID | kind::PORT_ID | kind::TTL) {
                return Err(LldpError::Repeated);
            }
            left = behind;
        }
        Ok(Lldpdu { chassis, port, ttl, rest })
    }

    /// What it says beside who speaks and for how long, in its order; in the place of a TLV that cannot be read, why.
    pub fn tlvs(&self) -> impl Iterator<Item = Result<Tlv<'a>, LldpError>> + use<'a> {
        let mut left = self.rest;
        std::iter::from_fn(move || {
            let (raw, behind) = Raw::next(left).ok()??;
            left = behind;
            Some(raw.read())
        })
    }
}

/// A TLV whose value nobody has looked at.
#[derive(Clone, Copy)]
struct Raw<'a> {
    kind: u8,
    value: &'a [u8],
}

impl<'a> Raw<'a> {
    /// The first of a list, and what follows it; `None` where the list ends.
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
        dcbx::ETS => Tlv::Ets(Ets::read(exactly(rest)?)),
        dcbx::ETS_RECOMMENDATION => Tlv::EtsRecommendation(Ets::read(exactly(rest)?)),
        dcbx::PFC => Tlv::Pfc(PfcState::read(exactly(rest)?)),
        dcbx::APPLICATIONS => Tlv::Applications(Applications::read(rest).ok_or(LldpError::Length)?),
        _ => Tlv::Other(kind::ORGANIZATION, value),
    };
    Ok(tlv)
}

/// Writes a frame, TLV by TLV.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// A frame from the station `src`, in `bytes`, of which there are [`LEN_MAX`] at least.
    ///
    /// # Panics
    /// Where there are less.
    pub fn new(bytes: &'a mut [u8], src: MacAddr) -> Writer<'a> {
        assert!(bytes.len() >= LEN_MAX, "room for {} bytes of {LEN_MAX}", bytes.len());
        let mut writer = Writer { bytes, len: 0 };
        writer.write(&NEAREST_BRIDGE.0);
        writer.write(&src.0);
        writer.write(&LLDP.0.to_be_bytes());
        writer
    }

    /// Says one thing more; false, and nothing said, where there is no room, or where it is longer than it may be.
    pub fn push(&mut self, tlv: &Tlv<'_>) -> bool {
        let before = self.len;
        self.len += 2;
        let kind = self.value(tlv);
        let len = self.len - before - 2;
        let ends = self.len + 2; // the end of the list
        let Some(kind) = kind.filter(|_| ends <= LEN_MAX && len < 512) else {
            self.len = before;
            return false;
        };
        let [high, low] = u16::try_from(len).unwrap_or(0).to_be_bytes();
        self.bytes[before..before + 2].copy_from_slice(&[kind << 1 | high, low]);
        true
    }

    /// Ends the list. The frame is as long as Ethernet wants it at least.
    #[must_use]
    pub fn finish(mut self) -> &'a [u8] {
        self.write(&[0, 0]);
        while self.len < LEN_MIN {
            self.write(&[0]);
        }
        &self.bytes[..self.len]
    }

    /// As far as there is room: who asks looks whether there was.
    fn write(&mut self, bytes: &[u8]) {
        if let Some(into) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            into.copy_from_slice(bytes);
        }
        self.len += bytes.len();
    }

    /// Writes a value, and says of which type it is; `None` where no TLV says that.
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

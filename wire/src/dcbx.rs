//! DCBX: TLVs of [`super::lldp`] about PFC, shares of the line (ETS), and application classes. The code reads and
//! writes IEEE 802.1Qaz, but only reads its predecessor CEE.

use crate::units::{CLASSES, Class, ClassSet};

/// First four bytes of an ETS TLV: organization (IEEE 802.1) and subtype.
pub(super) const ETS: [u8; 4] = [0x00, 0x80, 0xc2, 9];
pub(super) const ETS_RECOMMENDATION: [u8; 4] = [0x00, 0x80, 0xc2, 0xa];
pub(super) const PFC: [u8; 4] = [0x00, 0x80, 0xc2, 0xb];
pub(super) const APPLICATIONS: [u8; 4] = [0x00, 0x80, 0xc2, 0xc];
/// TLV of CIN, DCBX's first version, which is recognized but not read.
pub(super) const CIN: [u8; 4] = [0x00, 0x1b, 0x21, 1];
pub(super) const CEE: [u8; 4] = [0x00, 0x1b, 0x21, 2];

const WILLING: u8 = 1 << 7;
/// Second flag of a TLV. In ETS: the port has a credit-based shaper. In PFC: pauses cannot bypass MACsec.
const SECOND: u8 = 1 << 6;

/// Transmission selection algorithms.
pub mod algorithm {
    /// Strict priority.
    pub const STRICT: u8 = 0;
    /// Credit-based shaper.
    pub const CREDIT_BASED: u8 = 1;
    /// Enhanced transmission selection: shares of the line.
    pub const ETS: u8 = 2;
    /// Algorithm defined by the vendor.
    pub const VENDOR_SPECIFIC: u8 = 255;
}

/// Shares of the line by traffic class (ETS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub struct Ets {
    /// True if the sender adopts its peer's recommendation.
    pub willing: bool,
    pub credit_based: bool,
    /// Number of supported traffic classes; zero means eight.
    pub classes_max: u8,
    /// Traffic class (0..=15) of each priority.
    pub traffic_class: [u8; CLASSES],
    pub bandwidth: [u8; CLASSES],
    pub algorithm: [u8; CLASSES],
}

impl Ets {
    pub(super) fn read(bytes: [u8; 21]) -> Option<Ets> {
        let [first, rest @ ..] = bytes;
        let ets = Ets {
            willing: first & WILLING != 0,
            credit_based: first & SECOND != 0,
            classes_max: first & 0b111,
            traffic_class: std::array::from_fn(|class| rest[class / 2] >> (4 * (1 - class % 2)) & 0xf),
            bandwidth: std::array::from_fn(|class| rest[4 + class]),
            algorithm: std::array::from_fn(|class| rest[12 + class]),
        };
        ets.is_possible().then_some(ets)
    }

    fn is_possible(&self) -> bool {
        let shares = self.bandwidth.into_iter().zip(self.algorithm);
        let shares = shares.filter(|(_, algorithm)| *algorithm == algorithm::ETS);
        shares.map(|(share, _)| u32::from(share)).sum::<u32>() <= 100
    }

    pub(super) fn to_bytes(self) -> [u8; 21] {
        let mut bytes = [0; 21];
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        bytes[0] = flag(self.willing, WILLING) | flag(self.credit_based, SECOND) | self.classes_max & 0b111;
        for (class, traffic_class) in self.traffic_class.into_iter().enumerate() {
            bytes[1 + class / 2] |= (traffic_class & 0xf) << (4 * (1 - class % 2));
        }
        bytes[5..13].copy_from_slice(&self.bandwidth);
        bytes[13..].copy_from_slice(&self.algorithm);
        bytes
    }

    /// Returns each priority's share in percent; `None` without ETS.
    #[must_use]
    pub fn shares(&self) -> [Option<u8>; CLASSES] {
        self.traffic_class.map(|class| {
            let class = usize::from(class);
            let has_share = self.algorithm.get(class) == Some(&algorithm::ETS);
            has_share.then(|| self.bandwidth.get(class).copied()).flatten()
        })
    }

    /// Returns each priority's [`algorithm`]. Traffic classes above 7 have none, and count as strict.
    #[must_use]
    pub fn algorithms(&self) -> [u8; CLASSES] {
        let of = |class: u8| self.algorithm.get(usize::from(class)).copied();
        self.traffic_class.map(|class| of(class).unwrap_or(algorithm::STRICT))
    }
}

/// PFC settings of a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub struct PfcState {
    /// True if the sender adopts its peer's classes.
    pub willing: bool,
    /// True if pauses cannot bypass MACsec, but wait behind frames that await encryption.
    pub needs_macsec: bool,
    /// Maximum number of classes with PFC, 0..=15; zero means unlimited.
    pub capability: u8,
    pub classes: ClassSet,
}

impl PfcState {
    pub(super) fn read([first, classes]: [u8; 2]) -> PfcState {
        PfcState {
            willing: first & WILLING != 0,
            needs_macsec: first & SECOND != 0,
            capability: first & 0xf,
            classes: ClassSet(classes),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; 2] {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.willing, WILLING) | flag(self.needs_macsec, SECOND);
        [flags | self.capability & 0xf, self.classes.0]
    }
}

/// Kinds of field that identify an [`Application`].
pub mod selector {
    /// Application identified by EtherType.
    pub const ETHER_TYPE: u8 = 1;
    /// Application identified by TCP or SCTP port.
    pub const TCP_PORT: u8 = 2;
    /// Application identified by UDP or DCCP port.
    pub const UDP_PORT: u8 = 3;
    /// Application identified by TCP, UDP, SCTP or DCCP port.
    pub const PORT: u8 = 4;
    /// Application identified by DSCP.
    pub const DSCP: u8 = 5;
}

/// Application and its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub struct Application {
    pub class: Class,
    /// Kind of field that identifies the application: a constant of [`selector`].
    pub selector: u8,
    pub protocol: u16,
}

impl Application {
    /// Encodes the application as an entry of its TLV.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 3] {
        let [high, low] = self.protocol.to_be_bytes();
        [self.class.get() << 5 | self.selector & 0b111, high, low]
    }

    const fn read([first, high, low]: [u8; 3]) -> Application {
        let protocol = u16::from_be_bytes([high, low]);
        Application { class: Class::from_low_bits(first >> 5), selector: first & 0b111, protocol }
    }
}

/// List of [`Application`]s in a TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applications<'a>(&'a [[u8; 3]]);

impl<'a> Applications<'a> {
    /// Maximum entries in a TLV.
    pub const MOST: usize = (511 - 5) / 3;

    /// Creates a list of entries encoded by [`Application::to_bytes`].
    #[must_use]
    pub const fn new(list: &'a [[u8; 3]]) -> Applications<'a> {
        Applications(list)
    }

    pub(super) fn read(bytes: &'a [u8]) -> Option<Applications<'a>> {
        let (list, rest) = bytes.get(1..)?.as_chunks();
        rest.is_empty().then_some(Applications(list))
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.0.as_flattened()
    }

    /// Returns the applications in order.
    pub fn iter(self) -> impl Iterator<Item = Application> + use<'a> {
        self.0.iter().map(|bytes| Application::read(*bytes))
    }
}

/// DCBX 1.01 (CEE): a TLV with one nested TLV for each feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cee<'a>(&'a [u8]);

impl<'a> Cee<'a> {
    const PRIORITY_GROUPS: u8 = 2;
    const PFC: u8 = 3;
    const APPLICATIONS: u8 = 4;
    const ENABLED: u8 = 1 << 7;
    const WILLING: u8 = 1 << 6;

    pub(super) fn read(bytes: &'a [u8]) -> Option<Cee<'a>> {
        let mut left = bytes;
        while !left.is_empty() {
            (_, _, left) = nested(left)?;
        }
        Some(Cee(bytes))
    }

    pub(super) fn bytes(self) -> &'a [u8] {
        self.0
    }

    fn feature(self, kind: u8) -> Option<(u8, &'a [u8])> {
        let mut left = self.0;
        loop {
            let (found, value, behind) = nested(left)?;
            // Two version bytes, a byte of flags and a subtype precede the settings.
            if let (true, &[_, _, flags, _, ref settings @ ..]) = (found == kind, value) {
                return Some((flags, settings));
            }
            left = behind;
        }
    }

    fn enabled_feature(self, kind: u8) -> Option<(u8, &'a [u8])> {
        self.feature(kind).filter(|(flags, _)| flags & Cee::ENABLED != 0)
    }

    /// Returns the PFC settings, without classes if PFC is off; `None` if PFC was not announced.
    #[must_use]
    pub fn pfc(self) -> Option<PfcState> {
        let (flags, &[classes, capability]) = self.feature(Cee::PFC)? else { return None };
        let classes = ClassSet(if flags & Cee::ENABLED != 0 { classes } else { 0 });
        let willing = flags & Cee::WILLING != 0;
        Some(PfcState { willing, needs_macsec: false, capability: capability & 0xf, classes })
    }

    /// Returns the priority groups as traffic classes; group 15 is strict. `None` if the feature is off.
    #[must_use]
    pub fn ets(self) -> Option<Ets> {
        let (flags, settings) = self.enabled_feature(Cee::PRIORITY_GROUPS)?;
        let &[ref groups @ .., _] = <&[u8; 13]>::try_from(settings).ok()?;
        let mut bytes = [0; 21];
        bytes[0] = if flags & Cee::WILLING != 0 { WILLING } else { 0 };
        bytes[1..13].copy_from_slice(groups);
        bytes[13..].fill(algorithm::ETS);
        Ets::read(bytes)
    }

    /// Returns the applications, with one entry for each class of an application.
    pub fn applications(self) -> impl Iterator<Item = Application> + use<'a> {
        let settings = self.enabled_feature(Cee::APPLICATIONS).map_or(&[][..], |(_, settings)| settings);
        let entries = settings.as_chunks().0;
        entries.iter().flat_map(|&[high, low, organization, _, _, classes]: &[u8; 6]| {
            let protocol = u16::from_be_bytes([high, low]);
            let selector = if organization & 0b11 == 0 { selector::ETHER_TYPE } else { selector::PORT };
            ClassSet(classes).iter().map(move |class| Application { class, selector, protocol })
        })
    }
}

fn nested(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[high, low], rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(usize::from(high & 1) << 8 | usize::from(low))?;
    Some((high >> 1, value, rest))
}

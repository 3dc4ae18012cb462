//! DCBX (IEEE 802.1Qaz): TLVs of [`super::lldp`] about PFC, shares of the line (ETS), and application classes.

use crate::units::{CLASSES, Class, ClassSet};

/// First four bytes of each DCBX TLV: organization (IEEE 802.1) and subtype.
pub(super) const ETS: [u8; 4] = [0x00, 0x80, 0xc2, 9];
pub(super) const ETS_RECOMMENDATION: [u8; 4] = [0x00, 0x80, 0xc2, 0xa];
pub(super) const PFC: [u8; 4] = [0x00, 0x80, 0xc2, 0xb];
pub(super) const APPLICATIONS: [u8; 4] = [0x00, 0x80, 0xc2, 0xc];

const WILLING: u8 = 1 << 7;
/// Second flag: in ETS, the port has a credit-based shaper; in PFC, the port cannot bypass MACsec.
const SECOND: u8 = 1 << 6;

/// Transmission selection algorithms.
pub mod algorithm {
    /// Strict priority.
    pub const STRICT: u8 = 0;
    /// Share of the line (ETS).
    pub const ETS: u8 = 2;
}

/// Shares of the line by traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ets {
    /// True if the sender adopts its peer's recommendation.
    pub willing: bool,
    /// True if a credit-based shaper is supported.
    pub credit_based: bool,
    /// Number of supported traffic classes; zero means eight.
    pub classes_max: u8,
    /// Traffic class (0..=15) of each priority.
    pub traffic_class: [u8; CLASSES],
    /// Share in percent by traffic class.
    pub bandwidth: [u8; CLASSES],
    /// Transmission selection [`algorithm`] by traffic class.
    pub algorithm: [u8; CLASSES],
}

impl Ets {
    pub(super) fn read(bytes: [u8; 21]) -> Ets {
        let [first, rest @ ..] = bytes;
        Ets {
            willing: first & WILLING != 0,
            credit_based: first & SECOND != 0,
            classes_max: first & 0b111,
            traffic_class: std::array::from_fn(|class| rest[class / 2] >> (4 * (1 - class % 2)) & 0xf),
            bandwidth: std::array::from_fn(|class| rest[4 + class]),
            algorithm: std::array::from_fn(|class| rest[12 + class]),
        }
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
}

/// PFC settings of a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PfcState {
    /// True if the sender adopts its peer's classes.
    pub willing: bool,
    /// True if pauses bypass MACsec, overtaking frames that wait for encryption.
    pub bypasses_macsec: bool,
    /// Maximum number of classes with PFC, 0..=15; zero means unlimited.
    pub capability: u8,
    /// Classes with PFC.
    pub classes: ClassSet,
}

impl PfcState {
    pub(super) fn read([first, classes]: [u8; 2]) -> PfcState {
        PfcState {
            willing: first & WILLING != 0,
            bypasses_macsec: first & SECOND != 0,
            capability: first & 0xf,
            classes: ClassSet(classes),
        }
    }

    pub(super) fn to_bytes(self) -> [u8; 2] {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.willing, WILLING) | flag(self.bypasses_macsec, SECOND);
        [flags | self.capability & 0xf, self.classes.0]
    }
}

/// Fields that identify an [`Application`].
pub mod selector {
    /// Application identified by EtherType.
    pub const ETHER_TYPE: u8 = 1;
    /// Application identified by TCP, UDP, SCTP or DCCP port.
    pub const PORT: u8 = 4;
    /// Application identified by DSCP.
    pub const DSCP: u8 = 5;
}

/// Application and its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Application {
    /// Application's class.
    pub class: Class,
    /// Kind of field that identifies the application: a constant of [`selector`].
    pub selector: u8,
    /// Identifying field's value.
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

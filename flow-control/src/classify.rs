//! Class of a frame by its PCP, its DSCP, both, or its port.
//!
//! A port's [`Classifier`] is a table indexed by DSCP and PCP, which is read once per frame. A priority tag (VID 0)
//! counts as a tag. A DSCP counts only in an IP packet. Behind an 802.1ad tag, neither counts.

use xoff_wire::header::{Header, Tci};
use xoff_wire::units::Class;

use crate::settings::{PortSettings, Trust};

const NO_DSCP: usize = 64;
const NO_PCP: usize = 8;

/// Class table for all frames of a port.
#[derive(Clone, Debug)]
pub struct Classifier {
    classes: Box<[[Class; NO_PCP + 1]; NO_DSCP + 1]>,
}

impl Classifier {
    /// Builds a port's table.
    #[must_use]
    pub fn new(port: &PortSettings) -> Classifier {
        let mut classes = Box::new([[port.default_class; NO_PCP + 1]; NO_DSCP + 1]);
        for (dscp, by_pcp) in classes.iter_mut().enumerate() {
            let by_dscp = port.dscp_to_class.get(dscp).copied();
            for (pcp, class) in by_pcp.iter_mut().enumerate() {
                let by_pcp = port.pcp_to_class.get(pcp).copied();
                *class = trusted(port.trust, by_dscp, by_pcp).unwrap_or(port.default_class);
            }
        }
        Classifier { classes }
    }

    /// Returns the class of a frame.
    #[inline]
    #[must_use]
    pub fn classify(&self, header: &Header) -> Class {
        let dscp = header.dscp.map_or(NO_DSCP, |dscp| usize::from(dscp & 63));
        let pcp = header.tag.map_or(NO_PCP, |tag| Tci::pcp(tag).index());
        self.classes[dscp][pcp]
    }

    /// Returns the class for this DSCP and PCP.
    #[must_use]
    pub fn class_of(&self, dscp: Option<u8>, pcp: Option<u8>) -> Class {
        let dscp = dscp.map_or(NO_DSCP, |dscp| usize::from(dscp & 63));
        let pcp = pcp.map_or(NO_PCP, |pcp| usize::from(pcp & 7));
        self.classes[dscp][pcp]
    }
}

fn trusted(trust: Trust, by_dscp: Option<Class>, by_pcp: Option<Class>) -> Option<Class> {
    match trust {
        Trust::Pcp => by_pcp,
        Trust::Dscp => by_dscp,
        Trust::Both => by_dscp.or(by_pcp),
        Trust::Port => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::testing::port_settings;

    const DEFAULT: Class = Class::ALL[5];

    fn port(trust: Trust) -> PortSettings {
        PortSettings {
            trust,
            default_class: DEFAULT,
            pcp_to_class: std::array::from_fn(|pcp| Class::ALL[7 - pcp]),
            dscp_to_class: std::array::from_fn(|dscp| Class::ALL[(dscp / 8 + 3) % 8]),
            ..port_settings(0)
        }
    }

    fn header(tci: Option<u16>, ip: Option<(bool, u8)>) -> Header {
        let mut bytes = vec![2; 12];
        if let Some(tci) = tci {
            bytes.extend([0x81, 0x00]);
            bytes.extend(tci.to_be_bytes());
        }
        match ip {
            Some((true, dscp)) => bytes.extend([0x08, 0x00, 0x45, dscp << 2 | 1]),
            Some((false, dscp)) => bytes.extend([0x86, 0xdd, 0x60 | dscp >> 2, dscp << 6]),
            None => bytes.extend([0x88, 0xb5]),
        }
        bytes.resize(64, 0);
        Header::parse(&bytes).unwrap()
    }

    fn every_kind_of_frame(check: impl Fn(Header, Option<usize>, Option<usize>)) {
        let tags = (0..8u16).flat_map(|pcp| [pcp << 13, pcp << 13 | 1, pcp << 13 | 0x1ffe]);
        for tci in tags.map(Some).chain([None]) {
            let pcp = tci.map(|tci| usize::from(tci >> 13));
            check(header(tci, None), None, pcp);
            for dscp in 0..64 {
                check(header(tci, Some((true, dscp))), Some(dscp.into()), pcp);
                check(header(tci, Some((false, dscp))), Some(dscp.into()), pcp);
            }
        }
    }

    #[test]
    fn tagged_frames_are_classified_by_pcp() {
        let (port, classifier) = (port(Trust::Pcp), Classifier::new(&port(Trust::Pcp)));
        every_kind_of_frame(|header, _, pcp| {
            assert_eq!(classifier.classify(&header), pcp.map_or(DEFAULT, |pcp| port.pcp_to_class[pcp]));
        });
    }

    #[test]
    fn ip_packets_are_classified_by_dscp() {
        let (port, classifier) = (port(Trust::Dscp), Classifier::new(&port(Trust::Dscp)));
        every_kind_of_frame(|header, dscp, _| {
            assert_eq!(classifier.classify(&header), dscp.map_or(DEFAULT, |dscp| port.dscp_to_class[dscp]));
        });
    }

    // proves: classification
    #[test]
    fn trust_both_prefers_dscp_over_pcp() {
        let (port, classifier) = (port(Trust::Both), Classifier::new(&port(Trust::Both)));
        every_kind_of_frame(|header, dscp, pcp| {
            let expected = match (dscp, pcp) {
                (Some(dscp), _) => port.dscp_to_class[dscp],
                (None, Some(pcp)) => port.pcp_to_class[pcp],
                (None, None) => DEFAULT,
            };
            assert_eq!(classifier.classify(&header), expected);
        });
    }

    #[test]
    fn untrusted_port_gives_every_frame_its_default_class() {
        let classifier = Classifier::new(&port(Trust::Port));
        every_kind_of_frame(|header, _, _| assert_eq!(classifier.classify(&header), DEFAULT));
    }
}

//! Class of a frame by its PCP, its DSCP, both, or its port.
//!
//! A priority tag (VID 0) counts as a tag. A DSCP counts only in an IP packet without a tag, or directly behind one
//! 802.1Q tag. Behind an 802.1ad tag, neither PCP nor DSCP counts.

use xoff_wire::header::{Header, Tci};
use xoff_wire::units::{Class, ClassSet};

use crate::settings::{PortSettings, Trust};

const NO_DSCP: usize = 64;
const NO_PCP: usize = 8;

/// Table that gives the class of each frame of a port.
#[derive(Clone, Debug)]
pub struct Classifier(Box<Tables>);

#[derive(Clone, Debug)]
struct Tables {
    classes: [[Class; NO_PCP + 1]; NO_DSCP + 1],
    lossless: ClassSet,
    /// PCPs that map to lossless classes, to detect DSCPs that overrule them; empty at a port that ignores DSCPs.
    lossless_pcps: ClassSet,
}

impl Classifier {
    /// Builds the class table of a port.
    #[must_use]
    pub fn new(port: &PortSettings) -> Classifier {
        let mut classes = [[port.default_class; NO_PCP + 1]; NO_DSCP + 1];
        for (dscp, by_pcp) in classes.iter_mut().enumerate() {
            let by_dscp = port.dscp_to_class.get(dscp).copied();
            for (pcp, class) in by_pcp.iter_mut().enumerate() {
                let by_pcp = port.pcp_to_class.get(pcp).copied();
                *class = trusted(port.trust, by_dscp, by_pcp).unwrap_or(port.default_class);
            }
        }
        let is_lossless = |class: &Class| port.classes[class.index()].lossless;
        let may_overrule = matches!(port.trust, Trust::Dscp | Trust::Both);
        let of_lossless = |pcp: &Class| may_overrule && is_lossless(&port.pcp_to_class[pcp.index()]);
        Classifier(Box::new(Tables {
            classes,
            lossless: Class::ALL.into_iter().filter(is_lossless).collect(),
            lossless_pcps: Class::ALL.into_iter().filter(of_lossless).collect(),
        }))
    }

    /// Returns the class of a frame.
    #[inline]
    #[must_use]
    pub fn classify(&self, header: &Header) -> Class {
        let dscp = header.dscp.map_or(NO_DSCP, |dscp| usize::from(dscp & 63));
        let pcp = header.tag.map_or(NO_PCP, |tag| Tci::pcp(tag).index());
        self.0.classes[dscp][pcp]
    }

    /// Returns whether the frame's PCP maps to a lossless class, but its DSCP to the lossy `class`.
    #[inline]
    #[must_use]
    pub fn overrules_pcp(&self, header: &Header, class: Class) -> bool {
        let is_lossless_pcp = header.tag.is_some_and(|tag| self.0.lossless_pcps.contains(tag.pcp()));
        is_lossless_pcp && !self.0.lossless.contains(class)
    }

    /// Returns all classes that frames of the port can have.
    #[must_use]
    pub fn classes(&self) -> ClassSet {
        self.0.classes.iter().flatten().copied().collect()
    }

    /// Returns the class for this DSCP and PCP.
    #[must_use]
    pub fn class_of(&self, dscp: Option<u8>, pcp: Option<u8>) -> Class {
        let dscp = dscp.map_or(NO_DSCP, |dscp| usize::from(dscp & 63));
        let pcp = pcp.map_or(NO_PCP, |pcp| usize::from(pcp & 7));
        self.0.classes[dscp][pcp]
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

    #[test] // proves: classification
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

    #[test] // proves: classification
    fn data_file_frames_have_expected_class_for_each_trust_setting() {
        let table = include_str!("../../wire/data/data-frames.txt");
        for (columns, frame) in xoff_explore::frames(table) {
            let header = Header::parse(&frame).unwrap();
            let class = |trust| {
                let port = PortSettings { trust, ..port_settings(0) };
                Classifier::new(&port).classify(&header).get().to_string()
            };
            assert_eq!([Trust::Dscp, Trust::Pcp, Trust::Both].map(class), columns[1..4], "{columns:?}");
        }
    }

    #[test]
    fn dscp_that_maps_to_lossy_class_overrules_lossless_pcp() {
        let overruled = |trust, tci, ip| {
            let mut port = PortSettings { trust, ..port_settings(0) };
            port.classes[3].lossless = true;
            let (classifier, header) = (Classifier::new(&port), header(tci, ip));
            classifier.overrules_pcp(&header, classifier.classify(&header))
        };
        let (pcp_3, pcp_4, dscp_0, dscp_24) = (Some(0x6000), Some(0x8000), Some((true, 0)), Some((true, 24)));
        assert!(overruled(Trust::Both, pcp_3, dscp_0) && overruled(Trust::Dscp, pcp_3, None));
        for (trust, tci, ip) in [
            (Trust::Both, pcp_3, dscp_24),
            (Trust::Both, pcp_3, None),
            (Trust::Both, pcp_4, dscp_0),
            (Trust::Both, None, dscp_0),
            (Trust::Pcp, pcp_3, dscp_0),
            (Trust::Port, pcp_3, dscp_0),
        ] {
            assert!(!overruled(trust, tci, ip), "{trust:?} {tci:?} {ip:?}");
        }
    }
}

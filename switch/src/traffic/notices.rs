//! CNMs as a host takes them: those to itself are read, whoever they are for; malformed ones slow down
//! nobody and are counted by reason.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xoff_dataplane::units::MacAddr;
use xoff_dataplane::wire::{Cnm, CnmError, Header};

/// What came, but for CNMs to other hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notices {
    received: u64,
    unknown: u64,
    refused: [u64; CnmError::COUNT],
}

/// CNMs received.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CnmReport {
    /// Well-formed ones.
    pub received: u64,
    /// Those of them that name no stream with a rate limiter here.
    pub unknown: u64,
    /// Malformed ones, by reason.
    pub refused: BTreeMap<String, u64>,
}

/// A rate limiter's number, and the feedback for it.
pub type Notice = (u16, u8);

impl Notices {
    /// Takes a CNM at the host with this address; answers which limiter it is for, if it names one.
    pub fn receive(&mut self, address: MacAddr, header: &Header, head: &[u8]) -> Option<Notice> {
        if header.dst != address && !header.dst.is_group() {
            return None;
        }
        match Cnm::parse(header, head) {
            Ok(cnm) => {
                self.received += 1;
                header.cn_tag.map(|cn_tag| (cn_tag.0, cnm.feedback))
            }
            Err(reason) => {
                self.refused[reason.index()] += 1;
                None
            }
        }
    }

    /// The CNM received last is for no stream here.
    pub fn note_unknown(&mut self) {
        self.unknown += 1;
    }

    /// As reported.
    #[must_use]
    pub fn report(&self) -> CnmReport {
        let refused = CnmError::ALL.iter().map(|reason| (reason.name().into(), self.refused[reason.index()]));
        CnmReport {
            received: self.received,
            unknown: self.unknown,
            refused: refused.filter(|(_, frames)| *frames > 0).collect(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use xoff_dataplane::units::Class;
    use xoff_dataplane::wire::CnTag;
    use xoff_dataplane::wire::cnm::{CongestionPointId, Envelope, Msdu};

    const ADDRESS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

    fn cnm(dst: MacAddr, cn_tag: Option<CnTag>) -> Vec<u8> {
        let cnm = Cnm {
            feedback: 17,
            congestion_point: CongestionPointId([0; 8]),
            q_offset: 0,
            q_delta: 0,
            priority: Class::ALL[3],
            destination: ADDRESS,
            msdu: Msdu::of(&[]),
        };
        cnm.encode(&Envelope { dst, src: ADDRESS, tag: None, cn_tag }).as_bytes().to_vec()
    }

    #[test]
    fn only_what_is_well_formed_and_for_this_host_slows_a_stream_down() {
        let mut notices = Notices::default();
        let mut take = |bytes: &[u8]| notices.receive(ADDRESS, &Header::parse(bytes).unwrap(), bytes);
        assert_eq!(take(&cnm(ADDRESS, Some(CnTag(5)))), Some((5, 17)));
        assert_eq!(take(&cnm(ADDRESS, None)), None);
        assert_eq!(take(&cnm(MacAddr([2; 6]), Some(CnTag(5)))), None);
        assert_eq!(take(&cnm(MacAddr::BROADCAST, Some(CnTag(5)))), None);
        assert_eq!(take(&cnm(ADDRESS, Some(CnTag(5)))[..30]), None);
        notices.note_unknown();
        let report = notices.report();
        assert_eq!((report.received, report.unknown), (2, 1));
        let refused: Vec<_> = report.refused.into_iter().collect();
        assert_eq!(refused, [("group_address".into(), 1), ("truncated".into(), 1)]);
    }
}

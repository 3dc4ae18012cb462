use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xoff_wire::cnm::LEN_MAX;
use xoff_wire::units::{MacAddr, Nanos};
use xoff_wire::{Cnm, CnmError, Header};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notices {
    received: u64,
    unknown: u64,
    refused: [u64; CnmError::COUNT],
    captured: Vec<CapturedCnm>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedCnm {
    /// Time of receipt, by the host's clock.
    pub at: Nanos,
    bytes: [u8; LEN_MAX],
    len: usize,
}

impl CapturedCnm {
    fn new(at: Nanos, frame: &[u8]) -> CapturedCnm {
        let len = frame.len().min(LEN_MAX);
        let mut bytes = [0; LEN_MAX];
        bytes[..len].copy_from_slice(&frame[..len]);
        CapturedCnm { at, bytes, len }
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CnmReport {
    pub received: u64,
    /// Well-formed CNMs whose CN-TAG names no stream, or a stream without rate limiter.
    pub unknown: u64,
    pub refused: BTreeMap<String, u64>,
    /// First 4096 well-formed CNMs, in the order of receipt.
    #[serde(skip)]
    pub captured: Vec<CapturedCnm>,
}

/// Maximum number of CNMs kept for the report; they take at most 500 KB.
const CAPTURED_MAX: usize = 4096;

/// Content of a CNM: number of the rate limiter, and quantized feedback.
pub type Notice = (u16, u8);

impl Notices {
    #[must_use]
    pub fn new(limiters: bool) -> Notices {
        let room = if limiters { CAPTURED_MAX } else { 0 };
        Notices { received: 0, unknown: 0, refused: [0; CnmError::COUNT], captured: Vec::with_capacity(room) }
    }

    pub fn receive(&mut self, now: Nanos, address: MacAddr, header: &Header, head: &[u8]) -> Option<Notice> {
        let cnm = self.read(now, address, header, head)?;
        header.cn_tag.map(|cn_tag| (cn_tag.0, cnm.feedback))
    }

    /// Returns the CNM if it is well-formed and addressed to this host.
    pub fn read(&mut self, now: Nanos, address: MacAddr, header: &Header, head: &[u8]) -> Option<Cnm> {
        if header.dst != address && !header.dst.is_group() {
            return None;
        }
        match Cnm::parse(header, head) {
            Ok(cnm) => {
                self.received += 1;
                if self.captured.len() < self.captured.capacity() {
                    self.captured.push(CapturedCnm::new(now, head));
                }
                Some(cnm)
            }
            Err(reason) => {
                self.refused[reason.index()] += 1;
                None
            }
        }
    }

    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    #[must_use]
    pub const fn refused(&self) -> &[u64; CnmError::COUNT] {
        &self.refused
    }

    pub fn note_unknown(&mut self) {
        self.unknown += 1;
    }

    #[must_use]
    pub fn report(&self) -> CnmReport {
        let refused = CnmError::ALL.iter().map(|reason| (reason.name().into(), self.refused[reason.index()]));
        CnmReport {
            received: self.received,
            unknown: self.unknown,
            refused: refused.filter(|(_, frames)| *frames > 0).collect(),
            captured: self.captured.clone(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use xoff_wire::CnTag;
    use xoff_wire::cnm::{CongestionPointId, Envelope, Msdu};
    use xoff_wire::units::Class;

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
    fn only_well_formed_cnm_for_this_host_slows_its_stream() {
        let mut notices = Notices::new(true);
        let mut take =
            |bytes: &[u8]| notices.receive(Nanos(9), ADDRESS, &Header::parse(bytes).unwrap(), bytes);
        assert_eq!(take(&cnm(ADDRESS, Some(CnTag(5)))), Some((5, 17)));
        assert_eq!(take(&cnm(ADDRESS, None)), None);
        assert_eq!(take(&cnm(MacAddr([2; 6]), Some(CnTag(5)))), None);
        assert_eq!(take(&cnm(MacAddr::BROADCAST, Some(CnTag(5)))), None);
        assert_eq!(take(&cnm(ADDRESS, Some(CnTag(5)))[..30]), None);
        notices.note_unknown();
        let report = notices.report();
        assert_eq!((report.received, report.unknown), (2, 1));
        let captured: Vec<_> = report.captured.iter().map(|cnm| (cnm.at, cnm.as_bytes())).collect();
        let (tagged, untagged) = (cnm(ADDRESS, Some(CnTag(5))), cnm(ADDRESS, None));
        assert_eq!(captured, [(Nanos(9), &tagged[..]), (Nanos(9), &untagged[..])]);
        let refused: Vec<_> = report.refused.into_iter().collect();
        assert_eq!(refused, [("group_address".into(), 1), ("truncated".into(), 1)]);
    }
    #[test]
    fn host_keeps_a_bounded_number_of_received_cnms() {
        let bytes = cnm(ADDRESS, Some(CnTag(5)));
        for (limiters, kept) in [(true, CAPTURED_MAX), (false, 0)] {
            let mut notices = Notices::new(limiters);
            for _ in 0..=CAPTURED_MAX {
                notices.receive(Nanos(9), ADDRESS, &Header::parse(&bytes).unwrap(), &bytes);
            }
            let report = notices.report();
            assert_eq!((report.received, report.captured.len()), (CAPTURED_MAX as u64 + 1, kept));
        }
    }
}

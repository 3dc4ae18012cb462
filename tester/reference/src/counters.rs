//! Counters of a port, as a switch shows them to its operator.

use serde::Serialize;

use crate::defects::{Defect, Defects};
use crate::frame::CLASSES;
use crate::pfc::Pfc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The headroom of a lossless class was full.
    Headroom,
    /// The egress queue of a lossy class was full.
    Full,
    Watchdog,
    LinkDown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClassCounters {
    pub rx_frames: u64,
    pub rx_bytes: u64,
    pub tx_frames: u64,
    pub tx_bytes: u64,
    /// Dropped frames, by the ingress port.
    pub dropped_headroom: u64,
    pub dropped_full: u64,
    pub dropped_watchdog: u64,
    pub dropped_link_down: u64,
    pub xoff_received: u64,
    pub xon_received: u64,
    pub xoff_sent: u64,
    pub xon_sent: u64,
    pub ecn_marked: u64,
    pub storms: u64,
    pub restored: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counters {
    /// Received PFC frames that had an effect.
    pub pfc_received: u64,
    pub pfc_sent: u64,
    pub classes: [ClassCounters; CLASSES],
    #[serde(skip)]
    defects: Defects,
}

impl Counters {
    #[must_use]
    pub fn new(defects: Defects) -> Counters {
        Counters { defects, ..Counters::default() }
    }

    pub const fn received(&mut self, class: usize, len: u64) {
        let factor = if self.defects.has(Defect::CountsTwice) { 2 } else { 1 };
        self.classes[class].rx_frames += factor;
        self.classes[class].rx_bytes += factor * len;
    }

    pub const fn sent(&mut self, class: usize, len: u64) {
        self.classes[class].tx_frames += 1;
        self.classes[class].tx_bytes += len;
    }

    pub const fn dropped(&mut self, class: usize, reason: Reason) {
        if self.defects.has(Defect::CountsNoDrops) {
            return;
        }
        let counters = &mut self.classes[class];
        match reason {
            Reason::Headroom => counters.dropped_headroom += 1,
            Reason::Full => counters.dropped_full += 1,
            Reason::Watchdog => counters.dropped_watchdog += 1,
            Reason::LinkDown => counters.dropped_link_down += 1,
        }
    }

    pub fn pfc_received(&mut self, pfc: &Pfc) {
        if self.defects.has(Defect::CountsNoPfcReceived) {
            return;
        }
        self.pfc_received += 1;
        for class in (0..CLASSES).filter(|&class| pfc.has(class)) {
            let counters = &mut self.classes[class];
            *(if pfc.times[class] > 0 { &mut counters.xoff_received } else { &mut counters.xon_received }) +=
                1;
        }
    }

    pub fn pfc_sent(&mut self, pfc: &Pfc) {
        if self.defects.has(Defect::CountsNoPfcSent) {
            return;
        }
        self.pfc_sent += 1;
        for class in (0..CLASSES).filter(|&class| pfc.has(class)) {
            let counters = &mut self.classes[class];
            *(if pfc.times[class] > 0 { &mut counters.xoff_sent } else { &mut counters.xon_sent }) += 1;
        }
    }
}

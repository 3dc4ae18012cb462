use std::fmt::Write as _;

use crate::defects::{Defect, Defects};
use crate::frame::CLASSES;
use crate::pfc::Pfc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Headroom,
    /// The egress queue of a lossy class was full.
    Full,
    Watchdog,
    LinkDown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    pub rx_frames: u64,
    pub tx_frames: u64,
    /// Frames received at the port and dropped, because the class would have exceeded XOFF plus headroom.
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
    /// Frames dropped at their egress port.
    pub watchdog_dropped: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub pfc_received: u64,
    pub pfc_sent: u64,
    pub classes: [ClassCounters; CLASSES],
    defects: Defects,
}

impl Counters {
    #[must_use]
    pub fn new(defects: Defects) -> Counters {
        Counters { defects, ..Counters::default() }
    }

    pub const fn received(&mut self, class: usize) {
        self.classes[class].rx_frames += if self.defects.has(Defect::CountsTwice) { 2 } else { 1 };
    }

    pub const fn sent(&mut self, class: usize) {
        self.classes[class].tx_frames += 1;
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

    /// Returns a line per counter: port, name, value. Names of class counters begin with the class: `class3_xoff_sent`.
    #[must_use]
    pub fn lines(&self, port: &str) -> String {
        let sum = |count: fn(&ClassCounters) -> u64| self.classes.iter().map(count).sum::<u64>();
        let mut text = String::new();
        for (name, value) in [
            ("pfc_received", self.pfc_received),
            ("pfc_sent", self.pfc_sent),
            ("rx_frames", sum(|class| class.rx_frames)),
            ("tx_frames", sum(|class| class.tx_frames)),
            ("dropped", sum(ClassCounters::dropped)),
            ("storms_detected", sum(|class| class.storms)),
            ("storms_restored", sum(|class| class.restored)),
            ("watchdog_dropped", sum(|class| class.watchdog_dropped)),
        ] {
            let _ = writeln!(text, "{port} {name} {value}");
        }
        for (number, class) in self.classes.iter().enumerate() {
            for (name, value) in class.named() {
                let _ = writeln!(text, "{port} class{number}_{name} {value}");
            }
        }
        text
    }
}

impl ClassCounters {
    const fn dropped(&self) -> u64 {
        self.dropped_headroom + self.dropped_full + self.dropped_watchdog + self.dropped_link_down
    }

    const fn named(&self) -> [(&'static str, u64); 13] {
        [
            ("rx_frames", self.rx_frames),
            ("tx_frames", self.tx_frames),
            ("dropped_headroom", self.dropped_headroom),
            ("dropped_full", self.dropped_full),
            ("dropped_watchdog", self.dropped_watchdog),
            ("dropped_link_down", self.dropped_link_down),
            ("xoff_received", self.xoff_received),
            ("xon_received", self.xon_received),
            ("xoff_sent", self.xoff_sent),
            ("xon_sent", self.xon_sent),
            ("ecn_marked", self.ecn_marked),
            ("storms", self.storms),
            ("restored", self.restored),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_counters_include_sums_over_all_classes() {
        let mut counters = Counters::default();
        counters.received(3);
        counters.received(4);
        counters.dropped(4, Reason::Full);
        let text = counters.lines("p1");
        for line in ["p1 rx_frames 2", "p1 dropped 1", "p1 class4_dropped_full 1", "p1 class3_rx_frames 1"] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
    }
}

//! What the demo found, for people and for programs.

use std::fmt::{self, Display};

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Cell, CellAlignment, Table};
use serde::Serialize;

use xoff_switch::Promise;

use crate::{Pfc, Totals};

/// The result of a demo; its JSON is stable.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Class 3: the four senders' streams and the victim.
    pub lossless: Totals,
    /// Class 0.
    pub lossy: LossyTotals,
    /// The stream on class 3 between two uncongested ports.
    pub victim: Victim,
    /// Bits that arrived through the congested port, preamble and gap included, over its line rate.
    pub goodput_ratio: f64,
    /// Jain's index over what each of the four senders' lossless streams got; 1 is perfectly fair. Null where
    /// nobody got anything.
    pub fairness: Option<f64>,
    /// Pause, as the switch asked for it.
    pub pfc: Pfc,
    /// Headroom of the lossless class.
    pub headroom: Headroom,
    /// Every XDP and veth drop counter of every port and host, added up.
    pub xdp_drops: u64,
    /// Whether every frame is delivered, queued, or dropped for a named reason.
    pub ledger_balanced: bool,
    /// What could tell of a loss and cannot be read.
    pub unproved: Vec<String>,
    /// Longest time that the machine kept the switch from running, ms.
    pub longest_stall_ms: f64,
    /// The same of a host.
    pub longest_host_gap_ms: f64,
    /// Line rate of every port, Mb/s: lower than 1000 where a probe showed that the machine cannot
    /// carry that.
    pub line_mbps: u64,
    /// How long traffic was offered, s.
    pub seconds: f64,
}

/// Frames of the lossy class, and where the missing ones went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LossyTotals {
    /// As for the others.
    #[serde(flatten)]
    pub totals: Totals,
    /// Dropped and counted by the switch.
    pub dropped_by_switch: u64,
}

/// The stream that shares the class of the congestion but not its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Victim {
    /// What was offered, Mb/s of layer 1.
    pub offered_mbps: f64,
    /// What arrived.
    pub received_mbps: f64,
}

/// Headroom of the lossless class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Headroom {
    /// The least that any port had left; null where no class has any.
    pub least_free_bytes: Option<u64>,
}

impl Report {
    /// Whether the switch kept its promise: the lossless class clean, the ledger balanced, and all read that could tell of
    /// a loss.
    #[must_use]
    pub const fn promise(&self) -> Promise {
        match self.lossless.is_clean() && self.ledger_balanced {
            true if self.unproved.is_empty() => Promise::Kept,
            true => Promise::NotProved,
            false => Promise::NotKept,
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.line_mbps;
        writeln!(
            f,
            "\n4 senders of {rate} Mb/s each into one {rate} Mb/s port, {:.0} s: class 3 lossless, class 0 lossy,\n\
             and a victim on class 3 between two ports that are not congested.\n",
            self.seconds
        )?;
        let mut frames = table(&["frames", "sent", "received", "lost", "duplicated", "reordered"]);
        frames.add_row(frames_row("lossless (class 3)", &self.lossless));
        frames.add_row(frames_row("lossy (class 0)", &self.lossy.totals));
        writeln!(f, "{frames}")?;
        writeln!(f, "  dropped and counted by the switch, lossy: {}\n", self.lossy.dropped_by_switch)?;
        let mut facts = table(&["measured", "", "what it means"]);
        for (name, value, meaning) in self.facts() {
            facts.add_row([Cell::new(name), right(value), Cell::new(meaning)]);
        }
        writeln!(f, "{facts}\n")?;
        match self.promise() {
            Promise::Kept => writeln!(
                f,
                "0 lost, 0 duplicated, 0 reordered in the lossless class; least headroom left: {} bytes.",
                self.headroom.least_free_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string())
            ),
            Promise::NotProved => writeln!(
                f,
                "No loss is known, but it is NOT proved that there was none: {}.",
                self.unproved.join("; ")
            ),
            Promise::NotKept => {
                writeln!(f, "The promise was NOT kept: see the lossless row and the ledger above.")
            }
        }
    }
}

impl Report {
    fn facts(&self) -> [(&'static str, String, &'static str); 9] {
        let kept = 100.0 * self.victim.received_mbps / self.victim.offered_mbps;
        let fairness = self.fairness.map_or_else(|| "-".to_owned(), |index| format!("{index:.3}"));
        [
            ("goodput", percent(self.goodput_ratio), "of the congested port's line rate, all classes"),
            ("fairness", fairness, "Jain's index over the four senders; 1 is fair"),
            ("victim", format!("{kept:.1} %"), "of its offered rate arrived"),
            (
                "longest stall",
                format!("{:.1} ms", self.longest_stall_ms),
                "that the machine kept the switch from running",
            ),
            ("XOFF sent", self.pfc.xoff_sent.to_string(), "times that a sender was told to stop class 3"),
            ("XON sent", self.pfc.xon_sent.to_string(), "times that it was told to go on"),
            ("paused", format!("{:.0} ms", self.pfc.paused_ms), "all senders added up"),
            (
                "kernel drops",
                self.xdp_drops.to_string(),
                "every XDP and veth drop counter, all ports and hosts",
            ),
            (
                "ledger",
                balanced(self.ledger_balanced).to_owned(),
                "received = sent + queued + dropped by reason",
            ),
        ]
    }
}

fn balanced(is: bool) -> &'static str {
    if is { "balanced" } else { "NOT balanced" }
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", 100.0 * ratio)
}

fn frames_row(name: &str, totals: &Totals) -> Vec<Cell> {
    let numbers = [totals.sent, totals.received, totals.lost, totals.duplicated, totals.reordered];
    std::iter::once(Cell::new(name)).chain(numbers.map(|n| right(n.to_string()))).collect()
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY).set_header(header);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_proved_is_not_kept_and_says_so() {
        let lossless = Totals { sent: 5, received: 5, ..Totals::default() };
        let kept = Report { lossless, ledger_balanced: true, ..Report::default() };
        let unproved = Report { unproved: vec!["demo: its device is gone".into()], ..kept.clone() };
        let lost = Report { lossless: Totals { lost: 1, ..lossless }, ..unproved.clone() };
        let promises = [&kept, &unproved, &lost].map(Report::promise);
        assert_eq!(promises, [Promise::Kept, Promise::NotProved, Promise::NotKept]);
        let said = [kept, unproved, lost].map(|report| report.to_string());
        let words =
            ["0 lost, 0 duplicated", "NOT proved that there was none: demo: its device is gone.", "NOT kept"];
        for (said, words) in said.iter().zip(words) {
            assert!(said.contains(words), "{said}");
        }
    }
}

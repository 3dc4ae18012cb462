use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use xoff_config::format::span;
use xoff_config::visible;

use super::runs::Runs;
use super::values::{date, limits, range};
use super::{Accuracy, Report, Verdict};

impl Report {
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n{}\n", self.device.name, self.headline(), self.origin());
        let _ = writeln!(text, "tester: {}", self.accuracy.text());
        if self.cases.is_empty() {
            text += "no case was run\n";
            return visible(&text).into_owned();
        }
        let _ = writeln!(text, "\n{}\n\n{}", self.tally_table(), self.case_table());
        for runs in self.runs().iter().filter(|runs| runs.verdict() != Verdict::Pass) {
            details(&mut text, runs);
        }
        visible(&text).into_owned()
    }

    /// Formats the verdict and its share of the cases: `fail (2 of 31 cases)`.
    pub(super) fn headline(&self) -> String {
        let verdict = self.verdict();
        let (count, all) = (self.count(verdict), self.runs().len());
        format!("{verdict} ({count} of {all} {})", if all == 1 { "case" } else { "cases" })
    }

    pub(super) fn origin(&self) -> String {
        let ended = self.ended_early.iter().map(|why| format!("; ended early: {why}"));
        let ended: String = ended.collect();
        format!("{}, {}, xoff {}{ended}", date(self.started_s), self.duration(), self.version)
    }

    fn duration(&self) -> String {
        super::values::value(self.duration_s, "s")
    }

    fn tally_table(&self) -> String {
        let mut header = vec!["group".to_owned()];
        header.extend(Verdict::ALL.map(|verdict| verdict.to_string()));
        let row = |group: &str, counts: [usize; 4]| {
            let counts = counts.map(|count| count.to_string());
            std::iter::once(group.to_owned()).chain(counts).collect::<Vec<String>>()
        };
        let mut rows: Vec<_> = self.tallies().iter().map(|tally| row(tally.group, tally.counts)).collect();
        rows.push(row("all", Verdict::ALL.map(|verdict| self.count(verdict))));
        let mut table = table(&header, rows);
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        table.trim_fmt()
    }

    fn case_table(&self) -> String {
        let row = |runs: &Runs<'_>| {
            vec![runs.verdict().to_string(), runs.id.to_owned(), runs.runs[0].title.clone()]
        };
        let header = ["verdict", "case", "question"].map(str::to_owned);
        table(&header, self.runs().iter().map(row).collect()).trim_fmt()
    }
}

impl Accuracy {
    pub(super) fn text(&self) -> String {
        format!(
            "{} time stamps, error below {} (half of frames) and {} (99 %), longest stall {}",
            self.clock,
            span(self.error_p50_ns),
            span(self.error_p99_ns),
            span(self.longest_stall_ns)
        )
    }
}

fn table(header: &[String], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header).add_rows(rows);
    table
}

fn details(text: &mut String, runs: &Runs<'_>) {
    let worst = runs.worst();
    let _ = writeln!(text, "\n{}: {}{}", runs.id, worst.verdict, share(runs));
    let _ = writeln!(text, "  {}", worst.reason);
    for values in runs.values() {
        let limits = limits(values.first());
        let mark = if values.are_within() == Some(false) { "!" } else { " " };
        let limits = if limits.is_empty() { limits } else { format!(" ({limits})") };
        let _ = writeln!(text, "  {mark} {}: {}{limits}", values.first().name, range(&values));
    }
    let _ = writeln!(text, "  source: {}", worst.source);
}

/// Returns how many runs had the worst verdict, such as ` in 2 of 5 runs`; empty for one run.
pub(super) fn share(runs: &Runs<'_>) -> String {
    match runs.runs.len() {
        1 => String::new(),
        all => {
            let verdict = runs.verdict();
            format!(" in {} of {all} runs", runs.runs.iter().filter(|run| run.verdict == verdict).count())
        }
    }
}

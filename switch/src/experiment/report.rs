//! What an experiment found, for people and for programs.

use std::fmt::{self, Display};

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Cell, CellAlignment, Table};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::plot::{Content, Panel};
use super::statistics::p50;
use super::{Conduct, Experiment, Figure, Request, Spread, Variant, Verdict};
use crate::control::status::Promise;

/// Of times from begin to end, where nothing came to an end.
pub(super) const NONE_COMPLETED: &str = "none completed";
/// Of what is computed from what arrived.
pub(super) const NOTHING_ARRIVED: &str = "nothing arrived";

/// What was measured of each policy.
#[derive(Debug, Default)]
pub struct Findings {
    policies: Vec<(&'static Variant, Conduct, Value)>,
    /// What people read.
    pub text: String,
    /// What they look at.
    pub figure: Figure,
}

impl Findings {
    /// One more policy: its conduct, and beside it what this experiment measures. Returns what it is called in
    /// tables and figures, where one that lost frames is marked.
    ///
    /// # Panics
    /// Where `measured` is no object; it is one for every struct.
    pub fn add(&mut self, variant: &'static Variant, conduct: Conduct, measured: &impl Serialize) -> String {
        let mut all = serde_json::to_value(&conduct).expect("numbers have a JSON form");
        let measured = serde_json::to_value(measured).expect("numbers have a JSON form");
        let (Value::Object(into), Value::Object(more)) = (&mut all, measured) else {
            panic!("structs are objects")
        };
        into.extend(more);
        let name = label(variant, &conduct);
        self.policies.push((variant, conduct, all));
        name
    }

    /// What each policy lost; `None` where none lost anything.
    fn losses(&self) -> Option<Panel> {
        let lost = |(variant, conduct, _): &(&Variant, Conduct, _)| {
            (label(variant, conduct), vec![(0.0, conduct.gone_percent())])
        };
        let any = self.policies.iter().any(|(_, conduct, _)| conduct.gone > 0);
        any.then(|| {
            let x = "lost, of all frames of the class that were sent (%)";
            Panel::new("Losses", x, "", Content::Spans(self.policies.iter().map(lost).collect()))
        })
    }
}

fn label(variant: &Variant, conduct: &Conduct) -> String {
    if conduct.gone > 0 { format!("{} (lost frames)", variant.name) } else { variant.name.to_owned() }
}

/// The result of an experiment; its JSON is stable.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Of the experiment.
    pub name: &'static str,
    /// Rate of the lines, Mb/s.
    pub line_mbps: f64,
    /// How often each policy was measured.
    pub runs: u32,
    /// By policy.
    #[serde(serialize_with = "by_policy")]
    policies: Vec<(&'static Variant, Conduct, Value)>,
    #[serde(skip)]
    text: String,
    /// What people look at.
    #[serde(skip)]
    pub figure: Figure,
}

fn by_policy<S: Serializer>(
    policies: &[(&'static Variant, Conduct, Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(policies.len()))?;
    for (variant, _, value) in policies {
        map.serialize_entry(variant.name, value)?;
    }
    map.end()
}

impl Report {
    pub(super) fn new(experiment: &Experiment, request: &Request, mut findings: Findings) -> Report {
        findings.figure.panels.extend(findings.losses());
        Report {
            name: experiment.name,
            line_mbps: request.line.bits_per_second() as f64 / 1e6,
            runs: request.runs,
            policies: findings.policies,
            text: findings.text,
            figure: findings.figure,
        }
    }

    /// Whether every policy that promises to lose nothing lossless lost nothing, and none did what none may.
    #[must_use]
    pub fn promise(&self) -> Promise {
        let promises =
            self.policies.iter().map(|(variant, conduct, _)| match (conduct.verdict, variant.lossless) {
                (Verdict::Kept, _) | (Verdict::Unproved | Verdict::Lossy, false) => Promise::Kept,
                (Verdict::Unproved, true) => Promise::NotProved,
                (Verdict::Lossy, true) | (Verdict::Broken, _) => Promise::NotKept,
            });
        let promises: Vec<Promise> = promises.collect();
        let worst =
            [Promise::NotKept, Promise::NotProved].into_iter().find(|promise| promises.contains(promise));
        worst.unwrap_or(Promise::Kept)
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.text.trim_end())?;
        let mut conduct = table(&[
            "lossless class",
            "sent",
            "received",
            "lost",
            "duplicated",
            "reordered",
            "ledger",
            "kernel drops",
            "longest stall",
        ]);
        for (variant, of, _) in &self.policies {
            let totals = of.lossless;
            let numbers = [totals.sent, totals.received, totals.lost, totals.duplicated, totals.reordered];
            let mut row = vec![label(variant, of)];
            row.extend(numbers.map(|number| number.to_string()));
            row.push(if of.ledger_balanced { "balanced" } else { "NOT balanced" }.to_owned());
            row.push(of.xdp_drops.to_string());
            row.push(format!("{:.1} ms", of.longest_stall_ms));
            add_row(&mut conduct, row);
        }
        writeln!(f, "{conduct}")?;
        for (variant, of, _) in &self.policies {
            match (of.verdict, variant.lossless) {
                (Verdict::Kept, _) | (Verdict::Unproved, false) => {}
                (Verdict::Unproved, true) => writeln!(
                    f,
                    "{}: no loss is known, but it is NOT proved that there was none: {}.",
                    variant.name,
                    of.unproved.join("; ")
                )?,
                (Verdict::Lossy, false) => {
                    writeln!(f, "{} loses frames, as it says of itself.", variant.name)?
                }
                (_, true) => writeln!(f, "{}: the promise was NOT kept.", variant.name)?,
                (Verdict::Broken, false) => writeln!(
                    f,
                    "{} may lose frames, but NOT duplicate, reorder or lose count of them.",
                    variant.name
                )?,
            }
        }
        Ok(())
    }
}

/// A table with these columns.
#[must_use]
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY).set_header(header);
    table
}

/// A number with so many decimals; a dash where there is none.
pub(super) fn number(value: impl Into<Option<f64>>, decimals: usize) -> String {
    value.into().map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// The median, with so many decimals.
pub(super) fn median(spread: Option<Spread>, decimals: usize) -> String {
    number(p50(spread), decimals)
}

/// The median, and the least in brackets.
pub(super) fn median_and_least(spread: Option<Spread>, decimals: usize) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |Spread { p50, min, .. }| format!("{p50:.decimals$} ({min:.decimals$})"),
    )
}

/// The median of how long it took until something was complete, to the unit.
pub(super) fn median_completion(spread: Option<Spread>) -> String {
    spread.map_or_else(|| NONE_COMPLETED.to_owned(), |spread| format!("{:.0}", spread.p50))
}

/// All five numbers of how long it took until something was complete.
pub(super) fn completion(spread: Option<Spread>, decimals: usize) -> String {
    let Some(Spread { min, p25, p50, p75, max, .. }) = spread else { return NONE_COMPLETED.to_owned() };
    [min, p25, p50, p75, max].map(|value| format!("{value:.decimals$}")).join(" / ")
}

/// A row: a name and numbers.
pub(super) fn add_row(table: &mut Table, cells: impl IntoIterator<Item = String>) {
    let cell = |(column, text)| match column {
        0 => Cell::new(text),
        _ => Cell::new(text).set_alignment(CellAlignment::Right),
    };
    table.add_row(cells.into_iter().enumerate().map(cell));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_dataplane::units::BitRate;

    use super::super::EXPERIMENTS;
    use super::*;
    use crate::fabric::Totals;

    #[derive(Serialize)]
    struct Measured {
        goodput_mbps: f64,
    }

    fn report(conducts: [Conduct; 2]) -> Report {
        let mut findings = Findings::default();
        for (name, conduct) in ["pfc", "pfc-wdrop"].iter().zip(conducts) {
            findings.add(Variant::find(name).unwrap(), conduct, &Measured { goodput_mbps: 90.0 });
        }
        let request = Request {
            policies: Vec::new(),
            line: BitRate::from_mbps(100),
            runs: 1,
            seconds: 1,
            own_policy: None,
        };
        Report::new(&EXPERIMENTS[0], &request, findings)
    }

    fn clean() -> Conduct {
        let lossless = Totals { sent: 5, received: 5, ..Totals::default() };
        Conduct { lossless, ledger_balanced: true, ..Conduct::default() }
    }

    #[test]
    fn json_has_policies_by_name_with_the_same_keys() {
        let json = serde_json::to_value(report([clean(), clean()])).unwrap();
        assert_eq!(json["name"], EXPERIMENTS[0].name);
        let policies = json["policies"].as_object().unwrap();
        let keys = |name: &str| policies[name].as_object().unwrap().keys().collect::<Vec<_>>();
        assert_eq!(keys("pfc"), keys("pfc-wdrop"));
        for path in ["/lossless/lost", "/pfc/xoff_sent", "/ledger_balanced", "/goodput_mbps"] {
            assert!(policies["pfc"].pointer(path).is_some(), "{path} in {json}");
        }
    }

    #[test]
    fn a_policy_that_lost_frames_is_marked_and_its_losses_are_a_panel() {
        let lossless = Totals { sent: 200, received: 150, lost: 50, ..Totals::default() };
        let lossy = Conduct { lossless, gone: 50, verdict: Verdict::Lossy, ..clean() };
        let of = report([clean(), lossy]);
        assert!(of.to_string().contains("pfc-wdrop (lost frames)"), "{of}");
        let [Panel { content: Content::Spans(rows), .. }] = &of.figure.panels[..] else {
            panic!("{:?}", of.figure)
        };
        let [kept, lost] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!(
            (kept, lost),
            (&("pfc".into(), vec![(0.0, 0.0)]), &("pfc-wdrop (lost frames)".into(), vec![(0.0, 25.0)]))
        );
    }

    #[test]
    fn where_nothing_is_lost_or_all_that_is_missing_waits_nobody_is_marked() {
        let lossless = Totals { sent: 200, received: 150, lost: 50, ..Totals::default() };
        let waits = Conduct { lossless, held: 50, ..clean() };
        let of = report([clean(), waits]);
        assert!(of.figure.panels.is_empty() && !of.to_string().contains("(lost frames)"), "{of}");
    }

    #[test]
    fn where_nothing_was_measured_no_number_stands() {
        assert_eq!([number(None, 1), median(None, 1), median_and_least(None, 1)], ["-", "-", "-"]);
        assert_eq!(completion(None, 1), "none completed");
        assert_eq!(completion(Spread::of([1.0, 3.0]), 1), "1.0 / 1.5 / 2.0 / 2.5 / 3.0");
    }

    #[test]
    fn only_a_policy_that_promises_to_lose_nothing_breaks_a_promise() {
        let lossy = Conduct { verdict: Verdict::Lossy, ..clean() };
        assert_eq!(report([clean(), lossy.clone()]).promise(), Promise::Kept);
        assert_eq!(report([lossy, clean()]).promise(), Promise::NotKept);
    }

    #[test]
    fn what_is_not_proved_is_said_where_it_was_promised() {
        let gaps = vec!["s1: its device is gone".to_owned()];
        let unproved = Conduct { verdict: Verdict::Unproved, unproved: gaps, ..clean() };
        assert_eq!(report([clean(), unproved.clone()]).promise(), Promise::Kept, "it promises nothing");
        let of = report([unproved.clone(), clean()]);
        assert_eq!(of.promise(), Promise::NotProved);
        assert!(of.to_string().contains("NOT proved that there was none: s1: its device is gone."), "{of}");
        let broken = Conduct { verdict: Verdict::Broken, ..clean() };
        assert_eq!(report([unproved, broken]).promise(), Promise::NotKept);
    }

    #[test]
    fn no_policy_may_lose_count_of_frames() {
        let broken = report([clean(), Conduct { verdict: Verdict::Broken, ..clean() }]);
        assert_eq!(broken.promise(), Promise::NotKept);
        let text = broken.to_string();
        assert!(text.contains("pfc-wdrop may lose frames, but NOT"), "{text}");
    }
}

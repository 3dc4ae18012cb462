use std::collections::BTreeMap;
use std::fmt::{self, Display};

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Cell, CellAlignment, Table};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use xoff_config::quantity;
use xoff_switch::Promise;
use xoff_wire::units::Nanos;

use super::{Conduct, Experiment, Request, Variant, Verdict};
use crate::plot::{Content, Figure, Panel};
use crate::statistics::{Headline, Interval, Spread, intervals, p50};
use crate::{Given, Stall};

pub(super) const NONE_COMPLETED: &str = "none completed";
pub(super) const NOTHING_ARRIVED: &str = "nothing arrived";

#[derive(Debug, Default)]
pub struct Findings {
    headlines: Vec<&'static str>,
    policies: Vec<Outcome>,
    pub unmet: Vec<String>,
    pub text: String,
    pub figure: Figure,
}

#[derive(Debug)]
struct Outcome {
    variant: &'static Variant,
    promises: bool,
    conduct: Conduct,
    measured: Value,
    headlines: Vec<Option<Interval>>,
}

impl Findings {
    pub(super) fn new<M>(headlines: &[Headline<M>]) -> Findings {
        Findings { headlines: headlines.iter().map(|of| of.title).collect(), ..Findings::default() }
    }

    pub(super) fn with(self, text: String, figure: Figure) -> Findings {
        Findings { text, figure, ..self }
    }

    pub(super) fn add<M: Serialize>(
        &mut self,
        (variant, promises): (&'static Variant, bool),
        conduct: Conduct,
        measured: &M,
        each: &[M],
        headlines: &[Headline<M>],
    ) -> String {
        let mut all = serde_json::to_value(&conduct).expect("a result must have a JSON form");
        let measured = serde_json::to_value(measured).expect("a result must have a JSON form");
        let intervals = intervals(each);
        let ci95 = (!intervals.is_empty()).then_some(&intervals);
        let ci95 = serde_json::to_value(ci95).expect("a result must have a JSON form");
        let (Value::Object(into), Value::Object(more)) = (&mut all, measured) else {
            panic!("a result must be a JSON object")
        };
        into.extend(more);
        into.insert("ci95".to_owned(), ci95);
        let name = label(variant, &conduct);
        let headline =
            |of: &Headline<M>| (of.interval)(&each.iter().filter_map(of.value).collect::<Vec<_>>());
        let headlines = headlines.iter().map(headline).collect();
        self.policies.push(Outcome { variant, promises, conduct, measured: all, headlines });
        name
    }

    fn losses(&self) -> Option<Panel> {
        let lost = |Outcome { variant, conduct, .. }: &Outcome| {
            (label(variant, conduct), vec![(0.0, conduct.lost_percent())])
        };
        let any = self.policies.iter().any(|of| of.conduct.unqueued_losses > 0);
        any.then(|| {
            let x = "lost frames (% of the class's sent frames)";
            Panel::new("Losses", x, "", Content::Spans(self.policies.iter().map(lost).collect()))
        })
    }
}

fn label(variant: &Variant, conduct: &Conduct) -> String {
    if conduct.unqueued_losses > 0 {
        format!("{} (lost frames)", variant.name)
    } else {
        variant.name.to_owned()
    }
}

/// Result of an experiment; its JSON form is stable.
#[derive(Debug, Serialize)]
pub struct Report {
    pub name: &'static str,
    pub line_mbps: f64,
    pub simulated: bool,
    pub runs: u32,
    pub seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall: Option<Stall>,
    #[serde(serialize_with = "by_path")]
    set: Vec<Given>,
    as_pfc: BTreeMap<&'static str, &'static str>,
    #[serde(serialize_with = "by_policy")]
    policies: Vec<Outcome>,
    pub unmet: Vec<String>,
    #[serde(skip)]
    text: String,
    #[serde(skip)]
    headlines: Vec<&'static str>,
    #[serde(skip)]
    pub figure: Figure,
}

fn by_policy<S: Serializer>(policies: &[Outcome], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(policies.len()))?;
    for Outcome { variant, measured, .. } in policies {
        map.serialize_entry(variant.name, measured)?;
    }
    map.end()
}

fn by_path<S: Serializer>(set: &[Given], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(set.len()))?;
    for Given { path, value } in set {
        map.serialize_entry(path, value)?;
    }
    map.end()
}

impl Report {
    pub(super) fn new(experiment: &Experiment, request: &Request, mut findings: Findings) -> Report {
        findings.figure.panels.extend(findings.losses());
        if request.line.is_simulated() {
            findings.figure.title += " (simulated)";
        }
        let as_pfc = experiment.as_pfc(request);
        for (policy, why) in &as_pfc {
            findings.figure.title += &format!("; {policy} is plain PFC here: {why}");
        }
        Report {
            name: experiment.name,
            line_mbps: request.line.bits_per_second() as f64 / 1e6,
            simulated: request.line.is_simulated(),
            runs: request.runs,
            seed: request.seed,
            stall: request.stall,
            set: request.given.clone(),
            as_pfc,
            policies: findings.policies,
            unmet: findings.unmet,
            text: findings.text,
            headlines: findings.headlines,
            figure: findings.figure,
        }
    }

    #[must_use]
    pub fn promise(&self) -> Promise {
        if !self.unmet.is_empty() {
            return Promise::NotKept;
        }
        let promises = self.policies.iter().map(|of| match (of.conduct.verdict, of.promises) {
            (Verdict::Kept, _) | (Verdict::Unproved | Verdict::Lossy, false) => Promise::Kept,
            (Verdict::Unproved, true) => Promise::NotProved,
            (Verdict::Lossy, true) | (Verdict::Broken, _) => Promise::NotKept,
        });
        let promises: Vec<Promise> = promises.collect();
        let worst =
            [Promise::NotKept, Promise::NotProved].into_iter().find(|promise| promises.contains(promise));
        worst.unwrap_or(Promise::Kept)
    }

    #[must_use]
    pub fn verdicts(&self) -> Vec<String> {
        let unmet = self.unmet.iter().map(|unmet| format!("NOT as expected: {unmet}"));
        let of_policy = |Outcome { variant, promises, conduct: of, .. }: &Outcome| {
            let name = &variant.name;
            match (of.verdict, *promises) {
                (Verdict::Kept, _) | (Verdict::Unproved, false) => None,
                (Verdict::Unproved, true) => Some(format!(
                    "{name}: no loss is known, but a loss CANNOT be excluded: {}.",
                    of.unproved.join("; ")
                )),
                (Verdict::Lossy, false) => {
                    Some(format!("{name} lost frames; this policy does not promise losslessness."))
                }
                (_, true) => Some(format!("{name}: the promise of losslessness was NOT kept.")),
                (Verdict::Broken, false) => {
                    Some(format!("{name} duplicated, reordered or miscounted frames; it may only lose them."))
                }
            }
        };
        unmet.chain(self.policies.iter().filter_map(of_policy)).collect()
    }

    fn intervals(&self) -> Option<Table> {
        let mut table = table(&[&["mean ± 95 %"], &self.headlines[..]].concat());
        for of in &self.policies {
            let cells = of.headlines.iter().map(|of| interval(of.as_ref()));
            add_row(&mut table, [label(of.variant, &of.conduct)].into_iter().chain(cells));
        }
        self.policies.iter().any(|of| of.headlines.iter().any(Option::is_some)).then_some(table)
    }
}

fn interval(of: Option<&Interval>) -> String {
    of.map_or_else(
        || "-".to_owned(),
        |Interval { mean, low, high, .. }| {
            let half = high - mean;
            if (half - (mean - low)).abs() > 1e-9 * mean.abs().max(half) {
                return format!("{mean:.2} ({low:.2} to {high:.2})");
            }
            let decimals = match mean.abs().max(half) {
                tiny if tiny > 0.0 && tiny < 0.1 => 4,
                small if small < 10.0 => 2,
                middling if middling < 1000.0 => 1,
                _ => 0,
            };
            format!("{mean:.decimals$} ± {half:.decimals$}")
        },
    )
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stall {
            Some(stall @ Stall { longest, every, wake }) => {
                let [longest, every] = [longest, every].map(quantity::time);
                write!(f, "Simulated; hosts and switches are programs that ")?;
                match stall.drawn() {
                    Some(_) => write!(f, "stall for up to {longest}, on average every {every}")?,
                    None => write!(f, "never stall")?,
                }
                match wake {
                    Nanos::ZERO => writeln!(f, ".\n")?,
                    wake => writeln!(f, ", and wake up after {}.\n", quantity::time(wake))?,
                }
            }
            None if self.simulated => writeln!(f, "Simulated with switches of ideal hardware.\n")?,
            None => (),
        }
        writeln!(f, "{}\n", self.text.trim_end())?;
        if let Some(intervals) = self.intervals() {
            writeln!(
                f,
                "{intervals}\nMeans are over {} runs; runs without a value are left out.\n",
                self.runs
            )?;
        }
        for given in &self.set {
            writeln!(f, "set: {given}")?;
        }
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
        for Outcome { variant, conduct: of, .. } in &self.policies {
            let mut row = vec![label(variant, of)];
            row.extend(of.lossless.numbers().map(|number| number.to_string()));
            row.push(of.ledger().to_owned());
            row.push(of.xdp_drops.to_string());
            row.push(format!("{:.1} ms", of.longest_stall_ms));
            add_row(&mut conduct, row);
        }
        writeln!(f, "{conduct}")?;
        for (policy, why) in &self.as_pfc {
            writeln!(f, "{policy} is plain PFC here: {why}.")?;
        }
        self.verdicts().iter().try_for_each(|verdict| writeln!(f, "{verdict}"))?;
        Ok(())
    }
}

#[must_use]
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_BORDERS_ONLY).set_header(header);
    table
}

pub(super) type TableColumn<'a, T> = (&'a str, &'a dyn Fn(&T) -> String);

pub(super) fn table_of<'a, T: 'a>(
    rows: impl IntoIterator<Item = (&'a str, &'a T)>,
    columns: &[TableColumn<'_, T>],
) -> Table {
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let mut table = table(&[&["policy"], &titles[..]].concat());
    for (name, of) in rows {
        let cells = columns.iter().map(|(_, cell)| cell(of));
        add_row(&mut table, [name.to_owned()].into_iter().chain(cells));
    }
    table
}

pub(super) fn low_middle_high(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || number(None, 0),
        |Spread { p50, p75, max, .. }| format!("{p50:.0} / {p75:.0} / {max:.0}"),
    )
}

pub(super) fn number(value: impl Into<Option<f64>>, decimals: usize) -> String {
    value.into().map_or_else(|| "-".to_owned(), |value| with_significance(value, decimals))
}

fn with_significance(value: f64, decimals: usize) -> String {
    let decimals = match decimals_reaching(1.0, value, decimals) {
        Some(needed) if needed > decimals => needed + 1,
        _ => decimals,
    };
    format!("{value:.decimals$}")
}

fn decimals_reaching(reached: f64, value: f64, from: usize) -> Option<usize> {
    let is_enough =
        |decimals: &usize| value.abs() * 10_f64.powi(i32::try_from(*decimals).unwrap_or(0)) >= reached;
    (from..9).find(is_enough)
}

pub(super) fn ms(span: Nanos) -> String {
    (span.0 as f64 / 1e6).to_string()
}

pub(super) fn seconds(span: Nanos) -> String {
    (span.0 as f64 / 1e9).to_string()
}

pub(super) fn median(spread: Option<Spread>, decimals: usize) -> String {
    number(p50(spread), decimals)
}

pub(super) fn median_and_least(spread: Option<Spread>, decimals: usize) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |Spread { p50, min, .. }| {
            format!("{} ({})", with_significance(p50, decimals), with_significance(min, decimals))
        },
    )
}

pub(super) fn median_completion(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || NONE_COMPLETED.to_owned(),
        |spread| with_significance(spread.p50, decimals_reaching(100.0, spread.p50, 0).unwrap_or(0)),
    )
}

pub(super) fn completion(spread: Option<Spread>, decimals: usize) -> String {
    let Some(Spread { min, p25, p50, p75, max, .. }) = spread else { return NONE_COMPLETED.to_owned() };
    let decimals = decimals_reaching(100.0, p50, decimals).unwrap_or(decimals);
    [min, p25, p50, p75, max].map(|value| format!("{value:.decimals$}")).join(" / ")
}

pub(super) fn add_row(table: &mut Table, cells: impl IntoIterator<Item = String>) {
    let cell = |(column, text)| match column {
        0 => Cell::new(text),
        _ => Cell::new(text).set_alignment(CellAlignment::Right),
    };
    table.add_row(cells.into_iter().enumerate().map(cell));
}

// Tests for SPECIFICATION.md: experiments
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::super::EXPERIMENTS;
    use super::*;
    use crate::Totals;

    #[derive(Serialize)]
    struct TestResults {
        goodput_mbps: f64,
    }

    const HEADLINES: &[Headline<TestResults>] = &[Headline::of("goodput, Mb/s", |of| Some(of.goodput_mbps))];

    fn of_runs(conducts: [Conduct; 2], goodputs: &[f64]) -> Report {
        let mut findings = Findings::new(HEADLINES);
        for (name, conduct) in ["pfc", "pfc-wdrop"].iter().zip(conducts) {
            let each: Vec<_> = goodputs.iter().map(|&goodput_mbps| TestResults { goodput_mbps }).collect();
            let all = TestResults { goodput_mbps: 90.0 };
            let variant = Variant::find(name).unwrap();
            findings.add((variant, EXPERIMENTS[0].promises(variant)), conduct, &all, &each, HEADLINES);
        }
        let given = vec!["class.3.xoff=80KB".parse().unwrap()];
        let request = Request { seed: 5, given, ..Request::new(Vec::new(), BitRate::from_mbps(100)) };
        Report::new(&EXPERIMENTS[0], &request, findings)
    }

    fn report(conducts: [Conduct; 2]) -> Report {
        of_runs(conducts, &[90.0])
    }

    fn clean() -> Conduct {
        let lossless = Totals { sent: 5, received: 5, ..Totals::default() };
        Conduct { lossless, ledger_balanced: true, ..Conduct::default() }
    }

    #[test]
    fn report_shows_completion_times_to_three_digits_of_median() {
        let spread =
            |p50: f64| Some(Spread { count: 5, min: p50 * 0.9, p25: p50, p50, p75: p50, max: p50 * 12.0 });
        assert_eq!(completion(spread(0.2345), 1), "0.211 / 0.234 / 0.234 / 0.234 / 2.814");
        assert_eq!(completion(spread(123.4), 0), "111 / 123 / 123 / 123 / 1481");
        assert_eq!(completion(spread(0.0), 1), "0.0 / 0.0 / 0.0 / 0.0 / 0.0");
    }

    #[test]
    fn report_shows_small_numbers_with_two_digits() {
        let texts = [(12.34, 1), (0.34, 1), (0.0, 1), (0.0315, 1), (-0.4, 0), (1e-12, 0)]
            .map(|(value, of)| with_significance(value, of));
        assert_eq!(texts, ["12.3", "0.3", "0.0", "0.032", "-0.40", "0"]);
    }

    #[test]
    fn json_report_has_same_keys_for_each_policy() {
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
    fn report_of_several_runs_has_confidence_intervals() {
        let of = Report { runs: 2, ..of_runs([clean(), clean()], &[89.0, 91.0]) };
        // Standard deviation of 89 and 91: sqrt(2), so standard error 1; Student's t for one degree of freedom: 12.706.
        assert!(of.to_string().contains("90.0 ± 12.7"), "{of}");
        let json = serde_json::to_value(&of).unwrap();
        let interval = &json["policies"]["pfc"]["ci95"]["/goodput_mbps"];
        assert_eq!((interval["mean"].as_f64(), interval["runs"].as_u64()), (Some(90.0), Some(2)));
        assert!((interval["high"].as_f64().unwrap() - 102.706).abs() < 1e-9);
        let once = report([clean(), clean()]);
        assert!(!once.to_string().contains('±'), "{once}");
        assert!(serde_json::to_value(&once).unwrap()["policies"]["pfc"]["ci95"].is_null());
    }

    #[test]
    fn report_shows_seed_and_user_settings() {
        let of = report([clean(), clean()]);
        assert!(of.to_string().contains("set: class.3.xoff = 80KB"), "{of}");
        let json = serde_json::to_value(&of).unwrap();
        assert_eq!((&json["seed"], &json["set"]["class.3.xoff"]), (&5.into(), &"80KB".into()));
    }

    #[test]
    fn report_names_policies_that_act_as_plain_pfc() {
        let policies = ["pfc", "g-pfc"].map(|name| Variant::find(name).unwrap()).into();
        let request = Request::new(policies, BitRate::from_mbps(100));
        let title = "Incast".to_owned();
        let figure = Figure { title, ..Figure::default() };
        let of = Report::new(&EXPERIMENTS[0], &request, Findings { figure, ..Findings::default() });
        let line = "g-pfc is plain PFC here: only one class is lossless, so there is no lower class to pause";
        assert_eq!(of.figure.title, format!("Incast; {line}"));
        assert!(of.to_string().contains(&format!("\n{line}.\n")), "{of}");
        let json = serde_json::to_value(&of).unwrap();
        assert_eq!(
            json["as_pfc"],
            serde_json::json!({"g-pfc": "only one class is lossless, so there is no lower class to pause"})
        );
    }

    #[test] // proves: cascade
    fn unmet_expectation_fails_the_experiment() {
        let of = Report { unmet: vec!["step 4 before step 3".into()], ..report([clean(), clean()]) };
        assert_eq!(of.promise(), Promise::NotKept);
        assert!(of.to_string().contains("NOT as expected: step 4 before step 3"), "{of}");
    }

    #[test]
    fn report_marks_policy_with_losses_and_plots_the_losses() {
        let lossless = Totals { sent: 200, received: 150, lost: 50, ..Totals::default() };
        let lossy = Conduct { lossless, unqueued_losses: 50, verdict: Verdict::Lossy, ..clean() };
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
    fn queued_frames_are_not_reported_as_lost() {
        let lossless = Totals { sent: 200, received: 150, lost: 50, ..Totals::default() };
        let queued = Conduct { lossless, held: 50, ..clean() };
        let of = report([clean(), queued]);
        assert!(of.figure.panels.is_empty() && !of.to_string().contains("(lost frames)"), "{of}");
    }

    #[test]
    fn report_shows_missing_values_as_dashes() {
        assert_eq!([number(None, 1), median(None, 1), median_and_least(None, 1)], ["-", "-", "-"]);
        assert_eq!(completion(None, 1), "none completed");
        assert_eq!(completion(Spread::of([1.0, 3.0]), 1), "1.00 / 1.50 / 2.00 / 2.50 / 3.00");
    }

    #[test]
    fn losses_break_promise_only_of_lossless_policy() {
        let lossy = Conduct { verdict: Verdict::Lossy, ..clean() };
        assert_eq!(report([clean(), lossy.clone()]).promise(), Promise::Kept);
        assert_eq!(report([lossy, clean()]).promise(), Promise::NotKept);
    }

    #[test] // proves: verdict
    fn report_names_reason_why_losslessness_is_unproved() {
        let gaps = vec!["s1: its device is gone".to_owned()];
        let unproved = Conduct { verdict: Verdict::Unproved, unproved: gaps, ..clean() };
        assert_eq!(
            report([clean(), unproved.clone()]).promise(),
            Promise::Kept,
            "a policy that does not promise losslessness must not need to prove it"
        );
        let of = report([unproved.clone(), clean()]);
        assert_eq!(of.promise(), Promise::NotProved);
        assert!(of.to_string().contains("CANNOT be excluded: s1: its device is gone."), "{of}");
        let broken = Conduct { verdict: Verdict::Broken, ..clean() };
        assert_eq!(report([unproved, broken]).promise(), Promise::NotKept);
    }

    #[test]
    fn unaccounted_frames_break_promise_of_every_policy() {
        let broken = report([clean(), Conduct { verdict: Verdict::Broken, ..clean() }]);
        assert_eq!(broken.promise(), Promise::NotKept);
        let text = broken.to_string();
        assert!(text.contains("pfc-wdrop duplicated, reordered or miscounted frames"), "{text}");
    }
}

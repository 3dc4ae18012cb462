use std::fmt;

use serde::Serialize;
use xoff_config::visible;

use super::runs::{Runs, Values};
use super::values::{nanos, range};
use super::{Accuracy, Report, Verdict};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub devices: (String, String),
    pub verdicts: Vec<VerdictChange>,
    pub measurements: Vec<Move>,
    pub only_first: Vec<String>,
    pub only_second: Vec<String>,
    pub compared: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerdictChange {
    pub case: String,
    pub first: Verdict,
    pub second: Verdict,
    pub reason: String,
    pub is_worse: bool,
}

/// Measurement that differs between the reports by more than the sum of both errors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Move {
    pub case: String,
    pub name: String,
    pub unit: String,
    /// Lowest and highest value in the first report; `None` if it has no value.
    pub first: Option<(f64, f64)>,
    pub second: Option<(f64, f64)>,
    /// Sum of the errors of both reports' values, in the unit of the values.
    pub error: f64,
    #[serde(skip)]
    words: (String, String),
}

impl Comparison {
    /// Returns whether a case of both reports has a worse verdict in the second one.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.verdicts.iter().any(|change| change.is_worse)
    }
}

/// Compares two reports. If a case ran several times, its worst verdict and the range of each value count.
#[must_use]
pub fn compare(first: &Report, second: &Report) -> Comparison {
    let (in_first, in_second) = (first.runs(), second.runs());
    let only = |some: &[Runs<'_>], others: &[Runs<'_>]| {
        let lone = some.iter().filter(|runs| others.iter().all(|other| other.id != runs.id));
        lone.map(|runs| runs.id.to_owned()).collect::<Vec<String>>()
    };
    let mut comparison = Comparison {
        devices: (first.device.name.clone(), second.device.name.clone()),
        verdicts: Vec::new(),
        measurements: Vec::new(),
        only_first: only(&in_first, &in_second),
        only_second: only(&in_second, &in_first),
        compared: 0,
    };
    for a in &in_first {
        let Some(b) = in_second.iter().find(|b| b.id == a.id) else { continue };
        comparison.compared += 1;
        let worst = b.worst();
        if a.verdict() != worst.verdict {
            comparison.verdicts.push(VerdictChange {
                case: a.id.to_owned(),
                first: a.verdict(),
                second: worst.verdict,
                reason: worst.reason.clone(),
                is_worse: worst.severity() > a.worst().severity(),
            });
        }
        comparison.measurements.extend(moves((a, &first.accuracy), (b, &second.accuracy)));
    }
    comparison
}

fn moves((a, of_a): (&Runs<'_>, &Accuracy), (b, of_b): (&Runs<'_>, &Accuracy)) -> Vec<Move> {
    let of_b_by_name = b.values();
    let both = a.values().into_iter().filter_map(|first| {
        let is_same = |other: &&Values<'_>| {
            (&other.first().name, &other.first().unit) == (&first.first().name, &first.first().unit)
        };
        let second = of_b_by_name.iter().find(is_same)?;
        let error = error(&first, of_a) + error(second, of_b);
        let gap = match (first.range(), second.range()) {
            (Some(first), Some(second)) => (second.0 - first.1).max(first.0 - second.1),
            (None, None) => return None,
            _ => f64::INFINITY,
        };
        (gap > 0.0 && gap > error).then(|| Move {
            case: a.id.to_owned(),
            name: first.first().name.clone(),
            unit: first.first().unit.clone(),
            first: first.range(),
            second: second.range(),
            error,
            words: (range(&first), range(second)),
        })
    });
    both.collect()
}

fn error(values: &Values<'_>, accuracy: &Accuracy) -> f64 {
    let unit = &values.first().unit;
    let of_times = nanos(1.0, unit).map_or(0.0, |nanos| accuracy.error_p99_ns as f64 / nanos);
    values.measurements.iter().map(|it| it.error.unwrap_or(of_times)).fold(0.0, f64::max)
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text =
            format!("{} and {}: {} cases compared\n", self.devices.0, self.devices.1, self.compared);
        let mut list = |title: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                text += &format!("\n{title}\n  {}\n", lines.join("\n  "));
            }
        };
        let verdict = |change: &VerdictChange| {
            format!("{}: {}, was {}: {}", change.case, change.second, change.first, change.reason)
        };
        let changes = |worse: bool| self.verdicts.iter().filter(move |change| change.is_worse == worse);
        list("worse", changes(true).map(verdict).collect());
        list("changed, not worse", changes(false).map(verdict).collect());
        let value = |it: &Move| format!("{}: {}: {}, was {}", it.case, it.name, it.words.1, it.words.0);
        list(
            "measurements that changed by more than their errors",
            self.measurements.iter().map(value).collect(),
        );
        list("only in the first report", self.only_first.clone());
        list("only in the second report", self.only_second.clone());
        if self.verdicts.is_empty() && self.measurements.is_empty() {
            text += "no verdict changed, and no measurement changed by more than its error\n";
        }
        f.write_str(&visible(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::report;
    use super::super::{CaseReport, Measurement};
    use super::*;

    fn with(verdicts: &[Verdict], measurements: &[Measurement]) -> Report {
        let base = report();
        let case = |&verdict| CaseReport {
            id: "receive.expiry".into(),
            verdict,
            measurements: measurements.to_vec(),
            ..base.cases[0].clone()
        };
        let accuracy = Accuracy { error_p99_ns: 500, ..base.accuracy.clone() };
        Report { cases: verdicts.iter().map(case).collect(), accuracy, ..base }
    }

    #[test]
    fn excused_failure_counts_as_failure_when_comparing_reports() {
        use Verdict::{CannotTell, Fail, Pass};
        let [passed, failed, mut excused] = [Pass, Fail, CannotTell].map(|verdict| with(&[verdict], &[]));
        excused.cases[0].excused_by = Some("receive.xon".into());
        let is_worse = [(&passed, &excused), (&excused, &failed), (&failed, &excused), (&excused, &passed)]
            .map(|(first, second)| compare(first, second).is_worse());
        assert_eq!(is_worse, [true, false, false, false]);
    }

    #[test]
    fn report_comparison_is_worse_if_a_case_verdict_is_worse() {
        use Verdict::{CannotTell, Fail, NotRun, Pass};
        let cases: [(&[Verdict], &[Verdict], usize, bool); 8] = [
            (&[Pass], &[Pass], 0, false),
            (&[Pass], &[Fail], 1, true),
            (&[Pass], &[CannotTell], 1, true),
            (&[CannotTell], &[Fail], 1, true),
            (&[CannotTell], &[NotRun], 1, false),
            (&[Fail], &[NotRun], 1, false),
            (&[Pass, Pass], &[Pass, Fail, Pass], 1, true),
            (&[Fail, Pass], &[Pass, Fail], 0, false),
        ];
        for (first, second, changes, is_worse) in cases {
            let comparison = compare(&with(first, &[]), &with(second, &[]));
            let got = (comparison.verdicts.len(), comparison.is_worse());
            assert_eq!(got, (changes, is_worse), "{first:?} {second:?}");
        }
    }

    #[test]
    fn value_is_reported_as_changed_only_beyond_sum_of_errors() {
        let value = Measurement::new;
        let cases = [
            (value("a", 10.0, "us"), value("a", 11.0, "us"), false),
            (value("a", 10.0, "us"), value("a", 11.002, "us"), true),
            (value("a", 11.002, "us"), value("a", 10.0, "us"), true),
            (value("a", 10_000.0, "ns"), value("a", 11_000.0, "ns"), false),
            (value("a", 10.0, "frames"), value("a", 11.0, "frames"), true),
            (value("a", 10.0, "frames").error(1.0), value("a", 11.0, "frames"), false),
            (value("a", 10.0, "frames"), value("b", 20.0, "frames"), false),
            (value("a", f64::NAN, "ns"), value("a", f64::NAN, "ns"), false),
            (value("a", f64::NAN, "ns"), value("a", 1.0, "ns"), true),
        ];
        for (first, second, is_moved) in cases {
            let [a, b] = [&first, &second].map(|it| with(&[Verdict::Pass], std::slice::from_ref(it)));
            assert_eq!(compare(&a, &b).measurements.len(), usize::from(is_moved), "{first:?} {second:?}");
        }
    }

    #[test]
    fn report_comparison_lists_cases_of_only_one_report() {
        let (first, mut second) = (report(), report());
        second.cases.drain(..2);
        second.cases[0].id = "receive.\u{1b}new".into();
        let comparison = compare(&first, &second);
        assert_eq!(comparison.only_second, ["receive.\u{1b}new"]);
        assert_eq!(comparison.compared + comparison.only_first.len(), first.runs().len());
        assert!(!comparison.is_worse());
        let text = comparison.to_string();
        assert!(text.contains("only in the second report\n  receive.␛new\n"), "{text}");
        assert!(compare(&first, &first).to_string().contains("no verdict changed"));
    }
}

//! Summary statistics. A statistic of no values is `None`, not zero.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub count: usize,
    pub min: f64,
    pub p25: f64,
    pub p50: f64,
    pub p75: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let sorted = sorted(values);
        let at = |percent: usize| quantile(&sorted, percent);
        let [min, p25, p50, p75, max] = [at(0)?, at(25)?, at(50)?, at(75)?, at(100)?];
        Some(Spread { count: sorted.len(), min, p25, p50, p75, max })
    }

    pub fn in_units_of(self, size: f64) -> Spread {
        let Spread { count, min, p25, p50, p75, max } = self;
        Spread { count, min: min / size, p25: p25 / size, p50: p50 / size, p75: p75 / size, max: max / size }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub mean: f64,
    pub low: f64,
    pub high: f64,
    pub runs: usize,
}

const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

const Z_975: f64 = 1.959_964;

impl Interval {
    /// Returns the mean of one value per run, with Student's interval: plus and minus t standard errors.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let runs = values.len();
        let freedom = runs.checked_sub(1).filter(|&freedom| freedom > 0)?;
        let mean = mean(values.iter().copied())?;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let error = (squares / freedom as f64 / runs as f64).sqrt();
        // Beyond the table's degrees of freedom, its last value makes the interval too wide, never too narrow.
        let half = T_975[freedom.min(T_975.len()) - 1] * error;
        Some(Interval { mean, low: mean - half, high: mean + half, runs })
    }

    /// Returns Wilson's score interval of a share of runs. Unlike Student's, it has a width even if all runs agree.
    pub fn of_share(values: &[f64]) -> Option<Interval> {
        let mean = mean(values.iter().copied()).filter(|_| values.len() > 1)?;
        let (runs, z) = (values.len() as f64, Z_975);
        let centre = mean + z * z / (2.0 * runs);
        let half = z * (mean * (1.0 - mean) / runs + (z / (2.0 * runs)).powi(2)).sqrt();
        let end = |of: f64| (of / (1.0 + z * z / runs)).clamp(0.0, 1.0);
        Some(Interval { mean, low: end(centre - half), high: end(centre + half), runs: values.len() })
    }
}

pub fn p50(of: Option<Spread>) -> Option<f64> {
    of.map(|spread| spread.p50)
}

pub fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns a percentile of sorted values, with linear interpolation (type 7 of Hyndman and Fan).
pub fn quantile(sorted: &[f64], percent: usize) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let (below, rest) = (last * percent / 100, last * percent % 100);
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * rest as f64 / 100.0)
}

pub(crate) struct Headline<M> {
    pub title: &'static str,
    pub interval: fn(&[f64]) -> Option<Interval>,
    pub value: fn(&M) -> Option<f64>,
}

impl<M> Headline<M> {
    pub(crate) const fn of(title: &'static str, value: fn(&M) -> Option<f64>) -> Headline<M> {
        Headline { title, interval: Interval::of, value }
    }

    pub(crate) const fn share(title: &'static str, value: fn(&M) -> Option<f64>) -> Headline<M> {
        Headline { title, interval: Interval::of_share, value }
    }
}

pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.into_iter().fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

/// Confidence intervals by JSON path of the result, such as `/sweep/2/goodput_mbps/p50`.
pub type Intervals = BTreeMap<String, Interval>;

const LEFT_OUT: [&str; 11] = [
    "senders",
    "light_percent",
    "message_frames",
    "source_port",
    "begin_ms",
    "end_ms",
    "count",
    "rates",
    "captured",
    "timeline",
    "cycle",
];

const YES_OR_NO: [&str; 4] = ["deadlocks", "runs_in_order", "runs_relayed", "runs_judged"];

/// Returns the confidence interval of every number in the results' JSON form. Each run has one result. Panics if a
/// result cannot be serialized.
pub fn intervals<M: Serialize>(each: impl IntoIterator<Item = M>) -> Intervals {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in each {
        let run = serde_json::to_value(&run).expect("a result must have a JSON form");
        numbers(&run, String::new(), &mut |place, number| values.entry(place).or_default().push(number));
    }
    let interval = |(place, values): (String, Vec<f64>)| {
        let is_share = YES_OR_NO.iter().any(|key| place.rsplit('/').next() == Some(key));
        let interval = if is_share { Interval::of_share(&values) } else { Interval::of(&values) };
        Some((place, interval?))
    };
    values.into_iter().filter_map(interval).collect()
}

fn numbers(value: &Value, place: String, found: &mut impl FnMut(String, f64)) {
    match value {
        Value::Number(number) => number.as_f64().into_iter().for_each(|number| found(place.clone(), number)),
        Value::Object(entries) => {
            for (key, value) in entries.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str())) {
                numbers(value, format!("{place}/{key}"), found);
            }
        }
        Value::Array(entries) => {
            for (index, value) in entries.iter().enumerate() {
                numbers(value, format!("{place}/{index}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_five_values_are_among_them() {
        let spread = Spread::of([5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!(spread, Some(Spread { count: 5, min: 1.0, p25: 2.0, p50: 3.0, p75: 4.0, max: 5.0 }));
    }

    #[test]
    fn quartile_is_interpolated_between_values() {
        let quartiles = |values: &[f64]| {
            Spread::of(values.iter().copied()).map(|spread| (spread.p25, spread.p50, spread.p75))
        };
        assert_eq!(quartiles(&[0.0, 10.0]), Some((2.5, 5.0, 7.5)));
        assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0]), Some((1.75, 2.5, 3.25)));
    }

    #[test]
    fn percentile_99_excludes_one_in_a_hundred() {
        let p99 = |values: &[f64]| quantile(&sorted(values.iter().copied()), 99);
        assert_eq!(p99(&(0..=100).rev().map(f64::from).collect::<Vec<_>>()), Some(99.0));
        assert_eq!(p99(&[0.0, 1.0]), Some(0.99), "percentiles must be interpolated linearly");
        assert_eq!((p99(&[7.0]), p99(&[])), (Some(7.0), None));
    }

    #[test]
    fn every_quantile_of_single_value_is_that_value() {
        let one = Spread { count: 1, min: 7.0, p25: 7.0, p50: 7.0, p75: 7.0, max: 7.0 };
        assert_eq!(Spread::of([7.0]), Some(one));
    }

    #[test] // proves: experiments
    fn confidence_interval_uses_students_t_distribution() {
        let of = Interval::of(&[93.0, 95.0, 94.0]).unwrap();
        // The values have standard deviation 1, so standard error 1 / sqrt(3); Student's t for two degrees of freedom
        // is 4.303.
        let half = 4.303 / 3.0_f64.sqrt();
        assert_eq!((of.mean, of.runs), (94.0, 3));
        assert!((of.high - 94.0 - half).abs() < 1e-9 && (94.0 - of.low - half).abs() < 1e-9, "{of:?}");
        assert_eq!(
            (Interval::of(&[]), Interval::of(&[94.0])),
            (None, None),
            "a single run must have no confidence interval"
        );
        let same = Interval::of(&[7.0; 40]).unwrap();
        assert_eq!((same.low, same.high), (7.0, 7.0));
    }

    /// Expected intervals are those of Newcombe (1998), table I, and of the rule of three (no event in ten runs).
    #[test] // proves: experiments
    fn confidence_interval_of_share_is_wilsons_score_interval() {
        let of = |yes: usize, runs: usize| {
            let values: Vec<f64> = (0..runs).map(|run| f64::from(u8::from(run < yes))).collect();
            let Interval { low, high, .. } = Interval::of_share(&values).unwrap();
            [low, high].map(|end| (end * 1e4).round() / 1e4)
        };
        assert_eq!(of(81, 263), [0.2553, 0.3662]);
        assert_eq!(of(15, 148), [0.0624, 0.1605]);
        assert_eq!(of(0, 20), [0.0, 0.1611]);
        assert_eq!(of(1, 29), [0.0061, 0.1718]);
        assert_eq!(of(20, 20), [0.8389, 1.0]);
        assert_eq!((Interval::of_share(&[]), Interval::of_share(&[1.0])), (None, None));
    }

    #[test] // proves: experiments
    fn quantile_of_no_values_is_none() {
        assert_eq!((Spread::of([]), mean([])), (None, None));
        assert_eq!(mean([1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(serde_json::to_value(Spread::of([])).ok(), Some(serde_json::Value::Null));
    }

    #[derive(Serialize)]
    struct TestSweep {
        sweep: Vec<TestPoint>,
        rates: Vec<f64>,
    }

    #[derive(Serialize)]
    struct TestPoint {
        senders: u8,
        mbps: Option<Spread>,
    }

    fn run(mbps: Option<f64>) -> TestSweep {
        TestSweep { sweep: vec![TestPoint { senders: 8, mbps: Spread::of(mbps) }], rates: vec![1.0] }
    }

    #[test] // proves: experiments
    fn confidence_intervals_are_listed_by_result_path() {
        let of = intervals([run(Some(93.0)), run(Some(95.0))]);
        let at = of["/sweep/0/mbps/p50"];
        assert_eq!((at.mean, at.runs), (94.0, 2));
        assert!(
            of.keys().all(|place| place.starts_with("/sweep/0/mbps/") && !place.ends_with("count")),
            "{of:?}"
        );
    }

    #[test] // proves: experiments
    fn boolean_results_get_confidence_interval_of_share() {
        let of =
            intervals([1, 1, 1].map(|deadlocks| serde_json::json!({ "deadlocks": deadlocks, "xoffs": 1 })));
        assert_eq!((of["/deadlocks"].mean, of["/deadlocks"].high), (1.0, 1.0));
        assert!((of["/deadlocks"].low - 0.4385).abs() < 1e-4, "three of three prove little: {of:?}");
        assert_eq!(of["/xoffs"].low, 1.0);
    }

    #[test]
    fn missing_result_does_not_count_as_zero() {
        let of = intervals([run(Some(93.0)), run(None), run(Some(95.0))]);
        assert_eq!((of["/sweep/0/mbps/p50"].mean, of["/sweep/0/mbps/p50"].runs), (94.0, 2));
        assert!(
            intervals([run(Some(93.0))]).is_empty() && intervals([run(Some(93.0)), run(None)]).is_empty()
        );
    }
}

//! How sure what was measured is, where it was measured several times: a confidence interval for every number.
//!
//! What a run measures is a number each, whatever that is made of (the median over the flows of the run, pauses of
//! all ports): flows of one run depend on each other, runs do not. So intervals are over runs.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::statistics::Interval;

/// Of everything that was measured under one policy, by its place in the JSON: `/sweep/2/goodput_mbps/p50`.
pub type Intervals = BTreeMap<String, Interval>;

/// Settings of the experiment, how many values there are, and series over time: no results of a run.
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
    "circle",
];

/// What a run says yes or no to, as 1 or 0.
const YES_OR_NO: [&str; 4] = ["deadlocks", "runs_in_order", "runs_relayed", "runs_judged"];

/// Of what each run measured by itself.
///
/// # Panics
/// Where something has no JSON form; every struct of numbers has one.
pub fn intervals<M: Serialize>(each: impl IntoIterator<Item = M>) -> Intervals {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in each {
        let run = serde_json::to_value(&run).expect("numbers have a JSON form");
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
    use crate::statistics::Spread;

    #[derive(Serialize)]
    struct Measured {
        sweep: Vec<Point>,
        rates: Vec<f64>,
    }

    #[derive(Serialize)]
    struct Point {
        senders: u8,
        mbps: Option<Spread>,
    }

    fn run(mbps: Option<f64>) -> Measured {
        Measured { sweep: vec![Point { senders: 8, mbps: Spread::of(mbps) }], rates: vec![1.0] }
    }

    #[test]
    fn every_result_has_an_interval_at_its_place_and_nothing_else_has() {
        let of = intervals([run(Some(93.0)), run(Some(95.0))]);
        let at = of["/sweep/0/mbps/p50"];
        assert_eq!((at.mean, at.runs), (94.0, 2));
        assert!(
            of.keys().all(|place| place.starts_with("/sweep/0/mbps/") && !place.ends_with("count")),
            "{of:?}"
        );
    }

    #[test]
    fn of_what_a_run_says_yes_or_no_to_the_interval_is_that_of_a_share() {
        let of =
            intervals([1, 1, 1].map(|deadlocks| serde_json::json!({ "deadlocks": deadlocks, "xoffs": 1 })));
        assert_eq!((of["/deadlocks"].mean, of["/deadlocks"].high), (1.0, 1.0));
        assert!((of["/deadlocks"].low - 0.4385).abs() < 1e-4, "three of three prove little: {of:?}");
        assert_eq!(of["/xoffs"].low, 1.0);
    }

    #[test]
    fn a_run_that_measured_nothing_is_not_zero_and_one_run_has_no_interval() {
        let of = intervals([run(Some(93.0)), run(None), run(Some(95.0))]);
        assert_eq!((of["/sweep/0/mbps/p50"].mean, of["/sweep/0/mbps/p50"].runs), (94.0, 2));
        assert!(
            intervals([run(Some(93.0))]).is_empty() && intervals([run(Some(93.0)), run(None)]).is_empty()
        );
    }
}

use serde::{Deserialize, Deserializer, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Pass,
    Fail,
    /// The machine stalled, the tester is not accurate enough for the case's limit, or a basic case on which this case relies failed.
    CannotTell,
    /// The ports or the settings do not permit the case.
    NotRun,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub version: String,
    /// Start, in seconds since 1970.
    pub started_s: u64,
    pub duration_s: f64,
    pub device: Device,
    pub accuracy: Accuracy,
    /// Reason for the end before all cases were run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
    /// Results in the order of their runs. A case that ran several times has several results.
    pub cases: Vec<CaseReport>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub name: String,
    pub settings: Vec<(String, String)>,
}

/// Accuracy of the tester, measured before the first case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Source of the times of received frames: `kernel (XDP)` or `process`.
    pub clock: String,
    /// Median and 99th percentile of the timing error of a frame, in nanoseconds.
    pub error_p50_ns: u64,
    pub error_p99_ns: u64,
    /// Longest time during which the tester did not run, in nanoseconds.
    pub longest_stall_ns: u64,
    pub method: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseReport {
    pub id: String,
    pub title: String,
    /// Clause or document that demands the behavior.
    pub source: String,
    pub verdict: Verdict,
    pub reason: String,
    /// Basic case that failed, so that a failure of this case counts as "cannot tell".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excused_by: Option<String>,
    pub attempts: u32,
    pub measurements: Vec<Measurement>,
    pub figures: Vec<Figure>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    pub name: String,
    /// Not a number if the case ended before the measurement; JSON has `null` then.
    #[serde(deserialize_with = "number_or_null")]
    pub value: f64,
    /// Unit, such as `ns`, `bytes` or `frames`; empty for a ratio.
    pub unit: String,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
    /// Possible error of the value, in its unit. `None`: the error of the report's [`Accuracy`] if the value is a time, otherwise no error.
    #[serde(default)]
    pub error: Option<f64>,
}

impl Measurement {
    #[must_use]
    pub fn new(name: &str, value: f64, unit: &str) -> Measurement {
        let [name, unit] = [name, unit].map(str::to_owned);
        Measurement { name, value, unit, at_least: None, at_most: None, error: None }
    }

    #[must_use]
    pub fn at_least(self, limit: f64) -> Measurement {
        Measurement { at_least: Some(limit), ..self }
    }

    #[must_use]
    pub fn at_most(self, limit: f64) -> Measurement {
        Measurement { at_most: Some(limit), ..self }
    }

    #[must_use]
    pub fn error(self, error: f64) -> Measurement {
        Measurement { error: Some(error), ..self }
    }

    /// Returns whether the value satisfies its limits; `None` if the value or both limits are missing.
    #[must_use]
    pub fn is_within(&self) -> Option<bool> {
        if self.value.is_nan() || self.at_least.or(self.at_most).is_none() {
            return None;
        }
        let at_least = self.at_least.is_none_or(|limit| self.value >= limit);
        Some(at_least && self.at_most.is_none_or(|limit| self.value <= limit))
    }
}

fn number_or_null<'de, D: Deserializer<'de>>(json: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(json)?.unwrap_or(f64::NAN))
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub title: String,
    pub x: String,
    pub y: String,
    pub curves: Vec<Curve>,
    pub markers: Vec<Marker>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub name: String,
    /// Points in the order of x. A missing y (NaN, in JSON `null`) interrupts the curve.
    #[serde(deserialize_with = "points")]
    pub points: Vec<(f64, f64)>,
}

fn points<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<(f64, f64)>, D::Error> {
    let points: Vec<(f64, Option<f64>)> = Vec::deserialize(json)?;
    Ok(points.into_iter().map(|(x, y)| (x, y.unwrap_or(f64::NAN))).collect())
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Marker {
    pub x: f64,
    pub label: String,
}

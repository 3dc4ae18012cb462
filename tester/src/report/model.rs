//! The report's data, which JSON files contain without loss.

use serde::{Deserialize, Serialize};

/// Judgement of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Pass,
    Fail,
    /// The machine stalled, or the tester is not accurate enough for the limit.
    CannotTell,
    /// The ports or the settings do not permit the case.
    NotRun,
}

/// Report of an examination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Version of xoff.
    pub version: String,
    /// Start of the examination, in seconds since 1970.
    pub started_s: u64,
    /// Duration in seconds.
    pub duration_s: f64,
    pub device: Device,
    pub accuracy: Accuracy,
    pub cases: Vec<CaseReport>,
}

/// Device under test, as its operator describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub name: String,
    /// Settings of the file, as pairs of label and value.
    pub settings: Vec<(String, String)>,
}

/// Accuracy of the tester, which it measures before the first case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// Source of time stamps: `hardware`, `kernel` or `process`.
    pub clock: String,
    /// Median and 99th percentile of the error of a frame's time, in nanoseconds.
    pub error_p50_ns: u64,
    pub error_p99_ns: u64,
    /// Longest time during which the tester did not run, in nanoseconds.
    pub longest_stall_ns: u64,
    /// How the accuracy was measured.
    pub method: String,
}

/// Result of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseReport {
    /// Group and name, such as `receive.expiry`.
    pub id: String,
    /// Question that the case answers, in one sentence.
    pub title: String,
    /// Clause or document that demands the behavior.
    pub source: String,
    pub verdict: Verdict,
    /// Reason of the verdict: what was expected, and what happened.
    pub reason: String,
    /// Runs of the case, including those that a stall made useless.
    pub attempts: u32,
    pub measurements: Vec<Measurement>,
    pub figures: Vec<Figure>,
}

/// Measured value, with its limits if it is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    pub name: String,
    pub value: f64,
    /// Unit, such as `ns`, `bytes` or `frames`; empty for a ratio.
    pub unit: String,
    pub at_least: Option<f64>,
    pub at_most: Option<f64>,
}

/// Plot of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub title: String,
    /// Label of each axis, with its unit.
    pub x: String,
    pub y: String,
    pub curves: Vec<Curve>,
    pub markers: Vec<Marker>,
}

/// Curve of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Vertical line in a plot, such as the arrival of an XOFF.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Marker {
    pub x: f64,
    pub label: String,
}

//! Result of an examination: a verdict for each case with its measured values, as JSON, as text and as one HTML file.

mod model;

pub use model::{Accuracy, CaseReport, Curve, Device, Figure, Marker, Measurement, Report, Verdict};

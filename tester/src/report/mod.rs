//! Result of an examination: a verdict for each case with its measured values.

mod model;

pub use model::{Accuracy, CaseReport, Curve, Device, Figure, Marker, Measurement, Report, Verdict};

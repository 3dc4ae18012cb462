//! Result of an examination: a verdict for each case with its measured values.

mod compare;
mod figure;
mod files;
mod html;
mod model;
mod runs;
mod text;
mod values;

#[cfg(test)]
mod fixture;

pub use compare::{Comparison, compare};
pub use files::{ReadError, WriteError};
pub use model::{Accuracy, CaseReport, Curve, Device, Figure, Marker, Measurement, Report, Verdict};

use xoff_wire::units::Nanos;

use crate::report::{Figure, Measurement, Verdict};

/// Result of one run of a case, which passes if no requirement failed and nothing made the verdict "cannot tell".
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    failures: Vec<String>,
    disturbances: Vec<String>,
    late: Vec<String>,
    doubts: Vec<String>,
    pub notes: Vec<String>,
    pub measurements: Vec<Measurement>,
    pub figures: Vec<Figure>,
}

impl Judgement {
    #[must_use]
    pub fn new() -> Judgement {
        Judgement::default()
    }

    /// Fails the case if `holds` is false: for faults that no stall of the device can cause.
    pub fn require(&mut self, holds: bool, failure: impl FnOnce() -> String) {
        if !holds {
            self.failures.push(failure());
        }
    }

    /// Fails the case if `holds` is false and the device did not stall: for losses.
    pub fn require_unless_stalled(&mut self, holds: bool, failure: impl FnOnce() -> String) {
        if !holds {
            self.disturbances.push(failure());
        }
    }

    /// Fails the case if `holds` is false in three runs: for delays.
    pub fn require_in_time(&mut self, holds: bool, failure: impl FnOnce() -> String) {
        if !holds {
            self.late.push(failure());
        }
    }

    /// Makes the verdict "cannot tell", unless the case fails.
    pub fn cannot_tell(&mut self, reason: impl Into<String>) {
        self.doubts.push(reason.into());
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub fn measure(&mut self, name: &str, value: f64, unit: &str) {
        self.limits(name, value, unit, (None, None));
    }

    /// Adds a measured value and its limits to the report, without judging it.
    pub fn limits(
        &mut self,
        name: &str,
        value: f64,
        unit: &str,
        (at_least, at_most): (Option<f64>, Option<f64>),
    ) {
        self.measurements.push(Measurement { at_least, at_most, ..Measurement::new(name, value, unit) });
    }

    pub fn time(&mut self, name: &str, value: Nanos, limits: (Option<Nanos>, Option<Nanos>)) {
        let micros = |time: Nanos| time.0 as f64 / 1e3;
        self.limits(name, micros(value), "us", (limits.0.map(micros), limits.1.map(micros)));
    }

    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let has_failed =
            [&self.failures, &self.disturbances, &self.late].into_iter().any(|list| !list.is_empty());
        match (has_failed, self.doubts.is_empty()) {
            (true, _) => Verdict::Fail,
            (false, false) => Verdict::CannotTell,
            (false, true) => Verdict::Pass,
        }
    }

    #[must_use]
    pub fn may_be_stall(&self) -> bool {
        self.failures.is_empty() && self.verdict() == Verdict::Fail
    }

    /// Returns true if the case failed only by delays, which another run may not have.
    #[must_use]
    pub fn is_only_late(&self) -> bool {
        self.failures.is_empty() && self.disturbances.is_empty() && !self.late.is_empty()
    }

    #[must_use]
    pub fn reason(&self) -> String {
        let reasons: Vec<&str> = match self.verdict() {
            Verdict::Fail => {
                let all = self.failures.iter().chain(&self.disturbances).chain(&self.late);
                all.map(String::as_str).collect()
            }
            Verdict::CannotTell => self.doubts.iter().map(String::as_str).collect(),
            Verdict::Pass | Verdict::NotRun => self.notes.iter().map(String::as_str).collect(),
        };
        reasons.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_requirement_outweighs_uncertain_and_late_results() {
        let mut judgement = Judgement::new();
        assert_eq!(judgement.verdict(), Verdict::Pass);
        judgement.cannot_tell("short of frames");
        assert_eq!(judgement.verdict(), Verdict::CannotTell);
        judgement.require_in_time(false, || "late".into());
        assert!(judgement.is_only_late());
        judgement.require(true, || unreachable!());
        judgement.require(false, || "lost".into());
        assert_eq!((judgement.verdict(), judgement.is_only_late()), (Verdict::Fail, false));
        assert_eq!(judgement.reason(), "lost; late");
    }
}

use std::fmt;

use super::{CaseReport, Measurement, Report, Verdict};

impl Verdict {
    pub const ALL: [Verdict; 4] = [Verdict::Pass, Verdict::Fail, Verdict::CannotTell, Verdict::NotRun];

    /// Returns the severity of the verdict: 0 for pass, 1 for "cannot tell" and "not run", 2 for fail.
    pub(super) fn severity(self) -> u8 {
        match self {
            Verdict::Pass => 0,
            Verdict::NotRun | Verdict::CannotTell => 1,
            Verdict::Fail => 2,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::CannotTell => "cannot tell",
            Verdict::NotRun => "not run",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl CaseReport {
    /// Returns the severity of the run's verdict; an excused failure counts as a failure.
    pub(super) fn severity(&self) -> u8 {
        if self.excused_by.is_some() { Verdict::Fail.severity() } else { self.verdict.severity() }
    }
}

pub(super) struct Runs<'a> {
    pub id: &'a str,
    pub runs: Vec<&'a CaseReport>,
}

impl<'a> Runs<'a> {
    pub fn group(&self) -> &'a str {
        self.id.split('.').next().unwrap_or(self.id)
    }

    /// Returns the first of the runs with the worst verdict. "Cannot tell" counts as worse than "not run".
    pub fn worst(&self) -> &'a CaseReport {
        let severity = |run: &CaseReport| (run.severity(), run.verdict == Verdict::CannotTell);
        self.runs[1..].iter().fold(
            self.runs[0],
            |worst, run| {
                if severity(run) > severity(worst) { run } else { worst }
            },
        )
    }

    pub fn verdict(&self) -> Verdict {
        self.worst().verdict
    }

    /// Returns the values of all runs by measurement: first measurements of the worst run, in its order, then those missing there.
    pub fn values(&self) -> Vec<Values<'a>> {
        let mut all: Vec<Values<'a>> = Vec::new();
        let worst = self.worst();
        let others = self.runs.iter().filter(|run| !std::ptr::eq(**run, worst));
        for measurement in worst.measurements.iter().chain(others.flat_map(|run| &run.measurements)) {
            match all.iter_mut().find(|values| values.is_of(measurement)) {
                Some(values) => values.measurements.push(measurement),
                None => all.push(Values { measurements: vec![measurement] }),
            }
        }
        all
    }
}

pub(super) struct Values<'a> {
    pub measurements: Vec<&'a Measurement>,
}

impl<'a> Values<'a> {
    fn is_of(&self, other: &Measurement) -> bool {
        let first = self.first();
        first.name == other.name && first.unit == other.unit
    }

    pub fn first(&self) -> &'a Measurement {
        self.measurements[0]
    }

    pub fn range(&self) -> Option<(f64, f64)> {
        let values = self.measurements.iter().map(|it| it.value).filter(|value| !value.is_nan());
        values.fold(None, |range, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        })
    }

    /// Returns whether all values satisfy their limits; `None` without limits.
    pub fn are_within(&self) -> Option<bool> {
        self.measurements.iter().filter_map(|it| it.is_within()).reduce(|all, is_within| all && is_within)
    }
}

/// Number of cases of a group by verdict, in the order of [`Verdict::ALL`].
pub(super) struct Tally<'a> {
    pub group: &'a str,
    pub counts: [usize; 4],
}

impl Report {
    pub(super) fn runs(&self) -> Vec<Runs<'_>> {
        let mut all: Vec<Runs<'_>> = Vec::new();
        for case in &self.cases {
            match all.iter_mut().find(|runs| runs.id == case.id) {
                Some(runs) => runs.runs.push(case),
                None => all.push(Runs { id: &case.id, runs: vec![case] }),
            }
        }
        all
    }

    pub(super) fn tallies(&self) -> Vec<Tally<'_>> {
        let mut all: Vec<Tally<'_>> = Vec::new();
        for runs in self.runs() {
            let place = all.iter().position(|tally| tally.group == runs.group()).unwrap_or_else(|| {
                all.push(Tally { group: runs.group(), counts: [0; 4] });
                all.len() - 1
            });
            for (count, verdict) in all[place].counts.iter_mut().zip(Verdict::ALL) {
                *count += usize::from(runs.verdict() == verdict);
            }
        }
        all
    }

    /// Returns the number of cases with the verdict. For a case that ran several times, the worst verdict counts.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.runs().iter().filter(|runs| runs.verdict() == verdict).count()
    }

    /// Returns the verdict about the device: the first of "fail", "cannot tell" and "pass" that any case has; without any, "not run".
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let by_weight = [Verdict::Fail, Verdict::CannotTell, Verdict::Pass];
        by_weight.into_iter().find(|verdict| self.count(*verdict) > 0).unwrap_or(Verdict::NotRun)
    }
}

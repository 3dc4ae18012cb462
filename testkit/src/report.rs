use std::fmt;

use crate::bed::Promise;
use crate::trial::Trial;
use xoff_wire::units::Nanos;

/// Broken promise in a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Finding {
    pub scenario: &'static str,
    pub seed: u64,
    /// Time of the breach after the scenario's start.
    pub at: Nanos,
    pub promise: Promise,
    pub what: String,
}

/// Result of a check: the first breach of each promise in each scenario.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names say it
pub struct Report {
    pub seed: u64,
    /// Names of completed scenarios.
    pub ran: Vec<&'static str>,
    /// Scenarios that were not run because their settings do not suit the policy, each with the reason.
    pub left_out: Vec<(&'static str, String)>,
    pub findings: Vec<Finding>,
}

impl Report {
    pub(crate) const fn new(seed: u64) -> Report {
        Report { seed, ran: Vec::new(), left_out: Vec::new(), findings: Vec::new() }
    }

    pub(crate) fn add(&mut self, scenario: &'static str, trial: Trial<'_>) {
        let outcome = trial.outcome();
        match outcome {
            Err(misfit) => self.left_out.push((scenario, misfit)),
            Ok(broken) => {
                self.ran.push(scenario);
                let seed = self.seed;
                let finding = |(at, promise, what)| Finding { scenario, seed, at, promise, what };
                self.findings.extend(broken.into_iter().map(finding));
            }
        }
    }

    /// Returns true if the policy kept all promises.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns whether any scenario broke this promise.
    #[must_use]
    pub fn breaks(&self, promise: Promise) -> bool {
        self.findings.iter().any(|finding| finding.promise == promise)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ran, seed) = (self.ran.len(), self.seed);
        writeln!(f, "{ran} scenarios with seed {seed}: {} promises broken", self.findings.len())?;
        for Finding { scenario, at, promise, what, .. } in &self.findings {
            writeln!(f, "  {scenario} at {} ns: {promise}: {what}", at.0)?;
        }
        for (scenario, misfit) in &self.left_out {
            writeln!(f, "  scenario {scenario} was left out: the policy needs {misfit}")?;
        }
        Ok(())
    }
}

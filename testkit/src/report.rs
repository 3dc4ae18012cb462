//! What a check has found.

use std::fmt;

use crate::bed::Promise;
use crate::trial::Trial;
use xoff_wire::units::Nanos;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub scenario: &'static str,
    /// With this seed it is broken again.
    pub seed: u64,
    /// When it was seen, from the beginning of the scenario.
    pub at: Nanos,
    /// Which promise.
    pub promise: Promise,
    /// What was seen.
    pub what: String,
}

/// All that a check has found: of each promise the first time that each scenario broke it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of the check.
    pub seed: u64,
    /// Scenarios that ran.
    pub ran: Vec<&'static str>,
    /// Scenarios that did not, as the policy does not fit their settings, and why.
    pub left_out: Vec<(&'static str, String)>,
    /// What was broken, scenario by scenario, in order of time.
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

    /// Nothing was broken.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Whether this promise was broken anywhere.
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
            writeln!(f, "  {scenario} was left out: the policy needs {misfit}")?;
        }
        Ok(())
    }
}

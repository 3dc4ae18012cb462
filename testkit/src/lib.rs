//! Test kit for flow-control policies: does a policy ever lose, reorder or strand a frame?
//!
//! [`check`] runs a policy, built in or [custom](xoff_flow_control::settings::Custom), through hard scenarios: incast,
//! pause storms, lost XONs, flapping links, replacement by another policy. It reports broken promises with time,
//! scenario and seed. Equal seeds lead to equal runs.
//!
//! ```
//! use xoff_testkit::{Subject, check};
//! use xoff_flow_control::settings::PolicyKind;
//!
//! let report = check(&Subject::new(PolicyKind::Pfc), 7);
//! assert!(report.is_clean(), "{report}");
//! ```
//!
//! Other tests use the [`bed`], which panics when a switch breaks a [`Promise`].
//!
//! ```text
//!   check --> scenarios --> trial --> bed      switches, hosts and wires, in virtual time
//!     |                       |        |
//!   report <------- judge ----+    breaches    broken promises
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod bed;
pub mod chaos;
mod panics;
mod report;
mod scenarios;
mod trial;

use std::fmt;

pub use bed::Promise;
pub use report::{Finding, Report};
use scenarios::SCENARIOS;
use trial::Trial;
use xoff_flow_control::settings::{PolicyKind, SwitchSettings};

type Prepare = Box<dyn Fn(&mut SwitchSettings)>;

/// Policy to check, with the settings of the switches that run it.
pub struct Subject {
    kind: PolicyKind,
    prepare: Prepare,
}

impl Subject {
    /// Creates a test subject that runs the policy in switches with default settings.
    #[must_use]
    pub fn new(kind: PolicyKind) -> Subject {
        Subject::with(kind, |_| ())
    }

    /// Creates a test subject. `prepare` may change its switches' settings: parameters, thresholds, capabilities of
    /// peers, or the policy behind [`PolicyKind::Custom`].
    pub fn with(kind: PolicyKind, prepare: impl Fn(&mut SwitchSettings) + 'static) -> Subject {
        Subject { kind, prepare: Box::new(prepare) }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Runs every scenario with the policy of `subject` in all classes.
#[must_use]
pub fn check(subject: &Subject, seed: u64) -> Report {
    let mut report = Report::new(seed);
    for scenario in &SCENARIOS {
        let mut trial = Trial::new(subject.kind, &subject.prepare, seed);
        trial.run(scenario.run);
        report.add(scenario.name, trial);
    }
    report
}

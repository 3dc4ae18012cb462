//! Does a flow-control policy ever lose, reorder or strand a frame?
//!
//! [`check`] runs a policy, built in or [custom](xoff_flow_control::settings::Custom), in switches among hosts, in virtual
//! time, through what is hard for one: incast, storms of pauses, XONs that are lost, links that flap, another
//! policy that takes over. It says what was broken, when, in which scenario, with which seed; it does not stop at
//! it. A seed takes the same path in every run.
//!
//! ```
//! use xoff_testkit::{Subject, check};
//! use xoff_flow_control::settings::PolicyKind;
//!
//! let report = check(&Subject::new(PolicyKind::Pfc), 7);
//! assert!(report.is_clean(), "{report}");
//! ```
//!
//! The [`bed`] itself is for tests that look closer: there a broken promise stops the test.
//!
//! ```text
//!   check --> scenarios --> trial --> bed      switches, hosts and wires, in virtual time
//!     |                       |        |
//!   report <------- judge ----+    breaches    what was broken, by whom it was seen first
//! ```

#![forbid(unsafe_code)]

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

/// What a policy needs of a switch's settings.
type Prepare = Box<dyn Fn(&mut SwitchSettings)>;

/// The policy that is checked, and what it needs.
pub struct Subject {
    kind: PolicyKind,
    prepare: Prepare,
}

impl Subject {
    /// A policy as it is by itself.
    #[must_use]
    pub fn new(kind: PolicyKind) -> Subject {
        Subject::with(kind, |_| ())
    }

    /// A policy in switches whose settings `prepare` has changed: its own parameters, thresholds, what its peers can
    /// read; what [`PolicyKind::Custom`] stands for.
    pub fn with(kind: PolicyKind, prepare: impl Fn(&mut SwitchSettings) + 'static) -> Subject {
        Subject { kind, prepare: Box::new(prepare) }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Runs every scenario with `subject` as the policy of all classes, and says what was broken. A policy that panics is
/// reported, too.
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

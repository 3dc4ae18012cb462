//! Checks that the example's policy never loses or reorders a frame, leaves no frame in a queue, and pauses no sender forever.

use super::*;
use xoff_flow_control::settings::{Custom, PolicyKind};
use xoff_testkit::{Subject, check};

#[test]
fn equal_shares_policy_passes_conformance_check() {
    for backlog in [Bytes(60_000), Bytes(5_000)] {
        let subject = Subject::with(PolicyKind::Custom, move |settings| {
            settings.policy.custom = Some(Custom::new(EqualShares { backlog }));
        });
        let report = check(&subject, 1);
        assert!(report.is_clean() && report.left_out.is_empty(), "{report}");
    }
}

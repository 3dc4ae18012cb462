//! Table of all cases. A case is a function that sends frames through the [`Bench`] and judges what it recorded.

mod buffers;
mod complete;
mod counters;
mod headroom;
mod isolation;
mod lldp;
mod losslessness;
mod map;
mod receive;
mod send;
mod streams;
mod watchdog;

use crate::bench::{Bench, Void};
use crate::judgement::Judgement;

use send::flow as send_flow;

pub type Run = fn(&mut Bench) -> Result<Judgement, Void>;

#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Group and name, such as `receive.expiry`.
    pub id: &'static str,
    /// Question that the case answers.
    pub title: &'static str,
    /// Clause or document that demands the behavior.
    pub source: &'static str,
    /// Number of test ports that the case needs.
    pub ports: usize,
    pub run: Run,
}

const GROUPS: &[&[Case]] = &[
    receive::CASES,
    send::CASES,
    losslessness::CASES,
    headroom::CASES,
    buffers::CASES,
    isolation::CASES,
    map::CASES,
    watchdog::CASES,
    lldp::CASES,
    counters::CASES,
];

pub fn all() -> impl Iterator<Item = &'static Case> {
    GROUPS.iter().copied().flatten()
}

/// Returns the cases that examine a NIC of this machine, which sends through the kernel's queues.
pub fn of_nic() -> impl Iterator<Item = &'static Case> {
    receive::CASES.iter().filter(|case| case.id != receive::NOT_RELAYED)
}

impl Case {
    /// Returns whether the id matches a pattern, in which `*` stands for any text.
    #[must_use]
    pub fn matches(&self, pattern: &str) -> bool {
        matches(pattern, self.id)
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, after)) => text.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len()).filter(|&at| rest.is_char_boundary(at)).any(|at| matches(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn case_ids_are_unique_with_group() {
        let ids: BTreeSet<_> = all().map(|case| case.id).collect();
        assert_eq!(ids.len(), all().count());
        assert!(ids.iter().all(|id| id.split('.').count() == 2), "{ids:?}");
    }

    #[test]
    fn pattern_star_matches_any_text() {
        for (pattern, text, expected) in [
            ("receive.*", "receive.xon", true),
            ("*", "receive.xon", true),
            ("*.xon", "receive.xon", true),
            ("receive.xon", "receive.xon", true),
            ("receive.xo", "receive.xon", false),
            ("r*e.x*n", "receive.xon", true),
            ("send.*", "receive.xon", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}

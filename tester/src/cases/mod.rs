//! Table of all cases: functions that send frames through the [`Bench`] and judge the recorded ones.

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

use xoff_wire::units::Nanos;

use crate::bench::{Bench, Void};
use crate::judgement::Judgement;
use crate::setup::{DeviceSettings, Setup};

use send::flow as send_flow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ability {
    ObeysPauses,
    SendsValidPfc,
}

/// Basic cases, each with the ability that it examines. If one fails, failures of cases that rely on the ability prove nothing.
pub(crate) const BASIC: [(&str, Ability); 7] = [
    ("receive.stops-class", Ability::ObeysPauses),
    ("receive.only-class", Ability::ObeysPauses),
    ("receive.xon", Ability::ObeysPauses),
    ("receive.expiry", Ability::ObeysPauses),
    ("receive.timers", Ability::ObeysPauses),
    ("receive.zero-time", Ability::ObeysPauses),
    ("send.format", Ability::SendsValidPfc),
];

/// Cases whose failures prove a fault although these basic cases failed.
pub(crate) const JUDGED_WITHOUT: [(&str, &str); 7] = [
    ("receive.lossy-class", "receive.*"),
    (receive::NOT_RELAYED, "receive.*"),
    ("send.source", "*"),
    ("losslessness.*", "receive.*"),
    ("isolation.*", "receive.timers"), // a blocked class resumes late
    ("watchdog.detection", "receive.*"),
    ("counters.pfc", "receive.*"),
];

pub type Run = fn(&mut Bench) -> Result<Judgement, Void>;

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub id: &'static str,
    pub title: &'static str,
    pub source: &'static str,
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
    receive::CASES.iter().filter(|case| case.id != receive::NOT_RELAYED).chain(send::OF_NIC)
}

const RUN_MAX: Nanos = Nanos::from_secs(120);
/// Additional time for each class of each port.
const OF_INGRESS: Nanos = Nanos::from_secs(4);

impl Case {
    #[must_use]
    pub fn limit(&self, setup: &Setup) -> Nanos {
        let device = &setup.device;
        let times = match self.id {
            losslessness::SOAK => setup.soak.0 * 2,
            _ if self.examines_watchdog() => {
                watchdog::times(device).map(|time| 30 * time.0).into_iter().sum()
            }
            id if id.starts_with("buffers.") || id.starts_with("send.") => {
                OF_INGRESS.0 * (setup.ports.len() * device.lossless.iter().count()) as u64
            }
            _ => 0,
        };
        RUN_MAX.after(Nanos(times))
    }

    /// Returns the limit of pauses: the watchdog acts on longer ones.
    #[must_use]
    pub fn pause_max(&self, device: &DeviceSettings) -> Option<Nanos> {
        let watchdog =
            device.watchdog.filter(|_| !self.examines_watchdog()).map(|time| Nanos(time.0 / 10 * 9));
        device.pause_max.into_iter().chain(watchdog).min()
    }

    fn examines_watchdog(&self) -> bool {
        self.id.contains("watchdog")
    }

    /// Returns whether the id matches a pattern, in which `*` stands for any text.
    #[must_use]
    pub fn matches(&self, pattern: &str) -> bool {
        matches(pattern, self.id)
    }
}

pub(crate) fn matches(pattern: &str, text: &str) -> bool {
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

    use xoff_wire::units::BitRate;

    use super::*;

    #[test]
    fn test_case_ids_are_unique_and_begin_with_their_group() {
        let ids: BTreeSet<_> = all().map(|case| case.id).collect();
        assert_eq!(ids.len(), all().count());
        assert!(ids.iter().all(|id| id.split('.').count() == 2), "{ids:?}");
    }

    #[test]
    fn time_limit_of_case_includes_soak_and_watchdog_times() {
        let mut device = DeviceSettings::new("device", xoff_config::defaults::LOSSLESS);
        (device.watchdog, device.watchdog_restore) = (Some(Nanos::from_secs(10)), Some(Nanos::from_secs(5)));
        let speed = BitRate::from_gbps(1);
        let setup = Setup { soak: Nanos::from_secs(3_600), ..Setup::of_nic("a", "b", speed, device) };
        for (id, seconds) in [
            ("receive.expiry", 120),
            ("losslessness.soak", 7_320),
            ("losslessness.order", 120),
            ("watchdog.detection", 570),
            ("counters.watchdog", 570),
            ("buffers.xoff", 128),
        ] {
            let case = all().find(|case| case.id == id).expect("the case exists");
            assert_eq!(case.limit(&setup), Nanos::from_secs(seconds), "{id}");
        }
    }

    #[test] // proves: conformance
    fn pauses_outside_watchdog_cases_are_shorter_than_watchdog_time() {
        let times = |pause_max, watchdog| {
            let mut device = DeviceSettings::new("device", xoff_config::defaults::LOSSLESS);
            (device.pause_max, device.watchdog) = (pause_max, watchdog);
            ["send.xon", "watchdog.detection", "counters.watchdog"].map(|id| {
                let case = all().find(|case| case.id == id).expect("the case exists");
                case.pause_max(&device)
            })
        };
        let [short, long] = [100, 200].map(|millis| Some(Nanos::from_millis(millis)));
        assert_eq!(times(None, None), [None; 3]);
        assert_eq!(times(None, short), [Some(Nanos::from_millis(90)), None, None]);
        assert_eq!(times(long, short), [Some(Nanos::from_millis(90)), long, long]);
        assert_eq!(times(short, long), [short; 3]);
    }

    #[test]
    fn star_in_case_pattern_matches_any_text() {
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

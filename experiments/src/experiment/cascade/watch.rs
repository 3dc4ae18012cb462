//! Records the pauses that switches send and obey, by sampling their counters.
//!
//! A sample has the exact start of the current pause; its end is only known to be between two samples. If a sample
//! comes late, counters reveal the missed pauses; the order of recorded events then proves nothing.

use std::time::Duration;

use serde::Serialize;
use xoff_flow_control::cause::{Cause, Trigger};
use xoff_flow_control::counter::Histogram;
use xoff_flow_control::counters::ClassCounters;
use xoff_wire::units::Nanos;

use crate::{LOSSLESS, Live, Plan, PortOf, settled};

const SAMPLE_EVERY: Duration = Duration::from_micros(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PauseAction {
    Holds,
    Releases,
    Stops,
    Resumes,
}

impl PauseAction {
    pub(super) const fn word(self) -> &'static str {
        match self {
            PauseAction::Holds => "sends XOFF",
            PauseAction::Releases => "sends XON",
            PauseAction::Stops => "stops",
            PauseAction::Resumes => "resumes",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct PauseEvent {
    pub(super) at_ms: f64,
    #[serde(skip)]
    pub(super) not_before_ms: f64,
    pub(super) switch: String,
    pub(super) port: String,
    pub(super) action: PauseAction,
    pub(super) why: Option<String>,
    pub(super) culprit: Option<String>,
    pub(super) relayed: Option<bool>,
}

pub(super) struct PauseRecord {
    pub(super) events: Vec<PauseEvent>,
    pub(super) missed_from_ms: Option<f64>,
}

impl PauseRecord {
    pub(super) fn reliable_events(&self) -> &[PauseEvent] {
        let before = |from| self.events.partition_point(|event| event.at_ms < from);
        &self.events[..self.missed_from_ms.map_or(self.events.len(), before)]
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct PauseTrack {
    /// Start of the current pause in ns; 0 if there is none.
    since: u64,
    begun: u64,
    sampled_at: Nanos,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct PauseChange {
    end: Option<[Nanos; 2]>,
    begin: Option<Nanos>,
    missed_after: Option<Nanos>,
}

impl PauseTrack {
    fn sample(&mut self, [from, to]: [Nanos; 2], origin: Nanos, ended: u64, since: u64) -> PauseChange {
        let mut found = PauseChange::default();
        if since != self.since {
            let begun = Nanos(since).since(origin);
            if self.since != 0 {
                found.end = Some([self.sampled_at, if since == 0 { to } else { begun }]);
            }
            if since != 0 {
                found.begin = Some(begun);
                self.begun += 1;
            }
            self.since = since;
        }
        // A switch clears `since` before it counts the pause as ended, so the sum may be one too low, but never too
        // high.
        let begun = ended + u64::from(since != 0);
        if begun > self.begun {
            found.missed_after = Some(self.sampled_at);
            self.begun = begun;
        }
        self.sampled_at = from;
        found
    }
}

struct WatchedPort {
    at: PortOf,
    switch: String,
    names: Vec<String>,
}

fn ports(plan: &Plan) -> Vec<WatchedPort> {
    let of = |switch| {
        let names: Vec<String> = plan.ports_of(switch).map(|at| plan.port_name(at).to_owned()).collect();
        let name = plan.switch_name(switch).to_owned();
        plan.ports_of(switch).map(move |at| WatchedPort { at, switch: name.clone(), names: names.clone() })
    };
    plan.switches().flat_map(of).collect()
}

pub(super) fn watch(live: &Live<'_>, plan: &Plan, patience: Duration) -> PauseRecord {
    let ports = ports(plan);
    let mut tracks = vec![[PauseTrack::default(); 2]; ports.len()];
    let mut record = PauseRecord { events: Vec::new(), missed_from_ms: None };
    live.every(SAMPLE_EVERY, patience, |mut from| {
        for (port, tracks) in ports.iter().zip(&mut tracks) {
            let class = live.class(port.at, LOSSLESS);
            let (ended, since, cause) = read(class);
            let to = live.elapsed();
            let deeds = [
                (PauseAction::Holds, PauseAction::Releases, cause),
                (PauseAction::Stops, PauseAction::Resumes, None),
            ];
            for (kind, (begins, ends, cause)) in deeds.into_iter().enumerate() {
                let found = tracks[kind].sample([from, to], live.begin(), ended[kind], since[kind]);
                record.events.extend(found.end.map(|within| port.event(within, ends, None)));
                record.events.extend(found.begin.map(|at| port.event([at; 2], begins, cause)));
                if let Some(missed_ms) = found.missed_after.map(ms) {
                    record.missed_from_ms =
                        Some(record.missed_from_ms.map_or(missed_ms, |from| from.min(missed_ms)));
                }
            }
            from = to;
        }
    });
    record.events.sort_by(|a: &PauseEvent, b: &PauseEvent| a.at_ms.total_cmp(&b.at_ms));
    record
}

fn read(class: &ClassCounters) -> ([u64; 2], [u64; 2], Option<Cause>) {
    settled(|| {
        let ended = [&class.held_durations, &class.paused_durations].map(Histogram::count);
        let since = [class.held_since.get(), class.paused_since.get()];
        (ended, since, Cause::unpack(class.held_cause.get()))
    })
}

fn ms(at: Nanos) -> f64 {
    at.0 as f64 / 1e6
}

impl WatchedPort {
    fn event(&self, [not_before, at]: [Nanos; 2], action: PauseAction, cause: Option<Cause>) -> PauseEvent {
        PauseEvent {
            at_ms: ms(at),
            not_before_ms: ms(not_before),
            switch: self.switch.clone(),
            port: self.names[self.at.port.index()].clone(),
            action,
            why: cause.map(|cause| self.explain(cause)),
            culprit: cause.and_then(|cause| Some(self.names[cause.culprit?.index()].clone())),
            relayed: cause.map(|cause| cause.relayed),
        }
    }

    fn explain(&self, cause: Cause) -> String {
        let culprit = cause.culprit.map_or("none", |port| &self.names[port.index()]);
        let held = if cause.relayed { ", which is itself paused by its peer" } else { "" };
        format!("trigger {}; most frames are queued for {culprit}{held}", Trigger::NAMES[cause.trigger])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Nanos = Nanos::from_millis(1000);

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn samples<const N: usize>(samples: [(u64, u64, u64); N]) -> [PauseChange; N] {
        let mut track = PauseTrack::default();
        samples.map(|(from, ended, since)| {
            let since = if since == 0 { 0 } else { ORIGIN.after(at(since)).0 };
            track.sample([at(from), at(from + 1)], ORIGIN, ended, since)
        })
    }

    #[test]
    fn observed_pause_end_lies_between_two_samples() {
        let [none, begin, lasts, end] = samples([(10, 0, 0), (20, 0, 15), (30, 0, 15), (40, 1, 0)]);
        assert_eq!([none, lasts], [PauseChange::default(), PauseChange::default()]);
        assert_eq!(begin, PauseChange { begin: Some(at(15)), ..PauseChange::default() });
        assert_eq!(end, PauseChange { end: Some([at(30), at(41)]), ..PauseChange::default() });
    }

    #[test]
    fn observed_pause_ends_before_next_one_begins() {
        let [_, next] = samples([(10, 0, 5), (20, 1, 17)]);
        assert_eq!(
            next,
            PauseChange { end: Some([at(10), at(17)]), begin: Some(at(17)), missed_after: None }
        );
    }

    #[test] // proves: cascade
    fn counters_reveal_an_unobserved_pause() {
        let [_, between, no_more] = samples([(10, 0, 0), (20, 1, 0), (30, 1, 0)]);
        assert_eq!(between, PauseChange { missed_after: Some(at(10)), ..PauseChange::default() });
        assert_eq!(no_more, PauseChange::default());
        let [_, one_of_two] = samples([(10, 0, 0), (20, 1, 17)]);
        assert_eq!(one_of_two, PauseChange { begin: Some(at(17)), end: None, missed_after: Some(at(10)) });
        let [.., second_unobserved] = samples([(10, 0, 5), (20, 0, 5), (30, 2, 0)]);
        assert_eq!(
            second_unobserved,
            PauseChange { end: Some([at(20), at(31)]), begin: None, missed_after: Some(at(20)) }
        );
    }

    #[test]
    fn pause_counted_one_sample_late_is_not_reported_as_missed() {
        let [_, over, counted] = samples([(10, 0, 5), (20, 0, 0), (30, 1, 0)]);
        assert_eq!(over, PauseChange { end: Some([at(10), at(21)]), ..PauseChange::default() });
        assert_eq!(counted, PauseChange::default());
    }

    #[test]
    fn cascade_events_before_a_missed_pause_stay_reliable() {
        let event = |at_ms| PauseEvent {
            at_ms,
            not_before_ms: at_ms,
            switch: String::new(),
            port: String::new(),
            action: PauseAction::Holds,
            why: None,
            culprit: None,
            relayed: None,
        };
        let reliable = |missed_from_ms| {
            PauseRecord { events: [1.0, 2.0, 3.0].map(event).to_vec(), missed_from_ms }
                .reliable_events()
                .len()
        };
        assert_eq!([Some(2.0), Some(2.1), None].map(reliable), [1, 2, 3]);
    }
}

//! Fourteen steps of the article on DSCP-based PFC, with order and causes, and a run's deviations from them.

use std::array;

use serde::Serialize;

use super::watch::{PauseAction, PauseEvent, PauseRecord};

pub(super) struct Sequence {
    pub(super) title: &'static str,
    steps: Vec<Step>,
}

#[derive(Clone, Copy)]
pub(super) struct Chain {
    pub(super) sink: &'static str,
    pub(super) last: &'static str,
    pub(super) middle: &'static str,
    pub(super) first: &'static str,
    pub(super) sender: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    number: &'static str,
    what: String,
    action: PortAction,
    after: Option<PortAction>,
    cause: Option<ExpectedCause>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PortAction {
    switch: &'static str,
    port: String,
    kind: PauseAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ExpectedCause {
    culprit: String,
    relayed: bool,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct StepTime {
    pub(super) step: &'static str,
    pub(super) what: String,
    pub(super) at_ms: Option<f64>,
    pub(super) why: Option<String>,
}

const NUMBERS: [&str; 9] = ["1-3", "4", "5-7", "8", "9", "10-12", "13", "14", "14"];
const AFTER: [Option<usize>; 9] =
    [None, Some(0), Some(1), Some(2), Some(3), Some(0), Some(5), Some(6), Some(4)];

impl Chain {
    fn steps(&self) -> [Step; 9] {
        let Chain { sink, last, middle, first, sender } = *self;
        let to = |switch: &str| format!("to-{switch}");
        let actions = [
            (last, to(middle), PauseAction::Holds),
            (middle, to(last), PauseAction::Stops),
            (middle, to(first), PauseAction::Holds),
            (first, to(middle), PauseAction::Stops),
            (first, sender.to_owned(), PauseAction::Holds),
            (last, to(middle), PauseAction::Releases),
            (middle, to(last), PauseAction::Resumes),
            (middle, to(first), PauseAction::Releases),
            (first, sender.to_owned(), PauseAction::Releases),
        ];
        let actions = actions.map(|(switch, port, kind)| PortAction { switch, port, kind });
        let what = [
            format!("the queue to {sink} fills, ingress exceeds xOFF, {middle} is paused"),
            format!("stops sending class 3 to {last}"),
            format!("the queue to {last} fills, {first} is paused"),
            format!("stops sending class 3 to {middle}"),
            format!("the queue to {middle} fills, {sender} is paused"),
            format!("ingress falls below xON, {middle} is resumed (quanta 0)"),
            format!("resumes sending class 3 to {last}"),
            format!("{first} is resumed"),
            format!("{sender} is resumed"),
        ];
        let cause = |place| match place {
            0 => Some(ExpectedCause { culprit: sink.to_owned(), relayed: false }),
            2 => Some(ExpectedCause { culprit: to(last), relayed: true }),
            4 => Some(ExpectedCause { culprit: to(middle), relayed: true }),
            _ => None,
        };
        array::from_fn(|place| Step {
            number: NUMBERS[place],
            what: format!("{}: {}", actions[place].switch, what[place]),
            action: actions[place].clone(),
            after: AFTER[place].map(|before| actions[before].clone()),
            cause: cause(place),
        })
    }
}

impl PortAction {
    fn is(&self, event: &PauseEvent) -> bool {
        event.action == self.kind && self.is_at(event)
    }

    fn is_at(&self, event: &PauseEvent) -> bool {
        event.switch == self.switch && event.port == self.port
    }
}

impl Sequence {
    pub(super) fn new(title: &'static str, chains: [Chain; 2]) -> Sequence {
        let mut steps: Vec<Step> = Vec::new();
        let chains = chains.map(|chain| chain.steps());
        for place in 0..NUMBERS.len() {
            for step in chains.iter().map(|chain| &chain[place]) {
                if !steps.contains(step) {
                    steps.push(step.clone());
                }
            }
        }
        Sequence { title, steps }
    }

    pub(super) fn step_times(&self, events: &[PauseEvent]) -> Vec<StepTime> {
        let step_time = |step: &Step| {
            let event = events.iter().find(|event| step.action.is(event));
            let why = event.and_then(|event| event.why.clone());
            let at_ms = event.map(|event| event.at_ms);
            StepTime { step: step.number, what: step.what.clone(), at_ms, why }
        };
        self.steps.iter().map(step_time).collect()
    }

    pub(super) fn out_of_order(&self, record: &PauseRecord) -> Vec<(String, Option<f64>)> {
        let name = |of: &PortAction| {
            let number = self.steps.iter().find(|step| step.action == *of).map_or("", |step| step.number);
            format!("step {number} ({}, port {}: {})", of.switch, of.port, of.kind.word())
        };
        let is_missing =
            |action: &&PortAction| record.missed_from_ms.is_none() && first(record, action).is_none();
        let missing = self.steps.iter().map(|step| &step.action).filter(is_missing);
        let missing = missing.map(|action| (format!("{} was not observed", name(action)), None));
        let against = self.steps.iter().filter_map(|Step { action, after, .. }| {
            let before = after.as_ref()?;
            let (early, late) = (first(record, before)?.not_before_ms, first(record, action)?.at_ms);
            let text =
                || format!("{} at {late:.3} ms before {} at {early:.3} ms", name(action), name(before));
            (late < early).then(|| (text(), Some(early - late)))
        });
        missing.chain(against).collect()
    }

    pub(super) fn not_relayed(&self, record: &PauseRecord) -> Vec<String> {
        let holds = || self.steps.iter().filter_map(|step| Some((step, step.cause.as_ref()?)));
        let against = holds().flat_map(|(step, cause)| {
            let holds_of_step =
                record.reliable_events().iter().filter(move |event| step.action.is(event)).enumerate();
            let other = holds_of_step.filter(move |(number, event)| match (number, &event.culprit) {
                (0, of) => of.as_ref() != Some(&cause.culprit) || event.relayed != Some(cause.relayed),
                (_, of) => of.as_ref().is_some_and(|of| *of != cause.culprit),
            });
            other.map(move |(_, event)| {
                let why = event.why.as_deref().unwrap_or("no cause");
                format!("step {}: {} pauses {} because of: {why}", step.number, event.switch, event.port)
            })
        });
        let sent_pauses = record.reliable_events().iter().filter(|event| event.action == PauseAction::Holds);
        let others = sent_pauses.filter(|event| !holds().any(|(step, _)| step.action.is_at(event)));
        let others = others.map(|event| {
            format!("{} pauses {}, which does not contribute to the congestion", event.switch, event.port)
        });
        against.chain(others).collect()
    }

    pub(super) fn is_in_order(&self, record: &PauseRecord) -> bool {
        self.has_all(record) && self.out_of_order(record).is_empty()
    }

    pub(super) fn is_relayed(&self, record: &PauseRecord) -> bool {
        self.has_all(record) && self.not_relayed(record).is_empty()
    }

    pub(super) fn matches(&self, record: &PauseRecord) -> bool {
        self.is_in_order(record) && self.is_relayed(record)
    }

    fn has_all(&self, record: &PauseRecord) -> bool {
        self.steps.iter().all(|step| first(record, &step.action).is_some())
    }
}

fn first<'a>(record: &'a PauseRecord, action: &PortAction) -> Option<&'a PauseEvent> {
    record.reliable_events().iter().find(|event| action.is(event))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{article, routed};
    use super::*;

    pub(in super::super) fn at(at_ms: f64, switch: &str, port: &str, action: PauseAction) -> PauseEvent {
        let [switch, port] = [switch, port].map(str::to_owned);
        PauseEvent {
            at_ms,
            not_before_ms: at_ms,
            switch,
            port,
            action,
            why: None,
            culprit: None,
            relayed: None,
        }
    }

    pub(in super::super) fn complete_record(events: Vec<PauseEvent>) -> PauseRecord {
        PauseRecord { events, missed_from_ms: None }
    }

    fn sequences() -> [Sequence; 2] {
        [article::sequence(), routed::sequence()]
    }

    impl Sequence {
        pub(in super::super) fn expected_events(&self) -> Vec<PauseEvent> {
            let event = |(place, Step { action, cause, .. }): (usize, &Step)| PauseEvent {
                culprit: cause.as_ref().map(|of| of.culprit.clone()),
                relayed: cause.as_ref().map(|of| of.relayed),
                ..at(place as f64, action.switch, &action.port, action.kind)
            };
            self.steps.iter().enumerate().map(event).collect()
        }
    }

    #[test]
    fn step_common_to_two_pause_chains_is_listed_once() {
        let numbers =
            |sequence: Sequence| sequence.steps.iter().map(|step| step.number).collect::<Vec<_>>().join(" ");
        let [article, routed] = sequences().map(numbers);
        assert_eq!(article, "1-3 4 5-7 5-7 8 8 9 9 10-12 13 14 14 14 14");
        assert_eq!(routed, "1-3 1-3 4 4 5-7 5-7 8 8 9 9 10-12 10-12 13 13 14 14 14 14");
    }

    #[test] // proves: cascade
    fn pauses_in_another_order_than_article_are_a_deviation() {
        for sequence in sequences() {
            let expected = complete_record(sequence.expected_events());
            assert!(sequence.matches(&expected), "{:?}", sequence.out_of_order(&expected));
            for place in 0..sequence.steps.len() {
                let mut without = sequence.expected_events();
                without.remove(place);
                let deviations = sequence.out_of_order(&complete_record(without));
                assert!(deviations.iter().any(|(of, _)| of.contains("was not observed")), "{place}");
                let mut early = sequence.expected_events();
                (early[place].at_ms, early[place].not_before_ms) = (-1.0, -1.0);
                assert_eq!(
                    sequence.is_in_order(&complete_record(early)),
                    sequence.steps[place].after.is_none(),
                    "{place}"
                );
            }
        }
    }

    #[test] // proves: cascade
    fn cascade_steps_of_article_name_existing_ports() {
        let line = xoff_wire::units::BitRate::from_mbps(100);
        for (sequence, plan) in
            sequences().into_iter().zip([article::plan(line.into()).0, routed::plan(line.into()).plan])
        {
            let ports: Vec<(String, String)> = plan
                .switches()
                .flat_map(|switch| plan.ports_of(switch))
                .map(|at| (plan.switch_name(at.switch).to_owned(), plan.port_name(at).to_owned()))
                .collect();
            let has = |switch: &str, port: &str| ports.contains(&(switch.to_owned(), port.to_owned()));
            for Step { action, cause, .. } in &sequence.steps {
                assert!(has(action.switch, &action.port), "{action:?}");
                assert_eq!(cause.is_some(), action.kind == PauseAction::Holds);
                assert!(cause.as_ref().is_none_or(|of| has(action.switch, &of.culprit)), "{cause:?}");
            }
            assert!(sequence.steps[0].after.is_none());
        }
    }

    #[test] // proves: cascade
    fn cascade_ignores_order_of_events_within_one_sample() {
        let (release, resume) = (8, 9);
        let expected = article::sequence().expected_events();
        assert_eq!(
            (expected[release].action, expected[resume].action),
            (PauseAction::Releases, PauseAction::Resumes)
        );
        // The sample was late: the release happened at some time since `not_before_ms`.
        for (not_before, in_order) in [(9.0, true), (9.1, false)] {
            let mut events = expected.clone();
            (events[release].not_before_ms, events[release].at_ms) = (not_before, 9.2);
            assert_eq!(article::sequence().is_in_order(&complete_record(events)), in_order, "{not_before}");
        }
    }

    #[test] // proves: cascade
    fn cascade_compares_only_steps_before_a_missed_pause() {
        let sequence = article::sequence();
        let complete_until = |missed_from_ms| PauseRecord {
            events: sequence.expected_events(),
            missed_from_ms: Some(missed_from_ms),
        };
        let last = sequence.steps.len() as f64 - 1.0;
        assert!(sequence.matches(&complete_until(last + 0.5)));
        let too_few = complete_until(last);
        assert!(!sequence.is_in_order(&too_few) && !sequence.is_relayed(&too_few));
        let deviations = sequence.out_of_order(&too_few);
        assert!(
            deviations.is_empty(),
            "steps after a missed pause must not count as deviations: {deviations:?}"
        );
        let mut early = sequence.expected_events();
        (early[1].at_ms, early[1].not_before_ms) = (-1.0, -1.0);
        let early_and_incomplete = PauseRecord { events: early, missed_from_ms: Some(5.0) };
        assert_eq!(
            sequence.out_of_order(&early_and_incomplete).len(),
            1,
            "a step that is too early must count as a deviation"
        );
    }

    #[test] // proves: cascade
    fn pause_without_earlier_pause_as_cause_is_a_deviation() {
        for sequence in sequences() {
            assert!(sequence.is_relayed(&complete_record(sequence.expected_events())));
            for (place, step) in sequence.steps.iter().enumerate().filter(|(_, step)| step.cause.is_some()) {
                let mut other = sequence.expected_events();
                other[place].relayed = other[place].relayed.map(|relayed| !relayed);
                assert_eq!(sequence.not_relayed(&complete_record(other)).len(), 1, "{step:?}");
                let mut other = sequence.expected_events();
                other[place].culprit = Some("other-3".into());
                assert_eq!(sequence.not_relayed(&complete_record(other)).len(), 1, "{step:?}");
            }
        }
    }

    #[test] // proves: cascade
    fn pause_with_unexpected_cause_is_a_deviation() {
        let sequence = routed::sequence();
        let again = |culprit: Option<&str>| {
            let mut events = sequence.expected_events();
            let culprit = culprit.map(str::to_owned);
            events.push(PauseEvent { culprit, ..at(100.0, "leaf-1", "gpu-1", PauseAction::Holds) });
            sequence.not_relayed(&complete_record(events))
        };
        assert!(again(Some("to-spine-1")).is_empty() && again(None).is_empty());
        let deviations = again(Some("to-spine-2"));
        assert_eq!(deviations.len(), 1, "{deviations:?}");
        assert!(deviations[0].starts_with("step 9: leaf-1 pauses gpu-1"), "{deviations:?}");
    }

    #[test] // proves: cascade
    fn pause_of_uninvolved_host_is_a_deviation() {
        for (sequence, switch, port) in
            [(routed::sequence(), "leaf-2", "other"), (article::sequence(), "rail-a", "other-1")]
        {
            let mut events = sequence.expected_events();
            events.push(at(100.0, switch, port, PauseAction::Holds));
            let deviations = sequence.not_relayed(&complete_record(events));
            assert_eq!(
                deviations,
                [format!("{switch} pauses {port}, which does not contribute to the congestion")]
            );
        }
    }

    #[test]
    fn cascade_step_has_time_of_its_first_observation() {
        let event = |at_ms, action| at(at_ms, "rail-c", "to-spine", action);
        let events = [
            event(3.0, PauseAction::Holds),
            event(5.0, PauseAction::Releases),
            event(7.0, PauseAction::Holds),
        ];
        let steps = article::sequence().step_times(&events);
        let first_ms = |step: &str| steps.iter().find(|of| of.step == step).and_then(|of| of.at_ms);
        assert_eq!((first_ms("1-3"), first_ms("10-12"), first_ms("4")), (Some(3.0), Some(5.0), None));
    }
}

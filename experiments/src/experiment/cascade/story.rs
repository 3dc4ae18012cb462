//! The article's fourteen steps in one fabric, with their order and causes, and the deviations of a run from them.

use std::array;

use serde::Serialize;

use super::watch::{Deed, Event, Sight};

pub(super) struct Story {
    pub(super) title: &'static str,
    steps: Vec<Step>,
}

/// A path of pauses upstream through three switches, from the slow receiver to a sender.
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
    /// Event that shows the step.
    act: Act,
    /// Event that has to come first.
    after: Option<Act>,
    cause: Option<Cause>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Act {
    switch: &'static str,
    port: String,
    deed: Deed,
}

/// Port with most of the queued frames, and whether its peer pauses it. Later pauses there have the same cause.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cause {
    culprit: String,
    relayed: bool,
}

/// A step and when it was first observed; null if it was not.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Seen {
    pub(super) step: &'static str,
    pub(super) what: String,
    pub(super) at_ms: Option<f64>,
    pub(super) why: Option<String>,
}

/// The article's numbers of a chain's steps.
const NUMBERS: [&str; 9] = ["1-3", "4", "5-7", "8", "9", "10-12", "13", "14", "14"];
/// Index of each step's predecessor.
const AFTER: [Option<usize>; 9] =
    [None, Some(0), Some(1), Some(2), Some(3), Some(0), Some(5), Some(6), Some(4)];

impl Chain {
    fn steps(&self) -> [Step; 9] {
        let Chain { sink, last, middle, first, sender } = *self;
        let to = |switch: &str| format!("to-{switch}");
        let acts = [
            (last, to(middle), Deed::Holds),
            (middle, to(last), Deed::Stops),
            (middle, to(first), Deed::Holds),
            (first, to(middle), Deed::Stops),
            (first, sender.to_owned(), Deed::Holds),
            (last, to(middle), Deed::Releases),
            (middle, to(last), Deed::Resumes),
            (middle, to(first), Deed::Releases),
            (first, sender.to_owned(), Deed::Releases),
        ];
        let acts = acts.map(|(switch, port, deed)| Act { switch, port, deed });
        let what = [
            format!("the queue to {sink} is full, ingress is over xOFF, {middle} is paused"),
            format!("stops class 3 to {last}"),
            format!("its queue to {last} is full, {first} is paused"),
            format!("stops class 3 to {middle}"),
            format!("its queue to {middle} is full, {sender} is paused"),
            format!("below xON, {middle} may go on (quanta 0)"),
            format!("sends class 3 to {last} again"),
            format!("{first} may go on"),
            format!("{sender} may go on"),
        ];
        let cause = |place| match place {
            0 => Some(Cause { culprit: sink.to_owned(), relayed: false }),
            2 => Some(Cause { culprit: to(last), relayed: true }),
            4 => Some(Cause { culprit: to(middle), relayed: true }),
            _ => None,
        };
        array::from_fn(|place| Step {
            number: NUMBERS[place],
            what: format!("{}: {}", acts[place].switch, what[place]),
            act: acts[place].clone(),
            after: AFTER[place].map(|before| acts[before].clone()),
            cause: cause(place),
        })
    }
}

impl Act {
    fn is(&self, event: &Event) -> bool {
        event.deed == self.deed && self.is_at(event)
    }

    fn is_at(&self, event: &Event) -> bool {
        event.switch == self.switch && event.port == self.port
    }
}

impl Story {
    /// Creates the steps of both chains; common steps appear once.
    pub(super) fn new(title: &'static str, chains: [Chain; 2]) -> Story {
        let mut steps: Vec<Step> = Vec::new();
        let chains = chains.map(|chain| chain.steps());
        for place in 0..NUMBERS.len() {
            for step in chains.iter().map(|chain| &chain[place]) {
                if !steps.contains(step) {
                    steps.push(step.clone());
                }
            }
        }
        Story { title, steps }
    }

    pub(super) fn seen(&self, events: &[Event]) -> Vec<Seen> {
        let seen = |step: &Step| {
            let event = events.iter().find(|event| step.act.is(event));
            let why = event.and_then(|event| event.why.clone());
            let at_ms = event.map(|event| event.at_ms);
            Seen { step: step.number, what: step.what.clone(), at_ms, why }
        };
        self.steps.iter().map(seen).collect()
    }

    /// Returns steps that came before their predecessor, with the difference in ms, and steps that did not occur.
    pub(super) fn out_of_order(&self, sight: &Sight) -> Vec<(String, Option<f64>)> {
        let name = |of: &Act| {
            let number = self.steps.iter().find(|step| step.act == *of).map_or("", |step| step.number);
            format!("step {number} ({}, {}: {:?})", of.switch, of.port, of.deed)
        };
        let is_missing = |act: &&Act| sight.unseen_from_ms.is_none() && first(sight, act).is_none();
        let missing = self.steps.iter().map(|step| &step.act).filter(is_missing);
        let missing = missing.map(|act| (format!("{} was not seen", name(act)), None));
        let against = self.steps.iter().filter_map(|Step { act, after, .. }| {
            let before = after.as_ref()?;
            let (early, late) = (first(sight, before)?.not_before_ms, first(sight, act)?.at_ms);
            let text = || format!("{} at {late:.3} ms before {} at {early:.3} ms", name(act), name(before));
            (late < early).then(|| (text(), Some(early - late)))
        });
        missing.chain(against).collect()
    }

    /// Returns pauses whose cause differs from the article's, and pauses of hosts that the article does not pause.
    pub(super) fn not_relayed(&self, sight: &Sight) -> Vec<String> {
        let holds = || self.steps.iter().filter_map(|step| Some((step, step.cause.as_ref()?)));
        let against = holds().flat_map(|(step, cause)| {
            let seen = sight.known().iter().filter(move |event| step.act.is(event)).enumerate();
            let other = seen.filter(move |(number, event)| match (number, &event.culprit) {
                (0, of) => of.as_ref() != Some(&cause.culprit) || event.relayed != Some(cause.relayed),
                (_, of) => of.as_ref().is_some_and(|of| *of != cause.culprit),
            });
            other.map(move |(_, event)| {
                let why = event.why.as_deref().unwrap_or("no cause");
                format!("step {}: {} holds {} because of: {why}", step.number, event.switch, event.port)
            })
        });
        let seen = sight.known().iter().filter(|event| event.deed == Deed::Holds);
        let others = seen.filter(|event| !holds().any(|(step, _)| step.act.is_at(event)));
        let others = others.map(|event| {
            format!("{} holds {}, which is no part of the congestion", event.switch, event.port)
        });
        against.chain(others).collect()
    }

    pub(super) fn is_in_order(&self, sight: &Sight) -> bool {
        self.has_all(sight) && self.out_of_order(sight).is_empty()
    }

    pub(super) fn is_relayed(&self, sight: &Sight) -> bool {
        self.has_all(sight) && self.not_relayed(sight).is_empty()
    }

    pub(super) fn is_as_told(&self, sight: &Sight) -> bool {
        self.is_in_order(sight) && self.is_relayed(sight)
    }

    fn has_all(&self, sight: &Sight) -> bool {
        self.steps.iter().all(|step| first(sight, &step.act).is_some())
    }
}

/// Returns the first observation of an action, if no earlier event was missed.
fn first<'a>(sight: &'a Sight, act: &Act) -> Option<&'a Event> {
    sight.known().iter().find(|event| act.is(event))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{article, routed};
    use super::*;

    pub(in super::super) fn at(at_ms: f64, switch: &str, port: &str, deed: Deed) -> Event {
        let [switch, port] = [switch, port].map(str::to_owned);
        Event { at_ms, not_before_ms: at_ms, switch, port, deed, why: None, culprit: None, relayed: None }
    }

    pub(in super::super) fn whole(events: Vec<Event>) -> Sight {
        Sight { events, unseen_from_ms: None }
    }

    fn stories() -> [Story; 2] {
        [article::story(), routed::story()]
    }

    impl Story {
        /// Returns the steps as events one millisecond apart, with their causes.
        pub(in super::super) fn as_told(&self) -> Vec<Event> {
            let event = |(place, Step { act, cause, .. }): (usize, &Step)| Event {
                culprit: cause.as_ref().map(|of| of.culprit.clone()),
                relayed: cause.as_ref().map(|of| of.relayed),
                ..at(place as f64, act.switch, &act.port, act.deed)
            };
            self.steps.iter().enumerate().map(event).collect()
        }
    }

    #[test]
    fn what_two_chains_have_in_common_is_one_step() {
        let numbers = |story: Story| story.steps.iter().map(|step| step.number).collect::<Vec<_>>().join(" ");
        let [article, routed] = stories().map(numbers);
        assert_eq!(article, "1-3 4 5-7 5-7 8 8 9 9 10-12 13 14 14 14 14");
        assert_eq!(routed, "1-3 1-3 4 4 5-7 5-7 8 8 9 9 10-12 10-12 13 13 14 14 14 14");
    }

    // proves: cascade
    #[test]
    fn the_articles_order_is_met_by_it_and_by_no_other() {
        for story in stories() {
            let told = whole(story.as_told());
            assert!(story.is_as_told(&told), "{:?}", story.out_of_order(&told));
            for place in 0..story.steps.len() {
                let mut without = story.as_told();
                without.remove(place);
                let said = story.out_of_order(&whole(without));
                assert!(said.iter().any(|(of, _)| of.contains("was not seen")), "{place}");
                // Only a first step may come before all others.
                let mut early = story.as_told();
                (early[place].at_ms, early[place].not_before_ms) = (-1.0, -1.0);
                assert_eq!(story.is_in_order(&whole(early)), story.steps[place].after.is_none(), "{place}");
            }
        }
    }

    // proves: cascade
    #[test]
    fn every_step_of_a_story_is_one_of_its_fabric() {
        let line = xoff_wire::units::BitRate::from_mbps(100);
        for (story, plan) in
            stories().into_iter().zip([article::plan(line.into()).0, routed::plan(line.into()).plan])
        {
            let ports: Vec<(String, String)> = plan
                .switches()
                .flat_map(|switch| plan.ports_of(switch))
                .map(|at| (plan.switch_name(at.switch).to_owned(), plan.port_name(at).to_owned()))
                .collect();
            let has = |switch: &str, port: &str| ports.contains(&(switch.to_owned(), port.to_owned()));
            for Step { act, cause, .. } in &story.steps {
                assert!(has(act.switch, &act.port), "{act:?}");
                assert_eq!(cause.is_some(), act.deed == Deed::Holds);
                assert!(cause.as_ref().is_none_or(|of| has(act.switch, &of.culprit)), "{cause:?}");
            }
            assert!(story.steps[0].after.is_none());
        }
    }

    // proves: cascade
    #[test]
    fn what_a_look_saw_together_came_in_any_order() {
        let (release, resume) = (8, 9);
        let told = article::story().as_told();
        assert_eq!((told[release].deed, told[resume].deed), (Deed::Releases, Deed::Resumes));
        // The sample that showed the release was late; the release may be older than the resume.
        for (not_before, in_order) in [(9.0, true), (9.1, false)] {
            let mut events = told.clone();
            (events[release].not_before_ms, events[release].at_ms) = (not_before, 9.2);
            assert_eq!(article::story().is_in_order(&whole(events)), in_order, "{not_before}");
        }
    }

    // proves: cascade
    #[test]
    fn where_a_pause_was_missed_the_steps_before_it_count() {
        let story = article::story();
        let seen_until =
            |unseen_from_ms| Sight { events: story.as_told(), unseen_from_ms: Some(unseen_from_ms) };
        let last = story.steps.len() as f64 - 1.0;
        assert!(story.is_as_told(&seen_until(last + 0.5)));
        let too_few = seen_until(last);
        assert!(!story.is_in_order(&too_few) && !story.is_relayed(&too_few));
        let said = story.out_of_order(&too_few);
        assert!(said.is_empty(), "which is no deviation: {said:?}");
        let mut early = story.as_told();
        (early[1].at_ms, early[1].not_before_ms) = (-1.0, -1.0);
        let known = Sight { events: early, unseen_from_ms: Some(5.0) };
        assert_eq!(story.out_of_order(&known).len(), 1, "and what is known to be otherwise is one");
    }

    // proves: cascade
    #[test]
    fn every_hold_but_the_first_is_a_relay() {
        for story in stories() {
            assert!(story.is_relayed(&whole(story.as_told())));
            for (place, step) in story.steps.iter().enumerate().filter(|(_, step)| step.cause.is_some()) {
                let mut other = story.as_told();
                other[place].relayed = other[place].relayed.map(|relayed| !relayed);
                assert_eq!(story.not_relayed(&whole(other)).len(), 1, "{step:?}");
                let mut other = story.as_told();
                other[place].culprit = Some("other-3".into());
                assert_eq!(story.not_relayed(&whole(other)).len(), 1, "{step:?}");
            }
        }
    }

    // proves: cascade
    #[test]
    fn nobody_is_ever_held_for_what_waits_elsewhere() {
        let story = routed::story();
        let again = |culprit: Option<&str>| {
            let mut events = story.as_told();
            let culprit = culprit.map(str::to_owned);
            events.push(Event { culprit, ..at(100.0, "leaf-1", "gpu-1", Deed::Holds) });
            story.not_relayed(&whole(events))
        };
        assert!(again(Some("to-spine-1")).is_empty() && again(None).is_empty());
        let said = again(Some("to-spine-2"));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("step 9: leaf-1 holds gpu-1"), "{said:?}");
    }

    // proves: cascade
    #[test]
    fn a_hold_of_somebody_beside_is_told() {
        for (story, switch, port) in
            [(routed::story(), "leaf-2", "other"), (article::story(), "rail-a", "other-1")]
        {
            let mut events = story.as_told();
            events.push(at(100.0, switch, port, Deed::Holds));
            let said = story.not_relayed(&whole(events));
            assert_eq!(said, [format!("{switch} holds {port}, which is no part of the congestion")]);
        }
    }

    #[test]
    fn a_step_is_when_it_was_first_seen_and_null_where_it_was_not() {
        let event = |at_ms, deed| at(at_ms, "rail-c", "to-spine", deed);
        let events = [event(3.0, Deed::Holds), event(5.0, Deed::Releases), event(7.0, Deed::Holds)];
        let steps = article::story().seen(&events);
        let seen = |step: &str| steps.iter().find(|of| of.step == step).and_then(|of| of.at_ms);
        assert_eq!((seen("1-3"), seen("10-12"), seen("4")), (Some(3.0), Some(5.0), None));
    }
}

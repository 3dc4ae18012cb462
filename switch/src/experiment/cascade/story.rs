//! What has to be seen, in which order, and for whose sake: the article's fourteen steps in one fabric. And what of it was not so.

use serde::Serialize;

use super::watch::{Deed, Event, Sight};

/// The article's steps in a fabric.
pub(super) struct Story {
    /// What the fabric is.
    pub(super) title: &'static str,
    /// The steps.
    pub(super) steps: &'static [Step],
    /// No step of the second comes before the first: places among the steps.
    pub(super) order: &'static [(usize, usize)],
    /// Holds among the steps, what most of each waits for, and whether that is held in turn. Whatever is held there later
    /// is so for the sake of the same queue.
    pub(super) relay: &'static [(usize, &'static str, bool)],
}

/// The article's number, what it says, and what has to be seen of it: at which switch and port, which deed.
pub(super) type Step = (&'static str, &'static str, &'static str, &'static str, Deed);

/// A step, and when it was first seen; null where it was not.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Seen {
    pub(super) step: &'static str,
    pub(super) what: &'static str,
    pub(super) at_ms: Option<f64>,
    pub(super) why: Option<String>,
}

impl Story {
    /// When each step was first seen.
    pub(super) fn seen(&self, events: &[Event]) -> Vec<Seen> {
        let seen = |(place, &(step, what, ..)): (usize, &Step)| {
            let event = self.first_of(events, place);
            let why = event.and_then(|event| event.why.clone());
            Seen { step, what, at_ms: event.map(|event| event.at_ms), why }
        };
        self.steps.iter().enumerate().map(seen).collect()
    }

    /// Steps that came before one that has to come first, and steps that did not come at all.
    pub(super) fn out_of_order(&self, sight: &Sight) -> Vec<String> {
        let name = |place: usize| {
            let (step, _, switch, port, deed) = self.steps[place];
            format!("step {step} ({switch}, {port}: {deed:?})")
        };
        let is_missing =
            |&place: &usize| sight.unseen_from_ms.is_none() && self.first(sight, place).is_none();
        let missing =
            (0..self.steps.len()).filter(is_missing).map(|place| format!("{} was not seen", name(place)));
        let against = self.order.iter().filter_map(|&(before, after)| {
            let (early, late) = (self.first(sight, before)?.not_before_ms, self.first(sight, after)?.at_ms);
            let text = || format!("{} at {late:.3} ms before {} at {early:.3} ms", name(after), name(before));
            (late < early).then(text)
        });
        missing.chain(against).collect()
    }

    /// Holds with another cause than the article's, and holds of those whom it does not hold.
    pub(super) fn not_relayed(&self, sight: &Sight) -> Vec<String> {
        let against = |&(place, culprit, relayed): &(usize, &'static str, bool)| {
            let holds = self.all_of(sight.known(), place).enumerate();
            let other = holds.filter(move |(number, event)| match (number, event.culprit.as_deref()) {
                (0, of) => of != Some(culprit) || event.relayed != Some(relayed),
                (_, of) => of.is_some_and(|of| of != culprit),
            });
            other.map(move |(_, event)| {
                let why = event.why.as_deref().unwrap_or("no cause");
                format!(
                    "step {}: {} holds {} because of: {why}",
                    self.steps[place].0, event.switch, event.port
                )
            })
        };
        let is_of_steps = |event: &Event| {
            self.relay
                .iter()
                .any(|&(place, ..)| (event.switch.as_str(), event.port.as_str()) == self.place(place))
        };
        let holds = sight.known().iter().filter(|event| event.deed == Deed::Holds);
        let others = holds.filter(|event| !is_of_steps(event));
        let others = others.map(|event| {
            format!("{} holds {}, which is no part of the congestion", event.switch, event.port)
        });
        self.relay.iter().flat_map(against).chain(others).collect()
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

    /// Switch and port of a step.
    fn place(&self, place: usize) -> (&'static str, &'static str) {
        let (_, _, switch, port, _) = self.steps[place];
        (switch, port)
    }

    fn has_all(&self, sight: &Sight) -> bool {
        (0..self.steps.len()).all(|place| self.first(sight, place).is_some())
    }

    /// When a step first came, if nothing was missed before.
    fn first<'a>(&self, sight: &'a Sight, place: usize) -> Option<&'a Event> {
        self.first_of(sight.known(), place)
    }

    fn first_of<'a>(&self, events: &'a [Event], place: usize) -> Option<&'a Event> {
        self.all_of(events, place).next()
    }

    /// Every time that what a step is about was seen.
    fn all_of<'a>(&self, events: &'a [Event], place: usize) -> impl Iterator<Item = &'a Event> {
        let (_, _, switch, port, deed) = self.steps[place];
        events.iter().filter(move |event| event.switch == switch && event.port == port && event.deed == deed)
    }
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

    const STORIES: [&Story; 2] = [&article::STORY, &routed::STORY];

    impl Story {
        /// The steps a millisecond apart, with their causes.
        pub(in super::super) fn as_told(&self) -> Vec<Event> {
            let event = |(place, &(_, _, switch, port, deed)): (usize, &Step)| {
                let cause = self.relay.iter().find(|of| of.0 == place);
                Event {
                    culprit: cause.map(|of| of.1.to_owned()),
                    relayed: cause.map(|of| of.2),
                    ..at(place as f64, switch, port, deed)
                }
            };
            self.steps.iter().enumerate().map(event).collect()
        }

        fn begins_with(&self, place: usize) -> bool {
            self.order.iter().all(|&(_, after)| after != place)
        }
    }

    #[test]
    fn the_articles_order_is_met_by_it_and_by_no_other() {
        for story in STORIES {
            let told = whole(story.as_told());
            assert!(story.is_as_told(&told), "{:?}", story.out_of_order(&told));
            for place in 0..story.steps.len() {
                let mut without = story.as_told();
                without.remove(place);
                let said = story.out_of_order(&whole(without));
                assert!(said.iter().any(|of| of.contains("was not seen")), "{place}");
                // First of all, which only what begins may be.
                let mut early = story.as_told();
                (early[place].at_ms, early[place].not_before_ms) = (-1.0, -1.0);
                assert_eq!(story.is_in_order(&whole(early)), story.begins_with(place), "{place}");
            }
        }
    }

    #[test]
    fn every_step_of_a_story_is_one_of_its_fabric() {
        let line = xoff_dataplane::units::BitRate::from_mbps(100);
        for (story, plan) in STORIES.into_iter().zip([article::plan(line).0, routed::plan(line).plan]) {
            let ports: Vec<(String, String)> = plan
                .switches()
                .flat_map(|switch| plan.ports_of(switch))
                .map(|at| (plan.switch_name(at.switch).to_owned(), plan.port_name(at).to_owned()))
                .collect();
            for &(_, _, switch, port, _) in story.steps {
                assert!(
                    ports.iter().any(|of| (of.0.as_str(), of.1.as_str()) == (switch, port)),
                    "{switch} {port}"
                );
            }
            for &(place, culprit, _) in story.relay {
                let switch = story.steps[place].2;
                assert_eq!(story.steps[place].4, Deed::Holds);
                assert!(
                    ports.iter().any(|of| (of.0.as_str(), of.1.as_str()) == (switch, culprit)),
                    "{culprit}"
                );
            }
            assert!(story.begins_with(0));
        }
    }

    #[test]
    fn what_a_look_saw_together_came_in_any_order() {
        let (release, resume) = (8, 9);
        let told = article::STORY.as_told();
        assert_eq!((told[release].deed, told[resume].deed), (Deed::Releases, Deed::Resumes));
        // The look that saw the release was late, and may have been so since before the resume.
        for (not_before, in_order) in [(9.0, true), (9.1, false)] {
            let mut events = told.clone();
            (events[release].not_before_ms, events[release].at_ms) = (not_before, 9.2);
            assert_eq!(article::STORY.is_in_order(&whole(events)), in_order, "{not_before}");
        }
    }

    #[test]
    fn where_a_pause_was_missed_the_steps_before_it_count() {
        let story = &article::STORY;
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

    #[test]
    fn every_hold_but_the_first_is_a_relay() {
        for story in STORIES {
            assert!(story.is_relayed(&whole(story.as_told())));
            for &(place, culprit, relayed) in story.relay {
                let mut other = story.as_told();
                other[place].relayed = Some(!relayed);
                assert_eq!(story.not_relayed(&whole(other)).len(), 1, "{culprit}");
                let mut other = story.as_told();
                other[place].culprit = Some("other-3".into());
                assert_eq!(story.not_relayed(&whole(other)).len(), 1, "{culprit}");
            }
        }
    }

    #[test]
    fn nobody_is_ever_held_for_what_waits_elsewhere() {
        let story = &routed::STORY;
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

    #[test]
    fn a_hold_of_somebody_beside_is_told() {
        for (story, switch, port) in
            [(&routed::STORY, "leaf-2", "other"), (&article::STORY, "rail-a", "other-1")]
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
        let steps = article::STORY.seen(&events);
        let seen = |step: &str| steps.iter().find(|of| of.step == step).and_then(|of| of.at_ms);
        assert_eq!((seen("1-3"), seen("10-12"), seen("4")), (Some(3.0), Some(5.0), None));
    }
}

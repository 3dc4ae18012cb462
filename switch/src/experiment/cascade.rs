//! `cascade`: how a pause travels upstream, step by step, as the article on DSCP-based PFC tells it.
//!
//! Two rail switches, a spine, a rail switch: a GPU behind the last takes less than two others send it.
//! DSCP 24 is class 3 in every switch. What is told is what the switches did: when each held its peer and
//! let it go, when each obeyed, and the cause that the switch itself gives.
//!
//! Together the two send twice what the third takes, and less than the wires between the switches carry: what begins behind
//! the last switch is the only congestion, and every other pause is a relay of it. Under plain PFC the steps therefore have to
//! come in the article's order, each hold for the queue that the one before holds. An experiment that sees it
//! otherwise fails, unless the machine kept a switch or a host from running for so long that a switch was congested by that,
//! or the user has set anything of the switches, which are others then: what was otherwise is told, and is no failure.

mod watch;

use std::slice;
use std::time::Duration;

use serde::Serialize;
use xoff_dataplane::units::{BitRate, Class, Nanos};
use xoff_hosts::Stream;

use super::plot::{Content, Panel};
use super::report::{add_row, table};
use super::{
    Conduct, Experiment, Figure, Findings, Length, Promises, Request, Tell, Variant, Verdict, compare,
};
use crate::fabric::{Account, Fabric, FabricError, HostId, Live, Load, Plan, Settings, lossless};
use watch::{Deed, Event, Sight, watch};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cascade",
    about: "leaf, spine, leaf: who pauses whom, when and why, along the steps of the article on DSCP-based PFC",
    length: Length::Fixed(4),
    policies: &[ARTICLE, "capfc-stop-max", "ofc"],
    settings: Variant::settings,
    plans: |_, line| vec![plan(line).0],
    promises: Promises::Variants,
    headlines: &[
        ("1-3 rail-c\nholds, ms", "/steps/0/at_ms"),
        ("5-7 spine\nholds rail-a", "/steps/2/at_ms"),
        ("9 rail-a\nholds gpu-1", "/steps/6/at_ms"),
        ("10-12 rail-c\nreleases", "/steps/8/at_ms"),
        ("14 rail-a\nreleases gpu-1", "/steps/12/at_ms"),
    ],
    measure,
};

/// The policy that the article is about.
const ARTICLE: &str = "pfc";
/// Both GPUs send for so long, each this part of its line, to one whose line is this part of theirs.
const SEND: Nanos = Nanos::from_millis(600);
const OFFERED_PERCENT: u64 = 40;
const GPU_3_PERCENT: u64 = 40;
/// What a rail switch or the spine receives of one sender in that time is half of XOFF, and so is what a sender
/// that did not run for so long has to catch up on.
const STALL: Nanos = Nanos::from_millis(5);
/// Another class, which nobody pauses.
const OTHER_PERCENT: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(5);

/// One of the article's steps, and when it was first seen; null where it was not.
#[derive(Clone, Debug, Serialize)]
struct Step {
    step: &'static str,
    what: &'static str,
    at_ms: Option<f64>,
    why: Option<String>,
}

#[derive(Debug, Serialize)]
struct Measured {
    /// Of the first run.
    steps: Vec<Step>,
    /// Runs in which the steps came in the article's order, and those in which every hold but the first was a relay.
    runs_in_order: usize,
    runs_relayed: usize,
    /// Runs that prove it, or the contrary; in the others the machine stalled, or a pause was over before anybody looked.
    runs_judged: usize,
    /// What was otherwise, by run.
    deviations: Vec<String>,
    /// What a stream of class 0 on the same wires had offered and got, frames.
    other_class_sent: u64,
    other_class_received: u64,
    /// Everything that was seen, first run.
    timeline: Vec<Event>,
    /// When that run's watch ended.
    #[serde(skip)]
    end_ms: f64,
}

struct Run {
    account: Account,
    sight: Sight,
    /// When nobody watched any more.
    end: Nanos,
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let measured = compare(&EXPERIMENT, request, tell, |_, settings| run(settings, request.line))?;
    let mut findings = Findings::default();
    let mut all = Vec::new();
    for (variant, runs) in measured {
        let mut conduct = Conduct::of(runs.iter().map(|run| &run.account));
        let measured = Measured::of(&runs);
        if is_the_articles(variant, request) {
            findings.unmet.extend(hold_to_it(&runs, &mut conduct));
        }
        let each = runs.iter().map(|run| Measured::of(slice::from_ref(run)));
        all.push((findings.add(variant, conduct, &measured, each), measured));
    }
    findings.text = text(request, &all);
    findings.figure = figure(request, &all);
    Ok(findings)
}

/// Whether its switches are those of the article: what the user says of them makes them others, under the same name.
fn is_the_articles(variant: &Variant, request: &Request) -> bool {
    variant.name == ARTICLE && request.given.is_empty()
}

/// What these runs have against the article. Where none of them can be judged, that is not proved.
fn hold_to_it(runs: &[Run], conduct: &mut Conduct) -> Vec<String> {
    if !runs.iter().any(Run::is_judged) {
        let unproved = "the order of the article's steps: in every run the machine stalled, or a pause was over before anybody \
                        looked";
        conduct.unproved.push(unproved.into());
        conduct.verdict = conduct.verdict.max(Verdict::Unproved);
    }
    let judged = runs.iter().enumerate().filter(|(_, run)| run.is_judged());
    let against = judged.flat_map(|(number, run)| run.deviations(number));
    against.map(|deviation| format!("{ARTICLE}, {deviation}")).collect()
}

fn percent_of(line: BitRate, percent: u64) -> Option<BitRate> {
    BitRate::new(line.bits_per_second() / 100 * percent)
}

/// With the senders, who receives, and both ends of the other class.
fn plan(line: BitRate) -> (Plan, [HostId; 2], HostId, [HostId; 2]) {
    let mut plan = Plan::new(line);
    let [rail_a, rail_b, spine, rail_c] =
        ["rail-a", "rail-b", "spine", "rail-c"].map(|name| plan.switch(name));
    let senders = [plan.host("gpu-1", rail_a), plan.host("gpu-2", rail_b)];
    let gpu_3 = plan.host_with("gpu-3", rail_c, percent_of(line, GPU_3_PERCENT).unwrap_or(line));
    let others = [plan.host("other-1", rail_a), plan.host("other-3", rail_c)];
    for (leaf, top) in [(rail_a, spine), (rail_b, spine), (spine, rail_c)] {
        plan.trunk(leaf, top);
    }
    (plan, senders, gpu_3, others)
}

fn run(settings: &Settings, line: BitRate) -> Result<Run, FabricError> {
    let (plan, senders, gpu_3, others) = plan(line);
    let mut load = Load::default();
    for sender in senders {
        let rate = percent_of(line, OFFERED_PERCENT);
        load.send(sender, Stream { rate, duration: Some(SEND), ..lossless(gpu_3) });
    }
    load.send(others[0], other_class(others[1], percent_of(line, OTHER_PERCENT)));
    let fabric = Fabric::build(plan, settings)?;
    let watched = |live: &Live<'_>| (watch(live, fabric.plan(), PATIENCE), live.elapsed());
    let ((sight, end), account) = fabric.run(&load, PATIENCE, watched)?;
    Ok(Run { account, sight, end })
}

fn other_class(to: HostId, rate: Option<BitRate>) -> Stream {
    Stream { dst: to.address(), rate, duration: Some(SEND), ..Stream::default() }
}

/// The article's steps, as what has to be seen: at which switch and port, which deed.
const STEPS: [(&str, &str, &str, &str, Deed); 14] = [
    (
        "1-3",
        "rail-c: the queue to gpu-3 is full, ingress is over xOFF, the spine is paused",
        "rail-c",
        "to-spine",
        Deed::Holds,
    ),
    ("4", "spine: stops class 3 to rail-c", "spine", "to-rail-c", Deed::Stops),
    ("5-7", "spine: its queue to rail-c is full, rail-a is paused", "spine", "to-rail-a", Deed::Holds),
    ("5-7", "spine: the same for rail-b", "spine", "to-rail-b", Deed::Holds),
    ("8", "rail-a: stops class 3 to the spine", "rail-a", "to-spine", Deed::Stops),
    ("8", "rail-b: stops class 3 to the spine", "rail-b", "to-spine", Deed::Stops),
    ("9", "rail-a: its queue to the spine is full, gpu-1 is paused", "rail-a", "gpu-1", Deed::Holds),
    ("9", "rail-b: its queue to the spine is full, gpu-2 is paused", "rail-b", "gpu-2", Deed::Holds),
    ("10-12", "rail-c: below xON, the spine may go on (quanta 0)", "rail-c", "to-spine", Deed::Releases),
    ("13", "spine: sends class 3 to rail-c again", "spine", "to-rail-c", Deed::Resumes),
    ("14", "spine: rail-a may go on", "spine", "to-rail-a", Deed::Releases),
    ("14", "spine: rail-b may go on", "spine", "to-rail-b", Deed::Releases),
    ("14", "rail-a: gpu-1 may go on", "rail-a", "gpu-1", Deed::Releases),
    ("14", "rail-b: gpu-2 may go on", "rail-b", "gpu-2", Deed::Releases),
];

/// No step of the second comes before the first: places in [`STEPS`].
const ORDER: [(usize, usize); 13] = [
    (0, 1),
    (1, 2),
    (1, 3),
    (2, 4),
    (3, 5),
    (4, 6),
    (5, 7),
    (0, 8),
    (8, 9),
    (9, 10),
    (9, 11),
    (6, 12),
    (7, 13),
];

/// Holds among [`STEPS`], what most of each waits for, and whether that is held in turn.
const RELAY: [(usize, &str, bool); 5] = [
    (0, "gpu-3", false),
    (2, "to-rail-c", true),
    (3, "to-rail-c", true),
    (6, "to-spine", true),
    (7, "to-spine", true),
];

/// When a step was first seen.
fn first(events: &[Event], place: usize) -> Option<&Event> {
    let (_, _, switch, port, deed) = STEPS[place];
    events.iter().find(|event| event.switch == switch && event.port == port && event.deed == deed)
}

impl Sight {
    /// Steps that came before one that has to come first, and steps that did not come at all.
    fn out_of_order(&self) -> Vec<String> {
        let name = |place: usize| {
            let (step, _, switch, port, deed) = STEPS[place];
            format!("step {step} ({switch}, {port}: {deed:?})")
        };
        let missing =
            (0..STEPS.len()).filter(|&place| self.unseen_from_ms.is_none() && self.first(place).is_none());
        let missing = missing.map(|place| format!("{} was not seen", name(place)));
        let against = ORDER.iter().filter_map(|&(before, after)| {
            let (early, late) = (self.first(before)?.not_before_ms, self.first(after)?.at_ms);
            let text = || format!("{} at {late:.3} ms before {} at {early:.3} ms", name(after), name(before));
            (late < early).then(text)
        });
        missing.chain(against).collect()
    }

    /// Holds with another cause than the article's.
    fn not_relayed(&self) -> Vec<String> {
        let against = RELAY.iter().filter_map(|&(place, culprit, relayed)| {
            let event = self.first(place)?;
            let is_so = event.culprit.as_deref() == Some(culprit) && event.relayed == Some(relayed);
            let why = event.why.as_deref().unwrap_or("no cause");
            (!is_so).then(|| {
                format!("step {}: {} holds {} because of: {why}", STEPS[place].0, event.switch, event.port)
            })
        });
        against.collect()
    }

    /// When a step first came, if nothing was missed before.
    fn first(&self, place: usize) -> Option<&Event> {
        first(self.known(), place)
    }

    fn has_all(&self) -> bool {
        (0..STEPS.len()).all(|place| self.first(place).is_some())
    }

    fn is_in_order(&self) -> bool {
        self.has_all() && self.out_of_order().is_empty()
    }

    fn is_relayed(&self) -> bool {
        self.has_all() && self.not_relayed().is_empty()
    }

    fn is_as_told(&self) -> bool {
        self.is_in_order() && self.is_relayed()
    }
}

impl Run {
    fn deviations(&self, number: usize) -> impl Iterator<Item = String> {
        let all = self.sight.out_of_order().into_iter().chain(self.sight.not_relayed());
        let stalled = if self.is_stalled() { " (in which the machine stalled)" } else { "" };
        all.map(move |deviation| format!("run {}{stalled}: {deviation}", number + 1))
    }

    /// Whether it proves that the steps come as told, or that they do not.
    fn is_judged(&self) -> bool {
        self.sight.is_as_told() || (!self.is_stalled() && self.deviations(0).next().is_some())
    }

    /// Whether a switch may have been congested because it, or a host, did not run.
    fn is_stalled(&self) -> bool {
        self.account.longest_stall_nanos().max(self.account.longest_host_gap_nanos()) >= STALL.0
    }
}

fn steps(events: &[Event]) -> Vec<Step> {
    let step = |(place, (step, what, ..)): (usize, (_, _, &str, &str, Deed))| {
        let seen = first(events, place);
        Step {
            step,
            what,
            at_ms: seen.map(|event| event.at_ms),
            why: seen.and_then(|event| event.why.clone()),
        }
    };
    STEPS.into_iter().enumerate().map(step).collect()
}

impl Measured {
    fn of(runs: &[Run]) -> Measured {
        let timeline = runs.first().map(|run| run.sight.events.clone()).unwrap_or_default();
        let others = || runs.iter().flat_map(|run| run.account.received(Class::default()));
        let count = |of: fn(&Sight) -> bool| runs.iter().filter(|run| of(&run.sight)).count();
        Measured {
            steps: steps(&timeline),
            runs_in_order: count(Sight::is_in_order),
            runs_relayed: count(Sight::is_relayed),
            runs_judged: runs.iter().filter(|run| run.is_judged()).count(),
            deviations: runs.iter().enumerate().flat_map(|(number, run)| run.deviations(number)).collect(),
            other_class_sent: others().map(|stream| stream.sent).sum(),
            other_class_received: others().map(|stream| stream.frames).sum(),
            timeline,
            end_ms: runs.first().map_or(0.0, |run| run.end.0 as f64 / 1e6),
        }
    }
}

type All = [(String, Measured)];

/// The rest stands in the JSON.
const DEVIATIONS_TOLD: usize = 6;

fn title(request: &Request) -> String {
    let mbps = request.line.bits_per_second() / 1_000_000;
    format!(
        "Cascade: two GPUs send more than a third takes; rail, spine, rail; {mbps} Mb/s lines, DSCP 24 on class 3"
    )
}

fn text(request: &Request, all: &All) -> String {
    let mut text = title(request) + "\n";
    for (name, of) in all {
        let mut table = table(&["step", "first seen, ms", "what", "why"]);
        for Step { step, what, at_ms, why } in &of.steps {
            let at = at_ms.map_or_else(|| "-".to_owned(), |at| format!("{at:.1}"));
            let cells = [(*step).to_owned(), at, (*what).to_owned(), why.clone().unwrap_or_default()];
            add_row(&mut table, cells);
        }
        let (sent, received) = (of.other_class_sent, of.other_class_received);
        text += &format!(
            "\n{name}: {} events; class 0 on the same wires: {received} of {sent} frames arrived; runs in the article's order: {}, \
             with holds relayed as there: {}\n{table}\n",
            of.timeline.len(),
            of.runs_in_order,
            of.runs_relayed
        );
        for deviation in of.deviations.iter().take(DEVIATIONS_TOLD) {
            text += &format!("{deviation}\n");
        }
    }
    text
}

fn figure(request: &Request, all: &All) -> Figure {
    let panel = |(name, of): &(String, Measured)| {
        let content = Content::Spans(spans(&of.timeline, of.end_ms));
        Panel::new(&format!("{name}: who holds whom"), "time (ms)", "", content).absent("nobody was held")
    };
    Figure { title: title(request), panels: all.iter().map(panel).collect() }
}

/// A row for each port that held its peer, the last switch first. Who was never seen to let go held to the end.
fn spans(events: &[Event], end_ms: f64) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut rows: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for event in events {
        let name = format!("{} holds {}", event.switch, event.port.trim_start_matches("to-"));
        match event.deed {
            Deed::Holds => match rows.iter_mut().find(|row| row.0 == name) {
                Some(row) => row.1.push((event.at_ms, end_ms)),
                None => rows.push((name, vec![(event.at_ms, end_ms)])),
            },
            Deed::Releases => {
                if let Some(span) = rows.iter_mut().find(|row| row.0 == name).and_then(|row| row.1.last_mut())
                {
                    span.1 = event.at_ms;
                }
            }
            Deed::Stops | Deed::Resumes => {}
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use xoff_dataplane::units::CLASSES;

    use super::super::confidence::intervals;
    use super::*;

    fn event(at_ms: f64, deed: Deed) -> Event {
        at(at_ms, "rail-c", "to-spine", deed)
    }

    fn at(at_ms: f64, switch: &str, port: &str, deed: Deed) -> Event {
        let [switch, port] = [switch, port].map(str::to_owned);
        Event { at_ms, not_before_ms: at_ms, switch, port, deed, why: None, culprit: None, relayed: None }
    }

    fn whole(events: Vec<Event>) -> Sight {
        Sight { events, unseen_from_ms: None }
    }

    /// The article's steps a millisecond apart, with their causes.
    fn as_told() -> Vec<Event> {
        let event = |(place, (_, _, switch, port, deed)): (usize, (&str, &str, &str, &str, Deed))| {
            let cause = RELAY.iter().find(|of| of.0 == place);
            Event {
                culprit: cause.map(|of| of.1.to_owned()),
                relayed: cause.map(|of| of.2),
                ..at(place as f64, switch, port, deed)
            }
        };
        STEPS.into_iter().enumerate().map(event).collect()
    }

    #[test]
    fn the_articles_order_is_met_by_it_and_by_no_other() {
        let told = whole(as_told());
        assert!(told.is_as_told(), "{:?}", told.out_of_order());
        for place in 0..STEPS.len() {
            let mut without = as_told();
            without.remove(place);
            assert!(whole(without).out_of_order().iter().any(|of| of.contains("was not seen")), "{place}");
            // First of all, which only the first may be.
            let mut early = as_told();
            (early[place].at_ms, early[place].not_before_ms) = (-1.0, -1.0);
            assert_eq!(whole(early).is_in_order(), place == 0, "{place}");
        }
    }

    fn run_of(sight: Sight) -> Run {
        Run { account: Account::of_hosts(Vec::new(), [0; CLASSES]), sight, end: Nanos::ZERO }
    }

    #[test]
    fn only_the_articles_own_switch_is_held_to_its_order() {
        let mut request = Request::new(Vec::new(), BitRate::from_mbps(100));
        let is_held = |name, request: &Request| {
            Variant::find(name).is_some_and(|variant| is_the_articles(variant, request))
        };
        assert_eq!(["pfc", "pfc-control"].map(|name| is_held(name, &request)), [true, false]);
        request.given.extend("pipeline.rate=7kpps".parse::<super::super::Given>());
        assert!(!is_held("pfc", &request), "the pipeline is congested, too");
    }

    #[test]
    fn runs_are_held_to_the_article_where_they_can_be_judged() {
        let held = |runs: &[Run]| {
            let mut conduct = Conduct::default();
            let unmet = hold_to_it(runs, &mut conduct);
            (unmet.len(), conduct.verdict, conduct.unproved.len())
        };
        let mut early = as_told();
        (early[1].at_ms, early[1].not_before_ms) = (-1.0, -1.0);
        let [good, bad] = [as_told(), early].map(|events| run_of(whole(events)));
        let unseen = run_of(Sight { events: as_told(), unseen_from_ms: Some(5.0) });
        assert_eq!(held(&[good]), (0, Verdict::Kept, 0));
        assert_eq!(held(&[bad]), (1, Verdict::Kept, 0));
        assert_eq!(held(&[unseen]), (0, Verdict::Unproved, 1));
    }

    #[test]
    fn how_many_runs_is_a_share_of_them() {
        let runs = [(); 3].map(|()| run_of(whole(as_told())));
        let of = intervals(runs.iter().map(|run| Measured::of(slice::from_ref(run))));
        let counts: Vec<_> = of.iter().filter(|(place, _)| place.starts_with("/runs_")).collect();
        assert_eq!(counts.len(), 3);
        for (place, of) in counts {
            assert!(of.mean == 1.0 && (of.low - 0.4385).abs() < 1e-4, "{place}: {of:?}");
        }
    }

    #[test]
    fn what_a_look_saw_together_came_in_any_order() {
        let (release, resume) = (8, 9);
        let mut events = as_told();
        assert_eq!((events[release].deed, events[resume].deed), (Deed::Releases, Deed::Resumes));
        // The look that saw the release was late, and may have been so since before the resume.
        for (not_before, in_order) in [(9.0, true), (9.1, false)] {
            (events[release].not_before_ms, events[release].at_ms) = (not_before, 9.2);
            assert_eq!(whole(events.clone()).is_in_order(), in_order, "{not_before}");
        }
    }

    #[test]
    fn where_a_pause_was_missed_the_steps_before_it_count() {
        let seen_until = |unseen_from_ms| Sight { events: as_told(), unseen_from_ms: Some(unseen_from_ms) };
        let last = STEPS.len() as f64 - 1.0;
        assert!(seen_until(last + 0.5).is_as_told());
        let too_few = seen_until(last);
        assert!(!too_few.is_in_order() && !too_few.is_relayed());
        assert!(too_few.out_of_order().is_empty(), "which is no deviation: {:?}", too_few.out_of_order());
        let mut early = as_told();
        (early[1].at_ms, early[1].not_before_ms) = (-1.0, -1.0);
        let known = Sight { events: early, unseen_from_ms: Some(5.0) };
        assert_eq!(known.out_of_order().len(), 1, "and what is known to be otherwise is one");
    }

    #[test]
    fn every_hold_but_the_first_is_a_relay() {
        assert!(whole(as_told()).is_relayed());
        for (place, culprit, relayed) in RELAY {
            let mut other = as_told();
            other[place].relayed = Some(!relayed);
            assert_eq!(whole(other).not_relayed().len(), 1, "{culprit}");
            let mut other = as_told();
            other[place].culprit = Some("other-3".into());
            assert_eq!(whole(other).not_relayed().len(), 1, "{culprit}");
        }
    }

    #[test]
    fn a_step_is_when_it_was_first_seen_and_null_where_it_was_not() {
        let steps = steps(&[event(3.0, Deed::Holds), event(5.0, Deed::Releases), event(7.0, Deed::Holds)]);
        let seen = |step: &str| steps.iter().find(|of| of.step == step).and_then(|of| of.at_ms);
        assert_eq!((seen("1-3"), seen("10-12"), seen("4")), (Some(3.0), Some(5.0), None));
    }

    #[test]
    fn spans_go_from_hold_to_release() {
        let events = [event(3.0, Deed::Holds), event(5.0, Deed::Releases), event(7.0, Deed::Holds)];
        let held = [("rail-c holds spine".to_owned(), vec![(3.0, 5.0), (7.0, 9.0)])];
        assert_eq!(spans(&events, 9.0), held, "who did not let go held to the end");
    }
}

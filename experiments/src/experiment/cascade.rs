//! Experiment `cascade`: pauses propagate over three switches, as in the article on DSCP-based PFC.
//!
//! A deviation from the article's steps fails the experiment, unless the machine stalled or the user changed settings.

mod article;
mod routed;
mod sequence;
mod watch;

use std::time::Duration;

use serde::Serialize;
use xoff_host::Stream;
use xoff_wire::units::{BitRate, Class, Nanos};

use super::report::{add_row, number, table};
use super::{
    Compared, Conduct, Experiment, Findings, Headline, Length, Promises, Request, Tell, Variant, Verdict,
    compare,
};
use crate::plot::{Content, Figure, Panel};
use crate::{Account, FabricError, HostId, Line, Live, Load, Plan, Setup, Started};
use sequence::{Sequence, StepTime};
use watch::{PauseAction, PauseEvent, PauseRecord, watch};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cascade",
    about: "how pauses spread over leaf, spine and leaf, with time and cause, compared with the steps of the article on DSCP-based PFC",
    length: Length::Fixed(4),
    policies: POLICIES,
    settings: Variant::settings,
    plans: |_, line| vec![article::plan(line).0],
    routed: Some(&ROUTED),
    promises: Promises::Variants,
    measure: article::measure,
};

const ROUTED: Experiment = Experiment {
    name: "cascade --routed",
    about: "cascade over routers: two leaves, two spines, routes by FRR (fixed in the simulator); each sender's flow takes its own spine",
    length: Length::Fixed(5),
    policies: POLICIES,
    settings: Variant::settings,
    plans: |_, line| vec![routed::plan(line).plan],
    routed: None,
    promises: Promises::Variants,
    measure: routed::measure,
};

const ARTICLE: &str = "pfc";
const POLICIES: &[&str] = &[ARTICLE, "capfc-stop-max", "ofc"];
const SEND: Nanos = Nanos::from_millis(600);
const OFFERED_PERCENT: u64 = 40;
const GPU_3_PERCENT: u64 = 40;
/// Shortest stall of a switch or host that can explain a deviation from the article's steps: in this time, a sender
/// sends half of the XOFF threshold.
const STALL: Nanos = Nanos::from_millis(5);
const OTHER_PERCENT: u64 = 20;
const BESIDE_PERCENT: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize)]
struct CascadeResults {
    steps: Vec<StepTime>,
    flows: Vec<FlowPath>,
    runs_in_order: usize,
    runs_relayed: usize,
    /// Number of conclusive runs: all flows took their expected paths, and the run either matches the article or has a
    /// deviation that no stall explains.
    runs_judged: usize,
    deviations: Vec<String>,
    other_class_sent: u64,
    other_class_received: u64,
    timeline: Vec<PauseEvent>,
    #[serde(skip)]
    end_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
struct FlowPath {
    from: String,
    by: String,
    source_port: u16,
}

struct CascadeRun {
    account: Account,
    record: PauseRecord,
    flows: Vec<FlowPath>,
    astray: Vec<String>,
    end: Nanos,
}

fn measure(
    (experiment, sequence): (&Experiment, &Sequence),
    headlines: &[Headline<CascadeResults>],
    run: fn(&Setup<'_>) -> Result<CascadeRun, FabricError>,
    request: &Request,
    tell: &mut Tell<'_>,
) -> Result<Findings, FabricError> {
    let mut unmet = Vec::new();
    let conduct = |variant: &Variant, runs: &[CascadeRun]| {
        let mut conduct = Conduct::of(runs.iter().map(|run| &run.account));
        if is_article_policy(variant, request) {
            unmet.extend(judge_against_article(sequence, runs, &mut conduct));
        }
        conduct
    };
    let measured = |runs: &[CascadeRun]| CascadeResults::of(sequence, runs);
    let (mut findings, all) = compare(experiment, (request, tell), run, conduct, measured, headlines)?;
    findings.unmet = unmet;
    Ok(findings.with(text(sequence, request, &all), figure(sequence, request, &all)))
}

fn is_article_policy(variant: &Variant, request: &Request) -> bool {
    variant.name == ARTICLE && request.given.is_empty()
}

fn judge_against_article(sequence: &Sequence, runs: &[CascadeRun], conduct: &mut Conduct) -> Vec<String> {
    if !runs.iter().any(|run| run.is_judged(sequence)) {
        let order = "the order of the article's steps cannot be judged: in every run the machine stalled, a step was early by at most \
                     the longest stall of a switch, a pause ended between two samples, or a flow took another path";
        conduct.unproved.push(order.into());
        conduct.verdict = conduct.verdict.max(Verdict::Unproved);
    }
    let judged = runs.iter().enumerate().filter(|(_, run)| run.is_judged(sequence));
    let against = judged.flat_map(|(number, run)| run.deviations(sequence, number));
    let proved = against.filter(|deviation| deviation.is_proved);
    proved.map(|deviation| format!("{ARTICLE}, {}", deviation.text)).collect()
}

fn percent_of(line: Line, percent: u64) -> Option<BitRate> {
    BitRate::new(line.bits_per_second() / 100 * percent)
}

fn watched(
    plan: &Plan,
    started: Started<'_>,
    load: &Load,
    flows: Vec<FlowPath>,
) -> Result<CascadeRun, FabricError> {
    let watched = |live: &Live<'_>| (watch(live, plan, PATIENCE), live.elapsed());
    let ((record, end), account) = started.run(load, PATIENCE, watched)?;
    Ok(CascadeRun { account, record, flows, astray: Vec::new(), end })
}

fn other_class(to: HostId, rate: Option<BitRate>, line: Line) -> Stream {
    Stream { dst: to.address(), rate, duration: Some(line.span(SEND)), ..Stream::default() }
}

struct Deviation {
    text: String,
    is_proved: bool,
}

impl CascadeRun {
    fn deviations(&self, sequence: &Sequence, number: usize) -> Vec<Deviation> {
        let is_stalled = self.is_stalled();
        let stall_note = if is_stalled { " (the machine stalled)" } else { "" };
        let deviation = |text: &str, is_proved: bool| Deviation {
            text: format!("run {}{stall_note}: {text}", number + 1),
            is_proved: is_proved && !is_stalled,
        };
        // A switch reads its clock before its rings; a stall in between makes its timestamps too early.
        let stall_ms = self.account.longest_stall_nanos() as f64 / 1e6;
        let order = sequence.out_of_order(&self.record).into_iter().map(|(text, by)| match by {
            Some(by) if by <= stall_ms => {
                deviation(&format!("{text} (a stall of a switch may explain this)"), false)
            }
            _ => deviation(&text, true),
        });
        let astray = self.astray.iter().map(|text| deviation(text, true));
        let not_relayed = sequence.not_relayed(&self.record);
        astray.chain(order).chain(not_relayed.iter().map(|text| deviation(text, true))).collect()
    }

    fn is_judged(&self, sequence: &Sequence) -> bool {
        let deviates = || self.deviations(sequence, 0).iter().any(|deviation| deviation.is_proved);
        self.astray.is_empty() && (sequence.matches(&self.record) || deviates())
    }

    fn is_stalled(&self) -> bool {
        self.account.longest_stall_nanos().max(self.account.longest_host_gap_nanos()) >= STALL.0
    }
}

impl CascadeResults {
    fn at_ms(&self, step: &str, about: &str) -> Option<f64> {
        self.steps.iter().find(|of| of.step == step && of.what.contains(about))?.at_ms
    }

    fn of(sequence: &Sequence, runs: &[CascadeRun]) -> CascadeResults {
        let timeline = runs.first().map(|run| run.record.events.clone()).unwrap_or_default();
        let others = || runs.iter().flat_map(|run| run.account.received(Class::default()));
        let count = |of: &dyn Fn(&CascadeRun) -> bool| runs.iter().filter(|run| of(run)).count();
        let deviations = runs.iter().enumerate().flat_map(|(number, run)| run.deviations(sequence, number));
        CascadeResults {
            steps: sequence.step_times(&timeline),
            flows: runs.first().map(|run| run.flows.clone()).unwrap_or_default(),
            runs_in_order: count(&|run| sequence.is_in_order(&run.record)),
            runs_relayed: count(&|run| sequence.is_relayed(&run.record)),
            runs_judged: count(&|run| run.is_judged(sequence)),
            deviations: deviations.map(|deviation| deviation.text).collect(),
            other_class_sent: others().map(|stream| stream.sent).sum(),
            other_class_received: others().map(|stream| stream.frames).sum(),
            timeline,
            end_ms: runs.first().map_or(0.0, |run| run.end.0 as f64 / 1e6),
        }
    }
}

type PolicyResults = [Compared<CascadeRun, CascadeResults>];

const DEVIATIONS_SHOWN: usize = 6;

fn title(sequence: &Sequence, request: &Request) -> String {
    let line = request.line;
    format!("{}; {line} lines, DSCP 24 on class 3", sequence.title)
}

fn text(sequence: &Sequence, request: &Request, all: &PolicyResults) -> String {
    let mut text = title(sequence, request) + "\n";
    for Compared { name, measured: of, .. } in all {
        let mut table = table(&["step", "first seen, ms", "what", "why"]);
        for StepTime { step, what, at_ms, why } in &of.steps {
            let at = number(*at_ms, 1);
            let cells = [(*step).to_owned(), at, what.clone(), why.clone().unwrap_or_default()];
            add_row(&mut table, cells);
        }
        let (sent, received) = (of.other_class_sent, of.other_class_received);
        text += &format!(
            "\n{name}: {} pause events; class 0 on the same wires: {received} of {sent} frames arrived; runs in the article's order: {}; \
             runs with the article's causes: {}\n{table}\n",
            of.timeline.len(),
            of.runs_in_order,
            of.runs_relayed
        );
        for FlowPath { from, by, source_port } in &of.flows {
            text += &format!(
                "the flow of {from} leaves its leaf by port {by}, with UDP source port {source_port}\n"
            );
        }
        for deviation in of.deviations.iter().take(DEVIATIONS_SHOWN) {
            text += &format!("{deviation}\n");
        }
    }
    text
}

fn figure(sequence: &Sequence, request: &Request, all: &PolicyResults) -> Figure {
    let panel = |Compared { name, measured: of, .. }: &Compared<_, CascadeResults>| {
        let content = Content::Spans(spans(&of.timeline, of.end_ms));
        Panel::new(&format!("{name}: paused senders"), "time (ms)", "", content).absent("nobody was held")
    };
    Figure { title: title(sequence, request), panels: all.iter().map(panel).collect() }
}

fn spans(events: &[PauseEvent], end_ms: f64) -> Vec<(String, Vec<(f64, f64)>)> {
    let mut rows: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for event in events {
        let name = format!("{} holds {}", event.switch, event.port.trim_start_matches("to-"));
        match event.action {
            PauseAction::Holds => match rows.iter_mut().find(|row| row.0 == name) {
                Some(row) => row.1.push((event.at_ms, end_ms)),
                None => rows.push((name, vec![(event.at_ms, end_ms)])),
            },
            PauseAction::Releases => {
                if let Some(span) = rows.iter_mut().find(|row| row.0 == name).and_then(|row| row.1.last_mut())
                {
                    span.1 = event.at_ms;
                }
            }
            PauseAction::Stops | PauseAction::Resumes => {}
        }
    }
    rows
}

// Tests for SPECIFICATION.md: cascade
#[cfg(test)]
mod tests {
    use xoff_wire::units::CLASSES;

    use super::sequence::tests::{at, complete_record};
    use super::*;
    use crate::statistics::intervals;

    fn run_of(record: PauseRecord) -> CascadeRun {
        let account = Account::of_hosts(Vec::new(), [0; CLASSES]);
        CascadeRun { account, record, flows: Vec::new(), astray: Vec::new(), end: Nanos::ZERO }
    }

    #[test]
    fn only_pfc_without_user_settings_must_match_article() {
        let mut request = Request::new(Vec::new(), BitRate::from_mbps(100));
        let is_held = |name, request: &Request| {
            Variant::find(name).is_some_and(|variant| is_article_policy(variant, request))
        };
        assert_eq!(["pfc", "pfc-control"].map(|name| is_held(name, &request)), [true, false]);
        request.given.extend("pipeline.rate=7kpps".parse::<crate::Given>());
        assert!(
            !is_held("pfc", &request),
            "with a user's pipeline rate, the article's steps must not be required"
        );
    }

    #[test]
    fn inconclusive_cascade_run_is_not_counted_as_deviation() {
        let sequence = article::sequence();
        let held = |runs: &[CascadeRun]| {
            let mut conduct = Conduct::default();
            let unmet = judge_against_article(&sequence, runs, &mut conduct);
            (unmet.len(), conduct.verdict, conduct.unproved.len())
        };
        let early = || {
            let mut early = sequence.expected_events();
            (early[1].at_ms, early[1].not_before_ms) = (-1.0, -1.0);
            early
        };
        let good = || run_of(complete_record(sequence.expected_events()));
        let incomplete =
            run_of(PauseRecord { events: sequence.expected_events(), missed_from_ms: Some(5.0) });
        assert_eq!(held(&[good()]), (0, Verdict::Kept, 0));
        assert_eq!(held(&[run_of(complete_record(early()))]), (1, Verdict::Kept, 0));
        assert_eq!(held(&[incomplete]), (0, Verdict::Unproved, 1));
        let on_other_path =
            || CascadeRun { astray: vec!["gpu-1 sent 3 frames".into()], ..run_of(complete_record(early())) };
        assert_eq!(held(&[on_other_path()]), (0, Verdict::Unproved, 1));
        assert_eq!(
            held(&[on_other_path(), good()]),
            (0, Verdict::Kept, 0),
            "a run in which a flow took another path must not count as conclusive"
        );
        let text =
            on_other_path().deviations(&sequence, 0).into_iter().next().map(|deviation| deviation.text);
        assert_eq!(text.as_deref(), Some("run 1: gpu-1 sent 3 frames"), "a wrong path must be reported");
    }

    #[test]
    fn cascade_step_early_by_less_than_a_stall_is_inconclusive() {
        let sequence = article::sequence();
        let mut events = sequence.expected_events();
        (events[1].at_ms, events[1].not_before_ms) = (-0.1, -0.1);
        let judged = |stall| {
            let account = Account::of_hosts(Vec::new(), [0; CLASSES]).with_stall(Nanos(stall));
            let run = CascadeRun { account, ..run_of(complete_record(events.clone())) };
            let text = run.deviations(&sequence, 0).into_iter().next().map(|deviation| deviation.text);
            (
                run.is_judged(&sequence),
                text.is_some_and(|text| text.ends_with("(a stall of a switch may explain this)")),
            )
        };
        assert_eq!([judged(99_999), judged(100_000)], [(true, false), (false, true)]);
    }

    #[test] // proves: experiments
    fn counts_of_cascade_runs_have_confidence_intervals() {
        let sequence = article::sequence();
        let runs = [(); 3].map(|()| run_of(complete_record(sequence.expected_events())));
        let of = intervals(runs.chunks(1).map(|run| CascadeResults::of(&sequence, run)));
        let counts: Vec<_> = of.iter().filter(|(place, _)| place.starts_with("/runs_")).collect();
        assert_eq!(counts.len(), 3);
        for (place, of) in counts {
            assert!(of.mean == 1.0 && (of.low - 0.4385).abs() < 1e-4, "{place}: {of:?}");
        }
    }

    #[test]
    fn cascade_figure_draws_pause_from_xoff_to_xon() {
        let event = |at_ms, action| at(at_ms, "rail-c", "to-spine", action);
        let events = [
            event(3.0, PauseAction::Holds),
            event(5.0, PauseAction::Releases),
            event(7.0, PauseAction::Holds),
        ];
        let held = [("rail-c holds spine".to_owned(), vec![(3.0, 5.0), (7.0, 9.0)])];
        assert_eq!(
            spans(&events, 9.0),
            held,
            "a pause without an observed end must extend to the end of the figure"
        );
    }
}

//! Experiment `deadlock`: three switches in a ring. Frames still queued some time after the hosts have stopped are
//! in a deadlock.

use std::time::Duration;

use serde::Serialize;
use xoff_host::Stream;
use xoff_wire::units::Nanos;

use super::report::{median, ms, table_of};
use super::series::Series;
use super::{
    Compared, Conduct, Experiment, Findings, Headline, Length, Promises, Request, Tell, Variant, compare,
    named,
};
use crate::plot::{Content, Figure, Panel};
use crate::statistics::Spread;
use crate::statistics::p50;
use crate::{Account, FabricError, HostId, LOSSLESS, Line, Live, Load, Plan, Setup, lossless};
use xoff_switch::causes::Causes;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "deadlock",
    about: "three switches in a ring with cyclic buffer dependencies: which policies let them deadlock, and over which queues",
    length: Length::Fixed(5),
    policies: &["pfc", "pfc-watchdog-drop", "pfc-watchdog-forward", "capfc-stop-max", "ofc"],
    settings: Variant::roomy_settings,
    plans: |_, line| vec![plan(line).0],
    routed: None,
    promises: Promises::Variants,
    measure,
};

const HEADLINES: &[Headline<DeadlockResults>] = &[
    Headline::share("deadlocked\nshare of runs", |of| Some(of.deadlocks as f64)),
    Headline::of("delivered\nMb/s", |of| p50(of.delivered_mbps)),
];

const SEND: Nanos = Nanos::from_millis(1500);
const SILENCE: Nanos = Nanos::from_millis(1000);
const STEP: Nanos = Nanos::from_millis(50);
const SAMPLE_EVERY: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_millis(10);

#[derive(Debug, Serialize)]
struct DeadlockResults {
    deadlocks: usize,
    stopped_ms: Option<Spread>,
    delivered_mbps: Option<Spread>,
    cycle: Vec<String>,
}

struct DeadlockRun {
    account: Account,
    delivered: Series,
    last: Nanos,
    cycles: Vec<Vec<String>>,
    waiting: u64,
    line: Line,
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let conduct = |_: &Variant, runs: &[DeadlockRun]| Conduct::of(runs.iter().map(|run| &run.account));
    let (findings, all) =
        compare(&EXPERIMENT, (request, tell), run, conduct, DeadlockResults::of, HEADLINES)?;
    Ok(findings.with(text(request, &all), figure(request, &all)))
}

fn plan(line: Line) -> (Plan, [HostId; 3]) {
    let mut plan = Plan::new(line);
    let switches = ["a", "b", "c"].map(|name| plan.switch(name));
    let hosts = [0, 1, 2].map(|n| plan.host(&format!("host-{}", ["a", "b", "c"][n]), switches[n]));
    let onward = [0, 1, 2].map(|n: usize| plan.trunk(switches[n], switches[(n + 1) % 3]).0);
    for (place, &by) in onward.iter().enumerate() {
        plan.route(hosts[(place + 1) % 3], by);
        plan.route(hosts[(place + 2) % 3], by);
    }
    (plan, hosts)
}

fn run(setup: &Setup<'_>) -> Result<DeadlockRun, FabricError> {
    let line = setup.line;
    let (plan, hosts) = plan(line);
    let mut load = Load::default();
    for (place, &host) in hosts.iter().enumerate() {
        let to = hosts[(place + 2) % 3];
        load.send(host, Stream { duration: Some(line.span(SEND)), ..lossless(to) });
    }
    let fabric = setup.build(plan)?;
    let ((delivered, last, cycles, waiting), account) =
        fabric.run(&load, PATIENCE, |live| watch(live, hosts))?;
    Ok(DeadlockRun { account, delivered, last, cycles, waiting, line })
}

fn watch(live: &Live<'_>, hosts: [HostId; 3]) -> (Series, Nanos, Vec<Vec<String>>, u64) {
    let mut delivered = Series::default();
    let (mut before, mut last) = (0, Nanos::ZERO);
    let limit = Duration::from_nanos(SEND.after(SILENCE).0);
    live.every(SAMPLE_EVERY, limit, |now| {
        let of = |&host: &HostId| live.progress(host).received[LOSSLESS.index()].line_bytes.get();
        let bytes = hosts.iter().map(of).sum();
        delivered.record(now, bytes);
        if bytes > before {
            (before, last) = (bytes, now);
        }
    });
    let cycles = Causes::of(live.switches()).cycles();
    let cycles = cycles.iter().map(|cycle| cycle.iter().map(ToString::to_string).collect()).collect();
    (delivered, last, cycles, live.waiting_bytes())
}

impl DeadlockResults {
    fn of(runs: &[DeadlockRun]) -> DeadlockResults {
        let stuck: Vec<&DeadlockRun> = runs.iter().filter(|run| run.waiting > 0).collect();
        let rates = runs.iter().filter_map(|run| run.delivered.rate(Nanos::ZERO, run.line.span(SEND)));
        DeadlockResults {
            deadlocks: stuck.len(),
            stopped_ms: Spread::of(stuck.iter().map(|run| run.last.0 as f64 / 1e6)),
            delivered_mbps: Spread::of(rates),
            cycle: stuck.iter().find_map(|run| run.cycles.first().cloned()).unwrap_or_default(),
        }
    }
}

type PolicyResults = [Compared<DeadlockRun, DeadlockResults>];

fn title(request: &Request) -> String {
    let line = request.line;
    format!("Deadlock: three switches in a ring, three flows over two wires each, {line} lines")
}

fn text(request: &Request, all: &PolicyResults) -> String {
    let table = table_of(
        all.iter().map(Compared::row),
        &[
            ("deadlocked\nruns", &|of| format!("{} of {}", of.deadlocks, request.runs)),
            ("last frame arrived\nms", &|of| median(of.stopped_ms, 0)),
            ("delivered by all flows\nMb/s", &|of| median(of.delivered_mbps, 1)),
        ],
    );
    let mut cycles = String::new();
    for Compared { name, measured: of, .. } in all {
        if let Some(first) = of.cycle.first() {
            cycles += &format!("\n{name}: {}\n  -> {first}\n", of.cycle.join("\n  -> "));
        }
    }
    format!(
        "{}\n\n{table}\nHosts send for {} ms; frames still queued {} ms later never leave.\n{cycles}",
        title(request),
        ms(request.line.span(SEND)),
        ms(request.line.span(SILENCE))
    )
}

fn figure(request: &Request, all: &PolicyResults) -> Figure {
    let points = |run: &DeadlockRun| run.delivered.points(request.line.span(STEP));
    let lines = Content::Lines(named(all, |of| of.runs.first().map(points).unwrap_or_default()));
    let y = "layer-1 rate received by all hosts together (Mb/s)";
    let panel = Panel::new("Sum over all hosts, first run", "time (s)", y, lines);
    Figure { title: title(request), panels: vec![panel] }
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::{BitRate, CLASSES};

    use super::*;

    #[test]
    fn run_that_ends_with_queued_frames_counts_as_deadlock() {
        let run = |last, cycles: &[&str], waiting| DeadlockRun {
            account: Account::of_hosts(Vec::new(), [0; CLASSES]),
            delivered: Series::default(),
            last: Nanos::from_millis(last),
            cycles: cycles.iter().map(|step| vec![(*step).to_owned()]).collect(),
            waiting,
            line: BitRate::from_mbps(100).into(),
        };
        let of = DeadlockResults::of(&[run(1_500, &["a"], 0), run(300, &["a", "b"], 1)]);
        assert_eq!((of.deadlocks, of.stopped_ms, of.cycle), (1, Spread::of([300.0]), vec!["a".to_owned()]));
        assert_eq!(of.delivered_mbps, None, "a run without samples must have no rate");
        let none = DeadlockResults::of(&[run(1_500, &[], 0)]);
        assert_eq!((none.deadlocks, none.stopped_ms), (0, None));
    }
}

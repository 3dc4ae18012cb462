//! `cascade`: how a pause travels upstream, step by step, as the article on DSCP-based PFC tells it.
//!
//! Two rail switches, a spine, a rail switch: a GPU behind the last takes less than two others send it.
//! DSCP 24 is class 3 in every switch. What is told is what the switches did: when each held its peer and
//! let it go, when each obeyed, and the cause that the switch itself gives.

use std::time::Duration;

use serde::Serialize;
use xoff_dataplane::cause::{Cause, Trigger};
use xoff_dataplane::units::{BitRate, Class, Nanos};
use xoff_hosts::Stream;

use super::plot::{Content, Panel};
use super::report::{add_row, table};
use super::{Conduct, Experiment, Figure, Findings, Length, Request, Tell, Variant, compare};
use crate::fabric::{
    Account, Fabric, FabricError, HostId, LOSSLESS, Live, Load, Plan, PortOf, Settings, lossless,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "cascade",
    about: "leaf, spine, leaf: who pauses whom, when and why, along the steps of the article on DSCP-based PFC",
    length: Length::Fixed(4),
    policies: &["pfc", "capfc-stop-max", "ofc"],
    settings: Variant::settings,
    measure,
};

/// Both GPUs send for so long, each this part of its line, to one whose line is this part of theirs.
const SEND: Nanos = Nanos::from_millis(600);
const OFFERED_PERCENT: u64 = 60;
const GPU_3_PERCENT: u64 = 40;
/// Another class, which nobody pauses.
const OTHER_PERCENT: u64 = 20;
const LOOK: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_secs(5);

/// What a switch did at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Deed {
    /// It told its peer to stop.
    Holds,
    /// It told it to go on.
    Releases,
    /// It stopped, as its peer had told it.
    Stops,
    /// It goes on.
    Resumes,
}

#[derive(Clone, Debug, Serialize)]
struct Event {
    /// After the first frame was due.
    at_ms: f64,
    switch: String,
    /// The port, called after who is behind it.
    port: String,
    deed: Deed,
    /// Of a hold: what the switch says.
    why: Option<String>,
}

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
    steps: Vec<Step>,
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
    events: Vec<Event>,
    /// When nobody watched any more.
    end: Nanos,
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let measured = compare(&EXPERIMENT, request, tell, |_, settings| run(settings, request.line))?;
    let mut findings = Findings::default();
    let mut all = Vec::new();
    for (variant, runs) in measured {
        let conduct = Conduct::of(runs.iter().map(|run| &run.account));
        let measured = Measured::of(&runs);
        all.push((findings.add(variant, conduct, &measured), measured));
    }
    findings.text = text(request, &all);
    findings.figure = figure(request, &all);
    Ok(findings)
}

fn run(settings: &Settings, line: BitRate) -> Result<Run, FabricError> {
    let percent = |percent: u64| BitRate::new(line.bits_per_second() / 100 * percent);
    let mut plan = Plan::new(line);
    let [rail_a, rail_b, spine, rail_c] =
        ["rail-a", "rail-b", "spine", "rail-c"].map(|name| plan.switch(name));
    let senders = [plan.host("gpu-1", rail_a), plan.host("gpu-2", rail_b)];
    let gpu_3 = plan.host_with("gpu-3", rail_c, percent(GPU_3_PERCENT).unwrap_or(line));
    let others = [plan.host("other-1", rail_a), plan.host("other-3", rail_c)];
    for (leaf, top) in [(rail_a, spine), (rail_b, spine), (spine, rail_c)] {
        plan.trunk(leaf, top);
    }
    let mut load = Load::default();
    for sender in senders {
        let rate = percent(OFFERED_PERCENT);
        load.send(sender, Stream { rate, duration: Some(SEND), ..lossless(gpu_3) });
    }
    load.send(others[0], other_class(others[1], percent(OTHER_PERCENT)));
    let fabric = Fabric::build(plan, settings)?;
    let ports = ports(fabric.plan());
    let ((events, end), account) =
        fabric.run(&load, PATIENCE, |live| (watch(live, &ports), live.elapsed()))?;
    Ok(Run { account, events, end })
}

fn other_class(to: HostId, rate: Option<BitRate>) -> Stream {
    Stream { dst: to.address(), rate, duration: Some(SEND), ..Stream::default() }
}

/// Every port, with the names of its switch, of itself and of the switch's other ports.
struct Watched {
    at: PortOf,
    switch: String,
    names: Vec<String>,
}

fn ports(plan: &Plan) -> Vec<Watched> {
    let of = |switch| {
        let names: Vec<String> = plan.ports_of(switch).map(|at| plan.port_name(at).to_owned()).collect();
        let name = plan.switch_name(switch).to_owned();
        plan.ports_of(switch).map(move |at| Watched { at, switch: name.clone(), names: names.clone() })
    };
    plan.switches().flat_map(of).collect()
}

/// Notes every change of who is held and who obeys. A pause's begin is known to the nanosecond, from the
/// switch; its end to the next look. One that begins and ends between two looks is not seen.
fn watch(live: &Live<'_>, ports: &[Watched]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut before = vec![[0; 2]; ports.len()];
    live.every(LOOK, PATIENCE, |now| {
        for (port, before) in ports.iter().zip(&mut before) {
            let class = live.class(port.at, LOSSLESS);
            let since = [class.held_since.get(), class.paused_since.get()];
            let why = Cause::unpack(class.held_cause.get()).map(|cause| port.explain(cause));
            let deeds = [(Deed::Holds, Deed::Releases, why), (Deed::Stops, Deed::Resumes, None)];
            for ((since, before), (begins, ends, why)) in since.into_iter().zip(before).zip(deeds) {
                if since == *before {
                    continue;
                }
                let begun = Nanos(since).since(live.begin());
                if *before != 0 {
                    let ended = if since == 0 { now } else { begun.min(now) };
                    events.push(port.event(ended, ends, None));
                }
                if since != 0 {
                    events.push(port.event(begun, begins, why));
                }
                *before = since;
            }
        }
    });
    events.sort_by(|a: &Event, b: &Event| a.at_ms.total_cmp(&b.at_ms));
    events
}

impl Watched {
    fn event(&self, at: Nanos, deed: Deed, why: Option<String>) -> Event {
        let port = self.names[self.at.port.index()].clone();
        Event { at_ms: at.0 as f64 / 1e6, switch: self.switch.clone(), port, deed, why }
    }

    fn explain(&self, cause: Cause) -> String {
        let culprit = cause.culprit.map_or("none", |port| &self.names[port.index()]);
        let held = if cause.relayed { ", which its own peer holds" } else { "" };
        format!("{} threshold; most of it waits for {culprit}{held}", Trigger::NAMES[cause.trigger])
    }
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

fn steps(events: &[Event]) -> Vec<Step> {
    let step = |(step, what, switch, port, deed): (_, _, &str, &str, Deed)| {
        let is_it = |event: &&Event| event.switch == switch && event.port == port && event.deed == deed;
        let seen = events.iter().find(is_it);
        Step {
            step,
            what,
            at_ms: seen.map(|event| event.at_ms),
            why: seen.and_then(|event| event.why.clone()),
        }
    };
    STEPS.map(step).into()
}

impl Measured {
    fn of(runs: &[Run]) -> Measured {
        let timeline = runs.first().map(|run| run.events.clone()).unwrap_or_default();
        let others = || runs.iter().flat_map(|run| run.account.received(Class::default()));
        Measured {
            steps: steps(&timeline),
            other_class_sent: others().map(|stream| stream.sent).sum(),
            other_class_received: others().map(|stream| stream.frames).sum(),
            timeline,
            end_ms: runs.first().map_or(0.0, |run| run.end.0 as f64 / 1e6),
        }
    }
}

type All = [(String, Measured)];

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
            "\n{name}: {} events; class 0 on the same wires: {received} of {sent} frames arrived\n{table}\n",
            of.timeline.len()
        );
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
    use super::*;

    fn event(at_ms: f64, deed: Deed) -> Event {
        Event { at_ms, switch: "rail-c".into(), port: "to-spine".into(), deed, why: None }
    }

    #[test]
    fn a_step_is_when_it_was_first_seen_and_null_where_it_was_not() {
        let steps = steps(&[event(3.0, Deed::Holds), event(5.0, Deed::Releases), event(7.0, Deed::Holds)]);
        let at = |step: &str| steps.iter().find(|of| of.step == step).and_then(|of| of.at_ms);
        assert_eq!((at("1-3"), at("10-12"), at("4")), (Some(3.0), Some(5.0), None));
    }

    #[test]
    fn spans_go_from_hold_to_release() {
        let events = [event(3.0, Deed::Holds), event(5.0, Deed::Releases), event(7.0, Deed::Holds)];
        let held = [("rail-c holds spine".to_owned(), vec![(3.0, 5.0), (7.0, 9.0)])];
        assert_eq!(spans(&events, 9.0), held, "who did not let go held to the end");
    }
}

//! `victim`: heavy and light senders on one class, into a port that they congest and into a free one.
//!
//! Six heavy senders offer a line rate each to one port. Two light ones send it a message now and then, and
//! beside it messages to a port where nothing is in their way: the victim, which waits where its port is
//! paused. First the light ones are alone, so that each has its own measure.
//!
//! How much the light ones offer to the congested port decides what it costs them: eight senders share it,
//! so that beyond an eighth of the line a fair switch, too, has to hold them. So the load is swept from below
//! that share to well above it.

use std::time::Duration;

use serde::Serialize;
use xoff_dataplane::units::{BitRate, Bytes, Nanos};
use xoff_hosts::Stream;

use super::plot::{Content, Panel};
use super::report::{NONE_COMPLETED, NOTHING_ARRIVED, add_row, median, number, table};
use super::series::Series;
use super::statistics::p50;
use super::variant::scaled;
use super::{Conduct, Experiment, Figure, Findings, Length, Request, Spread, Tell, Variant, compare};
use crate::fabric::{
    Account, Fabric, FabricError, HostId, LOSSLESS, Live, Load, Plan, PortOf, Settings, lossless,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "victim",
    about: "heavy and light senders into a congested and a free port: who is paused, and what it costs the light ones",
    length: Length::Fixed(20),
    policies: &["pfc", "capfc-stop-max", "capfc-stop-calibrate", "ofc", "p-pfc", "pfc-wdrop", "pfc-wstop"],
    settings: Variant::settings,
    measure,
};

const HEAVY: usize = 6;
const LIGHT: usize = 2;
/// What each light sender offers to the congested port, in percent of the line. All senders' equal share of
/// it is 12.5.
const LOADS: [u64; 4] = [5, 10, 15, 20];
/// What each offers to the free port.
const VICTIM: u64 = 30;
/// Frames of a message: 64 KB, the short flows of CaPFC's Table I.
/// Above 100 Mb/s they grow with the line, as all sizes do: there are as many of them, and a host can number so many.
const MESSAGE: u64 = 45;
/// Light senders are alone for so long.
const ALONE: Nanos = Nanos::from_millis(600);
/// Congestion is there so long after the heavy ones have begun.
const RAMP: Nanos = Nanos::from_millis(100);
/// All end here.
const END: Nanos = Nanos::from_millis(2200);
const LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(10);

/// Frames of a message.
fn message(line: BitRate) -> u64 {
    scaled(Bytes(MESSAGE), line).0.max(MESSAGE)
}

/// Messages that take `percent` of the line begin so far apart.
fn apart(line: BitRate, percent: u64) -> Nanos {
    let frame = line.time_of(Bytes::on_line(Stream::default().frame_len()));
    Nanos(frame.0 * message(line) * 100 / percent)
}

/// What became of senders of one kind, all of them added up.
#[derive(Debug, Serialize)]
struct Senders {
    /// Times that one was told to stop.
    xoff_sent: u64,
    /// Time in pause, of the time that heavy ones sent.
    paused_percent: f64,
    /// When one was told to stop for the first time since the heavy ones began; null where none was.
    first_xoff_ms: Option<f64>,
}

/// What became of messages of one kind, of both light senders together.
#[derive(Debug, Serialize)]
struct Delivery {
    /// Rate of layer 1 at which they arrived while nobody else sent; one value for each run.
    solo_mbps: Option<Spread>,
    /// While the heavy ones sent.
    mbps: Option<Spread>,
    /// From when a message was due until its last frame was there, while nobody else sent.
    solo_completion_ms: Option<Spread>,
    /// While the heavy ones sent; a message that never arrived whole does not count.
    completion_ms: Option<Spread>,
    /// Messages that lost frames.
    broken: u64,
}

/// One load of the light senders.
#[derive(Debug, Serialize)]
struct Point {
    /// What each of them offers to the congested port, of a line.
    light_percent: u64,
    heavy: Senders,
    light: Senders,
    /// Into the congested port.
    light_messages: Delivery,
    /// Into the free port.
    victim: Delivery,
}

#[derive(Debug, Serialize)]
struct Measured {
    sweep: Vec<Point>,
}

/// One run.
struct Run {
    load: Load,
    scene: Scene,
    account: Account,
    seen: Seen,
}

/// What was seen while it ran.
struct Seen {
    /// What has come from light senders to the congested port.
    light: Series,
    /// What has come to the free port.
    victim: Series,
    /// By port, since the heavy ones began.
    first_xoff: Vec<Option<Nanos>>,
}

struct Scene {
    heavy: Vec<HostId>,
    light: Vec<HostId>,
    congested: HostId,
    free: HostId,
    ports: Vec<PortOf>,
    line: BitRate,
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let measured = compare(&EXPERIMENT, request, tell, |_, settings| {
        LOADS.iter().map(|&percent| run(settings, request.line, percent)).collect::<Result<Vec<Run>, _>>()
    })?;
    let mut findings = Findings::default();
    let mut all = Vec::new();
    for (variant, runs) in measured {
        let conduct = Conduct::of(runs.iter().flatten().map(|run| &run.account));
        let of_load = |place: usize| runs.iter().map(|run| &run[place]).collect::<Vec<_>>();
        let sweep = LOADS.iter().enumerate().map(|(place, &percent)| Point::of(percent, &of_load(place)));
        let measured = Measured { sweep: sweep.collect() };
        all.push((findings.add(variant, conduct, &measured), measured));
    }
    findings.text = text(request, &all);
    findings.figure = figure(request, &all);
    Ok(findings)
}

fn run(settings: &Settings, line: BitRate, light_percent: u64) -> Result<Run, FabricError> {
    let (plan, scene) = plan(line);
    let load = scene.load(light_percent);
    let fabric = Fabric::build(plan, settings)?;
    let (seen, account) = fabric.run(&load, PATIENCE, |live| scene.watch(live))?;
    Ok(Run { load, scene, account, seen })
}

fn plan(line: BitRate) -> (Plan, Scene) {
    let mut plan = Plan::new(line);
    let switch = plan.switch("switch");
    let heavy: Vec<HostId> = (1..=HEAVY).map(|n| plan.host(&format!("heavy-{n}"), switch)).collect();
    let light: Vec<HostId> = (1..=LIGHT).map(|n| plan.host(&format!("light-{n}"), switch)).collect();
    let [congested, free] = ["congested", "free"].map(|name| plan.host(name, switch));
    let ports = heavy.iter().chain(&light).map(|&host| plan.port_of(host)).collect();
    (plan, Scene { heavy, light, congested, free, ports, line })
}

impl Scene {
    fn load(&self, light_percent: u64) -> Load {
        let mut load = Load::default();
        for &heavy in &self.heavy {
            let duration = Some(END.since(ALONE));
            load.send(heavy, Stream { start: ALONE, duration, ..lossless(self.congested) });
        }
        for (place, &light) in self.light.iter().enumerate() {
            for (percent, to) in [(light_percent, self.congested), (VICTIM, self.free)] {
                let every = apart(self.line, percent);
                // The two do not send at the same moment.
                let shift = every.0 * place as u64 / self.light.len() as u64;
                let starts = (0..).map(|n| Nanos(shift + n * every.0)).take_while(|&start| start < END);
                for start in starts {
                    load.send(light, Stream { start, count: Some(message(self.line)), ..lossless(to) });
                }
            }
        }
        load
    }

    fn watch(&self, live: &Live<'_>) -> Seen {
        let mut seen = Seen {
            light: Series::default(),
            victim: Series::default(),
            first_xoff: vec![None; self.ports.len()],
        };
        let mut before = vec![0; self.ports.len()];
        live.every(LOOK, PATIENCE, |now| {
            let come = |to| self.light.iter().map(|&light| live.received_from(light, to)).sum();
            seen.victim.look(now, come(self.free));
            seen.light.look(now, come(self.congested));
            for ((&port, first), before) in self.ports.iter().zip(&mut seen.first_xoff).zip(&mut before) {
                let class = live.class(port, LOSSLESS);
                if now < ALONE {
                    *before = class.xoff_sent.get();
                } else if first.is_none() && class.xoff_sent.get() > *before {
                    let since = Nanos(class.held_since.get());
                    *first = Some(if since == Nanos::ZERO { now } else { since.since(live.begin()) });
                }
            }
        });
        seen
    }
}

impl Run {
    fn senders(&self, range: std::ops::Range<usize>) -> (u64, u64, Option<Nanos>) {
        let classes =
            || self.scene.ports[range.clone()].iter().map(|&port| self.account.class(port, LOSSLESS));
        let xoff = classes().map(|class| class.xoff_sent.get()).sum();
        let paused = classes().map(|class| class.held_nanos.get()).sum();
        (xoff, paused, self.seen.first_xoff[range].iter().copied().flatten().min())
    }

    /// Completion times in ms, of messages due while nobody else sent, of those due in congestion, and how
    /// many of all were broken.
    fn completion(&self, to: HostId) -> (Vec<f64>, Vec<f64>, u64) {
        let (mut solo, mut congested, mut broken) = (Vec::new(), Vec::new(), 0);
        for &light in &self.scene.light {
            let streams = self.account.host(to).received.iter().filter(|got| got.sender == light.number());
            let Some(began) = self.load.due(&self.account, light, 0) else { continue };
            for message in streams {
                let Some(due) = self.load.due(&self.account, light, message.stream) else { continue };
                broken += u64::from(message.lost > 0);
                let Some(taken) = self.load.completion(&self.account, light, to, message.stream) else {
                    continue;
                };
                let taken = taken.0 as f64 / 1e6;
                match due.since(began) {
                    due if due < ALONE.since(RAMP) => solo.push(taken),
                    due if due >= ALONE.after(RAMP) => congested.push(taken),
                    _ => {}
                }
            }
        }
        (solo, congested, broken)
    }
}

impl Point {
    fn of(light_percent: u64, runs: &[&Run]) -> Point {
        Point {
            light_percent,
            heavy: Senders::of(runs, 0..HEAVY),
            light: Senders::of(runs, HEAVY..HEAVY + LIGHT),
            light_messages: Delivery::of(runs, |run| run.scene.congested, |run| &run.seen.light),
            victim: Delivery::of(runs, |run| run.scene.free, |run| &run.seen.victim),
        }
    }
}

impl Senders {
    fn of(runs: &[&Run], range: std::ops::Range<usize>) -> Senders {
        let each: Vec<_> = runs.iter().map(|run| run.senders(range.clone())).collect();
        let time = END.since(ALONE).0 as f64 * (range.len() * runs.len()) as f64;
        let paused: u64 = each.iter().map(|run| run.1).sum();
        let first = each.iter().filter_map(|run| run.2).min();
        Senders {
            xoff_sent: each.iter().map(|run| run.0).sum(),
            paused_percent: 100.0 * paused as f64 / time,
            first_xoff_ms: first.map(|first| first.0 as f64 / 1e6 - ALONE.0 as f64 / 1e6),
        }
    }
}

impl Delivery {
    fn of(runs: &[&Run], to: impl Fn(&Run) -> HostId, series: impl Fn(&Run) -> &Series) -> Delivery {
        let each: Vec<_> = runs.iter().map(|run| run.completion(to(run))).collect();
        let rate = |from, to| Spread::of(runs.iter().filter_map(|run| series(run).rate(from, to)));
        Delivery {
            solo_mbps: rate(RAMP, ALONE),
            mbps: rate(ALONE.after(RAMP), END),
            solo_completion_ms: Spread::of(each.iter().flat_map(|run| run.0.iter().copied())),
            completion_ms: Spread::of(each.iter().flat_map(|run| run.1.iter().copied())),
            broken: each.iter().map(|run| run.2).sum(),
        }
    }
}

type All = [(String, Measured)];

fn title(request: &Request) -> String {
    let mbps = request.line.bits_per_second() / 1_000_000;
    format!("Victim: {HEAVY} heavy and {LIGHT} light senders, a congested and a free port, {mbps} Mb/s each")
}

fn text(request: &Request, all: &All) -> String {
    let mut table = table(&[
        "policy",
        "light\noffer, %",
        "first XOFF, ms\nheavy / light",
        "in pause, %\nheavy / light",
        "victim Mb/s\nalone / congested",
        "victim's messages, ms\nalone p50 / p50 / p75 / max",
        "light Mb/s\nalone / congested",
        "light into congestion, ms\nalone p50 / p50 / p75 / max",
        "broken\nmessages",
    ]);
    let first = |senders: &Senders| {
        senders.first_xoff_ms.map_or_else(|| "never".to_owned(), |first| format!("{first:.1}"))
    };
    let rate = |of: &Delivery| format!("{} / {}", median(of.solo_mbps, 1), median(of.mbps, 1));
    let completion = |of: &Delivery| {
        let congested = of.completion_ms.map_or_else(
            || NONE_COMPLETED.to_owned(),
            |Spread { p50, p75, max, .. }| format!("{p50:.1} / {p75:.1} / {max:.1}"),
        );
        format!("{} / {congested}", median(of.solo_completion_ms, 1))
    };
    for (name, measured) in all {
        for of in &measured.sweep {
            add_row(
                &mut table,
                [
                    name.clone(),
                    of.light_percent.to_string(),
                    format!("{} / {}", first(&of.heavy), first(&of.light)),
                    format!(
                        "{} / {}",
                        number(of.heavy.paused_percent, 0),
                        number(of.light.paused_percent, 0)
                    ),
                    rate(&of.victim),
                    completion(&of.victim),
                    rate(&of.light_messages),
                    completion(&of.light_messages),
                    (of.victim.broken + of.light_messages.broken).to_string(),
                ],
            );
        }
    }
    format!(
        "{}\n\n{table}\nRates are of what arrived. The light senders are alone for {} ms; then the heavy ones send for {} ms. Times of XOFF count \
         from there. An equal share of the congested port is {:.1} %.",
        title(request),
        ALONE.0 / 1_000_000,
        END.since(ALONE).0 / 1_000_000,
        100.0 / (HEAVY + LIGHT) as f64
    )
}

fn figure(request: &Request, all: &All) -> Figure {
    let over_load = |title: &str, y: &str, of: &Of, alone: Option<&Of>| {
        let through = |measured: &Measured, of: &Of| {
            measured.sweep.iter().map(|point| (point.light_percent as f64, of(point))).collect::<Vec<_>>()
        };
        let alone = all.first().zip(alone).map(|((_, first), of)| ("alone".to_owned(), through(first, of)));
        let lines = all.iter().map(|(name, measured)| (name.clone(), through(measured, of)));
        let x = "offered to the congested port by each light sender (% of a line)";
        Panel::new(title, x, y, Content::Lines(alone.into_iter().chain(lines).collect()))
    };
    let rate = |title: &str, of: fn(&Point) -> &Delivery| {
        let [alone, congested]: [&Of; 2] = [&|p| p50(of(p).solo_mbps), &|p| p50(of(p).mbps)];
        let panel = over_load(title, "received, line rate used (Mb/s)", congested, Some(alone));
        panel.absent(NOTHING_ARRIVED)
    };
    let completion = |title: &str, of: fn(&Point) -> &Delivery| {
        let y = "median, from due to complete (ms)";
        over_load(title, y, &|p| p50(of(p).completion_ms), None).absent(NONE_COMPLETED)
    };
    let pause = |title: &str, of: fn(&Point) -> &Senders| {
        over_load(title, "time in pause (%)", &|p| Some(of(p).paused_percent), None)
    };
    Figure {
        title: title(request),
        panels: vec![
            rate("Victim, into the free port", |p| &p.victim),
            rate("Light senders, into congestion", |p| &p.light_messages),
            completion("Victim's messages", |p| &p.victim),
            completion("Light senders' messages", |p| &p.light_messages),
            pause("Heavy senders", |p| &p.heavy),
            pause("Light senders", |p| &p.light),
        ],
    }
}

type Of<'a> = dyn Fn(&Point) -> Option<f64> + 'a;

#[cfg(test)]
mod tests {
    use xoff_dataplane::units::CLASSES;
    use xoff_hosts::HostReport;
    use xoff_hosts::report::{ReceivedStream, SentStream};

    use super::*;

    #[test]
    fn light_senders_can_number_their_messages_at_every_rate_and_load() {
        for line in [5, 100, 130, 200, 1000].map(BitRate::from_mbps) {
            for percent in LOADS {
                let _ = plan(line).1.load(percent); // panics where they cannot
            }
        }
    }

    /// Three messages of a light sender into congestion: one while it is alone, and two in congestion, the last of
    /// which lost a frame.
    fn run() -> Run {
        let line = BitRate::from_mbps(100);
        let (_, scene) = plan(line);
        let (load, light) = (scene.load(LOADS[0]), scene.light[0]);
        let every = apart(line, LOADS[0]).0;
        let first = |from: Nanos| u8::try_from(from.0.div_ceil(every)).expect("a few messages");
        let congested = first(ALONE.after(RAMP));
        let mut hosts = vec![HostReport::default(); HEAVY + LIGHT + 2];
        hosts[HEAVY].sent = vec![SentStream { frames: 1, first_ns: 1_000, ..SentStream::default() }];
        let received = |number: u8, took: Nanos, lost| {
            let mut stream = ReceivedStream {
                sender: light.number(),
                stream: number,
                frames: message(line) - lost,
                last_ns: 1_000 + u64::from(number) * every + took.0,
                ..ReceivedStream::default()
            };
            stream.settle(message(line));
            stream
        };
        let messages = [(0, 10, 0), (congested, 30, 0), (congested + 1, 20, 1)];
        hosts[HEAVY + LIGHT].received =
            messages.map(|(number, ms, lost)| received(number, Nanos::from_millis(ms), lost)).into();
        let seen = Seen {
            light: Series::default(),
            victim: Series::default(),
            first_xoff: vec![None; HEAVY + LIGHT],
        };
        Run { load, scene, account: Account::of_hosts(hosts, [0; CLASSES]), seen }
    }

    #[test]
    fn a_message_that_lost_a_frame_is_broken_and_has_no_completion_time() {
        let run = run();
        let of = Delivery::of(&[&run], |run| run.scene.congested, |run| &run.seen.light);
        assert_eq!(of.broken, 1);
        assert_eq!(of.solo_completion_ms, Spread::of([10.0]));
        assert_eq!(of.completion_ms, Spread::of([30.0]));
    }

    #[test]
    fn where_nothing_came_nothing_was_measured() {
        let run = run();
        let of = Delivery::of(&[&run], |run| run.scene.free, |run| &run.seen.victim);
        assert_eq!((of.solo_completion_ms, of.completion_ms, of.broken), (None, None, 0));
        assert_eq!((of.solo_mbps, of.mbps), (None, None), "nobody looked");
    }
}

//! `victim`: heavy and light senders on one class, into a port that they congest and into a free one.
//!
//! Six heavy senders offer a line rate each to one port. Two light ones send it a message now and then,
//! less than their share, and beside it messages to a port where nothing is in their way: the victim,
//! which waits where its port is paused. First the light ones are alone, so that each has its own
//! measure.

use std::time::Duration;

use serde::Serialize;
use xoff_dataplane::units::{BitRate, Bytes, Nanos};

use super::plot::{Content, Limits, Panel};
use super::report::{add_row, table};
use super::series::Series;
use super::statistics::mean;
use super::{Conduct, Experiment, Figure, Findings, Length, Request, Spread, Tell, Variant, compare};
use crate::fabric::{
    Account, Fabric, FabricError, HostId, LOSSLESS, Live, Load, Plan, PortOf, Settings, lossless,
};
use crate::traffic::Stream;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "victim",
    about: "heavy and light senders into a congested and a free port: who is paused, and what it costs the light ones",
    length: Length::Fixed(4),
    policies: &["pfc", "capfc-stop-max", "capfc-stop-calibrate", "ofc", "p-pfc", "pfc-wdrop", "pfc-wstop"],
    settings: Variant::settings,
    measure,
};

const HEAVY: usize = 6;
const LIGHT: usize = 2;
/// Light senders are alone for so long.
const ALONE: Nanos = Nanos::from_millis(600);
/// Congestion is there so long after the heavy ones have begun.
const RAMP: Nanos = Nanos::from_millis(100);
/// All end here.
const END: Nanos = Nanos::from_millis(2200);
const LOOK: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(5);

/// Messages of one kind.
struct Messages {
    frames: u64,
    /// What they take of the line, in percent.
    percent: u64,
}

/// To the congested port: of seven parts of it, each light sender takes less than one.
const INTO_CONGESTION: Messages = Messages { frames: 24, percent: 10 };
/// To the free port.
const VICTIM: Messages = Messages { frames: 48, percent: 30 };

impl Messages {
    fn every(&self, line: BitRate) -> Nanos {
        let frame = line.time_of(Bytes::on_line(Stream::default().frame_len()));
        Nanos(frame.0 * self.frames * 100 / self.percent)
    }
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

/// What became of messages of one kind.
#[derive(Debug, Serialize)]
struct Delivery {
    /// From when a message was due until its last frame was there, while nobody else sent.
    solo_completion_ms: Spread,
    /// While the heavy ones sent; a message that never arrived whole does not count.
    completion_ms: Spread,
    /// Messages that lost frames.
    broken: u64,
}

#[derive(Debug, Serialize)]
struct Measured {
    heavy: Senders,
    light: Senders,
    /// Into the congested port.
    light_messages: Delivery,
    /// Into the free port.
    victim: Delivery,
    /// Rate of the victim's messages, layer 1, while nobody else sent and while the heavy ones did.
    victim_solo_mbps: f64,
    victim_mbps: Spread,
}

/// One run.
struct Run {
    load: Load,
    scene: Scene,
    account: Account,
    at_bystander: Series,
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
    let measured = compare(&EXPERIMENT, request, tell, |_, settings| run(settings, request.line))?;
    let mut findings = Findings::default();
    let mut all = Vec::new();
    for (variant, runs) in measured {
        let conduct = Conduct::of(runs.iter().map(|run| &run.account));
        let measured = Measured::of(&runs);
        findings.add(variant, conduct, &measured);
        let rates = runs.first().map(|run| run.at_bystander.points(Nanos::from_millis(50)));
        all.push((variant, measured, rates.unwrap_or_default()));
    }
    findings.text = text(request, &all);
    findings.figure = figure(request, &all);
    Ok(findings)
}

fn run(settings: &Settings, line: BitRate) -> Result<Run, FabricError> {
    let mut plan = Plan::new(line);
    let switch = plan.switch("switch");
    let heavy: Vec<HostId> = (1..=HEAVY).map(|n| plan.host(&format!("heavy-{n}"), switch)).collect();
    let light: Vec<HostId> = (1..=LIGHT).map(|n| plan.host(&format!("light-{n}"), switch)).collect();
    let [congested, free] = ["congested", "free"].map(|name| plan.host(name, switch));
    let ports = heavy.iter().chain(&light).map(|&host| plan.port_of(host)).collect();
    let scene = Scene { heavy, light, congested, free, ports, line };
    let load = scene.load();
    let fabric = Fabric::build(plan, settings)?;
    let ((at_bystander, first_xoff), account) = fabric.run(&load, PATIENCE, |live| scene.watch(live))?;
    Ok(Run { load, scene, account, at_bystander, first_xoff })
}

impl Scene {
    fn load(&self) -> Load {
        let mut load = Load::default();
        for &heavy in &self.heavy {
            let duration = Some(END.since(ALONE));
            load.send(heavy, Stream { start: ALONE, duration, ..lossless(self.congested) });
        }
        for (place, &light) in self.light.iter().enumerate() {
            for (messages, to) in [(INTO_CONGESTION, self.congested), (VICTIM, self.free)] {
                let every = messages.every(self.line);
                // The two do not send at the same moment.
                let shift = every.0 * place as u64 / self.light.len() as u64;
                let starts = (0..).map(|n| Nanos(shift + n * every.0)).take_while(|&start| start < END);
                for start in starts {
                    load.send(light, Stream { start, count: Some(messages.frames), ..lossless(to) });
                }
            }
        }
        load
    }

    fn watch(&self, live: &Live<'_>) -> (Series, Vec<Option<Nanos>>) {
        let mut series = Series::default();
        let mut first_xoff = vec![None; self.ports.len()];
        let mut before = vec![0; self.ports.len()];
        live.every(LOOK, PATIENCE, |now| {
            let received = &live.progress(self.free).received[LOSSLESS.index()];
            series.look(now, received.line_bytes.get());
            for ((&port, first), before) in self.ports.iter().zip(&mut first_xoff).zip(&mut before) {
                let class = live.class(port, LOSSLESS);
                if now < ALONE {
                    *before = class.xoff_sent.get();
                } else if first.is_none() && class.xoff_sent.get() > *before {
                    let since = Nanos(class.pausing_since.get());
                    *first = Some(if since == Nanos::ZERO { now } else { since.since(live.begin()) });
                }
            }
        });
        (series, first_xoff)
    }
}

impl Run {
    fn senders(&self, range: std::ops::Range<usize>) -> (u64, u64, Option<Nanos>) {
        let classes =
            || self.scene.ports[range.clone()].iter().map(|&port| self.account.class(port, LOSSLESS));
        let xoff = classes().map(|class| class.xoff_sent.get()).sum();
        let paused = classes().map(|class| class.pausing_nanos.get()).sum();
        (xoff, paused, self.first_xoff[range].iter().copied().flatten().min())
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
                if message.lost > 0 {
                    broken += 1;
                    continue;
                }
                let taken = message.last_ns.saturating_sub(due.0) as f64 / 1e6;
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

impl Measured {
    fn of(runs: &[Run]) -> Measured {
        let rate = |from, to| runs.iter().filter_map(move |run| run.at_bystander.rate(from, to));
        let free = |run: &Run| run.scene.free;
        let congested = |run: &Run| run.scene.congested;
        Measured {
            heavy: Senders::of(runs, 0..HEAVY),
            light: Senders::of(runs, HEAVY..HEAVY + LIGHT),
            light_messages: Delivery::of(runs, congested),
            victim: Delivery::of(runs, free),
            victim_solo_mbps: mean(rate(RAMP, ALONE)),
            victim_mbps: Spread::of(rate(ALONE.after(RAMP), END)),
        }
    }
}

impl Senders {
    fn of(runs: &[Run], range: std::ops::Range<usize>) -> Senders {
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
    fn of(runs: &[Run], to: impl Fn(&Run) -> HostId) -> Delivery {
        let each: Vec<_> = runs.iter().map(|run| run.completion(to(run))).collect();
        Delivery {
            solo_completion_ms: Spread::of(each.iter().flat_map(|run| run.0.iter().copied())),
            completion_ms: Spread::of(each.iter().flat_map(|run| run.1.iter().copied())),
            broken: each.iter().map(|run| run.2).sum(),
        }
    }
}

type All<'a> = [(&'a Variant, Measured, Vec<(f64, f64)>)];

fn title(request: &Request) -> String {
    let mbps = request.line.bits_per_second() / 1_000_000;
    format!("Victim: {HEAVY} heavy and {LIGHT} light senders, a congested and a free port, {mbps} Mb/s each")
}

fn text(request: &Request, all: &All<'_>) -> String {
    let mut table = table(&[
        "policy",
        "XOFF\nheavy / light",
        "first XOFF, ms\nheavy / light",
        "in pause, %\nheavy / light",
        "victim Mb/s\nalone / congested",
        "victim's messages, ms\nalone p50 / p50 / p75 / max",
        "light into congestion, ms\nalone p50 / p50 / p75 / max",
        "broken\nmessages",
    ]);
    let first = |senders: &Senders| {
        senders.first_xoff_ms.map_or_else(|| "never".to_owned(), |first| format!("{first:.1}"))
    };
    let delivery = |of: &Delivery| {
        let Spread { p50, p75, max, .. } = of.completion_ms;
        format!("{:.1} / {p50:.1} / {p75:.1} / {max:.1}", of.solo_completion_ms.p50)
    };
    for (variant, of, _) in all {
        add_row(
            &mut table,
            [
                variant.name.to_owned(),
                format!("{} / {}", of.heavy.xoff_sent, of.light.xoff_sent),
                format!("{} / {}", first(&of.heavy), first(&of.light)),
                format!("{:.1} / {:.1}", of.heavy.paused_percent, of.light.paused_percent),
                format!("{:.1} / {:.1}", of.victim_solo_mbps, of.victim_mbps.p50),
                delivery(&of.victim),
                delivery(&of.light_messages),
                (of.victim.broken + of.light_messages.broken).to_string(),
            ],
        );
    }
    format!(
        "{}\n\n{table}\nThe light senders are alone for {} ms; then the heavy ones send for {} ms. Times of XOFF count \
         from there.",
        title(request),
        ALONE.0 / 1_000_000,
        END.since(ALONE).0 / 1_000_000
    )
}

fn figure(request: &Request, all: &All<'_>) -> Figure {
    let spreads = |title: &str, x: &str, of: fn(&Measured) -> Spread| {
        let rows = all.iter().map(|(variant, measured, _)| (variant.name.to_owned(), of(measured)));
        let content = Content::Spreads(rows.collect());
        Panel { title: title.into(), x: x.into(), y: String::new(), content, limits: Limits::default() }
    };
    let share = |title: &str, of: fn(&Measured) -> f64| {
        let rows = all.iter().map(|(variant, of_it, _)| (variant.name.to_owned(), Spread::of([of(of_it)])));
        let content = Content::Spreads(rows.collect());
        Panel {
            title: title.into(),
            x: "time in pause (%)".into(),
            y: String::new(),
            content,
            limits: Limits::default(),
        }
    };
    let rates = all.iter().map(|(variant, _, rates)| (variant.name.to_owned(), rates.clone()));
    let over_time = Panel {
        title: "Victim's rate; heavy senders from 0.6 s on".into(),
        x: "time (s)".into(),
        y: "line rate used (Mb/s)".into(),
        content: Content::Lines(rates.collect()),
        limits: Limits::default(),
    };
    let ms = "from due to complete (ms)";
    Figure {
        title: title(request),
        panels: vec![
            over_time,
            spreads("Victim's messages, into the free port", ms, |of| of.victim.completion_ms),
            spreads("Light senders' messages, into congestion", ms, |of| of.light_messages.completion_ms),
            share("Heavy senders", |of| of.heavy.paused_percent),
            share("Light senders", |of| of.light.paused_percent),
        ],
    }
}

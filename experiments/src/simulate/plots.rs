//! Draws figures of results: slowdown by flow size over all seeds; queues, pauses and throughput of the first seed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use miette::IntoDiagnostic as _;

use super::steps::{self, Steps};
use super::store::{RunMetadata, cannot, rows};
use super::tables::{FLOWS, PAUSES, QUEUES, RUNS, Row, THROUGHPUT, Table};
use crate::plot::{Content, Figure, Limits, Panel, Point};
use crate::results::value;
use crate::statistics::{quantile, sorted};

const POINTS_MAX: usize = 12;
const PAUSING_MAX: usize = 12;
const QUEUES_MAX: usize = 4;
const FLOWS_MAX: usize = 8;
const BINS: usize = 16;
const STEPS: usize = 200;

type ToPoints<'a> = dyn Fn(&[(f64, f64)]) -> Vec<Point> + 'a;

pub const DIRECTORY: &str = "plots";

pub fn draw(about: &RunMetadata, directory: &Path) -> miette::Result<()> {
    let plots = directory.join(DIRECTORY);
    let figures = [
        ("slowdown", slowdown(about, directory)?),
        ("queues", queues(about, directory)?),
        ("pauses", pauses(about, directory)?),
        ("throughput", throughput(about, directory)?),
    ];
    for (name, panels) in figures {
        if panels.is_empty() {
            continue;
        }
        fs::create_dir_all(&plots).map_err(|error| cannot(&plots, &error))?;
        let seeds = match (name, &about.seeds[..]) {
            ("slowdown", [first, .., last]) => format!("seeds {first} to {last}"),
            (_, [first, ..]) => format!("seed {first}"),
            _ => String::new(),
        };
        let of_all = match about.points.len() {
            count if count > POINTS_MAX && name != "slowdown" => {
                format!("; panels show the first {POINTS_MAX} of {count} points")
            }
            _ => String::new(),
        };
        let title = match about.about.as_str() {
            "" => format!("{}, {seeds}{of_all}", about.scenario),
            text => format!("{}: {text}, {seeds}{of_all}", about.scenario),
        };
        let svg = Figure { title, panels }.svg().into_diagnostic()?;
        let path = plots.join(format!("{name}.svg"));
        fs::write(&path, &svg).map_err(|error| cannot(&path, &error))?;
    }
    Ok(())
}

fn named(point: &str) -> String {
    match point {
        "" => "all flows".into(),
        point => point.strip_prefix("policy=").unwrap_or(point).to_owned(),
    }
}

fn slowdown(about: &RunMetadata, directory: &Path) -> miette::Result<Vec<Panel>> {
    let mut of: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    let [size, slow, counted] = ["size_bytes", "slowdown", "counted"].map(|name| FLOWS.at(name));
    rows(directory, &FLOWS, |row| {
        if let (Some(bytes), Some(slowdown), "1") =
            (value(&row, size), value(&row, slow), row[counted].as_str())
        {
            of.entry(row[0].clone()).or_default().push((bytes, slowdown));
        }
    })?;
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let lines = |line: &ToPoints| {
        let points = about.points.iter().filter_map(|point| Some((named(point), line(of.get(point)?))));
        Content::Lines(points.collect())
    };
    let cdf = lines(&|flows| {
        let sorted = sorted(flows.iter().map(|(_, slowdown)| *slowdown));
        (0..=STEPS)
            .filter_map(|step| {
                let at = (sorted.len() - 1) * step / STEPS;
                let share = 100.0 * (at + 1) as f64 / sorted.len() as f64;
                Some((*sorted.get(at)?, Some(share)))
            })
            .collect()
    });
    let everything = || of.values().flatten().map(|(bytes, _)| *bytes);
    let bins = bins(&sorted(everything()));
    let x = "slowdown (completion time / time of the flow alone)";
    let mut panels = vec![
        Panel::new("Slowdown of all flows", x, "flows that ended (%)", cdf)
            .over_decades()
            .within(Limits { top: Some(100.0), ..Limits::default() }),
    ];
    for percent in [50, 95, 99] {
        let by_size = lines(&|flows| {
            let in_bin = |&(low, high): &(f64, f64)| {
                let values = flows.iter().filter(|(bytes, _)| (low..=high).contains(bytes));
                let (bytes, slowdowns): (Vec<f64>, Vec<f64>) = values.copied().unzip();
                let middle = bytes.iter().sum::<f64>() / bytes.len() as f64;
                Some((middle, Some(quantile(&sorted(slowdowns), percent)?)))
            };
            bins.iter().filter_map(in_bin).collect()
        });
        let title = if percent == 50 { "Median".to_owned() } else { format!("{percent}th percentile") };
        panels.push(Panel::new(&title, "size of the flow (bytes)", "slowdown", by_size).over_decades());
    }
    Ok(panels)
}

fn bins(sizes: &[f64]) -> Vec<(f64, f64)> {
    let mut distinct = sizes.to_vec();
    distinct.dedup();
    if distinct.len() <= BINS {
        return distinct.into_iter().map(|size| (size, size)).collect();
    }
    let most = sizes[sizes.len() - 1];
    let (low, high) = (sizes[0].max(1.0).log10(), most.max(1.0).log10());
    let edge = |at: usize| 10_f64.powf(low + (high - low) * at as f64 / BINS as f64);
    (0..BINS)
        .map(|at| (edge(at).ceil(), if at + 1 == BINS { most } else { edge(at + 1).ceil() - 1.0 }))
        .collect()
}

fn first_seed(
    about: &RunMetadata,
    directory: &Path,
    table: &Table,
) -> miette::Result<BTreeMap<String, Vec<Row>>> {
    let first = about.seeds.first().map(u64::to_string).unwrap_or_default();
    let mut of: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    rows(directory, table, |row| {
        if row[1] == first {
            of.entry(row[0].clone()).or_default().push(row);
        }
    })?;
    Ok(of)
}

fn micros(row: &Row, at: usize) -> Option<f64> {
    value::<f64>(row, at).map(|nanos| nanos / 1e3)
}

fn times<'a>(rows: impl Iterator<Item = &'a Row>, at: usize) -> Vec<u64> {
    let mut times: Vec<u64> = rows.filter_map(|row| value(row, at)).collect();
    times.sort_unstable();
    times.dedup();
    times
}

fn queues(about: &RunMetadata, directory: &Path) -> miette::Result<Vec<Panel>> {
    let of = first_seed(about, directory, &QUEUES)?;
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let [time, switch, port, class, egress] =
        ["time_ns", "switch", "port", "class", "egress_bytes"].map(|name| QUEUES.at(name));
    let all = times(of.values().flatten(), time);
    // Empty queues have no rows, so a missing row means length zero.
    let over_time =
        |(steps, times): (&Steps, &[u64]), lengths: &BTreeMap<u64, f64>, one: fn(&[f64]) -> f64| {
            let samples: Vec<(u64, f64)> =
                times.iter().map(|at| (*at, lengths.get(at).copied().unwrap_or(0.0))).collect();
            steps.line(&samples, one)
        };
    let mut longest = Vec::new();
    let mut panels = Vec::new();
    for (place, point) in about.points.iter().enumerate().filter(|(_, point)| of.contains_key(*point)) {
        let sampled = times(of[point].iter(), time);
        let steps = Steps::of(&sampled, &all);
        let samples: Vec<u64> = steps.every(&sampled).collect();
        let mut most: BTreeMap<u64, f64> = BTreeMap::new();
        let mut by_queue: BTreeMap<String, BTreeMap<u64, f64>> = BTreeMap::new();
        for row in &of[point] {
            let (Some(at), Some(bytes)) = (value(row, time), value::<f64>(row, egress)) else { continue };
            let kilobytes = bytes / 1e3;
            let longest = most.entry(at).or_default();
            *longest = longest.max(kilobytes);
            let name = format!("s{}p{} class {}", row[switch], row[port], row[class]);
            by_queue.entry(name).or_default().insert(at, kilobytes);
        }
        longest.push((named(point), over_time((&steps, &samples), &most, steps::most)));
        let mut queues: Vec<(f64, String, BTreeMap<u64, f64>)> = by_queue
            .into_iter()
            .map(|(name, lengths)| (lengths.values().sum::<f64>(), name, lengths))
            .collect();
        queues.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let lines = queues
            .into_iter()
            .filter(|(sum, ..)| *sum > 0.0)
            .take(QUEUES_MAX)
            .map(|(_, name, lengths)| (name, over_time((&steps, &samples), &lengths, steps::mean)))
            .collect();
        if place >= POINTS_MAX {
            continue;
        }
        let title = format!("Longest queues{}", of_point(point));
        panels.push(Panel::new(&title, &steps.axis("mean"), "egress queue (kB)", Content::Lines(lines)));
    }
    let axis = Steps::of(&all, &all).axis("most");
    let top = Panel::new("Longest egress queue", &axis, "length (kB)", Content::Lines(longest));
    panels.insert(0, top);
    Ok(panels)
}

fn of_point(point: &str) -> String {
    if point.is_empty() { String::new() } else { format!(", {point}") }
}

fn pauses(about: &RunMetadata, directory: &Path) -> miette::Result<Vec<Panel>> {
    let of = first_seed(about, directory, &PAUSES)?;
    let runs = first_seed(about, directory, &RUNS)?;
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let [start, end, switch, port, class, peer] =
        ["start_ns", "end_ns", "switch", "port", "class", "peer"].map(|name| PAUSES.at(name));
    let mut panels = Vec::new();
    for point in about.points.iter().take(POINTS_MAX) {
        let last = runs.get(point).and_then(|rows| value(&rows[0], RUNS.at("duration_us"))).unwrap_or(0.0);
        let mut by_place: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        for row in of.get(point).into_iter().flatten() {
            let Some(from) = micros(row, start) else { continue };
            let sender = match row[switch].as_str() {
                "" => "a receiver".to_owned(),
                number => format!("s{number}p{}", row[port]),
            };
            let name = format!("{sender} class {} stops {}", row[class], row[peer]);
            by_place.entry(name).or_default().push((from, micros(row, end).unwrap_or(last)));
        }
        let held = |spans: &[(f64, f64)]| spans.iter().map(|(from, to)| to - from).sum::<f64>();
        let mut places: Vec<(String, Vec<(f64, f64)>)> = by_place.into_iter().collect();
        places.sort_by(|a, b| held(&b.1).total_cmp(&held(&a.1)).then_with(|| a.0.cmp(&b.0)));
        let which = truncation_note(PAUSING_MAX, places.len(), "longest pauses");
        places.truncate(PAUSING_MAX);
        let limits = Limits { x: Some((0.0, last.max(1e-3))), top: None };
        let title = format!("Pauses{}{which}", of_point(point));
        panels.push(
            Panel::new(&title, "time (us)", "", Content::Spans(places)).within(limits).absent("no pauses"),
        );
    }
    Ok(panels)
}

fn truncation_note(most: usize, count: usize, which: &str) -> String {
    if count > most { format!(": {which}, {most} of {count}") } else { String::new() }
}

fn throughput(about: &RunMetadata, directory: &Path) -> miette::Result<Vec<Panel>> {
    let of = first_seed(about, directory, &THROUGHPUT)?;
    let [time, flow, rate] = ["time_ns", "flow", "rate_mbps"].map(|name| THROUGHPUT.at(name));
    let all = times(of.values().flatten(), time);
    let mut panels = Vec::new();
    for point in about.points.iter().take(POINTS_MAX).filter(|point| of.contains_key(*point)) {
        let steps = Steps::of(&times(of[point].iter(), time), &all);
        let mut by_flow: BTreeMap<u64, Vec<(u64, f64)>> = BTreeMap::new();
        for row in &of[point] {
            if let (Some(at), Ok(flow), Some(mbps)) =
                (value(row, time), row[flow].parse(), value::<f64>(row, rate))
            {
                by_flow.entry(flow).or_default().push((at, mbps / 1e3));
            }
        }
        let which = truncation_note(FLOWS_MAX, by_flow.len(), "the first flows");
        let lines = by_flow.into_iter().take(FLOWS_MAX);
        let lines = lines.map(|(flow, rates)| (format!("flow {flow}"), steps.line(&rates, steps::mean)));
        let title = format!("Throughput{}{which}", of_point(point));
        let axis = steps.axis("mean");
        panels.push(Panel::new(&title, &axis, "payload (Gb/s)", Content::Lines(lines.collect())));
    }
    Ok(panels)
}

use std::collections::BTreeSet;
use std::fmt::Write as _;

use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use comfy_table::{CellAlignment, ContentArrangement, Table as TextTable};
use serde::Serialize;

use super::store::RunMetadata;
use super::tables::{LOADS, RUNS, Row, Table};
use crate::results::value;
use crate::statistics::{Interval, mean};

const SHOWN: [(&str, &str); 11] = [
    ("flows", "flows"),
    ("flows_done", "done"),
    ("fct_p50_us", "FCT p50 (us)"),
    ("fct_p99_us", "FCT p99 (us)"),
    ("slowdown_p50", "slowdown p50"),
    ("slowdown_p99", "slowdown p99"),
    ("goodput_gbps", "goodput (Gb/s)"),
    ("xoffs", "XOFFs"),
    ("held_us", "held (us)"),
    ("queue_max_kb", "queue max (kB)"),
    ("lost_frames", "lost"),
];

const OF_LOADS: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    pub mean: f64,
    /// Lower end of the 95 % confidence interval; `None` for a single run.
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub runs: usize,
}

impl Estimate {
    pub(super) fn of(values: &[f64]) -> Option<Estimate> {
        let mean = mean(values.iter().copied())?;
        let interval = Interval::of(values);
        Some(Estimate {
            mean,
            low: interval.map(|of| of.low),
            high: interval.map(|of| of.high),
            runs: values.len(),
        })
    }

    pub(super) fn text(&self) -> String {
        let half = self.high.map(|high| high - self.mean).filter(|half| *half > 0.0);
        let number = |number: f64| match number.abs() {
            size if size >= 1_000.0 || number.fract() == 0.0 => format!("{number:.0}"),
            size if size >= 10.0 => format!("{number:.1}"),
            _ => format!("{number:.2}"),
        };
        match half {
            Some(half) => format!("{} ± {}", number(self.mean), number(half)),
            None => number(self.mean),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct PointSummary {
    pub point: String,
    pub measured: serde_json::Map<String, serde_json::Value>,
    pub against_control: serde_json::Map<String, serde_json::Value>,
}

#[derive(Clone, Debug, Serialize)]
pub struct LoadSummary {
    pub point: String,
    pub load: String,
    pub measured: serde_json::Map<String, serde_json::Value>,
    #[serde(skip)]
    cells: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub scenario: String,
    pub about: String,
    pub seeds: Vec<u64>,
    pub control: String,
    /// Summaries of the sweep's points, the control point first.
    pub points: Vec<PointSummary>,
    pub loads: Vec<LoadSummary>,
    #[serde(skip)]
    cells: Vec<Vec<String>>,
    #[serde(skip)]
    compared: Vec<String>,
}

fn over(rows: &[&Row], at: usize) -> Option<Estimate> {
    let values: Vec<f64> = rows.iter().filter_map(|row| value(row, at)).collect();
    Estimate::of(&values)
}

fn json(table: &Table, of: &dyn Fn(usize) -> Option<Estimate>) -> serde_json::Map<String, serde_json::Value> {
    let numbers = table.columns.iter().enumerate().skip(2).filter(|(_, column)| column.unit != "text");
    numbers
        .filter_map(|(at, column)| {
            let value = serde_json::to_value(of(at)?).expect("an estimate must have a JSON form");
            Some((column.name.to_owned(), value))
        })
        .collect()
}

fn by_load(about: &RunMetadata, rows: &[Row]) -> Vec<LoadSummary> {
    let load = LOADS.at("load");
    let mut all = Vec::new();
    for point in &about.points {
        let of_point: Vec<&Row> = rows.iter().filter(|row| row[0] == *point).collect();
        let mut names: Vec<&str> = Vec::new();
        for row in &of_point {
            if !names.contains(&row[load].as_str()) {
                names.push(&row[load]);
            }
        }
        for name in names {
            let own: Vec<&Row> = of_point.iter().copied().filter(|row| row[load] == name).collect();
            let text =
                |(name, _): &(&str, &str)| over(&own, LOADS.at(name)).map_or("-".into(), |of| of.text());
            let place = [point.clone(), name.to_owned()];
            all.push(LoadSummary {
                point: point.clone(),
                load: name.to_owned(),
                measured: json(&LOADS, &|at| over(&own, at)),
                cells: place.into_iter().chain(SHOWN[..OF_LOADS].iter().map(text)).collect(),
            });
        }
    }
    all
}

#[must_use]
pub fn summary(about: &RunMetadata, rows: &[Row], loads: &[Row]) -> Summary {
    let of_point = |point: &String| rows.iter().filter(|row| row[0] == *point).collect::<Vec<&Row>>();
    let control = about.points.first().cloned().unwrap_or_default();
    let controls = of_point(&control);
    let (mut points, mut cells, mut compared) = (Vec::new(), Vec::new(), Vec::new());
    for point in &about.points {
        let rows = of_point(point);
        let measured = |at: usize| over(&rows, at);
        let against = |at: usize| {
            let pairs =
                rows.iter().filter_map(|row| Some((row, controls.iter().find(|of| of[1] == row[1])?)));
            let differences =
                pairs.filter_map(|(row, control)| Some(value::<f64>(row, at)? - value::<f64>(control, at)?));
            Estimate::of(&differences.collect::<Vec<f64>>())
        };
        let is_control = *point == control;
        points.push(PointSummary {
            point: point.clone(),
            measured: json(&RUNS, &measured),
            against_control: if is_control { serde_json::Map::new() } else { json(&RUNS, &against) },
        });
        let text = |(name, _): &(&str, &str)| measured(RUNS.at(name)).map_or("-".into(), |of| of.text());
        cells.push(std::iter::once(point.clone()).chain(SHOWN.iter().map(text)).collect());
        let same = ["seed", "trace"].map(|name| RUNS.at(name));
        let is_same = |row: &&Row| controls.iter().any(|of| same.iter().all(|at| of[*at] == row[*at]));
        if !is_control && !rows.is_empty() && rows.iter().all(is_same) {
            compared.push(format!(
                "  {point}: every frame is as in the control runs; the varied keys have no effect here"
            ));
        } else if !is_control {
            compared.extend(comparison(point, &against));
        }
    }
    let ran: BTreeSet<&str> = rows.iter().map(|row| row[1].as_str()).collect();
    Summary {
        scenario: about.scenario.clone(),
        about: about.about.clone(),
        seeds: about.seeds.iter().copied().filter(|seed| ran.contains(seed.to_string().as_str())).collect(),
        control,
        points,
        loads: by_load(about, loads),
        cells,
        compared,
    }
}

fn comparison(point: &str, against: &dyn Fn(usize) -> Option<Estimate>) -> Option<String> {
    let differences = SHOWN[2..].iter().filter_map(|(name, title)| {
        let of = against(RUNS.at(name))?;
        let (low, high) = of.low.zip(of.high)?;
        (low > 0.0 || high < 0.0)
            .then(|| format!("{title} {}{}", if of.mean > 0.0 { "+" } else { "" }, of.text()))
    });
    let differences: Vec<String> = differences.collect();
    let any = against(RUNS.at("xoffs"))?.low.is_some();
    let none = || "no significant difference".to_owned();
    any.then(|| {
        format!("  {point}: {}", if differences.is_empty() { none() } else { differences.join(", ") })
    })
}

impl Summary {
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.scenario.clone();
        if !self.about.is_empty() {
            let _ = write!(text, ": {}", self.about);
        }
        let seeds = match &self.seeds[..] {
            [seed] => format!("seed {seed}"),
            [first, .., last] => {
                format!("{} seeds, {first} to {last}; mean ± half of the 95 % interval", self.seeds.len())
            }
            [] => "no seed".into(),
        };
        let _ = writeln!(text, "\n{seeds}");
        let has_points = self.points.len() > 1;
        let skip = usize::from(!has_points);
        let _ = writeln!(text, "{}", table(&["point"], &SHOWN, self.cells.iter(), skip));
        if self.loads.iter().any(|of| of.load != self.loads[0].load) {
            let rows = self.loads.iter().map(|of| &of.cells);
            let _ = writeln!(text, "{}", table(&["point", "load"], &SHOWN[..OF_LOADS], rows, skip));
        }
        if has_points {
            let _ = writeln!(
                text,
                "control: {}; other points differ from the control only in these keys",
                self.control
            );
        }
        for line in &self.compared {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

fn table<'a>(
    words: &[&str],
    numbers: &[(&str, &str)],
    rows: impl Iterator<Item = &'a Vec<String>>,
    skip: usize,
) -> TextTable {
    let mut table = TextTable::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(words.iter().chain(numbers.iter().map(|(_, title)| title)).skip(skip));
    rows.for_each(|row| _ = table.add_row(row.iter().skip(skip)));
    for column in table.column_iter_mut().skip(words.len() - skip) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

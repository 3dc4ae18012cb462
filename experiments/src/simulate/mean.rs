//! Statistics of a result column over seeds: mean with 95 % interval, and difference to the control, seed by seed.
//!
//! For a seed without rows, a sum is zero, because many tables list only events.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use comfy_table::Table as TextTable;
use comfy_table::presets::ASCII_MARKDOWN;
use miette::miette;
use serde::Serialize;

use super::job::Job;
use super::store::{self, RunMetadata};
use super::summary::Estimate;
use super::tables::{DROPS, LINKS, RUNS, SWITCHES, TABLES, TEXT, Table};
use crate::statistics::{self, quantile, sorted};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    Mean,
    Sum,
    /// Percentile of the rows' values, 0 to 100.
    Percentile(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub column: String,
    pub wanted: CellCondition,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CellCondition {
    Is(String),
    Below(f64),
    AtLeast(f64),
}

impl CellCondition {
    fn is_met(&self, cell: &str) -> bool {
        match self {
            CellCondition::Is(text) => cell == text,
            CellCondition::Below(limit) => cell.parse::<f64>().is_ok_and(|number| number < *limit),
            CellCondition::AtLeast(limit) => cell.parse::<f64>().is_ok_and(|number| number >= *limit),
        }
    }
}

#[derive(Debug)]
pub struct StatisticQuery<'a> {
    pub table: &'a str,
    pub column: &'a str,
    pub by: &'a [String],
    pub only: &'a [Condition],
    pub take: Statistic,
}

#[derive(Clone, Debug, Serialize)]
pub struct GroupStatistic {
    pub point: String,
    pub of: Vec<String>,
    pub measured: Estimate,
    /// Difference to the sweep's control point in percent, seed by seed; `None` if that point has no value.
    pub against_control_percent: Option<Estimate>,
    pub without: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct Statistics {
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    by: Vec<String>,
    pub unit: &'static str,
    /// Number of runs without results: runs of other shards, and interrupted runs.
    pub missing_runs: usize,
    pub answers: Vec<GroupStatistic>,
}

struct Group {
    of: Vec<String>,
    by_run: BTreeMap<Job, Vec<f64>>,
    without: Vec<usize>,
}

impl Group {
    fn new(of: Vec<String>, about: &RunMetadata) -> Group {
        Group { of, by_run: BTreeMap::new(), without: vec![0; about.points.len()] }
    }
}

struct SelectedRows {
    groups: Vec<Group>,
    runs: BTreeSet<Job>,
    rows: usize,
    selected: usize,
}

fn column_index(table: &Table, name: &str) -> miette::Result<usize> {
    let names = || table.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ");
    let found = table.columns.iter().position(|column| column.name == name);
    found.ok_or_else(|| miette!("table `{}` has no column `{name}`; its columns are {}", table.name, names()))
}

impl SelectedRows {
    fn of(
        directory: &Path,
        about: &RunMetadata,
        table: &Table,
        question: &StatisticQuery<'_>,
    ) -> miette::Result<SelectedRows> {
        let column = column_index(table, question.column)?;
        if table.columns[column].unit == TEXT {
            let numbers: Vec<&str> =
                table.columns.iter().filter(|column| column.unit != TEXT).map(|column| column.name).collect();
            return Err(miette!(
                help = format!("choose a column of numbers: {}", numbers.join(", ")),
                "column `{}.{}` is text, so it has no mean",
                table.name,
                question.column
            ));
        }
        let by =
            question.by.iter().map(|name| column_index(table, name)).collect::<miette::Result<Vec<_>>>()?;
        let only = question.only.iter().map(|of| Ok((column_index(table, &of.column)?, &of.wanted)));
        let only = only.collect::<miette::Result<Vec<_>>>()?;
        let mut found = SelectedRows { groups: Vec::new(), runs: BTreeSet::new(), rows: 0, selected: 0 };
        store::rows(directory, &RUNS, |row| found.runs.extend(about.job(&row)))?;
        store::rows(directory, table, |row| {
            let Some(job) = about.job(&row).filter(|job| found.runs.contains(job)) else { return };
            found.rows += 1;
            if only.iter().all(|(at, wanted)| wanted.is_met(&row[*at])) {
                found.selected += 1;
                let of = by.iter().map(|at| row[*at].clone()).collect();
                found.take(job, of, row[column].parse().ok(), about);
            }
        })?;
        let lists_all_events = [&DROPS, &SWITCHES, &LINKS].iter().any(|of| of.name == table.name);
        if found.groups.is_empty() && by.is_empty() && lists_all_events {
            found.groups.push(Group::new(Vec::new(), about)); // no events, so the sum is zero
        }
        Ok(found)
    }

    fn take(&mut self, job: Job, of: Vec<String>, number: Option<f64>, about: &RunMetadata) {
        let existing = self.groups.iter().rposition(|group| group.of == of);
        let at = existing.unwrap_or_else(|| {
            self.groups.push(Group::new(of, about));
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        group.by_run.entry(job).or_default().extend(number);
        group.without[job.point] += usize::from(number.is_none());
    }

    fn numbers(&self, group: &Group, point: usize, take: Statistic, about: &RunMetadata) -> Vec<Option<f64>> {
        let of = |&seed: &u64| {
            let job = Job { point, seed };
            match group.by_run.get(&job) {
                Some(values) => take.of(values),
                None => (take == Statistic::Sum && self.runs.contains(&job)).then_some(0.0),
            }
        };
        about.seeds.iter().map(of).collect()
    }
}

impl Statistic {
    fn of(self, values: &[f64]) -> Option<f64> {
        let values = values.iter().copied();
        match self {
            Statistic::Mean => statistics::mean(values),
            Statistic::Sum => (values.len() > 0).then(|| values.sum()),
            Statistic::Percentile(percent) => quantile(&sorted(values), percent),
        }
    }

    fn name(self) -> String {
        match self {
            Statistic::Mean => "mean".into(),
            Statistic::Sum => "sum".into(),
            Statistic::Percentile(0) => "least".into(),
            Statistic::Percentile(100) => "most".into(),
            Statistic::Percentile(percent) => format!("p{percent}"),
        }
    }
}

fn no_number_error(table: &Table, column: &str, found: &SelectedRows) -> miette::Report {
    let of = format!("there is no number for `{}.{column}`", table.name);
    if found.runs.is_empty() {
        return miette!(
            help = "run the scenario again, with another --out",
            "{of}: none of its runs has ended"
        );
    }
    match (found.rows, found.selected) {
        (0, _) => {
            let help = match table.name {
                "queues" | "throughput" => "set `output.sample` to a time: this table has one row per sample",
                "pauses" => "this table lists pauses, unless `output.pauses` is false",
                _ => "this table lists events, and none happened in these runs",
            };
            miette!(help = help, "{of}: the table has no rows")
        }
        (all, 0) => {
            miette!(help = "select other rows by --where", "{of}: none of its {all} rows meets --where")
        }
        (_, selected) => miette!(
            help = "choose another column, or other rows by --where",
            "{of}: none of the {selected} selected rows has a number in that column"
        ),
    }
}

pub fn mean(directory: &Path, question: &StatisticQuery<'_>) -> miette::Result<Statistics> {
    let (about, _) = store::about(directory)?;
    let table = TABLES.iter().find(|table| table.name == question.table).ok_or_else(|| {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        miette!("there is no table `{}`; tables are {}", question.table, names.join(", "))
    })?;
    let found = SelectedRows::of(directory, &about, table, question)?;
    let answer = |(point, group): (usize, &Group)| {
        let own = found.numbers(group, point, question.take, &about);
        let measured = Estimate::of(&own.iter().copied().flatten().collect::<Vec<f64>>())?;
        let control = found.numbers(group, 0, question.take, &about);
        let more = |(own, control): (Option<f64>, Option<f64>)| {
            let control = control.filter(|control| *control != 0.0)?;
            Some(100.0 * (own? / control - 1.0))
        };
        let against: Vec<f64> = own.into_iter().zip(control).filter_map(more).collect();
        Some(GroupStatistic {
            point: about.points[point].clone(),
            of: group.of.clone(),
            measured,
            against_control_percent: Estimate::of(&against).filter(|_| point > 0),
            without: group.without[point],
        })
    };
    let column = &table.columns[column_index(table, question.column)?];
    let all = (0..about.points.len()).flat_map(|point| found.groups.iter().map(move |group| (point, group)));
    let answers: Vec<GroupStatistic> = all.filter_map(answer).collect();
    if answers.is_empty() {
        return Err(no_number_error(table, column.name, &found));
    }
    Ok(Statistics {
        title: format!("{}.{}, {}", table.name, column.name, question.take.name()),
        by: question.by.to_vec(),
        unit: column.unit,
        missing_runs: about.runs() - found.runs.len(),
        answers,
    })
}

impl Statistics {
    /// Formats a Markdown table, with times in microseconds and sizes in kB.
    #[must_use]
    pub fn text(&self) -> String {
        let (unit, by) = match self.unit {
            "ns" => ("us", 1e3),
            "bytes" => ("kB", 1e3),
            unit => (unit, 1.0),
        };
        let scaled = |of: &Estimate| {
            let [low, high] = [of.low, of.high].map(|end| end.map(|end| end / by));
            Estimate { mean: of.mean / by, low, high, runs: of.runs }.text()
        };
        let mut table = TextTable::new();
        table.load_preset(ASCII_MARKDOWN);
        let title = if unit.is_empty() { self.title.clone() } else { format!("{} ({unit})", self.title) };
        let heads = ["point".to_owned()].into_iter().chain(self.by.clone());
        table.set_header(heads.chain([
            title,
            "difference to the control (%)".into(),
            "seeds".into(),
            "without".into(),
        ]));
        for answer in &self.answers {
            let more = answer.against_control_percent.as_ref().map_or(String::new(), Estimate::text);
            let cells = [answer.point.clone()].into_iter().chain(answer.of.clone());
            let counts = [answer.measured.runs.to_string(), answer.without.to_string()];
            table.add_row(cells.chain([scaled(&answer.measured), more]).chain(counts));
        }
        format!("{table}\n")
    }
}

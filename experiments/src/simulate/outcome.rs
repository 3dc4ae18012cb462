//! What became of flows, those of a run or of one of its loads: the cells that both tables have.

use xoff_sim::Picos;
use xoff_sim::flows::{FlowRecord, Query};

use super::tables::decimal;

/// Of flows and queries that are counted, and the payload that came in that span.
#[must_use]
pub fn outcome<'a>(
    flows: impl Iterator<Item = &'a FlowRecord>,
    queries: impl Iterator<Item = &'a Query>,
    payload: u64,
    span: Picos,
) -> [String; 12] {
    let flows: Vec<&FlowRecord> = flows.collect();
    let queries: Vec<&Query> = queries.collect();
    let ended = || flows.iter().filter(|record| record.finish.is_some());
    let took = sorted(ended().filter_map(|record| Some(record.took()?.0 as f64 / 1e6)));
    let slow = sorted(ended().filter_map(|record| record.slowdown()));
    [
        flows.len().to_string(),
        ended().count().to_string(),
        queries.len().to_string(),
        queries.iter().filter(|query| query.is_met()).count().to_string(),
        mean(&took),
        percentile(&took, 50),
        percentile(&took, 99),
        mean(&slow),
        percentile(&slow, 50),
        percentile(&slow, 95),
        percentile(&slow, 99),
        decimal(payload as f64 * 8e3 / span.0.max(1) as f64),
    ]
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn mean(values: &[f64]) -> String {
    match values.len() {
        0 => String::new(),
        count => decimal(values.iter().sum::<f64>() / count as f64),
    }
}

fn percentile(sorted: &[f64], percent: usize) -> String {
    quantile(sorted, percent).map_or(String::new(), decimal)
}

/// Of sorted values; between two it lies on the straight line from one to the other, as quartiles do elsewhere.
#[must_use]
pub fn quantile(sorted: &[f64], percent: usize) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let (below, rest) = (last * percent / 100, last * percent % 100);
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * rest as f64 / 100.0)
}

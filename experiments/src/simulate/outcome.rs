//! What became of flows, those of a run or of one of its loads: the cells that both tables have.

use xoff_sim::Picos;
use xoff_sim::flows::{FlowRecord, Query};

use super::tables::decimal;
use crate::statistics::{mean, quantile, sorted};

/// Of flows and queries that are counted, and the payload that came in that span.
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
        cell(mean(took.iter().copied())),
        cell(quantile(&took, 50)),
        cell(quantile(&took, 99)),
        cell(mean(slow.iter().copied())),
        cell(quantile(&slow, 50)),
        cell(quantile(&slow, 95)),
        cell(quantile(&slow, 99)),
        decimal(payload as f64 * 8e3 / span.0.max(1) as f64),
    ]
}

fn cell(number: Option<f64>) -> String {
    number.map_or(String::new(), decimal)
}

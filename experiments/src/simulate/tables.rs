//! Tables of a run's results.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use xoff_sim::Picos;

pub use crate::results::{Row, TEXT, Table};

/// Columns of a table whose rows belong to a run.
macro_rules! columns {
    ($($rest:tt)*) => {
        crate::results::columns! {
            "point", TEXT, "the point of the sweep; empty without one";
            "seed", "", "the seed of the run";
            $($rest)*
        }
    };
}

pub const FLOWS: Table = Table {
    name: "flows",
    columns: columns! {
        "flow", "", "its number in the run";
        "load", TEXT, "the load that it is of";
        "from", "", "the number of the host that sends";
        "to", "", "the number of the host that receives";
        "class", "", "its class";
        "size_bytes", "bytes", "what it carries, headers left out";
        "start_ns", "ns", "when its first frame might leave";
        "finish_ns", "ns", "when its last byte was at the receiver; empty: it had not ended";
        "fct_ns", "ns", "from start to finish; empty: it had not ended";
        "ideal_ns", "ns", "the same if it were alone in the fabric";
        "slowdown", "1", "fct_ns / ideal_ns; empty: it had not ended";
        "sent_frames", "frames", "frames of data sent, those sent again too";
        "resent_frames", "frames", "frames of data that had been sent before";
        "timeouts", "", "how often its sender waited in vain";
        "marked_frames", "frames", "frames that came with a mark of congestion";
        "cnps", "frames", "congestion notifications for it: sent by its receiver, or come to its sender (QCN)";
        "out_of_order_frames", "frames", "frames that did not come right after the one before them";
        "counted", "0 or 1", "whether it began after warm_up and within the run, and is in the summary";
    },
};

/// A row for each queue that was not empty at a sample.
pub const QUEUES: Table = Table {
    name: "queues",
    columns: columns! {
        "time_ns", "ns", "when";
        "switch", "", "the number of the switch";
        "port", "", "the number of its port";
        "class", "", "the class";
        "egress_bytes", "bytes", "what waits to leave by the port";
        "ingress_bytes", "bytes", "what came in by the port and has not left";
        "headroom_bytes", "bytes", "the part of it beyond XOFF";
    },
};

/// A row for each pause that a switch or slow receiver requested.
pub const PAUSES: Table = Table {
    name: "pauses",
    columns: columns! {
        "start_ns", "ns", "when the XOFF began to leave";
        "end_ns", "ns", "when the XON did, or the link was lost; empty: not within the run";
        "switch", "", "the number of the switch that asks; empty: a slow receiver does, the host at the other end of peer's link";
        "port", "", "the number of its port; empty: a slow receiver asks";
        "class", "", "the class that is to stop";
        "peer", TEXT, "who is to stop: h3 is host 3, s1p2 is port 2 of switch 1";
        "trigger", TEXT, "what made the policy ask; slow_receiver: no policy, but a host that has not taken what came";
        "cause_class", "", "the class whose queues are full";
        "culprit_port", "", "the port of the egress queue that is congested; empty: none is known";
        "relayed", "0 or 1", "whether that queue was held by its own peer";
        "refreshes", "frames", "how often the XOFF was repeated";
    },
};

/// A row for each active class of each port.
pub const CLASSES: Table = Table {
    name: "classes",
    columns: columns! {
        "switch", "", "the number of the switch";
        "kind", TEXT, "its kind";
        "port", "", "the number of its port";
        "peer", TEXT, "who is at the other end: h3 is host 3, s1p2 is port 2 of switch 1";
        "class", "", "the class";
        "rx_frames", "frames", "what came in";
        "rx_bytes", "bytes", "the same, with FCS";
        "tx_frames", "frames", "what left";
        "tx_bytes", "bytes", "the same, with FCS";
        "dropped_frames", "frames", "what was dropped, for whatever reason";
        "marked_frames", "frames", "what left with a mark of congestion";
        "xoff_sent", "frames", "pauses asked for";
        "xon_sent", "frames", "pauses ended";
        "refreshes_sent", "frames", "XOFF repeated";
        "xoff_received", "frames", "XOFF that came, repeated ones too";
        "held_ns", "ns", "how long the peer was held";
        "paused_ns", "ns", "how long the class was held by the peer";
        "ingress_max_bytes", "bytes", "most that had come in and not left";
        "headroom_max_bytes", "bytes", "most of it beyond XOFF";
        "egress_max_bytes", "bytes", "most that waited to leave";
        "egress_mean_bytes", "bytes", "the same, mean of the samples after warm_up; empty without any";
    },
};

/// A row for each class of a port and reason of drops.
pub const DROPS: Table = Table {
    name: "drops",
    columns: columns! {
        "switch", "", "the number of the switch; empty: a slow receiver has dropped them";
        "kind", TEXT, "its kind; host: a slow receiver";
        "port", "", "the number of its port; empty: a slow receiver has dropped them";
        "peer", TEXT, "who is at the other end: h3 is host 3, s1p2 is port 2 of switch 1; of a slow receiver: itself";
        "class", "", "the class";
        "reason", TEXT, "the reason, as metrics have it; slow_receiver: no room at a host that has not taken what came";
        "dropped_frames", "frames", "what was dropped for it; over all reasons of a port this is dropped_frames of `classes`";
    },
};

/// A row for each switch with faults or losses.
pub const SWITCHES: Table = Table {
    name: "switches",
    columns: columns! {
        "switch", "", "the number of the switch";
        "kind", TEXT, "its kind";
        "stalls", "", "how often its driver looked at nothing for a while";
        "stalled_ns", "ns", "how long, all together; a stall that has begun is counted whole";
        "unseen_frames", "frames", "frames that came when a port's ring was full, or the packet memory";
        "restarts", "", "how often it began anew";
        "restart_frames", "frames", "frames that were in it when it ended, or came before it began anew";
    },
};

/// A row for each end of a link with lost, late or damaged frames.
pub const LINKS: Table = Table {
    name: "links",
    columns: columns! {
        "end", TEXT, "the end: h3 is host 3, s1p2 is port 2 of switch 1";
        "lost_frames", "frames", "frames that did not come, MAC control left out";
        "lost_control_frames", "frames", "MAC control that did not come";
        "late_control_frames", "frames", "MAC control that was to come later than it should, or again";
        "harmed_control_frames", "frames", "MAC control that came with a byte changed";
    },
};

/// A row for each of the first flows, at each sample.
pub const THROUGHPUT: Table = Table {
    name: "throughput",
    columns: columns! {
        "time_ns", "ns", "when";
        "flow", "", "its number in the run";
        "received_bytes", "bytes", "payload that had come by then and was of use";
        "rate_mbps", "Mb/s", "payload since the sample before";
    },
};

/// A row for each run; the source of the summary.
pub const RUNS: Table = Table {
    name: "runs",
    columns: columns! {
        "duration_us", "us", "how long it ran";
        "flows", "flows", "flows that began after warm_up and within the run";
        "flows_done", "flows", "those that ended";
        "queries", "queries", "queries of incasts that began after warm_up and within the run";
        "queries_met", "queries", "those that ended, within their deadline where they have one";
        "fct_mean_us", "us", "completion time of flows, mean";
        "fct_p50_us", "us", "the same, median";
        "fct_p99_us", "us", "the same, 99th percentile";
        "slowdown_mean", "1", "completion time over that of the flow alone, mean";
        "slowdown_p50", "1", "the same, median";
        "slowdown_p95", "1", "the same, 95th percentile";
        "slowdown_p99", "1", "the same, 99th percentile";
        "goodput_gbps", "Gb/s", "payload that came and was of use, of all flows together, over the time after warm_up";
        "xoffs", "frames", "pauses asked for after warm_up";
        "held_us", "us", "how long peers were held after warm_up, all ports and classes together";
        "lost_frames", "frames", "frames lost after warm_up: dropped, lost on a link (except MAC control), lost before a switch whose receive ring was full, lost in a restart, or at a slow receiver without room";
        "marked_frames", "frames", "frames marked after warm_up";
        "cnps", "frames", "congestion notifications";
        "resent_frames", "frames", "frames sent again";
        "timeouts", "", "how often senders waited in vain";
        "queue_max_kb", "kB", "the longest egress queue at any time";
        "headroom_max_kb", "kB", "most beyond XOFF at any time";
        "stuck_kb", "kB", "what waits in switches at the end, in queues that nothing has left for 1 ms or longer";
        "stuck_since_us", "us", "since when the first of them has been so, to 100 us; empty: there is none";
        "hops", "frames", "frames over links, all told";
        "trace", TEXT, "one number for all that happened: the same for the same seed";
    },
};

/// A row for each load of each run.
pub const LOADS: Table = Table {
    name: "loads",
    columns: columns! {
        "load", TEXT, "its name";
        "flows", "flows", "flows that began after warm_up and within the run";
        "flows_done", "flows", "those that ended";
        "queries", "queries", "queries that began after warm_up and within the run";
        "queries_met", "queries", "those that ended, within their deadline where they have one";
        "fct_mean_us", "us", "completion time of flows, mean";
        "fct_p50_us", "us", "the same, median";
        "fct_p99_us", "us", "the same, 99th percentile";
        "slowdown_mean", "1", "completion time over that of the flow alone, mean";
        "slowdown_p50", "1", "the same, median";
        "slowdown_p95", "1", "the same, 95th percentile";
        "slowdown_p99", "1", "the same, 99th percentile";
        "goodput_gbps", "Gb/s", "payload that came and was of use, over the time after warm_up";
    },
};

pub const TABLES: [&Table; 10] =
    [&RUNS, &FLOWS, &CLASSES, &DROPS, &PAUSES, &QUEUES, &THROUGHPUT, &LOADS, &SWITCHES, &LINKS];

/// Formats a time in nanoseconds, to the picosecond.
pub fn nanos(time: Picos) -> String {
    match time.0 % 1_000 {
        0 => (time.0 / 1_000).to_string(),
        rest => format!("{}.{rest:03}", time.0 / 1_000),
    }
}

/// Formats a number without trailing zeros.
pub fn decimal(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Rows of each table, and additional files, of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    tables: [Vec<Row>; TABLES.len()],
    /// Files in the format of another simulator: names without `.txt`, and texts.
    pub texts: Vec<(&'static str, String)>,
    /// Events after the end of the run.
    pub unreached: BTreeSet<String>,
}

fn table_index(table: &Table) -> usize {
    TABLES.iter().position(|of| of.name == table.name).expect("rows are of one of TABLES")
}

impl Index<&Table> for Rows {
    type Output = Vec<Row>;

    fn index(&self, table: &Table) -> &Vec<Row> {
        &self.tables[table_index(table)]
    }
}

impl IndexMut<&Table> for Rows {
    fn index_mut(&mut self, table: &Table) -> &mut Vec<Row> {
        &mut self.tables[table_index(table)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_picoseconds_when_needed() {
        assert_eq!([0, 1_000, 1_001, 999].map(|time| nanos(Picos(time))), ["0", "1", "1.001", "0.999"]);
        assert_eq!([1.0, 0.5, 1.0 / 3.0].map(decimal), ["1", "0.5", "0.333333"]);
    }

    #[test]
    fn json_row_has_numbers_and_nulls() {
        let mut row: Row = THROUGHPUT.columns.iter().map(|_| "1".to_owned()).collect();
        row[0] = "a\"b".into();
        row[5] = String::new();
        let value: serde_json::Value = serde_json::from_str(&THROUGHPUT.json(&row)).expect("JSON");
        assert_eq!(value["point"], "a\"b");
        assert_eq!((&value["seed"], &value["rate_mbps"]), (&1.into(), &serde_json::Value::Null));
    }
}

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use xoff_sim::Picos;

pub use crate::results::{Row, TEXT, Table};

macro_rules! columns {
    ($($rest:tt)*) => {
        crate::results::columns! {
            "point", TEXT, "point of the sweep, if any";
            "seed", "", "seed of the run";
            $($rest)*
        }
    };
}

pub const FLOWS: Table = Table {
    name: "flows",
    columns: columns! {
        "flow", "", "number of the flow in the run";
        "load", TEXT, "name of the flow's load";
        "from", "", "number of the sending host";
        "to", "", "number of the receiving host";
        "class", "", "class of the flow";
        "size_bytes", "bytes", "payload, without headers";
        "start_ns", "ns", "time at which the first frame may leave";
        "finish_ns", "ns", "time at which the last byte arrived; empty if unfinished";
        "acked_ns", "ns", "TCP: time at which the sender received the last acknowledgement; empty if unfinished";
        "fct_ns", "ns", "time from start to finish; empty if unfinished";
        "ideal_ns", "ns", "completion time of the flow if alone, at line rate; TCP: without handshake and slow start";
        "slowdown", "1", "fct_ns / ideal_ns; empty if the flow is unfinished";
        "sent_frames", "frames", "data frames sent, retransmissions included";
        "resent_frames", "frames", "data frames retransmitted";
        "timeouts", "", "retransmission timeouts of the sender";
        "marked_frames", "frames", "frames received with a congestion mark";
        "cnps", "frames", "congestion notifications sent by the receiver, or received by the sender (QCN)";
        "out_of_order_frames", "frames", "frames received out of order";
        "counted", "0 or 1", "1 if the flow began after warm_up and within the run, so that the summary includes it";
    },
};

pub const QUEUES: Table = Table {
    name: "queues",
    columns: columns! {
        "time_ns", "ns", "time of the sample";
        "switch", "", "number of the switch";
        "port", "", "number of the port";
        "class", "", "class";
        "egress_bytes", "bytes", "bytes queued for transmission";
        "ingress_bytes", "bytes", "received bytes that have not left the switch";
        "headroom_bytes", "bytes", "bytes of ingress_bytes beyond XOFF";
    },
};

pub const PAUSES: Table = Table {
    name: "pauses",
    columns: columns! {
        "start_ns", "ns", "time at which the XOFF began to leave";
        "end_ns", "ns", "time at which the XON began to leave, or the link was lost; empty if the pause outlasted the run";
        "switch", "", "number of the switch that sent the pause; empty if a slow receiver (the host linked to the port in peer) sent it";
        "port", "", "number of the port that sent the pause; empty for a slow receiver";
        "class", "", "paused class";
        "peer", TEXT, "paused sender: h3 is host 3, s1p2 is port 2 of switch 1";
        "trigger", TEXT, "trigger of the policy, or slow_receiver: a host with full receive buffers";
        "cause_class", "", "class of the congested queues";
        "culprit_port", "", "port of the congested egress queue; empty if unknown";
        "relayed", "0 or 1", "1 if the congested egress queue was paused by its own peer";
        "refreshes", "frames", "repetitions of the XOFF";
    },
};

pub const CLASSES: Table = Table {
    name: "classes",
    columns: columns! {
        "switch", "", "number of the switch";
        "kind", TEXT, "kind of the switch";
        "port", "", "number of the port";
        "peer", TEXT, "other end of the link: h3 is host 3, s1p2 is port 2 of switch 1";
        "class", "", "class";
        "rx_frames", "frames", "frames received";
        "rx_bytes", "bytes", "bytes received, with FCS";
        "tx_frames", "frames", "frames sent";
        "tx_bytes", "bytes", "bytes sent, with FCS";
        "dropped_frames", "frames", "frames dropped, for any reason";
        "marked_frames", "frames", "frames sent with a congestion mark";
        "xoff_sent", "frames", "pauses sent";
        "xon_sent", "frames", "pauses ended by XON";
        "refreshes_sent", "frames", "repetitions of XOFF sent";
        "xoff_received", "frames", "XOFFs received, repetitions included";
        "held_ns", "ns", "time in which the peer was paused";
        "paused_ns", "ns", "time in which the peer paused the class";
        "ingress_max_bytes", "bytes", "maximum of received bytes that have not left the switch";
        "headroom_max_bytes", "bytes", "maximum headroom used: bytes of an ingress queue beyond XOFF";
        "egress_max_bytes", "bytes", "maximum length of the egress queue";
        "egress_mean_bytes", "bytes", "mean length of the egress queue in samples after warm_up; empty without samples";
        "flow_in_port_mean_bytes", "bytes", "mean bytes of the port's flow_in_port_tab, sampled after warm_up while the class had OFC";
        "flow_in_port_max_bytes", "bytes", "maximum bytes of the port's flow_in_port_tab, sampled after warm_up while the class had OFC";
        "congested_flow_mean_bytes", "bytes", "mean bytes of the port's congested_flow_tab, sampled after warm_up while the class had OFC";
        "congested_flow_max_bytes", "bytes", "maximum bytes of the port's congested_flow_tab, sampled after warm_up while the class had OFC";
        "pause_frame_mean_bytes", "bytes", "mean bytes of the port's pause_frame_tab, sampled after warm_up while the class had OFC";
        "pause_frame_max_bytes", "bytes", "maximum bytes of the port's pause_frame_tab, sampled after warm_up while the class had OFC";
    },
};

pub const DROPS: Table = Table {
    name: "drops",
    columns: columns! {
        "switch", "", "number of the switch; empty for a slow receiver";
        "kind", TEXT, "kind of the switch; host for a slow receiver";
        "port", "", "number of the port; empty for a slow receiver";
        "peer", TEXT, "other end of the link: h3 is host 3, s1p2 is port 2 of switch 1; for a slow receiver the host itself";
        "class", "", "class";
        "reason", TEXT, "drop reason, as in metrics, or slow_receiver: full receive buffers of a host";
        "dropped_frames", "frames", "frames dropped for this reason; the sum over all reasons is dropped_frames of `classes`";
    },
};

pub const SWITCHES: Table = Table {
    name: "switches",
    columns: columns! {
        "switch", "", "number of the switch";
        "kind", TEXT, "kind of the switch";
        "stalls", "", "stalls of the switch's driver";
        "stalled_ns", "ns", "total duration of stalls; a stall that has begun counts in full";
        "unseen_frames", "frames", "frames lost because a receive ring or the packet memory was full";
        "restarts", "", "restarts of the switch";
        "restart_frames", "frames", "frames lost in restarts: queued when the switch ended, or received before it started again";
    },
};

pub const LINKS: Table = Table {
    name: "links",
    columns: columns! {
        "end", TEXT, "receiving end: h3 is host 3, s1p2 is port 2 of switch 1";
        "lost_frames", "frames", "frames lost, without MAC control";
        "lost_control_frames", "frames", "MAC control frames lost";
        "late_control_frames", "frames", "MAC control frames delayed or duplicated";
        "harmed_control_frames", "frames", "MAC control frames received with a changed byte";
    },
};

pub const THROUGHPUT: Table = Table {
    name: "throughput",
    columns: columns! {
        "time_ns", "ns", "time of the sample";
        "flow", "", "number of the flow in the run";
        "received_bytes", "bytes", "useful payload received so far";
        "rate_mbps", "Mb/s", "rate of payload since the previous sample";
    },
};

pub const RUNS: Table = Table {
    name: "runs",
    columns: columns! {
        "duration_us", "us", "length of the run";
        "flows", "flows", "flows begun after warm_up and within the run";
        "flows_done", "flows", "flows that finished";
        "queries", "queries", "incast queries begun after warm_up and within the run";
        "queries_met", "queries", "queries that finished, and met their deadline if they have one";
        "fct_mean_us", "us", "mean completion time of flows";
        "fct_p50_us", "us", "median completion time";
        "fct_p99_us", "us", "99th percentile of completion times";
        "slowdown_mean", "1", "mean slowdown: completion time as a multiple of that of the flow alone";
        "slowdown_p50", "1", "median slowdown";
        "slowdown_p95", "1", "95th percentile of slowdowns";
        "slowdown_p99", "1", "99th percentile of slowdowns";
        "goodput_gbps", "Gb/s", "useful payload of all flows divided by the time after warm_up";
        "xoffs", "frames", "pauses sent after warm_up";
        "held_us", "us", "time in pauses after warm_up, summed over ports and classes";
        "lost_frames", "frames", "frames lost after warm_up: dropped, lost on a link (except MAC control), at a full receive ring, in a restart, or at a slow receiver";
        "marked_frames", "frames", "frames marked after warm_up";
        "cnps", "frames", "congestion notifications";
        "resent_frames", "frames", "frames retransmitted";
        "timeouts", "", "retransmission timeouts";
        "queue_max_kb", "kB", "maximum length of an egress queue";
        "headroom_max_kb", "kB", "maximum headroom used: bytes of an ingress queue beyond XOFF";
        "stuck_kb", "kB", "bytes queued at the end in queues that have sent nothing for 1 ms or longer";
        "stuck_since_us", "us", "time since which the first stuck queue has sent nothing, in steps of 100 us; empty if none is stuck";
        "hops", "frames", "transmissions of frames over links";
        "trace", TEXT, "hash of all events, equal in runs with equal seeds";
    },
};

pub const LOADS: Table = Table {
    name: "loads",
    columns: columns! {
        "load", TEXT, "name of the load";
        "flows", "flows", "flows begun after warm_up and within the run";
        "flows_done", "flows", "flows that finished";
        "queries", "queries", "queries begun after warm_up and within the run";
        "queries_met", "queries", "queries that finished, and met their deadline if they have one";
        "fct_mean_us", "us", "mean completion time of flows";
        "fct_p50_us", "us", "median completion time";
        "fct_p99_us", "us", "99th percentile of completion times";
        "slowdown_mean", "1", "mean slowdown: completion time as a multiple of that of the flow alone";
        "slowdown_p50", "1", "median slowdown";
        "slowdown_p95", "1", "95th percentile of slowdowns";
        "slowdown_p99", "1", "99th percentile of slowdowns";
        "goodput_gbps", "Gb/s", "useful payload divided by the time after warm_up";
    },
};

pub const TABLES: [&Table; 10] =
    [&RUNS, &FLOWS, &CLASSES, &DROPS, &PAUSES, &QUEUES, &THROUGHPUT, &LOADS, &SWITCHES, &LINKS];

pub fn nanos(time: Picos) -> String {
    match time.0 % 1_000 {
        0 => (time.0 / 1_000).to_string(),
        rest => format!("{}.{rest:03}", time.0 / 1_000),
    }
}

pub fn decimal(number: f64) -> String {
    let text = format!("{number:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    tables: [Vec<Row>; TABLES.len()],
    pub texts: Vec<(&'static str, String)>,
    pub unreached: BTreeSet<String>,
}

fn table_index(table: &Table) -> usize {
    TABLES.iter().position(|of| of.name == table.name).expect("the table must be one of TABLES")
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
    fn result_times_have_picoseconds_only_when_needed() {
        assert_eq!([0, 1_000, 1_001, 999].map(|time| nanos(Picos(time))), ["0", "1", "1.001", "0.999"]);
        assert_eq!([1.0, 0.5, 1.0 / 3.0].map(decimal), ["1", "0.5", "0.333333"]);
    }

    #[test]
    fn json_result_row_has_numbers_and_nulls() {
        let mut row: Row = THROUGHPUT.columns.iter().map(|_| "1".to_owned()).collect();
        row[0] = "a\"b".into();
        row[5] = String::new();
        let value: serde_json::Value = serde_json::from_str(&THROUGHPUT.json(&row)).expect("JSON");
        assert_eq!(value["point"], "a\"b");
        assert_eq!((&value["seed"], &value["rate_mbps"]), (&1.into(), &serde_json::Value::Null));
    }
}

//! Parts of docs/reproduction.md that take seconds, run again and compared exactly.

use super::*;

const PAGE: &str = include_str!("../../../../docs/reproduction.md");

#[test]
fn published_completion_times_of_ofc_are_reproduced() {
    let place = tempfile::tempdir().unwrap();
    let (out, file) = (place.path().join("out"), path("ofc-fig2"));
    let source = source("ofc-fig2", &["policy=ofc", "output.sample=off", "output.pauses=false"]);
    let request = Request {
        source: &source,
        path: &file,
        seeds: Some((1, 10)),
        shard: None,
        threads: 2,
        out: Some(&out),
    };
    run(&request, &mut |_| ()).unwrap();
    let by = ["load".to_owned()];
    let take = Statistic::Percentile(100);
    let query = StatisticQuery { table: "flows", column: "fct_ns", by: &by, only: &[], take };
    let answers = mean(&out, &query).unwrap().answers;
    for flow in ["F0", "F1"] {
        let measured = answers.iter().find(|answer| answer.of[0] == flow).unwrap().measured;
        let [mean, high] = [measured.mean, measured.high.unwrap()].map(|ns| ns / 1e3);
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| OFC, {flow} |"))).unwrap();
        let cell = format!("| {mean:.0}±{:.0} |", high - mean);
        assert!(row.contains(&cell), "a run gives {cell}, but docs/reproduction.md has {row}");
    }
}

#[test]
fn published_maximum_table_sizes_of_ofc_are_reproduced() {
    let source = source("ofc-fig2", &["policy=ofc"]);
    let job = Job { point: 0, seed: 1 };
    let rows = job::run(&source, &path("ofc-fig2"), job, 1, &Default::default()).unwrap();
    let max = ["flow_in_port_max_bytes", "congested_flow_max_bytes", "pause_frame_max_bytes"].map(|column| {
        let cells = rows[&tables::CLASSES].iter().map(|row| &row[tables::CLASSES.at(column)]);
        cells.filter_map(|cell| cell.parse::<u64>().ok()).max().unwrap()
    });
    let [flows, congested, paused] = max;
    let row = format!("| xoff, maximum | {flows} | {congested} | {paused} |");
    assert!(PAGE.contains(&row), "docs/reproduction.md must contain the row {row}");
}

/// First pauses and then resumes spread from the stopped GPU to the senders, as in the article on DSCP-based PFC.
#[test]
fn pauses_and_resumes_spread_in_the_order_of_the_article() {
    let rows = job::run(
        &source("cascade", &["policy=pfc"]),
        &path("cascade"),
        Job { point: 0, seed: 1 },
        1,
        &Default::default(),
    );
    let rows = &rows.unwrap()[&tables::PAUSES];
    let first = |column: &str, sender: &str, peer: &str| {
        let [switch, paused, at] = ["switch", "peer", column].map(|name| tables::PAUSES.at(name));
        let own = rows.iter().filter(|row| row[switch] == sender && row[paused] == peer);
        own.map(|row| row[at].parse::<u64>().unwrap()).min().unwrap()
    };
    // Pausing switch (empty for host GPU-3) and paused peer, for GPU-3, rail C, spine, and rail A (or B).
    for rail in [[("3", "s0p2"), ("0", "h0")], [("3", "s1p2"), ("1", "h2")]] {
        let chain = [("", "s2p0"), ("2", "s3p2"), rail[0], rail[1]];
        let xoffs = chain.map(|(switch, peer)| first("start_ns", switch, peer));
        let xons = chain.map(|(switch, peer)| first("end_ns", switch, peer));
        let times: Vec<u64> = xoffs.into_iter().chain(xons).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
    let [start, relayed] = ["start_ns", "relayed"].map(|name| tables::PAUSES.at(name));
    let spread = rows.iter().filter(|row| row[start].parse::<u64>().unwrap() < 100_000);
    assert_eq!(spread.map(|row| row[relayed].as_str()).collect::<String>(), "111110");
}

// Tests for SPECIFICATION.md: scenarios

use xoff_sim::flows::{FlowFabric, FlowRecord, HostSettings};
use xoff_sim::load::{Incast, IncastSettings, Listed, OnOff, Query, Replies, Sizes, Times};
use xoff_sim::topology;
use xoff_sim::{Picos, Seed};

use super::{LINE, LOSSLESS, flow, run};

const FROM: Picos = Picos::from_micros(30);

fn fabric() -> FlowFabric {
    FlowFabric::new(&topology::fat_tree(4, LINE), Seed(1), HostSettings::default())
}

fn finish(record: &FlowRecord) -> Picos {
    record.finish.expect("the flow or query has not ended")
}

#[test]
fn gap_between_bursts_begins_at_arrival_of_last_frame() {
    let mut fabric = fabric();
    let (off, until) = (Picos::from_micros(20), Picos::from_micros(400));
    let pairs = vec![(0, 9), (3, 12)];
    fabric.add_load(OnOff::new(
        pairs,
        LOSSLESS,
        Sizes::fixed(50_000),
        Times::Fixed(off),
        [FROM, until],
        Seed(1),
    ));
    let records = run(&mut fabric);
    for from in [0, 3] {
        let of_pair: Vec<&FlowRecord> = records.iter().filter(|record| record.from == from).collect();
        assert!(of_pair.len() > 10);
        assert_eq!(of_pair[0].start, FROM.after(off));
        let pauses = of_pair.windows(2).map(|pair| pair[1].start.since(finish(pair[0])));
        assert!(pauses.into_iter().all(|pause| pause == off));
        assert!(of_pair.iter().all(|record| record.start < until));
    }
}

#[test]
fn each_flow_gets_one_reply_after_it_has_ended() {
    let mut fabric = fabric();
    let questions = Listed((1..6).map(|to| flow(0, to, 20_000)).collect());
    let tag = fabric.add_load(Replies::new(questions, Sizes::fixed(300), Times::Fixed(Picos(5)), Seed(1)));
    let other = fabric.add_load(Listed(vec![flow(7, 8, 1_000)]));
    let records = run(&mut fabric);
    assert_eq!((tag, other, records.len()), (0, 1, 11));
    for question in &records[..5] {
        let answers: Vec<&FlowRecord> =
            records[6..].iter().filter(|answer| answer.from == question.to).collect();
        assert_eq!(answers.len(), 1);
        assert_eq!((answers[0].to, answers[0].bytes, answers[0].tag), (0, 300, 0));
        assert_eq!(answers[0].start, finish(question).after(Picos(5)));
    }
}

fn incast(deadline: u64, is_open: bool, question: u64) -> (Vec<Query>, Vec<FlowRecord>) {
    let settings = IncastSettings {
        askers: vec![0],
        servers: (0..16).collect(),
        fan_in: 8,
        class: LOSSLESS,
        question,
        answer: Sizes::fixed(40_000),
        gap: Times::Fixed(Picos::from_micros(10)),
        is_open,
        deadline: Some(Picos::from_micros(deadline)),
        from: FROM,
        until: Picos::from_micros(200),
    };
    let mut fabric = fabric();
    fabric.add_load(Incast::new(settings, Seed(5)));
    let records = run(&mut fabric);
    let queries = fabric.loads().next().expect("the fabric has no load").queries().to_vec();
    (queries, records)
}

#[test]
fn incast_query_ends_at_last_answer_and_next_follows_a_gap() {
    let (queries, records) = incast(100, false, 200);
    assert_eq!(records.len(), queries.len() * 16, "wrong number of flows in a query to eight servers");
    let answers: Vec<&FlowRecord> = records.iter().filter(|record| record.to == 0).collect();
    let mut before = FROM;
    for (query, answers) in queries.iter().zip(answers.chunks(8)) {
        assert_eq!(query.start, before.after(Picos::from_micros(10)));
        assert_eq!(query.finish, answers.iter().map(|answer| finish(answer)).max());
        assert!(query.is_met() && query.open == 0);
        let mut servers: Vec<u32> = answers.iter().map(|answer| answer.from).collect();
        servers.sort_unstable();
        servers.dedup();
        assert_eq!(servers.len(), 8, "wrong number of different servers in a query");
        before = query.finish.expect("the flow or query has not ended");
    }
}

#[test]
fn incast_query_that_ends_late_counts_as_missed_deadline() {
    let (queries, _) = incast(20, false, 0);
    assert!(!queries.is_empty() && queries.iter().all(|query| !query.is_met() && query.finish.is_some()));
}

#[test]
fn open_loop_incast_query_starts_before_earlier_ones_end() {
    let (queries, _) = incast(100, true, 0);
    let starts: Vec<Picos> = queries.iter().map(|query| query.start).collect();
    let expected: Vec<Picos> = (1..17).map(|n| FROM.after(Picos::from_micros(10 * n))).collect();
    assert_eq!(starts, expected);
    assert!(queries.iter().any(Query::is_met) && queries.iter().any(|query| !query.is_met()));
}

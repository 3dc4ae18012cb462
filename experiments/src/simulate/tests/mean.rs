// Tests for SPECIFICATION.md: sim-results

use std::io::Write as _;

use super::super::mean::{GroupStatistic, Statistics};
use super::super::store::{self, RunMetadata, Store};
use super::super::tables::{DROPS, Table};
use super::*;

#[test]
fn result_statistic_has_one_number_per_seed() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    written(&out, 1, None);
    let result = |table, column, by: &[&str], only: &[Condition], take| {
        let by: Vec<String> = by.iter().map(|name| (*name).to_owned()).collect();
        mean(&out, &StatisticQuery { table, column, by: &by, only, take })
    };
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
    let near = |own: f64, theirs: &serde_json::Value| (own / 1e3 - theirs.as_f64().unwrap()).abs() < 1e-3;
    let all = result("flows", "fct_ns", &[], &[], Statistic::Mean).unwrap();
    assert_eq!((all.unit, all.answers.len()), ("ns", summary["points"].as_array().unwrap().len()));
    for (answer, point) in all.answers.iter().zip(summary["points"].as_array().unwrap()) {
        let theirs = &point["measured"]["fct_mean_us"];
        assert_eq!((answer.point.as_str(), answer.without), (point["point"].as_str().unwrap(), 0));
        assert!(
            near(answer.measured.mean, &theirs["mean"]) && near(answer.measured.low.unwrap(), &theirs["low"])
        );
        assert_eq!(answer.measured.runs, 4);
    }
    assert!(all.answers[0].against_control_percent.is_none());
    assert!(all.answers[1].against_control_percent.is_some());
    let text = all.text();
    assert!(text.starts_with("| point"), "{text}");
    assert!(text.contains("flows.fct_ns, mean (us)"), "{text}");

    let to = |wanted| [Condition { column: "from".into(), wanted }];
    let [below, rest] = [CellCondition::Below(3.0), CellCondition::AtLeast(3.0)].map(|wanted| {
        result("flows", "sent_frames", &["from"], &to(wanted), Statistic::Sum).unwrap().answers.len()
    });
    let every = result("flows", "sent_frames", &["from"], &[], Statistic::Sum).unwrap().answers.len();
    assert!(below > 0 && rest > 0 && below + rest == every, "{below} {rest} {every}");
    let one = result("flows", "sent_frames", &["from"], &to(CellCondition::Is("2".into())), Statistic::Sum)
        .unwrap()
        .answers;
    assert!(one.iter().all(|answer| answer.of == ["2"]) && one.len() < every);

    let [least, most] = [0, 100].map(|percent| {
        result("flows", "fct_ns", &[], &[], Statistic::Percentile(percent)).unwrap().answers[0].measured.mean
    });
    assert!(least < all.answers[0].measured.mean && all.answers[0].measured.mean < most);
    let nothing = |table, column, only: &[Condition]| {
        result(table, column, &[], only, Statistic::Mean).unwrap_err().to_string()
    };
    let of = "there is no number for";
    assert_eq!(
        nothing("links", "lost_frames", &[]),
        format!("{of} `links.lost_frames`: the table has no rows")
    );
    let expected = format!("{of} `flows.fct_ns`: none of its 48 rows meets --where");
    assert_eq!(nothing("flows", "fct_ns", &to(CellCondition::Is("x".into()))), expected);
    let expected =
        format!("{of} `runs.stuck_since_us`: none of the 12 selected rows has a number in that column");
    assert_eq!(nothing("runs", "stuck_since_us", &[]), expected);
    assert_eq!(nothing("runs", "trace", &[]), "column `runs.trace` is text, so it has no mean");
    let wrong = result("flows", "fct", &[], &[], Statistic::Mean).unwrap_err().to_string();
    assert!(wrong.contains("no column `fct`; its columns are point, seed"), "{wrong}");
    assert!(
        result("flow", "fct_ns", &[], &[], Statistic::Mean)
            .unwrap_err()
            .to_string()
            .contains("tables are runs, flows")
    );
}

fn two_points(out: &Path) {
    let points = ["policy=pfc", "policy=ofc"].map(str::to_owned);
    let about = RunMetadata {
        scenario: "x".into(),
        about: String::new(),
        points: points.to_vec(),
        seeds: (1..=4).collect(),
    };
    let row = |table: &Table, job: Job, cells: &[&str]| {
        let mut row = vec!["0".to_owned(); table.columns.len()];
        (row[0], row[1]) = (points[job.point].clone(), job.seed.to_string());
        let from = row.len() - cells.len();
        row[from..].clone_from_slice(&cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
        row
    };
    let mut store = Store::create(out, &about, "").unwrap();
    for job in (0..2).flat_map(|point| (1..=4).map(move |seed| Job { point, seed })).take(7) {
        let mut rows = Rows::default();
        rows[&RUNS].push(row(&RUNS, job, &["007"]));
        if job == (Job { point: 0, seed: 1 }) {
            rows[&DROPS].push(row(&DROPS, job, &["no_route", "8"]));
        }
        store.write(job, &rows).unwrap();
    }
    let directory = store.close().unwrap();
    let path = directory.join("drops.csv");
    let mut drops = fs::File::options().append(true).open(path).unwrap();
    drops.write_all(b"policy=ofc,4,0,0,0,0,0,no_route,500\npolicy=ofc,4,0,0,0,0,0,ttl,50").unwrap();
}

#[test]
fn seed_without_result_rows_has_sum_zero_but_no_mean() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    two_points(&out);
    let result = |take| {
        let by = ["reason".to_owned()];
        mean(&out, &StatisticQuery { table: "drops", column: "dropped_frames", by: &by, only: &[], take })
            .unwrap()
    };
    let rows = |answers: &Statistics| {
        let row =
            |of: &GroupStatistic| (of.point.clone(), of.of[0].clone(), of.measured.mean, of.measured.runs);
        answers.answers.iter().map(row).collect::<Vec<_>>()
    };
    let of = |point: &str, mean, runs| (point.to_owned(), "no_route".to_owned(), mean, runs);
    let sums = result(Statistic::Sum);
    assert_eq!(rows(&sums), [of("policy=pfc", 2.0, 4), of("policy=ofc", 0.0, 3)]);
    assert_eq!(sums.missing_runs, 1);
    for take in [Statistic::Mean, Statistic::Percentile(100)] {
        assert_eq!(rows(&result(take)), [of("policy=pfc", 8.0, 1)]);
    }
    let sum = |table, column, only: &[Condition]| {
        mean(&out, &StatisticQuery { table, column, by: &[], only, take: Statistic::Sum })
    };
    let none = [Condition { column: "reason".into(), wanted: CellCondition::Is("ttl".into()) }];
    for answers in [sum("links", "lost_frames", &[]), sum("drops", "dropped_frames", &none)] {
        let means: Vec<_> =
            answers.unwrap().answers.iter().map(|of| (of.measured.mean, of.measured.runs)).collect();
        assert_eq!(means, [(0.0, 4), (0.0, 3)]);
    }
    assert!(
        sum("queues", "egress_bytes", &[]).is_err(),
        "a table of samples must have no sum without samples"
    );
}

#[test]
fn results_of_interrupted_run_are_not_averaged() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    two_points(&out);
    let refused = merge(&[out], &place.path().join("all"), &mut |_| ()).unwrap_err().to_string();
    assert_eq!(refused, "1 runs are missing: policy=ofc seed 4");
}

#[test]
fn error_for_directory_without_results_has_help() {
    let place = tempfile::tempdir().unwrap();
    let refused = store::about(place.path()).unwrap_err();
    let help = refused.help().unwrap().to_string();
    assert!(help.contains("that `xoff sim --out DIR` or"), "{help}");
}

//! Statistics of tables over the seeds of a run.

use std::io::Write as _;

use super::super::mean::{Answer, Answers};
use super::super::store::{self, About, Store};
use super::super::tables::{DROPS, Table};
use super::*;

// proves: sim-results
#[test]
fn what_a_column_comes_to_is_one_number_of_each_seed_and_their_interval() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    written(&out, 1, None);
    let asked = |table, column, by: &[&str], only: &[Condition], take| {
        let by: Vec<String> = by.iter().map(|name| (*name).to_owned()).collect();
        mean(&out, &Question { table, column, by: &by, only, take })
    };
    let summary: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.join("summary.json")).unwrap()).unwrap();
    let near = |own: f64, theirs: &serde_json::Value| (own / 1e3 - theirs.as_f64().unwrap()).abs() < 1e-3;
    let all = asked("flows", "fct_ns", &[], &[], Take::Mean).unwrap();
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
    let [below, rest] = [Wanted::Below(3.0), Wanted::AtLeast(3.0)].map(|wanted| {
        asked("flows", "sent_frames", &["from"], &to(wanted), Take::Sum).unwrap().answers.len()
    });
    let every = asked("flows", "sent_frames", &["from"], &[], Take::Sum).unwrap().answers.len();
    assert!(below > 0 && rest > 0 && below + rest == every, "{below} {rest} {every}");
    let one =
        asked("flows", "sent_frames", &["from"], &to(Wanted::Is("2".into())), Take::Sum).unwrap().answers;
    assert!(one.iter().all(|answer| answer.of == ["2"]) && one.len() < every);

    let [least, most] = [0, 100].map(|percent| {
        asked("flows", "fct_ns", &[], &[], Take::Percentile(percent)).unwrap().answers[0].measured.mean
    });
    assert!(least < all.answers[0].measured.mean && all.answers[0].measured.mean < most);
    let nothing = |table, column, only: &[Condition]| {
        asked(table, column, &[], only, Take::Mean).unwrap_err().to_string()
    };
    let of = "there is no number for";
    assert_eq!(
        nothing("links", "lost_frames", &[]),
        format!("{of} `links.lost_frames`: the table has no rows")
    );
    let expected = format!("{of} `flows.fct_ns`: none of its 48 rows is as --where says");
    assert_eq!(nothing("flows", "fct_ns", &to(Wanted::Is("x".into()))), expected);
    let expected =
        format!("{of} `runs.stuck_since_us`: 12 rows were asked for, and none has a number in that column");
    assert_eq!(nothing("runs", "stuck_since_us", &[]), expected);
    assert_eq!(nothing("runs", "trace", &[]), "`runs.trace` is text, and has no mean");
    let wrong = asked("flows", "fct", &[], &[], Take::Mean).unwrap_err().to_string();
    assert!(wrong.contains("no column `fct`; it has point, seed"), "{wrong}");
    assert!(
        asked("flow", "fct_ns", &[], &[], Take::Mean)
            .unwrap_err()
            .to_string()
            .contains("there are runs, flows")
    );
}

/// Writes two points with four seeds; the last run was interrupted.
fn two_points(out: &Path) {
    let points = ["policy=pfc", "policy=ofc"].map(str::to_owned);
    let about = About {
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

// proves: sim-results
#[test]
fn seeds_in_which_nothing_happened_have_a_sum_and_no_mean_and_runs_that_did_not_end_have_neither() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    two_points(&out);
    let asked = |take| {
        let by = ["reason".to_owned()];
        mean(&out, &Question { table: "drops", column: "dropped_frames", by: &by, only: &[], take }).unwrap()
    };
    let told = |answers: &Answers| {
        let told = |of: &Answer| (of.point.clone(), of.of[0].clone(), of.measured.mean, of.measured.runs);
        answers.answers.iter().map(told).collect::<Vec<_>>()
    };
    let of = |point: &str, mean, runs| (point.to_owned(), "no_route".to_owned(), mean, runs);
    let sums = asked(Take::Sum);
    assert_eq!(told(&sums), [of("policy=pfc", 2.0, 4), of("policy=ofc", 0.0, 3)]);
    assert_eq!(sums.missing_runs, 1);
    for take in [Take::Mean, Take::Percentile(100)] {
        assert_eq!(told(&asked(take)), [of("policy=pfc", 8.0, 1)]);
    }
    // Tables of events have a sum even without events.
    let sum = |table, column, only: &[Condition]| {
        mean(&out, &Question { table, column, by: &[], only, take: Take::Sum })
    };
    let none = [Condition { column: "reason".into(), wanted: Wanted::Is("ttl".into()) }];
    for answers in [sum("links", "lost_frames", &[]), sum("drops", "dropped_frames", &none)] {
        let means: Vec<_> =
            answers.unwrap().answers.iter().map(|of| (of.measured.mean, of.measured.runs)).collect();
        assert_eq!(means, [(0.0, 4), (0.0, 3)]);
    }
    assert!(sum("queues", "egress_bytes", &[]).is_err(), "what was not looked at is not known");
}

// proves: sim-results
#[test]
fn what_a_run_has_written_that_did_not_end_is_not_merged() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    two_points(&out);
    let refused = merge(&[out], &place.path().join("all"), &mut |_| ()).unwrap_err().to_string();
    assert_eq!(refused, "1 runs are missing: policy=ofc seed 4");
}

#[test]
fn of_a_directory_of_something_else_it_is_said_what_is_wanted() {
    let place = tempfile::tempdir().unwrap();
    let refused = store::about(place.path()).unwrap_err();
    let help = refused.help().unwrap().to_string();
    assert!(help.contains("that `xoff sim --out DIR` has written"), "{help}");
}

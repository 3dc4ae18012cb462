// Tests for SPECIFICATION.md: scenarios

use super::*;

const INCAST: &str = "[scenario]\nname = \"x\"\n[topology]\nkind = \"dumbbell\"\nhosts = 3\n\
    [[load]]\nkind = \"incast\"\nservers = [3, 4, 5]\nfan_in = 3\nsize = \"300KB\"\n";
const LOW: &str = "class.3.xoff = \"45KB\"\nclass.3.xon = \"43KB\"\n";

fn made(more: &str) -> (Vec<Row>, Vec<Row>) {
    let rows = run_of(&format!("{INCAST}{more}"), &[]);
    assert_eq!(rows[&RUNS][0][RUNS.at("lost_frames")], "0", "{more}");
    (rows[&tables::PAUSES].clone(), rows[&FLOWS].clone())
}

#[test]
fn settings_change_takes_effect_at_configured_time() {
    let starts = |rows: &[Row]| -> Vec<u64> {
        rows.iter().map(|row| row[tables::PAUSES.at("start_ns")].parse().unwrap()).collect()
    };
    let (control, flows) = made("");
    let (changed, other_flows) = made(&format!("[[change]]\nat = \"30us\"\n{LOW}"));
    let before = |rows: &[Row]| starts(rows).iter().filter(|start| **start < 30_000).count();
    assert!(before(&control) > 0, "{control:?}");
    assert_eq!(before(&changed), before(&control));
    assert!(starts(&changed).len() > starts(&control).len(), "{} {}", changed.len(), control.len());
    assert_ne!(flows, other_flows);
}

#[test]
fn settings_change_at_time_zero_equals_initial_setting() {
    for (change, switch) in [
        (LOW, "[switch.all.class.3]\nxoff = \"45KB\"\nxon = \"43KB\"\n"),
        ("policy = \"ofc\"\n", "[switch.all]\npolicy = \"ofc\"\n"),
        ("policy = \"capfc-stop-max\"\n", "[switch.all]\npolicy = \"capfc-stop-max\"\n"),
    ] {
        let changed = made(&format!("[[change]]\nat = \"0s\"\nswitch = \"switch\"\n{change}"));
        assert_eq!(changed, made(switch), "{change}");
    }
}

#[test]
fn settings_changes_apply_in_order_of_time() {
    let twice = format!(
        "[[change]]\nat = \"40us\"\nswitch = 0\npolicy = \"pfc\"\n[[change]]\nat = \"20us\"\npolicy = \"capfc-stop-max\"\n{LOW}"
    );
    let (pauses, flows) = made(&twice);
    assert!(!pauses.is_empty() && flows.iter().all(|row| !row[FLOWS.at("finish_ns")].is_empty()));
    let why = refusal(&format!("{INCAST}[[change]]\nat = \"1us\"\nswitch = 2\n{LOW}"), &[]).unwrap();
    assert_eq!(why, "a [[change]] names switch 2, but this fabric has switches 0 to 1");
}

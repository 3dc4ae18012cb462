//! Tests of the example with real devices: alone, as a shadow policy (whose pauses are only counted), instead of PFC under load, and in an
//! experiment.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use xoff_netns_tests::{Bed, Plan, Traffic, note_lab, stream, unstalled};

const BINARY: &str = env!("CARGO_BIN_EXE_xoff-example-own-policy");
const PATIENT: &str = "stall_budget = \"200ms\"\nsmallest_frame = 1000";
const FAR: &str = "[class.3]\nxoff = \"4MB\"\nxon = \"3MB\"\n[policy.custom]\nbacklog = \"25KB\"";

fn program(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).output().unwrap()
}

fn ask(bed: &Bed, args: &[&str]) -> String {
    let output = bed.namespace().output(Command::new(BINARY).args(args)).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test] // proves: own-policy
fn equal_shares_policy_replaces_pfc_under_load_without_loss() {
    unstalled(|| {
        let bed = Plan::new(BINARY, 4).build();
        let config =
            bed.config("speed = \"100M\"").switch(PATIENT).switch("shadow = [\"custom\", \"pfc\"]").more(FAR);
        let switch = bed.start(&config);
        let (a, b, light, sink) = (bed.host(1), bed.host(2), bed.host(3), bed.host(4));
        let much = [stream(sink, 3, "90M", 3_000)];
        let traffic = Traffic::at_mbps(100).sink(sink).source(a, &much).source(b, &much);
        let talk = traffic.source(light, &[stream(a, 3, "5M", 200)]).start();
        talk.wait_received(500);
        let before = switch.class(1, 3);
        assert_eq!((before.pause_sent.xoff, before.shadows[0].policy.as_str()), (0, "custom"));
        assert!(before.shadows[0].xoff > 0, "the shadow of equal shares counted no pause");
        assert!(ask(&bed, &["policy", "custom", "--class", "3"]).contains("class 3  custom\n"));
        talk.finish().assert_lossless(&[3]);
        let metrics = switch.metrics();
        assert!(
            metrics.contains("xoff_class_policy{switch=\"xoff\",class=\"3\",policy=\"custom\"} 1"),
            "{metrics}"
        );
        let refused = |line: &&str| line.contains("intents_refused_total{") && !line.ends_with(" 0");
        assert_eq!(metrics.lines().find(refused), None, "an intent of equal shares was refused");
        assert!(
            metrics.contains("xoff_policy_intents_refused_total{switch=\"xoff\",port=\"p1\",class=\"3\"} 0"),
            "{metrics}"
        );
        let report = bed.finish(switch);
        let class = |port: usize| &report.ports[port].classes[3];
        assert!(
            class(0).causes["egress"].own + class(1).causes["egress"].own > 0,
            "no sender was paused for the queue to the sink"
        );
        assert_eq!(class(2).pause_sent.xoff, 0, "a sender to another output was paused");
        assert_eq!((class(0).pause_sent.now, class(1).pause_sent.now), (false, false));
        assert_eq!(class(0).shadows[1].xoff, 0, "the shadow of PFC counted a pause");
    });
}

#[test] // proves: own-policy
fn experiment_with_equal_shares_and_pfc_loses_no_frame() {
    unstalled(|| {
        let args = ["experiment", "incast", "--json", "--speed", "100M", "--policy", "pfc,custom"];
        let run = program(&args);
        let report: Value = serde_json::from_slice(&run.stdout).unwrap();
        let of = |policy: &str| &report["policies"][policy];
        [of("pfc"), of("custom")].into_iter().for_each(note_lab);
        assert!(run.status.success(), "{report}\n{}", String::from_utf8_lossy(&run.stderr));
        for policy in ["pfc", "custom"] {
            let of = |key| of(policy).pointer(key).and_then(Value::as_u64);
            assert_eq!((of("/lossless/lost"), of("/held")), (Some(0), Some(0)), "{policy}");
            assert!(
                of("/pfc/xoff_sent") > Some(0) && of("/pfc/xoff_sent") == of("/pfc/xon_sent"),
                "{policy}"
            );
        }
    });
}

#[test]
fn own_policy_check_accepts_example_and_refuses_misspelled_key() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/switch.toml");
    let check = program(&["check", "--elsewhere", "--json", file]);
    let report: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert!(check.status.success(), "{report}");
    assert!(report.to_string().contains("\"policy\":\"custom\""), "{report}");
    let directory = tempfile::tempdir().unwrap();
    let wrong = directory.path().join("wrong.toml");
    fs::write(&wrong, fs::read_to_string(file).unwrap().replace("backlog = ", "backlok = ")).unwrap();
    let check = program(&["check", "--elsewhere", wrong.to_str().unwrap()]);
    let errors = String::from_utf8(check.stderr).unwrap();
    assert_eq!(check.status.code(), Some(2));
    assert!(errors.contains("did you mean `backlog`?"), "{errors}");
    let list = String::from_utf8(program(&["experiment", "list"]).stdout).unwrap();
    assert!(list.contains("custom") && list.contains("equal shares"), "{list}");
}

#[test]
fn own_policy_example_has_fewer_than_100_lines() {
    let text = include_str!("../src/main.rs");
    assert!(text.lines().count() < 100);
}

//! `xoff demo --json`: the promise kept on this machine, and the keys that scripts rely on.

use std::process::Command;

use serde_json::Value;
use xoff_netns_tests::{note_lab, one_bed_at_a_time, unstalled};

const KEYS: [&str; 24] = [
    "/lossless/sent",
    "/lossless/received",
    "/lossless/lost",
    "/lossless/duplicated",
    "/lossless/reordered",
    "/lossy/sent",
    "/lossy/received",
    "/lossy/lost",
    "/lossy/duplicated",
    "/lossy/reordered",
    "/lossy/dropped_by_switch",
    "/victim/offered_mbps",
    "/victim/received_mbps",
    "/goodput_ratio",
    "/fairness",
    "/pfc/xoff_sent",
    "/pfc/xon_sent",
    "/pfc/paused_ms",
    "/headroom/least_free_bytes",
    "/xdp_drops",
    "/longest_stall_ms",
    "/longest_host_gap_ms",
    "/line_mbps",
    "/seconds",
];

#[test]
fn the_demo_loses_nothing_lossless_and_accounts_for_every_frame() {
    unstalled(|| {
        let _alone = one_bed_at_a_time(super::BINARY);
        let demo = Command::new(super::BINARY).args(["demo", "--json", "--seconds", "3"]).output().unwrap();
        let report: Value = serde_json::from_slice(&demo.stdout).expect("one JSON object and nothing else");
        note_lab(&report);
        assert!(demo.status.success(), "{report}\n{}", String::from_utf8_lossy(&demo.stderr));
        for key in KEYS {
            assert!(report.pointer(key).is_some_and(Value::is_number), "{key} in {report}");
        }
        assert_eq!(report["ledger_balanced"], true);
        let count = |key: &str| report.pointer(key).and_then(Value::as_u64).unwrap();
        assert_eq!(count("/lossless/sent"), count("/lossless/received"));
        assert!(count("/lossless/received") > 0 && count("/pfc/xoff_sent") > 0, "the port was congested");
        assert_eq!(count("/pfc/xoff_sent"), count("/pfc/xon_sent"), "every pause ended");
        assert_eq!(count("/xdp_drops"), 0);
        assert_eq!(count("/lossy/lost"), count("/lossy/dropped_by_switch"), "the switch knows every loss");
    });
}

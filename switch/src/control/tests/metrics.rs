use std::collections::{HashMap, HashSet};

use super::*;
use crate::control::exposition::Format;
use crate::control::metrics::render;

fn parse(text: &str) -> HashMap<&str, f64> {
    let (mut described, mut typed, mut samples) = (HashSet::new(), HashMap::new(), HashMap::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (family, help) = help.split_once(' ').unwrap();
            assert!(!help.is_empty() && described.insert(family), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (family, kind) = kind.split_once(' ').unwrap();
            assert!(described.contains(family) && typed.insert(family, kind).is_none(), "{line}");
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let family = family.filter(|family| typed.get(family) == Some(&"histogram")).unwrap_or(name);
            assert_eq!(typed[family] == "counter", family.ends_with("_total"), "{line}");
            assert!(samples.insert(sample, value.parse().unwrap()).is_none(), "{line} comes twice");
        }
    }
    samples
}

#[test] // proves: pipeline, http
fn metrics_are_served_without_an_answer_of_the_worker() {
    let (view, inbox) = view();
    let control = serve(&view);
    let (code, text) = get(&control, "/metrics");
    assert_eq!(code, 200);
    let samples = parse(&text);
    let expected = [
        (r#"xoff_received_frames_total{switch="s1",port="left",class="3"}"#, 1000.0),
        (r#"xoff_received_frames_total{switch="s1",port="right",class="3"}"#, 0.0),
        (r#"xoff_received_bytes_total{switch="s1",port="left",class="3"}"#, 64_000.0),
        (r#"xoff_drops_total{switch="s1",port="left",class="3",reason="hairpin",kind="filtered"}"#, 3.0),
        (r#"xoff_lossless_lost_frames_total{switch="s1",port="left",class="3"}"#, 1.0),
        (r#"xoff_lossless_lost_frames_total{switch="s1",port="right",class="3"}"#, 70.0),
        (r#"process_open_fds{switch="s1"}"#, f64::NAN),
        (
            r#"xoff_drops_total{switch="s1",port="left",class="3",reason="headroom_exhausted",kind="lost"}"#,
            1.0,
        ),
        (r#"xoff_pfc_pause_seconds_total{switch="s1",port="left",class="3",direction="sent"}"#, 1.25),
        (r#"xoff_pfc_pause_seconds_total{switch="s1",port="left",class="3",direction="received"}"#, 0.0),
        (r#"xoff_pfc_paused{switch="s1",port="left",class="3",direction="sent"}"#, 1.0),
        (r#"xoff_pfc_pause_duration_seconds_sum{switch="s1",port="left",class="3",direction="sent"}"#, 0.25),
        (r#"xoff_headroom_free_min_bytes{switch="s1",port="left",class="3"}"#, 17_655.0),
        (r#"xoff_headroom_least_free_bytes{switch="s1"}"#, 17_655.0),
        (r#"xoff_mac_control_malformed_total{switch="s1",port="left",reason="truncated"}"#, 4.0),
        (r#"xoff_xdp_drops_total{switch="s1",port="left",reason="rx_ring_full"}"#, 2.0),
        (r#"xoff_xdp_failed_kicks_total{switch="s1",port="left"}"#, 7.0),
        (r#"xoff_class_policy{switch="s1",class="3",policy="pfc"}"#, 1.0),
        (
            r#"xoff_pfc_xoff_causes_total{switch="s1",port="left",class="3",trigger="egress",relayed="false"}"#,
            2.0,
        ),
        (r#"xoff_pfc_culprit_bytes{switch="s1",port="left",class="3",culprit="right"}"#, 7_000.0),
        (r#"xoff_shadow_xoff_total{switch="s1",port="left",class="3",policy="capfc-stop-max"}"#, 1.0),
        (
            r#"xoff_shadow_pause_seconds_total{switch="s1",port="left",class="3",policy="capfc-stop-max"}"#,
            0.5,
        ),
        (r#"xoff_shadow_lost_total{switch="s1",port="left",class="3",policy="capfc-stop-max"}"#, 2.0),
        (r#"xoff_shadow_ofc_pauses_total{switch="s1",port="left",class="3",policy="ofc"}"#, 3.0),
        (r#"xoff_shadow_ofc_flow_pauses_total{switch="s1",port="left",class="3",policy="ofc"}"#, 12.0),
        (r#"xoff_shadow_ofc_resumes_total{switch="s1",port="left",class="3",policy="ofc"}"#, 2.0),
        (r#"xoff_shadow_ofc_requested_flows{switch="s1",port="left",class="3",policy="ofc"}"#, 4.0),
        (r#"xoff_shadow_rate_changes_total{switch="s1",port="left",class="3",policy="gfc"}"#, 5.0),
        (
            r#"xoff_shadow_requested_rate_bytes_per_second{switch="s1",port="left",class="3",policy="gfc"}"#,
            6.25e7,
        ),
        (
            r#"xoff_shadow_requested_rate_min_bytes_per_second{switch="s1",port="left",class="3",policy="gfc"}"#,
            3.125e7,
        ),
        (r#"xoff_worker_stalls_total{switch="s1",worker="0"}"#, 1.0),
        (r#"xoff_watchdog_storm{switch="s1",port="right",class="3"}"#, 1.0),
        (r#"xoff_watchdog_storm{switch="s1",port="left",class="3"}"#, 0.0),
        (r#"xoff_watchdog_storms_total{switch="s1",port="right",class="3"}"#, 2.0),
        (r#"xoff_watchdog_storm_seconds_total{switch="s1",port="right",class="3"}"#, 2.5),
        (r#"xoff_drops_total{switch="s1",port="right",class="3",reason="paused_discard",kind="lost"}"#, 70.0),
        (r#"xoff_pipeline_info{switch="s1",ingress="by-class",when_full="stop"}"#, 1.0),
        (r#"xoff_pipeline_delay_seconds{switch="s1"}"#, 25e-6),
        (r#"xoff_pipeline_halted{switch="s1",port="right",class="3"}"#, 1.0),
        (r#"xoff_pipeline_halted{switch="s1",port="left",class="3"}"#, 0.0),
        (r#"xoff_pipeline_halts_total{switch="s1",port="right",class="3"}"#, 3.0),
        (r#"xoff_pipeline_halted_seconds_total{switch="s1",port="right",class="3"}"#, 0.75),
        (r#"xoff_port_speed_bytes_per_second{switch="s1",port="left"}"#, 125e6),
    ];
    for (sample, value) in expected {
        let is = samples.get(sample).copied();
        assert!(is == Some(value) || value.is_nan() && is.is_some(), "{sample} is {is:?}");
    }
    let everywhere = |sample: &&str| sample.contains(r#"{switch="s1""#);
    assert_eq!(samples.keys().find(|sample| !everywhere(sample)), None);
    assert!(!samples.values().zip(samples.keys()).any(
        |(value, sample)| sample.starts_with("xoff_drops_total")
            && !sample.contains("storm_limit")
            && *value == 0.0
    ));
    assert!(
        !samples.contains_key(r#"xoff_watchdog_storm{switch="s1",port="right",class="4"}"#),
        "class without watchdog has a storm metric"
    );
    assert!(!text.contains("xoff_device_drops_total{"), "a device that cannot be read has no drops");
    while let Some(request) = inbox.take() {
        assert!(matches!(request, Request::Link { .. }), "a scrape asked the worker: {request:?}");
    }
}

fn families(text: &str) -> HashSet<&str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect()
}

fn named(file: &str) -> HashSet<&str> {
    let words = file.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("xoff_")).map(|word| word.trim_end_matches("_bucket")).collect()
}

const DASHBOARD: &str = include_str!("../../../../dashboards/xoff.json");

#[test]
fn dashboards_and_alerts_use_only_existing_metrics() {
    let text = super::reference::everything();
    for file in [include_str!("../../../../dashboards/alerts.yml"), DASHBOARD] {
        let unknown: Vec<_> = named(file).difference(&families(&text)).copied().collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

#[test]
fn dashboard_shows_floods_loops_and_dropped_log_lines() {
    for metric in ["xoff_loops_total", "xoff_looped", "xoff_fdb_moves_total", "xoff_log_lines_dropped_total"]
    {
        assert!(named(DASHBOARD).contains(metric), "{metric}");
    }
    let reasons = [DropReason::FloodPaused, DropReason::StormLimit, DropReason::Loop].map(DropReason::name);
    assert!(DASHBOARD.contains(&format!(r#"xoff_drops_total{{reason=~\"{}\""#, reasons.join("|"))));
}

#[test]
fn dashboard_and_alerts_cover_pipeline_halts() {
    for file in [include_str!("../../../../dashboards/alerts.yml"), DASHBOARD] {
        assert!(named(file).contains("xoff_pipeline_halted_seconds_total"));
    }
}

#[test]
fn dashboard_shows_shadow_policies() {
    let (view, _inbox) = view();
    let text = render(&view, Format::Prometheus, None);
    let mut missing: Vec<_> = families(&text).difference(&named(DASHBOARD)).copied().collect();
    missing
        .retain(|metric| metric.starts_with("xoff_shadow_") && *metric != "xoff_shadow_rate_changes_total");
    assert!(missing.is_empty(), "{missing:?}");
}

#[test] // proves: monitoring
fn metrics_of_one_port_exclude_other_ports() {
    let (view, _inbox) = view();
    let mut settings = SwitchSettings::clone(&view.settings());
    settings.groups = vec![testing::group_with_lacp()];
    view.configured.set(settings);
    let control = serve(&view);
    let of = |path| {
        let (code, text) = get(&control, path);
        (
            code,
            text.contains("port=\"left\""),
            text.contains("port=\"right\""),
            text.contains("xoff_build_info"),
        )
    };
    assert_eq!(of("/metrics?port=left"), (200, true, false, true));
    assert_eq!(of("/metrics?port=right"), (200, false, true, true));
    let (code, text) = get(&control, "/metrics?port=up");
    assert_eq!((code, text.as_str()), (400, "no port `up`; ports are left, right\n"));
}

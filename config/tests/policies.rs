#![allow(clippy::unwrap_used)]

use xoff_config::{Config, ConfigError, Machine};
use xoff_flow_control::settings::{GPfcSettings, PPfcSettings, PolicyKind};
use xoff_wire::units::Nanos;

const PORTS: &str = "[[port]]\nname = \"a\"\ndevice = \"x\"\nspeed = \"1G\"\n[[port]]\nname = \"b\"\ndevice = \"y\"\nspeed = \"1G\"\n";

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::from_toml("test.toml", &format!("{text}{PORTS}"), Machine::default())
}

fn message(text: &str) -> String {
    let Err(ConfigError::Invalid(invalid)) = read(text) else { panic!("{text} is fine") };
    let problems = invalid.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].message.clone()
}

#[test]
fn policies_are_selected_by_name_and_class() {
    for kind in PolicyKind::ALL {
        let config = read(&format!("[switch]\npolicy = {:?}\n", kind.name())).unwrap();
        assert_eq!(config.switch.policies, [kind; 8]);
        let config = read(&format!("[switch]\npolicy = {{ 3 = {:?} }}\n", kind.name())).unwrap();
        assert_eq!((config.switch.policies[3], config.switch.policies[4]), (kind, PolicyKind::Pfc));
    }
}

#[test]
fn p_pfc_prediction_without_valid_time_is_refused() {
    let prediction = |text: &str| read(text).unwrap().switch.policy.p_pfc;
    let some = PPfcSettings { prediction: Some(Nanos::from_micros(200)) };
    assert_eq!(prediction("[policy.p-pfc]\nprediction = \"200us\"\n"), some);
    assert_eq!(prediction("[policy.p-pfc]\nprediction = \"off\"\n"), PPfcSettings { prediction: None });
    assert!(message("[policy.p-pfc]\nprediction = \"999ns\"\n").contains("from \"1us\" to \"1s\""));
}

#[test]
fn g_pfc_resume_threshold_above_pause_threshold_is_refused() {
    let shares = |text: &str| read(text).unwrap().switch.policy.g_pfc;
    let equal = "[policy.g-pfc]\npause_lower = 0.3\nresume_lower = 0.3\n";
    assert_eq!(shares(equal), GPfcSettings { pause_lower: 0.3, resume_lower: 0.3 });
    let above = "[policy.g-pfc]\npause_lower = 0.3\nresume_lower = 0.31\n";
    assert!(message(above).contains("`resume_lower` (0.31) is above `pause_lower` (0.3)"));
    assert!(message("[policy.g-pfc]\npause_lower = 1.01\n").contains("a number above 0, up to 1"));
    assert!(message("[policy.g-pfc]\npause_lower = 0.2\n").contains("`resume_lower` (0.25)"));
}

#[test]
fn policy_that_needs_one_worker_is_refused_with_two() {
    let several =
        |kind: PolicyKind| read(&format!("[switch]\nworkers = 2\npolicy = {:?}\n", kind.name())).is_ok();
    for kind in PolicyKind::ALL {
        assert_eq!(several(kind), !kind.needs_one_worker(None), "{kind:?}");
    }
    assert!(several(PolicyKind::GPfc) && !several(PolicyKind::PPfc));
}

#[test] // proves: check
fn policy_set_for_lossy_class_causes_warning() {
    let of = |policy: &str| {
        let config = read(&format!("[switch]\npolicy = {policy}\n[defaults]\nlossless = [3]\n")).unwrap();
        let found = config.warnings.into_iter().filter(|it| it.message.contains("has no effect"));
        found.map(|it| (it.message, it.position.unwrap().0)).collect::<Vec<_>>()
    };
    let found = of("{ 3 = \"ofc\", 4 = \"capfc-stop-max\", 5 = \"pfc\" }");
    assert_eq!(found, [("the policy of class 4 has no effect: the class is lossy on all ports".into(), 2)]);
    assert_eq!(of("\"capfc-stop-max\""), []);
}

#[test] // proves: check
fn lossless_class_that_no_frame_can_get_causes_warning() {
    let warns = |lines: &str| {
        let config = read(&format!("[defaults]\nlossless = [4]\n{lines}\n")).unwrap();
        config.warnings.iter().any(|it| it.message == "no frame can have class 4, which is lossless")
    };
    for (lines, expected) in [
        ("", false),
        ("trust = \"dscp\"\ndscp_map = { 0-63 = 0 }", true),
        ("trust = \"dscp\"\ndscp_map = { 0-63 = 0 }\ndefault_class = 4", false),
        ("trust = \"dscp\"\ndscp_map = { 0-62 = 0, 63 = 4 }", false),
        ("trust = \"both\"\ndscp_map = { 0-63 = 0 }", false), // PCP 4
        ("trust = \"pcp\"\npcp_map = { 0-7 = 3 }", true),
        ("trust = \"port\"", true),
        ("trust = \"port\"\ndefault_class = 4", false),
    ] {
        assert_eq!(warns(lines), expected, "{lines}");
    }
}

#[test] // proves: check
fn lossless_class_rewritten_to_lossy_value_causes_warning() {
    let warnings = |lines: &str| {
        let config = read(&format!("[defaults]\n{lines}\n")).unwrap();
        let found = config.warnings.into_iter().map(|it| it.message);
        found.filter(|it| it.contains("leave port a")).collect::<Vec<_>>()
    };
    for (lines, expected) in [
        ("rewrite_dscp = \"class\"", ""),
        ("rewrite_dscp = [0, 8, 16, 31, 0, 0, 0, 0]", ""),
        (
            "rewrite_dscp = [0, 8, 16, 0, 32, 40, 48, 56]",
            "class 3, which is lossless, leave port a with DSCP 0, which is class 0",
        ),
        ("rewrite_dscp = [0, 8, 16, 10, 32, 40, 48, 56]\ndscp_map = { 10 = 3 }", ""),
        (
            "rewrite_pcp = [0, 1, 2, 4, 4, 5, 6, 7]",
            "class 3, which is lossless, leave port a with PCP 4, which is class 4",
        ),
    ] {
        let found = warnings(lines);
        assert_eq!(found.len(), usize::from(!expected.is_empty()), "{lines}: {found:?}");
        assert!(found.iter().all(|it| it.contains(expected)), "{lines}: {found:?}");
    }
}

#[test] // proves: check
fn egress_max_at_congestion_threshold_causes_warning() {
    let of = |policy: &str, most: u64| {
        let class = format!("[class.3]\negress_max = {most}\negress_xoff = 20000\negress_xon = 15000\n");
        let config = read(&format!("[switch]\nwhen_full = \"stop\"\n{policy}\n{class}")).unwrap();
        let found = config.warnings.into_iter().map(|it| it.message);
        found.filter(|it| it.contains("never finds")).collect::<Vec<_>>()
    };
    for policy in
        ["policy = \"capfc-stop-max\"", "policy = \"p-pfc\"", "shadow = [\"gfc\", \"capfc-stop-calibrate\"]"]
    {
        assert_eq!(of(policy, 20_001), [""; 0], "{policy}");
        let found = of(policy, 20_000);
        assert_eq!(found.len(), 1, "{policy}: {found:?}");
        assert!(
            found[0].contains("class 3 of port a congested: its egress queue is full at 20000 bytes"),
            "{found:?}"
        );
    }
    assert_eq!(of("policy = \"pfc\"", 10_000), [""; 0]);
    assert_eq!(of("policy = { 4 = \"capfc-stop-max\" }", 10_000), [""; 0], "lossy class 4 causes a warning");
    assert_eq!(of("policy = \"p-pfc\"\n[policy.p-pfc]\nprediction = \"1ms\"", 10_000), [""; 0]);
}

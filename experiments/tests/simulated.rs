#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: experiment-parity

use serde_json::Value;
use xoff_experiments::Line;
use xoff_experiments::experiment::{Experiment, Report, Request, Variant};
use xoff_switch::Promise;
use xoff_wire::units::BitRate;

fn run_on(name: &str, policies: &[&str], line: Line, stall: Option<&str>, seed: u64) -> Report {
    let experiment = match name.strip_suffix(" --routed") {
        Some(name) => Experiment::find(name).unwrap().routed.unwrap(),
        None => Experiment::find(name).unwrap(),
    };
    let policies: Vec<_> = policies.iter().map(|policy| Variant::find(policy).unwrap()).collect();
    let stall = stall.map(|stall| stall.parse().unwrap());
    let request = Request { seconds: 3, seed, stall, ..Request::new(policies, line) };
    experiment.check(&request, &mut |line| panic!("{line}")).unwrap();
    experiment.run(&request, &mut |_| ()).unwrap()
}

fn run(name: &str, policies: &[&str], line: BitRate, seed: u64) -> Report {
    run_on(name, policies, Line::simulated(line), None, seed)
}

fn simulated(name: &str, policies: &[&str], line: BitRate) -> Value {
    let [first, second] = [(); 2].map(|()| run(name, policies, line, 7));
    assert_eq!(first.promise(), Promise::Kept, "{name}: {first}");
    let [first, second] = [first, second].map(|report| serde_json::to_string(&report).unwrap());
    assert_eq!(first, second, "{name}: two runs with the same seed differ");
    let json: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(json["simulated"], true);
    for policy in policies {
        let of = &json["policies"][policy];
        assert!(of["lossless"]["received"].as_u64().unwrap() > 100, "{name} {policy}: {of}");
        let machine = ["longest_stall_ms", "longest_host_gap_ms", "xdp_drops"].map(|key| of[key].as_f64());
        assert_eq!(machine, [Some(0.0); 3], "{name} {policy}");
    }
    json
}

fn run_on_stalling_machine(name: &str, policies: &[&str], stall: &str, seed: u64) -> Report {
    run_on(name, policies, Line::simulated_machine(mbps(100)), Some(stall), seed)
}

fn mbps(mbps: u64) -> BitRate {
    BitRate::from_mbps(mbps)
}

/// At 400 Gb/s, all times but cable delays are 1/4,000 of those at 100 Mb/s.
#[test]
fn simulated_incast_results_scale_with_line_rate() {
    let policies = &["pfc", "capfc-stop-max"];
    let [slow, fast] = [100, 400_000].map(|rate| simulated("incast", policies, mbps(rate)));
    for policy in policies {
        for point in 0..3 {
            let of = |json: &Value, key: &str| {
                json["policies"][policy].pointer(&format!("/sweep/{point}/{key}")).unwrap().as_f64().unwrap()
            };
            let goodput = of(&slow, "goodput_mbps/p50");
            assert!((94.0..95.8).contains(&goodput), "{policy} {point}: {goodput} Mb/s");
            let by_rate = of(&fast, "goodput_mbps/p50") / goodput;
            assert!((3_900.0..4_001.0).contains(&by_rate), "{policy} {point}: {by_rate}");
            assert!(of(&slow, "xoff_per_gb") > 0.0 && of(&fast, "xoff_per_gb") > 0.0, "{policy} {point}");
            assert_eq!(of(&slow, "broken"), 0.0);
        }
    }
}

/// A line of 100 Mb/s carries 8,127 frames of 1,518 bytes per second.
#[test] // proves: experiments
fn line_slower_than_pipeline_fills_egress_queue() {
    let policies = ["pfc", "pfc-wstop"];
    for (rate, is_full) in [("8kpps", false), ("10kpps", true)] {
        let given = [&format!("pipeline.rate={rate}"), "pipeline.delay=25us", "pipeline.ingress=fifo"];
        let given = given.iter().map(|given| given.parse().unwrap()).collect();
        let variants = policies.map(|policy| Variant::find(policy).unwrap()).to_vec();
        let request = Request { given, ..Request::new(variants, Line::simulated(mbps(100))) };
        let report = Experiment::find("incast").unwrap().run(&request, &mut |_| ()).unwrap();
        assert_eq!(report.promise(), Promise::Kept, "{report}");
        let json = serde_json::to_value(&report).unwrap();
        let halts = policies.map(|policy| json["policies"][policy]["halts"]["count"].as_u64().unwrap() > 0);
        assert_eq!(halts, [false, is_full], "{rate}: {report}");
    }
}

#[test]
fn victim_receives_its_load_before_congestion() {
    let json = simulated("victim", &["pfc"], mbps(10_000));
    let solo = json["policies"]["pfc"]["sweep"][0]["victim"]["solo_mbps"]["p50"].as_f64().unwrap();
    assert!(
        (5_700.0..6_300.0).contains(&solo),
        "two senders offer 30 % of 10 Gb/s each, but {solo} Mb/s arrived"
    );
}

#[test]
fn simulated_pause_cascade_follows_the_article() {
    for rate in [100, 400_000] {
        let json = simulated("cascade", &["pfc", "ofc"], mbps(rate));
        let pfc = &json["policies"]["pfc"];
        assert_eq!([&pfc["runs_judged"], &pfc["runs_in_order"], &pfc["runs_relayed"]], [1, 1, 1], "{pfc}");
        assert_eq!(pfc["other_class_sent"], pfc["other_class_received"]);
    }
}

#[test]
fn simulated_pause_cascade_over_routers_follows_article() {
    for rate in [100, 400_000] {
        let json = simulated("cascade --routed", &["pfc", "ofc"], mbps(rate));
        let pfc = &json["policies"]["pfc"];
        assert_eq!([&pfc["runs_judged"], &pfc["runs_in_order"], &pfc["runs_relayed"]], [1, 1, 1], "{pfc}");
        assert_eq!(pfc["deviations"].as_array().unwrap().len(), 0, "{pfc}");
        assert_eq!(pfc["other_class_sent"], pfc["other_class_received"]);
        assert!(pfc["other_class_sent"].as_u64().unwrap() > 0);
        let ways = pfc["flows"].as_array().unwrap().iter().map(|flow| [&flow["from"], &flow["by"]]);
        assert_eq!(ways.collect::<Vec<_>>(), [["gpu-1", "to-spine-1"], ["gpu-2", "to-spine-2"]]);
        let steps = pfc["steps"].as_array().unwrap();
        let of_chain = |number: &str, spine: usize| {
            let mut those = steps.iter().filter(|step| step["step"] == number);
            let step = those.nth(spine).unwrap_or_else(|| panic!("no step {number} by spine {}", spine + 1));
            (step["at_ms"].as_f64().unwrap(), step["why"].as_str().unwrap_or_default().to_owned())
        };
        for spine in 0..2 {
            let [holds, stops, relays, ends, halts] =
                ["1-3", "4", "5-7", "8", "9"].map(|number| of_chain(number, spine));
            assert!(
                holds.0 < stops.0 && stops.0 < relays.0 && relays.0 < ends.0 && ends.0 < halts.0,
                "{steps:?}"
            );
            let uplink = format!("to-spine-{}", spine + 1);
            for (why, queue) in
                [(holds.1, "gpu-3"), (relays.1, "to-leaf-2, which is itself paused by its peer")]
            {
                assert!(why.ends_with(&format!("queued for {queue}")), "{why}");
            }
            assert!(
                halts.1.ends_with(&format!("queued for {uplink}, which is itself paused by its peer")),
                "{}",
                halts.1
            );
            let [releases, resumes, last] = ["10-12", "13", "14"].map(|number| of_chain(number, spine).0);
            assert!(holds.0 < releases && releases <= resumes && resumes <= last, "{steps:?}");
        }
    }
}

#[test]
fn udp_source_ports_of_routed_flows_depend_on_seed() {
    let flows = |seed| {
        let report = run("cascade --routed", &["capfc-stop-max"], mbps(10_000), seed);
        serde_json::to_value(report).unwrap()["policies"]["capfc-stop-max"]["flows"].clone()
    };
    let all: Vec<_> = (0..6).map(flows).collect();
    assert_eq!(flows(0), all[0]);
    assert!(all.iter().any(|of| *of != all[0]), "{all:?}");
}

#[test]
fn routers_that_spray_frames_use_all_paths() {
    let experiment = Experiment::find("cascade").unwrap().routed.unwrap();
    for spread in ["router.spread=frame", "router.spread=adaptive"] {
        let policies = vec![Variant::find("pfc").unwrap()];
        let given = vec![spread.parse().unwrap()];
        let request = Request { given, ..Request::new(policies, Line::simulated(mbps(10_000))) };
        let report = experiment.run(&request, &mut |_| ()).unwrap();
        let json = serde_json::to_value(&report).unwrap();
        let pfc = &json["policies"]["pfc"];
        assert!(pfc["lossless"]["lost"] == 0 && pfc["lossless"]["received"].as_u64() > Some(100), "{pfc}");
        assert_eq!(pfc["flows"].as_array().unwrap().len(), 0);
        assert!(pfc["timeline"].as_array().unwrap().iter().any(|event| event["switch"] == "spine-1"));
        assert!(pfc["timeline"].as_array().unwrap().iter().any(|event| event["switch"] == "spine-2"));
    }
}

#[test]
fn uncongested_flow_keeps_its_rate_under_ofc() {
    let json = simulated("ofc-fig1", &["pfc", "ofc"], mbps(10_000));
    let [pfc, ofc] =
        ["pfc", "ofc"].map(|policy| json["policies"][policy]["f0"]["share_of_solo"]["p50"].as_f64().unwrap());
    assert!(pfc < 0.9 && ofc > 0.95, "{pfc} {ofc}");
}

#[test]
fn simulated_ring_deadlocks_under_pfc() {
    let json = simulated("deadlock", &["pfc", "gfc"], mbps(10_000));
    let pfc = &json["policies"]["pfc"];
    assert_eq!((&pfc["deadlocks"], pfc["cycle"].as_array().unwrap().len()), (&1.into(), 6), "{pfc}");
}

#[test]
fn only_qcn_policy_sends_cnms_to_hosts() {
    for name in ["qcn-fanin", "qcn-shared-input"] {
        let json = simulated(name, &["pfc", "qcn-ingress-arrival"], mbps(10_000));
        let [pfc, qcn] =
            ["pfc", "qcn-ingress-arrival"].map(|policy| json["policies"][policy]["cnms"].clone());
        assert_eq!(pfc, 0);
        assert!(qcn.as_u64().unwrap() > 20, "{name}: {qcn}");
    }
}

#[test]
fn higher_class_keeps_its_rate_while_alone_under_g_pfc() {
    let json = simulated("two-classes", &["pfc", "g-pfc"], mbps(1_000));
    let higher = json["policies"]["g-pfc"]["higher_alone_mbps"]["p50"].as_f64().unwrap();
    assert!((590.0..610.0).contains(&higher), "{higher}");
}

#[test]
fn shared_memory_experiment_load_depends_on_seed() {
    let policies = &["pfc-wstop", "capfc-max-wstop"];
    let json = simulated("shared-memory", policies, mbps(1_000));
    let other = serde_json::to_value(run("shared-memory", policies, mbps(1_000), 8)).unwrap();
    assert_ne!(json["policies"]["pfc-wstop"]["long"], other["policies"]["pfc-wstop"]["long"]);
}

#[test]
fn simulated_balance_experiment_has_no_tcp() {
    let json = simulated("balance", &["pfc", "capfc-stop-max"], mbps(10_000));
    let pfc = &json["policies"]["pfc"];
    assert_eq!((pfc["spreads"].as_array().unwrap().len(), &pfc["tcp"]), (3, &Value::Array(Vec::new())));
    let reordered = |place: usize| pfc["spreads"][place]["reordered_percent"].as_f64().unwrap();
    // Hosts send in lockstep over equal paths, so spreading by frame reorders nothing.
    assert!(reordered(0) == 0.0 && reordered(1) == 0.0 && reordered(2) > 0.0, "{pfc}");
}

#[test]
fn simulated_machine_with_stalls_loses_nothing() {
    let policies = &["pfc", "capfc-stop-max"];
    let json_of = |stall: &str, seed: u64| {
        let report = run_on_stalling_machine("incast", policies, stall, seed);
        assert_eq!(report.promise(), Promise::Kept, "{stall}: {report}");
        serde_json::to_string(&report).unwrap()
    };
    let [never, stalls, other, wakes] = [("0", 7), ("5ms/50ms", 7), ("5ms/50ms", 8), ("0/1s/30us", 7)]
        .map(|(stall, seed)| json_of(stall, seed));
    assert_eq!(stalls, json_of("5ms/50ms", 7), "equal seeds must give equal results");
    let [never, stalls, other, wakes] =
        [never, stalls, other, wakes].map(|json| serde_json::from_str::<Value>(&json).unwrap());
    assert_ne!(stalls["policies"], other["policies"]);
    let shown = [&never, &stalls, &wakes].map(|json| json["stall"].as_str().unwrap());
    assert_eq!(shown, ["0ns/1s", "5ms/50ms", "0ns/1s/30us"]);
    for policy in policies {
        let of = |json: &Value, key: &str| json["policies"][policy].pointer(key).unwrap().as_f64().unwrap();
        for key in ["/longest_stall_ms", "/longest_host_gap_ms"] {
            assert_eq!(of(&never, key), 0.0, "{policy}");
            assert!((0.5..=5.0).contains(&of(&stalls, key)), "{policy}: {}", of(&stalls, key));
        }
        assert_eq!(of(&wakes, "/usual_host_gap_ms"), 0.03, "{policy}");
        assert_eq!(of(&never, "/usual_host_gap_ms"), 0.0, "{policy}");
        assert_ne!(of(&never, "/pfc/paused_ms"), of(&wakes, "/pfc/paused_ms"), "{policy}");
        for point in 0..3 {
            let goodput = of(&never, &format!("/sweep/{point}/goodput_mbps/p50"));
            assert!((94.0..95.8).contains(&goodput), "{policy} {point}: {goodput}");
        }
    }
}

#[test]
fn slow_wakeup_of_switch_makes_pauses_rarer() {
    let pauses = |stall: &str| {
        let json = serde_json::to_value(run_on_stalling_machine("cascade", &["pfc"], stall, 1)).unwrap();
        json["policies"]["pfc"]["pfc"]["xoff_sent"].as_u64().unwrap()
    };
    let [at_once, late] = ["0", "0/1s/30us"].map(pauses);
    assert!(late > 0 && 2 * late < at_once, "{late} and {at_once}");
}

// Tests for SPECIFICATION.md: experiments

mod arguments;
mod routed;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use xoff_experiments::experiment::{Experiment, VARIANTS, Variant};
use xoff_netns_tests::{note_lab, unstalled, wait_for};

const KEYS: [&str; 14] = [
    "/lossless/sent",
    "/lossless/received",
    "/lossless/lost",
    "/lossless/duplicated",
    "/lossless/reordered",
    "/held",
    "/pfc/xoff_sent",
    "/pfc/xon_sent",
    "/pfc/paused_ms",
    "/xdp_drops",
    "/least_headroom_bytes",
    "/longest_stall_ms",
    "/longest_host_gap_ms",
    "/usual_host_gap_ms",
];
const SLOW: [&str; 2] = ["--speed", "50M"];

fn experiment(args: &[&str]) -> Command {
    let mut command = Command::new(super::BINARY);
    command.arg("experiment").args(args);
    command
}

fn compare(name: &str, policies: &[&str], more: &[&str], numbers: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("plot.svg");
    let policy_list = policies.join(",");
    let args = name.split(' ').chain(["--json", "--policy", &policy_list, "--plot"]);
    let mut command = experiment(&args.collect::<Vec<_>>());
    let run = command.arg(&plot).args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let inside = wait_for("the experiment to run", || {
        // Wait for all twelve namespaces of a routed experiment: then its four routers exist, and their
        // daemons run.
        let least = if name.ends_with("--routed") { 12 } else { 1 };
        Some(namespaces(run.id())).filter(|inside| inside.len() >= least)
    });
    let run = run.wait_with_output().unwrap();
    await_namespaces_unused(&inside);
    let report: Value = serde_json::from_slice(&run.stdout).expect("the output is not a single JSON object");
    let policies: Vec<&Value> = policies.iter().map(|&policy| &report["policies"][policy]).collect();
    policies.iter().for_each(|result| note_lab(result));
    assert!(run.status.success(), "{report}\n{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(report["name"], name);
    for result in &policies {
        for key in KEYS.iter().chain(numbers) {
            assert!(result.pointer(key).is_some_and(Value::is_number), "{key} in {result}");
        }
        let count = |key: &str| result.pointer(key).and_then(Value::as_u64).unwrap();
        assert_eq!(result["ledger_balanced"], true);
        assert_eq!(count("/lossless/sent"), count("/lossless/received") + count("/held"));
        assert_eq!((count("/lossless/duplicated"), count("/lossless/reordered")), (0, 0));
    }
    assert!(policies.iter().all(|result| keys(result) == keys(policies[0])));
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg"));
    report
}

fn keys(result: &Value) -> Vec<&String> {
    result.as_object().unwrap().keys().collect()
}

fn number(result: &Value, key: &str) -> u64 {
    result.pointer(key).and_then(Value::as_u64).unwrap()
}

fn incast(is_selected: impl Fn(&Variant) -> bool) {
    let numbers = [
        "/sweep/2/goodput_mbps/p50",
        "/sweep/2/completion_ms/max",
        "/sweep/2/queue_bytes/peak",
        "/sweep/2/xoff_per_gb",
    ];
    let fits = |variant: &Variant| Experiment::find("incast").unwrap().fits(variant, None).is_ok();
    let lossless =
        VARIANTS.iter().filter(|variant| variant.lossless && is_selected(variant) && fits(variant));
    let lossless: Vec<&str> = lossless.map(|variant| variant.name).collect();
    for policies in lossless.chunks(3) {
        unstalled(|| {
            let report = compare("incast", policies, &["--speed", "200M"], &numbers);
            for (policy, result) in report["policies"].as_object().unwrap() {
                assert!(number(result, "/pfc/xoff_sent") > 0, "{policy}: the port was not congested");
                assert_eq!(
                    number(result, "/pfc/xoff_sent"),
                    number(result, "/pfc/xon_sent"),
                    "a pause did not end"
                );
                assert_eq!(number(result, "/held"), 0);
                assert!(
                    result["usual_host_gap_ms"].as_f64().unwrap() > 0.0,
                    "{policy}: the median wakeup delay of hosts is zero"
                );
                let halts = number(result, "/halts/count");
                assert!(halts > 0 || policy != "pfc-wstop", "its queue is full most of the time");
                assert!(halts == 0 || policy.ends_with("-wstop"), "{policy} halted the pipeline");
            }
        });
    }
}

fn signals_senders(variant: &Variant) -> bool {
    ["qcn-", "pfc-ecn"].iter().any(|prefix| variant.name.starts_with(prefix))
}

#[test] // proves: experiments, experiment-parity
fn incast_experiment_is_lossless_under_every_policy() {
    incast(|variant| !signals_senders(variant));
}

#[test]
fn incast_experiment_is_lossless_with_qcn_and_ecn() {
    incast(signals_senders);
}

#[test]
fn victim_experiment_delivers_every_message_whole() {
    let numbers = [
        "/sweep/3/light_percent",
        "/sweep/3/heavy/xoff_sent",
        "/sweep/3/light/paused_percent",
        "/sweep/3/victim/solo_completion_ms/p50",
        "/sweep/3/victim/completion_ms/p50",
        "/sweep/3/victim/solo_mbps/p50",
        "/sweep/3/victim/mbps/p50",
        "/sweep/3/light_messages/completion_ms/max",
        "/sweep/3/light_messages/mbps/p50",
        "/small/2/victim/completion_ms/p50",
    ];
    unstalled(|| {
        let report = compare("victim", &["pfc"], &SLOW, &numbers);
        for (_, result) in report["policies"].as_object().unwrap() {
            for point in ["sweep", "small"].iter().flat_map(|size| result[size].as_array().unwrap()) {
                let broken = ["/victim/broken", "/light_messages/broken"].map(|key| number(point, key));
                assert_eq!(broken, [0, 0]);
                assert!(number(point, "/heavy/xoff_sent") > 0, "the port was not congested");
            }
        }
    });
}

#[test]
fn victim_flow_completes_in_experiment_ofc_fig1() {
    let numbers = [
        "/f0/solo_mbps/p50",
        "/f0/share_of_solo/p50",
        "/f0/completion_ms/p50",
        "/f1/mbps/p50",
        "/burst_completion_ms/max",
    ];
    unstalled(|| {
        let report = compare("ofc-fig1", &["pfc", "ofc"], &SLOW, &numbers);
        for (_, result) in report["policies"].as_object().unwrap() {
            assert_eq!(number(result, "/f0/completion_ms/count"), 1, "frames of F0 are missing");
        }
    });
}

#[test] // proves: experiments, cascade
fn report_of_cascade_experiment_contains_every_step() {
    let numbers = ["/other_class_sent", "/timeline/0/at_ms", "/runs_in_order", "/runs_judged"];
    unstalled(|| {
        // Run the experiment three times, because its report omits runs in which the machine stalled.
        let three_runs = [&SLOW[..], &["--runs", "3"]].concat();
        let report = compare("cascade", &["pfc", "capfc-stop-max"], &three_runs, &numbers);
        for (_, result) in report["policies"].as_object().unwrap() {
            for step in result["steps"].as_array().unwrap() {
                assert!(step["at_ms"].is_number(), "{step}");
            }
            let class_0 = ["/other_class_sent", "/other_class_received"].map(|key| number(result, key));
            assert!(class_0[0] > 0 && class_0[0] == class_0[1], "class 0 was not paused: {class_0:?}");
        }
        assert_eq!(
            report["unmet"].as_array().unwrap().len(),
            0,
            "{}",
            report["policies"]["pfc"]["deviations"]
        );
    });
}

#[test]
fn deadlock_experiment_loses_no_frame() {
    unstalled(|| {
        let report = compare("deadlock", &["pfc", "ofc"], &SLOW, &["/deadlocks", "/delivered_mbps/p50"]);
        for (_, result) in report["policies"].as_object().unwrap() {
            assert_eq!(number(result, "/held") > 0, number(result, "/deadlocks") > 0);
            assert_eq!(result["cycle"].as_array().unwrap().is_empty(), number(result, "/deadlocks") == 0);
        }
        let result = &report["policies"]["pfc"];
        assert_eq!(number(result, "/deadlocks"), 1);
        let held = number(result, "/held");
        assert_eq!((number(result, "/lossless/lost"), held > 0), (held, true), "{result}");
        let cycle: Vec<&str> =
            result["cycle"].as_array().unwrap().iter().map(|who| who.as_str().unwrap()).collect();
        for switch in ["a", "b", "c"] {
            let holds = format!("{switch} pauses the peer of ");
            assert!(cycle.iter().any(|who| who.starts_with(&holds)), "{switch} in {cycle:?}");
        }
        assert_eq!(cycle.len(), 6, "the cycle lacks a queue or a pause for a switch: {cycle:?}");
    });
}

/// Runs a QCN experiment under two policies. CNMs must come from outputs under `qcn-egress`, from inputs under `qcn-ingress-occupancy`.
fn qcn(name: &str, flows: usize) {
    let numbers = ["/phases/2/congested_mbps/p50", "/phases/2/fairness/p50", "/flows/4/mbps/1/p50", "/cnms"];
    let policies = ["qcn-egress", "qcn-ingress-occupancy"];
    let report = compare(name, &policies, &["--speed", "50M", "--duration", "3s"], &numbers);
    for (policy, at_inputs) in policies.into_iter().zip([false, true]) {
        let result = &report["policies"][policy];
        let cnms_per_flow: Vec<u64> =
            result["flows"].as_array().unwrap().iter().map(|flow| number(flow, "/cnms")).collect();
        assert_eq!(cnms_per_flow.len(), flows);
        let captured = result["captured"].as_array().unwrap();
        assert_eq!(captured.len() as u64, cnms_per_flow.iter().sum::<u64>());
        assert_eq!((number(result, "/cnms"), number(result, "/cnms_malformed")), (captured.len() as u64, 0));
        assert!(!captured.is_empty(), "four lines meet at one");
        for cnm in captured {
            assert!((1..=63).contains(&number(cnm, "/feedback")), "{cnm}");
            assert_eq!(cnm["port"].as_str().unwrap().starts_with("input-"), at_inputs, "{cnm}");
        }
    }
}

#[test]
fn cnms_of_fan_in_experiment_reach_their_flows() {
    unstalled(|| qcn("qcn-fanin", 5));
}

#[test]
fn cnms_of_shared_input_experiment_reach_their_flows() {
    unstalled(|| qcn("qcn-shared-input", 6));
}

#[test]
fn experiment_with_two_lossless_classes_is_lossless() {
    let numbers = [
        "/higher_alone_mbps/p50",
        "/higher/mbps/p50",
        "/higher/xoff_sent",
        "/lower/mbps/p50",
        "/lower/paused_ms",
    ];
    unstalled(|| {
        let report = compare("two-classes", &["pfc", "g-pfc"], &SLOW, &numbers);
        for (_, result) in report["policies"].as_object().unwrap() {
            assert!(number(result, "/lower/xoff_sent") > 0, "the port was not congested");
        }
    });
}

#[test]
fn balance_experiment_compares_spreading_methods_without_loss() {
    let spread_keys = |place: usize| {
        [
            "p99_ms",
            "completion_ms/p50",
            "goodput_mbps/p50",
            "fairness/p50",
            "path_fairness/p50",
            "xoff_sent",
            "reordered_percent",
        ]
        .map(|key| format!("/spreads/{place}/{key}"))
    };
    let tcp_keys = |place: usize| {
        [
            "goodput_mbps/p50",
            "flow_mbps/min",
            "fairness/p50",
            "uplink_kilobytes/max",
            "xoff_sent",
            "paused_ms",
        ]
        .map(|key| format!("/tcp/{place}/{key}"))
    };
    let numbers = (0..3).flat_map(spread_keys).chain((0..7).flat_map(tcp_keys));
    let numbers: Vec<String> = numbers.chain(["/p99_flow_by_adaptive".into()]).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    unstalled(|| {
        let report = compare("balance", &["pfc"], &["--speed", "100M"], &numbers);
        let measured = &report["policies"]["pfc"];
        for result in measured["spreads"].as_array().unwrap() {
            assert_eq!(number(result, "/broken"), 0, "{result}");
            assert!(
                result["spread"] != "flow" || result["reordered_percent"].as_f64() == Some(0.0),
                "{result}"
            );
        }
        for result in measured["tcp"].as_array().unwrap() {
            assert!(number(result, "/bytes_read") > 0, "{result}");
            assert_eq!(number(result, "/bytes_written"), number(result, "/bytes_read"), "{result}");
            assert!(result["goodput_mbps"]["p50"].as_f64() > Some(0.0), "{result}");
            let bytes = number(result, "/segments") * 1460;
            assert!(bytes >= number(result, "/bytes_read"), "a segment exceeds the maximum size: {result}");
            if result["spread"] == "flow" {
                assert_eq!(
                    (number(result, "/out_of_order_segments"), number(result, "/sack_recoveries")),
                    (0, 0),
                    "{result}"
                );
            }
            // TCP counts recoveries by SACK or by duplicate acknowledgements; the other method's counter is 0.
            let other = if result["detection"] == "rack" { "/dupack_recoveries" } else { "/sack_recoveries" };
            assert_eq!(number(result, other), 0, "{result}");
        }
    });
}

#[test]
fn ecn_experiment_reports_every_mark() {
    let numbers = [
        "/goodput_mbps/p50",
        "/flow_mbps/min",
        "/fairness/p50",
        "/queue_bytes/mean",
        "/queue_bytes/p50",
        "/queue_bytes/peak",
        "/paused_percent",
        "/frames",
        "/dropped_frames",
        "/retransmitted_segments",
    ];
    unstalled(|| {
        let report = compare("ecn", &["pfc", "pfc-ecn"], &["--speed", "50M", "--duration", "3s"], &numbers);
        let [pfc, marking] = ["pfc", "pfc-ecn"].map(|policy| &report["policies"][policy]);
        for result in [pfc, marking] {
            assert!(number(result, "/bytes_read") > 0);
            assert_eq!(number(result, "/bytes_written"), number(result, "/bytes_read"));
            assert_eq!(number(result, "/marked_frames"), number(result, "/received_marks"));
            assert_eq!(number(result, "/dropped_frames"), 0);
        }
        assert_eq!(number(pfc, "/marked_frames"), 0);
        assert!(number(marking, "/marked_frames") > 0, "the port was not congested");
    });
}

#[test]
fn tcp_experiment_retransmits_drops_of_lossy_class() {
    let args = ["ecn", "--json", "--speed", "50M", "--duration", "3s", "--policy", "lossy-wred"];
    let run = experiment(&args).output().unwrap();
    assert!(run.status.success(), "it does what it says of itself: {run:?}");
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let result = &report["policies"]["lossy-wred"];
    assert!(number(result, "/dropped_frames") > 0, "{result}");
    assert!(number(result, "/retransmitted_segments") > 0, "{result}");
    assert!(
        number(result, "/lossless/lost") >= number(result, "/dropped_frames"),
        "every drop is a loss: {result}"
    );
    assert_eq!(number(result, "/bytes_written"), number(result, "/bytes_read"));
    assert_eq!(
        (number(result, "/marked_frames"), number(result, "/received_marks")),
        (0, 0),
        "frames of senders without ECN were marked"
    );
    assert_eq!(number(result, "/pfc/xoff_sent"), 0);
}

#[test]
fn same_seed_repeats_traffic_of_shared_memory_experiment() {
    unstalled(|| {
        let args = ["shared-memory", "--json", "--speed", "50M", "--seed", "2", "--policy"];
        let policies = ["pfc-wdrop", "capfc-max-wstop"];
        let run = experiment(&args).arg(policies.join(",")).output().unwrap();
        let report: Value = serde_json::from_slice(&run.stdout).unwrap();
        let results = policies.map(|policy| &report["policies"][policy]);
        results.into_iter().for_each(note_lab);
        assert!(run.status.success(), "{report}\n{}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(number(results[0], "/lossless/sent"), number(results[1], "/lossless/sent"));
        for result in results {
            assert_eq!(result["ledger_balanced"], true);
            assert_eq!(number(result, "/frames_lost"), number(result, "/lossless/lost"));
            assert_eq!(
                (number(result, "/lossless/duplicated"), number(result, "/lossless/reordered")),
                (0, 0)
            );
            for kind in ["query", "short", "long"] {
                assert!(result[kind]["completion_ms"]["max"].is_number(), "{kind} in {result}");
            }
        }
        let flows = |result: &Value| {
            let one =
                |kind: &str| number(&result[kind], "/completion_ms/count") + number(&result[kind], "/broken");
            ["query", "short", "long"].map(one)
        };
        assert_eq!(flows(results[0]), flows(results[1]));
    });
}

fn rows(directory: &Path, name: &str) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(directory.join(name)).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let header: Vec<String> = lines.next().unwrap().collect();
    lines.map(|cells| header.iter().cloned().zip(cells).collect()).collect()
}

#[test]
fn raw_data_of_experiment_agree_with_report() {
    unstalled(|| {
        let directory = tempfile::tempdir().unwrap();
        let raw = directory.path().join("raw");
        let csv = raw.to_str().unwrap();
        let more =
            ["--speed", "100M", "--runs", "2", "--seed", "3", "--set", "class.3.xoff=80KB", "--out", csv];
        let report = compare("incast", &["pfc"], &more, &["/sweep/2/goodput_mbps/p50"]);
        assert_eq!((&report["seed"], &report["set"]["class.3.xoff"]), (&3.into(), &"80KB".into()));
        let result = &report["policies"]["pfc"];
        let interval = &result["ci95"]["/sweep/2/goodput_mbps/p50"];
        assert!(interval["low"].as_f64() <= interval["high"].as_f64() && interval["runs"] == 2, "{interval}");
        let completions = rows(&raw, "completions.csv");
        assert_eq!(completions.len(), 2 * 4 * (2 + 4 + 8));
        let mut ms: Vec<f64> = Vec::new();
        for row in completions.iter().filter(|row| row["point"] == "senders=8") {
            assert_eq!((row["sent_frames"].as_str(), row["lost_frames"].as_str()), ("256", "0"));
            ms.push(row["completion_ns"].parse::<f64>().unwrap() / 1e6);
        }
        assert_eq!(ms.len() as u64, number(result, "/sweep/2/completion_ms/count"));
        let queues = rows(&raw, "queues.csv");
        let bytes = |row: &BTreeMap<String, String>| row["bytes"].parse::<u64>().unwrap();
        let congested =
            |row: &&BTreeMap<String, String>| row["port"] == "receiver" && row["point"] == "senders=8";
        let most = queues.iter().filter(congested).map(bytes).max().unwrap();
        assert!(most > 0 && most <= number(result, "/sweep/2/queue_bytes/peak"));
        let raw_count = |event: &str| -> u64 {
            let rows = rows(&raw, "pauses.csv");
            rows.iter()
                .filter(|row| row["event"] == event)
                .map(|row| row["count"].parse::<u64>().unwrap())
                .sum()
        };
        assert_eq!(
            (raw_count("xoff"), raw_count("xon")),
            (number(result, "/pfc/xoff_sent"), number(result, "/pfc/xon_sent"))
        );
        let again = experiment(&["incast", "--out", csv]).output().unwrap();
        assert_eq!(again.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&again.stderr).contains("raw data of another run"), "{again:?}");
    });
}

/// The pipeline forwards a frame every 143 us, although the line could carry one every 123 us.
#[test]
fn pipeline_slower_than_the_line_limits_goodput() {
    let set = |key: &'static str| ["--set", key];
    let sets = ["pipeline.rate=7kpps", "pipeline.delay=25us", "pipeline.ingress=fifo"].map(set).concat();
    let more = [&["--speed", "100M"], &sets[..]].concat();
    unstalled(|| {
        let numbers = ["/sweep/2/goodput_mbps/p50", "/halts/ms"];
        let report = compare("incast", &["pfc", "pfc-wstop"], &more, &numbers);
        assert_eq!(report["set"]["pipeline.rate"], "7kpps");
        for result in ["pfc", "pfc-wstop"].map(|policy| &report["policies"][policy]) {
            let most = result.pointer("/sweep/2/goodput_mbps/max").and_then(Value::as_f64).unwrap();
            assert!(
                most <= 1472.0 * 8.0 * 7_000.0 / 1e6 * 1.01,
                "goodput of {most} Mb/s exceeds the rate of the pipeline"
            );
            assert_eq!(number(result, "/held"), 0);
        }
    });
}

#[test]
fn interrupted_experiment_leaves_no_namespace() {
    let mut run = experiment(&["incast"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let inside = wait_for("hosts and switch to run", || {
        Some(namespaces(run.id())).filter(|inside| inside.len() == 4) // two senders, receiver, switch
    });
    kill(Pid::from_raw(i32::try_from(run.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(!run.wait().unwrap().success());
    await_namespaces_unused(&inside);
}

fn namespaces(process: u32) -> BTreeSet<PathBuf> {
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    threads(&Path::new("/proc").join(process.to_string())).filter(|namespace| *namespace != own).collect()
}

fn threads(process: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_link(task.path().join("ns/net")).ok())
}

fn await_namespaces_unused(namespaces: &BTreeSet<PathBuf>) {
    wait_for("the namespaces to vanish", || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let used = processes.flat_map(|process| threads(&process.path())).any(|at| namespaces.contains(&at));
        (!used).then_some(())
    });
}

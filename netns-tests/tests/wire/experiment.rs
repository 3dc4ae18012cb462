//! Tests of `xoff experiment`: keys of the report, and no leftovers. Measured values depend on the machine and are not checked.

mod routed;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use xoff_experiments::experiment::{Experiment, VARIANTS, Variant};
use xoff_netns_tests::{note_lab, one_bed_at_a_time, unstalled, wait_for};

/// Keys of every policy in every experiment.
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
/// Rate for experiments whose duration does not depend on it; it leaves spare processor time.
const SLOW: [&str; 2] = ["--rate", "50M"];

fn experiment(args: &[&str]) -> Command {
    let mut command = Command::new(super::BINARY);
    command.arg("experiment").args(args);
    command
}

/// Runs an experiment with `policies`, all of them lossless, and checks the properties common to all experiments. The
/// report has the keys `numbers`, and identical keys for each policy.
fn compare(name: &str, policies: &[&str], more: &[&str], numbers: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("plot.svg");
    let policies_told = policies.join(",");
    let args = name.split(' ').chain(["--json", "--policy", &policies_told, "--plot"]);
    let mut command = experiment(&args.collect::<Vec<_>>());
    let _alone = one_bed_at_a_time(super::BINARY);
    let run = command.arg(&plot).args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let inside = wait_for("the experiment to run", || {
        // Four hosts, and four routers each with a namespace of its kernel: then all routing daemons run.
        let least = if name.ends_with("--routed") { 12 } else { 1 };
        Some(namespaces(run.id())).filter(|inside| inside.len() >= least)
    });
    let run = run.wait_with_output().unwrap();
    assert_left(&inside);
    let report: Value = serde_json::from_slice(&run.stdout).expect("one JSON object and nothing else");
    let policies: Vec<&Value> = policies.iter().map(|&policy| &report["policies"][policy]).collect();
    policies.iter().for_each(|of| note_lab(of));
    assert!(run.status.success(), "{report}\n{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(report["name"], name);
    for of in &policies {
        for key in KEYS.iter().chain(numbers) {
            assert!(of.pointer(key).is_some_and(Value::is_number), "{key} in {of}");
        }
        let count = |key: &str| of.pointer(key).and_then(Value::as_u64).unwrap();
        assert_eq!(of["ledger_balanced"], true);
        assert_eq!(count("/lossless/sent"), count("/lossless/received") + count("/held"));
        assert_eq!((count("/lossless/duplicated"), count("/lossless/reordered")), (0, 0));
    }
    assert!(policies.iter().all(|of| keys(of) == keys(policies[0])));
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg"));
    report
}

fn keys(of: &Value) -> Vec<&String> {
    of.as_object().unwrap().keys().collect()
}

fn number(of: &Value, key: &str) -> u64 {
    of.pointer(key).and_then(Value::as_u64).unwrap()
}

/// Runs the incast under every lossless policy that `which` selects.
fn incast(which: impl Fn(&Variant) -> bool) {
    let numbers = [
        "/sweep/2/goodput_mbps/p50",
        "/sweep/2/completion_ms/max",
        "/sweep/2/queue_bytes/peak",
        "/sweep/2/xoff_per_gb",
    ];
    let fits = |variant: &Variant| Experiment::find("incast").unwrap().fits(variant, None).is_ok();
    let lossless = VARIANTS.iter().filter(|variant| variant.lossless && which(variant) && fits(variant));
    let lossless: Vec<&str> = lossless.map(|variant| variant.name).collect();
    for policies in lossless.chunks(3) {
        unstalled(|| {
            let report = compare("incast", policies, &["--rate", "100M"], &numbers);
            for (policy, of) in report["policies"].as_object().unwrap() {
                assert!(number(of, "/pfc/xoff_sent") > 0, "{policy}: the port was congested");
                assert_eq!(number(of, "/pfc/xoff_sent"), number(of, "/pfc/xon_sent"), "every pause ended");
                assert_eq!(number(of, "/held"), 0);
                assert!(
                    of["usual_host_gap_ms"].as_f64().unwrap() > 0.0,
                    "{policy}: hosts sleep, and are woken late"
                );
                let halts = number(of, "/halts/count");
                assert!(halts > 0 || policy != "pfc-wstop", "its queue is full most of the time");
                assert!(halts == 0 || policy.ends_with("-wstop"), "{policy} halts nothing");
            }
        });
    }
}

/// Selects policies that notify or mark senders before they pause, beside PFC.
fn tells_senders(variant: &Variant) -> bool {
    ["qcn-", "pfc-ecn"].iter().any(|prefix| variant.name.starts_with(prefix))
}

// proves: experiments, experiment-parity
#[test]
fn an_incast_loses_nothing_under_any_lossless_policy_and_says_the_same_of_each() {
    incast(|variant| !tells_senders(variant));
}

// proves: experiments
#[test]
fn an_incast_loses_nothing_with_congestion_points_and_marks() {
    incast(tells_senders);
}

// proves: experiments
#[test]
fn a_victim_is_seen_beside_heavy_senders() {
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
        let report = compare("victim", &["pfc", "capfc-stop-max"], &SLOW, &numbers);
        for (_, of) in report["policies"].as_object().unwrap() {
            for point in ["sweep", "small"].iter().flat_map(|size| of[size].as_array().unwrap()) {
                let broken = ["/victim/broken", "/light_messages/broken"].map(|key| number(point, key));
                assert_eq!(broken, [0, 0]);
                assert!(number(point, "/heavy/xoff_sent") > 0, "the port was congested");
            }
        }
    });
}

// proves: experiments
#[test]
fn ofc_fig_1_runs_over_three_switches() {
    let numbers = [
        "/f0/solo_mbps/p50",
        "/f0/share_of_solo/p50",
        "/f0/completion_ms/p50",
        "/f1/mbps/p50",
        "/burst_completion_ms/max",
    ];
    unstalled(|| {
        let report = compare("ofc-fig1", &["pfc", "ofc"], &SLOW, &numbers);
        for (_, of) in report["policies"].as_object().unwrap() {
            assert_eq!(number(of, "/f0/completion_ms/count"), 1, "all of F0 arrived");
        }
    });
}

// proves: experiments, cascade
#[test]
fn a_cascade_tells_every_step() {
    let numbers = ["/other_class_sent", "/timeline/0/at_ms", "/runs_in_order", "/runs_judged"];
    unstalled(|| {
        // Runs in which the machine stalled are not judged; one of three is.
        let three_runs = [&SLOW[..], &["--runs", "3"]].concat();
        let report = compare("cascade", &["pfc", "capfc-stop-max"], &three_runs, &numbers);
        for (_, of) in report["policies"].as_object().unwrap() {
            for step in of["steps"].as_array().unwrap() {
                assert!(step["at_ms"].is_number(), "{step}");
            }
            let class_0 = ["/other_class_sent", "/other_class_received"].map(|key| number(of, key));
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

// proves: experiments
#[test]
fn what_a_deadlock_holds_is_not_lost() {
    unstalled(|| {
        let report = compare("deadlock", &["pfc", "ofc"], &SLOW, &["/deadlocks", "/delivered_mbps/p50"]);
        for (_, of) in report["policies"].as_object().unwrap() {
            assert_eq!(number(of, "/held") > 0, number(of, "/deadlocks") > 0);
            assert_eq!(of["circle"].as_array().unwrap().is_empty(), number(of, "/deadlocks") == 0);
        }
        // Under PFC the ring is blocked, each switch holds the one before it, and the report has that cycle.
        let of = &report["policies"]["pfc"];
        assert_eq!(number(of, "/deadlocks"), 1);
        let held = number(of, "/held");
        assert_eq!((number(of, "/lossless/lost"), held > 0), (held, true), "{of}");
        let circle: Vec<&str> =
            of["circle"].as_array().unwrap().iter().map(|who| who.as_str().unwrap()).collect();
        for switch in ["a", "b", "c"] {
            let holds = format!("{switch} holds the peer of ");
            assert!(circle.iter().any(|who| who.starts_with(&holds)), "{switch} in {circle:?}");
        }
        assert_eq!(circle.len(), 6, "a queue and a hold for each: {circle:?}");
    });
}

/// Runs a QCN experiment. Every CNM is decoded and comes from the congestion points of the variant.
fn qcn(name: &str, flows: usize) {
    let numbers = ["/phases/2/congested_mbps/p50", "/phases/2/fairness/p50", "/flows/4/mbps/1/p50", "/cnms"];
    let policies = ["qcn-egress", "qcn-ingress-occupancy"];
    let report = compare(name, &policies, &["--rate", "50M", "--seconds", "3"], &numbers);
    for (policy, at_inputs) in policies.into_iter().zip([false, true]) {
        let of = &report["policies"][policy];
        let told: Vec<u64> =
            of["flows"].as_array().unwrap().iter().map(|flow| number(flow, "/cnms")).collect();
        assert_eq!(told.len(), flows);
        let captured = of["captured"].as_array().unwrap();
        assert_eq!(captured.len() as u64, told.iter().sum::<u64>());
        assert_eq!((number(of, "/cnms"), number(of, "/cnms_malformed")), (captured.len() as u64, 0));
        assert!(!captured.is_empty(), "four lines meet at one");
        for cnm in captured {
            assert!((1..=63).contains(&number(cnm, "/feedback")), "{cnm}");
            assert_eq!(cnm["port"].as_str().unwrap().starts_with("input-"), at_inputs, "{cnm}");
        }
    }
}

// proves: experiments
#[test]
fn congestion_points_tell_the_flows_of_a_fan_in() {
    unstalled(|| qcn("qcn-fanin", 5));
}

// proves: experiments
#[test]
fn congestion_points_tell_the_flows_of_a_shared_input() {
    unstalled(|| qcn("qcn-shared-input", 6));
}

// proves: experiments
#[test]
fn two_lossless_classes_lose_nothing_side_by_side() {
    let numbers = [
        "/higher_alone_mbps/p50",
        "/higher/mbps/p50",
        "/higher/xoff_sent",
        "/lower/mbps/p50",
        "/lower/paused_ms",
    ];
    unstalled(|| {
        let report = compare("two-classes", &["pfc", "g-pfc"], &SLOW, &numbers);
        for (_, of) in report["policies"].as_object().unwrap() {
            assert!(number(of, "/lower/xoff_sent") > 0, "the port was congested");
        }
    });
}

// proves: experiments
#[test]
fn messages_and_tcp_are_spread_over_four_paths_in_three_ways_and_nothing_is_lost() {
    let of = |place: usize| {
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
    let of_tcp = |place: usize| {
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
    let numbers = (0..3).flat_map(of).chain((0..7).flat_map(of_tcp));
    let numbers: Vec<String> = numbers.chain(["/p99_flow_by_adaptive".into()]).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    unstalled(|| {
        let report = compare("balance", &["pfc"], &SLOW, &numbers);
        let measured = &report["policies"]["pfc"];
        for of in measured["spreads"].as_array().unwrap() {
            assert_eq!(number(of, "/broken"), 0, "{of}");
            assert!(of["spread"] != "flow" || of["reordered_percent"].as_f64() == Some(0.0), "{of}");
        }
        for of in measured["tcp"].as_array().unwrap() {
            assert!(number(of, "/bytes_read") > 0, "{of}");
            assert_eq!(number(of, "/bytes_written"), number(of, "/bytes_read"), "{of}");
            assert!(of["goodput_mbps"]["p50"].as_f64() > Some(0.0), "{of}");
            let bytes = number(of, "/segments") * 1460;
            assert!(bytes >= number(of, "/bytes_read"), "no segment has more: {of}");
            if of["spread"] == "flow" {
                assert_eq!(
                    (number(of, "/out_of_order_segments"), number(of, "/sack_recoveries")),
                    (0, 0),
                    "{of}"
                );
            }
            // With SACK losses are detected by SACK, otherwise by counting acknowledgements.
            let other = if of["detection"] == "rack" { "/dupack_recoveries" } else { "/sack_recoveries" };
            assert_eq!(number(of, other), 0, "{of}");
        }
    });
}

// proves: experiments
#[test]
fn the_kernels_tcp_sees_every_mark_and_reads_all_that_was_written() {
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
        let report = compare("ecn", &["pfc", "pfc-ecn"], &["--rate", "50M", "--seconds", "3"], &numbers);
        let [pfc, marking] = ["pfc", "pfc-ecn"].map(|policy| &report["policies"][policy]);
        for of in [pfc, marking] {
            assert!(number(of, "/bytes_read") > 0);
            assert_eq!(number(of, "/bytes_written"), number(of, "/bytes_read"));
            assert_eq!(number(of, "/marked_frames"), number(of, "/marks_seen"));
            assert_eq!(number(of, "/dropped_frames"), 0);
        }
        assert_eq!(number(pfc, "/marked_frames"), 0);
        assert!(number(marking, "/marked_frames") > 0, "the port was congested");
    });
}

// proves: experiments
#[test]
fn what_a_lossy_class_drops_tcp_sends_again() {
    let args = ["ecn", "--json", "--rate", "50M", "--seconds", "3", "--policy", "lossy-wred"];
    let _alone = one_bed_at_a_time(super::BINARY);
    let run = experiment(&args).output().unwrap();
    assert!(run.status.success(), "it does what it says of itself: {run:?}");
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    let of = &report["policies"]["lossy-wred"];
    assert!(number(of, "/dropped_frames") > 0, "{of}");
    assert!(number(of, "/retransmitted_segments") > 0, "{of}");
    assert!(number(of, "/lossless/lost") >= number(of, "/dropped_frames"), "every drop is a loss: {of}");
    assert_eq!(number(of, "/bytes_written"), number(of, "/bytes_read"));
    assert_eq!((number(of, "/marked_frames"), number(of, "/marks_seen")), (0, 0), "no sender is capable");
    assert_eq!(number(of, "/pfc/xoff_sent"), 0);
}

// proves: experiments
#[test]
fn policies_have_the_same_traffic_by_lot_and_what_shared_memory_loses_is_told() {
    unstalled(|| {
        let args = ["shared-memory", "--json", "--rate", "50M", "--seed", "2", "--policy"];
        let policies = ["pfc-wdrop", "capfc-max-wstop"];
        let run = {
            let _alone = one_bed_at_a_time(super::BINARY);
            experiment(&args).arg(policies.join(",")).output().unwrap()
        };
        let report: Value = serde_json::from_slice(&run.stdout).unwrap();
        let of = policies.map(|policy| &report["policies"][policy]);
        of.into_iter().for_each(note_lab);
        assert!(run.status.success(), "{report}\n{}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(number(of[0], "/lossless/sent"), number(of[1], "/lossless/sent"));
        for of in of {
            assert_eq!(of["ledger_balanced"], true);
            assert_eq!(number(of, "/frames_lost"), number(of, "/lossless/lost"));
            assert_eq!((number(of, "/lossless/duplicated"), number(of, "/lossless/reordered")), (0, 0));
            for kind in ["query", "short", "long"] {
                assert!(of[kind]["completion_ms"]["max"].is_number(), "{kind} in {of}");
            }
        }
        let flows = |of: &Value| {
            let one = |kind: &str| number(&of[kind], "/completion_ms/count") + number(&of[kind], "/broken");
            ["query", "short", "long"].map(one)
        };
        assert_eq!(flows(of[0]), flows(of[1]));
    });
}

fn rows(directory: &Path, name: &str) -> Vec<BTreeMap<String, String>> {
    let text = fs::read_to_string(directory.join(name)).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let header: Vec<String> = lines.next().unwrap().collect();
    lines.map(|cells| header.iter().cloned().zip(cells).collect()).collect()
}

// proves: experiments
#[test]
fn what_is_set_is_told_and_raw_data_agree_with_the_result() {
    unstalled(|| {
        let directory = tempfile::tempdir().unwrap();
        let raw = directory.path().join("raw");
        let csv = raw.to_str().unwrap();
        let more =
            ["--rate", "100M", "--runs", "2", "--seed", "3", "--set", "class.3.xoff=80KB", "--csv", csv];
        let report = compare("incast", &["pfc"], &more, &["/sweep/2/goodput_mbps/p50"]);
        assert_eq!((&report["seed"], &report["set"]["class.3.xoff"]), (&3.into(), &"80KB".into()));
        let of = &report["policies"]["pfc"];
        let interval = &of["ci95"]["/sweep/2/goodput_mbps/p50"];
        assert!(interval["low"].as_f64() <= interval["high"].as_f64() && interval["runs"] == 2, "{interval}");
        // Two runs of four rounds with two, four and eight senders.
        let completions = rows(&raw, "completions.csv");
        assert_eq!(completions.len(), 2 * 4 * (2 + 4 + 8));
        let mut ms: Vec<f64> = Vec::new();
        for row in completions.iter().filter(|row| row["point"] == "senders=8") {
            assert_eq!((row["sent_frames"].as_str(), row["lost_frames"].as_str()), ("256", "0"));
            ms.push(row["completion_ns"].parse::<f64>().unwrap() / 1e6);
        }
        assert_eq!(ms.len() as u64, number(of, "/sweep/2/completion_ms/count"));
        let queues = rows(&raw, "queues.csv");
        let bytes = |row: &BTreeMap<String, String>| row["bytes"].parse::<u64>().unwrap();
        let congested =
            |row: &&BTreeMap<String, String>| row["port"] == "receiver" && row["point"] == "senders=8";
        let most = queues.iter().filter(congested).map(bytes).max().unwrap();
        assert!(most > 0 && most <= number(of, "/sweep/2/queue_bytes/peak"));
        let told = |event: &str| -> u64 {
            let rows = rows(&raw, "pauses.csv");
            rows.iter()
                .filter(|row| row["event"] == event)
                .map(|row| row["count"].parse::<u64>().unwrap())
                .sum()
        };
        assert_eq!((told("xoff"), told("xon")), (number(of, "/pfc/xoff_sent"), number(of, "/pfc/xon_sent")));
        let again = experiment(&["incast", "--csv", csv]).output().unwrap();
        assert_eq!(again.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&again.stderr).contains("raw data of another run"), "{again:?}");
    });
}

/// The pipeline takes a frame every 143 us, the line one every 123 us: the pipeline is congested.
// proves: experiments
#[test]
fn the_papers_pipeline_is_set_and_takes_no_more_than_its_rate() {
    let set = |key: &'static str| ["--set", key];
    let sets = ["pipeline.rate=7kpps", "pipeline.delay=25us", "pipeline.ingress=fifo"].map(set).concat();
    let more = [&["--rate", "100M"], &sets[..]].concat();
    unstalled(|| {
        let numbers = ["/sweep/2/goodput_mbps/p50", "/halts/ms"];
        let report = compare("incast", &["pfc", "pfc-wstop"], &more, &numbers);
        assert_eq!(report["set"]["pipeline.rate"], "7kpps");
        for of in ["pfc", "pfc-wstop"].map(|policy| &report["policies"][policy]) {
            let most = of.pointer("/sweep/2/goodput_mbps/max").and_then(Value::as_f64).unwrap();
            assert!(
                most <= 1472.0 * 8.0 * 7_000.0 / 1e6 * 1.01,
                "{most} Mb/s are more than the pipeline takes"
            );
            assert_eq!(number(of, "/held"), 0);
        }
    });
}

// proves: experiments
#[test]
fn a_key_that_there_is_not_is_refused_before_anything_runs() {
    for (set, why) in [
        ("class.3.xof=80KB", "did you mean `xoff`?"),
        ("class.3.xon=90KB", "xon"),
        ("port.speed=1G", "--rate"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let csv = directory.path().join("raw");
        let run = experiment(&["incast", "--set", set, "--csv", csv.to_str().unwrap()]).output().unwrap();
        let message = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{message}");
        assert!(message.contains(why) && !message.contains("run 1 of 1"), "{set}: {message}");
        assert!(!csv.exists());
    }
}

#[test]
fn a_length_is_for_experiments_that_have_a_choice() {
    let run = experiment(&["incast", "--seconds", "5"]).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(message.contains("ends by itself"), "{message}");
}

// proves: experiments
#[test]
fn an_interrupted_experiment_leaves_nothing() {
    let _alone = one_bed_at_a_time(super::BINARY);
    let mut run = experiment(&["incast"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let inside = wait_for("hosts and switch to run", || {
        Some(namespaces(run.id())).filter(|inside| inside.len() == 4) // two senders, receiver, switch
    });
    kill(Pid::from_raw(i32::try_from(run.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(!run.wait().unwrap().success());
    assert_left(&inside);
}

#[test]
fn a_bad_name_gets_one_message_with_those_that_there_are() {
    let run = experiment(&["incats"]).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(message.contains("incats") && message.contains("incast"), "{message}");
}

/// Returns the network namespaces of the threads of a process, except our own.
fn namespaces(process: u32) -> BTreeSet<PathBuf> {
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    threads(&Path::new("/proc").join(process.to_string())).filter(|namespace| *namespace != own).collect()
}

fn threads(process: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_link(task.path().join("ns/net")).ok())
}

fn assert_left(namespaces: &BTreeSet<PathBuf>) {
    wait_for("the namespaces to vanish", || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let used = processes.flat_map(|process| threads(&process.path())).any(|at| namespaces.contains(&at));
        (!used).then_some(())
    });
}

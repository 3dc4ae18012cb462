#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: scenarios

mod changes;
mod faults;
mod foreign;
mod golden;
mod mean;
mod reproduction;

use std::collections::BTreeMap;

use super::job::label;
use super::tables::{FLOWS, LOADS, RUNS, Rows, TABLES};
use super::*;
use crate::results::Column;
use xoff_sim::scheduled::AnySwitch;

const DOCUMENT: &str = include_str!("../../../docs/simulation.md");

fn scenarios() -> Vec<String> {
    let entries = fs::read_dir(path("").parent().unwrap()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let tables = paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let mut names: Vec<String> =
        tables.map(|path| path.file_stem().unwrap().to_str().unwrap().into()).collect();
    names.sort();
    names
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../sim/scenarios/{name}.toml"))
}

fn source(name: &str, set: &[&str]) -> Source {
    let given: Vec<_> = set.iter().map(|text| text.parse().unwrap()).collect();
    Source::load(&path(name), &given).unwrap()
}

const SHORT: [&str; 3] = ["topology.hosts=5", "load.0.fan_in=4", "load.0.size=20KB"];

fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(
                files(&path)
                    .into_iter()
                    .map(|(name, bytes)| (path.file_name().unwrap().into(), name, bytes))
                    .map(|(below, name, bytes): (PathBuf, PathBuf, Vec<u8>)| (below.join(name), bytes)),
            );
        } else {
            found.insert(path.file_name().unwrap().into(), fs::read(&path).unwrap());
        }
    }
    found
}

fn written(out: &Path, threads: usize, shard: Option<Shard>) -> BTreeMap<PathBuf, Vec<u8>> {
    let source = source("incast", &SHORT);
    let file = path("incast");
    let request =
        Request { source: &source, path: &file, seeds: Some((1, 4)), shard, threads, out: Some(out) };
    run(&request, &mut |_| ()).unwrap();
    files(out)
}

#[test] // proves: sim-results
fn every_result_column_is_documented_with_its_unit() {
    for table in TABLES {
        let heading = format!("\n### `{}`\n", table.name);
        let (_, section) = DOCUMENT.split_once(&heading).unwrap_or_else(|| panic!("no section {heading}"));
        let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
        let documented: Vec<String> =
            rows.take_while(|line| line.starts_with('|')).map(str::to_owned).collect();
        let row = |column: &Column| format!("| `{}` | {} | {} |", column.name, column.unit, column.about);
        let (of_all, columns) = table.columns.split_at(2);
        assert_eq!(of_all.iter().map(|column| column.name).collect::<Vec<_>>(), ["point", "seed"]);
        let of_loads =
            |it: &Column| LOADS.columns.iter().any(|other| (other.name, other.unit) == (it.name, it.unit));
        let columns = columns.iter().filter(|column| table.name != RUNS.name || !of_loads(column));
        assert_eq!(documented, columns.map(row).collect::<Vec<_>>(), "{}", table.name);
    }
}

#[test] // proves: sim-results
fn results_are_identical_for_any_number_of_threads_and_shards() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let one = written(&at("one"), 1, None);
    assert_eq!(written(&at("four"), 4, None), one);
    let parts: Vec<PathBuf> = (1..=3).map(|number| at(&format!("shard-{number}"))).collect();
    for (number, part) in (1..).zip(&parts) {
        written(part, 2, Some(Shard { number, count: 3 }));
    }
    merge(&parts, &at("merged"), &mut |_| ()).unwrap();
    assert_eq!(files(&at("merged")), one);
    let missing = merge(&parts[1..], &at("part"), &mut |_| ()).unwrap_err().to_string();
    assert!(missing.contains("runs are missing"), "{missing}");
    let twice =
        merge(&[parts[0].clone(), parts[0].clone()], &at("twice"), &mut |_| ()).unwrap_err().to_string();
    assert!(twice.contains("that another directory also has"), "{twice}");
}

#[test] // proves: sim-results
fn shipped_scenarios_run_for_every_seed() {
    for name in scenarios() {
        let short: &[&str] = match name.as_str() {
            "ofc-fat-tree" | "ofc-fig8" => &["scenario.duration=1100us"],
            "capfc-switch" | "capfc-fat-tree" => &["scenario.duration=20ms"],
            "capfc-tcp" => &["scenario.limit=3ms", "switch.all.when_full=stop"],
            "qcn-rack-fabric" | "qcn-shared-input" => &["scenario.duration=2ms", "load.4.begin=1ms"],
            _ => &["scenario.seed=1"],
        };
        let source = source(&name, short);
        let rows = |seed| {
            let job = Job { point: 0, seed };
            job::run(&source, &path(&name), job, 1, &Default::default()).unwrap()[&RUNS][0].clone()
        };
        let (at, first) = (RUNS.at("trace"), rows(1));
        assert_eq!(first[RUNS.at("lost_frames")], "0", "{name}");
        assert_eq!(first[at], rows(1)[at], "{name}");
        assert_ne!(first[at], rows(2)[at], "{name}");
    }
}

#[test]
fn tcp_query_loses_frames_only_if_full_queues_drop() {
    let query = ["topology.k=4", "load.0.end=1ns", "load.1.end=1ns", "load.2.askers=[0]", "load.2.fan_in=15"];
    let once = ["load.2.open=false", "load.2.gap=1us", "load.2.end=20us", "hosts.tcp.initial_window=10"];
    // For each value of `when_full`: lost frames, time-outs and XOFFs, first under PFC, then under Stop-Calibrate.
    let [drop, stop] = ["switch.all.when_full=drop", "switch.all.when_full=stop"].map(|when_full| {
        let source = source("capfc-tcp", &[&query[..], &once, &[when_full]].concat());
        let rows = |point| {
            let job = Job { point, seed: 1 };
            job::run(&source, &path("capfc-tcp"), job, 1, &Default::default()).unwrap()[&RUNS][0].clone()
        };
        let columns = ["lost_frames", "timeouts", "xoffs"];
        let counts = |point| columns.map(|column| rows(point)[RUNS.at(column)].parse::<u64>().unwrap());
        [counts(0), counts(2)]
    });
    let [[lost, timeouts, xoffs], calibrate] = drop;
    assert!(lost > 0 && timeouts > 0 && xoffs == 0, "PFC_wdrop: {drop:?}");
    assert!(calibrate[..2] == [0, 0] && calibrate[2] > 0, "Stop-Calibrate: {drop:?}");
    assert_eq!(stop[0][..2], [0, 0], "PFC_wstop");
}

fn run_of(scenario: &str, files: &[(&str, &str)]) -> Rows {
    let place = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| fs::write(place.path().join(name), text).unwrap());
    let path = place.path().join("scenario.toml");
    fs::write(&path, scenario).unwrap();
    let source = Source::load(&path, &[]).unwrap();
    job::run(&source, &path, Job { point: 0, seed: 1 }, 1, &Default::default()).unwrap()
}

fn refusal(scenario: &str, files: &[(&str, &str)]) -> Option<String> {
    let place = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| fs::write(place.path().join(name), text).unwrap());
    let source = Source::from_toml("x", scenario, &[]).unwrap();
    let model = build::model(&source, 0, 1, &place.path().join("scenario.toml"), 1);
    model.err().map(|error| error.to_string())
}

const LINKS: &str = "h0 s0 100 500\nh1 s1 10 500\ns0 s1 100 1000\n";

#[test] // proves: sim-fabrics
fn flow_times_equal_times_computed_from_links() {
    let scenario = "[scenario]\nname = \"x\"\n[topology]\nkind = \"edges\"\nfile = \"links\"\n[[load]]\nkind = \"flows\"\nfile = \"flows\"\n";
    let rows = run_of(scenario, &[("links", LINKS), ("flows", "0 1 3 1456 100\n")]);
    let flow = |column: &str| rows[&FLOWS][0][FLOWS.at(column)].as_str();
    // A frame of 1,538 bytes takes 123.04 ns on each of two lines of 100 Gb/s, and 1230.4 ns on one of 10 Gb/s.
    // Propagation takes 2,000 ns.
    assert_eq!((flow("fct_ns"), flow("slowdown")), ("3476.480", "1"));
    assert_eq!(rows[&LOADS][0][LOADS.at("flows_done")], "1");
}

#[test]
fn queries_and_bursts_start_at_configured_begin() {
    let starts = |load: &str| {
        let topology = "[scenario]\nname = \"x\"\n[topology]\nkind = \"single\"\nhosts = 3\n";
        let rows = run_of(&format!("{topology}[[load]]\nsize = 1000\nbegin = \"20us\"\n{load}\n"), &[]);
        rows[&FLOWS].iter().map(|row| row[FLOWS.at("start_ns")].clone()).collect::<Vec<_>>()
    };
    assert_eq!(starts("kind = \"incast\"\nfan_in = 2"), ["20000"; 2]);
    assert_eq!(
        starts("kind = \"incast\"\nfan_in = 2\nopen = true"),
        ["20000"; 2],
        "there must be a single query"
    );
    let on_off = "kind = \"on-off\"\npairs = [[0, 1]]\ngap = \"5us\"\ngaps = \"fixed\"\nend = \"26us\"";
    assert_eq!(starts(on_off), ["25000"]);
}

/// The longest chain has more switches than a byte can count.
#[test] // proves: sim-fabrics
fn lone_flow_on_long_path_has_slowdown_one() {
    for switches in [255, 256, 300] {
        let topology = format!("kind = \"chain\"\nswitches = {switches}");
        let scenario = format!(
            "[scenario]\nname = \"x\"\n[topology]\n{topology}\n[[load]]\nkind = \"permutation\"\nsize = 1000\n"
        );
        let rows = run_of(&scenario, &[]);
        assert!(
            rows[&FLOWS].iter().all(|row| row[FLOWS.at("slowdown")] == "1"),
            "{switches}: {:?}",
            rows[&FLOWS]
        );
    }
}

#[test]
fn warning_names_sweep_points_with_identical_results() {
    let text = |kind: &str| {
        let fabric = "[scenario]\nname = \"x\"\n[topology]\nkind = \"single\"\nhosts = 3\n[[load]]\nkind = \"incast\"\nfan_in = 2\nsize = \"1MB\"\n";
        let text = format!("{fabric}{kind}[[sweep]]\nswitch.all.class.3.xoff = [\"20KB\", \"30KB\"]\n");
        let source = Source::from_toml("x.toml", &text, &[]).unwrap();
        let path = Path::new("x.toml");
        let request = Request { source: &source, path, seeds: None, shard: None, threads: 1, out: None };
        run(&request, &mut |_| ()).unwrap().text()
    };
    let same = "xoff=30KB: every frame is as in the control runs; the varied keys have no effect here";
    assert!(!text("").contains("as in the control runs"), "{}", text(""));
    let summary = text("[switch.switch.class.3]\nxoff = \"25KB\"\n");
    assert!(summary.contains(same), "{summary}");
}

#[test]
fn topology_beyond_port_or_path_limit_is_refused() {
    let why = |topology: &str| {
        let text = format!(
            "[scenario]\nname = \"x\"\n[topology]\n{topology}\n[[load]]\nkind = \"ring\"\nsize = 1\n"
        );
        refusal(&text, &[]).unwrap_or_default()
    };
    let leaf_spine = |spines: u32, hosts: u32| {
        format!("kind = \"leaf-spine\"\nleaves = 2\nspines = {spines}\nhosts = {hosts}")
    };
    assert_eq!(why(&leaf_spine(64, 192)), "");
    assert_eq!(why(&leaf_spine(64, 193)), "a leaf would have 257 ports, but a switch has at most 256");
    let ways = "a switch would have 65 paths to one destination, but can spread frames over at most 64";
    assert_eq!(why(&leaf_spine(65, 1)), ways);
    assert_eq!(why(&leaf_spine(255, 1)), ways.replace("65", "255"));
    assert_eq!(why(&leaf_spine(2, 1).replace("leaves = 2", "leaves = 255")), "");
    let fat_tree = |pods: u32, edges: u32, cores: u32| {
        format!(
            "kind = \"fat-tree\"\npods = {pods}\nedges = {edges}\naggregations = 1\ncores = {cores}\nhosts = 1"
        )
    };
    assert_eq!(why(&fat_tree(2, 128, 64)), "");
    assert_eq!(why(&fat_tree(2, 128, 128)), ways.replace("65", "128"), "256 ports");
    assert_eq!(
        why(&fat_tree(2, 128, 129)),
        "an aggregation switch would have 257 ports, but a switch has at most 256"
    );
    assert_eq!(why(&fat_tree(2, 1, 65)), ways);
    let edge = "kind = \"fat-tree\"\npods = 1\nedges = 1\naggregations = 2\ncores = 2\nhosts = 255";
    assert_eq!(why(edge), "an edge switch would have 257 ports, but a switch has at most 256");
}

#[test]
fn error_names_host_without_path() {
    let why = |load: &str, links: &str| {
        let files = [("links", links), ("flows", "1 2 3 1456 0\n0 1 3 1456 0\n")];
        let scenario = format!(
            "[scenario]\nname = \"x\"\n[topology]\nkind = \"edges\"\nfile = \"links\"\n[[load]]\n{load}\n"
        );
        refusal(&scenario, &files).unwrap_or_default()
    };
    let partial = "h0 s0 100 500\nh1 s1 100 500\nh2 s2 100 500\ns1 s2 100 500\n";
    let connected = format!("{partial}s0 s2 100 500\n");
    let loads = [
        "kind = \"flows\"\nfile = \"flows\"",
        "kind = \"permutation\"\nsize = 1",
        "kind = \"incast\"\nsize = 1\nfan_in = 1\naskers = [1]\nservers = [2, 0]",
        "kind = \"on-off\"\nsize = 1\ngap = \"1us\"\npairs = [[1, 2], [0, 2]]\nend = \"1us\"",
        "kind = \"draw\"\nsize = 1\npairs = [[0, 2]]\nflows = 1",
    ];
    for load in loads {
        assert!(why(load, partial).contains(": no path leads from host "), "{load}: {}", why(load, partial));
        assert_eq!(why(load, &connected), "", "{load}");
    }
    let apart = "kind = \"on-off\"\nsize = 1\ngap = \"1us\"\npairs = [[1, 2]]\nend = \"1us\"";
    assert_eq!(why(apart, partial), "", "a load that stays within one part of the fabric must be accepted");
    let one = "kind = \"poisson\"\nsize = 1\nload = 0.1\nend = \"1us\"\nhosts = [1, 1]";
    assert!(
        why(one, &connected).ends_with("has one host, but flows need at least two"),
        "{}",
        why(one, &connected)
    );
}

#[test]
fn empty_and_late_flow_files_are_refused() {
    let scenario = "[scenario]\nname = \"x\"\nlimit = \"1ms\"\n[topology]\nkind = \"single\"\nhosts = 2\n[[load]]\nkind = \"flows\"\nfile = \"flows\"\n";
    let why = |flows: &str| refusal(scenario, &[("flows", flows)]).unwrap_or_default();
    assert_eq!(why("0 1 3 1456 999999\n"), "");
    for none in ["", "# from to class bytes start\n\n"] {
        assert!(why(none).ends_with("flows: the file contains no flow"), "{}", why(none));
    }
    let late = why("0 1 3 1456 0\n0 1 3 1456 1000000\n");
    assert!(late.ends_with("flows: a flow starts at 1ms, but the run ends at 1ms at the latest"), "{late}");
}

#[test]
fn slow_receiver_faster_than_its_line_is_refused() {
    let why = |host: u32, rate: &str| {
        let text = format!(
            "[scenario]\nname = \"x\"\n[topology]\nkind = \"edges\"\nfile = \"links\"\n[[receiver]]\nhosts = [{host}]\n\
             rate = \"{rate}\"\n[[load]]\nkind = \"permutation\"\nsize = 1000\n"
        );
        refusal(&text, &[("links", LINKS)])
    };
    assert_eq!([why(0, "100G"), why(1, "10G")], [None, None]);
    let expected = "a [[receiver]] has a `rate` of 10001Mb/s, but the line of host 1 has 10Gb/s".to_owned();
    assert_eq!(why(1, "10001M"), Some(expected));
    assert!(why(0, "101G").is_some_and(|why| why.contains("100Gb/s")));
}

#[test] // proves: sim-results
fn pause_rows_name_slow_receiver_as_cause() {
    let scenario = |pauses: bool| {
        format!(
            "[scenario]\nname = \"x\"\n[topology]\nkind = \"dumbbell\"\nhosts = 2\n[output]\npauses = {pauses}\n\
             [[receiver]]\nhosts = [3]\nrate = \"10G\"\nbuffer = \"400KB\"\n[[load]]\nkind = \"incast\"\naskers = [3]\n\
             servers = [0]\nfan_in = 1\nsize = \"1MB\"\n"
        )
    };
    let rows = run_of(&scenario(true), &[]);
    let cell = |row: &Row, name: &str| row[tables::PAUSES.at(name)].clone();
    let (own, others): (Vec<&Row>, Vec<&Row>) =
        rows[&tables::PAUSES].iter().partition(|row| cell(row, "trigger") == "slow_receiver");
    assert!(!own.is_empty() && !others.is_empty());
    assert!(others.iter().all(|row| !cell(row, "switch").is_empty()));
    let columns = ["switch", "port", "class", "peer", "cause_class", "culprit_port", "relayed"];
    for row in &own {
        assert_eq!(columns.map(|name| cell(row, name)), ["", "", "3", "s1p1", "3", "", "0"]);
    }
    let counts = own.iter().map(|row| 1 + cell(row, "refreshes").parse::<u64>().unwrap()).sum::<u64>();
    let at = |name: &str| tables::CLASSES.at(name);
    let class = rows[&tables::CLASSES].iter().find(|row| row[at("peer")] == "h3").unwrap();
    assert_eq!(class[at("xoff_received")], counts.to_string());
    assert!(run_of(&scenario(false), &[])[&tables::PAUSES].is_empty());
}

/// The buffer holds one frame above `xoff`: in no class does XOFF come in time to prevent drops.
#[test] // proves: sim-results
fn drop_rows_name_slow_receiver_and_class() {
    let run = |class: u8, buffer: &str| {
        let rows = run_of(
            &format!(
                "[scenario]\nname = \"x\"\nduration = \"1ms\"\n[topology]\nkind = \"single\"\nhosts = 3\n\
                 [[receiver]]\nhosts = [2]\nrate = \"10G\"\nbuffer = \"{buffer}\"\nxoff = \"5KB\"\n\
                 [[load]]\nkind = \"incast\"\nclass = {class}\naskers = [2]\nservers = [0]\nfan_in = 1\nsize = \"500KB\"\n"
            ),
            &[],
        );
        let lost = rows[&RUNS][0][RUNS.at("lost_frames")].clone();
        let names = ["switch", "kind", "port", "peer", "class", "reason", "dropped_frames"];
        let own = rows[&tables::DROPS].iter().filter(|row| row[tables::DROPS.at("kind")] == "host");
        let own = own.map(|row| names.map(|name| row[tables::DROPS.at(name)].clone()));
        (lost, own.collect::<Vec<_>>())
    };
    for class in [3, 0] {
        let (lost, drops) = run(class, "7KB");
        assert_ne!(lost, "0");
        assert_eq!(
            drops,
            [["", "host", "", "h2", &class.to_string(), "slow_receiver", &lost].map(str::to_owned)]
        );
    }
    assert_eq!(run(3, "50KB"), ("0".to_owned(), Vec::new()));
}

#[test] // proves: sim-fabrics
fn flows_survive_link_failure_and_repair() {
    let scenario = |fault: &str| {
        format!(
            "[scenario]\nname = \"x\"\n[topology]\nkind = \"dumbbell\"\nhosts = 2\n[hosts]\ntransport = \"roce\"\n\
             [[load]]\nkind = \"incast\"\nservers = [2, 3]\nfan_in = 2\nsize = \"1MB\"\n{fault}"
        )
    };
    let run = |fault: &str| {
        let rows = run_of(&scenario(fault), &[]);
        ["flows_done", "resent_frames", "timeouts"]
            .map(|name| rows[&RUNS][0][RUNS.at(name)].parse::<u64>().unwrap())
    };
    assert_eq!(run(""), [2, 0, 0]);
    for end in ["s0p2", "h0", "h2"] {
        let [done, resent, _] = run(&format!("[[fault]]\nat = \"{end}\"\ndown = \"50us\"\nup = \"80us\"\n"));
        assert!(done == 2 && resent > 0, "{end}: {done} {resent}");
    }
    let [done, resent, _] = run("[[fault]]\nat = \"h2\"\nlost = 0.01\n");
    assert!(done == 2 && resent > 0, "{done} {resent}");
}

#[test] // proves: sim-fabrics
fn routed_and_bridged_runs_are_equal_on_single_path() {
    for (kind, control) in [
        ("dumbbell\"\nhosts = 4", "dcqcn"),
        ("chain\"\nswitches = 3", "none"),
        ("ring\"\nswitches = 4", "none"),
    ] {
        let flows = |routed: bool| {
            let rows = run_of(
                &format!(
                    "[scenario]\nname = \"x\"\n[topology]\nkind = \"{kind}\nrouted = {routed}\n[switch.all.class.3]\necn_min = \"20KB\"\n\
                     [hosts]\ntransport = \"roce\"\ncontrol = \"{control}\"\n[[load]]\nkind = \"permutation\"\nsize = \"200KB\"\n"
                ),
                &[],
            );
            assert_eq!(rows[&RUNS][0][RUNS.at("lost_frames")], "0");
            rows[&FLOWS].clone()
        };
        let (routed, bridged) = (flows(true), flows(false));
        assert!(!routed.is_empty());
        assert_eq!(routed, bridged, "{kind}");
    }
}

#[test] // proves: sim-fabrics
fn routed_fabrics_lose_no_frame_and_count_every_frame() {
    let fat_tree = "kind = \"fat-tree\"\nk = 4";
    let leaf_spine = "kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts = 4\nfailed = [[2, 1]]";
    for topology in [fat_tree, leaf_spine] {
        for (spread, hosts) in [
            ("flow", "control = \"swift\""),
            ("flow", "control = \"qcn\""),
            ("adaptive", "transport = \"line-rate\""),
        ] {
            let transport = if hosts.contains("transport") { "" } else { "transport = \"roce\"\n" };
            let scenario = format!(
                "[scenario]\nname = \"x\"\n[topology]\n{topology}\nrouted = true\nspread = \"{spread}\"\n[switch.all.qcn]\negress = [3]\n\
                 [hosts]\n{transport}{hosts}\n[[load]]\nkind = \"permutation\"\nsize = \"300KB\"\n\
                 [[load]]\nkind = \"incast\"\nfan_in = 5\nsize = \"100KB\"\n"
            );
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("scenario.toml");
            fs::write(&path, &scenario).unwrap();
            let source = Source::load(&path, &[]).unwrap();
            let mut model = build::model(&source, 0, 1, &path, 1).unwrap();
            assert!(model.fabric.run_to_end(xoff_sim::Picos::from_micros(100_000)), "{scenario}");
            check_ledgers(&model, &scenario);
        }
    }
}

#[test] // proves: sim-results
fn deadlock_is_reported_with_its_start_time() {
    let run = |ahead: u32| {
        let rows = run_of(
            &format!(
                "[scenario]\nname = \"x\"\nlimit = \"5ms\"\n[topology]\nkind = \"ring\"\nswitches = 4\n[[load]]\nkind = \"ring\"\n\
                 ahead = {ahead}\nsize = \"10MB\"\n"
            ),
            &[],
        );
        ["flows_done", "stuck_kb", "stuck_since_us"].map(|name| rows[&RUNS][0][RUNS.at(name)].clone())
    };
    assert_eq!(run(1), ["4", "0", ""]);
    let [done, stuck, since] = run(3);
    let number = |text: &str| text.parse::<f64>().unwrap();
    assert!(done == "0" && number(&stuck) > 100.0, "{done} {stuck} {since}");
    assert!(number(&since) > 0.0 && number(&since) <= 4_000.0, "{since}");
}

fn check_ledgers(model: &build::Model, place: &str) {
    for switch in model.fabric.fabric().switches() {
        assert_eq!(switch.impairment_counts().receive_drops, 0, "{place}");
        if let AnySwitch::Dataplane(switch) = switch {
            assert_eq!(switch.switch().ledger().missing(), 0, "{place}");
        }
    }
    assert_eq!(model.fabric.fabric().missing(), 0, "{place}");
}

#[test]
fn shipped_scenarios_account_for_every_frame() {
    for name in scenarios() {
        let micros = if name.starts_with("capfc") || name.starts_with("tcp") { 2_000 } else { 100 };
        let key = if ["capfc-tcp", "ofc-classes", "ofc-deadlock"].contains(&name.as_str()) {
            "limit"
        } else {
            "duration"
        };
        let short = format!("scenario.{key}={micros}us");
        let last = if name.starts_with("qcn") { "load.4.begin=0s" } else { "scenario.seed=1" };
        let source = source(&name, &[&short, "scenario.warm_up=0s", last]);
        for point in 0..source.points() {
            let mut model = build::model(&source, point, 1, &path(&name), 1).unwrap();
            model.fabric.run_until(xoff_sim::Picos::from_micros(micros));
            let place = format!("{name}, {}", label(&source.point(point).unwrap()));
            assert!(model.fabric.fabric().tally().hops > 0, "{place}");
            check_ledgers(&model, &place);
        }
    }
}

#[test]
fn error_for_invalid_fault_names_file_and_sweep_point() {
    let place = tempfile::tempdir().unwrap();
    let text = "[scenario]\nname = \"x\"\n[topology]\nkind = \"dumbbell\"\nhosts = 2\n[[load]]\nkind = \"permutation\"\nsize = 1\n\
                [[fault]]\nkind = \"restart\"\nat = \"s0\"\nbegin = \"1us\"\nend = \"2us\"\n[[sweep]]\nfault.0.at = [\"s1\", \"s2\"]\n";
    let source = Source::from_toml("x.toml", text, &[]).unwrap();
    let (file, out) = (Path::new("x.toml"), place.path().join("out"));
    let request =
        Request { source: &source, path: file, seeds: None, shard: None, threads: 1, out: Some(&out) };
    let refused = run(&request, &mut |_| ()).unwrap_err();
    let expected = "x.toml at fault.0.at=s2: a [[fault]] names switch 2, but this fabric has switches 0 to 1";
    assert_eq!(refused.to_string(), expected);
    assert!(!out.exists());
}

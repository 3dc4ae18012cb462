#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn check(file: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command.args(["check", "--elsewhere"]).arg(file).args(more).output().unwrap()
}

fn example(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/examples").join(name)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn checked(config: &str) -> (String, Value) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(config.as_bytes()).unwrap();
    let printed = text(&check(file.path(), &["--verbose"]).stdout).to_owned();
    (printed, serde_json::from_slice(&check(file.path(), &["--json"]).stdout).unwrap())
}

fn port(name: &str, speed: &str, more: &str) -> String {
    format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\nspeed = \"{speed}\"\n{more}\n")
}

#[test] // proves: status
fn check_command_ignores_closed_output_pipe() {
    for more in [&[][..], &["--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
        command.args(["check", "--elsewhere"]).arg(example("roce-leaf.toml")).args(more);
        let output = command.stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn check_of_valid_file_prints_derived_settings() {
    let output = check(&example("roce-leaf.toml"), &["-v"]);
    assert!(output.status.success());
    assert!(output.stderr.is_empty());
    let printed = text(&output.stdout);
    for part in [
        "roce-leaf.toml: valid;",
        " h1-h2  ens1f0-ens1f1  10Gb/s         3    400,000  200,000    777,557\n",
        "workers: 4 ports on core 0, 1 port on core 1",
        " MiB in the kernel (one queue assumed",
        "│ spine ┆ ens3f0        ┆ 40Gb/s ┆ 4,200 ┆",
        "│ h1-h4, spine ┆ 1-2, 4-5, 7 ┆ no       ┆",
        "│ spine        ┆           3 ┆ yes      ┆ 1,600,000 ┆ 800,000 ┆ 2,661,209 ┆",
        "│ spine ┆     3 ┆    4,226 ┆ 2,500,000 ┆ 135,872 ┆",
        "│ h1-h4 ┆     3 ┆ 200,000 ┆   400,000 ┆        0.20 ┆ no   │",
        "│ lossless buffers ┆",
    ] {
        assert!(printed.contains(part), "the output lacks {part:?}:\n{printed}");
    }
    assert!(!printed.contains("Warnings"), "{printed}");
}

#[test] // proves: check
fn check_of_sixteen_ports_fits_24_lines_of_80_columns() {
    let of = |name: fn(u32) -> String| {
        let file = tempfile::NamedTempFile::new().unwrap();
        let port = |number| port(&name(number), "1G", "peer_response = \"software\"");
        std::fs::write(file.path(), (1..=16).map(port).collect::<String>()).unwrap();
        text(&check(file.path(), &[]).stdout).to_owned()
    };
    let (numbered, named) =
        (of(|number| format!("port{number}")), of(|number| format!("port{number}-a-host")));
    assert!(numbered.contains(" port1-port16  port1-port16  1Gb/s "), "{numbered}");
    assert!(named.contains(" port7-a-host,"), "{named}");
    for printed in [numbered, named] {
        assert!(printed.lines().count() <= 24, "{printed}");
        assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    }
}

fn ports_of_speeds(name: fn(u32) -> String, speeds: &[&str]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    let speed = |number: u32| speeds[number as usize % speeds.len()];
    let port = |number| port(&name(number), speed(number), "");
    std::fs::write(file.path(), (0..64).map(port).collect::<String>()).unwrap();
    text(&check(file.path(), &[]).stdout).to_owned()
}

#[test] // proves: check
fn check_of_sixty_four_ports_fits_a_screen() {
    let printed = ports_of_speeds(|number| format!("p{number}"), &["400G"]);
    for part in
        [" p0-p63  p0-p63  400Gb/s ", "workers: 64 with 1 port each on any core", "given for p0-p63: xoff"]
    {
        let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains(&part.split_whitespace().collect::<Vec<_>>().join(" ")),
            "{part:?}: {printed}"
        );
    }
    assert!(printed.lines().count() <= 24, "{printed}");

    let mixed = ports_of_speeds(|number| format!("p{number}"), &["10G", "25G"]);
    assert!(mixed.contains(" 10Gb/s ") && mixed.contains(" 25Gb/s ") && mixed.contains(" p62"), "{mixed}");
    let named = ports_of_speeds(|number| format!("port{number}-a-host"), &["10G", "25G"]);
    assert!(named.contains("and others: --verbose prints every port"), "{named}");
    for printed in [mixed, named] {
        let (table, _) = printed.split_once("Warnings").unwrap();
        assert!(table.trim_end().lines().count() <= 24, "{table}");
        assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
    }
}

#[test] // proves: check
fn check_merges_equal_warnings_of_many_ports() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let port = |number: u32| port(&format!("p{number}"), "1G", "peer_response = \"software\"");
    let ports = (0..64).map(port).collect::<String>();
    std::fs::write(file.path(), format!("[switch]\nstall_budget = \"60ms\"\n{ports}")).unwrap();
    let printed = check(file.path(), &[]);
    let printed = text(&printed.stdout);
    assert!(printed.contains("p0-p63 would resume") && printed.lines().count() <= 24, "{printed}");
    let report: Value = serde_json::from_slice(&check(file.path(), &["--json"]).stdout).unwrap();
    assert_eq!(report["warnings"].as_array().unwrap().len(), 64);
}

#[test] // proves: check
fn check_separates_merged_warning_from_its_help() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let small = "peer_response = \"software\"\n[port.class.3]\negress_max = \"100KB\"";
    let ports = (0..3).map(|number| port(&format!("p{number}"), "1G", small)).collect::<String>();
    std::fs::write(file.path(), ports).unwrap();
    let printed = check(file.path(), &[]);
    let words = text(&printed.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("may be dropped at egress to port p0-p2 all ports together can hold"), "{words}");
}

#[test] // proves: check
fn check_groups_workers_with_equal_number_of_ports() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let worker = |number: u32| format!("{{ core = {number}, ports = [\"p{number}\"] }}, ");
    let ports = (0..5).map(|number| port(&format!("p{number}"), "1G", "")).collect::<String>();
    let workers = (1..4).map(worker).collect::<String>() + "{ ports = [\"p0\", \"p4\"] }";
    std::fs::write(file.path(), format!("[switch]\nworkers = [{workers}]\n{ports}")).unwrap();
    let printed = check(file.path(), &[]);
    let words = text(&printed.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("workers: 3 with 1 port each on cores 1-3, 2 ports on any core;"), "{words}");
}

#[test] // proves: check
fn check_rounds_memory_up_to_mebibytes() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let ports = ["a", "b"].map(|name| port(name, "100M", "")).concat();
    std::fs::write(file.path(), ports).unwrap();
    let report: Value = serde_json::from_slice(&check(file.path(), &["--json"]).stdout).unwrap();
    let mebibytes = |key: &str| report[key].as_u64().unwrap().div_ceil(1 << 20);
    let [process, kernel] = ["memory_total_bytes", "kernel_memory_bytes"].map(mebibytes);
    let printed = check(file.path(), &[]);
    let part = format!("memory {process} MiB, and {kernel} MiB in the kernel");
    assert!(kernel == 1 && text(&printed.stdout).contains(&part), "{part}: {}", text(&printed.stdout));
}

fn lab_check(network: &str, more: &[&str]) -> Output {
    let mut file = tempfile::Builder::new().prefix("net").suffix(".toml").tempfile().unwrap();
    file.write_all(network.as_bytes()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command.args(["lab", "check"]).arg(file.path()).args(more).output().unwrap()
}

#[test] // proves: lab-file
fn lab_check_of_two_hundred_hosts_fits_a_screen() {
    let output = lab_check(
        "[defaults]\nspeed = \"100M\"\n[defaults.switch]\nstall_budget = \"400ms\"\nsmallest_frame = 9000\n\
         [[switch]]\nname = \"s1\"\nhosts = 200\n",
        &[],
    );
    let (printed, warned) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{warned}");
    assert_eq!(warned.lines().count(), 1, "{warned}");
    assert!(warned.contains("the peer of port h1-h200 would resume"), "{warned}");
    assert!(printed.contains(": 200 hosts, 1 switch, 200 links\n"), "{printed}");
    assert!(printed.lines().count() <= 22, "{printed}");
}

#[test] // proves: lab-file
fn lab_check_prints_switches_and_errors_as_json() {
    let output = lab_check("[[switch]]\nname = \"s1\"\nhosts = 1\n", &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["valid"], &report["hosts"]), (&Value::Bool(true), &serde_json::json!(["h1"])));
    assert_eq!(report["switches"][0]["ports"][0]["name"], "h1");
    let switch = ["memory_total_bytes", "kernel_memory_bytes"].map(|key| report["switches"][0][key].as_u64());
    let agents = report["host_agents_bytes"].as_u64();
    assert_eq!(report["needed_bytes"].as_u64(), [switch[0], switch[1], agents].into_iter().sum());
    let refused = lab_check("[[switch]]\nname = \"s1\"\nhosts = \"x\"\n", &["--json"]);
    let report: Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!((refused.status.code(), &report["errors"][0]["line"]), (Some(2), &3.into()));
}

#[test] // proves: check
fn check_output_fits_80_columns_despite_long_names() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let ports = (0..20).map(|number| {
        port(&format!("a-name-that-is-long-{number}-x"), "400G", "lossless = [3, 4]")
            .replace("device = \"a-name-that-is-long-", "device = \"enp129s0f")
    });
    std::fs::write(file.path(), ports.collect::<String>()).unwrap();
    let printed = check(file.path(), &[]);
    let printed = text(&printed.stdout);
    assert!(printed.contains("Warnings"), "{printed}");
    assert!(printed.lines().all(|line| line.chars().count() <= 80), "{printed}");
}

#[test] // proves: pacing
fn check_prints_busy_time_and_delay_of_congested_line() {
    let large = "[port.class.3]\nxon = \"200KB\"\nxoff = \"500KB\"";
    let config =
        [port("a", "1G", "burst = \"1MB\""), port("b", "1G", large), port("slow", "200M", "")].concat();
    let (printed, report) = checked(&config);
    for part in [
        "A congested line (us): ",
        // Line a (1 Gb/s) sends 50,998 bytes (XON of port `slow`: `commit` 49,472 + frame 1,526) in 408 us, 500,000
        // bytes (XOFF of port `b`) in 4000 us.
        "│ a    ┆     3 ┆     408 ┆    2008 ┆  4000 ┆  4816 ┆ 8000 │",
        "│ slow ┆     3 ┆    5001 ┆   13001 ┆ 20000 ┆ 30001 ┆ 5000 │",
    ] {
        assert!(printed.contains(part), "the output lacks {part:?}:\n{printed}");
    }
    let congested = |class: usize| &report["ports"][2]["classes"][class]["congested"];
    assert_eq!(congested(0), &Value::Null, "a lossy class has delays");
    let of = |key: &str| (congested(3)[key]["one"].as_f64(), congested(3)[key]["all"].as_f64());
    assert_eq!(of("covered_us"), (Some(5_000.52), Some(13_000.52)));
    assert_eq!(of("delay_us"), (Some(20_000.0), Some(30_001.04)));
    assert_eq!(congested(3)["made_up_us"].as_f64(), Some(5_000.0));
}

#[test] // proves: pacing
fn check_prints_congestion_delay_only_for_static_thresholds() {
    let of = |more: &str, b: &str| {
        let (_, report) =
            checked(&[more, &port("a", "1G", ""), &port("b", "1G", b), &port("c", "1G", "")].concat());
        let delay = |port: usize| report["ports"][port]["classes"][3]["congested"]["delay_us"].clone();
        let us = |port: usize, of: &str| delay(port)[of].as_f64().map(f64::round);
        ([0, 2].map(|port| us(port, "one")), [0, 2].map(|port| us(port, "all")))
    };
    assert_eq!(of("", ""), ([Some(2000.0); 2], [Some(4000.0); 2]));
    assert_eq!(
        of("", "pause = \"ignore\""),
        ([Some(2000.0); 2], [Some(2000.0); 2]),
        "a peer that is never paused adds a delay"
    );
    let nothing = ([None; 2], [None; 2]);
    assert_eq!(of("[switch]\npolicy = \"capfc-stop-max\"\n", ""), nothing);
    assert_eq!(of("[memory]\nmodel = \"shared\"\n", ""), nothing);
}

#[test] // proves: pipeline
fn check_prints_pipeline_and_note_about_halts() {
    let pipeline = "[pipeline]\nrate = \"1Mpps\"\ndelay = \"25us\"\ningress = \"fifo\"\n";
    let ports = ["a", "b"].map(|name| port(name, "1G", "")).concat();
    let (printed, report) = checked(&["[switch]\nwhen_full = \"stop\"\n", pipeline, &ports].concat());
    for part in [
        " ┆ stop ┆ ",
        "│ 1,000,000 ┆ 25.00 ┆ fifo    │",
        " Notes ",
        ":2:14: a peer that pauses a class forever halts every port and class of the switch: a (3), b (3)",
    ] {
        let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        let part_words = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&part_words), "the output lacks {part:?}:\n{printed}");
    }
    let pipeline = serde_json::json!({ "rate_pps": 1_000_000, "delay_us": 25.0, "ingress": "fifo" });
    assert_eq!((&report["pipeline"], report["notes"].as_array().unwrap().len()), (&pipeline, 1));
}

#[test]
fn headroom_and_memory_parts_in_check_json_add_up_to_totals() {
    let output = check(&example("minimal.toml"), &["--json"]);
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["valid"], report["ports"].as_array().unwrap().len()), (&Value::Bool(true), 3));
    let port = &report["ports"][0];
    assert_eq!(
        (port["pause_time_us"].as_f64(), port["speed_bps"].as_u64()),
        (Some(33_553.92), Some(1_000_000_000))
    );
    assert_eq!(port["sockets"], Value::Null, "an unchecked device has a number of sockets");
    let class = &port["classes"][3];
    let terms = class["headroom_terms"].as_object().unwrap();
    let sum: u64 = terms.values().map(|term| term.as_u64().unwrap()).sum();
    assert_eq!((terms.len(), class["headroom_bytes"].as_u64()), (8, Some(sum)));
    assert_eq!(port["classes"][0]["xoff_bytes"], Value::Null);
    let lines = report["memory"].as_array().unwrap();
    let bytes: u64 = lines.iter().map(|line| line["bytes"].as_u64().unwrap()).sum();
    assert_eq!(report["memory_total_bytes"].as_u64(), Some(bytes));
    let frames =
        |what: &str| lines.iter().find(|line| line["what"] == what).unwrap()["frames"].as_u64().unwrap();
    let chunks = frames("receive chunks") + frames("transmit chunks");
    assert_eq!(
        report["kernel_memory_bytes"].as_u64(),
        Some(chunks * 128 + chunks * 2_048 * 16 / 4_096 + 3 * 204_800),
        "notes of chunks, pages and sockets"
    );
    assert_eq!(report["warnings"].as_array().unwrap().len(), 1);
}

#[test] // proves: memory
fn check_prints_memory_that_only_spare_ports_take() {
    let of = |spare: u8| {
        let ports = port("a", "1G", "") + &port("b", "1G", "");
        checked(&format!("[switch]\nspare_ports = {spare}\n{ports}"))
    };
    let (printed, report) = of(2);
    let line = |what: &str, field: &str| {
        let mut lines = report["memory"].as_array().unwrap().iter();
        lines.find(|line| line["what"] == what).unwrap()[field].as_u64().unwrap()
    };
    let bytes: u64 =
        ["receive chunks", "transmit chunks", "ring memory"].map(|what| line(what, "bytes")).iter().sum();
    let tables = line("receive chunks", "frames") * 8 + line("transmit chunks", "frames") * 32;
    let spare = (bytes + tables) / 2;
    assert_eq!(report["spare_memory_bytes"].as_u64(), Some(spare));
    let words = format!("({} MiB of it only when spare ports are in use)", spare.div_ceil(1 << 20));
    assert!(printed.replace('\n', " ").contains(&words), "{words}: {printed}");
    let (printed, report) = of(0);
    assert_eq!((report["spare_memory_bytes"].as_u64(), printed.contains("spare")), (Some(0), false));
}

#[test] // proves: configuration
fn check_of_invalid_file_lists_all_errors_and_exits_with_2() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"[switch]\npol = \"busy\"\n[[port]]\nname = \"a\"\nspeed = \"1G\"\n").unwrap();
    let output = check(file.path(), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let printed = text(&output.stderr);
    for part in ["2 errors", ":2:1", "did you mean `poll`?", ":3:1", "`device` is missing"] {
        assert!(printed.contains(part), "the output lacks {part:?}:\n{printed}");
    }

    let output = check(file.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["valid"], Value::Bool(false));
    let errors = report["errors"].as_array().unwrap();
    let places: Vec<_> =
        errors.iter().map(|error| (error["line"].as_u64(), error["column"].as_u64())).collect();
    assert_eq!(places, [(Some(2), Some(1)), (Some(3), Some(1))]);
}

#[test]
fn check_fails_on_full_disk_but_not_on_closed_pipe() {
    let run = |output: std::process::Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
        command.args(["check", "--elsewhere"]).arg(example("minimal.toml"));
        command
            .stdout(output)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap()
    };
    let full = run(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into());
    assert_eq!(full.status.code(), Some(2));
    assert!(text(&full.stderr).contains("cannot write the result: No space left"), "{}", text(&full.stderr));
    let (_, pipe_without_reader) = std::io::pipe().unwrap();
    let unread = run(pipe_without_reader.into());
    assert!(unread.status.success() && unread.stderr.is_empty());
}

#[test] // proves: check
fn check_refuses_device_missing_on_this_machine() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(port("a", "1G", "").replace("device = \"a\"", "device = \"no-such-one\"").as_bytes())
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    let here = command.arg("check").arg(file.path()).output().unwrap();
    assert_eq!(here.status.code(), Some(2));
    let message = text(&here.stderr);
    for part in ["port a: no interface no-such-one", ":3:11", "xoff check --elsewhere"] {
        assert!(message.contains(part), "the message lacks {part:?}:\n{message}");
    }
    assert!(check(file.path(), &[]).status.success());
}

#[test] // proves: check
fn check_refuses_invalid_router_namespace_of_this_machine() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let router = "[router]\nnetns = \"/no/such/namespace\"\n";
    file.write_all(format!("{}routed = true\n{router}", port("a", "1G", "")).as_bytes()).unwrap();
    let here = Command::new(env!("CARGO_BIN_EXE_xoff")).arg("check").arg(file.path()).output().unwrap();
    assert_eq!(here.status.code(), Some(2));
    let message = text(&here.stderr);
    for part in ["/no/such/namespace is not a network namespace", "ip netns add NAME"] {
        assert!(message.contains(part), "the message lacks {part:?}:\n{message}");
    }
    let printed = check(file.path(), &["--verbose"]);
    let printed = text(&printed.stdout);
    for part in ["│ /no/such/namespace ┆ a ", "routed"] {
        assert!(printed.contains(part), "the output lacks {part:?}:\n{printed}");
    }
}

#[test]
fn check_error_shows_path_of_missing_configuration_file() {
    let output = check(Path::new("/nowhere/xoff.toml"), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot read the configuration /nowhere/xoff.toml"));
}

#[test] // proves: check
fn check_prints_unreadable_file_as_json_error() {
    let output = check(Path::new("/nowhere/xoff.toml"), &["--json"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), ""));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let error = &report["errors"][0];
    assert_eq!((&report["valid"], &report["file"]), (&Value::Bool(false), &"/nowhere/xoff.toml".into()));
    assert!(error["message"].as_str().unwrap().contains("cannot read the configuration"), "{error}");
    assert!(error["help"].as_str().unwrap().contains("TOML") && error["line"].is_null(), "{error}");
}

#[test]
fn check_refuses_endless_and_non_text_files() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"[switch]\nname = \"\xff\"\n").unwrap();
    for (file, why) in [
        (Path::new("/dev/zero"), "the file is longer than the maximum of 1MiB"),
        (Path::new("/"), "the path is a directory, and has to be a file"),
        (file.path(), "the file is not UTF-8 text: line 2, column 9 has byte 0xff"),
    ] {
        let output = check(file, &[]);
        assert_eq!(output.status.code(), Some(2));
        let message = text(&output.stderr);
        assert!(
            message.contains(why) && message.contains("config/examples has some to start from"),
            "{message}"
        );
    }
}

#[test]
fn check_reads_configuration_from_a_pipe() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&std::fs::read(example("roce-leaf.toml")).unwrap()).unwrap();
    drop(writer);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command.args(["check", "--elsewhere", "/dev/stdin"]);
    let output = command.stdin(reader).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn check_prints_policy_thresholds_only_of_lossless_classes() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let policies = "[switch]\npolicy = { 2 = \"pfc\", 3 = \"g-pfc\", 4 = \"p-pfc\" }\n";
    let port = "[[port]]\nname = \"a\"\ndevice = \"x\"\nspeed = \"1G\"\nlossless = [2, 3]\n";
    let class = "[class.3]\nxoff = 40000\nxon = 30000\n";
    file.write_all(format!("{policies}{class}{port}").as_bytes()).unwrap();
    let printed = check(file.path(), &["--verbose"]);
    let printed = text(&printed.stdout);
    assert!(printed.contains("│ a    ┆     3 ┆ g-pfc  ┆ 20,000 ┆ 10,000 │"), "{printed}");
    assert_eq!(printed.matches("p-pfc").count(), 1, "lossy class 4 has thresholds:\n{printed}");
    let report: Value = serde_json::from_slice(&check(file.path(), &["--json"]).stdout).unwrap();
    let classes = &report["ports"][0]["classes"];
    assert_eq!(classes[3]["policy_thresholds"]["pause lower"], 20_000);
    assert_eq!((&classes[2]["policy"], &classes[4]["policy"]), (&"pfc".into(), &"p-pfc".into()));
}

// Tests for SPECIFICATION.md: check

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use tempfile::TempDir;
use xoff_netns_tests::{Bed, Config};

use crate::{BINARY, bed};

fn devices(bed: &Bed) -> String {
    let mut ip = Command::new("ip");
    let output = bed.namespace().output(ip.args(["-details", "link", "show"])).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn assert_start_refused(bed: &Bed, config: &Config, words: &[&str]) {
    let before = devices(bed);
    let exit = bed.launch(config).wait();
    assert_refused(exit.status.code(), &exit.stdout, &exit.stderr, words);
    assert_eq!(devices(bed), before, "the failed start left changes at devices");
}

fn assert_refused(code: Option<i32>, stdout: &str, stderr: &str, words: &[&str]) {
    assert_eq!(code, Some(2), "{stderr}");
    assert_eq!(stdout, "");
    words.iter().for_each(|words| {
        assert!(stderr.contains(words), "{words:?} is not in {stderr}, or not in one line")
    });
    assert!(stderr.contains('×') && !stderr.contains("panicked"), "{stderr}");
}

#[test]
fn start_with_missing_device_is_refused() {
    let bed = bed(2).build();
    let config = bed.config("speed = \"1G\"").more("[[port]]\nname = \"p9\"\ndevice = \"nosuch\"");
    assert_start_refused(&bed, &config, &["no interface nosuch", "ip link"]);
    bed.assert_no_drops();
}

#[test]
fn start_with_missing_queue_is_refused() {
    let bed = bed(2).queues(2).build();
    let config = bed.config("speed = \"1G\"").port(2, "queues = [0, 2]");
    assert_start_refused(&bed, &config, &["p2 has 2 hardware queues (0 to 1), but no queue 2"]);
    bed.assert_no_drops();
}

#[test] // proves: workers
fn start_with_missing_core_is_refused() {
    let bed = bed(2).build();
    let config = bed.config("speed = \"1G\"").switch("workers = [{ core = 1023, ports = [\"p1\", \"p2\"] }]");
    assert_start_refused(
        &bed,
        &config,
        &["core 1023 is not available to xoff on this machine; available cores are "],
    );
    bed.assert_no_drops();
}

#[test]
fn start_with_mtu_above_that_of_device_is_refused() {
    let bed = bed(2).mtu(1_600).build();
    let config = bed.config("speed = \"1G\"\nmtu = 1600").port(2, "mtu = 1601");
    assert_start_refused(&bed, &config, &["p2", "1601", "1600", "ip link set p2 mtu 1601", ".toml:"]);
    bed.assert_no_drops();
}

#[test] // proves: check, start-stop
fn start_with_device_of_another_switch_is_refused() {
    let bed = bed(3).build();
    let two_of_them = bed.config("speed = \"1G\"");
    let first = bed.start(&two_of_them);
    let second = bed.config("speed = \"1G\"").switch("http = \"127.0.0.1:9465\"");
    assert_start_refused(&bed, &second, &["another xoff (process ", "runs on p1; stop it first"]);
    let (a, b) = (bed.host(1), bed.host(2));
    a.run("ping", &["-c", "2", "-i", "0.05", "-W", "5", &b.ipv4().to_string()]);
    bed.finish(first);
}

#[test]
fn start_with_http_address_in_use_is_refused() {
    let bed = bed(2).build();
    let taken = bed.namespace().run(|| TcpListener::bind("127.0.0.1:9464")).unwrap();
    let config = bed.config("speed = \"1G\"");
    assert_start_refused(&bed, &config, &["cannot serve metrics and status on 127.0.0.1:9464", "`http`"]);
    drop(taken);
    bed.finish(bed.start(&config));
}

#[test]
fn start_without_privileges_reports_the_missing_ones() {
    let bed = bed(2).build();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("switch.toml");
    fs::write(&file, bed.config("speed = \"1G\"").to_string()).unwrap();
    for (dropped, missing) in [
        ("-all", "CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF missing"),
        ("-net_admin", "CAP_NET_ADMIN missing"),
        ("-net_raw", "CAP_NET_RAW missing"),
        ("-bpf,-sys_admin", "CAP_BPF missing"),
    ] {
        let before = devices(&bed);
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", dropped, "--inh-caps", dropped, BINARY, "run"]).arg(&file);
        let output = bed.namespace().output(&mut command).unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_refused(
            output.status.code(),
            &text(&output.stdout),
            &text(&output.stderr),
            &[missing, "setcap"],
        );
        assert_eq!(devices(&bed), before);
    }
    bed.assert_no_drops();
}

#[test]
fn failed_start_reports_all_errors_of_configuration() {
    let bed = bed(2).build();
    let config = bed
        .config("sped = \"1G\"")
        .port(1, "mtu = 70000\nspeed = \"fast\"")
        .port(2, "speed = \"1G\"\nlossless = [8]")
        .more("[class.9]\nxoff = 1");
    assert_start_refused(
        &bed,
        &config,
        &[
            "switch.toml: 5 errors in the configuration, nothing was started",
            "`sped` is not a key in [defaults]",
            "`mtu` is 70000, but has to be a whole number from 256 to 9216",
            "`speed` is \"fast\"",
            "list of classes from 0 to 7",
            "`9` is not a key in [class]",
        ],
    );
    bed.assert_no_drops();
}

#[test]
fn failed_start_reports_missing_configuration_file() {
    let bed = bed(1).build();
    let mut command = Command::new(BINARY);
    let output = bed.namespace().output(command.args(["run", "nosuch.toml"])).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_refused(output.status.code(), &text(&output.stdout), &text(&output.stderr), &["nosuch.toml"]);
}

// Tests for SPECIFICATION.md: status

use std::process::{Command, Output};

use xoff_netns_tests::{Bed, frames, wait_for};
use xoff_switch::control::Link;

use crate::{BINARY, bed};

const FRAMES: u32 = 20;
const BYTES: u32 = 204;
const DSCP: u8 = 24;

fn exchange(bed: &Bed) {
    let (a, b) = (bed.host(1), bed.host(2));
    let datagram = a.to(b).udp(DSCP, &[0; 158]).build();
    (0..FRAMES).for_each(|_| a.send(&datagram));
    b.tap().wait(FRAMES as usize, |bytes| bytes == datagram);
}

fn xoff_status(bed: &Bed, args: &[&str]) -> Output {
    bed.namespace().output(Command::new(BINARY).arg("status").args(args)).unwrap()
}

#[test]
fn status_and_metrics_count_every_frame() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    exchange(&bed);
    let (frames, bytes) = (u64::from(FRAMES), u64::from(FRAMES * BYTES));
    let (received, sent) = (switch.class(1, 3), switch.class(2, 3));
    assert_eq!((received.rx_frames, received.rx_bytes, received.tx_frames), (frames, bytes, 0));
    assert_eq!((sent.tx_frames, sent.tx_bytes, sent.rx_frames), (frames, bytes, 0));
    assert_eq!(sent.queueing_delay.count, frames);
    let status = switch.status();
    let found = status.fdb.iter().find(|entry| entry.mac == bed.host(1).mac().to_string());
    assert_eq!(found.map(|entry| (entry.vid, entry.port.as_str())), Some((1, "p1")));
    assert_eq!(status.ports[0].fdb_entries, 1);

    let metrics = switch.metrics();
    for line in [
        format!("xoff_received_frames_total{{switch=\"xoff\",port=\"p1\",class=\"3\"}} {frames}"),
        format!("xoff_received_bytes_total{{switch=\"xoff\",port=\"p1\",class=\"3\"}} {bytes}"),
        format!("xoff_sent_frames_total{{switch=\"xoff\",port=\"p2\",class=\"3\"}} {frames}"),
        format!("xoff_queueing_delay_seconds_count{{switch=\"xoff\",port=\"p2\",class=\"3\"}} {frames}"),
        "xoff_fdb_entries{switch=\"xoff\",port=\"p1\"} 1".into(),
        "xoff_port_up{switch=\"xoff\",port=\"p2\"} 1".into(),
    ] {
        assert!(metrics.lines().any(|it| it == line), "no {line} in\n{metrics}");
    }

    let Output { status, stdout, .. } = xoff_status(&bed, &["--port", "p1"]);
    let table = String::from_utf8(stdout).unwrap();
    assert!(status.success() && table.contains("ledger: balanced; "), "{table}");
    assert!(table.contains(&format!("{FRAMES} (4.08 kB)")), "{table}");
    bed.finish(switch);
}

#[test]
fn status_commands_print_text_and_json() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    exchange(&bed);
    let (a, b) = (bed.host(1).mac().to_string(), bed.host(2).mac().to_string());
    let status_output = |args: &[&str]| {
        let Output { status, stdout, stderr } = xoff_status(&bed, args);
        assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    };
    for (what, words) in [
        ("ports", "p2"),
        ("classes", "20 (4.08 kB)"),
        ("pauses", "no class was paused"),
        ("drops", ""),
        ("headroom", "was never held"),
        ("mac", &a),
        ("flows", "no peer supports pauses of single flows"),
        ("causes", "no peer is paused"),
    ] {
        let text = status_output(&[what]);
        assert!(text.contains(words), "{what}: {text}");
        let json: serde_json::Value = serde_json::from_str(&status_output(&[what, "--json"])).unwrap();
        assert!(json.is_array() || what == "causes", "{what}: {json}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&status_output(&["mac", "--port", "p1", "--json"])).unwrap();
    let addresses = json.as_array().unwrap();
    assert!(addresses.iter().any(|it| it["mac"] == a.as_str() && it["static"] == false), "{json}");
    assert!(addresses.iter().all(|it| it["mac"] != b.as_str()), "it is at p2: {json}");
    let json = status_output(&["classes", "--json", "--port", "p2", "--class", "3"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["classes"][0]["tx_frames"], FRAMES);
    assert_eq!((json.as_array().unwrap().len(), json[0]["classes"].as_array().unwrap().len()), (1, 1));
    assert_eq!(status_output(&["pauses", "--congested"]).trim(), "no class was paused");
    let Output { status, stderr, .. } = xoff_status(&bed, &["ports", "--port", "p7"]);
    let message = String::from_utf8(stderr).unwrap();
    assert!(!status.success() && message.contains("no port \"p7\"; its ports are p1, p2"), "{message}");
    bed.finish(switch);
}

#[test]
fn status_watch_obeys_keyboard_of_a_terminal() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", include_str!("watch.py"), BINARY, "status", "--watch=200ms"]);
    let Output { status, stdout, stderr } = bed.namespace().output(&mut command).unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(status.success(), "{stdout}\n{stderr}");
    bed.finish(switch);
}

#[test]
fn status_under_load_matches_its_json_schema() {
    let bed = bed(2).build();
    let config = bed.config("speed = \"10M\"").switch("shadow = [\"capfc-stop-max\", \"ofc\", \"gfc\"]");
    let config = config.port(1, "ofc_peer = true").port(2, "gfc_peer = true");
    let more = "[qcn]\ningress = [3]\n[class.3]\nxoff = 20000\nxon = 2000\nwatchdog = \"alert\"\nwatchdog_detect = \"1ms\"\n";
    let switch = bed.start(&config.more(more));
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (a, b) = (bed.host(1), bed.host(2));
    let frame = a.to(b).udp(DSCP, &[0; 1_000]).build();
    let mut answers = Vec::new();
    for round in 0..4 {
        b.send(frames::pfc(b.mac(), &[(3, 65535)]));
        (0..FRAMES).for_each(|_| a.send(&frame));
        let answer = xoff_status(&bed, &["--json"]).stdout;
        answers.push(file(&format!("{round}.json"), &answer));
    }
    wait_for("the sender to be held", || (switch.class(1, 3).pause_sent.xoff > 0).then_some(()));
    answers.push(file("held.json", &xoff_status(&bed, &["--json"]).stdout));
    let schema =
        file("schema.json", &Command::new(BINARY).args(["status", "schema"]).output().unwrap().stdout);
    let mut check = Command::new("/usr/bin/python3");
    check.args(["-c", include_str!("schema.py")]).arg(schema).args(answers);
    let Output { status, stderr, .. } = check.output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    b.send(frames::pfc(b.mac(), &[(3, 0)]));
    bed.finish(switch);
}

#[test]
fn status_command_without_switch_suggests_xoff_run() {
    let bed = bed(1).build();
    let Output { status, stderr, .. } = xoff_status(&bed, &[]);
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(
        message.contains("no switch answers at http://127.0.0.1:9464") && message.contains("xoff run"),
        "{message}"
    );
}

#[test] // proves: link-down
fn switch_forgets_addresses_of_lost_link_until_it_returns() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    exchange(&bed);
    let link_is = |link| wait_for("the link to change", || (switch.port(1).link == link).then_some(()));
    bed.host(1).device().set_up(false).unwrap();
    link_is(Link::Down);
    assert_eq!(switch.port(2).link, Link::Up);
    assert!(
        switch.status().fdb.iter().all(|entry| entry.port != "p1"),
        "addresses learned at the lost link remain"
    );
    bed.host(1).device().set_up(true).unwrap();
    link_is(Link::Up);
    let there = bed.host(2).ipv4().to_string();
    bed.host(1).run("ping", &["-c", "3", "-i", "0.05", "-W", "5", &there]);
    let log = switch.stderr();
    assert!(log.contains("link down") && log.contains("link up"), "{log}");
    bed.finish(switch);
}

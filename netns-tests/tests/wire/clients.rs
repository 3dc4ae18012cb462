// Tests for SPECIFICATION.md: bridging

use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use xoff_netns_tests::{Bed, Host, wait_for};

use crate::bed;

fn iperf(from: &Host, to: &Host, arguments: &[&str]) -> Value {
    let mut server = to.start("iperf3", &["--server", "--one-off", "--forceflush"]);
    await_listener(to, 5_201);
    let address = to.ipv4().to_string();
    let report = from.run("iperf3", &[&["--json", "--client", &address], arguments].concat());
    server.wait().unwrap();
    serde_json::from_str(&report).unwrap()
}

fn await_listener(host: &Host, port: u16) {
    wait_for("a program to listen", || {
        host.run("ss", &["-Hltn", &format!("sport = :{port}")]).contains("LISTEN").then_some(())
    });
}

fn two_hosts() -> (Bed, xoff_netns_tests::Switch) {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    (bed, switch)
}

#[test]
fn tcp_in_lossy_class_retransmits_less_than_5_percent() {
    let (bed, switch) = two_hosts();
    let report = iperf(bed.host(1), bed.host(2), &["--time", "2"]);
    assert!(report["end"]["sum_received"]["bytes"].as_u64() > Some(0), "{report:#}");
    let out = &bed.finish(switch).ports[1].classes[0];
    let dropped = out.drops["egress_full"];
    assert!(dropped * 20 < out.tx_frames, "{dropped} dropped, {} sent", out.tx_frames);
}

#[test]
fn tcp_in_lossless_class_loses_nothing() {
    let (bed, switch) = two_hosts();
    let report = iperf(bed.host(1), bed.host(2), &["--time", "2", "--dscp", "26"]);
    let bytes = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
    let status = bed.finish(switch);
    let class = &status.ports[1].classes[3];
    assert!(
        class.tx_bytes > bytes,
        "the transfer has {bytes} bytes, but class 3 sent only {}",
        class.tx_bytes
    );
    assert_eq!(class.drops.values().sum::<u64>(), 0);
}

#[test]
fn dscp_of_udp_packet_selects_its_class() {
    let (bed, switch) = two_hosts();
    for (dscp, class) in [("0", 0), ("26", 3), ("46", 5), ("56", 7)] {
        let before = switch.class(2, class).tx_frames;
        let arguments = ["--udp", "--bitrate", "20M", "--length", "1000", "--time", "1", "--dscp", dscp];
        let report = iperf(bed.host(1), bed.host(2), &arguments);
        let sent = report["end"]["sum"]["packets"].as_u64().unwrap();
        assert!(sent > 0 && switch.class(2, class).tx_frames >= before + sent, "DSCP {dscp}");
    }
    let status = bed.finish(switch);
    let drops = status.ports.iter().flat_map(|port| &port.classes).flat_map(|class| class.drops.values());
    assert_eq!(drops.sum::<u64>(), 0);
}

#[test]
fn http_download_through_switch_arrives_unchanged() {
    let (bed, switch) = two_hosts();
    let (client, server) = (bed.host(1), bed.host(2));
    let directory = TempDir::new().unwrap();
    let original: Vec<u8> =
        (0..8_000_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    fs::write(directory.path().join("original"), &original).unwrap();
    let served = directory.path().to_string_lossy().into_owned();
    let mut httpd = server.start("python3", &["-m", "http.server", "8000", "--directory", &served]);
    await_listener(server, 8_000);
    let copy = directory.path().join("copy");
    let url = format!("http://{}:8000/original", server.ipv4());
    client.run("curl", &["--silent", "--show-error", "--fail", "--output", &copy.to_string_lossy(), &url]);
    httpd.kill().unwrap();
    httpd.wait().unwrap();
    assert!(fs::read(copy).unwrap() == original, "the downloaded file differs from the original");
    bed.finish(switch);
}

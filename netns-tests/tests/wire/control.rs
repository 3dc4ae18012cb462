//! What a running switch says of itself is what happened: `/status`, `/metrics`, `xoff status`, its
//! links, its privileges.

use std::fs;
use std::process::{Command, Output};

use xoff::control::Link;
use xoff_netns_tests::{Bed, wait_for};

use crate::{BINARY, bed_beside_others};

const FRAMES: u32 = 20;
/// Of each, with FCS.
const BYTES: u32 = 204;
/// The first of class 3.
const DSCP: u8 = 24;

/// Sends datagrams of class 3 from host 1 to host 2.
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
fn status_metrics_and_the_table_count_every_frame() {
    let bed = bed_beside_others(2).build();
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
        format!("xoff_frames_received_total{{port=\"p1\",class=\"3\"}} {frames}"),
        format!("xoff_bytes_received_total{{port=\"p1\",class=\"3\"}} {bytes}"),
        format!("xoff_frames_sent_total{{port=\"p2\",class=\"3\"}} {frames}"),
        format!("xoff_queueing_delay_seconds_count{{port=\"p2\",class=\"3\"}} {frames}"),
        "xoff_fdb_entries{port=\"p1\"} 1".into(),
        "xoff_port_up{port=\"p2\"} 1".into(),
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
fn without_a_switch_status_says_what_to_do() {
    let bed = bed_beside_others(1).build();
    let Output { status, stderr, .. } = xoff_status(&bed, &[]);
    let message = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(
        message.contains("no switch answers at http://127.0.0.1:9464") && message.contains("xoff run"),
        "{message}"
    );
}

#[test]
fn a_link_that_goes_and_comes_is_followed() {
    let bed = bed_beside_others(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    exchange(&bed);
    let link_is = |link| wait_for("the link to change", || (switch.port(1).link == link).then_some(()));
    bed.host(1).device().set_up(false).unwrap();
    link_is(Link::Down);
    assert_eq!(switch.port(2).link, Link::Up);
    assert!(
        switch.status().fdb.iter().all(|entry| entry.port != "p1"),
        "what was learned there is forgotten"
    );
    bed.host(1).device().set_up(true).unwrap();
    link_is(Link::Up);
    let there = bed.host(2).ipv4().to_string();
    bed.host(1).run("ping", &["-c", "3", "-i", "0.05", "-W", "5", &there]);
    let log = switch.stderr();
    assert!(log.contains("link down") && log.contains("link up"), "{log}");
    bed.finish(switch);
}

#[test]
fn only_network_administration_is_left_to_a_running_switch() {
    let bed = bed_beside_others(2).build();
    let devices_before = devices(&bed);
    // HTTP needs a privilege, too: to be bound, not to be served.
    bed.namespace().sysctl("ipv4/ip_unprivileged_port_start", "10000").unwrap();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    assert_ne!(devices(&bed), devices_before, "the XDP program is there");
    let tasks: Vec<_> = fs::read_dir(format!("/proc/{}/task", switch.pid())).unwrap().collect();
    assert!(tasks.len() >= 3, "main, control, and a worker");
    for task in tasks {
        let task = task.unwrap().path();
        let status = fs::read_to_string(task.join("status")).unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
            assert_eq!(field(set), "0000000000001000", "{set} of {task:?}"); // bit 12: CAP_NET_ADMIN
        }
        assert_eq!((field("CapInh:"), field("NoNewPrivs:")), ("0000000000000000", "1"));
    }
    // It is enough to work, and to leave the devices as they were.
    exchange(&bed);
    bed.finish(switch);
    assert_eq!(devices(&bed), devices_before);
}

fn devices(bed: &Bed) -> String {
    let mut show = Command::new("ip");
    let output = bed.namespace().output(show.args(["-details", "link", "show"])).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

use nix::sys::signal::Signal;
use xoff_host::Obedience;
use xoff_netns_tests::{Bed, Exit, Reports, Switch, Traffic, frames, stream, unstalled, wait_for};
use xoff_wire::units::{BitRate, Quanta};

use crate::{BINARY, bed};

/// Time that peers may take to obey, in quanta of 5.12 us: 20 ms.
const RESPONSE_QUANTA: u16 = 3906;
const FRAME: u64 = 1518;

/// Runs a sender that obeys pauses `late` quanta late. Returns reports, and the frames sent before it obeyed.
fn run(bed: &Bed, switch: &Switch, late: u16) -> (Reports, u64) {
    let (a, b) = (bed.host(1), bed.host(2));
    let late = BitRate::from_mbps(100).time_of_quanta(Quanta(late));
    let pause = |quanta| b.send(frames::pfc(b.mac(), &[(3, quanta)]));
    pause(65535);
    let traffic = Traffic::at_mbps(100)
        .sink(b)
        .source_that(a, &[stream(b, 3, "line", 3_000)], Obedience::Late(late))
        .start();
    let mut last = 0;
    let mut unchanged = 0;
    wait_for("the sender to obey", || {
        pause(65535);
        let sent = traffic.sent();
        unchanged = if sent > 0 && sent == last { unchanged + 1 } else { 0 };
        last = sent;
        (unchanged == 20).then_some(())
    });
    assert!(last < 3_000 && switch.class(1, 3).pause_sent.now, "the sender did not obey the pause");
    assert_eq!(traffic.received(), 0);
    pause(0);
    (traffic.finish(), last)
}

fn config(bed: &Bed) -> xoff_netns_tests::Config {
    bed.config("speed = \"100M\"\npeer_response = \"20ms\"").switch("stall_budget = \"60ms\"")
}

#[test] // proves: headroom, peer-faults
fn switch_loses_no_frame_if_peer_obeys_late_within_headroom() {
    unstalled(|| {
        let bed = bed(2).build();
        let switch = bed.start(&config(&bed));
        let (reports, sent) = run(&bed, &switch, RESPONSE_QUANTA);
        reports.assert_lossless(&[3]);
        let status = bed.finish(switch);
        let ingress = status.ports[0].classes[3].ingress;
        // All frames stayed in the switch: those up to the XOFF threshold, and the later ones in the headroom.
        assert_eq!(ingress.bytes_max, sent * FRAME, "{ingress:?}");
        assert!(ingress.bytes_max > ingress.xoff_bytes, "{ingress:?}");
        assert_eq!(ingress.headroom_used_max_bytes, ingress.bytes_max - ingress.xoff_bytes, "{ingress:?}");
        let (peer, response) = (status.ports[0].peer, status.ports[0].classes[3].response);
        assert!(
            !peer.too_late && !peer.too_fast,
            "the measured response exceeds the configured one: {response:?}"
        );
        assert!(response.after_xoff_max_bytes > 0 && response.response_max_nanos > 0, "{response:?}");
    });
}

#[test] // proves: headroom, log, start-stop
fn switch_counts_frames_lost_if_peer_obeys_too_late() {
    unstalled(|| {
        let bed = bed(2).build();
        let switch = bed.start(&config(&bed));
        let headroom = switch.class(1, 3).ingress.headroom_bytes;
        let late = u16::try_from(headroom / 64 * 2).unwrap();
        let (reports, _) = run(&bed, &switch, late);
        let got = reports.received(bed.host(1), 0, bed.host(2));
        assert!(got.lost > 0, "no frame was lost beyond twice the headroom");
        assert_eq!((got.duplicated, got.reordered), (0, 0));
        let status = switch.status();
        assert_eq!(status.ports[0].classes[3].drops["headroom_exhausted"], got.lost);
        assert_eq!((status.verdict.lossless, status.verdict.lossless_lost), (false, got.lost));
        assert_eq!((status.verdict.unseen_lost, status.verdict.ledger_balanced), (0, Some(true)));
        let response = status.ports[0].classes[3].response;
        assert!(status.ports[0].peer.too_late && response.late_frames > 0, "{response:?}");
        wait_for("the log", || switch.stderr().contains("event=loss phase=over").then_some(()));
        // A closed terminal sends SIGHUP.
        switch.signal(Signal::SIGHUP);
        let Exit { status, stderr, .. } = switch.wait();
        assert_eq!(status.code(), Some(1), "{stderr}");
        for (what, line) in [
            ("event=loss phase=began", "lossless frames are lost"),
            ("event=loss phase=over", "lossless frames are no longer lost"),
            ("event=peer-late phase=began", "the peer still sends while it is paused"),
            ("stopped, not lossless", "ERROR"),
        ] {
            let matches: Vec<&str> = stderr.lines().filter(|line| line.contains(what)).collect();
            assert!(matches.len() == 1 && matches[0].contains(line), "{what}:\n{stderr}");
        }
        assert!(stderr.contains(&format!("frames: {}", xoff_config::written::grouped(got.lost))), "{stderr}");
        bed.assert_no_drops();
    });
}

#[test] // proves: peer-faults
fn alert_warns_of_peer_faster_than_its_port() {
    unstalled(|| {
        let bed = bed(2).build();
        let config = bed
            .config("")
            .port(1, "speed = \"50M\"")
            .port(2, "speed = \"1G\"")
            .switch("stall_budget = \"60ms\"");
        let switch = bed.start(&config);
        let (a, b) = (bed.host(1), bed.host(2));
        let reports =
            Traffic::at_mbps(300).sink(b).source(a, &[stream(b, 3, "line", 50_000)]).start().finish();
        reports.assert_lossless(&[3]);
        let peer =
            wait_for("the peer to be named", || Some(switch.port(1).peer).filter(|peer| peer.too_fast));
        assert!(peer.overspeed_bytes > 1_000_000 && !switch.port(2).peer.too_fast, "{peer:?}");
        wait_for("the log", || {
            switch.stderr().contains("event=peer-too-fast phase=began port=p1").then_some(())
        });
        bed.finish(switch);
    });
}

#[test] // proves: peer-faults
fn alert_warns_of_host_configured_with_wrong_speed() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\""));
    let (a, b) = (bed.host(1), bed.host(2));
    let mut sink = b.start(BINARY, &["traffic", "--device", "eth0"]);
    wait_for("the sink", || (switch.port(2).classes[0].rx_frames > 0).then_some(())); // the sink announces its address
    let stream = format!("class=3,dst={}", b.mac());
    let mut sender = a.start(BINARY, &["traffic", "--device", "eth0", "--stream", &stream]);
    let counted = |port: &str| format!("xoff_peer_overspeed_bytes_total{{switch=\"xoff\",port=\"{port}\"}} ");
    let of = |metrics: &str, port: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&counted(port)).map(str::to_owned));
        line.map_or(0.0, |value| value.parse::<f64>().unwrap())
    };
    for event in ["event=peer-too-fast phase=began port=p1", "event=loss phase=began"] {
        wait_for(event, || switch.stderr().contains(event).then_some(()));
    }
    let first = of(&switch.metrics(), "p1");
    let later = wait_for("it to rise", || Some(switch.metrics()).filter(|metrics| of(metrics, "p1") > first));
    assert_eq!(of(&later, "p2"), 0.0);
    let status = switch.status();
    assert!(status.ports[0].peer.too_fast && !status.ports[1].peer.too_fast, "{:?}", status.ports[0].peer);
    assert!(
        status.ports[0].classes[3].drops["headroom_exhausted"] > 0,
        "{:?}",
        status.ports[0].classes[3].drops
    );
    for host in [&mut sender, &mut sink] {
        host.kill().unwrap();
        host.wait().unwrap();
    }
    assert_eq!(switch.stop().status.code(), Some(1));
}

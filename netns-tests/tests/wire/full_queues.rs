use xoff_netns_tests::{Bed, Config, Host, Switch, Traffic, frames, stream, unstalled, wait_for};

use crate::{PATIENT, bed};

const THREE: &str = "[class.3]\negress_max = 3001\n";

fn start_paused(bed: &Bed, config: &Config) -> Switch {
    let switch = bed.start(config);
    let b = bed.host(2);
    b.send(b.to(bed.host(1)).numbered(0).build());
    bed.host(1).tap().numbered(0); // learned
    b.send(frames::pfc(b.mac(), &[(3, 65535)]));
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
    switch
}

fn send(bed: &Bed, switch: &Switch, numbers: std::ops::RangeInclusive<u32>) {
    let (a, b) = (bed.host(1), bed.host(2));
    let last = u64::from(*numbers.end());
    numbers.for_each(|number| a.send(a.to(b).tag(3, 0).numbered(number).build_len(996)));
    wait_for("the frames", || (switch.class(1, 3).rx_frames == last).then_some(()));
}

fn numbers(host: &Host) -> Vec<u32> {
    host.tap().numbers().into_iter().filter(|&number| number > 0).collect()
}

fn resume(bed: &Bed) {
    let b = bed.host(2);
    b.send(frames::pfc(b.mac(), &[(3, 0)]));
}

#[test] // proves: pipeline
fn full_egress_queue_drops_only_excess_frames() {
    let bed = bed(2).build();
    let config = bed.config("speed = \"10M\"\nlossless = []").more(THREE);
    let switch = start_paused(&bed, &config.port(2, "lossless = [3]")); // a lossy class would not obey
    send(&bed, &switch, 1..=5);
    let class = switch.class(2, 3);
    assert_eq!((class.egress.bytes, class.drops["egress_full"]), (3000, 2));
    resume(&bed);
    bed.host(2).tap().numbered(3);
    assert_eq!(bed.host(2).tap().numbers(), [1, 2, 3]);
    switch.stop();
    bed.assert_no_drops();
}

#[test] // proves: pipeline
fn full_egress_queue_stops_forwarding_between_all_ports() {
    let bed = bed(3).build();
    let config = bed.config("speed = \"10M\"\nlossless = [3, 4]").switch("when_full = \"stop\"");
    let switch = start_paused(&bed, &config.more(THREE));
    let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
    c.send(c.to(a).numbered(0).build()); // learned
    a.tap().wait(2, |frame| frames::sequence(frame) == Some(0));
    send(&bed, &switch, 1..=5);
    a.send(a.to(c).tag(4, 0).numbered(6).build());
    c.send(c.to(a).tag(4, 0).numbered(7).build());
    wait_for("both", || [1, 3].iter().all(|&port| switch.class(port, 4).rx_frames == 1).then_some(()));
    // If the full queue did not stop forwarding, frames 6 and 7 would have left before this pause.
    b.send(frames::pfc(b.mac(), &[(3, 65535), (4, 0)]));
    wait_for("the second pause", || (switch.class(2, 4).pause_received.xon == 1).then_some(()));
    assert_eq!([1, 3].map(|port| switch.class(port, 4).egress.bytes), [0, 0]);
    assert!([1, 3].iter().all(|&port| switch.class(port, 4).ingress.bytes > 0));
    resume(&bed);
    b.tap().numbered(5);
    c.tap().numbered(6);
    a.tap().numbered(7);
    assert_eq!(numbers(b), [1, 2, 3, 4, 5]);
    bed.finish(switch);
}

#[test]
fn ingress_count_excludes_forwarded_frames_if_so_configured() {
    let bed = bed(2).build();
    let more = format!("{THREE}xoff = 2000\nxon = 1000");
    let switches = "accounting = \"until-forwarded\"\nwhen_full = \"stop\"";
    let switch = start_paused(&bed, &bed.config("speed = \"10M\"").switch(switches).more(&more));
    let a = bed.host(1);
    let xoffs = || a.tap().count(|frame| frames::pfc_time(frame, 3) == Some(65535));
    send(&bed, &switch, 1..=3);
    assert_eq!((switch.class(1, 3).ingress.bytes, switch.class(2, 3).egress.bytes), (0, 3000));
    send(&bed, &switch, 4..=4);
    assert_eq!((switch.class(1, 3).ingress.bytes, xoffs()), (1000, 0));
    send(&bed, &switch, 5..=5);
    assert_eq!(switch.class(1, 3).ingress.bytes, 2000);
    wait_for("an XOFF", || (xoffs() == 1).then_some(()));
    resume(&bed);
    bed.host(2).tap().numbered(5);
    a.tap().wait(1, |frame| frames::pfc_time(frame, 3) == Some(0));
    bed.finish(switch);
}

/// PFC with these two settings is a baseline of CaPFC's paper (PFC_wstop).
#[test]
fn accounting_until_forwarded_with_stop_when_full_is_lossless() {
    unstalled(|| {
        let bed = bed(3).build();
        let switches = "accounting = \"until-forwarded\"\nwhen_full = \"stop\"";
        let config = bed
            .config("speed = \"200M\"")
            .switch(PATIENT)
            .switch(switches)
            .more("[class.3]\negress_max = \"64KB\"");
        let switch = bed.start(&config);
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let much = [stream(sink, 3, "180M", 6_000)];
        Traffic::at_mbps(200).sink(sink).source(a, &much).source(b, &much).run().assert_lossless(&[3]);
        let status = bed.finish(switch);
        assert!(status.ports[0].classes[3].pause_sent.xoff > 0, "no sender was paused");
        assert!(status.ports[2].classes[3].egress.bytes_max <= 64_000);
    });
}

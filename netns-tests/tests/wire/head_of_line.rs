use xoff_netns_tests::{Traffic, stream, unstalled};

use crate::{PATIENT, bed};

const ROOM: &str = "[class.1]\negress_max = \"1MB\"";

/// Half of a sender's load goes to a congested port, as in RFC 2889.
#[test] // proves: scheduling
fn congested_port_does_not_slow_frames_to_a_free_port() {
    unstalled(|| {
        let bed = bed(4).build();
        let config = bed.config("speed = \"100M\"\nlossless = []").switch(PATIENT);
        let switch = bed.start(&config.more(ROOM));
        let (a, b, congested, free) = (bed.host(1), bed.host(2), bed.host(3), bed.host(4));
        let halves = [stream(free, 1, "45M", 4_000), stream(congested, 1, "45M", 4_000)];
        let reports = Traffic::at_mbps(100)
            .sink(free)
            .sink(congested)
            .source(a, &halves)
            .source(b, &[stream(congested, 1, "90M", 8_000)])
            .run();
        let kept = reports.received(a, 0, free);
        assert_eq!((kept.lost, kept.duplicated, kept.reordered), (0, 0, 0));
        let lost = reports.received(a, 1, congested).lost + reports.received(b, 0, congested).lost;
        assert!(lost > 0, "the congested port dropped no frames");
        let status = bed.finish(switch);
        let dropped = status.ports[2].classes[1].drops["egress_full"];
        let markers = 6; // of two streams, lost or not
        assert!((lost..=lost + markers).contains(&dropped), "{lost} lost, {dropped} dropped");
    });
}

#[test] // proves: scheduling
fn senders_to_uncongested_ports_are_never_paused() {
    unstalled(|| {
        let bed = bed(4).build();
        let config = bed
            .config("speed = \"100M\"\nlossless = [3, 4]")
            .switch(PATIENT)
            .more("[class.4]\nxoff = \"2MB\"");
        let switch = bed.start(&config.port(4, "[port.class.3]\nxoff = \"2MB\""));
        let (a, b, c, congested) = (bed.host(1), bed.host(2), bed.host(4), bed.host(3));
        let much = stream(congested, 3, "80M", 3_000);
        let reports = Traffic::at_mbps(100)
            .sink(congested)
            .source(a, &[much.clone(), stream(congested, 4, "10M", 500)])
            .source(b, &[much])
            .source(c, &[stream(a, 3, "80M", 3_000)])
            .run();
        reports.assert_lossless(&[3, 4]);
        let status = bed.finish(switch);
        let xoffs = |port: usize, class: usize| status.ports[port].classes[class].pause_sent.xoff;
        assert!(xoffs(0, 3) > 0 && xoffs(1, 3) > 0);
        assert_eq!(
            (xoffs(0, 4), xoffs(3, 3)),
            (0, 0),
            "paused time in the other class and at the other port"
        );
    });
}

use xoff_netns_tests::{Host, Traffic, stream, unstalled, wait_for};
use xoff_switch::control::status::PortStatus;

use crate::{PATIENT, bed};

#[test] // proves: lossless
fn overload_of_8_percent_pauses_both_senders() {
    unstalled(|| {
        let bed = bed(3).build();
        let switch = bed.start(&bed.config("speed = \"200M\"").switch(PATIENT));
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let offered = [stream(sink, 3, "108M", 8_000)];
        let reports = Traffic::at_mbps(200).sink(sink).source(a, &offered).source(b, &offered).run();
        reports.assert_lossless(&[3]);
        assert_eq!([a, b].map(|from| reports.received(from, 0, sink).distinct()), [8_000; 2]);

        let status = bed.finish(switch);
        let pauses = |port: &PortStatus| port.classes[3].pause_sent;
        let [one, two, three] = [0, 1, 2].map(|port: usize| pauses(&status.ports[port]));
        assert!(one.xoff > 0 && two.xoff > 0, "a sender was not paused: {one:?} {two:?}");
        assert_eq!((one.xoff, two.xoff), (one.xon, two.xon), "a pause did not end");
        assert_eq!(three.xoff, 0);
    });
}

#[test] // proves: lossy-classes
fn drops_of_a_lossy_class_are_counted_exactly() {
    unstalled(|| {
        let bed = bed(3).build();
        let switch = bed.start(&bed.config("speed = \"200M\"").switch(PATIENT));
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let both = [stream(sink, 3, "40M", 3_000), stream(sink, 1, "140M", 10_000)];
        let reports = Traffic::at_mbps(200)
            .sink(sink)
            .source(a, &both)
            .source(b, &[stream(sink, 1, "190M", 13_000)])
            .run();
        reports.assert_lossless(&[3]);

        let sent = [&reports.of(a).sent[1], &reports.of(b).sent[0]];
        let offered: u64 = sent.iter().map(|stream| stream.frames).sum();
        let lost = reports.received(a, 1, sink).lost + reports.received(b, 0, sink).lost;
        assert!(lost > 0, "no frame was dropped");
        wait_for("an empty switch", || (switch.status().ledger?.held == 0).then_some(()));
        let status = bed.finish(switch);
        let dropped: u64 = status.ports.iter().map(|port| port.classes[1].lost).sum();
        let out = &status.ports[2].classes[1];
        assert_eq!(dropped, out.drops["egress_full"]);
        assert_eq!(out.tx_frames + dropped, offered);
        assert_eq!(lost, dropped);
        for port in &status.ports {
            assert_eq!(port.classes[1].pause_sent.xoff, 0, "host {} was paused in a lossy class", port.name);
            assert_eq!(port.classes[3].lost, 0);
        }
        let order = |from: &Host, stream| {
            let it = reports.received(from, stream, sink);
            (it.duplicated, it.reordered)
        };
        assert_eq!((order(a, 1), order(b, 0)), ((0, 0), (0, 0)));
    });
}

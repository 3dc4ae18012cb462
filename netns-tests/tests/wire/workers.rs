use std::slice;

use xoff_netns_tests::{Traffic, stream, unstalled};

use crate::{PATIENT, bed};

const TWO: &str = "workers = [{ ports = [\"p1\", \"p2\"] }, { ports = [\"p3\", \"p4\"] }]";

#[test]
fn switch_loses_no_frame_between_ports_of_two_workers() {
    unstalled(|| {
        let bed = bed(4).build();
        let switch =
            bed.start(&bed.config("speed = \"200M\"\nlossless = [3, 4]").switch(PATIENT).switch(TWO));
        let (a, b, c, sink) = (bed.host(1), bed.host(2), bed.host(3), bed.host(4));
        let much = stream(sink, 3, "90M", 5_000);
        let reports = Traffic::at_mbps(200)
            .source(a, slice::from_ref(&much))
            .source(b, slice::from_ref(&much))
            .source(c, &[much, stream(b, 4, "50M", 3_000)])
            .source(sink, &[stream(a, 4, "150M", 8_000)])
            .run();
        reports.assert_lossless(&[3, 4]);
        let status = bed.finish(switch);
        let [one, two] = [0, 1].map(|worker: usize| status.workers[worker].ledger.unwrap());
        assert!(one.handed_over >= 10_000 && two.handed_over >= 11_000, "{one:?} {two:?}");
        assert_eq!((one.handed_over, two.handed_over), (two.taken_over, one.taken_over));
        assert!(one.balanced && two.balanced);
        for port in &status.ports[..3] {
            let pauses = port.classes[3].pause_sent;
            assert!(pauses.xoff > 0 && pauses.xoff == pauses.xon, "{}: {pauses:?}", port.name);
        }
    });
}

#[test]
fn frame_counts_of_two_workers_add_up_after_stop_under_load() {
    let bed = bed(4).build();
    let switch = bed.start(&bed.config("speed = \"500M\"").switch(PATIENT).switch(TWO));
    let (a, b, c, d) = (bed.host(1), bed.host(2), bed.host(3), bed.host(4));
    let traffic = Traffic::at_mbps(500)
        .source(a, &[stream(c, 3, "200M", 8_000), stream(d, 1, "200M", 8_000)])
        .source(b, &[stream(c, 3, "400M", 16_000)])
        .source(c, &[stream(a, 3, "400M", 16_000)])
        .source(d, &[stream(a, 3, "400M", 16_000)])
        .start();
    traffic.wait_received(8_000);
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
    assert!(exit.stderr.contains("ledger balanced"), "{}", exit.stderr);
    let _ = traffic.finish(); // frames after the stop are lost outside of the switch
}

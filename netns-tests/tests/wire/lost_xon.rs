//! R5: a peer whose XONs are lost. Every pause ends by itself, to the nanosecond of its own length.

use std::time::Duration;

use xoff_netns_tests::{Traffic, frames, stream, unstalled};

use crate::{PATIENT, bed};

#[test]
fn r5_the_class_resumes_at_expiry_and_nothing_is_lost() {
    unstalled(|| {
        const QUANTA: u64 = 20_000;
        let bed = bed(2).build();
        let switch = bed.start(&bed.config("speed = \"200M\"").switch(PATIENT));
        let (a, b) = (bed.host(1), bed.host(2));
        let talk = Traffic::at_mbps(200).sink(b).source(a, &[stream(b, 3, "100M", 6_000)]).start();
        for pause in 1..=4 {
            talk.wait_received(pause * 1_000);
            b.send(frames::pfc(b.mac(), &[(3, 20_000)]));
        }
        talk.finish().assert_lossless(&[3]);
        let said = bed.finish(switch);
        let pauses = said.ports[1].classes[3].pause_received;
        assert_eq!((pauses.xoff, pauses.xon, pauses.now), (4, 0, false));
        // A quantum at 200 Mb/s is 2560 ns. Where one pause came before the last was over, it prolonged it.
        let all = Duration::from_nanos(4 * QUANTA * 2_560);
        assert!(pauses.durations.count <= 4);
        assert!(Duration::from_nanos(pauses.nanos) <= all, "{pauses:?}");
        if pauses.durations.count == 4 {
            assert_eq!(Duration::from_nanos(pauses.nanos), all);
        }
    });
}

use xoff_netns_tests::{Traffic, stream, unstalled};

use crate::{PATIENT, bed};

/// The far switch is congested: its port has a fifth of the rate of the wire between the switches.
#[test] // proves: lossless
fn congestion_at_far_switch_pauses_senders_at_near_switch() {
    unstalled(|| {
        let bed = bed(3).far(1).build();
        let near = bed.start(&bed.config("speed = \"200M\"").switch(PATIENT));
        let config = bed.far_config("speed = \"200M\"").port(1, "speed = \"40M\"").switch(PATIENT);
        let far = bed.start_far(&config);
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let much = [stream(sink, 3, "90M", 2_500)];
        let reports = Traffic::at_mbps(200).sink(sink).source(a, &much).source(b, &much).run();
        reports.assert_lossless(&[3]);

        let near = bed.finish(near);
        let far = bed.finish(far);
        let sent = |port: usize| near.ports[port].classes[3].pause_sent;
        let trunk = &near.ports[2].classes[3];
        assert!(far.ports[1].classes[3].pause_sent.xoff > 0, "the far switch sent no pause");
        assert_eq!(trunk.pause_received.xon, far.ports[1].classes[3].pause_sent.xon);
        assert!(sent(0).xoff > 0 && sent(1).xoff > 0, "the senders were not paused");
        assert_eq!((sent(0).now, sent(1).now, trunk.pause_received.now), (false, false, false));
        assert!(trunk.tx_frames >= 5_000);
        assert_eq!(far.ports[0].classes[3].tx_frames, trunk.tx_frames);
    });
}

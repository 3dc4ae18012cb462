use std::time::Duration;

use xoff_netns_tests::{Traffic, frames, stream, unstalled, wait_for};

use crate::{PATIENT, bed};

const PAUSE: Duration = Duration::from_nanos(65_535 * 5_120);

#[test]
fn paused_class_resumes_at_pause_expiry_if_xon_is_lost() {
    const PAUSES: u32 = 3;
    unstalled(|| {
        let bed = bed(2).build();
        let switch = bed.start(&bed.config("speed = \"100M\"").switch(PATIENT));
        let (a, b) = (bed.host(1), bed.host(2));
        let traffic = Traffic::at_mbps(100).sink(b).source(a, &[stream(b, 3, "line", 3_000)]).start();
        for pause in 1..=PAUSES {
            traffic.wait_received(u64::from(pause) * 500); // the previous pause has ended
            b.send(frames::pfc(b.mac(), &[(3, u16::MAX)]));
            wait_for("the class to stop, and its sender to be held in turn", || {
                let status = switch.status();
                let [near, far] = [0, 1].map(|port: usize| &status.ports[port].classes[3]);
                (far.pause_received.now && near.pause_sent.now).then_some(())
            });
            wait_for("the end of the pause", || {
                (switch.class(2, 3).pause_received.durations.count == u64::from(pause)).then_some(())
            });
            // Read the duration only now: it rises until the switch has ended the expired pause.
            let ended = switch.class(2, 3).pause_received;
            assert_eq!(Duration::from_nanos(ended.durations.sum_nanos), PAUSE * pause, "{ended:?}");
            assert_eq!((ended.xoff, ended.xon), (u64::from(pause), 0), "no XON came");
        }
        traffic.finish().assert_lossless(&[3]);
        let status = bed.finish(switch);
        let [sent, received] =
            [status.ports[0].classes[3].pause_sent, status.ports[1].classes[3].pause_received];
        assert_eq!((received.xoff, received.xon, received.now), (u64::from(PAUSES), 0, false));
        assert_eq!(Duration::from_nanos(received.durations.sum_nanos), PAUSE * PAUSES);
        assert!(sent.xoff >= u64::from(PAUSES) && sent.xoff == sent.xon, "{sent:?}");
    });
}

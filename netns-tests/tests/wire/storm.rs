use std::thread;
use std::time::Duration;

use xoff_netns_tests::{Host, Traffic, frames, stream, unstalled, wait_for};

use crate::{PATIENT, bed, frame};

fn pause(host: &Host, class: u8, quanta: u16) {
    host.send(frames::pfc(host.mac(), &[(class, quanta)]));
}

#[test] // proves: scheduling
fn class_in_pause_storm_sends_nothing_and_pauses_no_sender() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"10M\""));
    let (a, b) = (bed.host(1), bed.host(2));
    b.send(frame(b, a, 0, 0)); // learned
    pause(b, 3, 65535);
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
    (1..=10).for_each(|number| a.send(frame(a, b, 3, number)));
    for round in 0..10 {
        pause(b, 3, 65535);
        (0..8).filter(|&class| class != 3).for_each(|class| a.send(frame(a, b, class, 100 + round)));
    }
    b.tap().wait(70, |frame| frames::sequence(frame).is_some_and(|number| number >= 100));
    assert!(b.tap().numbers().iter().all(|&number| number >= 100), "the paused class sent a frame");
    let class = switch.class(2, 3);
    assert!(class.pause_received.now, "the test took longer than the pause");
    assert_eq!((class.tx_frames, class.pause_received.xoff), (0, 11));
    assert_eq!(a.tap().count(|frame| frames::has_type(frame, frames::MAC_CONTROL)), 0, "relayed");

    pause(b, 3, 0);
    b.tap().numbered(10);
    let class_3: Vec<u32> = b.tap().numbers().into_iter().filter(|&number| number < 100).collect();
    assert_eq!(class_3, (1..=10).collect::<Vec<_>>());
    let status = bed.finish(switch);
    assert_eq!(status.ports[0].pause_frames_sent, 0);
}

#[test] // proves: scheduling
fn unpaused_classes_keep_their_rate_during_a_pause_storm() {
    unstalled(|| {
        let bed = bed(2).build();
        // Give every class memory for stalls of the machine, except the class of the storm.
        let config = bed.config("speed = \"100M\"\nlossless = [3, 4]").switch(PATIENT);
        let switch = bed.start(&config.more("[class.4]\nxoff = \"2MB\"\n[class.0]\negress_max = \"2MB\""));
        let (a, b) = (bed.host(1), bed.host(2));
        pause(b, 3, 65535);
        let streams = [stream(b, 3, "20M", 1_000), stream(b, 4, "30M", 2_000), stream(b, 0, "30M", 2_000)];
        let traffic = Traffic::at_mbps(100).sink(b).source(a, &streams).start();
        traffic.wait("the other classes", || {
            pause(b, 3, 65535);
            traffic.received_at(b, 4) + traffic.received_at(b, 0) == 4_000
        });
        assert_eq!(traffic.received_at(b, 3), 0);
        pause(b, 3, 0);
        let reports = traffic.finish();
        reports.assert_lossless(&[0, 3, 4]);
        let status = bed.finish(switch);
        assert!(status.ports[0].classes[3].pause_sent.xoff > 0, "the pause did not reach the sender");
        let others = [0, 4].map(|class: usize| &status.ports[0].classes[class].pause_sent);
        assert!(others.iter().all(|pauses| pauses.xoff == 0), "{others:?}");
    });
}

#[test] // proves: lossless
fn switch_in_pause_storms_loses_and_reorders_no_frame() {
    unstalled(|| {
        let bed = bed(2).build();
        let switch = bed.start(&bed.config("speed = \"200M\"").switch(PATIENT));
        let (a, b) = (bed.host(1), bed.host(2));
        let traffic = Traffic::at_mbps(200).sink(b).source(a, &[stream(b, 3, "150M", 15_000)]).start();
        for storm in 1..=4 {
            traffic.wait_received(storm * 2_000);
            for quanta in [65535, 100, 1, 65535, 0, 20_000, 65535].repeat(4) {
                pause(b, 3, quanta);
                thread::sleep(Duration::from_millis(2));
            }
            if storm < 4 {
                pause(b, 3, 0);
            }
        }
        traffic.finish().assert_lossless(&[3]);
        let status = bed.finish(switch);
        assert_eq!(status.ports[1].classes[3].pause_received.xoff, 4 * 24);
        assert_eq!(status.ports[1].classes[3].pause_received.xon, 4 * 4 + 3);
        let pauses = status.ports[0].classes[3].pause_sent;
        assert!(pauses.xoff > 0 && pauses.xoff == pauses.xon, "{pauses:?}");
    });
}

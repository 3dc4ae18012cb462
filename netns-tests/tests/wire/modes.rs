use xoff_netns_tests::{Traffic, frames, stream, unstalled, wait_for};

use crate::{PATIENT, bed, frame};

#[test]
fn switch_with_busy_polling_worker_loses_no_frame() {
    unstalled(|| {
        let bed = bed(3).build();
        let switches = format!("{PATIENT}\npoll = \"busy\"");
        let switch = bed.start(&bed.config("speed = \"200M\"").switch(&switches));
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let much = [stream(sink, 3, "150M", 5_000)];
        Traffic::at_mbps(200).sink(sink).source(a, &much).source(b, &much).run().assert_lossless(&[3]);
        let status = bed.finish(switch);
        assert!(
            status.ports[0].classes[3].pause_sent.xoff > 0 && status.ports[1].classes[3].pause_sent.xoff > 0
        );
    });
}

#[test]
fn lossy_overload_of_shared_memory_loses_no_lossless_frame() {
    unstalled(|| {
        let bed = bed(3).build();
        let memory = "[memory]\nmodel = \"shared\"\npool = \"300KB\"\n[class.1]\negress_max = \"1MB\"";
        let switch = bed.start(&bed.config("speed = \"200M\"").switch(PATIENT).more(memory));
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let both = [stream(sink, 3, "120M", 6_000), stream(sink, 1, "70M", 3_500)];
        let reports = Traffic::at_mbps(200).sink(sink).source(a, &both).source(b, &both).run();
        reports.assert_lossless(&[3]);
        assert!(reports.received(a, 1, sink).lost + reports.received(b, 1, sink).lost > 0);
        let status = bed.finish(switch);
        assert!(status.ports[0].classes[3].pause_sent.xoff > 0, "no sender was paused");
        assert_eq!(status.ports[0].classes[1].pause_sent.xoff, 0);
    });
}

#[test]
fn received_802_3x_pause_stops_all_classes() {
    let bed = bed(2).build();
    let config = bed.config("speed = \"10M\"\npause = \"802.3x\"").more("[class.3]\nxoff = 2000");
    let switch = bed.start(&config);
    let (a, b) = (bed.host(1), bed.host(2));
    b.send(frame(b, a, 0, 0)); // learned
    b.send(frames::pfc(b.mac(), &[(5, 65535)])); // ignored at an 802.3x port
    let own = bed.port(2).mac(); // as valid as the group address
    b.send([&own.0, &frames::pause(b.mac(), 65535)[6..]].concat());
    wait_for("the pause", || (0..8).all(|class| switch.class(2, class).pause_received.now).then_some(()));
    (0..8).for_each(|class| a.send(a.to(b).tag(class, 0).numbered(class.into()).build_len(900)));
    (8..10).for_each(|number| a.send(a.to(b).tag(3, 0).numbered(number).build_len(900)));
    a.tap().wait(1, |frame| *frame == frames::pause(bed.port(1).mac(), 65535));
    assert!(b.tap().numbers().is_empty());

    b.send(frames::pause(b.mac(), 0));
    b.tap().numbered(9);
    a.tap().wait(1, |frame| *frame == frames::pause(bed.port(1).mac(), 0));
    let mut numbers = b.tap().numbers();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    assert_eq!(a.tap().count(frames::is_pfc), 0);
    let status = bed.finish(switch);
    assert_eq!((status.ports[1].pause_frames_received, status.ports[1].pause_frames_ignored), (2, 1));
}

#[test]
fn link_between_switches_with_802_3x_loses_no_frame() {
    unstalled(|| {
        let bed = bed(3).far(1).build();
        let near = bed.config("speed = \"200M\"").switch(PATIENT).port(3, "pause = \"802.3x\"");
        let far = bed.far_config("speed = \"200M\"").switch(PATIENT);
        let (near, far) =
            (bed.start(&near), bed.start_far(&far.port(1, "speed = \"60M\"").port(2, "pause = \"802.3x\"")));
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let much = [stream(sink, 3, "90M", 2_500)];
        Traffic::at_mbps(200).sink(sink).source(a, &much).source(b, &much).run().assert_lossless(&[3]);
        let (near, far) = (bed.finish(near), bed.finish(far));
        assert!(near.ports[2].pause_frames_received > 0);
        assert_eq!(near.ports[2].pause_frames_received, far.ports[1].pause_frames_sent);
        assert_eq!(near.ports[2].pfc_frames_received, 0);
        assert!(
            near.ports[0].classes[3].pause_sent.xoff > 0,
            "the near switch sent no PFC pause to its sender"
        );
    });
}

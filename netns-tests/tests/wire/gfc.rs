use std::thread;
use std::time::Duration;

use xoff_netns_tests::{Config, Traffic, decode, frames, stream, unstalled, wait_for};
use xoff_switch::control::status::{ClassStatus, PortStatus};

use crate::{PATIENT, bed, frame};

const LINE_MBPS: u64 = 200;

/// Selects GFC at ports whose peers obey rate frames. Each rate step begins at a queue length: 300, 450, 525 KB and so on.
fn gfc(config: Config) -> Config {
    config.switch(PATIENT).switch("policy = \"gfc\"").more("[class.3]\nxoff = \"600KB\"\nxon = \"200KB\"")
}

const PORTS: &str = "speed = \"200M\"\ngfc_peer = true";

fn rates(port: &PortStatus) -> [Option<u64>; 2] {
    let ClassStatus { requested_rate_bits_per_second, rate_obeyed_bits_per_second, .. } = port.classes[3];
    [requested_rate_bits_per_second, rate_obeyed_bits_per_second]
}

#[test] // proves: gfc
fn congestion_at_far_switch_slows_near_switch_and_hosts() {
    unstalled(|| {
        let bed = bed(3).far(1).build();
        let near = bed.start(&gfc(bed.config(PORTS)));
        let far = bed.start_far(&gfc(bed.far_config(PORTS).port(1, "speed = \"60M\"")));
        let (a, b, sink) = (bed.host(1), bed.host(2), bed.host(3));
        let much = [stream(sink, 3, "90M", 3_000)];
        let traffic = Traffic::at_mbps(LINE_MBPS)
            .sink(sink)
            .source_of_rates(a, &much)
            .source_of_rates(b, &much)
            .start();
        let step = |rate: u64| (1..=6).any(|step| (LINE_MBPS * 1_000_000) >> step == rate);
        let (mut requested, mut obeyed) = (Vec::new(), Vec::new());
        traffic.wait("the frames", || {
            requested.extend(rates(&far.port(2))[0]);
            obeyed.extend(rates(&near.port(3))[1]);
            thread::sleep(Duration::from_millis(2));
            traffic.received() >= 6_000
        });
        let reports = traffic.finish();
        reports.assert_lossless(&[3]);
        assert!(requested.iter().chain(&obeyed).all(|&rate| step(rate)), "{requested:?} {obeyed:?}");
        assert!(obeyed.iter().any(|&rate| rate <= 50_000_000), "{obeyed:?}");
        for (switch, port) in [(&far, 2), (&near, 1), (&near, 2), (&near, 3)] {
            wait_for("the end of all limits", || (rates(&switch.port(port)) == [None, None]).then_some(()));
        }
        let (near, far) = (bed.finish(near), bed.finish(far));
        let rate_frames = far.ports[1].rate_frames_sent;
        assert!(
            rate_frames >= 3,
            "fewer than three rate frames (half, quarter, end of limit): {rate_frames}"
        );
        assert_eq!(
            near.ports[2].rate_frames_received, rate_frames,
            "rate frames that the near switch received"
        );
        for (port, host) in near.ports[..2].iter().zip([a, b]) {
            let received = reports.of(host).pauses.rate_frames;
            assert!(received > 0 && received <= port.rate_frames_sent, "{}: {received}", port.name);
        }
        assert_eq!((near.ports[2].rate_frames_sent, far.ports[1].rate_frames_received), (0, 0));
    });
}

#[test] // proves: gfc
fn gfc_rate_of_a_class_limits_only_that_class() {
    const FRAMES: usize = 100;
    /// Time to send a frame of 1500 bytes with 24 bytes of overhead at a quarter of 20 Mb/s.
    const FRAME_TIME: Duration = Duration::from_nanos(1_524 * 8 * 1_000 / 5);
    unstalled(|| {
        let bed = bed(2).build();
        let room = "[class.3]\nxoff = \"600KB\"\n[class.4]\nxoff = \"600KB\"";
        let config = bed.config("speed = \"20M\"\nlossless = [3, 4]").port(2, "gfc_peer = true");
        let switch = bed.start(&config.more(room));
        let (a, b) = (bed.host(1), bed.host(2));
        b.send(frame(b, a, 0, 0)); // learned
        a.tap().numbered(0);
        b.send(frames::rate(b.mac(), 3, 2));
        let obeyed = || switch.class(2, 3).rate_obeyed_bits_per_second;
        wait_for("the limit", || (obeyed() == Some(5_000_000)).then_some(()));
        for class in [3, 4] {
            let number = |n: usize| u32::from(class) * 1_000 + u32::try_from(n).unwrap();
            (0..FRAMES).for_each(|n| a.send(a.to(b).tag(class, 0).numbered(number(n)).build_len(1_500)));
        }
        let of_class = |bytes: &[u8], class: u32| frames::sequence(bytes).is_some_and(|n| n / 1_000 == class);
        let received = b.tap().wait(2 * FRAMES, |bytes| of_class(bytes, 3) || of_class(bytes, 4));
        let slow: Vec<Duration> =
            received.iter().filter(|frame| of_class(&frame.bytes, 3)).map(|frame| frame.at).collect();
        let took = slow[FRAMES - 1] - slow[0];
        // Allow a quarter less time: two frames may leave at once, and the first may have a late timestamp.
        assert!(took > FRAME_TIME * 3 / 4 * u32::try_from(FRAMES).unwrap(), "{took:?}");
        let last_of_4 = received.iter().rposition(|frame| of_class(&frame.bytes, 4)).unwrap();
        assert!(last_of_4 < 2 * FRAMES - 30, "class 4 was slowed down, too");
        bed.finish(switch);
    });
}

#[test] // proves: capture
fn wireshark_dissector_flags_malformed_gfc_rate_frames() {
    let bed = bed(2).build();
    let config = bed.config("speed = \"10M\"\ngfc_peer = true").switch("policy = \"gfc\"");
    let switch = bed.start(&config.more("[class.3]\nxoff = 4000\nxon = 3000"));
    let (a, b) = (bed.host(1), bed.host(2));
    b.send(frame(b, a, 0, 0)); // learned
    a.tap().numbered(0);
    b.send(frames::pfc(b.mac(), &[(3, u16::MAX)]));
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
    a.send(a.to(b).tag(3, 0).numbered(1).build_len(1_500));
    a.send(a.to(b).tag(3, 0).numbered(2).build_len(1_500));
    // 3,008 bytes exceed three quarters of the XOFF threshold, so the switch requests a quarter of the line rate.
    let is_quarter_rate = |bytes: &[u8]| bytes.get(34..38) == Some(b"GFC1") && bytes[43] == 2;
    let mut bytes = a.tap().wait(1, is_quarter_rate).swap_remove(0).bytes;
    let fields = [
        "macc.cbfc.enbv",
        "xoff_gfc.classes",
        "xoff_gfc.class",
        "xoff_gfc.step",
        "xoff_gfc.time",
        "xoff_gfc.malformed",
    ];
    assert_eq!(decode::tshark_with_ours(&bytes, &fields), ["0x0000", "0x08", "3", "2", "65535", ""]);
    let info = decode::tshark_with_ours(&bytes, &["_ws.col.Info"]).swap_remove(0);
    assert!(info.ends_with("GFC: class 3 1/4 of the line"), "{info}");
    let malformed = |bytes: &[u8]| {
        let read = decode::tshark_with_ours(bytes, &["xoff_gfc.malformed", "_ws.col.Info"]);
        read[0] == "1" && read[1].contains("GFC, malformed: the rates ")
    };
    assert!(malformed(&bytes[..49]), "cut off");
    bytes[43] = 17;
    assert!(malformed(&bytes), "a step beyond the maximum");
    bytes[43] = 2;
    bytes[17] = 8;
    assert!(malformed(&bytes), "a rate frame that also pauses a class");
    b.send(frames::pfc(b.mac(), &[(3, 0)]));
    b.tap().numbered(2);
    bed.finish(switch);
}

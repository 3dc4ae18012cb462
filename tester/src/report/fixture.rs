use super::{Accuracy, CaseReport, Curve, Device, Figure, Marker, Measurement, Report, Verdict};

fn case(id: &str, title: &str, verdict: Verdict, reason: &str) -> CaseReport {
    let [id, title, reason] = [id, title, reason].map(str::to_owned);
    let source = "IEEE 802.1Q-2022, 36.1.3.2".into();
    CaseReport {
        id,
        title,
        source,
        verdict,
        reason,
        excused_by: None,
        attempts: 1,
        measurements: vec![],
        figures: vec![],
    }
}

fn rates() -> Figure {
    let rate = |paused: bool| {
        let at = |n: u32| {
            let is_paused = paused && (1_000..1_672).contains(&n);
            (f64::from(n) / 1e3, if is_paused { 0.0 } else { 470e6 + f64::from(n % 7) * 1e6 })
        };
        (0..3_000).map(at).collect()
    };
    Figure {
        title: "Rate of a paused and of an unpaused class".into(),
        x: "time (ms)".into(),
        y: "rate (b/s)".into(),
        curves: vec![
            Curve { name: "class 3 (paused)".into(), points: rate(true) },
            Curve { name: "class 4".into(), points: rate(false) },
        ],
        markers: vec![
            Marker { x: 1.0, label: "XOFF".into() },
            Marker { x: 1.005, label: "allowed response".into() },
            Marker { x: 1.672, label: "expiry".into() },
        ],
    }
}

fn search() -> Figure {
    let points = vec![
        (8_192.0, 0.0),
        (16_384.0, 0.0),
        (20_480.0, f64::NAN),
        (24_576.0, 0.0),
        (28_672.0, 2.0),
        (32_768.0, 5.0),
    ];
    Figure {
        title: "Lost frames against bytes sent after the device's XOFF".into(),
        x: "bytes after XOFF".into(),
        y: "lost frames".into(),
        curves: vec![Curve { name: "port 1, class 3".into(), points }],
        markers: vec![Marker { x: 30_208.0, label: "demanded by speed, MTU and cable".into() }],
    }
}

pub(super) fn report() -> Report {
    use Verdict::{CannotTell, Fail, NotRun, Pass};
    let new = Measurement::new;
    let stops = CaseReport {
        attempts: 2,
        measurements: vec![
            new("response", 812.0, "ns").at_most(5_400.0),
            new("frames of class 3 in the pause", 0.0, "frames").at_most(0.0),
            new("rate of class 4", 4.71e8, "b/s").at_least(4.5e8),
        ],
        figures: vec![rates()],
        ..case(
            "receive.stops-class",
            "Does XOFF stop its class, and only this class?",
            Pass,
            "class 3 stopped after 812 ns; class 4 was not affected",
        )
    };
    let expiry = |verdict, reason: &str, us: f64| CaseReport {
        measurements: vec![
            new("pause of 1,000 quanta", us * 1e3, "ns").at_least(508_000.0).at_most(516_000.0),
            new("pause of 65,535 quanta", f64::NAN, "ns").at_least(33_500_000.0),
        ],
        figures: if verdict == Fail { vec![rates(), search()] } else { vec![] },
        ..case(
            "receive.expiry",
            "Does a pause end when its quanta have elapsed at the speed of the port?",
            verdict,
            reason,
        )
    };
    let headroom = CaseReport {
        measurements: vec![new("headroom", 26_624.0, "bytes").at_least(30_208.0).error(1_538.0)],
        figures: vec![search()],
        ..case(
            "headroom.capacity",
            "Does the device lose nothing that its peer still sends after XOFF?",
            Fail,
            "frames were lost after 26,624 bytes; speed, MTU and cable demand 30,208 bytes",
        )
    };
    Report {
        version: "0.1.0".into(),
        started_s: 1_795_978_400,
        duration_s: 312.4,
        device: Device {
            name: "leaf-1 <rack 3> & co".into(),
            settings: [
                ("ports", "eth1 (port 1), eth2 (port 2), 1 Gb/s"),
                ("lossless classes", "3, 4"),
                ("trust", "DSCP: 24-31 to class 3, 32-39 to class 4"),
                ("cable", "5 m"),
                ("MTU", "1500"),
            ]
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into(),
        },
        accuracy: Accuracy {
            clock: "kernel (XDP)".into(),
            error_p50_ns: 1_200,
            error_p99_ns: 8_400,
            longest_stall_ns: 3_100_000,
            method: "1,000 frames through the device at 1,000 frames/s".into(),
        },
        ended_early: Some("interrupted, after isolation.other-ingress".into()),
        cases: vec![
            stops,
            expiry(Pass, "the pause lasted 511.9 us", 511.9),
            expiry(
                Fail,
                "the pause lasted 1.02 ms, as if the port had half its speed; 508.0 us to 516.0 us expected",
                1_024.0,
            ),
            expiry(Pass, "the pause lasted 512.1 us", 512.1),
            case(
                "receive.eight-timers",
                "Does each class have its own timer?",
                CannotTell,
                "the machine stalled for 14.2 ms in each of 5 attempts",
            ),
            case(
                "send.refresh",
                "Does the device refresh a pause before it expires?",
                Pass,
                "41 refreshes, the latest 2.10 ms before expiry",
            ),
            headroom,
            case(
                "isolation.other-ingress",
                "Is a flow between two other ports unharmed by a pause?",
                NotRun,
                "the case needs 4 ports, and the setup file has 2",
            ),
        ],
    }
}

// Tests for SPECIFICATION.md: tcp

use xoff_flow_control::settings::{ClassSettings, EcnSettings};
use xoff_host::tcp::{Algorithm, Detection, TcpSettings};
use xoff_sim::flows::{FlowFabric, FlowPlan, HostSettings, RoceSettings, TcpHosts, Transport};
use xoff_sim::{Line, Pace, Picos, Seed};
use xoff_wire::units::{BitRate, Bytes, Class, Nanos, PortId};

use super::{LINE, LOSSLESS, LOSSY, as_they_are, check, dropped, flow, line, run, star};

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Reno, Algorithm::Cubic, Algorithm::Dctcp];

fn with(control: Algorithm) -> TcpSettings {
    TcpSettings { control, ecn: control == Algorithm::Dctcp, ..TcpSettings::default() }
}

fn path_time(line: Line, frame_len: u32) -> u64 {
    2 * (Pace::of(line.rate).time_of(Bytes::on_line(frame_len)).0 + line.delay.0)
}

#[test]
fn lone_tcp_flow_takes_computed_time_to_the_picosecond() {
    let ack = 66;
    let full = 1_514;
    for line in [LINE, line(7, 333)] {
        let plan = star(&[line; 2], as_they_are);
        let span = |len: u32| Pace::of(line.rate).time_of(Bytes::on_line(len)).0;
        // Flows within the initial window (ten segments) take their ideal time.
        for segments in [1, 2, 10] {
            let mut fabric = FlowFabric::new(&plan, Seed(1), HostSettings::tcp(with(Algorithm::Reno)));
            fabric.add(flow(0, 1, (segments - 1) * 1_448 + 448));
            let record = run(&mut fabric)[0];
            assert_eq!(record.took(), Some(record.ideal), "{segments}");
            let acknowledged = record.acknowledged.expect("no acknowledgement").since(record.start);
            assert_eq!(acknowledged.0, record.ideal.0 + path_time(line, ack), "{segments}");
        }
        // Twelve segments need a second window, which the first acknowledgement permits.
        for handshake in [false, true] {
            let settings = TcpSettings { handshake, ..with(Algorithm::Reno) };
            let mut fabric = FlowFabric::new(&plan, Seed(1), HostSettings::tcp(settings));
            fabric.add(flow(0, 1, 12 * 1_448));
            let record = run(&mut fabric)[0];
            let first = (path_time(line, full) + path_time(line, ack)).max(10 * span(full));
            let shook = if handshake { 2 * path_time(line, ack) } else { 0 };
            assert_eq!(
                record.took(),
                Some(Picos(shook + first + span(full) + path_time(line, full))),
                "{handshake}"
            );
        }
    }
}

#[test]
fn second_flow_of_persistent_connection_takes_ideal_time() {
    for persistent in [true, false] {
        let settings = TcpSettings { handshake: true, persistent, ..with(Algorithm::Reno) };
        let plan = star(&[LINE; 2], as_they_are);
        let mut fabric = FlowFabric::new(&plan, Seed(1), HostSettings::tcp(settings));
        for start in [0, 1_000] {
            fabric.add(FlowPlan { start: Picos::from_micros(start), ..flow(0, 1, 40 * 1_448) });
        }
        let slow: Vec<bool> =
            run(&mut fabric).iter().map(|record| record.took() > Some(record.ideal)).collect();
        assert_eq!(slow, [true, !persistent]);
    }
}

fn marking(class: Class, settings: &mut ClassSettings) {
    if class == LOSSLESS {
        settings.ecn =
            Some(EcnSettings { min: Bytes(40_000), max: Bytes(40_000), probability: 1.0, wred: false });
    }
}

/// Four senders share a port. Only pauses limit Reno and CUBIC; ECN marks limit DCTCP.
#[test]
fn tcp_fills_99_percent_of_a_lossless_bottleneck() {
    for control in ALGORITHMS {
        let plan = star(&[line(10, 500); 5], marking);
        let mut fabric = FlowFabric::new(&plan, Seed(1), HostSettings::tcp(with(control)));
        (1..5).for_each(|from| _ = fabric.add(flow(from, 0, 1 << 36)));
        let received = |fabric: &FlowFabric| (0..4).map(|flow| fabric.received_bytes(flow)).sum::<u64>();
        fabric.run_until(Picos::from_micros(5_000));
        let before = received(&fabric);
        fabric.run_until(Picos::from_micros(25_000));
        let bits = (received(&fabric) - before) as f64 * 8.0;
        let share = bits / (10e9 * 0.02 * 1_448.0 / 1_538.0);
        assert!((0.99..1.0001).contains(&share), "{control:?}: {share}");
        assert_eq!(dropped(&fabric), 0);
        check(&fabric);
    }
}

fn to_one(fabric: &mut FlowFabric, class: Class, bytes: u64) {
    (1..5).for_each(|from| _ = fabric.add(FlowPlan { class, ..flow(from, 0, bytes) }));
}

#[test]
fn tcp_repairs_drops_with_every_loss_detection() {
    let detections = [
        (true, Detection::Rack),
        (true, Detection::Duplicates(3)),
        (false, Detection::Duplicates(3)),
        (false, Detection::Never),
    ];
    for control in ALGORITHMS {
        for (sack, detection) in detections {
            let plan = star(&[line(10, 500); 5], |class, settings| {
                if class == LOSSY {
                    settings.egress_max = Bytes(60_000);
                }
            });
            let tcp = TcpSettings { sack, detection, rto_min: Nanos::from_millis(1), ..with(control) };
            let mut fabric = FlowFabric::new(&plan, Seed(1), HostSettings::tcp(tcp));
            to_one(&mut fabric, LOSSY, 2_000_000);
            let records = run(&mut fabric);
            let name = format!("{control:?}, {detection:?}, SACK {sack}");
            assert!(dropped(&fabric) > 0, "{name}");
            let resent: u32 = records.iter().map(|record| record.frames_resent).sum();
            let timeouts: u32 = records.iter().map(|record| record.timeouts).sum();
            assert!(u64::from(resent) >= dropped(&fabric), "{name}: {resent} of {}", dropped(&fabric));
            assert!(detection != Detection::Never || timeouts > 0, "{name}");
            for record in records {
                assert_eq!(
                    u64::from(record.frames_sent - record.frames_resent),
                    2_000_000_u64.div_ceil(1_448)
                );
                assert!(record.acknowledged >= record.finish, "{name}");
            }
        }
    }
}

#[test]
fn tcp_and_roce_share_a_fabric_in_two_classes() {
    let plan = star(&[LINE; 5], as_they_are);
    let tcp = TcpHosts {
        classes: [LOSSY].into_iter().collect(),
        ack_class: None,
        settings: with(Algorithm::Cubic),
    };
    let roce = RoceSettings::default();
    let settings =
        HostSettings { transport: Transport::Roce(roce), tcp: Some(tcp), ..HostSettings::default() };
    let mut fabric = FlowFabric::new(&plan, Seed(1), settings);
    for from in 1..5 {
        for class in [LOSSY, LOSSLESS] {
            fabric.add(FlowPlan { class, ..flow(from, 0, 300_000) });
        }
    }
    let records = run(&mut fabric);
    let of = |class: Class| records.iter().filter(move |record| record.class == class);
    assert!(of(LOSSY).all(|record| record.acknowledged.is_some() && record.frames_sent >= 208));
    assert!(of(LOSSLESS).all(|record| record.acknowledged.is_none() && record.frames_resent == 0));
    assert_eq!(of(LOSSLESS).next().map(|record| record.frames_sent), Some(207));
}

/// Repeats the experiment `ecn` (four senders, one receiver, 100 Mb/s, CUBIC). Expected mean queues in KB are from the
/// kernel's TCP (docs/policies/ecn.md).
#[test]
fn mean_queues_are_near_those_of_kernel_tcp() {
    let ecn = |min, max, probability, wred| {
        Some(EcnSettings { min: Bytes(min), max: Bytes(max), probability, wred })
    };
    let auto = |wred| ecn(25_000, 50_000, 0.2, wred);
    let runs = [
        ("pfc", LOSSLESS, None, false, 193.4),
        ("pfc-ecn", LOSSLESS, auto(false), true, 26.4),
        ("pfc-ecn-step", LOSSLESS, ecn(25_000, 25_000, 1.0, false), true, 20.2),
        ("lossy", LOSSY, None, false, 86.1),
        ("lossy-ecn", LOSSY, auto(false), true, 26.2),
        ("lossy-wred", LOSSY, auto(true), false, 27.7),
    ];
    let mut results = Vec::new();
    for (name, class, marks, ecn, live) in runs {
        let line = Line { rate: BitRate::from_mbps(100), delay: Picos::from_micros(50) };
        let plan = star(&[line; 5], |of, settings| {
            if of == class {
                settings.ecn = marks;
                (settings.xoff, settings.xon, settings.xoff_frames) = (Bytes(50_000), Bytes(40_000), 10_000);
                settings.egress_max = if class == LOSSY { Bytes(100_000) } else { Bytes(2_000_000) };
            }
        });
        let tcp = TcpSettings { ecn, window: Bytes(128_000), ..with(Algorithm::Cubic) };
        let mut fabric = FlowFabric::new(&plan, Seed(1), HostSettings::tcp(tcp));
        (1..5).for_each(|from| _ = fabric.add(FlowPlan { class, ..flow(from, 0, 1 << 36) }));
        let mut sum = 0;
        for step in 0..3_000 {
            fabric.run_until(Picos::from_micros(1_000_000 + step * 1_000));
            sum += fabric.fabric().switches()[0].counters().class(PortId(0), class).egress_bytes.get();
        }
        let queue = sum as f64 / 3_000.0 / 1e3;
        let resent: u32 = fabric.records().map(|record| record.frames_resent).sum();
        let marked: u32 = fabric.records().map(|record| record.marked).sum();
        let goodput = (0..4).map(|flow| fabric.received_bytes(flow)).sum::<u64>() as f64 * 8.0 / 4e6;
        results.push((name, queue, queue / live, resent, marked, goodput));
    }
    assert!(results.iter().all(|result| (result.2 - 1.0).abs() < 0.1), "{results:#?}");
}

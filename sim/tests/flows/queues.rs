use xoff_flow_control::settings::{FlowControl, Service};
use xoff_sim::flows::{FlowFabric, FlowPlan, Framing, HostSettings, frame_len};
use xoff_sim::ideal::Ideal;
use xoff_sim::load::{Listed, Poisson, Sizes, poisson};
use xoff_sim::topology::{Build, Graph};
use xoff_sim::{Pace, Picos, Seed};
use xoff_wire::units::{Bytes, Class, ClassSet, PortId};

use super::{LINE, LOSSLESS, as_they_are, dropped, flow, line, run, star};

const SEEDS: u64 = 10;
const FRAMES: u64 = 30_000;
/// Student's t for nine degrees of freedom and 99 % confidence.
const STUDENT: f64 = 3.250;

/// Single frames cross a fast line, then a slow one. Their mean wait is that of an M/D/1 queue at the slow line
/// (Friedman, 1965): rho / (2 (1 - rho)) frame times.
#[test] // proves: sim-timing
fn mean_wait_of_random_frames_matches_m_d_1_theory() {
    let slow = line(10, 500);
    let frame = Pace::of(slow.rate).time_of(Bytes::on_line(frame_len(1_000)));
    for tenths in [5_u32, 7, 9] {
        let load = f64::from(tenths) / 10.0;
        let mean_wait = |seed| {
            let mut fabric = FlowFabric::new(
                &star(&[line(40, 500), slow], as_they_are),
                Seed(seed),
                HostSettings::default(),
            );
            let settings = Poisson {
                hosts: vec![0, 1],
                class: LOSSLESS,
                sizes: Sizes::fixed(1_000),
                load,
                line: slow.rate,
                framing: Framing::roce(1_456),
                from: Picos::ZERO,
                until: Picos(FRAMES * frame.0 * 10 / u64::from(tenths)),
            };
            let flows = poisson(&settings, Seed(seed));
            fabric.add_load(Listed(flows.into_iter().filter(|flow| flow.from == 0).collect()));
            let records = run(&mut fabric);
            assert_eq!(dropped(&fabric), 0);
            let waits = records.iter().filter_map(|record| Some(record.took()?.since(record.ideal).0 as f64));
            waits.sum::<f64>() / records.len() as f64 / frame.0 as f64
        };
        let waits: Vec<f64> = (1..=SEEDS).map(mean_wait).collect();
        let mean = waits.iter().sum::<f64>() / SEEDS as f64;
        let variance = waits.iter().map(|wait| (wait - mean).powi(2)).sum::<f64>() / (SEEDS - 1) as f64;
        let half = STUDENT * (variance / SEEDS as f64).sqrt();
        let expected = load / (2.0 * (1.0 - load));
        assert!((mean - expected).abs() < half, "{load}: {mean} +- {half} against {expected}");
        assert!(
            half < expected / 8.0,
            "load {load}: the confidence interval of +-{half} is too wide for the expected {expected}"
        );
    }
}

#[test] // proves: sim-timing
fn classes_share_a_line_by_weight_to_within_two_frames() {
    let classes = [Class::ALL[1], Class::ALL[2]];
    let mut graph = Graph::default();
    let switch = graph.add_switch(0);
    (0..3).for_each(|_| _ = graph.add_host(switch, LINE));
    let build = Build::cached(|lines, _| {
        let mut kind = Ideal::of(lines, ClassSet::NONE);
        kind.slots.data *= 2;
        for port in &mut kind.settings.ports {
            classes.iter().for_each(|class| port.classes[class.index()] = port.classes[LOSSLESS.index()]);
            port.flow_control = FlowControl::Pfc { obey: ClassSet::ALL, send: ClassSet::ALL };
            port.classes[1].service = Service::Weighted(1);
            port.classes[2].service = Service::Weighted(3);
        }
        kind
    });
    let mut fabric = FlowFabric::new(&graph.plan(&build), Seed(1), HostSettings::default());
    for (from, class) in (1..).zip(classes) {
        fabric.add(FlowPlan { class, ..flow(from, 0, 1 << 30) });
    }
    fabric.run_until(Picos::from_micros(100));
    let before = [0, 1].map(|flow| i64::from(fabric.received(flow)));
    fabric.run_until(Picos::from_micros(2_100));
    let [one, three] = [0, 1].map(|flow| i64::from(fabric.received(flow)) - before[flow as usize]);
    assert!((3 * one - three).abs() <= 8, "{one} and {three}");
    let frame = Pace::of(LINE.rate).time_of(Bytes::on_line(1_514)).0;
    let all = i64::try_from(Picos::from_micros(2_000).0 / frame).expect("frame count exceeds 63 bits");
    assert!((one + three - all).abs() <= 1, "{one} and {three} of {all}");
    assert_eq!(dropped(&fabric), 0);
    let switch = &fabric.fabric().switches()[0];
    assert!((1..3).all(|port| {
        switch.counters().class(PortId(port), classes[usize::from(port) - 1]).xoff_sent.get() > 0
    }));
}

use std::sync::Arc;

use xoff_flow_control::congestion::ReactionSettings;
use xoff_flow_control::settings::{Culprit, QcnSettings, QueueKind};
use xoff_sim::flows::{FlowFabric, FlowRecord, HostSettings};
use xoff_sim::ideal::Ideal;
use xoff_sim::load::Listed;
use xoff_sim::topology::{Build, Graph};
use xoff_sim::{Picos, Seed};
use xoff_wire::units::{BitRate, Bytes, ClassSet, PortId};

use super::{LOSSLESS, LOSSY, check, dropped, flow, line};

const LONG: u64 = 1 << 40;

/// Runs two flows from host 0 through a switch that samples (QCN) at its inputs.
///
/// The culprit flow sends 3 Gb/s to host 4, which hosts 1 to 3 overload; the victim flow 7 Gb/s to host 5. Returns the
/// records after 60 ms, the victim's payload rate (Gb/s) in the second half, and the XOFFs sent to host 0.
fn shared_input(qcn: Option<ReactionSettings>, delay: Picos) -> (Vec<FlowRecord>, f64, u64) {
    let mut graph = Graph::default();
    let switch = graph.add_switch(0);
    (0..6).for_each(|_| _ = graph.add_host(switch, line(10, 100)));
    let build = Build::new(|lines, _| {
        let mut kind = Ideal::of(lines, ClassSet(1 << LOSSY.get()));
        kind.settings.qcn = QcnSettings {
            ingress: ClassSet(1 << LOSSLESS.get()),
            culprit: Culprit::OccupancyDeterministic,
            ..QcnSettings::PAPER
        };
        kind.slots.data += 10_000;
        for port in &mut kind.settings.ports {
            let class = &mut port.classes[LOSSLESS.index()];
            (class.xoff, class.xon, class.xoff_frames) = (Bytes(110_000), Bytes(44_000), 10_000);
            class.egress_max = Bytes(class.egress_max.0 + 1_000_000);
            class.queue = QueueKind::Voq;
        }
        Arc::new(kind)
    });
    let settings = HostSettings { qcn, qcn_delay: delay, ..HostSettings::default() };
    let mut fabric = FlowFabric::new(&graph.plan(&build), Seed(1), settings);
    let mut add = |from, to, gbps: Option<u64>| {
        fabric.add_load_at(Listed(vec![flow(from, to, LONG)]), gbps.map(BitRate::from_gbps));
    };
    add(0, 4, Some(3));
    (1..4).for_each(|from| add(from, 4, None));
    add(0, 5, Some(7));
    fabric.run_until(Picos::from_micros(30_000));
    let before = fabric.received(4);
    fabric.run_until(Picos::from_micros(60_000));
    let gbps = f64::from(fabric.received(4) - before) * 1_456.0 * 8.0 / 30e6;
    check(&fabric);
    assert_eq!(dropped(&fabric), 0);
    let paused = fabric.fabric().switches()[0].counters().class(PortId(0), LOSSLESS).xoff_sent.get();
    (fabric.records().collect(), gbps, paused)
}

#[test] // proves: sim-hosts
fn culprit_flow_obeys_cnms_and_victim_flow_gets_none() {
    let (alone, slow, pauses) = shared_input(None, Picos::ZERO);
    assert!(alone.iter().all(|flow| flow.cnps == 0));
    // 7 Gb/s on the line are 6.63 Gb/s of payload. Without QCN, pauses of host 0 slow the victim flow, too.
    assert!(slow < 6.0, "{slow} Gb/s");
    let (notified, fast, fewer) = shared_input(Some(ReactionSettings::STANDARD), Picos::ZERO);
    assert!(notified[..4].iter().all(|flow| flow.cnps > 0), "{notified:?}");
    assert_eq!(notified[4].cnps, 0);
    assert!((fast / 6.626 - 1.0).abs() < 0.01, "{fast} Gb/s");
    assert!(4 * fewer < pauses, "{fewer} pauses with QCN, {pauses} without");
}

#[test] // proves: sim-hosts
fn hosts_react_to_cnms_after_configured_delay() {
    let run = |micros| shared_input(Some(ReactionSettings::STANDARD), Picos::from_micros(micros));
    let (flows, fast, _) = run(3);
    assert!(flows[..4].iter().all(|flow| flow.cnps > 0), "{flows:?}");
    assert!((fast / 6.626 - 1.0).abs() < 0.01, "{fast} Gb/s");
    // The reaction is delayed until after the run's 60 ms.
    let (flows, slow, _) = run(60_000);
    assert!(flows.iter().all(|flow| flow.cnps == 0), "{flows:?}");
    assert!(slow < 6.0, "{slow} Gb/s");
}

#[test] // proves: sim-hosts
fn flow_of_rate_limited_load_sends_exactly_at_its_rate() {
    let mut graph = Graph::default();
    let switch = graph.add_switch(0);
    (0..3).for_each(|_| _ = graph.add_host(switch, line(10, 100)));
    let build = Build::cached(|lines, _| Ideal::of(lines, ClassSet::NONE));
    let mut fabric = FlowFabric::new(&graph.plan(&build), Seed(1), HostSettings::default());
    for (to, gbps) in [(1, 3), (2, 7)] {
        fabric.add_load_at(Listed(vec![flow(0, to, LONG)]), Some(BitRate::from_gbps(gbps)));
    }
    fabric.run_until(Picos::from_micros(10_000));
    let sent = [0, 1].map(|flow| f64::from(fabric.record(flow).frames_sent) * 1_538.0 * 8.0 / 10e6);
    assert!((sent[0] - 3.0).abs() < 0.01 && (sent[1] - 7.0).abs() < 0.01, "{sent:?}");
}

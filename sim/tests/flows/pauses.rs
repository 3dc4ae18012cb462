use std::time::Duration;

use xoff_flow_control::settings::{PolicyKind, SwitchSettings};
use xoff_host::PauseCounts;
use xoff_sim::flows::{FlowFabric, FlowPlan, HostSettings};
use xoff_sim::ideal::Ideal;
use xoff_sim::topology::{Build, Graph};
use xoff_sim::{Net, Node, Packet, Picos, Seed, SlotCounts};
use xoff_wire::units::{ClassSet, MacAddr, PortId, Quanta};
use xoff_wire::{MacControl, Pfc};

use super::loss::Repeater;
use super::{LINE, LOSSLESS, LOSSY, as_they_are, dropped, flow, run, star};

struct PausesOnce(Repeater, Option<Quanta>);

impl Node for PausesOnce {
    fn arrived(&mut self, port: PortId, packet: Packet, net: &mut Net) {
        if let Some(quanta) = self.1.take() {
            let pause =
                MacControl::Pfc(Pfc::default().with(LOSSLESS, quanta)).encode(MacAddr([2, 0, 0, 0, 0, 9]));
            let pause = net.pool.add_whole(&pause);
            net.start(self.0.place, port, pause);
        }
        self.0.arrived(port, packet, net);
    }

    fn left(&mut self, port: PortId, net: &mut Net) {
        self.0.left(port, net);
    }

    fn due(&mut self, _: &mut Net) {}

    fn holds(&self) -> u64 {
        self.0.holds()
    }
}

#[test] // proves: sim-timing
fn pause_that_expires_while_other_class_sends_costs_no_time() {
    // Pauses of 1 and 10 quanta end within a frame's time, one of 100 quanta after several frames.
    for quanta in [1, 10, 100].map(Quanta) {
        let pauses =
            |place, _: SwitchSettings, _: SlotCounts| PausesOnce(Repeater::new(place, 1, 0), Some(quanta));
        let mut fabric =
            FlowFabric::of(&star(&[LINE; 2], as_they_are), Seed(1), HostSettings::default(), pauses);
        [LOSSLESS, LOSSY]
            .into_iter()
            .for_each(|class| _ = fabric.add(FlowPlan { class, ..flow(0, 1, 100 * 1_456) }));
        let all = fabric.alone().time_of(&flow(0, 1, 200 * 1_456), 0);
        let step = |fabric: &mut FlowFabric<PausesOnce>| fabric.fabric_mut().step(Picos::from_micros(1_000));
        assert!((0..2_000).any(|_| step(&mut fabric).is_none()), "events do not end");
        assert_eq!(fabric.fabric().hosts()[0].gate().counts(fabric.fabric().now().floor()).pfc_frames, 1);
        let took = fabric.records().filter_map(|record| record.took()).max();
        assert_eq!(took, Some(all), "{quanta:?}");
    }
}

/// Runs a flow from host 0 to host 1, while hosts 0 and 3 to 5 overload host 2. Returns the flow's duration and the
/// pauses that host 0 received.
fn victim(policy: PolicyKind, settings: HostSettings) -> (Duration, PauseCounts) {
    let mut graph = Graph::default();
    let switch = graph.add_switch(0);
    (0..6).for_each(|_| _ = graph.add_host(switch, LINE));
    let build = Build::cached(|lines, _| {
        let mut kind = Ideal::of(lines, ClassSet::NONE);
        kind.settings.policies[LOSSLESS.index()] = policy;
        for port in &mut kind.settings.ports {
            port.ofc_peer = policy == PolicyKind::Ofc;
            port.gfc_peer = policy == PolicyKind::Gfc;
        }
        assert_eq!(policy.misfit(LOSSLESS, &kind.settings), None);
        kind
    });
    let mut fabric = FlowFabric::new(&graph.plan(&build), Seed(1), settings);
    fabric.add(flow(0, 1, 2_000_000));
    [0, 3, 4, 5].into_iter().for_each(|from| _ = fabric.add(flow(from, 2, 8_000_000)));
    let records = run(&mut fabric);
    assert_eq!(dropped(&fabric), 0);
    let counts = fabric.fabric().hosts()[0].gate().counts(fabric.fabric().now().floor());
    (Duration::from_nanos(records[0].took().expect("the flow has not ended").0 / 1_000), counts)
}

#[test]
fn victim_flow_is_not_paused_if_hosts_obey_flow_lists() {
    let (by_class, counts) = victim(PolicyKind::Pfc, HostSettings::default());
    assert_eq!(counts.flow_frames, 0);
    let (by_flow, counts) =
        victim(PolicyKind::Ofc, HostSettings { obeys_flows: true, ..HostSettings::default() });
    assert!(counts.flow_frames > 0);
    assert!(3 * by_flow < 2 * by_class, "{by_flow:?} against {by_class:?}");
    assert!(by_flow > Duration::from_micros(169));
}

#[test]
fn hosts_obey_rates_that_gfc_switches_request() {
    let (_, counts) = victim(PolicyKind::Gfc, HostSettings { obeys_rates: true, ..HostSettings::default() });
    assert!(counts.rate_frames > 0);
}

mod allocations;
mod closed;
mod congestion;
mod dctcp;
mod loss;
mod notices;
mod pauses;
mod queues;
mod receivers;
mod reordering;
mod routers;
mod scheduled;
mod tcp;
mod times;
mod topologies;

use std::sync::Arc;

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::ClassSettings;
use xoff_sim::flows::{FlowFabric, FlowPlan, FlowRecord};
use xoff_sim::ideal::Ideal;
use xoff_sim::topology::{Build, Graph};
use xoff_sim::{Line, Picos, Plan};
use xoff_wire::units::{BitRate, Class, ClassSet};

const LINE: Line = Line { rate: BitRate::from_gbps(100), delay: Picos::from_nanos(500) };
const LOSSLESS: Class = Class::ALL[3];
const LOSSY: Class = Class::ALL[0];

fn flow(from: u32, to: u32, bytes: u64) -> FlowPlan {
    FlowPlan { from, to, class: LOSSLESS, bytes, start: Picos(77), tag: 0 }
}

fn line(gbps: u64, nanos: u64) -> Line {
    Line { rate: BitRate::from_gbps(gbps), delay: Picos::from_nanos(nanos) }
}

fn star(lines: &[Line], modify: impl Fn(Class, &mut ClassSettings)) -> Plan {
    let mut graph = Graph::default();
    let switch = graph.add_switch(0);
    for line in lines {
        graph.add_host(switch, *line);
    }
    let build = Build::new(|lines, _| {
        let mut kind = Ideal::of(lines, ClassSet(1 << LOSSY.get()));
        kind.slots.data += 40_000;
        for port in &mut kind.settings.ports {
            Class::ALL
                .into_iter()
                .zip(&mut port.classes)
                .for_each(|(class, settings)| modify(class, settings));
        }
        Arc::new(kind)
    });
    graph.plan(&build)
}

fn as_they_are(_: Class, _: &mut ClassSettings) {}

fn dropped(fabric: &FlowFabric) -> u64 {
    let of_all = |reason: &DropReason| -> u64 {
        fabric.fabric().switches().iter().map(|switch| switch.counters().dropped(*reason)).sum()
    };
    DropReason::ALL.iter().map(of_all).sum()
}

fn check(fabric: &FlowFabric) {
    for switch in fabric.fabric().switches() {
        assert_eq!(switch.switch().ledger().missing(), 0);
        assert_eq!(switch.receive_drops(), 0);
    }
    assert_eq!(fabric.fabric().missing(), 0);
}

fn run(fabric: &mut FlowFabric) -> Vec<FlowRecord> {
    assert!(fabric.run_to_end(Picos::from_micros(10_000_000)), "{} flows have not ended", fabric.open());
    fabric.fabric_mut().run_to_rest();
    check(fabric);
    assert!(fabric.fabric().switches().iter().all(|switch| switch.frames() == 0));
    fabric.records().collect()
}

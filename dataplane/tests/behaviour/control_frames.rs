//! Reactions of a PFC port to MAC control frames as tools and devices send them (`wire/data/control-frames.txt`).

use std::sync::Arc;

use xoff_dataplane::switch::{Switch, Workers};
use xoff_flow_control::counters::{Counters, PortCounters};
use xoff_flow_control::settings::FlowControl;
use xoff_wire::MacControlError;
use xoff_wire::units::{Class, ClassSet, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::store::MemoryStore;

const TABLE: &str = include_str!("../../../wire/data/control-frames.txt");
const PORT: PortId = PortId(0);

fn after(frame: &[u8], times: u64) -> Arc<Counters> {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.each_port(|port| port.flow_control = FlowControl::Pfc { obey: ClassSet::ALL, send: ClassSet::ALL });
    let counters = Counters::new(2);
    let mut switch = Switch::new(&plan.settings, 16, Workers::single(2), Arc::clone(&counters));
    let mut store = MemoryStore::new(8, 8, 16, 9_100);
    for now in 1..=times {
        let received = store.fill(frame).expect("no slot is free");
        switch.batch(Nanos(now)).receive(PORT, received, &mut store);
    }
    assert_eq!((switch.ledger().missing(), store.in_use()), (0, 0));
    let class = |class| counters.class(PORT, class);
    for (what, count) in Class::ALL.into_iter().flat_map(|it| {
        [("frames", class(it).rx_frames.get()), ("drops", class(it).drops.iter().map(|it| it.get()).sum())]
    }) {
        assert_eq!(count, 0, "MAC control counts as data: {what}");
    }
    counters
}

fn decision(port: &PortCounters) -> [String; 2] {
    let classes = |count: fn(&xoff_flow_control::counters::ClassCounters) -> u64| -> String {
        let counted = Class::ALL.into_iter().filter(|class| count(&port.classes[class.index()]) > 0);
        counted.map(|class| class.get().to_string()).collect()
    };
    let [xoff, xon] = [classes(|class| class.xoff_received.get()), classes(|class| class.xon_received.get())];
    let pauses = match (xoff.as_str(), xon.as_str()) {
        ("", "") => "none".into(),
        (_, "") => format!("xoff={xoff}"),
        _ => format!("xon={xon}{xoff}"),
    };
    let refused = MacControlError::ALL.into_iter().find(|it| port.malformed_control[it.index()].get() > 0);
    [pauses, refused.map_or("-", MacControlError::name).into()]
}

#[test] // proves: pause-frames
fn port_treats_control_frames_as_listed_in_data_file() {
    let rows: Vec<_> = xoff_explore::frames(TABLE).collect();
    assert_eq!(rows.len(), 31);
    for (columns, frame) in rows {
        assert_eq!(decision(after(&frame, 1).port(PORT)), columns[1..3], "{columns:?}");
    }
}

#[test] // proves: pause-frames
fn pfc_frame_that_enables_no_class_changes_only_its_counter() {
    let (_, frame) = xoff_explore::frames(TABLE).nth(1).expect("the table has two rows");
    let counters = after(&frame, 100_000);
    let port = counters.port(PORT);
    port.pfc_frames_received.set(port.pfc_frames_received.get() - 100_000);
    assert_eq!(*counters, *Counters::new(2), "a counter other than that of PFC frames changed");
}

use xoff_dataplane::frame::Frame;
use xoff_dataplane::switch::{Revision, Switch, WorkerId, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{Spread, Turns};
use xoff_wire::units::{Bytes, Nanos, PortId};

use super::{BEYOND, fan, group};
use crate::C3;
use crate::bed::store::MemoryStore;

const NOW: Nanos = Nanos::from_micros(1);
const SLOTS: u32 = 40;
const IN_TURN: Spread = Spread::Frame(Turns::RoundRobin);

/// Hands over two frames for each member, then calls `event`. Returns the number of frames that each member sent,
/// and of frames that a lost link dropped.
fn frames_left_after(
    event: impl FnOnce(&mut [Switch; 2], &[Workers; 2], &mut MemoryStore),
) -> ([usize; 4], u64) {
    frames_left(IN_TURN, |_| (), event)
}

fn frames_left(
    spread: Spread,
    count: impl FnOnce(&Counters),
    event: impl FnOnce(&mut [Switch; 2], &[Workers; 2], &mut MemoryStore),
) -> ([usize; 4], u64) {
    let plan = fan(spread);
    let counters = Counters::new(6);
    count(&counters);
    let roles = [0, 1].map(|me| Workers::new([0, 0, 1, 1, 1, 1].map(WorkerId).into(), WorkerId(me)));
    let mut workers = roles.clone().map(|roles| Switch::new(&plan.settings, SLOTS, roles, counters.clone()));
    let mut store = MemoryStore::new(SLOTS - 10, 10, 16, 1_600);
    let mut bytes = [&BEYOND.0[..], &[2, 0, 0, 0, 0, 1, 0x81, 0, 3 << 5, 1, 0x88, 0xb5]].concat();
    bytes.resize(1_000, 0);
    for _ in 0..8 {
        let frame = store.fill(&bytes).expect("no slot is free");
        workers[0].batch(NOW).receive(PortId(0), frame, &mut store);
    }
    while workers[0].batch(NOW).forward(&mut store) {}
    event(&mut workers, &roles, &mut store);
    let [receives, sends] = &mut workers;
    let mut batch = sends.batch(NOW);
    while let Some(handover) = receives.batch(NOW).hand_over(WorkerId(1)) {
        batch.take_over(handover, &mut store);
    }
    drop(batch);
    let mut now = NOW;
    let left = [2, 3, 4, 5].map(PortId).map(|port| {
        let mut left = 0;
        for _ in 0..8 {
            now += Nanos::from_micros(20);
            let (mut batch, mut ring) = (sends.batch(now), Vec::<Frame>::new());
            left += batch.transmit(port, &mut store, 1, |_, frame| ring.push(frame)) as usize;
            ring.into_iter().for_each(|frame| batch.release(port, frame, &mut store));
        }
        left
    });
    while let Some(back) = sends.batch(now).give_back(WorkerId(0)) {
        receives.batch(now).take_back(back, &mut store);
    }
    assert_eq!(store.in_use(), 0);
    (left, counters.class(PortId(2), C3).drops[DropReason::LinkDown.index()].get())
}

#[test] // proves: group-changes
fn frame_handed_to_other_worker_keeps_port_if_group_changes() {
    let after = frames_left_after(|workers, roles, _| {
        let mut settings = fan(IN_TURN).settings;
        settings.groups = vec![group(4..6, IN_TURN, 1)];
        settings.fdb.statics = vec![(1, BEYOND, PortId(4))];
        for (worker, roles) in workers.iter_mut().zip(roles) {
            drop(worker.batch(NOW).revise(Box::new(Revision::new(settings.clone(), roles, SLOTS))));
        }
    });
    assert_eq!(after, ([2; 4], 0));
}

#[test] // proves: group-changes
fn frame_handed_to_other_worker_avoids_closed_group_member() {
    let after = frames_left_after(|[_, sends], _, store| sends.batch(NOW).set_link(PortId(2), false, store));
    assert_eq!(after, ([0, 3, 3, 2], 0));
    let after = frames_left_after(|[_, sends], _, store| {
        (2..6).for_each(|port| sends.batch(NOW).set_link(PortId(port), false, store));
    });
    assert_eq!(
        after,
        ([0; 4], 2),
        "frames of a group without an open member were not dropped at their own port"
    );
}

#[test] // proves: workers
fn group_member_choice_is_independent_of_exported_counters() {
    let spread = Spread::Adaptive { low: Bytes(1), high: Bytes(2) };
    let full = |counters: &Counters| {
        let at = counters.class(PortId(2), C3);
        at.egress_bytes.set(1 << 40);
        at.storm_since.set(1);
    };
    let (left, dropped) = frames_left(spread, |_| (), |_, _, _| ());
    assert!(left[0] > 0 && dropped == 0, "{left:?}");
    assert_eq!(frames_left(spread, full, |_, _, _| ()), (left, dropped));
}

//! Properties under any driver and settings: every frame is in one place, and is sent or dropped with a reason. Frames
//! of the same ingress, egress and class keep their order. At the end no frame remains.

mod driver;
mod settings;

use driver::{Burst, Driver, Revised, Step};
use proptest::prelude::*;
use settings::{PORTS, PORTS_U8, any_plan, any_policy, any_port};
use xoff_explore::explore;
use xoff_flow_control::headroom::Link;
use xoff_flow_control::settings::{
    ClassSettings, EgressLimits, GroupSettings, HeadroomPlace, Member, Memory, PolicyKind, SharedMemory,
    Spread, Turns, WhenFull,
};
use xoff_wire::units::{Bytes, CLASSES, MacAddr, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::{Batches, SwitchPlan};

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let port = 0..PORTS_U8;
    let worker = 0..3u8;
    let to = prop_oneof![8 => port.clone(), 1 => Just(PORTS_U8 + 9), 1 => Just(u8::MAX)];
    let pcp = prop_oneof![1 => Just(None), 2 => Just(Some(3)), 2 => (0..8u8).prop_map(Some)];
    let quanta = prop_oneof![Just(0u16), 1..200u16, Just(u16::MAX)];
    let step = prop_oneof![
        30 => (port.clone(), to, pcp, 24..=620u32)
            .prop_map(|(port, to, pcp, len)| Step::Receive { port, to, pcp, len }),
        8 => any_burst().prop_map(Step::Burst),
        1 => (port.clone(), any_garbage()).prop_map(|(port, bytes)| Step::Garbage { port, bytes }),
        4 => (port.clone(), any::<u8>(), quanta)
            .prop_map(|(port, classes, quanta)| Step::Pause { port, classes, quanta }),
        4 => (port.clone(), prop_oneof![2 => Just(3u8), 1 => 0..8u8], any::<bool>(), any_flows())
            .prop_map(|(port, class, resume, (quanta, flows))| {
                Step::Flows { port, class, resume, quanta, flows }
            }),
        2 => (port.clone(), any::<u8>(), 0..17u8, any::<u16>())
            .prop_map(|(port, classes, step, quanta)| Step::Rates { port, classes, step, quanta }),
        25 => worker.clone().prop_map(|worker| Step::Forward { worker }),
        10 => (worker.clone(), worker.clone()).prop_map(|(from, to)| Step::HandOver { from, to }),
        10 => (worker.clone(), worker).prop_map(|(from, to)| Step::GiveBack { from, to }),
        20 => port.clone().prop_map(|port| Step::Transmit { port }),
        15 => port.clone().prop_map(|port| Step::Release { port }),
        1 => port.clone().prop_map(|port| Step::GiveUp { port }),
        10 => (0..30_000u64).prop_map(|by| Step::Advance { by }),
        1 => (0..8u8, any_policy()).prop_map(|(class, kind)| Step::SetPolicy { class, kind }),
        1 => (prop::collection::vec(any_port(), PORTS), any::<bool>(), any::<bool>())
            .prop_map(|(ports, is_lossless, is_tagged)| Step::Revise(Box::new(Revised { ports, is_lossless, is_tagged }))),
        1 => (port, any::<bool>()).prop_map(|(port, up)| Step::SetLink { port, up }),
    ];
    prop::collection::vec(step, 1..250)
}

fn any_burst() -> impl Strategy<Value = Burst> {
    let to = prop_oneof![8 => 0..PORTS_U8, 1 => Just(PORTS_U8 + 9)];
    let pcp = prop_oneof![1 => Just(None), 2 => Just(Some(3)), 2 => (0..8u8).prop_map(Some)];
    (0..PORTS_U8, to, pcp, 24..=620u32, 1..40u32, 0..40usize)
        .prop_map(|(port, to, pcp, len, frames, leave)| Burst { port, to, pcp, len, frames, leave })
}

fn any_flows() -> impl Strategy<Value = (u16, Vec<(u8, u8)>)> {
    let to = prop_oneof![4 => 0..PORTS_U8, 1 => Just(PORTS_U8 + 9)];
    (prop_oneof![1..200u16, Just(u16::MAX)], prop::collection::vec((0..PORTS_U8, to), 1..5))
}

fn any_garbage() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 14..60);
    let reserved = bytes().prop_map(|mut bytes| {
        bytes[..5].copy_from_slice(&[0x01, 0x80, 0xc2, 0x00, 0x00]);
        bytes[5] &= 0x0f;
        bytes
    });
    let control = bytes().prop_map(|mut bytes| {
        bytes[12..14].copy_from_slice(&[0x88, 0x08]);
        bytes
    });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..14), reserved, control]
}

explore! {
    cases = 600;

    #[test] // proves: lossless, ledger, ofc, ofc-flows, reload
    fn after_random_driver_steps_every_frame_is_accounted_for(plan in any_plan(), steps in any_steps()) {
        let mut driver = Driver::new(plan, Batches::Large);
        for step in &steps {
            driver.step(step);
        }
        driver.drain();
    }
}

explore! {
    cases = 150;

    #[test] // proves: batches
    fn switch_state_is_equal_for_any_batch_size(plan in any_plan(), steps in any_steps()) {
        let mut together = Driver::new(plan.clone(), Batches::Large);
        let mut alone = Driver::new(plan, Batches::OfOne);
        for step in &steps {
            together.step(step);
            alone.step(step);
        }
        prop_assert_eq!(together.state(), alone.state());
        together.drain();
        alone.drain();
    }
}

explore! {
    cases = 300;

    #[test] // proves: group-changes
    fn every_event_that_frees_queue_space_wakes_halted_frame(plan in any_plan().prop_map(that_stops), steps in any_steps()) {
        let mut driver = Driver::new(plan, Batches::Large);
        for (number, step) in steps.iter().enumerate() {
            driver.step(step);
            driver.settle();
            let before = driver.waiting();
            driver.try_again();
            prop_assert_eq!(driver.waiting(), before, "a waiting frame was not woken after step {}: {:?}", number, step);
        }
        driver.drain();
    }
}

fn that_stops(plan: SwitchPlan) -> SwitchPlan {
    let mut plan = with_few_unknown(SwitchPlan { owners: vec![], ..plan });
    plan.settings.when_full = WhenFull::Stop;
    plan
}

/// Makes all stations static, because learning could change the decision about a waiting frame.
fn with_few_unknown(mut plan: SwitchPlan) -> SwitchPlan {
    let station = |port: u8| (1, MacAddr([2, 0, 0, 0, 0, port]), PortId(port));
    plan.settings.fdb.statics = (0..PORTS_U8).map(station).collect();
    plan
}

#[test] // proves: ofc
fn flow_list_does_not_shorten_class_pause() {
    let mut plan = plan::switch(&[Link { mtu_frame: 600, ..LINK }; PORTS]);
    plan.settings.ports[1].ofc_peer = true; // the policy is not OFC, so lists pause the class
    let mut driver = Driver::new(plan, Batches::Large);
    driver.step(&Step::Receive { port: 0, to: 1, pcp: Some(3), len: 100 });
    driver.step(&Step::Forward { worker: 0 });
    let flows = vec![(0, 1)];
    driver.step(&Step::Pause { port: 1, classes: 1 << 3, quanta: 2 });
    driver.step(&Step::Flows { port: 1, class: 3, resume: false, quanta: 1, flows });
    driver.step(&Step::Advance { by: 512 });
    driver.step(&Step::Transmit { port: 1 });
    driver.drain();
}

#[test] // proves: bridging
fn refused_source_address_of_halted_frame_is_counted_once() {
    let mut plan = that_stops(plan::switch(&[Link { mtu_frame: 600, ..LINK }; PORTS]));
    plan.settings.fdb.statics.retain(|(_, _, port)| *port == PortId(1));
    plan.settings.ports[2].learn_limit = Some(0);
    plan.settings.ports[1].classes[0].egress_max = Bytes(1_001);
    let mut driver = Driver::new(plan, Batches::Large);
    (0..5).for_each(|_| driver.step(&Step::Receive { port: 2, to: 1, pcp: Some(0), len: 496 }));
    driver.settle();
    assert_eq!(driver.refused(2), 2, "the halted frame was counted");
    driver.try_again();
    assert_eq!(driver.refused(2), 2);
    driver.drain();
    assert_eq!(driver.refused(2), 5);
}

#[test] // proves: batches
fn batch_of_lone_class_charges_scheduler_like_single_frames() {
    let mut plan = plan::switch(&[Link { mtu_frame: 600, ..LINK }; PORTS]);
    plan.each_port(|port| (port.commit, port.burst) = (Bytes(4_000), Bytes(4_000)));
    let [mut together, mut alone] =
        [Batches::Large, Batches::OfOne].map(|batches| Driver::new(plan.clone(), batches));
    let burst = Burst { port: 2, to: 1, pcp: None, len: 196, frames: 3, leave: 3 };
    for driver in [&mut together, &mut alone] {
        driver.step(&Step::Burst(burst.clone()));
    }
    assert!(together.state() == alone.state(), "batches changed the scheduler's state");
    [together, alone].iter_mut().for_each(Driver::drain);
}

#[test]
fn flood_waits_only_if_copies_fit_for_no_choice_of_member() {
    const CLASS: usize = 3;
    let after = |egress_limit| {
        let mut plan = plan::switch(&[Link { mtu_frame: 600, ..LINK }; PORTS]);
        plan.each_port(|port| {
            let all = |class: &mut ClassSettings| {
                (class.egress_max, class.egress_reserve) = (Bytes(4_000), Bytes(300));
            };
            port.classes.iter_mut().for_each(all);
        });
        plan.settings.when_full = WhenFull::Stop;
        let limits = Bytes(20_000);
        plan.settings.memory = Memory::Shared(SharedMemory {
            pool: limits,
            ingress_limit: limits,
            egress_limit,
            port_limit: limits,
            egress_port_limit: limits,
            egress_limits: EgressLimits::All,
            headroom: HeadroomPlace::Reserved,
            alpha_log2: None,
        });
        let member = |port| Member { port: PortId(port), weight: 1 };
        plan.settings.groups = vec![GroupSettings {
            name: "group".into(),
            members: vec![member(2), member(3)],
            spread: Spread::Frame(Turns::RoundRobin),
            uplinks: false,
            lacp: None,
            salt: 1,
        }];
        let mut driver = Driver::new(with_few_unknown(plan), Batches::Large);
        let receive = |port, to, pcp, len| Step::Receive { port, to, pcp: Some(pcp), len };
        // Send a frame by each group member: one leaves, the frame by the second member stays queued. Then queue 1,320 bytes at
        // port 1.
        let before = [receive(0, 2, 3, 533), receive(0, 2, 3, 533)].into_iter();
        let filler = (0..12).map(|_| receive(2, 1, 0, 106)).chain([receive(0, 2, 1, 60)]);
        let leave = [Step::Forward { worker: 0 }, Step::Transmit { port: 2 }, Step::Release { port: 2 }];
        for step in before.chain(leave).chain(filler).chain([receive(0, 13, 3, 604)]) {
            driver.step(&step);
            driver.settle();
        }
        let waiting = driver.waiting();
        driver.drain();
        [1, 2, 3].map(|port| waiting[port * CLASSES + CLASS].0)
    };
    // Pool bytes, beyond a reserve of 300 in each queue: 537 - 300 for the second member's frame, 1,320 - 300 for port
    // 1, and 608 - 300 for each of two flood copies (at port 1 and at the first member).
    let needed = 237 + 1_020 + 2 * 308;
    assert_eq!(after(Bytes(needed)), [608, 608, 537]);
    assert_eq!(after(Bytes(needed - 1)), [0, 0, 537]);
}

#[test]
fn frame_queued_before_ofc_policy_belongs_to_no_flow() {
    let mut plan = plan::switch(&[Link { mtu_frame: 600, ..LINK }; PORTS]);
    plan.settings.ports[3].ofc_peer = true;
    let mut driver = Driver::new(plan, Batches::Large);
    let class = 3;
    let burst = |frames, leave| Step::Burst(Burst { port: 2, to: 13, pcp: Some(3), len: 24, frames, leave });
    for step in [
        burst(2, 1),
        Step::SetPolicy { class, kind: PolicyKind::Ofc },
        Step::Flows { port: 3, class, resume: false, quanta: 100, flows: vec![(2, 13)] },
        burst(1, 2),
    ] {
        driver.step(&step);
    }
    driver.drain();
}

use xoff_flow_control::settings::{OfcSettings, PolicyKind, PortSettings};
use xoff_wire::units::{BitRate, Bytes, MacAddr, Nanos, PortId, Quanta};
use xoff_wire::{FlowKey, FlowPauseWriter, Operation};

use crate::bed::plan::{self, CABLE, GIGABIT, LINK};
use crate::bed::{Bed, NodeId, Obeys, Star, Stream, SwitchPlan, end};
use crate::{C3, C4, resume, stop};

/// Network of the OFC paper's fig. 1: switches S_a, S_b and S_c in a row. Flows F0 and F1 enter at S_a, F2 to F7 at
/// S_c. F0 leaves by port P_b, others by P_d.
struct Fig1 {
    bed: Bed,
    switches: [NodeId; 3],
    receivers: [NodeId; 2],
    flows: Vec<(NodeId, u32)>,
}

const LONG: u64 = 1_200;
const BURST: u64 = 60;

impl Fig1 {
    fn new(kind: PolicyKind, change: impl Fn(usize, &mut SwitchPlan)) -> Fig1 {
        let mut bed = Bed::new(3);
        let switches = [0, 1, 2].map(|place| {
            let mut plan = plan::switch(&[LINK; 10]);
            plan.settings.policies = [kind; 8];
            plan.each_lossless(|class| {
                (class.xoff, class.xon) = (Bytes(60_000), Bytes(30_000));
                class.egress_max = Bytes(1_000_000);
            });
            plan.settings.ports[..2].iter_mut().for_each(|port: &mut PortSettings| port.ofc_peer = true);
            change(place, &mut plan);
            bed.add_switch(plan)
        });
        let [a, b, c] = switches;
        for (left, right) in [(a, b), (b, c)] {
            bed.link(end(left, 1), end(right, 0), GIGABIT, CABLE);
        }
        let receivers = [2, 3].map(|port| bed.add_host(c, port, Obeys::AtOnce));
        let long = [2, 3].map(|port| bed.add_host(a, port, Obeys::AtOnce));
        let bursts: Vec<NodeId> = (4..10).map(|port| bed.add_host(c, port, Obeys::AtOnce)).collect();
        let mut flows = Vec::new();
        for (from, to, count, rate, start) in [
            (long[0], receivers[0], LONG, Some(BitRate::from_mbps(400)), 0),
            (long[1], receivers[1], LONG, Some(BitRate::from_mbps(500)), 0),
        ]
        .into_iter()
        .chain(bursts.iter().map(|&from| (from, receivers[1], BURST, None, 2)))
        {
            let to = bed.host(to).mac;
            let stream = Stream { rate, ..Stream::new(to, count, Nanos::from_millis(start)) };
            flows.push((from, bed.send(from, stream)));
        }
        Fig1 { bed, switches, receivers, flows }
    }

    fn run(&mut self) {
        self.bed.run_to_rest();
        for (n, &(_, id)) in self.flows.iter().enumerate() {
            let received = self.bed.host(self.receivers[usize::from(n > 0)]).received(id);
            let count = if n < 2 { LONG } else { BURST };
            assert_eq!((received.frames, received.late_or_twice), (count, 0), "F{n}");
        }
    }

    fn flow_pauses_sent(&self, switch: usize, port: u8) -> u64 {
        let counters = &self.bed.switch(self.switches[switch]).counters;
        counters.class(PortId(port), C3).flows.pause_frames_sent.get()
    }

    fn xoffs_sent(&self, switch: usize, port: u8) -> u64 {
        self.bed.switch(self.switches[switch]).counters.class(PortId(port), C3).xoff_sent.get()
    }
}

#[test] // proves: ofc-flows
fn uncongested_flow_keeps_rate_in_fig_1_of_ofc_paper() {
    let f0_by_the_end_of_the_bursts = |kind| {
        let mut fig = Fig1::new(kind, |_, _| ());
        fig.bed.run_until(Nanos::from_millis(6));
        let frames = fig.bed.host(fig.receivers[0]).received(fig.flows[0].1).frames;
        fig.run();
        (frames, fig)
    };
    let solo = 6_000_000 / BitRate::from_mbps(400).time_of(Bytes(1_538)).0;
    let (under_pfc, _) = f0_by_the_end_of_the_bursts(PolicyKind::Pfc);
    assert!(under_pfc < solo * 9 / 10, "PFC did not slow F0: {under_pfc} of {solo} frames");
    let (under_ofc, ofc) = f0_by_the_end_of_the_bursts(PolicyKind::Ofc);
    assert!(under_ofc >= solo * 95 / 100, "OFC slowed F0: {under_ofc} of {solo} frames");
    assert!(ofc.flow_pauses_sent(2, 0) > 0, "switch S_c paused no flow at switch S_b");
    assert_eq!(ofc.xoffs_sent(2, 0), 0, "switch S_c paused the whole class");
}

#[test] // proves: ofc
fn only_the_congested_flow_is_paused_upstream() {
    let mut ofc = Fig1::new(PolicyKind::Ofc, |_, _| ());
    ofc.bed.run_until(Nanos::from_millis(4));
    assert!(ofc.flow_pauses_sent(1, 0) > 0, "switch S_b paused no flow at switch S_a");
    let a = ofc.bed.switch(ofc.switches[0]).worker(PortId(1));
    assert_eq!(a.ofc(C3).map(|ofc| ofc.flows_paused(PortId(1))), Some(1), "F1 is not the only paused flow");
    ofc.run();
}

#[test] // proves: ofc-flows; Table II: 425.66, 142.46 and 276.47 bytes on average in each switch port
fn ofc_tables_take_no_more_bytes_than_in_table_ii_of_paper() {
    let mut ofc = Fig1::new(PolicyKind::Ofc, |_, _| ());
    let mut most = [0; 3];
    for step in 1..400 {
        ofc.bed.run_until(Nanos::from_micros(50 * step));
        for &switch in &ofc.switches {
            let switch = ofc.bed.switch(switch);
            for port in switch.ports() {
                let bytes = switch.worker(port).ofc(C3).expect("the policy is not OFC").table_bytes(port);
                let now = [bytes.flow_in_port, bytes.congested_flow, bytes.pause_frame];
                most = std::array::from_fn(|table| most[table].max(now[table]));
            }
        }
    }
    assert_eq!(most[0], 7 * 60, "the flow table of port P_d does not have the seven flows F1 to F7");
    assert!(most[0] <= 425 && most[1] > 0 && most[1] <= 142 && most[2] > 0 && most[2] <= 276, "{most:?}");
}

#[test] // proves: ofc-flows
fn peers_without_support_for_flow_lists_lose_nothing() {
    type Change = fn(usize, &mut SwitchPlan);
    let changes: [Change; 3] = [
        |place, plan| {
            if place == 1 {
                plan.settings.policies = [PolicyKind::Pfc; 8];
            }
        },
        |_, plan| plan.each_port(|port| port.ofc_peer = false),
        |_, plan| {
            plan.settings.policy.ofc =
                OfcSettings { flows: 1, congested_flows: 1, paused_flows: 1, ..OfcSettings::default() };
        },
    ];
    for change in changes {
        Fig1::new(PolicyKind::Ofc, change).run();
    }
}

#[test] // proves: ofc-flows
fn lost_flow_list_frames_cause_no_data_loss() {
    for lost in [0, 2, 5] {
        let mut fig = Fig1::new(PolicyKind::Ofc, |_, plan| plan.may_lapse = true);
        for (n, at) in [(1, 0), (2, 0)] {
            let mut count = 0;
            let from = end(fig.switches[n], at);
            fig.bed.wire_mut(from).lose(move |bytes| {
                let is_list = bytes.get(34..38) == Some(b"OFC1");
                count += usize::from(is_list);
                is_list && count % 6 == lost
            });
        }
        fig.run();
    }
}

#[test] // proves: ofc-flows
fn policy_swap_keeps_flow_order() {
    for [first, then] in [[PolicyKind::Ofc, PolicyKind::Pfc], [PolicyKind::Pfc, PolicyKind::Ofc]] {
        let mut fig = Fig1::new(first, |_, _| ());
        for (step, switch) in (0..60).zip(fig.switches.into_iter().cycle()) {
            fig.bed.run_until(Nanos::from_micros(2_000 + 131 * step));
            let [now, later] = if step % 2 == 0 { [then, first] } else { [first, then] };
            fig.bed.set_policy(fig.switches[0], C3, now);
            fig.bed.set_policy(switch, C3, later);
        }
        fig.run();
    }
}

#[test]
fn stopping_switch_resumes_flows_immediately() {
    let mut fig = Fig1::new(PolicyKind::Ofc, |_, _| ());
    let [_, b, c] = fig.switches;
    let paused =
        |fig: &Fig1| fig.bed.switch(b).worker(PortId(1)).ofc(C3).map(|ofc| ofc.flows_paused(PortId(1)));
    fig.bed.run_until(Nanos::from_millis(4));
    assert_eq!((paused(&fig), fig.xoffs_sent(2, 0)), (Some(1), 0), "F1 is not paused by a flow list alone");
    fig.bed.release_peers(c);
    let stopping = fig.bed.switch(c).worker(PortId(0));
    assert!(stopping.held(PortId(0)).due(), "no XON is due");
    fig.bed.run_until(Nanos::from_micros(4_050));
    assert_eq!(paused(&fig), Some(0), "F1 is still paused after the stop");
}

#[test]
fn ofc_answers_class_pause_by_pausing_only_affected_flow() {
    let mut fig = Fig1::new(PolicyKind::Ofc, |_, _| ());
    let pause = stop(C3, 0xffff).encode(fig.bed.host(fig.receivers[1]).mac);
    fig.bed.inject(fig.receivers[1], &pause);
    fig.bed.run_until(Nanos::from_millis(20));
    let c = fig.bed.switch(fig.switches[2]).worker(PortId(0));
    assert!(c.ofc(C3).is_some_and(|ofc| ofc.requested_flows(PortId(0)) == 1), "F1 is not paused upstream");
    let f0 = fig.bed.host(fig.receivers[0]).received(fig.flows[0].1).frames;
    assert!(f0 > 600, "only {f0} frames of F0 arrived during the pause");
    fig.run();
}

#[test] // proves: ofc
fn flow_pauses_are_sent_again_after_xon() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.settings.policies[3] = PolicyKind::Ofc;
    plan.settings.policies[4] = PolicyKind::GPfc;
    plan.settings.policy.ofc.alpha = 0.75;
    plan.each_port(|port| {
        port.ofc_peer = true;
        (port.pause_time, port.refresh) = (Quanta(60_000), Nanos::from_millis(10));
    });
    let mut star = Star::with(plan, |_| Obeys::Never);
    let lists = |star: &Star| star.switch().counters.class(PortId(1), C3).flows.pause_frames_sent.get();
    star.pause(0, stop(C3, 0xffff));
    star.pause(0, stop(C4, 0xffff));
    star.start(1, 0, star.stream(0, C3, 16));
    star.run_for(Nanos::from_micros(300));
    assert_eq!(
        (lists(&star), star.holds(1, C3)),
        (1, false),
        "no flow was paused at 24 KB, above the flow threshold (X_OFF^c)"
    );
    star.start(1, 0, star.stream(0, C4, 11));
    star.run_for(Nanos::from_micros(200));
    assert_eq!((lists(&star), star.holds(1, C3)), (1, true), "congestion of class 4 did not pause class 3");
    star.pause(0, resume(C4));
    star.run_for(Nanos::from_micros(300));
    assert_eq!((lists(&star), star.holds(1, C3)), (2, false));
}

#[test] // proves: ofc
fn flow_resume_ends_only_pauses_begun_by_flow_lists() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.settings.ports[0].ofc_peer = true; // with PFC as its policy, it pauses no single flows
    let mut star = Star::with(plan, |_| Obeys::AtOnce);
    let list = |star: &Star, operation| {
        let mut bytes = [0; 600];
        let mut list = FlowPauseWriter::new(&mut bytes, star.mac(0), operation, C3);
        list.push(&FlowKey::L2 { src: star.mac(1), dst: star.mac(0), ether_type: 0x88b5 });
        list.finish().to_vec()
    };
    let pause = list(&star, Operation::Pause(Quanta(2_000)));
    let resume_flow = list(&star, Operation::Resume);
    let [xoff, xon] = [stop(C3, 2_000), resume(C3)].map(|control| control.encode(star.mac(0)));
    let mut is_stopped_after = |frames: &[&[u8]]| {
        frames.iter().for_each(|bytes| star.inject(0, bytes));
        star.run_for(Nanos::from_micros(50));
        star.switch().counters.class(PortId(0), C3).paused_since.get() > 0
    };
    assert!(
        !is_stopped_after(&[&pause, &pause, &resume_flow]),
        "the flow's resume did not end the pause that flow lists began"
    );
    assert!(
        is_stopped_after(&[&xoff, &pause, &pause, &resume_flow]),
        "the flow's resume ended the pause of the whole class"
    );
    assert!(!is_stopped_after(&[&xon]));
    assert!(
        is_stopped_after(&[&pause, &xoff, &resume_flow]),
        "the flow's resume ended a later pause of the whole class"
    );
    assert!(!is_stopped_after(&[&xon, &pause, &resume_flow]));
}

/// Frames queued before the class got policy OFC have no flow number, so a pause of any flow pauses the whole class.
#[test] // proves: ofc
fn frames_without_flow_number_wait_while_a_flow_is_paused() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.settings.policies[3] = PolicyKind::Ofc;
    plan.settings.ports[0].ofc_peer = true;
    let mut star = Star::with(plan, |_| Obeys::AtOnce);
    let list = |star: &Star, operation, src| {
        let mut bytes = [0; 600];
        let mut list = FlowPauseWriter::new(&mut bytes, star.mac(0), operation, C3);
        list.push(&FlowKey::L2 { src, dst: star.mac(0), ether_type: 0x88b5 });
        list.finish().to_vec()
    };
    let pause = Operation::Pause(Quanta(2_000));
    let other = MacAddr([2, 0, 0, 0, 0x77, 1]);
    star.pause(0, stop(C3, 0xffff));
    let stream = star.stream(0, C3, 8);
    star.start(1, 0, stream);
    star.run_for(Nanos::from_micros(300));
    star.set_policy(C3, PolicyKind::Ofc);
    star.pause(0, resume(C3));
    for (operation, src) in [(pause, star.mac(1)), (pause, other), (Operation::Resume, other)] {
        star.inject(0, &list(&star, operation, src));
    }
    star.run_for(Nanos::from_micros(500));
    let counters = star.switch().counters.class(PortId(0), C3);
    assert_eq!((counters.flows.fallbacks.get(), counters.flows.paused.get()), (2, 1));
    assert!(counters.egress_bytes.get() > 0, "the frames left although a flow is paused");
    star.inject(0, &list(&star, Operation::Resume, star.mac(1)));
    star.run_for(Nanos::from_micros(200));
    assert_eq!(
        star.switch().counters.class(PortId(0), C3).egress_bytes.get(),
        0,
        "frames are queued although no flow is paused"
    );
}

#[test] // proves: ofc
fn unlisted_flow_counts_as_paused_only_during_class_pause() {
    for (ends, until) in [("by time", None), ("by an XON", Some(resume(C3)))] {
        let mut plan = plan::switch(&[LINK; 4]);
        plan.settings.policies[3] = PolicyKind::Ofc;
        plan.settings.policy.ofc.alpha = 0.75;
        plan.each_port(|port| port.ofc_peer = true);
        let mut star = Star::with(plan, |_| Obeys::Never);
        let mut bytes = [0; 600];
        let mut list = FlowPauseWriter::new(&mut bytes, star.mac(0), Operation::Pause(Quanta(0xffff)), C3);
        list.push(&FlowKey::L2 { src: star.mac(1), dst: star.mac(0), ether_type: 0x88b5 });
        let list = list.finish().to_vec();
        star.inject(0, &list);
        star.pause(0, stop(C3, 1_000)); // 512 us, from 1,844 ns on, behind the list
        star.run_for(Nanos::from_micros(5));
        star.start(2, 0, star.stream(0, C3, 16)); // beyond X_OFF^c, below X_OFF
        star.run_for(Nanos::from_micros(300));
        let requested = |star: &Star| {
            let switch = star.switch().worker(PortId(2));
            switch.ofc(C3).map_or(0, |ofc| ofc.requested_flows(PortId(2)))
        };
        assert_eq!(requested(&star), 1, "the unlisted flow of a paused class was not paused upstream");
        if let Some(xon) = until {
            star.pause(0, xon);
        }
        star.run_until(Nanos::from_millis(1));
        star.inject(0, &list); // XON has resumed all flows
        star.run_for(Nanos::from_micros(5));
        // Ports 2 and 3 share the line of port 0, so half of their frames are queued.
        for (from, frames) in [(1, 16), (2, 35), (3, 35)] {
            star.start(from, 0, star.stream(0, C3, frames));
        }
        star.run_for(Nanos::from_micros(450));
        let of_port = |port| {
            let switch = star.switch().worker(PortId(port));
            let ingress = switch.buffer().ingress(PortId(port), C3);
            (ingress > Bytes(22_500), switch.ofc(C3).map_or(0, |ofc| ofc.requested_flows(PortId(port))))
        };
        assert_eq!(of_port(1), (true, 1), "{ends}");
        assert_eq!(
            [2, 3].map(of_port),
            [(true, 0); 2],
            "pause ended {ends}: unlisted flows were paused upstream"
        );
        star.run_to_rest();
    }
}

#[test]
fn flow_list_from_peer_without_ofc_pauses_whole_class() {
    for ofc_peer in [true, false] {
        let mut plan = plan::switch(&[LINK; 2]);
        plan.settings.policies[3] = PolicyKind::Ofc;
        plan.settings.ports[0].ofc_peer = ofc_peer;
        let mut star = Star::with(plan, |_| Obeys::AtOnce);
        let mut bytes = [0; 600];
        let mut list = FlowPauseWriter::new(&mut bytes, star.mac(0), Operation::Pause(Quanta(2_000)), C3);
        list.push(&FlowKey::L2 { src: star.mac(1), dst: star.mac(0), ether_type: 0x88b5 });
        let list = list.finish().to_vec();
        star.inject(0, &list);
        star.run_for(Nanos::from_micros(100));
        let switch = star.switch();
        let counted = switch.counters.class(PortId(0), C3);
        assert_eq!(counted.flows.paused.get(), u64::from(ofc_peer));
        assert_eq!(counted.xoff_received.get(), u64::from(!ofc_peer));
        assert_eq!(counted.paused_since.get() > 0, !ofc_peer, "wrong pause of the class");
    }
}

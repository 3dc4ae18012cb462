//! Random settings of a small switch, so tight that a few frames suffice to reach every limit.

use std::num::NonZeroU32;

use proptest::prelude::*;
use xoff_flow_control::headroom::Link;
use xoff_flow_control::settings::{
    Accounting, ClassSettings, Culprit, FlowControl, FrameRate, GPfcSettings, GroupSettings, IngressOrder,
    Member, Memory, PPfcSettings, PipelineSettings, PolicyKind, PolicySettings, PortSettings, QcnSettings,
    QueueKind, Service, Spread, Turns, VlanSettings, WatchdogAction, WatchdogSettings, WhenFull,
};
use xoff_wire::units::{BitRate, Bytes, ClassSet, Nanos, PortId, Quanta};

use crate::bed::SwitchPlan;
use crate::bed::plan::{self, LINK, LOSSLESS};

pub const PORTS: usize = 4;
pub const PORTS_U8: u8 = 4;

pub fn any_plan() -> impl Strategy<Value = SwitchPlan> {
    let ports = prop::collection::vec(any_port(), PORTS);
    let owners = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(0..3u8, PORTS)];
    let policies = (prop::array::uniform8(any_policy()), any_parameters(), any_qcn());
    let store = (prop_oneof![Just(12u32), Just(200)], prop_oneof![1 => Just(0), 4 => Just(16)]);
    (
        ports,
        any_accounting(),
        (any_memory(), any_pipeline()),
        (any_vlan(), any_groups()),
        owners,
        policies,
        store,
    )
        .prop_map(
            |(
                ports,
                (accounting, when_full),
                (memory, pipeline),
                (vlans, groups),
                owners,
                policies,
                (slots, room),
            )| {
                let (policies, policy, qcn) = policies;
                let mut plan = plan::switch(&[Link { mtu_frame: 600, ..LINK }; PORTS]);
                for (settings, change) in plan.settings.ports.iter_mut().zip(&ports) {
                    change.apply(settings);
                }
                plan.settings.accounting = accounting;
                plan.settings.when_full = match when_full {
                    WhenFull::Stop if !owners.is_empty() => WhenFull::Drop,
                    _ => when_full,
                };
                plan.settings.memory = memory;
                plan.settings.pipeline = pipeline;
                if !owners.is_empty() {
                    plan.settings.pipeline.rate = None;
                }
                (plan.settings.vlans, plan.settings.groups) = (vlans, groups);
                let alone = owners.is_empty();
                if alone {
                    plan.settings.qcn = qcn;
                }
                plan.settings.policies = policies.map(|kind| match kind.needs_one_worker(None) && !alone {
                    true => PolicyKind::Pfc,
                    false => kind,
                });
                plan.settings.policy = policy;
                plan.owners = owners;
                (plan.slots, plan.control_slots, plan.room) = (slots, 4, room);
                plan
            },
        )
}

fn any_qcn() -> impl Strategy<Value = QcnSettings> {
    let culprit = prop_oneof![
        Just(Culprit::Arrival),
        Just(Culprit::OccupancyDeterministic),
        Just(Culprit::OccupancyRandom)
    ];
    (any::<u8>(), any::<u8>(), culprit, 1u16..4, any::<u64>()).prop_map(
        |(ingress, egress, culprit, flows_max, seed)| QcnSettings {
            ingress: ClassSet(ingress & !egress),
            egress: ClassSet(egress & !ingress),
            set_point: Bytes(600),
            sample_every: Bytes(1_000),
            frames_per_cnm: 2,
            culprit,
            flows_max,
            seed,
            ..QcnSettings::PAPER
        },
    )
}

#[derive(Clone, Debug)]
pub struct AnyPort {
    flow_control: FlowControl,
    ofc_peer: bool,
    queue: QueueKind,
    services: Vec<Service>,
    commit: u64,
    burst: u64,
    max_rate: Option<BitRate>,
    watchdog: Option<WatchdogSettings>,
    egress_max: u64,
    egress_max_frames: u32,
    xoff_frames: u32,
}

impl AnyPort {
    fn apply(&self, port: &mut PortSettings) {
        port.flow_control = self.flow_control;
        port.ofc_peer = self.ofc_peer;
        port.gfc_peer = matches!(self.flow_control, FlowControl::Pfc { .. });
        port.commit = Bytes(self.commit);
        port.burst = Bytes(self.burst);
        port.pause_time = Quanta(100);
        port.refresh = Nanos(20_000);
        for (class, service) in port.classes.iter_mut().zip(&self.services) {
            class.service = *service;
            self.apply_to_class(class);
        }
    }

    pub fn revise(&self, port: &mut PortSettings) {
        let before = port.clone();
        self.apply(port);
        (port.ofc_peer, port.gfc_peer) = (before.ofc_peer, before.gfc_peer);
        let is_pfc = |flow_control| matches!(flow_control, FlowControl::Pfc { .. });
        if !is_pfc(before.flow_control) || !is_pfc(port.flow_control) {
            port.flow_control = before.flow_control;
        }
        for (class, before) in port.classes.iter_mut().zip(&before.classes) {
            class.queue = before.queue;
        }
    }

    fn apply_to_class(&self, class: &mut ClassSettings) {
        class.queue = self.queue;
        class.max_rate = self.max_rate;
        class.watchdog = self.watchdog;
        (class.xoff, class.xon) = (Bytes(2_000), Bytes(1_500));
        class.xoff_frames = self.xoff_frames;
        class.headroom = if class.lossless { Bytes(1_500) } else { Bytes::ZERO };
        class.ingress_max = Bytes(3_000);
        class.ingress_reserve = Bytes(700);
        class.egress_max = Bytes(self.egress_max);
        class.egress_max_frames = self.egress_max_frames;
        class.egress_reserve = Bytes(300);
        (class.egress_warn, class.egress_xoff, class.egress_xon) = (Bytes(800), Bytes(1_200), Bytes(700));
    }
}

pub fn any_port() -> impl Strategy<Value = AnyPort> {
    let flow_control = prop_oneof![
        4 => Just(FlowControl::Pfc { obey: LOSSLESS, send: LOSSLESS }),
        1 => Just(FlowControl::Pfc { obey: ClassSet::ALL, send: LOSSLESS }),
        1 => Just(FlowControl::Pause8023x),
        1 => Just(FlowControl::Ignore),
    ];
    let queue = (prop_oneof![Just(QueueKind::Fifo), Just(QueueKind::Voq)], any::<bool>());
    let service = prop_oneof![1 => Just(Service::Strict), 2 => (1..10u32).prop_map(Service::Weighted)];
    let services = prop::collection::vec(service, 8);
    let max_rate = prop::option::of(Just(BitRate::from_mbps(100)));
    let few = || prop_oneof![2 => Just(u32::MAX), 1 => 2..6u32];
    let rates = (max_rate, any_watchdog());
    (flow_control, queue, services, 1..4_000u64, 0..4_000u64, rates, 1_000..6_000u64, few(), few()).prop_map(
        |(
            flow_control,
            (queue, ofc_peer),
            services,
            commit,
            burst,
            (max_rate, watchdog),
            egress_max,
            egress_max_frames,
            xoff_frames,
        )| {
            AnyPort {
                flow_control,
                ofc_peer,
                queue,
                services,
                commit,
                burst,
                max_rate,
                watchdog,
                egress_max,
                egress_max_frames,
                xoff_frames,
            }
        },
    )
}

fn any_watchdog() -> impl Strategy<Value = Option<WatchdogSettings>> {
    let action =
        prop_oneof![Just(WatchdogAction::Drop), Just(WatchdogAction::Forward), Just(WatchdogAction::Alert)];
    let numbers = (action, 1..60_000u64, 1..60_000u64, 50..=WatchdogSettings::UNBROKEN);
    prop::option::of(numbers.prop_map(|(action, detect, restore, share)| WatchdogSettings {
        action,
        detect: Nanos(detect),
        restore: Nanos(restore),
        share,
    }))
}

fn any_accounting() -> impl Strategy<Value = (Accounting, WhenFull)> {
    let accounting =
        prop_oneof![2 => Just(Accounting::UntilTransmitted), 1 => Just(Accounting::UntilForwarded)];
    (accounting, prop_oneof![Just(WhenFull::Drop), Just(WhenFull::Stop)])
}

fn any_pipeline() -> impl Strategy<Value = PipelineSettings> {
    let rate =
        prop_oneof![Just(None), (20_000..3_000_000u32).prop_map(|rate| NonZeroU32::new(rate).map(FrameRate))];
    let delay = prop_oneof![Just(Nanos::ZERO), (1..20_000u64).prop_map(Nanos)];
    let ingress = prop_oneof![Just(IngressOrder::ByClass), Just(IngressOrder::Fifo)];
    let any =
        (rate, delay, ingress).prop_map(|(rate, delay, ingress)| PipelineSettings { rate, delay, ingress });
    prop_oneof![2 => Just(PipelineSettings::default()), 1 => any]
}

fn any_memory() -> impl Strategy<Value = Memory> {
    prop_oneof![
        Just(Memory::Dedicated),
        prop_oneof![Just(None), (-2..3i8).prop_map(Some)].prop_map(plan::tight_memory),
        prop_oneof![Just(None), (-2..3i8).prop_map(Some)].prop_map(plan::tight_memory_for_all)
    ]
}

pub fn any_policy() -> impl Strategy<Value = PolicyKind> {
    prop::sample::select(PolicyKind::ALL.to_vec())
}

fn any_parameters() -> impl Strategy<Value = PolicySettings> {
    let prediction = prop::option::of((1_000..20_000u64).prop_map(Nanos));
    let shares = (0.1..1.0, 0.1..1.0f64);
    (prediction, shares).prop_map(|(prediction, (a, b))| PolicySettings {
        p_pfc: PPfcSettings { prediction },
        g_pfc: GPfcSettings { pause_lower: f64::max(a, b), resume_lower: f64::min(a, b) },
        ..PolicySettings::default()
    })
}

fn any_groups() -> impl Strategy<Value = Vec<GroupSettings>> {
    let thresholds = (0..2_000u64, 0..2_000u64);
    let spread = prop_oneof![
        Just(Spread::Flow),
        Just(Spread::Frame(Turns::RoundRobin)),
        Just(Spread::Frame(Turns::Random)),
        thresholds.prop_map(|(low, more)| Spread::Adaptive { low: Bytes(low), high: Bytes(low + more) }),
    ];
    let group = (prop_oneof![4 => Just(2), 1 => Just(1)], spread, 1..4u16, any::<bool>());
    prop::option::weighted(0.4, group).prop_map(|group| {
        let settings = |(first, spread, weight, uplinks)| GroupSettings {
            name: "group".into(),
            members: (first..PORTS_U8)
                .map(|port| Member { port: PortId(port), weight: if port == first { weight } else { 1 } })
                .collect(),
            spread,
            uplinks,
            lacp: None,
            salt: 1,
        };
        group.map(settings).into_iter().collect()
    })
}

fn any_vlan() -> impl Strategy<Value = Vec<VlanSettings>> {
    let tagged = prop::collection::vec(any::<bool>(), PORTS);
    prop::option::of(tagged).prop_map(|tagged| {
        let side = |tagged: &[bool], side: bool| {
            (0..).map(PortId).zip(tagged).filter(|(_, t)| **t == side).map(|(port, _)| port).collect()
        };
        tagged
            .map(|t| VlanSettings { vid: 1, tagged: side(&t, true), untagged: side(&t, false) })
            .into_iter()
            .collect()
    })
}

use std::num::NonZeroU32;

use xoff_flow_control::headroom::{Headroom, Link};
use xoff_flow_control::settings::{
    Accounting, ClassSettings, Culprit, EcnSettings, Flooded, FlowControl, FrameRate, IngressOrder,
    LoopDetection, Memory, PPfcSettings, PipelineSettings, PolicyKind, PortSettings, QcnSettings, QueueKind,
    Service, StormLimit, SwitchSettings, Trust, VlanSettings, WatchdogAction, WatchdogSettings, WhenFull,
};
use xoff_testkit::bed::SwitchPlan;
use xoff_testkit::bed::plan::{self, LINK};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos, PortId};

use super::input::Input;

pub const RESPONSE: Nanos = Nanos::from_micros(3);
const ECN: EcnSettings = EcnSettings { min: Bytes(700), max: Bytes(2_000), probability: 0.5, wred: false };

/// Returns a switch plan, and the response time of its peers: zero or [`RESPONSE`].
pub fn any(input: &mut Input<'_>) -> (SwitchPlan, Nanos) {
    let peer_response = input.one_of([Nanos::ZERO, RESPONSE]);
    let loop_gap = input.one_of([Nanos::ZERO, Nanos::from_micros(2), Nanos::from_micros(20)]);
    let links: Vec<Link> =
        (0..2 + input.below(4)).map(|_| any_link(input, loop_gap, peer_response)).collect();
    let mut plan = plan::switch(&links);
    plan.may_lose = true; // the run itself checks losses
    (plan.slots, plan.control_slots) = (256, input.one_of([16, 4]));
    let lossless = ClassSet(input.byte());
    let obey = input.one_of([lossless, ClassSet::ALL]);
    let settings = &mut plan.settings;
    settings.accounting = input.one_of([Accounting::UntilTransmitted, Accounting::UntilForwarded]);
    (settings.when_full, settings.pipeline) = any_pipeline(input);
    settings.memory = any_memory(input);
    settings.vlans = any_vlans(input, links.len());
    (settings.fdb.capacity, settings.fdb.ageing) =
        input.one_of([(64, None), (8, Some(Nanos::from_micros(50))), (6, None)]);
    for (port, link) in settings.ports.iter_mut().zip(&links) {
        (port.trust, port.dscp_to_class) = (Trust::Both, std::array::from_fn(|dscp| Class::ALL[dscp / 8]));
        change_port(input, port, lossless, obey);
        let class = any_class(input, link);
        for (at, to) in Class::ALL.into_iter().zip(&mut port.classes) {
            *to = if lossless.contains(at) { class } else { lossy(class) };
        }
    }
    if input.flag() {
        let all: u64 =
            settings.ports.iter().flat_map(|port| &port.classes).map(|it| it.ingress_most().0).sum();
        let classes = settings.ports.iter_mut().flat_map(|port| &mut port.classes);
        classes.for_each(|class| class.egress_max = Bytes(all + 1)); // unreachable with obedient peers
    }
    settings.policy.ofc.alpha = 0.9;
    settings.policy.ofc.flows = input.one_of([64, 2]);
    settings.policy.p_pfc = PPfcSettings { prediction: input.one_of([None, Some(Nanos::from_micros(10))]) };
    settings.qcn = any_qcn(input, settings.accounting);
    let [first, second] = [input.policy(), input.policy()];
    let kinds: [PolicyKind; 8] = std::array::from_fn(|class| if class % 2 == 0 { first } else { second });
    settings.policies = Class::ALL.map(|class| fitting(kinds[class.index()], class, settings));
    settings.shadows = input.flag().then(|| fitting(second, Class::ALL[0], settings)).into_iter().collect();
    if input.flag() && !needs_one_worker(settings) {
        plan.owners = (0..links.len()).map(|port| if port % 2 == 0 { 0 } else { 1 }).collect();
    }
    (plan, peer_response)
}

pub fn fitting(kind: PolicyKind, class: Class, settings: &SwitchSettings) -> PolicyKind {
    if kind.misfit(class, settings).is_none() { kind } else { PolicyKind::Pfc }
}

fn needs_one_worker(settings: &SwitchSettings) -> bool {
    let mut kinds = settings.policies.iter().chain(&settings.shadows);
    settings.when_full == WhenFull::Stop
        || settings.pipeline.rate.is_some()
        || settings.memory != Memory::Dedicated
        || settings.qcn.ingress.0 | settings.qcn.egress.0 != 0
        || kinds.any(|kind| kind.needs_one_worker(None))
}

fn any_link(input: &mut Input<'_>, loop_gap: Nanos, peer_response: Nanos) -> Link {
    let speed = BitRate::from_mbps(input.one_of([1_000, 100, 2_500]));
    Link { speed, mtu_frame: 600, loop_gap, peer_response, commit: Bytes::on_line(600), ..LINK }
}

fn any_memory(input: &mut Input<'_>) -> Memory {
    let (shared, for_all) = (plan::tight_memory, plan::tight_memory_for_all);
    let memories = [shared(None), shared(Some(-2)), shared(Some(1)), for_all(None), for_all(Some(0))];
    match input.flag() {
        true => input.one_of(memories),
        false => Memory::Dedicated,
    }
}

/// Returns a pipeline chosen by one byte. The byte's remainder by 3 decides whether full queues halt the pipeline, the quotient its rate,
/// delay and order.
fn any_pipeline(input: &mut Input<'_>) -> (WhenFull, PipelineSettings) {
    let byte = input.byte();
    let when_full = if byte % 3 == 1 { WhenFull::Stop } else { WhenFull::Drop };
    let pick = |shift: u8| usize::from(((byte / 3) >> shift) & 3);
    let rate = [0, 3_000_000, 500_000, 60_000][pick(0)];
    let delay = [Nanos::ZERO, Nanos(700), Nanos::from_micros(5), Nanos::from_micros(40)][pick(2)];
    let pipeline = PipelineSettings {
        rate: NonZeroU32::new(rate).map(FrameRate),
        delay,
        ingress: if pick(4) & 1 == 0 { IngressOrder::ByClass } else { IngressOrder::Fifo },
    };
    (when_full, pipeline)
}

fn any_vlans(input: &mut Input<'_>, ports: usize) -> Vec<VlanSettings> {
    if !input.flag() {
        return Vec::new();
    }
    let members = input.byte();
    let (some, others) = (0..=u8::MAX).map(PortId).take(ports).partition(|port| members >> port.0 & 1 == 1);
    let all = (0..=u8::MAX).map(PortId).take(ports).collect();
    let first = VlanSettings { vid: 1, tagged: all, untagged: Vec::new() };
    vec![
        first,
        VlanSettings { vid: 2, tagged: some, untagged: Vec::new() },
        VlanSettings { vid: 3, tagged: Vec::new(), untagged: others },
    ]
}

fn change_port(input: &mut Input<'_>, port: &mut PortSettings, lossless: ClassSet, obey: ClassSet) {
    let pfc = FlowControl::Pfc { obey, send: lossless };
    port.flow_control = input.one_of([pfc, pfc, pfc, FlowControl::Pause8023x, FlowControl::Ignore]);
    let (is_pfc, bits) = (port.flow_control == pfc, input.byte());
    let bit = |at: u8| bits >> at & 1 == 1;
    (port.ofc_peer, port.gfc_peer) = (is_pfc && bit(0), is_pfc && bit(1));
    (port.isolated, port.flood_unknown, port.flood_group) = (bit(2), !bit(3), !bit(4));
    (port.learning, port.learn_limit) = (!bit(5), bit(6).then_some(2));
    port.rewrite_dscp = bit(7).then_some([0, 8, 16, 24, 32, 40, 48, 56]);
    let limit = Flooded::ALL
        .into_iter()
        .fold(StormLimit::default(), |limit, kind| limit.with(kind, BitRate::from_mbps(50)));
    port.storm_limit = input.one_of([StormLimit::default(), limit]);
    port.loop_detection = input.one_of([LoopDetection::Alert, LoopDetection::Off, LoopDetection::Block]);
    port.commit = Bytes::on_line(600);
    port.burst = Bytes(port.commit.0 * u64::from(1 + input.below(3)));
}

fn any_class(input: &mut Input<'_>, link: &Link) -> ClassSettings {
    let xoff = Bytes(700 + 20 * u64::from(input.byte()));
    let egress = input.byte();
    let egress_xoff = Bytes(1 + 20 * u64::from(egress));
    // Take the share from the byte for `egress`: a further byte would shift all later choices of existing seeds.
    let share = if egress % 2 == 1 { 80 } else { WatchdogSettings::UNBROKEN };
    let (detect, restore) = (Nanos::from_micros(30), Nanos::from_micros(20));
    let storm = |action| WatchdogSettings { action, detect, restore, share };
    ClassSettings {
        lossless: true,
        xoff,
        xon: Bytes(1 + xoff.0 * u64::from(input.byte()) / 300),
        headroom: Headroom::of(link).total(),
        xoff_frames: input.one_of([u32::MAX, u32::MAX, 5]),
        ingress_reserve: Bytes(700),
        ingress_max: Bytes(3_000),
        egress_max: Bytes(2_500),
        egress_max_frames: u32::MAX,
        egress_reserve: Bytes(300),
        egress_warn: Bytes(1 + egress_xoff.0 / 2),
        egress_xoff,
        egress_xon: Bytes(1 + egress_xoff.0 * u64::from(input.byte()) / 256),
        queue: input.one_of([QueueKind::Fifo, QueueKind::Voq]),
        service: input.one_of([Service::Weighted(1), Service::Weighted(7), Service::Strict]),
        max_rate: input.rate().filter(|rate| *rate <= link.speed),
        ecn: input.one_of([None, Some(ECN)]),
        watchdog: input.one_of([
            None,
            None,
            Some(storm(WatchdogAction::Alert)),
            Some(storm(WatchdogAction::Forward)),
            Some(storm(WatchdogAction::Drop)),
        ]),
    }
}

fn lossy(class: ClassSettings) -> ClassSettings {
    let ecn = class.ecn.map(|ecn| EcnSettings { wred: true, ..ecn });
    ClassSettings { lossless: false, headroom: Bytes::ZERO, ecn, ..class }
}

fn any_qcn(input: &mut Input<'_>, accounting: Accounting) -> QcnSettings {
    let (classes, is_ingress) =
        (ClassSet(input.byte()), input.flag() && accounting == Accounting::UntilTransmitted);
    let [ingress, egress] = if is_ingress { [classes, ClassSet::NONE] } else { [ClassSet::NONE, classes] };
    let culprits = [Culprit::Arrival, Culprit::OccupancyDeterministic, Culprit::OccupancyRandom];
    QcnSettings {
        ingress,
        egress,
        set_point: Bytes(600),
        sample_every: Bytes(1_000),
        frames_per_cnm: 2,
        culprit: input.one_of(culprits),
        flows_max: 3,
        ..QcnSettings::PAPER
    }
}

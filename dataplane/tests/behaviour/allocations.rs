// Tests for SPECIFICATION.md: workers

use std::sync::Arc;

use xoff_dataplane::driver::{Direct, Driver};
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::ledger::Ledger;
use xoff_dataplane::punt::{Punt, PuntSink};
use xoff_dataplane::switch::{PolicySwap, Revision, Switch, WorkerId, Workers};
use xoff_dataplane::tap::{Sighting, Tap, TapId};
use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::{ClassCounters, Counters};
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{
    Culprit, EcnSettings, Lldp, PolicyKind, QcnSettings, SwitchSettings, VlanSettings, WatchdogAction,
    WatchdogSettings,
};
use xoff_wire::lldp::NEAREST_BRIDGE;
use xoff_wire::units::{Bytes, Class, ClassSet, MacAddr, Nanos, PortId, PortSet, Quanta};
use xoff_wire::{CnTag, FlowKey, FlowPauseWriter, Operation};

use crate::bed::Batches;
use crate::bed::exchange::Links;
use crate::bed::payload::{self, Mark};
use crate::bed::plan::{self, LINK};
use crate::bed::ring::Ring;
use crate::bed::store::MemoryStore;
use crate::{C3, resume, stop};

const PORTS: u8 = 4;
const WORKERS: usize = 2;

struct WorkerPair {
    now: Nanos,
    workers: [Switch; WORKERS],
    counters: Arc<Counters>,
    settings: SwitchSettings,
    store: MemoryStore,
    ports: [Vec<(PortId, Ring)>; WORKERS],
    links: Links,
    observed: [Arc<Counter>; WORKERS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Case {
    kind: PolicyKind,
    culprit: Culprit,
    shadows: &'static [PolicyKind],
    ecn: bool,
    delay: Nanos,
    is_tapped: bool,
}

#[derive(Debug)]
struct CountingTap {
    observed: Arc<Counter>,
    bytes: [u8; 256],
}

impl Tap for CountingTap {
    fn ports(&self) -> PortSet {
        PortSet::ALL
    }

    fn see(&mut self, _: &Sighting, frame: &Frame, store: &dyn FrameStore) {
        assert!(store.read(frame, &mut self.bytes) > 0);
        self.observed.add(1);
    }
}

impl PuntSink for CountingTap {
    fn take(&mut self, _: &Punt, frame: &Frame, store: &dyn FrameStore) -> bool {
        self.observed.add(u64::from(store.read(frame, &mut self.bytes) > 0));
        true
    }
}

impl WorkerPair {
    fn new(Case { kind, culprit, shadows, ecn, delay, is_tapped }: Case) -> WorkerPair {
        let mut plan = plan::switch(&[LINK; PORTS as usize]);
        plan.settings.pipeline.delay = delay;
        plan.settings.policies = [kind; 8];
        plan.settings.shadows = shadows.to_vec();
        plan.settings.policy.ofc.alpha = 0.5;
        plan.each_lossless(|class| (class.xoff, class.xon) = (Bytes(3_000), Bytes(1_000)));
        plan.each_port(|port| {
            (port.ofc_peer, port.gfc_peer, port.lldp) = (true, true, Lldp::Switch);
            let classes = port.classes.iter_mut().filter(|_| ecn);
            let (min, max) = (Bytes(1_500), Bytes(6_000));
            classes.for_each(|class| {
                class.ecn = Some(EcnSettings { min, max, probability: 0.5, wred: !class.lossless });
            });
        });
        plan.each_port(|port| port.commit = Bytes(1_600));
        plan.settings.vlans = vec![VlanSettings {
            vid: 1,
            tagged: vec![PortId(0), PortId(2)],
            untagged: vec![PortId(1), PortId(3)],
        }];
        plan.settings.qcn = QcnSettings {
            ingress: ClassSet(!(1 << 3)),
            egress: ClassSet(1 << 3),
            set_point: Bytes(1_500),
            sample_every: Bytes(10_000),
            frames_per_cnm: 5,
            culprit,
            flows_max: 8,
            ..QcnSettings::PAPER
        };
        let watchdog = |action| {
            let (detect, restore) = (Nanos::from_micros(90), Nanos::from_micros(60));
            Some(WatchdogSettings { action, detect, restore, share: 90 })
        };
        plan.settings.ports[0].classes[3].watchdog = watchdog(WatchdogAction::Drop);
        plan.settings.ports[3].classes[3].watchdog = watchdog(WatchdogAction::Forward);
        plan.settings.fdb.ageing = Some(Nanos::from_millis(2));
        let counters = Counters::with_shadows(PORTS.into(), shadows.len());
        let owners: Box<[WorkerId]> = (0..PORTS).map(|port| WorkerId(port / 2)).collect();
        let worker = |me| {
            let workers = Workers::new(owners.clone(), WorkerId(me));
            Switch::new(&plan.settings, 512, workers, Arc::clone(&counters))
        };
        let observed: [Arc<Counter>; WORKERS] = Default::default();
        let mut workers = [worker(0), worker(1)];
        for (worker, observed) in workers.iter_mut().zip(&observed).filter(|_| is_tapped) {
            let tap = Box::new(CountingTap { observed: Arc::clone(observed), bytes: [0; 256] });
            worker.batch(Nanos::ZERO).put_tap(TapId(1), tap).expect("switch already has a tap");
            let sink = Box::new(CountingTap { observed: Arc::default(), bytes: [0; 256] });
            assert!(worker.batch(Nanos::ZERO).put_punt_sink(sink).is_none());
        }
        WorkerPair {
            now: Nanos::ZERO,
            workers,
            observed,
            counters,
            settings: plan.settings,
            store: MemoryStore::new(480, 32, 16, 1600),
            ports: [0, 2].map(|first| [first, first + 1].map(ring).into()),
            links: Links::new(WORKERS),
        }
    }

    fn receive(&mut self, port: u8, bytes: Vec<u8>) {
        self.ports[usize::from(port / 2)][usize::from(port % 2)].1.arrived.push_back(bytes);
    }

    fn all(&self, counter: fn(&ClassCounters) -> &Counter) -> u64 {
        let of_port = |port| Class::ALL.map(|class| counter(self.counters.class(PortId(port), class)).get());
        (0..PORTS).flat_map(of_port).sum()
    }

    fn turn(&mut self) {
        self.now += Nanos::from_micros(30);
        self.workers[0].batch(self.now).inject(PortId(1), &[2; 60], &mut self.store);
        let WorkerPair { now, workers, ports, store, links, .. } = self;
        for (me, (switch, ports)) in workers.iter_mut().zip(ports).enumerate() {
            Driver { now: *now, switch, ports, store, boundary: &mut Direct }
                .turn(&mut links.of(me, Batches::Large));
            ports.iter_mut().for_each(|(_, ring)| (0..ring.committed.len()).for_each(|_| ring.leave(false)));
        }
    }
}

fn ring(port: u8) -> (PortId, Ring) {
    (PortId(port), Ring::with_capacity(512))
}

fn traffic(Case { kind, ecn, .. }: Case) -> Vec<(u8, Vec<u8>)> {
    let frame = |n: u16| {
        let [high, low] = n.to_be_bytes();
        let port = low % PORTS;
        let to = match n % 5 {
            0 => MacAddr::BROADCAST,
            _ => MacAddr([2, 0, 0, 0, 0, high % 16]),
        };
        let class = if n.rem_euclid(3) == 0 { C3 } else { Class::from_low_bits(low) };
        let cn_tag = (n % 7 < 3).then_some(CnTag(n));
        let mark = Mark { class, cn_tag, stream: n.into(), sequence: 0 };
        let mut bytes =
            payload::encode(to, MacAddr([2, 0, 0, 0, 0, low % 16]), mark, 60 + u32::from(n) % 1480);
        if ecn && cn_tag.is_none() && n % 11 < 9 {
            bytes[16..20].copy_from_slice(&[0x08, 0x00, 0x45, 0b10]); // IPv4, ECN-capable
        }
        if n.rem_euclid(2) == 0 {
            bytes.drain(12..16);
        }
        (port, bytes)
    };
    let pause = |n: u16| {
        let what = if n % 100 == 57 { stop(C3, 1_000) } else { resume(C3) };
        ((n / 100).to_be_bytes()[1] % PORTS, what.encode(MacAddr([2; 6])).to_vec())
    };
    let list = |n: u16| {
        let operation = if n % 20 == 3 { Operation::Pause(Quanta(300)) } else { Operation::Resume };
        let mut bytes = [0; 600];
        let mut writer = FlowPauseWriter::new(&mut bytes, MacAddr([2; 6]), operation, C3);
        for low in 0..16 {
            let [src, dst] = [low, n.to_be_bytes()[0]].map(|host| MacAddr([2, 0, 0, 0, 0, host]));
            writer.push(&FlowKey::L2 { src, dst, ether_type: 0x88b5 });
        }
        (n.to_be_bytes()[1] % PORTS, writer.finish().to_vec())
    };
    let lldp = |n: u16| {
        let bytes = [&NEAREST_BRIDGE.0[..], &[2, 0, 0, 0, 0, 1, 0x88, 0xcc], &[0; 46]].concat();
        (n.to_be_bytes()[1] % PORTS, bytes)
    };
    let lists = kind == PolicyKind::Ofc;
    let any = |n: u16| match n {
        _ if n % 50 == 7 => pause(n),
        _ if n % 50 == 8 => lldp(n),
        _ if lists && n % 10 == 3 => list(n),
        _ => frame(n),
    };
    (0..2_000).map(any).collect()
}

#[test]
fn forwarding_allocates_no_memory_after_start() {
    for culprit in [Culprit::Arrival, Culprit::OccupancyDeterministic, Culprit::OccupancyRandom] {
        allocates_nothing(Case { culprit, ..Case::default() });
    }
}

#[test]
fn pause_policies_allocate_no_memory_per_frame() {
    for kind in PolicyKind::ALL {
        let pair = allocates_nothing(Case { kind, ..Case::default() });
        let lists = pair.all(|class| &class.flows.pause_frames_received);
        let flow_pauses = pair.all(|class| &class.flows.requests.flows);
        assert_eq!((lists > 50, flow_pauses > 0), (kind == PolicyKind::Ofc, kind == PolicyKind::Ofc));
        assert_eq!(pair.all(|class| &class.rate_requests.changes) > 0, kind == PolicyKind::Gfc);
    }
}

#[test]
fn shadow_policies_allocate_no_memory_per_frame() {
    let pair = allocates_nothing(Case { shadows: &PolicyKind::ALL, ..Case::default() });
    for (number, kind) in PolicyKind::ALL.into_iter().enumerate() {
        let shadow = pair.counters.shadow(number).iter().flatten();
        let [xoff, flows, rates] = shadow.fold([0; 3], |[xoff, flows, rates], class| {
            [xoff + class.xoff.get(), flows + class.flows.flows.get(), rates + class.rate.changes.get()]
        });
        assert!(xoff > 0, "{kind:?}");
        assert_eq!([flows, rates].map(|n| n > 0), [kind == PolicyKind::Ofc, kind == PolicyKind::Gfc]);
    }
}

#[test]
fn ecn_and_wred_allocate_no_memory_per_frame() {
    for kind in [PolicyKind::Pfc, PolicyKind::Ofc] {
        let pair = allocates_nothing(Case { kind, ecn: true, ..Case::default() });
        assert!(pair.all(|class| &class.ecn_marked_frames) > 50);
        assert!(pair.counters.dropped(DropReason::EarlyDrop) > 10);
    }
}

#[test]
fn pipeline_delay_allocates_no_memory_per_frame() {
    allocates_nothing(Case { delay: Nanos::from_micros(25), ..Case::default() });
}

#[test] // proves: capture
fn tap_observes_all_frames_without_allocation() {
    let pair = allocates_nothing(Case { is_tapped: true, ..Case::default() });
    let ledgers = pair.workers.each_ref().map(Switch::ledger);
    let punts = (0..PORTS).map(|port| pair.counters.port(PortId(port)).punts[0].punted.get());
    assert_eq!(punts.sum::<u64>(), 2_000 / 50);
    let sum = |count: fn(&Ledger) -> u64| ledgers.iter().map(count).sum::<u64>();
    let dropped: u64 = DropReason::ALL.into_iter().map(|reason| pair.counters.dropped(reason)).sum();
    // A tap observes a refused frame only on receipt; the drop is no second event.
    let not_let_in =
        [DropReason::Malformed, DropReason::TooLong, DropReason::IngressFull, DropReason::HeadroomExhausted];
    let not_let_in: u64 = not_let_in.into_iter().map(|reason| pair.counters.dropped(reason)).sum();
    let out = pair.ports.iter().flatten().map(|(_, ring)| ring.frames_out() as u64).sum::<u64>();
    let sent = sum(|ledger| ledger.sent) + out;
    let expected = sum(|ledger| ledger.received) + sent + dropped - not_let_in;
    assert_eq!(pair.observed.each_ref().map(|frames| frames.get()).iter().sum::<u64>(), expected);
}

fn allocates_nothing(case: Case) -> WorkerPair {
    let mut pair = WorkerPair::new(case);
    let mut traffic = traffic(case);
    let mut all = |pair: &mut WorkerPair| {
        for (n, (port, bytes)) in traffic.drain(..).enumerate() {
            pair.receive(port, bytes);
            if n % 8 == 0 {
                pair.turn();
            }
        }
    };
    let allocated = allocation_counter::measure(|| all(&mut pair));
    assert_eq!(allocated.count_total, 0, "the workers allocated memory");

    let ledgers = pair.workers.each_ref().map(Switch::ledger);
    let total = |count: fn(&Ledger) -> u64| ledgers.iter().map(count).sum::<u64>();
    assert!(total(|l| l.copied) > 100, "no floods");
    assert!(total(|l| l.handed_over) > 100, "no handovers");
    assert!(total(|l| l.made) > 5, "no pauses sent");
    assert!(pair.all(|class| &class.cnms_sent) > 20, "no CNMs sent");
    assert!(total(|l| l.dropped) > 0, "no drops");
    assert!(total(|l| l.sent) > 1_000);
    let storms = [0, 3].map(|port| pair.counters.class(PortId(port), C3).storms.get());
    assert!(
        storms.iter().all(|&storms| storms > 0),
        "a port has had no pause storm: {storms:?}, policy {:?}",
        case.kind
    );
    pair
}

#[test]
fn policy_swap_allocates_no_memory_in_worker() {
    for (from, to) in PolicyKind::ALL.into_iter().flat_map(|from| PolicyKind::ALL.map(|to| (from, to))) {
        let case = Case { kind: from, ..Case::default() };
        let mut pair = WorkerPair::new(case);
        let settings = pair.settings.clone();
        let swap = |class| Box::new(PolicySwap::new(to, class, &settings));
        for (place, (port, bytes)) in traffic(case).into_iter().enumerate() {
            pair.receive(port, bytes);
            if place % 8 == 0 {
                pair.turn();
            }
        }
        let given = [0, 1].map(|_| Class::ALL.map(swap));
        let allocated = allocation_counter::measure(|| {
            let left = pair
                .workers
                .each_mut()
                .into_iter()
                .zip(given)
                .map(|(worker, given)| given.map(|swap| worker.batch(pair.now).set_policy(swap)));
            left.for_each(std::mem::forget);
        });
        assert_eq!(allocated.count_total, 0, "swap from {from:?} to {to:?} allocated memory");
        let kinds = pair.workers.each_ref().map(|worker| Class::ALL.map(|class| worker.policy(class)));
        assert_eq!(kinds, [[to; 8]; 2]);
    }
}

#[test]
fn change_of_settings_allocates_no_memory_in_worker() {
    for kind in PolicyKind::ALL {
        let case = Case { kind, shadows: &[PolicyKind::Ofc], ..Case::default() };
        let mut pair = WorkerPair::new(case);
        for (port, bytes) in traffic(case).into_iter().take(400) {
            pair.receive(port, bytes);
        }
        pair.turn();
        let mut settings = pair.settings.clone();
        settings.fdb.statics.push((1, MacAddr([2, 0, 0, 0, 9, 9]), PortId(1)));
        settings.ports.iter_mut().for_each(|port| port.classes[3].xoff = Bytes(1_200));
        let owners = [0, 0, 1, 1].map(WorkerId);
        let given = [0, 1].map(|me| {
            let roles = Workers::new(owners.into(), WorkerId(me));
            Box::new(Revision::new(settings.clone(), &roles, 512))
        });
        let WorkerPair { workers, now, .. } = &mut pair;
        let allocated = allocation_counter::measure(|| {
            for (worker, given) in workers.iter_mut().zip(given) {
                std::mem::forget(worker.batch(*now).revise(given));
            }
        });
        assert_eq!(allocated.count_total, 0, "{kind:?}");
    }
}

#[test]
fn allocation_counter_detects_allocation() {
    let allocated = allocation_counter::measure(|| drop(std::hint::black_box(vec![1_u8])));
    assert_eq!(allocated.count_total, 1);
}

use xoff_flow_control::settings::{Accounting, Memory, QueueKind, SharedMemory, WhenFull};
use xoff_wire::units::{BitRate, Bytes, Class, Nanos};

use crate::KEEPING;
use crate::bed::plan::{self, LINK, LOSSLESS, MTU_FRAME};
use crate::bed::{Flow, Star, Stream, SwitchPlan};

const PORTS: usize = 6;

const SHARED: Memory = Memory::Shared(SharedMemory {
    pool: Bytes(120_000),
    ingress_limit: Bytes(100_000),
    egress_limit: Bytes(20_000),
    port_limit: Bytes(60_000),
    alpha_log2: Some(0),
    ..SharedMemory::UNLIMITED
});

fn plan(accounting: Accounting, when_full: WhenFull, memory: Memory, queue: QueueKind) -> SwitchPlan {
    let mut plan = plan::switch(&[LINK; PORTS]);
    plan.settings.accounting = accounting;
    plan.settings.when_full = when_full;
    plan.settings.memory = memory;
    plan.each_port(|port| {
        for class in &mut port.classes {
            (class.queue, class.egress_reserve) = (queue, Bytes(1_000));
        }
    });
    if when_full == WhenFull::Stop {
        plan.each_lossless(|class| class.egress_max = Bytes(20_000));
    }
    plan
}

fn offer(star: &mut Star, rng: &mut fastrand::Rng) -> Vec<(Flow, Stream)> {
    let offer_one = |_| {
        let from = rng.usize(0..PORTS);
        let to = (from + rng.usize(1..PORTS)) % PORTS;
        let class = if rng.bool() { Class::ALL[3 + rng.usize(0..2)] } else { Class::ALL[rng.usize(0..8)] };
        let stream = Stream {
            len: rng.u32(60..=MTU_FRAME),
            rate: rng.bool().then(|| BitRate::from_mbps(rng.u64(10..900))),
            from: Nanos(rng.u64(0..2_000_000)),
            ..star.stream(to, class, rng.u64(1..150))
        };
        (star.start(from, to, stream), stream)
    };
    (0..40).map(offer_one).collect()
}

fn loses_nothing_lossless(plan: &SwitchPlan, seeds: std::ops::Range<u64>) {
    for seed in xoff_explore::seeds(seeds) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut star = Star::new(plan.clone());
        let flows = offer(&mut star, &mut rng);
        star.run_to_rest();
        for (flow, stream) in flows {
            if LOSSLESS.contains(stream.class) {
                star.assert_whole(flow, stream.count);
            } else {
                assert_eq!(
                    star.received(flow).late_or_twice,
                    0,
                    "{flow:?} was reordered or repeated with seed {seed}"
                );
            }
        }
    }
}

#[test] // proves: lossless, headroom, ledger, peer-faults
fn mixed_streams_lose_no_lossless_frame_in_any_buffer_mode() {
    for (accounting, when_full) in KEEPING {
        for memory in [Memory::Dedicated, SHARED] {
            for queue in [QueueKind::Fifo, QueueKind::Voq] {
                loses_nothing_lossless(&plan(accounting, when_full, memory, queue), 0..1);
            }
        }
    }
}

#[test] // proves: workers
fn mixed_streams_lose_no_lossless_frame_across_workers() {
    for owners in [vec![0, 1, 0, 1, 0, 1], vec![0, 0, 1, 1, 2, 2], vec![5, 4, 3, 2, 1, 0]] {
        for memory in [Memory::Dedicated, SHARED] {
            let mut plan = plan(Accounting::UntilTransmitted, WhenFull::Drop, memory, QueueKind::Fifo);
            plan.owners.clone_from(&owners);
            loses_nothing_lossless(&plan, 10..11);
        }
    }
}

#[test] // proves: sim-results
fn two_simulation_runs_with_same_seed_are_identical() {
    let plan = plan(Accounting::UntilTransmitted, WhenFull::Drop, SHARED, QueueKind::Voq);
    let path = |seed| {
        let mut star = Star::new(plan.clone());
        offer(&mut star, &mut fastrand::Rng::with_seed(seed));
        star.run_to_rest();
        star.digest()
    };
    assert_eq!(path(1), path(1));
    assert_ne!(path(1), path(2));
}

// Tests for SPECIFICATION.md: batches

use xoff_flow_control::headroom::Link;
use xoff_flow_control::settings::{
    Accounting, Culprit, EcnSettings, Memory, PolicyKind, QcnSettings, Service, SharedMemory, Trust, WhenFull,
};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos};

use crate::KEEPING;
use crate::bed::plan::{self, LINK, XOFF};
use crate::bed::{Star, Stream, SwitchPlan};
use crate::{C0, C3, resume, stop};

const PORTS: usize = 5;
const GAP: Nanos = Nanos(100_000);
const COMMIT: Bytes = Bytes(20_000);

fn plan() -> SwitchPlan {
    let mut plan = plan::switch(&[Link { loop_gap: GAP, commit: COMMIT, ..LINK }; PORTS]);
    plan.each_port(|port| {
        (port.burst, port.trust) = (COMMIT, Trust::Both);
        port.dscp_to_class = std::array::from_fn(|dscp| Class::ALL[dscp / 8]);
    });
    plan
}

fn crowd(plan: SwitchPlan) {
    let mut star = Star::new(plan);
    for (from, class, len) in [(1, C3, 1_514), (2, C3, 100), (3, C0, 600), (4, C0, 100)] {
        let stream = star.stream(0, class, 300);
        star.start(from, 0, Stream { len, ..stream });
    }
    for number in 0..60 {
        for (port, dscp) in [(1, 24), (2, 24), (3, 0), (4, 0)] {
            let bytes = packet(&star, port, dscp << 2 | if number % 8 < 6 { 0b10 } else { 0b00 });
            star.inject(port, &bytes);
        }
    }
    for quanta in [0, 500, 3_000, 0] {
        star.run_for(Nanos(777_000));
        let control = if quanta == 0 { resume(C3) } else { stop(C3, quanta) };
        star.pause(0, control);
    }
    star.run_to_rest();
    assert!(star.at(0).arrivals.len() > 300, "too few frames arrived");
}

fn packet(star: &Star, from: usize, tos: u8) -> Vec<u8> {
    let mut bytes = [star.mac(0).0, star.mac(from).0].concat();
    bytes.extend([0x08, 0x00, 0x45, tos]);
    bytes.resize(200, 0);
    bytes
}

#[test]
fn batch_is_forwarded_like_single_frames_under_every_policy() {
    for kind in PolicyKind::ALL {
        for (warn, shadows) in [(5_000, vec![]), (5_003, vec![]), (8_000, PolicyKind::ALL.to_vec())] {
            let mut plan = plan();
            plan.settings.policies = [kind; 8];
            plan.settings.shadows = shadows;
            plan.each_lossless(|class| {
                (class.egress_warn, class.egress_xoff, class.egress_xon) =
                    (Bytes(warn), Bytes(warn + 3_000), Bytes(warn));
            });
            if kind == PolicyKind::Ofc {
                plan.settings.policy.ofc.alpha = 0.8;
            }
            crowd(plan);
        }
    }
}

#[test]
fn batch_is_forwarded_like_single_frames_with_congestion_points() {
    let both = ClassSet(0b1001);
    for (ingress, egress) in [(both, ClassSet::NONE), (ClassSet::NONE, both)] {
        for culprit in [Culprit::Arrival, Culprit::OccupancyDeterministic, Culprit::OccupancyRandom] {
            let mut plan = plan();
            let (set_point, sample_every) = (Bytes(4_000), Bytes(5_000));
            plan.settings.qcn =
                QcnSettings { ingress, egress, set_point, sample_every, culprit, ..QcnSettings::PAPER };
            crowd(plan);
        }
    }
}

#[test]
fn batch_is_forwarded_like_single_frames_with_ecn() {
    for (wred, probability) in [(false, 0.3), (true, 0.3), (true, 1.0)] {
        let mut plan = plan();
        let (min, max) = (Bytes(3_000), Bytes(12_000));
        let ecn = Some(EcnSettings { min, max, probability, wred });
        plan.each_port(|port| port.classes.iter_mut().for_each(|class| class.ecn = ecn));
        crowd(plan);
    }
}

#[test]
fn batch_is_forwarded_like_single_frames_with_class_rates() {
    for (rate, weights) in [(Some(300), [1, 1]), (Some(77), [1, 3]), (None, [2, 3]), (None, [7, 1])] {
        for (commit, burst) in [(COMMIT, COMMIT), (COMMIT, Bytes(3_000)), (Bytes(3_000), COMMIT)] {
            let mut plan = plan();
            plan.each_port(|port| {
                (port.commit, port.burst) = (commit, burst);
                port.classes[C0.index()].service = Service::Weighted(weights[0]);
                port.classes[C3.index()].service = Service::Weighted(weights[1]);
                port.classes[C3.index()].max_rate = rate.map(BitRate::from_mbps);
            });
            crowd(plan);
        }
    }
}

#[test]
fn batch_is_forwarded_like_single_frames_in_all_memory_models() {
    let shared = |alpha_log2| {
        Memory::Shared(SharedMemory {
            pool: Bytes(40_000),
            ingress_limit: Bytes(35_000),
            egress_limit: Bytes(9_000),
            port_limit: Bytes(20_000),
            alpha_log2,
            ..SharedMemory::UNLIMITED
        })
    };
    for memory in [Memory::Dedicated, shared(None), shared(Some(-1)), shared(Some(0)), shared(Some(2))] {
        let losing = (Accounting::UntilForwarded, WhenFull::Drop);
        for (accounting, when_full) in KEEPING.into_iter().chain([losing]) {
            let mut plan = plan();
            plan.may_lose = (accounting, when_full) == losing;
            plan.settings.memory = memory;
            (plan.settings.accounting, plan.settings.when_full) = (accounting, when_full);
            crowd(plan);
        }
    }
}

#[test]
fn batch_is_forwarded_like_single_frames_with_small_frames() {
    let mut plan = plan();
    plan.may_lose = true; // headroom is counted in bytes only
    plan.each_port(|port| {
        for class in &mut port.classes {
            (class.xoff_frames, class.egress_max_frames) = (37, 41);
        }
    });
    crowd(plan);
}

#[test]
fn batch_is_forwarded_like_single_frames_near_xoff() {
    for below in 0..4 {
        let mut plan = plan();
        plan.each_lossless(|class| {
            (class.xoff, class.xon) = (XOFF - Bytes(below), XOFF - Bytes(below + 104))
        });
        crowd(plan);
    }
}

#[test]
fn batch_is_forwarded_like_single_frames_between_workers() {
    for owners in [vec![0, 1, 1, 1, 1], vec![0, 1, 2, 1, 2], vec![0, 0, 1, 1, 1]] {
        let mut plan = plan();
        plan.owners = owners;
        crowd(plan);
    }
}

#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: shared-memory

use super::*;
use crate::settings::{Accounting, ClassSettings, FdbSettings, HashSeed, LossyPool, SharedMemory, WhenFull};
use crate::testing::port_settings;

const LOSSLESS: Class = Class::ALL[3];
const LOSSY: Class = Class::ALL[0];
const P0: PortId = PortId(0);
const P1: PortId = PortId(1);

fn buffer(memory: Memory, change: impl Fn(&mut ClassSettings)) -> Buffer {
    buffer_by_port(memory, |_, class| change(class))
}

fn buffer_by_port(memory: Memory, change: impl Fn(PortId, &mut ClassSettings)) -> Buffer {
    buffer_of(Accounting::default(), memory, change)
}

fn buffer_of(accounting: Accounting, memory: Memory, change: impl Fn(PortId, &mut ClassSettings)) -> Buffer {
    Buffer::new(&settings_of(accounting, memory, change), 2, Counters::new(2))
}

fn settings_of(
    accounting: Accounting,
    memory: Memory,
    change: impl Fn(PortId, &mut ClassSettings),
) -> SwitchSettings {
    let mut ports = vec![port_settings(0), port_settings(1)];
    for (id, port) in [P0, P1].into_iter().zip(&mut ports) {
        for class in &mut port.classes {
            class.xoff = Bytes(10_000);
            class.xon = Bytes(6_000);
            class.headroom = Bytes(4_000);
            class.ingress_max = Bytes(10_000);
            class.egress_max = Bytes(10_000);
            class.ingress_reserve = Bytes(1_000);
            class.egress_reserve = Bytes(1_000);
            change(id, class);
        }
    }
    SwitchSettings {
        ports,
        accounting,
        memory,
        lossy_pool: Default::default(),
        when_full: WhenFull::default(),
        pipeline: Default::default(),
        policies: Default::default(),
        shadows: Vec::new(),
        policy: Default::default(),
        hash: Default::default(),
        fdb: FdbSettings { capacity: 16, ageing: None, statics: Vec::new(), seed: HashSeed::PUBLIC },
        vlans: Vec::new(),
        routed_vlans: Vec::new(),
        multicast: Default::default(),
        groups: Vec::new(),
        qcn: Default::default(),
    }
}

fn shared(alpha_log2: Option<i8>) -> Memory {
    Memory::Shared(SharedMemory {
        pool: Bytes(8_000),
        ingress_limit: Bytes::MAX,
        egress_limit: Bytes(2_000),
        port_limit: Bytes::MAX,
        alpha_log2,
        ..SharedMemory::UNLIMITED
    })
}

fn enter(buffer: &mut Buffer, port: PortId, class: Class, sizes: &[u64]) {
    for &size in sizes {
        buffer.enter_ingress(port, class, Bytes(size)).unwrap();
    }
}

#[test] // proves: thresholds
fn pause_begins_at_xoff_and_ends_one_byte_below_xon() {
    let mut buffer = buffer(Memory::Dedicated, |_| ());
    enter(&mut buffer, P0, LOSSLESS, &[9_000, 999]);
    assert!(!buffer.at_xoff(P0, LOSSLESS), "XOFF one byte below the threshold");
    enter(&mut buffer, P0, LOSSLESS, &[1]);
    assert!(buffer.at_xoff(P0, LOSSLESS), "no XOFF at the threshold");
    assert!(!buffer.at_xoff(P1, LOSSLESS) && !buffer.at_xoff(P0, Class::ALL[4]));
    buffer.leave_ingress(P0, LOSSLESS, Bytes(4_000));
    assert!(!buffer.below_xon(P0, LOSSLESS), "queue at XON counts as below XON");
    buffer.leave_ingress(P0, LOSSLESS, Bytes(1));
    assert!(buffer.below_xon(P0, LOSSLESS), "queue one byte below XON does not count as below");
}

#[test] // proves: headroom
fn headroom_takes_frames_up_to_its_last_byte() {
    let mut buffer = buffer(Memory::Dedicated, |_| ());
    enter(&mut buffer, P0, LOSSLESS, &[9_999, 4_000]);
    assert_eq!(buffer.counters.class(P0, LOSSLESS).headroom_watermark.get(), 3_999);
    let refused = buffer.enter_ingress(P0, LOSSLESS, Bytes(2));
    assert_eq!(refused, Err(DropReason::HeadroomExhausted));
    enter(&mut buffer, P0, LOSSLESS, &[1]);
    assert_eq!(buffer.ingress(P0, LOSSLESS), Bytes(14_000));
    assert_eq!(buffer.enter_ingress(P0, LOSSLESS, Bytes(1)), Err(DropReason::HeadroomExhausted));
}

#[test] // proves: lossy-classes
fn lossy_queue_drops_frames_beyond_its_maximum() {
    let mut buffer = buffer(Memory::Dedicated, |class| class.lossless = false);
    enter(&mut buffer, P0, LOSSY, &[9_999]);
    assert_eq!(buffer.enter_ingress(P0, LOSSY, Bytes(2)), Err(DropReason::IngressFull));
    enter(&mut buffer, P0, LOSSY, &[1]);
    assert_eq!(buffer.counters.class(P0, LOSSY).headroom_watermark.get(), 0);
}

#[test] // proves: thresholds
fn queue_reaches_xoff_at_its_frame_limit() {
    let mut buffer = buffer(Memory::Dedicated, |class| class.xoff_frames = 10);
    enter(&mut buffer, P0, LOSSLESS, &[64; 9]);
    assert!(!buffer.at_xoff(P0, LOSSLESS));
    enter(&mut buffer, P0, LOSSLESS, &[64]);
    assert!(buffer.at_xoff(P0, LOSSLESS));
    (0..4).for_each(|_| buffer.leave_ingress(P0, LOSSLESS, Bytes(64)));
    assert!(!buffer.below_xon(P0, LOSSLESS), "below XON with 6 frames: XON is 6 of 10");
    buffer.leave_ingress(P0, LOSSLESS, Bytes(64));
    assert!(buffer.below_xon(P0, LOSSLESS));
}

#[test]
fn egress_queue_is_full_at_frame_limit() {
    let mut buffer = buffer(Memory::Dedicated, |class| class.egress_max_frames = 3);
    for _ in 0..2 {
        buffer.enter_egress(P1, P0, LOSSY, Bytes(64));
    }
    assert!(buffer.egress_has_room(P0, LOSSY, Bytes(64)), "the queue is full one frame below its limit");
    buffer.enter_egress(P1, P0, LOSSY, Bytes(64));
    assert!(!buffer.egress_has_room(P0, LOSSY, Bytes(64)), "the queue accepts a frame at its frame limit");
    assert!(buffer.egress_has_room(P1, LOSSY, Bytes(64)));
    buffer.leave_egress(P1, P0, LOSSY, Bytes(64));
    assert!(buffer.egress_has_room(P0, LOSSY, Bytes(64)));
}

#[test] // proves: pipeline
fn egress_queue_is_full_at_byte_limit() {
    let mut buffer = buffer(Memory::Dedicated, |_| ());
    buffer.enter_egress(P1, P0, LOSSY, Bytes(9_000));
    assert!(buffer.egress_has_room(P0, LOSSY, Bytes(999)), "the queue is full one byte below its maximum");
    assert!(!buffer.egress_has_room(P0, LOSSY, Bytes(1_000)), "the queue accepts a frame at its maximum");
    buffer.leave_egress(P1, P0, LOSSY, Bytes(1));
    assert!(buffer.egress_has_room(P0, LOSSY, Bytes(1_000)));
}

#[test]
fn dynamic_threshold_is_alpha_times_free_pool() {
    // With alpha = 1, a queue may take half of the pool: x = pool - x.
    let mut buffer = buffer(shared(Some(0)), |_| ());
    enter(&mut buffer, P0, LOSSLESS, &[1_000, 3_999]);
    assert!(!buffer.at_xoff(P0, LOSSLESS), "XOFF one byte below half of the pool");
    enter(&mut buffer, P0, LOSSLESS, &[1]);
    assert!(buffer.at_xoff(P0, LOSSLESS));
    enter(&mut buffer, P0, LOSSLESS, &[3_000]);
    assert_eq!(buffer.pool_used, Bytes(4_000));
    enter(&mut buffer, P1, LOSSLESS, &[1_000, 1_999]);
    assert!(!buffer.at_xoff(P1, LOSSLESS));
    enter(&mut buffer, P1, LOSSLESS, &[1]);
    assert!(buffer.at_xoff(P1, LOSSLESS), "no XOFF at half of the remaining pool");
}

#[test]
fn departing_frames_free_headroom_before_pool() {
    let mut buffer = buffer(shared(Some(0)), |_| ());
    enter(&mut buffer, P0, LOSSLESS, &[5_000, 2_000]);
    assert_eq!((buffer.pool_used, buffer.port_used[0]), (Bytes(4_000), Bytes(4_000)));
    buffer.leave_ingress(P0, LOSSLESS, Bytes(5_000));
    assert_eq!(buffer.pool_used, Bytes(1_000));
    buffer.leave_ingress(P0, LOSSLESS, Bytes(2_000));
    assert_eq!((buffer.pool_used, buffer.port_used[0]), (Bytes::ZERO, Bytes::ZERO));
    assert!(buffer.below_xon(P0, LOSSLESS));
}

#[test]
fn queue_can_fill_its_reserve_when_pool_is_exhausted() {
    let mut buffer = buffer(shared(Some(6)), |class| class.lossless = false);
    while buffer.enter_ingress(P0, LOSSY, Bytes(100)).is_ok() {}
    assert!(buffer.pool_used > Bytes(7_800));
    enter(&mut buffer, P1, LOSSY, &[1_000]);
    assert_eq!(buffer.enter_ingress(P1, LOSSY, Bytes(300)), Err(DropReason::IngressFull));
}

#[test]
fn xoff_threshold_is_reserve_when_pool_is_exhausted() {
    let mut buffer = buffer(shared(None), |_| ());
    enter(&mut buffer, P0, LOSSLESS, &[9_000]); // fills the reserve and the pool
    assert_eq!(buffer.pool_used, Bytes(8_000));
    enter(&mut buffer, P1, LOSSLESS, &[999]);
    assert!(!buffer.at_xoff(P1, LOSSLESS), "XOFF one byte below the reserve");
    enter(&mut buffer, P1, LOSSLESS, &[1]);
    assert!(buffer.at_xoff(P1, LOSSLESS), "no XOFF at the reserve");
}

#[test]
fn xon_is_same_distance_below_xoff_when_pool_is_exhausted() {
    let mut buffer = buffer(shared(None), |class| class.xon = Bytes(9_700)); // 300 bytes below XOFF
    enter(&mut buffer, P0, LOSSLESS, &[9_000]);
    enter(&mut buffer, P1, LOSSLESS, &[699, 300, 1]);
    buffer.leave_ingress(P1, LOSSLESS, Bytes(300));
    assert!(!buffer.below_xon(P1, LOSSLESS), "queue at XON counts as below XON");
    buffer.leave_ingress(P1, LOSSLESS, Bytes(1));
    assert!(buffer.below_xon(P1, LOSSLESS), "queue one byte below XON does not count as below");
}

#[test]
fn port_limit_bounds_sum_of_all_classes_of_port() {
    let memory = Memory::Shared(SharedMemory {
        pool: Bytes(100_000),
        ingress_limit: Bytes::MAX,
        egress_limit: Bytes::MAX,
        port_limit: Bytes(3_000),
        alpha_log2: None,
        ..SharedMemory::UNLIMITED
    });
    let mut buffer = buffer(memory, |class| class.lossless = false);
    enter(&mut buffer, P0, Class::ALL[1], &[1_000, 2_000]);
    enter(&mut buffer, P0, Class::ALL[2], &[1_000, 1_000]);
    assert_eq!(buffer.enter_ingress(P0, Class::ALL[2], Bytes(1)), Err(DropReason::IngressFull));
    enter(&mut buffer, P1, Class::ALL[2], &[1_000, 3_000]);
}

#[test]
fn egress_port_limit_bounds_bytes_beyond_queue_reserves() {
    let memory = SharedMemory { egress_port_limit: Bytes(2_000), ..SharedMemory::UNLIMITED };
    let mut buffer = buffer(Memory::Shared(memory), |class| class.lossless = false);
    buffer.enter_egress(P1, P0, Class::ALL[1], Bytes(2_500));
    assert!(
        buffer.egress_has_room(P0, Class::ALL[2], Bytes(1_500)),
        "the queue refuses a frame at its limit"
    );
    assert!(!buffer.egress_has_room(P0, Class::ALL[2], Bytes(1_501)));
    assert!(buffer.egress_has_room(P1, Class::ALL[2], Bytes(3_000)), "bytes of another port count");
    buffer.leave_egress(P1, P0, Class::ALL[1], Bytes(1_500));
    assert!(buffer.egress_has_room(P0, Class::ALL[2], Bytes(3_000)));
    assert!(!buffer.egress_has_room(P0, Class::ALL[2], Bytes(3_001)));
}

#[test]
fn egress_limits_apply_to_lossless_queues_if_configured() {
    for (limits, room) in [(EgressLimits::Lossy, [true, true]), (EgressLimits::All, [true, false])] {
        for (egress_limit, egress_port_limit) in [(2_000, 9_000), (9_000, 2_000)] {
            let [egress_limit, egress_port_limit] = [egress_limit, egress_port_limit].map(Bytes);
            let memory = SharedMemory {
                egress_limit,
                egress_port_limit,
                egress_limits: limits,
                ..SharedMemory::UNLIMITED
            };
            let mut buffer = buffer(Memory::Shared(memory), |_| ());
            buffer.enter_egress(P1, P0, LOSSLESS, Bytes(2_000));
            let has = |size| buffer.egress_has_room(P0, LOSSLESS, Bytes(size));
            assert_eq!([has(1_000), has(1_001)], room);
        }
    }
}

#[test]
fn headroom_from_pool_respects_pool_and_ingress_limits() {
    for (pool, ingress_limit, port_limit) in
        [(12_000, 90_000, 90_000), (90_000, 12_000, 90_000), (90_000, 90_000, 12_000)]
    {
        let [pool, ingress_limit, port_limit] = [pool, ingress_limit, port_limit].map(Bytes);
        let headroom = HeadroomPlace::Pool;
        let memory = SharedMemory { pool, ingress_limit, port_limit, headroom, ..SharedMemory::UNLIMITED };
        let mut buffer = buffer(Memory::Shared(memory), |class| class.lossless = true);
        enter(&mut buffer, P0, LOSSLESS, &[11_000]); // fills the reserve, and the pool up to XOFF
        enter(&mut buffer, P0, LOSSLESS, &[1_500]);
        enter(&mut buffer, P0, Class::ALL[4], &[1_000]); // fills the reserve
        assert_eq!(buffer.enter_ingress(P0, LOSSLESS, Bytes(501)), Err(DropReason::HeadroomExhausted));
        enter(&mut buffer, P0, LOSSLESS, &[500]);
        assert_eq!(buffer.enter_ingress(P0, Class::ALL[4], Bytes(1)), Err(DropReason::HeadroomExhausted));
        buffer.leave_ingress(P0, LOSSLESS, Bytes(1));
        enter(&mut buffer, P0, Class::ALL[4], &[1]);
        buffer.leave_ingress(P0, LOSSLESS, Bytes(12_999));
        buffer.leave_ingress(P0, Class::ALL[4], Bytes(1_001));
        assert_eq!((buffer.pool_used, buffer.port_used[0]), (Bytes::ZERO, Bytes::ZERO));
    }
}

#[test]
fn queue_takes_at_most_its_own_headroom_from_the_pool() {
    let memory = SharedMemory { headroom: HeadroomPlace::Pool, ..SharedMemory::UNLIMITED };
    let mut buffer = buffer(Memory::Shared(memory), |_| ());
    enter(&mut buffer, P0, LOSSLESS, &[11_000, 4_000]);
    assert_eq!(buffer.enter_ingress(P0, LOSSLESS, Bytes(1)), Err(DropReason::HeadroomExhausted));
}

#[test]
fn queue_is_at_xoff_when_pool_lacks_room_for_next_frame() {
    let headroom = HeadroomPlace::Pool;
    let memory = SharedMemory { pool: Bytes(10_000), headroom, ..SharedMemory::UNLIMITED };
    let mut buffer = buffer(Memory::Shared(memory), |class| {
        (class.lossless, class.ingress_reserve) = (true, Bytes(8_000));
    });
    let longest = Bytes::of_frame(port_settings(0).mtu_frame + TAGS);
    enter(&mut buffer, P1, Class::ALL[4], &[17_000]); // leaves 1,000 bytes of the pool
    enter(&mut buffer, P0, LOSSLESS, &[9_000 - longest.0]);
    assert!(!buffer.at_xoff(P0, LOSSLESS), "XOFF although one more frame fits");
    assert_eq!(buffer.margin_below_xoff(P0, LOSSLESS).bytes, Bytes::ZERO);
    enter(&mut buffer, P0, LOSSLESS, &[1]);
    assert!(
        buffer.at_xoff(P0, LOSSLESS) && !buffer.below_xon(P0, LOSSLESS),
        "no XOFF one byte short of a frame"
    );
    buffer.leave_ingress(P0, LOSSLESS, Bytes(7_000));
    enter(&mut buffer, P1, Class::ALL[4], &[1_000]); // exhausts the pool
    assert!(!buffer.at_xoff(P0, LOSSLESS), "XOFF although the reserve has room");
    assert!(!buffer.at_xoff(P0, Class::ALL[4]), "XOFF for an empty queue, which no departure could resume");
}

#[test]
fn egress_bytes_use_pool_if_they_do_not_count_at_ingress() {
    for (accounting, egress_limits, left) in [
        (Accounting::UntilForwarded, EgressLimits::All, 3_000),
        (Accounting::UntilForwarded, EgressLimits::Lossy, 8_000),
        (Accounting::UntilTransmitted, EgressLimits::All, 8_000),
    ] {
        let memory = SharedMemory { pool: Bytes(8_000), egress_limits, ..SharedMemory::UNLIMITED };
        let mut buffer = buffer_of(accounting, Memory::Shared(memory), |_, _| ());
        buffer.enter_egress(P1, P0, LOSSLESS, Bytes(6_000)); // 5,000 bytes beyond the reserve
        assert_eq!(buffer.xoff(P1, LOSSLESS), Bytes(1_000 + left), "{accounting:?}, {egress_limits:?}");
        buffer.leave_egress(P1, P0, LOSSLESS, Bytes(6_000));
        assert_eq!(buffer.xoff(P1, LOSSLESS), Bytes(9_000));
    }
}

#[test]
fn egress_limit_bounds_lossy_queues_beyond_their_reserves() {
    let mut buffer = buffer(shared(None), |class| class.lossless = false);
    buffer.enter_egress(P1, P0, Class::ALL[1], Bytes(1_000));
    buffer.enter_egress(P1, P0, Class::ALL[2], Bytes(2_500));
    assert!(buffer.egress_has_room(P1, Class::ALL[2], Bytes(1_500)));
    assert!(!buffer.egress_has_room(P1, Class::ALL[2], Bytes(1_501)));
    buffer.leave_egress(P1, P0, Class::ALL[2], Bytes(2_500));
    assert!(buffer.egress_has_room(P1, Class::ALL[2], Bytes(3_000)));
}

#[test] // proves: lossy-classes
fn egress_limit_spares_class_that_is_lossless_at_one_port() {
    let mut buffer = buffer_by_port(shared(None), |port, class| class.lossless &= port == P0);
    buffer.enter_egress(P1, P0, LOSSY, Bytes(3_000)); // uses the reserve and the whole limit
    assert!(!buffer.egress_has_room(P1, LOSSY, Bytes(1_001)));
    assert!(buffer.egress_has_room(P1, LOSSLESS, Bytes(1_001)), "the limit applies to an exempt class");
    buffer.enter_egress(P0, P1, LOSSLESS, Bytes(5_000));
    buffer.leave_egress(P1, P0, LOSSY, Bytes(1));
    assert!(buffer.egress_has_room(P0, LOSSY, Bytes(1)), "bytes of an exempt class count");
}

fn cut(rng: &mut fastrand::Rng, margin: Margin) -> Vec<u64> {
    let (mut left, mut sizes) = (margin.bytes.0.min(100_000), Vec::new());
    while left > 0 && sizes.len() < margin.frames as usize {
        let is_last = sizes.len() + 1 == margin.frames as usize;
        sizes.push(if is_last { left } else { rng.u64(1..1_519).min(left) });
        left -= sizes.last().unwrap();
    }
    sizes
}

fn pool(bytes: u64, frames: u32) -> LossyPool {
    LossyPool { bytes: Bytes(bytes), frames }
}

#[test]
fn each_lossy_queue_may_take_half_of_the_free_pool() {
    let mut settings = settings_of(Accounting::default(), Memory::Dedicated, |_, _| ());
    settings.lossy_pool = pool(9_000, u32::MAX);
    let mut buffer = Buffer::new(&settings, 2, Counters::new(2));
    let (other, third) = (Class::ALL[5], Class::ALL[6]);
    assert!(buffer.egress_has_room(P0, LOSSY, Bytes(4_500)), "the lossy queue may not take half of the pool");
    assert!(!buffer.egress_has_room(P0, LOSSY, Bytes(4_501)));
    buffer.enter_egress(P1, P0, LOSSY, Bytes(4_500));
    buffer.enter_egress(P1, P0, LOSSLESS, Bytes(9_000));
    assert!(!buffer.egress_has_room(P0, LOSSY, Bytes(1)), "a queue as large as the pool takes a frame");
    assert!(buffer.egress_has_room(P1, other, Bytes(2_250)), "the queue may not take half of the pool");
    assert!(!buffer.egress_has_room(P1, other, Bytes(2_251)));
    buffer.enter_egress(P0, P1, other, Bytes(2_250));
    buffer.leave_egress(P1, P0, LOSSY, Bytes(4_500));
    assert!(buffer.egress_has_room(P0, third, Bytes(3_375)));
    assert!(!buffer.egress_has_room(P0, third, Bytes(3_376)));
    assert!(buffer.egress_has_room(P0, LOSSLESS, Bytes(999)), "lossless queue is bound by the lossy pool");
}

#[test]
fn lossy_pool_is_full_at_frame_limit() {
    let mut settings = settings_of(Accounting::default(), Memory::Dedicated, |_, _| ());
    settings.lossy_pool = pool(9_000, 2);
    let mut buffer = Buffer::new(&settings, 2, Counters::new(2));
    buffer.enter_egress(P1, P0, LOSSY, Bytes(64));
    assert!(buffer.egress_has_room(P1, LOSSY, Bytes(64)), "the queue is full one frame below its limit");
    buffer.enter_egress(P0, P1, LOSSY, Bytes(64));
    assert!(
        !buffer.egress_has_room(P0, Class::ALL[5], Bytes(64)),
        "the queue accepts a frame at its frame limit"
    );
    buffer.leave_egress(P0, P1, LOSSY, Bytes(64));
    assert!(buffer.egress_has_room(P0, Class::ALL[5], Bytes(64)));
}

#[test]
fn lossy_pool_is_divided_among_workers_by_port_count() {
    assert_eq!(pool(9_000, 30).part(1, 3), pool(3_000, 10));
    assert_eq!(pool(9_000, 30).part(3, 3), pool(9_000, 30));
    assert_eq!(LossyPool::UNLIMITED.part(1, 3), LossyPool::UNLIMITED);
    let mut settings = settings_of(Accounting::default(), Memory::Dedicated, |_, _| ());
    settings.lossy_pool = pool(8_000, u32::MAX);
    let buffer = Buffer::new(&settings, 1, Counters::new(2));
    assert!(
        buffer.egress_has_room(P0, LOSSY, Bytes(2_000)),
        "the lossy queue may not take a quarter of the pool"
    );
    assert!(!buffer.egress_has_room(P0, LOSSY, Bytes(2_001)));
}

#[test]
fn queue_made_lossless_leaves_lossy_pool_as_it_drains() {
    let mut settings = settings_of(Accounting::default(), Memory::Dedicated, |_, _| ());
    settings.lossy_pool = pool(8_000, u32::MAX);
    let mut buffer = Buffer::new(&settings, 2, Counters::new(2));
    for size in [2_000, 1_000] {
        buffer.enter_egress(P1, P0, LOSSY, Bytes(size));
    }
    settings.ports[0].classes[LOSSY.index()].lossless = true;
    buffer.revise(&settings);
    buffer.enter_egress(P1, P0, LOSSY, Bytes(2_000));
    let free = |buffer: &Buffer, bytes| {
        let has = |size| buffer.egress_has_room(P1, Class::ALL[5], Bytes(size));
        has(bytes) && !has(bytes + 1)
    };
    assert!(free(&buffer, 2_500), "the queue may not take exactly half of the 5,000 free bytes");
    buffer.leave_egress(P1, P0, LOSSY, Bytes(2_000));
    assert!(free(&buffer, 3_500));
    buffer.leave_egress(P1, P0, LOSSY, Bytes(1_000));
    assert!(free(&buffer, 4_000), "frames of the lossless class count in the pool");
}

#[test]
fn new_limit_of_lossy_pool_counts_frames_queued_earlier() {
    let mut settings = settings_of(Accounting::default(), Memory::Dedicated, |_, _| ());
    let mut buffer = Buffer::new(&settings, 2, Counters::new(2));
    buffer.enter_egress(P1, P0, LOSSY, Bytes(6_000));
    settings.lossy_pool = pool(8_000, u32::MAX);
    buffer.revise(&settings);
    assert!(!buffer.egress_has_room(P0, LOSSY, Bytes(1)));
    assert!(
        buffer.egress_has_room(P1, LOSSY, Bytes(1_000)) && !buffer.egress_has_room(P1, LOSSY, Bytes(1_001))
    );
    buffer.leave_egress(P1, P0, LOSSY, Bytes(6_000));
    assert!(buffer.egress_has_room(P0, LOSSY, Bytes(4_000)));
}

#[test] // proves: batches
fn queue_stays_below_xoff_within_its_reported_margin() {
    for seed in xoff_explore::seeds(0..400) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let alpha = rng.choice([None, None, Some(-2), Some(0), Some(1), Some(3)]).unwrap();
        let memory = if rng.bool() { Memory::Dedicated } else { shared(alpha) };
        let frames = if rng.bool() { u32::MAX } else { rng.u32(1..12) };
        let mut settings = settings_of(Accounting::default(), memory, |_, class| {
            (class.xoff_frames, class.egress_max_frames) = (frames, frames);
        });
        if rng.bool() {
            settings.lossy_pool = pool(rng.u64(0..12_000), rng.u32(1..16));
        }
        let mut buffer = Buffer::new(&settings, 2, Counters::new(2));
        for _ in 0..rng.u8(0..12) {
            let port = rng.choice([P0, P1]).unwrap();
            let class = rng.choice([LOSSLESS, LOSSY, Class::ALL[5]]).unwrap();
            let size = Bytes(rng.u64(64..1_519));
            let entered = buffer.enter_ingress(port, class, size).is_ok();
            if entered && buffer.egress_has_room(port, class, size) {
                buffer.enter_egress(P1, port, class, size);
            }
        }
        let class = rng.choice([LOSSLESS, LOSSY]).unwrap();
        let margin = buffer.margin_below_xoff(P0, class);
        for size in cut(&mut rng, margin) {
            buffer.enter_ingress(P0, class, Bytes(size)).unwrap();
            assert!(!buffer.at_xoff(P0, class), "XOFF within {margin:?}, alpha {alpha:?}");
        }
        if alpha.is_none() || memory == Memory::Dedicated {
            let is_refused = buffer.enter_ingress(P0, class, Bytes(1)).is_err();
            assert!(is_refused || buffer.at_xoff(P0, class), "no XOFF one byte beyond {margin:?}");
        }
        let room = buffer.egress_room(P0, class);
        for size in cut(&mut rng, room) {
            assert!(
                buffer.egress_has_room(P0, class, Bytes(size)),
                "the egress queue was full within its reported room {room:?}"
            );
            buffer.enter_egress(P1, P0, class, Bytes(size));
        }
        assert!(
            !buffer.egress_has_room(P0, class, Bytes(1)),
            "the egress queue accepts a byte beyond its reported room {room:?}"
        );
    }
}

#[test] // proves: batches
fn reported_margin_of_queue_ends_one_byte_below_xoff() {
    let mut buffer = buffer(Memory::Dedicated, |_| ());
    enter(&mut buffer, P0, LOSSLESS, &[9_000]);
    assert_eq!(buffer.margin_below_xoff(P0, LOSSLESS).bytes, Bytes(999));
    buffer.enter_ingress(P0, LOSSLESS, Load { frames: 3, bytes: Bytes(999) }).unwrap();
    assert!(!buffer.at_xoff(P0, LOSSLESS));
    assert!(buffer.margin_below_xoff(P0, LOSSLESS).in_bytes() == Bytes::ZERO);
    enter(&mut buffer, P0, LOSSLESS, &[1]);
    assert!(buffer.at_xoff(P0, LOSSLESS));
}

#[test] // proves: batches
fn reported_margin_of_queue_ends_one_frame_below_xoff_limit() {
    let mut buffer = buffer(Memory::Dedicated, |class| class.xoff_frames = 5);
    enter(&mut buffer, P0, LOSSLESS, &[64]);
    assert_eq!(buffer.margin_below_xoff(P0, LOSSLESS).frames, 3, "limit of 5, 1 queued");
    enter(&mut buffer, P0, LOSSLESS, &[64; 3]);
    assert!(
        !buffer.at_xoff(P0, LOSSLESS) && buffer.margin_below_xoff(P0, LOSSLESS).in_bytes() == Bytes::ZERO
    );
}

#[test] // proves: batches
fn queue_stays_below_xoff_within_margin_as_pool_fills() {
    for alpha_log2 in [None, Some(-7), Some(-1), Some(0), Some(3), Some(6)] {
        let mut buffer = buffer(shared(alpha_log2), |_| ());
        enter(&mut buffer, P1, LOSSLESS, &[1_500]);
        enter(&mut buffer, P0, LOSSLESS, &[100]);
        let margin = buffer.margin_below_xoff(P0, LOSSLESS).bytes;
        for _ in 0..margin.0 {
            enter(&mut buffer, P0, LOSSLESS, &[1]);
            assert!(!buffer.at_xoff(P0, LOSSLESS), "{alpha_log2:?}");
        }
        assert!(margin > Bytes(100), "{alpha_log2:?}: {margin:?}");
    }
}

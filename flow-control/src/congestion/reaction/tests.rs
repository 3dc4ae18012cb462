use proptest::prelude::*;

use super::*;
use xoff_explore::explore;

const EXACT: ReactionSettings = ReactionSettings { jitter_percent: 0, ..ReactionSettings::STANDARD };
const LINE: BitRate = BitRate::from_gbps(10);
const MBPS: u64 = 1_000_000;
const CYCLE: Bytes = EXACT.cycle_bytes;
const HALF_CYCLE: Bytes = Bytes(75_000);
const MS: u64 = 1_000_000;

fn point() -> ReactionPoint {
    ReactionPoint::new(&EXACT, LINE, 1)
}

fn rates(point: &ReactionPoint) -> (u64, u64) {
    (point.rate().bits_per_second() / MBPS, point.target().bits_per_second() / MBPS)
}

#[test]
fn flow_is_unlimited_before_first_cnm() {
    let mut point = point();
    point.sent(Bytes(1 << 40));
    point.advance(Nanos::from_secs(1));
    assert_eq!((point.phase(), point.next_deadline()), (Phase::Unlimited, Nanos::NEVER));
    point.notified(Nanos(0), 0);
    assert_eq!((point.phase(), rates(&point)), (Phase::Unlimited, (10_000, 10_000)));
}

#[test] // proves: qcn; Gd = 1/128: feedback 1 takes 1/128 off, 63 takes 63/128, both of the current rate
fn cnm_reduces_rate_by_feedback() {
    for (feedback, left) in [(1, 127), (32, 96), (63, 65)] {
        let mut point = point();
        point.notified(Nanos(0), feedback);
        assert_eq!(point.rate().bits_per_second(), 10_000 * MBPS / 128 * left);
        assert_eq!((rates(&point).1, point.phase()), (10_000, Phase::FastRecovery));
    }
}

#[test]
fn one_cnm_cuts_rate_at_most_by_half() {
    let greedy = ReactionSettings { decrease_divisor: 63, ..EXACT };
    let mut point = ReactionPoint::new(&greedy, LINE, 1);
    point.notified(Nanos(0), 63);
    assert_eq!(rates(&point), (5_000, 10_000));
}

#[test]
fn qcn_rate_never_falls_below_minimum() {
    let mut point = point();
    (0..100).for_each(|_| point.notified(Nanos(0), 63));
    assert_eq!(rates(&point).0, 10);
    let mut slow = ReactionPoint::new(&EXACT, BitRate::from_mbps(1), 1);
    slow.notified(Nanos(0), 63);
    assert_eq!(slow.rate(), BitRate::from_mbps(1), "minimum rate exceeds the line rate");
}

#[test]
fn second_cnm_within_a_cycle_keeps_target_rate() {
    let mut point = point();
    point.notified(Nanos(0), 32);
    point.notified(Nanos(0), 32);
    assert_eq!(rates(&point), (5_625, 10_000), "second CNM changes the target");
    point.sent(CYCLE);
    assert_eq!(rates(&point), (7_812, 10_000));
    point.notified(Nanos(0), 32);
    assert_eq!(rates(&point), (5_859, 7_812));
}

#[test] // proves: qcn; 150 KB, five cycles: one byte before, at; after each the rate is half way to the target
fn qcn_byte_cycle_moves_rate_half_way_to_target() {
    let mut point = point();
    point.notified(Nanos(0), 63);
    let mut expected = point.rate().bits_per_second();
    for _ in 0..5 {
        point.sent(Bytes(CYCLE.0 - 1));
        assert_eq!(point.rate().bits_per_second(), expected);
        point.sent(Bytes(1));
        expected = expected.midpoint(10_000 * MBPS);
        assert_eq!(point.rate().bits_per_second(), expected);
        assert_eq!((point.phase(), rates(&point).1), (Phase::FastRecovery, 10_000));
    }
}

#[test] // proves: qcn; 15 ms, five cycles: one nanosecond before, at
fn qcn_time_cycle_moves_rate_half_way_to_target() {
    let mut point = point();
    point.notified(Nanos(7), 63);
    let mut expected = point.rate().bits_per_second();
    for cycle in 1..=5 {
        let end = Nanos(7 + 15 * MS * cycle);
        assert_eq!(point.next_deadline(), end);
        point.advance(Nanos(end.0 - 1));
        assert_eq!(point.rate().bits_per_second(), expected);
        point.advance(end);
        expected = expected.midpoint(10_000 * MBPS);
        assert_eq!(point.rate().bits_per_second(), expected);
        assert_eq!(point.phase(), Phase::FastRecovery);
    }
}

fn low() -> ReactionPoint {
    let mut point = point();
    point.target = 4_000 * MBPS;
    point.current = 4_000 * MBPS;
    point.notified(Nanos(0), 63);
    point.current = 2_000 * MBPS;
    point
}

#[test] // proves: qcn; R_AI = 5 Mb/s, cycles of 75 KB
fn qcn_target_rate_rises_after_five_byte_cycles() {
    let mut point = low();
    (0..5).for_each(|_| point.sent(CYCLE));
    assert_eq!((point.phase(), rates(&point).1), (Phase::FastRecovery, 4_000));
    point.sent(CYCLE);
    assert_eq!((point.phase(), rates(&point).1), (Phase::ActiveIncrease, 4_005));
    point.sent(Bytes(HALF_CYCLE.0 - 1));
    assert_eq!(rates(&point).1, 4_005);
    point.sent(Bytes(1));
    assert_eq!(rates(&point).1, 4_010);
}

#[test]
fn qcn_time_cycles_are_half_as_long_after_five_cycles() {
    let mut point = low();
    point.advance(Nanos(6 * 15 * MS));
    assert_eq!((point.phase(), rates(&point).1), (Phase::ActiveIncrease, 4_005));
    assert_eq!(point.next_deadline(), Nanos(6 * 15 * MS + 15 * MS / 2));
}

#[test] // proves: qcn; R_HAI = 50 Mb/s, times the cycles of both kinds beyond five
fn qcn_target_rises_faster_after_five_cycles_of_both_kinds() {
    let mut point = low();
    (0..6).for_each(|_| point.sent(CYCLE));
    point.advance(Nanos(5 * 15 * MS));
    assert_eq!(
        (point.phase(), rates(&point).1),
        (Phase::ActiveIncrease, 4_030),
        "wrong phase or target rate after six byte and five time cycles"
    );
    point.advance(Nanos(6 * 15 * MS));
    assert_eq!((point.phase(), rates(&point).1), (Phase::HyperActiveIncrease, 4_080));
    point.sent(HALF_CYCLE);
    assert_eq!(
        rates(&point).1,
        4_130,
        "the target rate does not rise with the lower of the two cycle counts"
    );
    point.advance(Nanos(6 * 15 * MS + 15 * MS / 2));
    assert_eq!(rates(&point).1, 4_230);
}

#[test]
fn qcn_target_above_ten_times_rate_shrinks_in_first_cycle() {
    let mut point = point();
    point.notified(Nanos(0), 63);
    point.current = 1_000 * MBPS;
    let mut just = point.clone();
    just.sent(CYCLE);
    assert_eq!(rates(&just), (5_500, 10_000), "target of exactly ten times the rate shrinks");
    point.current -= 1;
    point.sent(CYCLE);
    assert_eq!(rates(&point).1, 1_250);
}

#[test]
fn qcn_rate_limiter_ends_at_line_rate() {
    let mut point = point();
    point.notified(Nanos(0), 10);
    let mut cycles = 0;
    while point.phase() != Phase::Unlimited {
        point.sent(CYCLE);
        cycles += 1;
        assert!(cycles < 100);
    }
    assert_eq!((rates(&point), point.next_deadline()), ((10_000, 10_000), Nanos::NEVER));
    assert!(cycles > 5);
}

explore! {
    #[test]
    fn qcn_rate_stays_between_minimum_and_target(
        steps in prop::collection::vec((0u8..4, 0u8..70, 0u64..400_000), 0..200),
        seed: u64,
    ) {
        let mut point = ReactionPoint::new(&ReactionSettings::STANDARD, LINE, seed);
        let mut now = Nanos(0);
        for (what, feedback, amount) in steps {
            let before = point.rate();
            match what {
                0 => {
                    point.notified(now, feedback);
                    prop_assert!(point.rate() <= before);
                }
                1 | 2 => point.sent(Bytes(amount)),
                _ => {
                    now = now.after(Nanos(amount * 100));
                    point.advance(now);
                    prop_assert!(point.next_deadline() > now);
                }
            }
            prop_assert!(what == 0 || point.rate() >= before);
            prop_assert!(point.rate() >= EXACT.rate_min && point.rate() <= LINE);
            prop_assert!(point.rate() <= point.target());
        }
    }
}

//! The brain in virtual time: each threshold one nanosecond before, and at it.

use xoff_flow_control::congestion::ReactionSettings;
use xoff_wire::cnm::{CongestionPointId, Envelope, Msdu};
use xoff_wire::units::{Quanta, RateStep};
use xoff_wire::{MacControlError, Pfc, Rates};

use super::*;
use crate::config::NicWishes;

const ADDRESS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const LINE: BitRate = BitRate::from_gbps(1);
const C3: Class = Class::ALL[3];
const C4: Class = Class::ALL[4];

fn brain(wishes: NicWishes) -> Brain {
    let wishes = NicWishes {
        device: Some("eth0".into()),
        speed: Some(LINE), // a quantum is 512 ns
        lossless: Some(ClassSet(0b1_1000)),
        ..wishes
    };
    Brain::new(&wishes.settings().unwrap(), ADDRESS)
}

fn obedient() -> Brain {
    brain(NicWishes::default())
}

fn with_qcn() -> Brain {
    brain(NicWishes {
        qcn: Some(ReactionSettings { jitter_percent: 0, ..ReactionSettings::STANDARD }),
        ..NicWishes::default()
    })
}

fn pfc(times: &[(Class, u16)]) -> Vec<u8> {
    let pfc = times.iter().fold(Pfc::default(), |pfc, &(class, time)| pfc.with(class, Quanta(time)));
    MacControl::Pfc(pfc).encode(PEER).to_vec()
}

fn rates(class: Class, step: u8, time: u16) -> Vec<u8> {
    let rates = Rates { time: Quanta(time), ..Rates::default() };
    rates.with(class, RateStep::new(step).unwrap()).encode(PEER).to_vec()
}

fn cnm(class: Class, feedback: u8) -> Vec<u8> {
    let cnm = Cnm {
        feedback,
        congestion_point: CongestionPointId([0; 8]),
        q_offset: 0,
        q_delta: 0,
        priority: class,
        destination: PEER,
        msdu: Msdu::of(&[]),
    };
    cnm.encode(&Envelope { dst: ADDRESS, src: PEER, tag: None, cn_tag: None }).as_bytes().to_vec()
}

fn changes(brain: &mut Brain, now: u64) -> Vec<Change> {
    std::iter::from_fn(|| brain.next_change(Nanos(now))).collect()
}

fn ms(ms: u64) -> u64 {
    Nanos::from_millis(ms).0
}

// proves: host-service
#[test]
fn a_link_that_is_lost_takes_pauses_and_rates_along() {
    let mut brain = brain(NicWishes { obey_rates: Some(true), ..NicWishes::default() });
    brain.receive(Nanos(0), &pfc(&[(C3, 20_000)])); // 10.24 ms
    brain.receive(Nanos(0), &rates(C4, 2, 20_000));
    let slower = changes(&mut brain, 0);
    assert_eq!((slower.len(), slower[0]), (2, Change::Stop(C3)));
    brain.link_lost(Nanos(ms(6)));
    assert_eq!(changes(&mut brain, ms(6)), [Change::Start(C3), Change::Limit(C4, LINE)]);
    assert_eq!(
        (brain.next_deadline(), brain.pauses(Nanos(ms(7))).classes[3].paused),
        (Nanos::NEVER, Nanos::from_millis(6))
    );
}

// proves: host-service
#[test]
fn notices_to_the_address_that_a_device_has_by_now_are_obeyed() {
    let mut brain = with_qcn();
    brain.has_address(PEER);
    brain.receive(Nanos(0), &cnm(C3, 63));
    assert_eq!(changes(&mut brain, 0), []);
    brain.has_address(ADDRESS);
    brain.receive(Nanos(0), &cnm(C3, 63));
    assert_eq!(changes(&mut brain, 0).len(), 1);
}

/// Reads the maximum of frames in each turn, all late and for another class.
// proves: host-pauses
#[test]
fn a_flood_of_frames_keeps_no_pause_from_its_end() {
    let mut brain = obedient();
    brain.receive(Nanos(0), &pfc(&[(C3, 10)]));
    assert_eq!(changes(&mut brain, 0), [Change::Stop(C3)]);
    for turn in 1..10 {
        (0..crate::sockets::AT_MOST).for_each(|_| _ = brain.receive(Nanos(turn * 1_000), &pfc(&[(C4, 0)])));
        let expected = if turn == 6 { vec![Change::Start(C3)] } else { vec![] };
        assert_eq!(changes(&mut brain, turn * 1_000), expected, "{turn}");
    }
}

// proves: host-pauses
#[test]
fn a_pause_stops_its_class_for_exactly_its_quanta_and_no_other() {
    let mut brain = obedient();
    assert_eq!((changes(&mut brain, 0), brain.next_deadline()), (vec![], Nanos::NEVER));
    brain.receive(Nanos(100), &pfc(&[(C3, 10)]));
    assert_eq!(changes(&mut brain, 100), [Change::Stop(C3)]);
    assert_eq!((brain.stopped(), brain.peer()), (ClassSet(1 << 3), Some(PEER)));
    assert_eq!(brain.next_deadline(), Nanos(100 + 5_120));
    assert_eq!(changes(&mut brain, 100 + 5_119), []);
    assert_eq!(changes(&mut brain, 100 + 5_120), [Change::Start(C3)]);
    assert_eq!((changes(&mut brain, ms(9)), brain.next_deadline()), (vec![], Nanos::NEVER));
    assert_eq!(brain.pauses(Nanos(ms(9))).classes[3].paused, Nanos(5_120));
}

// proves: host-pauses
#[test]
fn a_refresh_is_no_transition_and_counts_from_when_it_came() {
    let mut brain = obedient();
    brain.receive(Nanos(0), &pfc(&[(C3, 10)]));
    assert_eq!(changes(&mut brain, 0), [Change::Stop(C3)]);
    brain.receive(Nanos(5_119), &pfc(&[(C3, 10)]));
    assert_eq!(changes(&mut brain, 5_119), []);
    assert_eq!(changes(&mut brain, 5_119 + 5_119), []);
    assert_eq!(changes(&mut brain, 5_119 + 5_120), [Change::Start(C3)]);
}

// proves: host-pauses
#[test]
fn the_last_value_wins_and_time_zero_resumes_at_once() {
    let mut brain = obedient();
    brain.receive(Nanos(0), &pfc(&[(C3, 65_535), (C4, 65_535)]));
    assert_eq!(changes(&mut brain, 0), [Change::Stop(C3), Change::Stop(C4)]);
    brain.receive(Nanos(10), &pfc(&[(C3, 1)]));
    assert_eq!(changes(&mut brain, 10 + 511), []);
    assert_eq!(changes(&mut brain, 10 + 512), [Change::Start(C3)], "a shorter time shortens it");
    brain.receive(Nanos(600), &pfc(&[(C4, 0)]));
    assert_eq!(changes(&mut brain, 600), [Change::Start(C4)]);
    assert_eq!(brain.pauses(Nanos(600)).classes[4].xon, 1);
}

#[test]
fn what_ends_before_anybody_asks_is_no_transition() {
    let mut brain = obedient();
    brain.receive(Nanos(0), &pfc(&[(C3, 10)]));
    brain.receive(Nanos(0), &pfc(&[(C3, 0)]));
    assert_eq!(changes(&mut brain, 0), []);
}

#[test]
fn classes_that_stop_come_before_those_that_go_on() {
    let mut brain = obedient();
    brain.receive(Nanos(0), &pfc(&[(C3, 9)]));
    assert_eq!(changes(&mut brain, 0), [Change::Stop(C3)]);
    brain.receive(Nanos(1), &pfc(&[(C3, 0), (C4, 9)]));
    assert_eq!(changes(&mut brain, 1), [Change::Stop(C4), Change::Start(C3)]);
}

// proves: host-pauses
#[test]
fn what_is_malformed_or_for_another_class_stops_nothing_and_is_counted() {
    let mut brain = obedient();
    let mut elsewhere = pfc(&[(C3, 9)]);
    elsewhere[5] = 2;
    let mut tagged = pfc(&[(C3, 9)]);
    tagged.splice(12..12, [0x81, 0, 0, 0]);
    for frame in [&elsewhere[..], &tagged, &pfc(&[(C3, 9)])[..33], &pfc(&[(Class::ALL[5], 9)]), &[0; 5]] {
        brain.receive(Nanos(0), frame);
    }
    brain.receive(Nanos(0), &MacControl::Pause(Quanta(9)).encode(PEER));
    assert_eq!((changes(&mut brain, 0), brain.peer()), (vec![], None));
    let counts = brain.pauses(Nanos(0));
    let refused = |reason: MacControlError| counts.refused[reason.index()];
    use MacControlError::{Tagged, Truncated, WrongDestination};
    assert_eq!([Tagged, WrongDestination, Truncated].map(refused), [1, 1, 1]);
    assert_eq!((counts.pfc_frames, counts.pause_frames, counts.ignored), (1, 1, 2));
}

// proves: host-service
#[test]
fn a_rate_holds_for_its_time_and_only_where_rates_are_obeyed() {
    let mut brain = brain(NicWishes { obey_rates: Some(true), ..NicWishes::default() });
    let quarter = BitRate::from_mbps(250);
    brain.receive(Nanos(ms(10)), &rates(C3, 2, 65_535)); // 33.5 ms
    assert_eq!(changes(&mut brain, ms(10)), [Change::Limit(C3, quarter)]);
    let end = ms(10) + 65_535 * 512;
    assert_eq!(brain.next_deadline(), Nanos(end));
    assert_eq!(changes(&mut brain, end - 1), []);
    assert_eq!(changes(&mut brain, end), [Change::Limit(C3, LINE)]);
    let mut plain = obedient();
    plain.receive(Nanos(0), &rates(C3, 2, 65_535));
    assert_eq!(changes(&mut plain, 0), []);
}

#[test]
fn a_rate_changes_no_more_often_than_a_bucket_can_bear_and_then_to_the_last() {
    let mut brain = brain(NicWishes { obey_rates: Some(true), ..NicWishes::default() });
    let part = |step: u8| RateStep::new(step).unwrap().of(LINE);
    brain.receive(Nanos(0), &rates(C3, 1, 65_535));
    assert_eq!(changes(&mut brain, 0), [Change::Limit(C3, part(1))]);
    brain.receive(Nanos(1), &rates(C3, 2, 65_535));
    brain.receive(Nanos(2), &rates(C3, 3, 65_535));
    assert_eq!((changes(&mut brain, 2), brain.next_deadline()), (vec![], LIMIT_EVERY));
    assert_eq!(changes(&mut brain, LIMIT_EVERY.0 - 1), []);
    assert_eq!(changes(&mut brain, LIMIT_EVERY.0), [Change::Limit(C3, part(3))]);
}

#[test]
fn a_stopped_class_gets_its_rate_when_it_goes_on() {
    let mut brain = brain(NicWishes { obey_rates: Some(true), ..NicWishes::default() });
    brain.receive(Nanos(0), &pfc(&[(C3, 10)]));
    brain.receive(Nanos(0), &rates(C3, 1, 65_535));
    assert_eq!(changes(&mut brain, 0), [Change::Stop(C3)]);
    assert_eq!(brain.next_deadline(), Nanos(5_120));
    let half = BitRate::from_mbps(500);
    assert_eq!(changes(&mut brain, 5_120), [Change::Start(C3), Change::Limit(C3, half)]);
}

// proves: host-service
#[test]
fn a_cnm_slows_its_class_down_and_time_brings_it_back() {
    let mut brain = with_qcn();
    brain.receive(Nanos(0), &cnm(C4, 63));
    let slower = brain.rate(C4);
    assert!(slower < LINE && slower >= BitRate::from_mbps(500), "{slower:?}");
    assert_eq!(changes(&mut brain, 0), [Change::Limit(C4, slower)]);
    assert_eq!((brain.counted(), brain.notices().0, brain.notices().1[4]), (ClassSet(1 << 4), 1, 1));
    // The first time cycle recovers half of the decrease.
    assert_eq!(brain.next_deadline(), Nanos(ms(15)));
    assert_eq!(changes(&mut brain, ms(15) - 1), []);
    let [Change::Limit(class, faster)] = changes(&mut brain, ms(15))[..] else { panic!("no rate") };
    assert!(class == C4 && faster > slower && faster < LINE, "{faster:?}");
    while brain.next_deadline() != Nanos::NEVER {
        let now = brain.next_deadline();
        assert!(now < Nanos::from_secs(10), "it does not come back");
        changes(&mut brain, now.0);
    }
    assert_eq!((brain.rate(C4), brain.counted()), (LINE, ClassSet::NONE));
}

// proves: host-service
#[test]
fn what_a_limited_class_has_sent_ends_its_cycles_of_bytes() {
    let mut brain = with_qcn();
    brain.receive(Nanos(0), &cnm(C3, 63));
    let slower = brain.rate(C3);
    brain.carried(C3, Bytes(7_000));
    brain.carried(C3, Bytes(7_000 + 149_999));
    assert_eq!(brain.rate(C3), slower);
    brain.carried(C3, Bytes(7_000 + 159_999));
    assert!(brain.rate(C3) > slower);
    brain.carried(C4, Bytes(1_000_000_000)); // has no limit
    assert_eq!(brain.rate(C4), LINE);
}

// proves: host-service
#[test]
fn what_a_class_has_sent_before_it_was_limited_ends_no_cycle() {
    let mut brain = with_qcn();
    brain.carried(C3, Bytes(0));
    for round in 1..=2 {
        let before = Bytes(round * 1_000_000_000);
        brain.receive(brain.next_deadline().min(Nanos::from_secs(round)), &cnm(C3, 63));
        let slower = brain.rate(C3);
        assert!(slower < LINE && brain.counts_anew());
        brain.carried(C3, before);
        assert_eq!((brain.rate(C3), brain.counts_anew()), (slower, false));
        while brain.next_deadline() != Nanos::NEVER {
            let now = brain.next_deadline();
            changes(&mut brain, now.0);
        }
        assert_eq!(brain.rate(C3), LINE);
    }
}

// proves: host-guard
#[test]
fn what_the_kernel_refuses_is_asked_for_again() {
    let mut brain = brain(NicWishes { obey_rates: Some(true), ..NicWishes::default() });
    brain.receive(Nanos(0), &pfc(&[(C3, 65_535)])); // 33.5 ms
    assert_eq!(changes(&mut brain, 0), [Change::Stop(C3)]);
    brain.refused(Nanos(0), Change::Stop(C3));
    assert_eq!((changes(&mut brain, 0), brain.stopped()), (vec![], ClassSet::NONE));
    assert_eq!(brain.next_deadline(), AGAIN_EVERY);
    assert_eq!(changes(&mut brain, AGAIN_EVERY.0), [Change::Stop(C3)]);

    let now = AGAIN_EVERY.0 + 1;
    brain.receive(Nanos(now), &pfc(&[(C3, 0)]));
    assert_eq!(changes(&mut brain, now), [Change::Start(C3)]);
    brain.refused(Nanos(now), Change::Start(C3));
    assert_eq!((changes(&mut brain, now), brain.stopped()), (vec![], ClassSet(1 << 3)));
    assert_eq!(brain.next_deadline(), Nanos(now + AGAIN_EVERY.0));
    let now = now + AGAIN_EVERY.0;
    assert_eq!(changes(&mut brain, now), [Change::Start(C3)]);
    assert_eq!(brain.next_deadline(), Nanos::NEVER);

    brain.receive(Nanos(now), &rates(C3, 2, 65_535));
    let limit = [Change::Limit(C3, BitRate::from_mbps(250))];
    assert_eq!(changes(&mut brain, now), limit);
    brain.refused(Nanos(now), limit[0]);
    assert_eq!((changes(&mut brain, now), brain.next_deadline()), (vec![], Nanos(now + AGAIN_EVERY.0)));
    assert_eq!(changes(&mut brain, now + AGAIN_EVERY.0), limit);
}

// proves: host-guard
#[test]
fn what_somebody_else_opens_is_stopped_again_while_it_is_paused() {
    let mut brain = obedient();
    brain.receive(Nanos(0), &pfc(&[(C3, 65_535)]));
    assert_eq!(changes(&mut brain, 0), [Change::Stop(C3)]);
    brain.opened(C3);
    assert_eq!(changes(&mut brain, 1), [Change::Stop(C3)]);
    assert_eq!(changes(&mut brain, 2), []);
}

#[test]
fn a_pause_counts_from_when_it_came_and_one_that_is_over_stops_nothing() {
    let mut brain = obedient();
    assert_eq!(changes(&mut brain, ms(9)), []);
    assert_eq!(brain.receive(Nanos(ms(8)), &pfc(&[(C3, 10)])), ClassSet(1 << 3));
    assert_eq!(changes(&mut brain, ms(9)), []);
    brain.receive(Nanos(ms(8)), &pfc(&[(C3, 65_535)]));
    assert_eq!(changes(&mut brain, ms(9)), [Change::Stop(C3)]);
    assert_eq!(brain.next_deadline(), Nanos(ms(8) + 65_535 * 512));
}

#[test]
fn a_cnm_for_somebody_else_or_without_qcn_slows_nothing() {
    let mut other = cnm(C3, 63);
    other[5] = 7;
    let mut brain = with_qcn();
    brain.receive(Nanos(0), &other);
    brain.receive(Nanos(0), &cnm(C3, 63)[..20]);
    assert_eq!((changes(&mut brain, 0), brain.notices().0), (vec![], 0));
    assert_eq!(brain.notices().2.iter().sum::<u64>(), 1);
    let mut plain = obedient();
    plain.receive(Nanos(0), &cnm(C3, 63));
    assert_eq!((changes(&mut plain, 0), plain.notices().0), (vec![], 1), "counted");
}

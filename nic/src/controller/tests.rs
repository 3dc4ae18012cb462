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

fn controller(wishes: NicWishes) -> PauseController {
    let wishes = NicWishes {
        device: Some("eth0".into()),
        speed: Some(LINE), // a quantum is 512 ns
        lossless: Some(ClassSet(0b1_1000)),
        ..wishes
    };
    PauseController::new(&wishes.settings().unwrap(), ADDRESS)
}

fn obedient() -> PauseController {
    controller(NicWishes::default())
}

fn with_qcn() -> PauseController {
    controller(NicWishes {
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

fn changes(controller: &mut PauseController, now: u64) -> Vec<Change> {
    std::iter::from_fn(|| controller.next_change(Nanos(now))).collect()
}

fn ms(ms: u64) -> u64 {
    Nanos::from_millis(ms).0
}

#[test] // proves: host-service
fn link_loss_ends_pauses_and_rate_limits_of_the_agent() {
    let mut controller = controller(NicWishes { obey_rates: Some(true), ..NicWishes::default() });
    controller.receive(Nanos(0), &pfc(&[(C3, 20_000)])); // a pause of 10.24 ms
    controller.receive(Nanos(0), &rates(C4, 2, 20_000));
    let slower = changes(&mut controller, 0);
    assert_eq!((slower.len(), slower[0]), (2, Change::Stop(C3)));
    controller.link_lost(Nanos(ms(6)));
    assert_eq!(changes(&mut controller, ms(6)), [Change::Start(C3), Change::Limit(C4, LINE)]);
    assert_eq!(
        (controller.next_deadline(), controller.pauses(Nanos(ms(7))).classes[3].paused),
        (Nanos::NEVER, Nanos::from_millis(6))
    );
}

#[test] // proves: host-service
fn agent_obeys_cnm_to_the_new_address_of_its_device() {
    let mut controller = with_qcn();
    controller.set_address(PEER);
    controller.receive(Nanos(0), &cnm(C3, 63));
    assert_eq!(changes(&mut controller, 0), []);
    controller.set_address(ADDRESS);
    controller.receive(Nanos(0), &cnm(C3, 63));
    assert_eq!(changes(&mut controller, 0).len(), 1);
}

#[test] // proves: host-pauses
fn frame_flood_does_not_delay_end_of_pause() {
    let mut controller = obedient();
    controller.receive(Nanos(0), &pfc(&[(C3, 10)]));
    assert_eq!(changes(&mut controller, 0), [Change::Stop(C3)]);
    for turn in 1..10 {
        (0..crate::sockets::AT_MOST)
            .for_each(|_| _ = controller.receive(Nanos(turn * 1_000), &pfc(&[(C4, 0)])));
        let expected = if turn == 6 { vec![Change::Start(C3)] } else { vec![] };
        assert_eq!(changes(&mut controller, turn * 1_000), expected, "{turn}");
    }
}

#[test] // proves: host-pauses
fn pfc_frame_stops_only_its_class_for_exactly_its_pause_time() {
    let mut controller = obedient();
    assert_eq!((changes(&mut controller, 0), controller.next_deadline()), (vec![], Nanos::NEVER));
    controller.receive(Nanos(100), &pfc(&[(C3, 10)]));
    assert_eq!(changes(&mut controller, 100), [Change::Stop(C3)]);
    assert_eq!((controller.stopped(), controller.peer()), (ClassSet(1 << 3), Some(PEER)));
    assert_eq!(controller.next_deadline(), Nanos(100 + 5_120));
    assert_eq!(changes(&mut controller, 100 + 5_119), []);
    assert_eq!(changes(&mut controller, 100 + 5_120), [Change::Start(C3)]);
    assert_eq!((changes(&mut controller, ms(9)), controller.next_deadline()), (vec![], Nanos::NEVER));
    assert_eq!(controller.pauses(Nanos(ms(9))).classes[3].paused, Nanos(5_120));
}

#[test] // proves: host-pauses
fn refreshed_pause_lasts_from_arrival_of_the_refresh() {
    let mut controller = obedient();
    controller.receive(Nanos(0), &pfc(&[(C3, 10)]));
    assert_eq!(changes(&mut controller, 0), [Change::Stop(C3)]);
    controller.receive(Nanos(5_119), &pfc(&[(C3, 10)]));
    assert_eq!(changes(&mut controller, 5_119), []);
    assert_eq!(changes(&mut controller, 5_119 + 5_119), []);
    assert_eq!(changes(&mut controller, 5_119 + 5_120), [Change::Start(C3)]);
}

#[test] // proves: host-pauses
fn newer_pause_time_replaces_older_and_zero_resumes_class() {
    let mut controller = obedient();
    controller.receive(Nanos(0), &pfc(&[(C3, 65_535), (C4, 65_535)]));
    assert_eq!(changes(&mut controller, 0), [Change::Stop(C3), Change::Stop(C4)]);
    controller.receive(Nanos(10), &pfc(&[(C3, 1)]));
    assert_eq!(changes(&mut controller, 10 + 511), []);
    assert_eq!(
        changes(&mut controller, 10 + 512),
        [Change::Start(C3)],
        "a shorter pause time did not shorten the pause"
    );
    controller.receive(Nanos(600), &pfc(&[(C4, 0)]));
    assert_eq!(changes(&mut controller, 600), [Change::Start(C4)]);
    assert_eq!(controller.pauses(Nanos(600)).classes[4].xon, 1);
}

#[test]
fn pause_revoked_before_next_poll_never_stops_its_class() {
    let mut controller = obedient();
    controller.receive(Nanos(0), &pfc(&[(C3, 10)]));
    controller.receive(Nanos(0), &pfc(&[(C3, 0)]));
    assert_eq!(changes(&mut controller, 0), []);
}

#[test]
fn agent_stops_paused_classes_before_it_starts_resumed_ones() {
    let mut controller = obedient();
    controller.receive(Nanos(0), &pfc(&[(C3, 9)]));
    assert_eq!(changes(&mut controller, 0), [Change::Stop(C3)]);
    controller.receive(Nanos(1), &pfc(&[(C3, 0), (C4, 9)]));
    assert_eq!(changes(&mut controller, 1), [Change::Stop(C4), Change::Start(C3)]);
}

#[test] // proves: host-pauses
fn malformed_or_misaddressed_pause_frames_are_only_counted() {
    let mut controller = obedient();
    let mut other_destination = pfc(&[(C3, 9)]);
    other_destination[5] = 2;
    let mut tagged = pfc(&[(C3, 9)]);
    tagged.splice(12..12, [0x81, 0, 0, 0]);
    for frame in
        [&other_destination[..], &tagged, &pfc(&[(C3, 9)])[..33], &pfc(&[(Class::ALL[5], 9)]), &[0; 5]]
    {
        controller.receive(Nanos(0), frame);
    }
    controller.receive(Nanos(0), &MacControl::Pause(Quanta(9)).encode(PEER));
    assert_eq!((changes(&mut controller, 0), controller.peer()), (vec![], None));
    let counts = controller.pauses(Nanos(0));
    let refused = |reason: MacControlError| counts.refused[reason.index()];
    use MacControlError::{Tagged, Truncated, WrongDestination};
    assert_eq!([Tagged, WrongDestination, Truncated].map(refused), [1, 1, 1]);
    assert_eq!((counts.pfc_frames, counts.pause_frames, counts.ignored), (1, 1, 2));
}

#[test] // proves: host-service
fn gfc_rate_expires_and_is_obeyed_only_if_enabled() {
    let mut controller = controller(NicWishes { obey_rates: Some(true), ..NicWishes::default() });
    let quarter = BitRate::from_mbps(250);
    controller.receive(Nanos(ms(10)), &rates(C3, 2, 65_535)); // a rate for 33.5 ms
    assert_eq!(changes(&mut controller, ms(10)), [Change::Limit(C3, quarter)]);
    let end = ms(10) + 65_535 * 512;
    assert_eq!(controller.next_deadline(), Nanos(end));
    assert_eq!(changes(&mut controller, end - 1), []);
    assert_eq!(changes(&mut controller, end), [Change::Limit(C3, LINE)]);
    let mut plain = obedient();
    plain.receive(Nanos(0), &rates(C3, 2, 65_535));
    assert_eq!(changes(&mut plain, 0), []);
}

#[test]
fn only_last_of_rate_changes_within_5_ms_is_applied() {
    let mut controller = controller(NicWishes { obey_rates: Some(true), ..NicWishes::default() });
    let part = |step: u8| RateStep::new(step).unwrap().of(LINE);
    controller.receive(Nanos(0), &rates(C3, 1, 65_535));
    assert_eq!(changes(&mut controller, 0), [Change::Limit(C3, part(1))]);
    controller.receive(Nanos(1), &rates(C3, 2, 65_535));
    controller.receive(Nanos(2), &rates(C3, 3, 65_535));
    assert_eq!((changes(&mut controller, 2), controller.next_deadline()), (vec![], LIMIT_EVERY));
    assert_eq!(changes(&mut controller, LIMIT_EVERY.0 - 1), []);
    assert_eq!(changes(&mut controller, LIMIT_EVERY.0), [Change::Limit(C3, part(3))]);
}

#[test]
fn rate_limit_of_stopped_class_is_set_when_class_resumes() {
    let mut controller = controller(NicWishes { obey_rates: Some(true), ..NicWishes::default() });
    controller.receive(Nanos(0), &pfc(&[(C3, 10)]));
    controller.receive(Nanos(0), &rates(C3, 1, 65_535));
    assert_eq!(changes(&mut controller, 0), [Change::Stop(C3)]);
    assert_eq!(controller.next_deadline(), Nanos(5_120));
    let half = BitRate::from_mbps(500);
    assert_eq!(changes(&mut controller, 5_120), [Change::Start(C3), Change::Limit(C3, half)]);
}

#[test] // proves: host-service
fn cnm_slows_its_class_until_qcn_rate_recovers() {
    let mut controller = with_qcn();
    controller.receive(Nanos(0), &cnm(C4, 63));
    let slower = controller.rate(C4);
    assert!(slower < LINE && slower >= BitRate::from_mbps(500), "{slower:?}");
    assert_eq!(changes(&mut controller, 0), [Change::Limit(C4, slower)]);
    assert_eq!(
        (controller.counted(), controller.notices().0, controller.notices().1[4]),
        (ClassSet(1 << 4), 1, 1)
    );
    // Expect the reaction point's first timer cycle, which restores half of the decrease.
    assert_eq!(controller.next_deadline(), Nanos(ms(15)));
    assert_eq!(changes(&mut controller, ms(15) - 1), []);
    let [Change::Limit(class, faster)] = changes(&mut controller, ms(15))[..] else {
        panic!("the class got no rate")
    };
    assert!(class == C4 && faster > slower && faster < LINE, "{faster:?}");
    while controller.next_deadline() != Nanos::NEVER {
        let now = controller.next_deadline();
        assert!(now < Nanos::from_secs(10), "the class did not return to the line rate within 10 s");
        changes(&mut controller, now.0);
    }
    assert_eq!((controller.rate(C4), controller.counted()), (LINE, ClassSet::NONE));
}

#[test] // proves: host-service
fn qcn_rate_rises_after_class_sends_one_byte_cycle() {
    let mut controller = with_qcn();
    controller.receive(Nanos(0), &cnm(C3, 63));
    let slower = controller.rate(C3);
    controller.report_sent(C3, Bytes(7_000));
    controller.report_sent(C3, Bytes(7_000 + 149_999));
    assert_eq!(controller.rate(C3), slower);
    controller.report_sent(C3, Bytes(7_000 + 159_999));
    assert!(controller.rate(C3) > slower);
    controller.report_sent(C4, Bytes(1_000_000_000)); // has no limit
    assert_eq!(controller.rate(C4), LINE);
}

#[test] // proves: host-service
fn qcn_byte_cycle_ignores_bytes_sent_before_its_rate_limit() {
    let mut controller = with_qcn();
    controller.report_sent(C3, Bytes(0));
    for round in 1..=2 {
        let before = Bytes(round * 1_000_000_000);
        controller.receive(controller.next_deadline().min(Nanos::from_secs(round)), &cnm(C3, 63));
        let slower = controller.rate(C3);
        assert!(slower < LINE && controller.needs_first_report());
        controller.report_sent(C3, before);
        assert_eq!((controller.rate(C3), controller.needs_first_report()), (slower, false));
        while controller.next_deadline() != Nanos::NEVER {
            let now = controller.next_deadline();
            changes(&mut controller, now.0);
        }
        assert_eq!(controller.rate(C3), LINE);
    }
}

#[test] // proves: host-guard
fn queue_change_refused_by_kernel_is_retried_every_10_ms() {
    let mut controller = controller(NicWishes { obey_rates: Some(true), ..NicWishes::default() });
    controller.receive(Nanos(0), &pfc(&[(C3, 65_535)])); // a pause of 33.5 ms
    assert_eq!(changes(&mut controller, 0), [Change::Stop(C3)]);
    controller.refused(Nanos(0), Change::Stop(C3));
    assert_eq!((changes(&mut controller, 0), controller.stopped()), (vec![], ClassSet::NONE));
    assert_eq!(controller.next_deadline(), AGAIN_EVERY);
    assert_eq!(changes(&mut controller, AGAIN_EVERY.0), [Change::Stop(C3)]);

    let now = AGAIN_EVERY.0 + 1;
    controller.receive(Nanos(now), &pfc(&[(C3, 0)]));
    assert_eq!(changes(&mut controller, now), [Change::Start(C3)]);
    controller.refused(Nanos(now), Change::Start(C3));
    assert_eq!((changes(&mut controller, now), controller.stopped()), (vec![], ClassSet(1 << 3)));
    assert_eq!(controller.next_deadline(), Nanos(now + AGAIN_EVERY.0));
    let now = now + AGAIN_EVERY.0;
    assert_eq!(changes(&mut controller, now), [Change::Start(C3)]);
    assert_eq!(controller.next_deadline(), Nanos::NEVER);

    controller.receive(Nanos(now), &rates(C3, 2, 65_535));
    let limit = [Change::Limit(C3, BitRate::from_mbps(250))];
    assert_eq!(changes(&mut controller, now), limit);
    controller.refused(Nanos(now), limit[0]);
    assert_eq!(
        (changes(&mut controller, now), controller.next_deadline()),
        (vec![], Nanos(now + AGAIN_EVERY.0))
    );
    assert_eq!(changes(&mut controller, now + AGAIN_EVERY.0), limit);
}

#[test] // proves: host-guard
fn agent_stops_paused_class_again_after_guard_opened_it() {
    let mut controller = obedient();
    controller.receive(Nanos(0), &pfc(&[(C3, 65_535)]));
    assert_eq!(changes(&mut controller, 0), [Change::Stop(C3)]);
    controller.opened(C3);
    assert_eq!(changes(&mut controller, 1), [Change::Stop(C3)]);
    assert_eq!(changes(&mut controller, 2), []);
}

#[test]
fn pause_in_frame_read_late_lasts_from_arrival_of_the_frame() {
    let mut controller = obedient();
    assert_eq!(changes(&mut controller, ms(9)), []);
    assert_eq!(controller.receive(Nanos(ms(8)), &pfc(&[(C3, 10)])), ClassSet(1 << 3));
    assert_eq!(changes(&mut controller, ms(9)), []);
    controller.receive(Nanos(ms(8)), &pfc(&[(C3, 65_535)]));
    assert_eq!(changes(&mut controller, ms(9)), [Change::Stop(C3)]);
    assert_eq!(controller.next_deadline(), Nanos(ms(8) + 65_535 * 512));
}

#[test]
fn cnm_for_another_host_or_without_qcn_limits_nothing() {
    let mut other = cnm(C3, 63);
    other[5] = 7;
    let mut controller = with_qcn();
    controller.receive(Nanos(0), &other);
    controller.receive(Nanos(0), &cnm(C3, 63)[..20]);
    assert_eq!((changes(&mut controller, 0), controller.notices().0), (vec![], 0));
    assert_eq!(controller.notices().2.iter().sum::<u64>(), 1);
    let mut plain = obedient();
    plain.receive(Nanos(0), &cnm(C3, 63));
    assert_eq!((changes(&mut plain, 0), plain.notices().0), (vec![], 1), "the CNM was not counted");
}

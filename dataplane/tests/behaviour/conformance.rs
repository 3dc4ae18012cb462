//! Requirements of 802.1Qbb for both ends of a link, exact to the nanosecond.
//!
//! At 1 Gb/s, a frame of 1514 bytes takes 12,304 ns and a pause frame 672 ns. The cable delays both by 500 ns.

// Tests for SPECIFICATION.md: pause-timing

use xoff_flow_control::settings::FlowControl;
use xoff_wire::mac_control::{MacControl, MacControlError, Pfc};
use xoff_wire::units::{Bytes, Class, ClassSet, MacAddr, Nanos, PortId, Quanta};

use crate::bed::plan::{self, CABLE, GIGABIT, LINK, MTU_FRAME};
use crate::bed::{Flow, Star, SwitchPlan};
use crate::{C0, C3, C4, resume, stop};

const FRAME: Nanos = Nanos(12_304);
const PAUSE: Nanos = Nanos(672);
const QUANTUM: Nanos = Nanos(512);

fn span(n: u64, unit: Nanos) -> Nanos {
    Nanos(n * unit.0)
}

fn busy(plan: SwitchPlan, class: Class) -> (Star, Flow) {
    let mut star = Star::new(plan);
    let flow = star.start(1, 0, star.stream(0, class, 5_000));
    star.run_for(Nanos::from_micros(200));
    (star, flow)
}

fn gigabit() -> SwitchPlan {
    plan::switch(&[LINK; 2])
}

fn next_start(star: &Star, flow: Flow, ahead: Nanos) -> Nanos {
    let last_left = Nanos(star.received(flow).last_at.0 - CABLE.0);
    let frames = (star.now() + ahead).since(last_left).0.div_ceil(FRAME.0);
    last_left + span(frames, FRAME)
}

fn pause_just_before_a_start(star: &mut Star, flow: Flow, control: MacControl) -> Nanos {
    let arrival = Nanos(next_start(star, flow, Nanos(5_000)).0 - 1);
    star.run_until(Nanos(arrival.0 - CABLE.0 - PAUSE.0));
    star.pause(0, control);
    arrival
}

fn first_after(star: &Star, flow: Flow, at: Nanos) -> Nanos {
    let on_its_way = at + CABLE + Nanos(1);
    star.arrivals(flow)
        .into_iter()
        .find(|&arrival| arrival > on_its_way)
        .expect("no frame arrived after the pause")
}

#[test]
fn pause_duration_is_nanosecond_exact() {
    for quanta in [1_u16, 10, 100, 1000, 65535] {
        let (mut star, flow) = busy(gigabit(), C3);
        let at = pause_just_before_a_start(&mut star, flow, stop(C3, quanta));
        star.run_for(Nanos::from_millis(35));
        let resumed = at + span(quanta.into(), QUANTUM);
        assert_eq!(first_after(&star, flow, at), resumed + FRAME + CABLE, "{quanta} quanta");
    }
}

#[test]
fn unpaused_class_gets_whole_line_during_pause_of_another() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    let paused = star.start(1, 0, star.stream(0, C3, 4_000));
    let other = star.start(2, 0, star.stream(0, C4, 4_000));
    star.run_for(Nanos::from_millis(1));
    star.pause(0, stop(C3, 0xffff));
    let begins = star.now() + PAUSE + CABLE;
    star.run_for(Nanos::from_millis(40));
    let ends = begins + span(0xffff, QUANTUM);
    let between = |&at: &Nanos| at > begins + FRAME + CABLE && at < ends + FRAME + CABLE;
    assert_eq!(star.arrivals(paused).iter().filter(|at| between(at)).count(), 0);
    let first = star.arrivals(paused).into_iter().find(|&at| at >= ends + FRAME + CABLE);
    assert!(first.is_some_and(|at| at <= ends + FRAME + FRAME + CABLE));
    let of_other = star.arrivals(other).into_iter().filter(between).collect::<Vec<_>>();
    assert!(
        of_other.windows(2).all(|two| two[1] == two[0] + FRAME),
        "the unpaused class did not get the whole line"
    );
}

#[test]
fn pause_time_zero_resumes_immediately() {
    let (mut star, flow) = busy(gigabit(), C3);
    let at = pause_just_before_a_start(&mut star, flow, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(777));
    star.pause(0, resume(C3));
    let resumed = star.now() + PAUSE + CABLE;
    star.run_for(Nanos::from_millis(1));
    assert_eq!(first_after(&star, flow, at), resumed + FRAME + CABLE);
}

#[test]
fn later_pause_frame_replaces_earlier_pause_time() {
    for (first, last) in [(1000, 200), (200, 1000)] {
        let (mut star, flow) = busy(gigabit(), C3);
        let at = pause_just_before_a_start(&mut star, flow, stop(C3, first));
        star.run_until(at);
        star.pause(0, stop(C3, last));
        star.run_for(Nanos::from_millis(1));
        let resumed = at + PAUSE + CABLE + span(last.into(), QUANTUM);
        assert_eq!(first_after(&star, flow, at), resumed + FRAME + CABLE);
    }
}

#[test]
fn pause_times_of_eight_classes_expire_separately() {
    let quanta = |class: Class| 40 + 30 * u16::from(class.get());
    let all =
        Class::ALL.into_iter().fold(Pfc::default(), |pfc, class| pfc.with(class, Quanta(quanta(class))));
    for class in Class::ALL {
        let mut plan = gigabit();
        plan.each_port(|port| {
            port.flow_control = FlowControl::Pfc { obey: ClassSet::ALL, send: plan::LOSSLESS }
        });
        let (mut star, flow) = busy(plan, class);
        let at = pause_just_before_a_start(&mut star, flow, MacControl::Pfc(all));
        star.run_for(Nanos::from_millis(1));
        let resumed = at + span(quanta(class).into(), QUANTUM);
        assert_eq!(
            first_after(&star, flow, at),
            resumed + FRAME + CABLE,
            "wrong end of the pause of class {class}"
        );
    }
}

#[test]
fn pause_quantum_lasts_512_bit_times() {
    for mbps in [100, 2_500, 10_000] {
        let speed = xoff_wire::units::BitRate::from_mbps(mbps);
        let mut star = Star::new(plan::switch(&[xoff_flow_control::headroom::Link { speed, ..LINK }; 2]));
        star.pause(0, stop(C3, 1000));
        let at = Nanos(Bytes::on_line(60).0 * 8_000 / mbps) + CABLE;
        star.run_until(at + Nanos(1));
        let paused = star.switch().worker(PortId(0)).paused(PortId(0)).next_expiry();
        assert_eq!(paused, at + Nanos(512_000_000 / mbps));
    }
}

fn changes_nothing(plan: SwitchPlan, class: Class, bytes: &[u8]) -> Star {
    let arrivals = |bytes: Option<&[u8]>| {
        let (mut star, flow) = busy(plan.clone(), class);
        if let Some(bytes) = bytes {
            star.inject(0, bytes);
        }
        star.run_for(Nanos::from_millis(2));
        let came = (star.arrivals(flow), star.at(1).strange.clone());
        (star, came)
    };
    let (star, with) = arrivals(Some(bytes));
    let (_, without) = arrivals(None);
    assert_eq!(with, without);
    star
}

fn malformed(star: &Star, error: MacControlError) -> u64 {
    star.switch().counters.port(PortId(0)).malformed_control[error.index()].get()
}

fn xoff_bytes() -> [u8; 60] {
    stop(C3, 0xffff).encode(MacAddr([2, 0, 0, 0, 0, 9]))
}

#[test]
fn pfc_time_of_class_without_enable_bit_is_ignored() {
    let mut bytes = xoff_bytes();
    bytes[17] = 0;
    bytes[18..34].fill(0xff);
    let star = changes_nothing(gigabit(), C3, &bytes);
    assert_eq!(star.switch().counters.port(PortId(0)).pfc_frames_received.get(), 1);
}

#[test]
fn xon_received_without_preceding_pause_changes_nothing() {
    let all = Class::ALL.into_iter().fold(Pfc::default(), |pfc, class| pfc.with(class, Quanta(0)));
    changes_nothing(gigabit(), C3, &MacControl::Pfc(all).encode(MacAddr([2; 6])));
}

#[test]
fn pause_frame_of_8023x_is_ignored_under_pfc() {
    let star = changes_nothing(gigabit(), C3, &MacControl::Pause(Quanta(0xffff)).encode(MacAddr([2; 6])));
    let port = star.switch().counters.port(PortId(0));
    assert_eq!((port.pause_frames_received.get(), port.pause_frames_ignored.get()), (1, 1));
}

#[test] // proves: pause-modes
fn mac_control_with_unknown_opcode_is_consumed_and_counted() {
    let mut bytes = xoff_bytes();
    bytes[15] = 0x02;
    let star = changes_nothing(gigabit(), C3, &bytes);
    assert_eq!(malformed(&star, MacControlError::UnknownOpcode), 1);
}

#[test] // proves: pause-modes
fn pfc_frame_to_wrong_address_is_ignored() {
    for dst in [[0x01, 0x80, 0xc2, 0, 0, 2], [0xff; 6], [2, 0, 0, 0, 0, 2]] {
        let mut bytes = xoff_bytes();
        bytes[..6].copy_from_slice(&dst);
        let star = changes_nothing(gigabit(), C3, &bytes);
        assert_eq!(malformed(&star, MacControlError::WrongDestination), 1, "{dst:x?}");
    }
}

#[test] // proves: pause-modes
fn only_802_3x_port_obeys_pause_to_its_own_address() {
    let frames = |plan: &SwitchPlan| {
        let pause = MacControl::Pause(Quanta(0xffff)).encode(MacAddr([2; 6]));
        [pause, xoff_bytes()].map(|mut bytes| {
            bytes[..6].copy_from_slice(&plan.settings.ports[0].mac.0);
            bytes
        })
    };
    let mut plan = gigabit();
    for bytes in frames(&plan) {
        let star = changes_nothing(plan.clone(), C3, &bytes);
        assert_eq!(malformed(&star, MacControlError::WrongDestination), 1);
    }
    plan.each_port(|port| port.flow_control = FlowControl::Pause8023x);
    let [pause, pfc] = frames(&plan);
    assert_eq!(malformed(&changes_nothing(plan.clone(), C3, &pfc), MacControlError::WrongDestination), 1);
    let (mut star, _) = busy(plan, C3);
    star.inject(0, &pause);
    star.run_for(Nanos::from_micros(100));
    assert_eq!(star.switch().counters.port(PortId(0)).pause_frames_received.get(), 1);
    assert!(star.switch().worker(PortId(0)).paused(PortId(0)).classes() == ClassSet::ALL);
}

#[test]
fn truncated_pfc_frame_is_ignored() {
    let star = changes_nothing(gigabit(), C3, &xoff_bytes()[..33]);
    assert_eq!(malformed(&star, MacControlError::Truncated), 1);
}

#[test] // proves: pause-modes
fn tagged_pfc_frame_is_ignored() {
    let plain = xoff_bytes();
    let bytes = [&plain[..12], &[0x81, 0x00, 0x60, 0x00], &plain[12..]].concat();
    let star = changes_nothing(gigabit(), C3, &bytes);
    assert_eq!(malformed(&star, MacControlError::Tagged), 1);
}

#[test] // proves: pause-modes
fn pfc_frame_pauses_no_class_or_port_that_does_not_obey_pfc() {
    changes_nothing(gigabit(), C0, &stop(C0, 0xffff).encode(MacAddr([2; 6])));
    let mut plan = gigabit();
    plan.each_port(|port| port.flow_control = FlowControl::Ignore);
    let star = changes_nothing(plan, C3, &xoff_bytes());
    assert_eq!(star.switch().counters.port(PortId(0)).pause_frames_ignored.get(), 1);
}

#[test] // proves: pause-modes
fn reserved_bits_and_padding_of_pfc_frame_are_ignored() {
    let mut dirty = xoff_bytes();
    dirty[6..12].fill(0);
    dirty[16] = 0xff;
    dirty[34..].fill(0xff);
    let (mut star, flow) = busy(gigabit(), C3);
    let at = next_start(&star, flow, Nanos(5_000));
    star.run_until(Nanos(at.0 - 1 - CABLE.0 - PAUSE.0));
    star.inject(0, &dirty);
    star.run_for(Nanos::from_millis(2));
    assert_eq!(star.received(flow).last_at, at + CABLE, "a frame was sent during the pause");
    let fdb = star.switch().worker(PortId(0)).bridge().fdb();
    assert_eq!(fdb.len(), 2, "an address was learned from MAC control");
}

fn held() -> (Star, Nanos) {
    let mut star = Star::new(gigabit());
    star.pause(0, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(10));
    let start = star.now();
    star.start(1, 0, star.stream(0, C3, 100));
    // XOFF is due at 30,000 bytes, which the 20th frame reaches.
    let crossing = start + span(20, FRAME) + CABLE;
    star.run_for(Nanos::from_millis(2));
    (star, crossing)
}

#[test] // proves: pause-frames
fn sent_pfc_xoff_frame_has_exactly_the_bytes_of_802_1qbb() {
    let (star, _) = held();
    let (_, bytes) = &star.at(1).controls[0];
    let mut expected = [0; 60];
    expected[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1]);
    expected[6..12].copy_from_slice(&star.switch().settings.ports[1].mac.0);
    expected[12..18].copy_from_slice(&[0x88, 0x08, 0x01, 0x01, 0, 0b1000]);
    expected[24..26].copy_from_slice(&1000_u16.to_be_bytes());
    assert_eq!(bytes[..], expected);
}

#[test]
fn xoff_is_sent_at_threshold_and_refreshed() {
    let (star, crossing) = held();
    let refresh = star.switch().settings.ports[1].refresh;
    let times: Vec<Nanos> = star.at(1).controls.iter().map(|&(at, _)| at).collect();
    let expected: Vec<Nanos> =
        (0..times.len() as u64).map(|n| crossing + span(n, refresh) + PAUSE + CABLE).collect();
    assert!(times.len() >= 4, "too few refreshes of XOFF: {times:?}");
    assert_eq!(times, expected);
    let counted = star.switch().counters.class(PortId(1), C3);
    assert_eq!((counted.xoff_sent.get(), counted.refreshes_sent.get()), (1, times.len() as u64 - 1));
}

#[test]
fn xon_is_sent_when_queue_falls_below_xon_threshold() {
    let (mut star, _) = held();
    star.pause(0, resume(C3));
    let resumed = star.now() + PAUSE + CABLE;
    star.run_for(Nanos::from_millis(1));
    let held_bytes = star.switch().counters.class(PortId(1), C3).ingress_watermark.get();
    let to_leave = (held_bytes - plan::XON.0) / Bytes::of_frame(MTU_FRAME).0 + 1;
    let below = resumed + span(to_leave, FRAME);
    let (at, xon) = star.at(1).pauses().into_iter().find(|(_, what)| *what == resume(C3)).expect("an XON");
    assert_eq!((at, xon), (below + PAUSE + CABLE, resume(C3)));
}

#[test]
fn pauses_of_two_classes_share_one_frame() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    let both = Pfc::default().with(C3, Quanta(0xffff)).with(C4, Quanta(0xffff));
    star.pause(0, MacControl::Pfc(both));
    star.run_for(Nanos::from_micros(10));
    for class in [C3, C4] {
        star.start(1, 0, star.stream(0, class, 100));
    }
    star.run_for(Nanos::from_millis(3));
    let pauses = star.at(1).pauses();
    let last_two = &pauses[pauses.len() - 2..];
    let refreshed = Pfc::default().with(C3, Quanta(1000)).with(C4, Quanta(1000));
    assert!(last_two.iter().all(|(_, what)| *what == MacControl::Pfc(refreshed)));
    assert_eq!(last_two[1].0.since(last_two[0].0), star.switch().settings.ports[1].refresh);
}

#[test] // proves: pause-modes
fn port_with_8023x_pause_pauses_all_classes() {
    let mut plan = plan::switch(&[LINK; 3]);
    plan.each_port(|port| port.flow_control = FlowControl::Pause8023x);
    let mut star = Star::new(plan);
    star.pause(0, MacControl::Pause(Quanta(0xffff)));
    star.run_for(Nanos(1_200));
    let flows = [C0, C3, C4].map(|class| star.start(1, 0, star.stream(0, class, 100)));
    star.run_for(Nanos::from_millis(2));
    assert_eq!(star.at(0).arrivals, [], "a frame left a paused port");
    let pauses = star.at(1).pauses();
    assert!(pauses.iter().all(|(_, what)| *what == MacControl::Pause(Quanta(1000))), "{pauses:?}");
    assert_eq!(star.at(1).paused(star.now()), ClassSet::ALL);
    star.run_to_rest();
    flows[1..].iter().for_each(|&flow| star.assert_whole(flow, 100));
    assert_eq!(star.at(1).pauses().last().map(|(_, what)| *what), Some(MacControl::Pause(Quanta(0))));
    assert_eq!(star.at(1).paused(star.now()), ClassSet::NONE);
    assert_eq!(GIGABIT.time_of_quanta(Quanta(1)), QUANTUM);
}

//! Receivers that are slow: they take frames at their own pace, and hold their switch to what waits.

use xoff_dataplane::counters::ClassCounters;
use xoff_dataplane::units::{BitRate, Bytes, Class, Nanos, PortId};
use xoff_sim::flows::{FlowFabric, FlowRecord, HostSettings, RoceSettings, SlowReceiver, Transport};
use xoff_sim::{At, Picos, Seed};

use super::{LINE, LOSSLESS, LOSSY, as_they_are, check, dropped, flow, run, star};

/// Payload of a frame, and what it takes in a buffer, and of a line of 20 Gb/s.
const PAYLOAD: u64 = 1_456;
const FRAME: u64 = 1_518;
const TAKES: Picos = Picos(1_538 * 400);

/// As slow as a fifth of its line, with room for as much as may come.
const SLOW: SlowReceiver = SlowReceiver {
    rate: BitRate::from_gbps(20),
    buffer: Bytes(10_000_000),
    xoff: Bytes(100_000),
    xon: Bytes(50_000),
    begin: Picos::ZERO,
    end: Picos::NEVER,
};

/// Hosts 0 and 1 at one switch, the second of which is slow.
fn fabric(told: SlowReceiver, settings: HostSettings) -> FlowFabric {
    let mut fabric = FlowFabric::new(&star(&[LINE; 2], as_they_are), Seed(1), settings);
    fabric.slow_down(1, told);
    fabric
}

/// So many frames of a class for the slow host.
fn frames(told: SlowReceiver, class: Class, count: u64) -> (FlowFabric, FlowRecord) {
    let mut fabric = fabric(told, HostSettings::default());
    fabric.add(xoff_sim::flows::FlowPlan { class, ..flow(0, 1, count * PAYLOAD) });
    fabric.run_to_end(Picos::from_micros(100_000));
    fabric.fabric_mut().run_to_rest();
    check(&fabric);
    let record = fabric.record(0);
    (fabric, record)
}

/// What the switch knows of the port to the slow host.
fn at_port(fabric: &FlowFabric, seen: impl Fn(&ClassCounters) -> u64) -> u64 {
    seen(fabric.fabric().switches()[0].counters().class(PortId(1), LOSSLESS))
}

#[test]
fn a_slow_receiver_takes_frames_at_its_pace_to_the_picosecond_and_loses_none() {
    let (fabric, record) = frames(SLOW, LOSSLESS, 2_000);
    let first = fabric.alone().time_of(&flow(0, 1, PAYLOAD));
    assert_eq!(record.took(), Some(Picos(first.0 + 2_000 * TAKES.0)));
    assert_eq!((dropped(&fabric), fabric.fabric().hosts()[1].dropped()), (0, 0));
    assert!(at_port(&fabric, |class| class.paused_nanos.get()) > 0, "its switch was held");
    assert!(
        fabric.fabric().hosts()[0].gate().counts(Nanos::ZERO).pfc_frames > 0,
        "and held the sender in turn"
    );
}

#[test]
fn the_switch_is_held_at_xoff_and_goes_on_below_xon() {
    let told = |xoff, xon| SlowReceiver { xoff: Bytes(xoff), xon: Bytes(xon), ..SLOW };
    let held = |told| at_port(&frames(told, LOSSLESS, 10).0, |class| class.xoff_received.get());
    // Ten frames come five times as fast as they are taken: when the last is there, one of them has been.
    assert_eq!([9 * FRAME, 9 * FRAME + 1].map(|xoff| held(told(xoff, FRAME))), [1, 0]);
    let paused =
        |xon| at_port(&frames(told(9 * FRAME, xon), LOSSLESS, 10).0, |class| class.paused_nanos.get());
    let [at_frame, below, at_two] = [FRAME, FRAME + 1, 2 * FRAME].map(paused);
    assert_eq!(at_two, below, "less than two frames wait as less than one and a byte do");
    // To a nanosecond, which is what the dataplane counts by.
    assert!((at_frame - below).abs_diff(TAKES.floor().0) <= 1, "the last frame is one more to be waited for");
}

#[test]
fn a_class_that_is_not_paused_for_it_loses_what_finds_no_room() {
    for (buffer, lost) in [(9 * FRAME, 0), (9 * FRAME - 1, 1)] {
        let told = SlowReceiver { buffer: Bytes(buffer), xoff: Bytes(100), xon: Bytes(50), ..SLOW };
        let (fabric, record) = frames(told, LOSSY, 10);
        assert_eq!(fabric.fabric().hosts()[1].dropped(), lost, "{buffer}");
        assert_eq!(record.finish.is_none(), lost > 0);
    }
}

#[test]
fn it_is_slow_from_its_beginning_to_its_end() {
    let ideal = frames(SlowReceiver { begin: Picos::NEVER, ..SLOW }, LOSSLESS, 100).1;
    assert_eq!(ideal.took(), Some(ideal.ideal), "it has not begun to be slow");
    let (begin, end) = (Picos::from_micros(5), Picos::from_micros(20));
    let (_, record) = frames(SlowReceiver { begin, end, ..SLOW }, LOSSLESS, 100);
    let slow = frames(SLOW, LOSSLESS, 100).1;
    assert!(ideal.took() < record.took() && record.took() < slow.took());
    // It has taken 24 frames more slowly, each by four fifths of what it takes.
    let late = record.took().expect("it has ended").since(ideal.ideal);
    assert!(late.0.abs_diff(24 * TAKES.0 * 4 / 5) < 2 * TAKES.0, "{late:?}");
}

#[test]
fn what_it_holds_is_told_again_when_its_link_is_back_and_refreshed() {
    // The first eleven frames of 12 us each are waiting when the link goes.
    let told =
        SlowReceiver { rate: BitRate::from_gbps(1), xoff: Bytes(10 * FRAME), xon: Bytes(FRAME), ..SLOW };
    let mut fabric = fabric(told, HostSettings::default());
    fabric.add(flow(0, 1, 100 * PAYLOAD));
    fabric.run_until(Picos::from_micros(5));
    assert_eq!(at_port(&fabric, |class| class.xoff_received.get()), 1);
    fabric.fabric_mut().set_link(At::Host(1), false);
    fabric.run_until(Picos::from_micros(6));
    fabric.fabric_mut().set_link(At::Host(1), true);
    fabric.run_until(Picos::from_micros(10));
    assert_eq!(at_port(&fabric, |class| class.xoff_received.get()), 2);
    // 65,535 quanta of a line of 100 Gb/s are 335 us.
    fabric.run_until(Picos::from_micros(400));
    assert!(at_port(&fabric, |class| class.xoff_received.get()) > 2);
}

/// Its own line carries a frame whenever a pause is due again.
#[test]
fn a_receiver_that_sends_refreshes_its_pause_behind_the_frame_on_its_line() {
    let told =
        SlowReceiver { rate: BitRate::from_mbps(100), xoff: Bytes(10 * FRAME), xon: Bytes(FRAME), ..SLOW };
    let mut fabric = fabric(told, HostSettings::default());
    fabric.add(flow(0, 1, 100 * PAYLOAD));
    fabric.add(flow(1, 0, 10_000 * PAYLOAD));
    fabric.run_until(Picos::from_micros(400));
    assert!(at_port(&fabric, |class| class.xoff_received.get()) > 2);
}

#[test]
fn acknowledgements_wait_for_what_is_taken_and_nothing_is_sent_again() {
    let roce = RoceSettings { timeout: Picos::from_micros(10_000), ..RoceSettings::default() };
    let mut fabric =
        fabric(SLOW, HostSettings { transport: Transport::Roce(roce), ..HostSettings::default() });
    fabric.add(flow(0, 1, 500 * PAYLOAD));
    fabric.add(flow(1, 0, 500 * PAYLOAD));
    let records = run(&mut fabric);
    assert_eq!(records.iter().map(|record| record.frames_resent + record.timeouts).sum::<u32>(), 0);
    assert!(records[0].took() > records[1].took(), "what it sends is not slow");
    assert!(records[0].took().expect("it has ended").0 >= 500 * TAKES.0);
}

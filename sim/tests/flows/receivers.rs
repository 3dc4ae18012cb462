// Tests for SPECIFICATION.md: sim-hosts

use xoff_flow_control::counters::ClassCounters;
use xoff_flow_control::settings::EcnSettings;
use xoff_sim::flows::{
    FlowFabric, FlowPlan, FlowRecord, HostSettings, RoceSettings, SlowReceiver, Transport,
};
use xoff_sim::{At, Pace, Picos, Seed};
use xoff_wire::units::{BitRate, Bytes, Class, Nanos, PortId};

use super::{LINE, LOSSLESS, LOSSY, as_they_are, check, dropped, flow, line, run, star};

/// Payload of a frame in bytes; `FRAME` is its size in a buffer, `TAKES` its transmission time at 20 Gb/s.
const PAYLOAD: u64 = 1_456;
const FRAME: u64 = 1_518;
const TAKES: Picos = Picos(1_538 * 400);

const SLOW: SlowReceiver = SlowReceiver {
    rate: BitRate::from_gbps(20),
    buffer: Bytes(10_000_000),
    xoff: Bytes(100_000),
    xon: Bytes(50_000),
    begin: Picos::ZERO,
    end: Picos::NEVER,
};

fn fabric(receiver: SlowReceiver, settings: HostSettings) -> FlowFabric {
    let mut fabric = FlowFabric::new(&star(&[LINE; 2], as_they_are), Seed(1), settings);
    fabric.slow_down(1, receiver);
    fabric
}

fn frames(receiver: SlowReceiver, class: Class, count: u64) -> (FlowFabric, FlowRecord) {
    let mut fabric = fabric(receiver, HostSettings::default());
    fabric.add(FlowPlan { class, ..flow(0, 1, count * PAYLOAD) });
    fabric.run_to_end(Picos::from_micros(100_000));
    fabric.fabric_mut().run_to_rest();
    check(&fabric);
    let record = fabric.record(0);
    (fabric, record)
}

fn at_port(fabric: &FlowFabric, counter: impl Fn(&ClassCounters) -> u64) -> u64 {
    counter(fabric.fabric().switches()[0].counters().class(PortId(1), LOSSLESS))
}

#[test]
fn slow_receiver_processes_frames_at_exactly_its_rate() {
    let (fabric, record) = frames(SLOW, LOSSLESS, 2_000);
    let first = fabric.alone().time_of(&flow(0, 1, PAYLOAD), 0);
    assert_eq!(record.took(), Some(Picos(first.0 + 2_000 * TAKES.0)));
    assert_eq!((dropped(&fabric), fabric.fabric().hosts()[1].dropped(LOSSLESS)), (0, 0));
    assert!(at_port(&fabric, |class| class.paused_nanos.get()) > 0, "the slow receiver sent no pause");
    assert!(
        fabric.fabric().hosts()[0].gate().counts(Nanos::ZERO).pfc_frames > 0,
        "the switch sent no pause to the sender"
    );
}

#[test]
fn slow_receiver_sends_xoff_and_xon_at_its_thresholds() {
    let receiver = |xoff, xon| SlowReceiver { xoff: Bytes(xoff), xon: Bytes(xon), ..SLOW };
    let held = |receiver| at_port(&frames(receiver, LOSSLESS, 10).0, |class| class.xoff_received.get());
    // Frames arrive five times as fast as they are processed: when the last of ten arrives, one has been processed.
    assert_eq!([9 * FRAME, 9 * FRAME + 1].map(|xoff| held(receiver(xoff, FRAME))), [1, 0]);
    let paused =
        |xon| at_port(&frames(receiver(9 * FRAME, xon), LOSSLESS, 10).0, |class| class.paused_nanos.get());
    let [at_frame, below, at_two] = [FRAME, FRAME + 1, 2 * FRAME].map(paused);
    assert_eq!(at_two, below, "XON thresholds between one and two frames end the pause at different times");
    // Times of the dataplane are accurate to a nanosecond.
    assert!(
        (at_frame - below).abs_diff(TAKES.floor().0) <= 1,
        "an XON threshold lower by a byte does not extend the pause by one frame"
    );
}

#[test]
fn slow_receiver_drops_lossy_frames_beyond_its_buffer() {
    // The first frame is processed just when the sixth arrives; the second, after the tenth's arrival.
    for (count, buffer, lost) in
        [(10, 9 * FRAME, 0), (10, 9 * FRAME - 1, 1), (6, 5 * FRAME, 0), (6, 5 * FRAME - 1, 1)]
    {
        let receiver = SlowReceiver { buffer: Bytes(buffer), xoff: Bytes(100), xon: Bytes(50), ..SLOW };
        let (fabric, record) = frames(receiver, LOSSY, count);
        let lost_of = |class| fabric.fabric().hosts()[1].dropped(class);
        assert_eq!([LOSSY, LOSSLESS].map(lost_of), [lost, 0], "{buffer}");
        assert_eq!(record.finish.is_none(), lost > 0);
        let switch = fabric.fabric().switches()[0].counters();
        let (ignored, lossy) =
            (switch.port(PortId(1)).pause_frames_ignored.get(), switch.class(PortId(1), LOSSY));
        assert!(ignored > 0 && lossy.paused_nanos.get() == 0, "the switch obeyed a pause of a lossy class");
    }
}

#[test]
fn each_class_of_slow_receiver_has_its_own_buffer() {
    let mut fabric = fabric(SlowReceiver { buffer: Bytes(9 * FRAME), ..SLOW }, HostSettings::default());
    for class in [LOSSLESS, LOSSY] {
        fabric.add(FlowPlan { class, ..flow(0, 1, 9 * PAYLOAD) });
    }
    let records = run(&mut fabric);
    assert_eq!([LOSSLESS, LOSSY].map(|class| fabric.fabric().hosts()[1].dropped(class)), [0, 0]);
    assert!(records.iter().all(|record| record.finish.is_some()));
}

#[test]
fn slow_period_includes_its_start_and_excludes_its_end() {
    let ideal = frames(SlowReceiver { begin: Picos::NEVER, ..SLOW }, LOSSLESS, 1).1;
    let comes = ideal.finish.expect("the flow has not ended");
    let took = |begin, end| frames(SlowReceiver { begin, end, ..SLOW }, LOSSLESS, 1).1.took();
    let (at_once, slowly) = (ideal.took(), ideal.took().map(|took| took.after(TAKES)));
    let later = comes.after(Picos(1));
    assert_eq!([later, comes].map(|begin| took(begin, Picos::NEVER)), [at_once, slowly]);
    assert_eq!([comes, later].map(|end| took(Picos::ZERO, end)), [at_once, slowly]);
}

#[test]
fn receiver_is_slow_only_in_its_slow_period() {
    let ideal = frames(SlowReceiver { begin: Picos::NEVER, ..SLOW }, LOSSLESS, 100).1;
    assert_eq!(ideal.took(), Some(ideal.ideal), "wrong time of a flow before the slow period");
    let (begin, end) = (Picos::from_micros(5), Picos::from_micros(20));
    let (_, record) = frames(SlowReceiver { begin, end, ..SLOW }, LOSSLESS, 100);
    let slow = frames(SLOW, LOSSLESS, 100).1;
    assert!(ideal.took() < record.took() && record.took() < slow.took());
    // 24 frames arrive in the slow period, each delayed by four fifths of its processing time.
    let late = record.took().expect("the flow has not ended").since(ideal.ideal);
    assert!(late.0.abs_diff(24 * TAKES.0 * 4 / 5) < 2 * TAKES.0, "{late:?}");
    let (_, longer) = frames(SlowReceiver { begin, end, ..SLOW }, LOSSLESS, 400);
    assert_eq!(longer.out_of_order, 0, "frames after the slow period overtook buffered frames");
}

fn held_at_ten(rate: BitRate) -> FlowFabric {
    let receiver = SlowReceiver { rate, xoff: Bytes(10 * FRAME), xon: Bytes(FRAME), ..SLOW };
    let mut fabric = fabric(receiver, HostSettings::default());
    fabric.add(flow(0, 1, 100 * PAYLOAD));
    fabric
}

#[test] // proves: sim-results
fn slow_receiver_records_pauses_from_xoff_to_xon() {
    let mut fabric = held_at_ten(BitRate::from_gbps(1));
    let pauses = |fabric: &FlowFabric| fabric.fabric().hosts()[1].pauses(0).to_vec();
    while at_port(&fabric, |class| class.xoff_received.get()) == 0 {
        fabric.fabric_mut().step(Picos::NEVER);
    }
    let xoff_received_at = fabric.fabric().now().floor();
    let [pause] = pauses(&fabric)[..] else { panic!("{:?}", pauses(&fabric)) };
    assert_eq!((pause.class, pause.end, pause.refreshes), (LOSSLESS, None, 0));
    let on_its_way = Pace::of(LINE.rate).time_of(Bytes::on_line(60)).after(LINE.delay);
    assert!(
        xoff_received_at.since(pause.start).0.abs_diff(on_its_way.floor().0) <= 1,
        "{pause:?} {xoff_received_at:?}"
    );
    run(&mut fabric);
    let pauses = pauses(&fabric);
    assert!(pauses.len() > 1 && pauses.iter().all(|pause| pause.end.is_some_and(|end| end > pause.start)));
    assert!(pauses.windows(2).all(|two| two[0].end.is_some_and(|end| end < two[1].start)));
    let xoffs: u64 = pauses.iter().map(|pause| 1 + pause.refreshes).sum();
    assert_eq!(at_port(&fabric, |class| class.xoff_received.get()), xoffs);
    let held: u64 = pauses.iter().filter_map(|pause| Some(pause.end?.since(pause.start).0)).sum();
    let paused = at_port(&fabric, |class| class.paused_nanos.get());
    assert!(held.abs_diff(paused) <= 2 * pauses.len() as u64, "{held} {paused}");
}

#[test]
fn slow_receiver_repeats_pause_after_link_recovery() {
    let mut fabric = held_at_ten(BitRate::from_gbps(1));
    fabric.run_until(Picos::from_micros(5));
    assert_eq!(at_port(&fabric, |class| class.xoff_received.get()), 1);
    fabric.fabric_mut().set_link(At::Host(1, 0), false);
    fabric.run_until(Picos::from_micros(6));
    fabric.fabric_mut().set_link(At::Host(1, 0), true);
    fabric.run_until(Picos::from_micros(10));
    assert_eq!(at_port(&fabric, |class| class.xoff_received.get()), 2);
    let [first, lost, again] = fabric.fabric().hosts()[1].pauses(0) else {
        panic!("the slow receiver did not record exactly three pauses")
    };
    assert_eq!(
        [first.end, lost.end, again.end],
        [Some(Nanos::from_micros(5)), Some(Nanos::from_micros(6)), None]
    );
    // A pause lasts 335 us, so after 400 us it must have been repeated.
    fabric.run_until(Picos::from_micros(400));
    assert!(at_port(&fabric, |class| class.xoff_received.get()) > 2);
}

/// Half of a pause of 65,535 quanta at 100 Gb/s is just below 167,770 ns. A receiver that
/// processes 1 Mb/s takes no frame meanwhile.
#[test]
fn slow_receiver_refreshes_pause_at_exactly_half_its_time() {
    let mut fabric = held_at_ten(BitRate::from_mbps(1));
    let xoffs = |fabric: &FlowFabric| at_port(fabric, |class| class.xoff_received.get());
    while xoffs(&fabric) == 0 {
        fabric.fabric_mut().step(Picos::NEVER);
    }
    let again = fabric.fabric().now().after(Picos::from_nanos(335_540 / 2));
    fabric.run_until(Picos(again.0 - 1_000));
    assert_eq!(xoffs(&fabric), 1);
    fabric.run_until(again);
    assert_eq!(xoffs(&fabric), 2);
}

#[test]
fn slow_receiver_refreshes_pause_after_its_own_frame() {
    let receiver =
        SlowReceiver { rate: BitRate::from_mbps(100), xoff: Bytes(10 * FRAME), xon: Bytes(FRAME), ..SLOW };
    let mut fabric = fabric(receiver, HostSettings::default());
    fabric.add(flow(0, 1, 100 * PAYLOAD));
    fabric.add(flow(1, 0, 10_000 * PAYLOAD));
    fabric.run_until(Picos::from_micros(400));
    assert!(at_port(&fabric, |class| class.xoff_received.get()) > 2);
}

#[test]
fn slow_receiver_keeps_ecn_mark_of_buffered_frame() {
    let ecn = EcnSettings { min: Bytes(0), max: Bytes(1), probability: 1.0, wred: false };
    let plan = star(&[LINE, line(10, 500)], |_, settings| settings.ecn = Some(ecn));
    let marked = |begin| {
        let transport = Transport::Roce(RoceSettings::default());
        let mut fabric =
            FlowFabric::new(&plan, Seed(1), HostSettings { transport, ..HostSettings::default() });
        fabric.slow_down(1, SlowReceiver { rate: BitRate::from_gbps(9), begin, ..SLOW });
        fabric.add(flow(0, 1, 20 * PAYLOAD));
        run(&mut fabric)[0].marked
    };
    let at_once = marked(Picos::NEVER);
    assert!(at_once >= 18, "{at_once}");
    assert_eq!(marked(Picos::ZERO), at_once);
}

#[test]
fn slow_receiver_delays_acks_without_retransmissions() {
    let roce = RoceSettings { timeout: Picos::from_micros(10_000), ..RoceSettings::default() };
    let mut fabric =
        fabric(SLOW, HostSettings { transport: Transport::Roce(roce), ..HostSettings::default() });
    fabric.add(flow(0, 1, 500 * PAYLOAD));
    fabric.add(flow(1, 0, 500 * PAYLOAD));
    let records = run(&mut fabric);
    assert_eq!(records.iter().map(|record| record.frames_resent + record.timeouts).sum::<u32>(), 0);
    assert!(records[0].took() > records[1].took(), "the flow that the slow receiver sends was slow, too");
    assert!(records[0].took().expect("the flow has not ended").0 >= 500 * TAKES.0);
}

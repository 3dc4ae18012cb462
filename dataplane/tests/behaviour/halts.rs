// Tests for SPECIFICATION.md: pipeline

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{Accounting, Memory, SharedMemory, WhenFull};
use xoff_wire::units::{Bytes, Class, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::{Flow, Star, Stream};
use crate::{C0, C3, resume, stop};

const PAUSE_DELAY: Nanos = Nanos(672 + 500);
const SENT: Nanos = Nanos(8_160);

fn frames(star: &Star, to: usize, class: Class, count: u64) -> Stream {
    Stream { len: 996, ..star.stream(to, class, count) }
}

fn crowded(waiting: u64) -> (Star, Flow) {
    let mut plan = plan::switch(&[LINK; 4]);
    plan.settings.accounting = Accounting::UntilForwarded;
    plan.settings.when_full = WhenFull::Stop;
    plan.settings.ports[2].classes[C3.index()].egress_max = Bytes(3_001);
    let mut star = Star::new(plan);
    star.pause(2, stop(C3, 0xffff));
    star.run_for(PAUSE_DELAY);
    let stream = frames(&star, 2, C3, waiting);
    let crowd = star.start(0, 2, stream);
    star.run_for(Nanos::from_micros(100));
    (star, crowd)
}

fn others(star: &mut Star) -> [Flow; 4] {
    [(0, C3), (0, C0), (1, C3), (1, C0)].map(|(from, class)| {
        let stream = frames(star, 3, class, 1);
        star.start(from, 3, stream)
    })
}

fn passed(waiting: u64) -> [u64; 4] {
    let (mut star, crowd) = crowded(waiting);
    let others = others(&mut star);
    star.run_for(Nanos::from_micros(100));
    let passed = others.map(|flow| star.received(flow).frames);
    star.pause(2, resume(C3));
    star.run_to_rest();
    star.assert_whole(crowd, waiting);
    others.into_iter().for_each(|flow| star.assert_whole(flow, 1));
    passed
}

#[test]
fn full_egress_queue_halts_all_ports_and_classes() {
    assert_eq!(passed(3), [1, 1, 1, 1]);
    assert_eq!(passed(4), [0, 0, 0, 0]);
}

#[test]
fn pipeline_halt_ends_when_frame_has_left_full_queue() {
    let (mut star, _) = crowded(4);
    others(&mut star);
    star.run_for(Nanos::from_micros(100));
    let waiting = |star: &Star| {
        let buffer = star.switch().worker(PortId(0)).buffer();
        [(0, C3), (0, C0), (1, C3), (1, C0)].map(|(port, class)| buffer.ingress(PortId(port), class).0)
    };
    star.pause(2, resume(C3));
    let leaves = star.now() + PAUSE_DELAY + SENT;
    star.run_until(Nanos(leaves.0 - 1));
    assert_eq!(
        waiting(&star),
        [2_000, 1_000, 1_000, 1_000],
        "the halting frame does not count at its ingress"
    );
    star.run_until(leaves);
    assert_eq!(waiting(&star), [0; 4]);
    star.run_to_rest();
}

#[test]
fn frame_that_halted_pipeline_is_forwarded_first() {
    let (mut star, crowd) = crowded(4);
    let beside = [0, 1, 3].map(|from| {
        let stream = frames(&star, 2, C3, 1);
        star.start(from, 2, stream)
    });
    let stream = frames(&star, 2, Class::ALL[7], 1);
    let higher = star.start(0, 2, stream);
    star.run_for(Nanos::from_micros(100));
    assert_eq!(star.received(higher).frames, 0, "a frame passed during the halt");
    star.pause(2, resume(C3));
    star.run_to_rest();
    let order: Vec<u32> = star.at(2).arrivals.iter().map(|(_, mark)| mark.stream).collect();
    let place =
        |flow: Flow| order.iter().rposition(|&stream| stream == flow.id).expect("a frame did not arrive");
    assert!(beside.into_iter().all(|flow| place(crowd) < place(flow)), "{order:?}");
}

#[test]
fn pipeline_halt_ends_when_full_queue_is_dropped_by_link_loss() {
    let (mut star, crowd) = crowded(4);
    let others = others(&mut star);
    star.run_for(Nanos::from_micros(100));
    star.set_link(2, false);
    star.run_to_rest();
    others.into_iter().for_each(|flow| star.assert_whole(flow, 1));
    assert_eq!(star.lost(crowd), 4);
    assert_eq!(
        star.switch().counters.dropped(DropReason::LinkDown),
        4,
        "queued and halting frames were not all dropped"
    );
}

/// Returns the number of halts, the start of the current halt (0 if none), and the total duration of earlier halts in ns.
fn halts(star: &Star, port: u8) -> (u64, u64, u64) {
    let counters = star.switch().counters.class(PortId(port), C3);
    (counters.halts.get(), counters.halted_since.get(), counters.halted_nanos.get())
}

#[test]
fn pipeline_halt_is_counted_at_the_full_egress_queue() {
    let came = Nanos(PAUSE_DELAY.0 + 4 * SENT.0 + 500);
    let (mut star, _) = crowded(4);
    assert_eq!(halts(&star, 2), (1, came.0, 0));
    star.pause(2, resume(C3));
    let left = star.now() + PAUSE_DELAY + SENT;
    star.run_until(left);
    assert_eq!(halts(&star, 2), (1, 0, left.since(came).0));
    star.run_to_rest();
    assert_eq!([0, 1, 3].map(|port| halts(&star, port)), [(0, 0, 0); 3]);
}

#[test]
fn failed_retry_of_halted_frame_counts_no_second_halt() {
    let mut plan = plan::switch(&[LINK; 4]);
    plan.settings.accounting = Accounting::UntilForwarded;
    plan.settings.when_full = WhenFull::Stop;
    plan.settings.ports[2].classes[C3.index()].egress_max = Bytes(3_000);
    let mut star = Star::new(plan);
    star.pause(2, stop(C3, 0xffff));
    star.run_for(PAUSE_DELAY);
    let stream = Stream { len: 60, ..star.stream(2, C3, 1) };
    star.start(0, 2, stream);
    star.run_for(PAUSE_DELAY);
    let stream = frames(&star, 2, C3, 4);
    star.start(0, 2, stream);
    star.run_for(Nanos::from_micros(100));
    let (_, since, _) = halts(&star, 2);
    star.pause(2, resume(C3));
    let [short, long] = [Nanos(672), SENT];
    let first = star.now() + PAUSE_DELAY + short;
    star.run_until(first);
    assert_eq!(halts(&star, 2), (1, since, 0), "the halt ended without enough room");
    star.run_until(first + long);
    let lasted = (first + long).0 - since;
    assert_eq!(halts(&star, 2), (2, (first + long).0, lasted), "the next frame did not begin a second halt");
    star.run_until(first + long + long);
    assert_eq!(halts(&star, 2), (2, 0, lasted + long.0));
    star.run_to_rest();
}

#[test]
fn departure_at_other_port_does_not_end_pipeline_halt() {
    let (mut star, _) = crowded(3);
    star.pause(3, stop(C3, 0xffff));
    star.run_for(PAUSE_DELAY);
    let stream = frames(&star, 3, C3, 1);
    let beside = star.start(1, 3, stream);
    star.run_for(Nanos::from_micros(100));
    let stream = frames(&star, 2, C3, 1);
    let halting = star.start(0, 2, stream);
    star.run_for(Nanos::from_micros(100));
    let (count, since, _) = halts(&star, 2);
    assert_eq!(count, 1);
    star.pause(3, resume(C3));
    star.run_for(Nanos::from_micros(100));
    assert_eq!((star.received(beside).frames, halts(&star, 2)), (1, (1, since, 0)));
    star.pause(2, resume(C3));
    let left = star.now() + PAUSE_DELAY + SENT;
    star.run_to_rest();
    assert_eq!((star.received(halting).frames, halts(&star, 2)), (1, (1, 0, left.0 - since)));
}

#[test]
fn departure_from_shared_memory_ends_pipeline_halt() {
    let mut plan = plan::switch(&[LINK; 4]);
    plan.settings.accounting = Accounting::UntilForwarded;
    plan.settings.when_full = WhenFull::Stop;
    plan.settings.memory = Memory::Shared(SharedMemory {
        pool: Bytes(50_000),
        ingress_limit: Bytes(50_000),
        egress_limit: Bytes(3_000),
        port_limit: Bytes(50_000),
        alpha_log2: None,
        ..SharedMemory::UNLIMITED
    });
    plan.each_port(|port| port.classes[C0.index()].egress_reserve = Bytes::ZERO);
    let mut star = Star::new(plan);
    let crowd = frames(&star, 2, C0, 3);
    let crowd = [star.start(0, 2, crowd), star.start(1, 2, crowd)];
    let beside = frames(&star, 3, C0, 20);
    let beside = star.start(1, 3, beside);
    star.run_to_rest();
    crowd.into_iter().for_each(|flow| star.assert_whole(flow, 3));
    star.assert_whole(beside, 20);
}

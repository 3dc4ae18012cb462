use std::num::NonZeroU32;

use xoff_flow_control::settings::{FrameRate, IngressOrder, PipelineSettings};

use super::*;

const UNKNOWN: [u8; 4] = [10, 7, 0, 5];
const RESOLVED: [u8; 4] = [10, 1, 0, 5];
const SIZE: Bytes = Bytes(118);

pub fn resolved() -> Arc<Fib> {
    with(Target::Hops(vec![hop(2, Some(station(5)))]))
}

fn with(target: Target) -> Arc<Fib> {
    let (interfaces, mut routes) = parts();
    routes.v4.insert((left(UNKNOWN), 32), target);
    Arc::new(Fib::new(&interfaces, &[routes], Spread::Flow))
}

fn numbered(dst: [u8; 4], number: u8) -> Vec<u8> {
    let mut bytes = packet(P0, dst, 64, 100);
    bytes[60] = number;
    bytes
}

impl RouterBench {
    pub fn advance(&mut self) {
        self.switch.batch(self.now).advance(&mut self.store);
        self.forward();
    }

    pub fn route_by(&mut self, fib: Arc<Fib>) {
        drop(self.switch.batch(self.now).set_fib(fib));
        self.forward();
    }

    fn forward(&mut self) {
        while self.switch.batch(self.now).forward(&mut self.store) {}
        assert_eq!(self.switch.ledger().missing(), 0);
    }

    fn lost(&self, class: Class, reason: DropReason) -> u64 {
        self.counters.class(P0, class).drops[reason.index()].get()
    }

    fn numbers(&mut self, port: PortId) -> Vec<u8> {
        self.sent(port).iter().map(|bytes| bytes[60]).collect()
    }

    fn requests(&self) -> usize {
        self.punted().iter().filter(|(punt, _)| punt.reason == PuntReason::Resolve).count()
    }
}

#[test] // proves: slow-path
fn lossless_frames_wait_in_order_for_unresolved_neighbour() {
    let delayed = PipelineSettings { delay: Nanos::from_micros(1), ..PipelineSettings::default() };
    let rated = PipelineSettings { rate: NonZeroU32::new(1_000_000).map(FrameRate), ..delayed };
    let fifo = PipelineSettings { ingress: IngressOrder::Fifo, ..PipelineSettings::default() };
    for (when_full, pipeline) in [
        (WhenFull::Drop, PipelineSettings::default()),
        (WhenFull::Stop, PipelineSettings::default()),
        (WhenFull::Stop, delayed),
        (WhenFull::Drop, rated),
        (WhenFull::Stop, fifo),
    ] {
        let mut settings = settings();
        (settings.when_full, settings.pipeline) = (when_full, pipeline);
        let mut bench = RouterBench::of(&settings, Spread::Flow);
        let pass = |bench: &mut RouterBench| {
            for _ in 0..40 {
                bench.now += Nanos::from_micros(1);
                bench.advance();
            }
        };
        (0..5).for_each(|number| bench.receive(P0, &numbered(UNKNOWN, number)));
        (5..7).for_each(|number| bench.receive(P0, &numbered(RESOLVED, number)));
        pass(&mut bench);
        assert_eq!(bench.numbers(P1), [5, 6], "{when_full:?} {pipeline:?}");
        assert_eq!(bench.requests(), 1, "the host got more than one copy");
        assert_eq!(
            bench.switch.buffer().ingress(P0, C3),
            Bytes(5 * SIZE.0),
            "waiting frames do not count at their ingress"
        );
        (7..9).for_each(|number| bench.receive(P0, &numbered(UNKNOWN, number)));
        (9..11).for_each(|number| bench.receive_only(P0, &numbered(UNKNOWN, number)));
        bench.route_by(resolved());
        (11..13).for_each(|number| bench.receive(P0, &numbered(UNKNOWN, number)));
        pass(&mut bench);
        let expected: Vec<u8> = (0..5).chain(7..13).collect();
        assert_eq!(bench.numbers(P2), expected, "{when_full:?} {pipeline:?}");
        assert_eq!((bench.store.in_use(), bench.requests()), (0, 0));
    }
}

#[test] // proves: slow-path
fn frames_to_silent_neighbour_are_dropped_at_deadline() {
    let mut bench = RouterBench::new();
    bench.now = Nanos(11);
    let until = bench.now.after(NEIGHBOUR_WAIT);
    bench.receive(P0, &numbered(UNKNOWN, 0));
    bench.now = Nanos(until.0 - 1);
    bench.receive(P0, &numbered(UNKNOWN, 1));
    bench.advance();
    assert_eq!((bench.lost(C3, DropReason::Unresolved), bench.store.in_use()), (0, 2));
    assert!(bench.requests() > 1, "the request to the host was not repeated");
    bench.now = until;
    bench.receive(P0, &numbered(UNKNOWN, 2));
    assert_eq!(bench.lost(C3, DropReason::Unresolved), 1, "a frame at the deadline was not dropped");
    assert!(bench.switch.next_deadline() <= until.after(Nanos::from_millis(10)));
    bench.now = bench.switch.next_deadline();
    bench.advance();
    assert_eq!((bench.lost(C3, DropReason::Unresolved), bench.store.in_use()), (3, 0));
    bench.punted();
    bench.now += Nanos::from_secs(1);
    bench.receive(P0, &numbered(UNKNOWN, 3));
    assert_eq!((bench.lost(C3, DropReason::Unresolved), bench.requests()), (4, 1));
    bench.route_by(resolved());
    bench.receive(P0, &numbered(UNKNOWN, 4));
    assert_eq!(bench.numbers(P2), [4]);
    bench.route_by(fib(Spread::Flow));
    bench.receive(P0, &numbered(UNKNOWN, 5));
    assert_eq!((bench.lost(C3, DropReason::Unresolved), bench.store.in_use()), (4, 1));
}

#[test] // proves: slow-path
fn frames_waiting_for_neighbour_pause_sender_at_xoff() {
    let mut settings = settings();
    settings.ports[P0.index()].classes[C3.index()].xoff = Bytes(10 * SIZE.0);
    settings.ports[P0.index()].classes[C3.index()].xon = Bytes(5 * SIZE.0);
    settings.ports[P0.index()].classes[C3.index()].headroom = Bytes(10 * SIZE.0);
    let mut bench = RouterBench::of(&settings, Spread::Flow);
    (0..9).for_each(|number| bench.receive(P0, &numbered(UNKNOWN, number)));
    assert!(!bench.switch.held(P0).classes().contains(C3));
    (9..20).for_each(|number| bench.receive(P0, &numbered(UNKNOWN, number)));
    assert!(bench.switch.held(P0).classes().contains(C3));
    assert_eq!((bench.lost(C3, DropReason::HeadroomExhausted), bench.store.in_use()), (0, 20));
    bench.route_by(resolved());
    assert_eq!(bench.numbers(P2), (0..20).collect::<Vec<u8>>());
    assert!(!bench.switch.held(P0).classes().contains(C3));
    assert_eq!(bench.lost(C3, DropReason::Unresolved), 0);
}

#[test]
fn lossy_frames_to_unresolved_neighbour_are_punted() {
    let mut bench = RouterBench::new();
    (0..60).for_each(|number| bench.receive(P0, &of_class(0, numbered(UNKNOWN, number))));
    assert_eq!((bench.punted().len(), bench.store.in_use()), (50, 0));
    assert_eq!(bench.lost(Class::ALL[0], DropReason::Unresolved), 10);
}

#[test] // proves: slow-path
fn frames_waiting_for_neighbour_follow_new_route() {
    for (target, reason) in [
        (Target::Nowhere, Some(DropReason::Blackhole)),
        (Target::Hops(vec![hop(2, None), hop(3, Some(station(3)))]), None),
    ] {
        let mut bench = RouterBench::new();
        (0..3).for_each(|number| bench.receive(P0, &numbered(UNKNOWN, number)));
        bench.route_by(with(target));
        let (sent, dropped) = (bench.numbers(P3).len(), reason.map_or(0, |it| bench.lost(C3, it)));
        assert_eq!((sent, dropped), if reason.is_some() { (0, 3) } else { (3, 0) });
        assert_eq!(bench.store.in_use(), 0);
    }
}

#[test]
fn neighbour_request_is_repeated_if_punt_sink_was_full() {
    let mut bench = RouterBench::new();
    bench.punted.lock().expect("a test thread has panicked").room = 0;
    bench.receive(P0, &numbered(UNKNOWN, 0));
    bench.punted.lock().expect("a test thread has panicked").room = 9;
    bench.now = bench.switch.next_deadline();
    assert!(bench.now <= Nanos::from_millis(10));
    bench.advance();
    assert_eq!((bench.requests(), bench.store.in_use()), (1, 1));
}

#[test]
fn frame_waiting_for_neighbour_survives_loss_of_ingress_link() {
    let mut bench = RouterBench::new();
    bench.receive(P0, &numbered(UNKNOWN, 0));
    bench.switch.batch(bench.now).set_link(P0, false, &mut bench.store);
    bench.route_by(resolved());
    assert_eq!(bench.numbers(P2), [0], "a frame received before the loss of the link was not sent");
    bench.route_by(fib(Spread::Flow));
    bench.receive(P0, &numbered(UNKNOWN, 1));
    bench.punted();
    let mut lossy = settings();
    lossy.ports.iter_mut().for_each(|port| port.classes[C3.index()].lossless = false);
    let revision = Box::new(Revision::new(lossy, &Workers::single(6), SLOTS));
    drop(bench.switch.batch(bench.now).revise(revision));
    bench.now += Nanos::from_secs(1);
    bench.advance();
    let reasons: Vec<PuntReason> = bench.punted().into_iter().map(|(punt, _)| punt.reason).collect();
    assert_eq!(
        (reasons, bench.store.in_use()),
        (vec![PuntReason::Unresolved], 0),
        "the frame of a class made lossy was not punted"
    );
}

#[test]
fn frames_waiting_for_neighbour_do_not_affect_bridged_frames() {
    let mut bench = RouterBench::new();
    let mut to_router = packet(V4, UNKNOWN, 64, 100);
    to_router[..6].copy_from_slice(&ROUTER.0);
    let mut bridged = packet(V4, UNKNOWN, 64, 100);
    bridged[..6].copy_from_slice(&station(8).0);
    let mut hello = packet(V5, UNKNOWN, 64, 100);
    hello[..6].copy_from_slice(&station(4).0);
    hello[6..12].copy_from_slice(&station(8).0);
    bench.receive(V5, &hello);
    bench.all_sent();
    (0..2).for_each(|_| bench.receive(V4, &to_router));
    (0..2).for_each(|_| bench.receive_only(V4, &bridged));
    drop(bench.switch.batch(bench.now).set_fib(resolved()));
    (0..2).for_each(|_| bench.receive_only(V4, &bridged));
    bench.forward();
    assert_eq!((bench.sent(P2).len(), bench.sent(V5).len(), bench.store.in_use()), (2, 4, 0));
}

#[test]
fn routeless_packets_beyond_punt_rate_count_as_unroutable() {
    let mut bench = RouterBench::new();
    (0..60).for_each(|_| bench.receive(P0, &packet(P0, [11, 1, 0, 5], 64, 100)));
    assert_eq!((bench.punted().len(), bench.lost(C3, DropReason::Unroutable)), (50, 10));
}

#[test]
fn oversized_df_packets_beyond_punt_rate_count_as_unroutable() {
    const DONT_FRAGMENT: u8 = 0x40;
    for (flags, reason) in [(0, DropReason::PuntLimit), (DONT_FRAGMENT, DropReason::Unroutable)] {
        let mut bench = RouterBench::new();
        let mut long = packet(P0, [10, 1, 0, 5], 64, 1_001);
        long[20] = flags;
        let long = with_checksum(long);
        (0..60).for_each(|_| bench.receive(P0, &long));
        assert_eq!((bench.punted().len(), bench.lost(C3, reason)), (50, 10), "{reason:?}");
    }
}

#[test]
fn counter_flooded_unknown_skips_broadcast_frames() {
    let mut bench = RouterBench::new();
    let mut unknown = packet(V4, RESOLVED, 64, 100);
    unknown[..6].copy_from_slice(&station(77).0);
    let mut broadcast = unknown.clone();
    broadcast[..6].fill(0xff);
    for bytes in [&unknown, &broadcast, &unknown] {
        bench.receive(V4, bytes);
    }
    let counted = |port, class| bench.counters.class(port, class).flooded_unknown.get();
    assert_eq!((counted(V4, C3), counted(V5, C3), counted(V4, Class::ALL[0])), (2, 0, 0));
}

#[test]
fn packet_with_expired_hop_limit_waits_for_no_neighbour() {
    for (hops_left, waits) in [(1, false), (2, true)] {
        let mut bench = RouterBench::new();
        bench.receive(P0, &packet(P0, UNKNOWN, hops_left, 100));
        assert_eq!(
            bench.switch.buffer().ingress(P0, C3) == SIZE,
            waits,
            "a packet with {hops_left} hops left waits, or does not"
        );
        let reason = if waits { PuntReason::Resolve } else { PuntReason::HopLimit };
        assert!(
            bench.punted().iter().all(|(punt, _)| punt.reason == reason),
            "wrong punt reason of a packet with {hops_left} hops left"
        );
    }
}

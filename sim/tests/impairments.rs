// Tests for SPECIFICATION.md: sim-faults

use std::sync::{Arc, Mutex};

use xoff_config::{Config, Hardware, Machine};
use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::tap::{FrameEvent, Sighting, Tap, TapId};
use xoff_flow_control::drop_reason::DropReason;
use xoff_sim::{
    At, Fabric, Flow, Forwarding, ImpairmentCounts, Line, Pace, Picos, Plan, Seed, Stalls, SwitchKind,
    SwitchNode, address, ideal, topology,
};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos, PortId, PortSet};

const LINE: Line = Line { rate: BitRate::from_gbps(100), delay: Picos::from_nanos(500) };
const LOSSLESS: Class = Class::ALL[3];
const FRAME: u32 = 1_496;

const COMMIT: &str = "[defaults]\ncommit = 6000\n";

fn flow(to: u32, frames: u64, from: Picos) -> Flow {
    Flow { to, class: LOSSLESS, frame_len: FRAME, frames, from }
}

fn time_of(frames: u64) -> Picos {
    Picos(Pace::of(LINE.rate).time_of(Bytes::on_line(FRAME)).0 * frames)
}

fn come(begin: impl Into<Picos>, frames: u64) -> Picos {
    begin.into().after(time_of(frames)).after(LINE.delay)
}

fn got(fabric: &Fabric, host: usize) -> (u64, Picos) {
    (fabric.hosts()[host].received(), fabric.hosts()[host].last_received())
}

fn begin_both(fabric: &mut Fabric, frames: u64) {
    [1, 2].into_iter().for_each(|host| fabric.begin(host, &flow(0, frames, Picos::ZERO)));
}

fn run_until_before(fabric: &mut Fabric, end: Nanos) {
    fabric.run_until(Picos(Picos::from(end).0 - 1));
}

fn impair(fabric: &mut Fabric, switch: u32, impair: impl FnOnce(&mut SwitchNode, &mut xoff_sim::Net)) {
    fabric.at_switch(switch, impair);
}

fn counts(fabric: &Fabric, switch: usize) -> ImpairmentCounts {
    fabric.switches()[switch].impairment_counts()
}

fn check(fabric: &Fabric) {
    assert_eq!(fabric.missing(), 0);
    assert!(fabric.switches().iter().all(|switch| switch.switch().ledger().missing() == 0));
}

fn star(ports: u8, text: &str, change: impl FnOnce(&mut SwitchKind)) -> Fabric {
    let port = |port| {
        format!(
            "[[port]]\nname = \"p{port}\"\ndevice = \"p{port}\"\nspeed = \"100G\"\ncable = \"100m\"\npeer_response = \"standard\"\n"
        )
    };
    let text = format!("{text}{}", (0..ports).map(port).collect::<String>());
    let config = Config::from_toml_on(Hardware::Ideal, "test", &text, Machine::default())
        .expect("the configuration is invalid");
    let mut kind = ideal::kind(&config, ClassSet::NONE);
    change(&mut kind);
    let mut plan = Plan::default();
    let switch = plan.add_switch(&Arc::new(kind), Forwarding::default());
    for port in 0..ports {
        let host = plan.add_host(switch, port, LINE);
        plan.lead(switch, address(host), PortId(port));
    }
    Fabric::new(&plan, Seed(1))
}

#[test]
fn frames_that_arrive_in_switch_stall_are_processed_at_its_end() {
    let mut fabric = Fabric::new(&topology::chain(1, LINE), Seed(1));
    fabric.begin(0, &flow(1, 10, Picos::ZERO));
    let end = Nanos::from_micros(50);
    impair(&mut fabric, 0, |switch, net| switch.stall(end, net));
    run_until_before(&mut fabric, end);
    assert_eq!((fabric.hosts()[1].received(), fabric.switches()[0].switch().ledger().held), (0, 0));
    check(&fabric);
    fabric.run_to_rest();
    assert_eq!(got(&fabric, 1), (10, come(end, 10)));
    assert_eq!(fabric.hosts()[1].out_of_order(), 0);
    let expected = ImpairmentCounts { stalls: 1, stalled: end, longest: end, ..ImpairmentCounts::default() };
    assert_eq!(counts(&fabric, 0), expected);
    check(&fabric);
}

#[test]
fn stalled_driver_only_finishes_frames_on_lines() {
    let mut fabric = Fabric::new(&topology::chain(1, LINE), Seed(1));
    fabric.begin(0, &flow(1, 100, Picos::ZERO));
    fabric.run_until(Picos::from_micros(2));
    let before = fabric.hosts()[1].received();
    let (begin, end) = (fabric.now(), Nanos::from_micros(9));
    impair(&mut fabric, 0, |switch, net| switch.stall(end, net));
    fabric.run_until(Picos::from(end).after(LINE.delay).after(Picos(time_of(1).0 - 1)));
    let on_their_way = LINE.delay.0.div_ceil(time_of(1).0) + 1;
    assert!((1..=on_their_way).contains(&(fabric.hosts()[1].received() - before)), "{before}");
    assert!(fabric.hosts()[1].last_received() <= come(begin, 1));
    fabric.run_to_rest();
    assert_eq!((fabric.hosts()[1].received(), fabric.hosts()[1].out_of_order()), (100, 0));
    check(&fabric);
}

#[test]
fn ring_and_slots_limit_frames_held_during_a_stall() {
    let run = |ring: u32, slots: u32| {
        let mut fabric = star(2, "", |kind| {
            kind.slots.rings = [64, ring].into();
            kind.slots.data = slots;
        });
        fabric.begin(1, &flow(0, 10, Picos::ZERO));
        impair(&mut fabric, 0, |switch, net| switch.stall(Nanos::from_micros(50), net));
        fabric.run_to_rest();
        check(&fabric);
        (fabric.hosts()[0].received(), fabric.switches()[0].receive_drops())
    };
    assert_eq!([run(10, 64), run(9, 64)], [(10, 0), (9, 1)]);
    assert_eq!([run(64, 10), run(64, 9)], [(10, 0), (9, 1)]);
}

#[test]
fn driver_empties_receive_ring_despite_blocked_line() {
    let mut fabric = star(3, "", |kind| kind.slots.rings = [64, 10, 64].into());
    impair(&mut fabric, 0, |switch, net| switch.refuse(PortId(2), Nanos::from_millis(1), net));
    for end in [50, 100].map(Nanos::from_micros) {
        fabric.begin(1, &flow(0, 10, fabric.now()));
        impair(&mut fabric, 0, |switch, net| switch.stall(end, net));
        fabric.run_until(Picos::from(end));
    }
    fabric.run_to_rest();
    assert_eq!((fabric.hosts()[0].received(), fabric.switches()[0].receive_drops()), (20, 0));
    check(&fabric);
}

#[derive(Debug)]
struct Ports(Arc<Mutex<Vec<u8>>>);

impl Tap for Ports {
    fn ports(&self) -> PortSet {
        PortSet::ALL
    }

    fn see(&mut self, sighting: &Sighting, _: &Frame, _: &dyn FrameStore) {
        if matches!(sighting.event, FrameEvent::Received { .. }) {
            self.0.lock().expect("another thread panicked").push(sighting.port.0);
        }
    }
}

#[test]
fn frames_received_in_a_stall_are_processed_port_by_port() {
    let mut fabric = star(3, "", |_| ());
    let order = Arc::default();
    let tap = Box::new(Ports(Arc::clone(&order)));
    impair(&mut fabric, 0, |switch, net| {
        switch.put_tap(TapId(1), tap, net).expect("the switch already has this tap");
        switch.stall(Nanos::from_micros(50), net);
    });
    fabric.begin(1, &flow(0, 2, Picos::from_micros(5)));
    fabric.begin(2, &flow(0, 2, Picos::ZERO));
    fabric.run_to_rest();
    assert_eq!(*order.lock().expect("another thread panicked"), [1, 1, 2, 2]);
    check(&fabric);
}

#[test]
fn frames_of_peer_during_own_stall_do_not_count_as_late() {
    let mut fabric = star(3, "", |_| ());
    begin_both(&mut fabric, 2_000);
    let counters = Arc::clone(fabric.switches()[0].counters());
    let of_peer = counters.class(PortId(1), LOSSLESS);
    while of_peer.xoff_sent.get() == 0 {
        fabric.step(Picos::NEVER);
    }
    let end = fabric.now().floor().after(Nanos::from_micros(30));
    let before = of_peer.rx_frames.get();
    impair(&mut fabric, 0, |switch, net| switch.stall(end, net));
    fabric.run_until(Picos::from(end));
    assert!(of_peer.rx_frames.get() > before, "no frames arrived during the stall");
    assert_eq!((of_peer.late_frames.get(), of_peer.excess_frames.get()), (0, 0));
    fabric.run_to_rest();
    check(&fabric);
}

#[test]
fn stalled_switch_neither_sends_nor_obeys_pauses() {
    let (begin, end) = (Picos::from_micros(3), Nanos::from_micros(40));
    let mut fabric = star(3, "", |_| ());
    begin_both(&mut fabric, 2_000);
    fabric.run_until(begin);
    impair(&mut fabric, 0, |switch, net| switch.stall(end, net));
    run_until_before(&mut fabric, end);
    let xoffs = |fabric: &Fabric, switch: usize, port| {
        fabric.switches()[switch].counters().class(PortId(port), LOSSLESS).xoff_sent.get()
    };
    assert_eq!(xoffs(&fabric, 0, 1), 0, "an XOFF was sent during the stall");
    fabric.run_until(Picos::from(end));
    assert_eq!([xoffs(&fabric, 0, 1), xoffs(&fabric, 0, 2)], [1, 1]);
    check(&fabric);

    let mut fabric = Fabric::new(&topology::chain(2, LINE), Seed(1));
    fabric.begin(0, &flow(1, 2_000, Picos::ZERO));
    fabric.run_until(begin);
    impair(&mut fabric, 1, |switch, net| switch.refuse(PortId(1), Nanos::from_micros(30), net));
    while xoffs(&fabric, 1, 0) == 0 {
        fabric.step(Picos::NEVER);
    }
    let xoff_sent_at = fabric.now();
    impair(&mut fabric, 0, |switch, net| switch.stall(end, net));
    fabric.run_until(xoff_sent_at.after(Picos::from_micros(5)));
    let paused =
        |fabric: &Fabric| fabric.switches()[0].counters().class(PortId(1), LOSSLESS).xoff_received.get();
    assert_eq!(paused(&fabric), 0);
    fabric.run_until(Picos::from(end));
    assert!(paused(&fabric) > 0);
    fabric.run_to_rest();
    check(&fabric);
}

/// Blocks the line to host 0 for 4 ms, so that hosts 1 and 2 are paused. Returns host 1's pause refreshes in 1 ms.
fn held() -> (Fabric, u64) {
    let mut fabric = star(3, "", |_| ());
    begin_both(&mut fabric, 5_000);
    impair(&mut fabric, 0, |switch, net| switch.refuse(PortId(0), Nanos::from_millis(4), net));
    fabric.run_until(Picos::from_micros(1_000));
    let refreshes = refreshes(&fabric);
    assert!(refreshes > 0);
    (fabric, refreshes)
}

fn refreshes(fabric: &Fabric) -> u64 {
    fabric.switches()[0].counters().class(PortId(1), LOSSLESS).refreshes_sent.get()
}

#[test]
fn stall_delays_pause_refresh_to_its_end() {
    let (mut fabric, before) = held();
    impair(&mut fabric, 0, |switch, net| switch.stall(Nanos::from_millis(3), net));
    fabric.run_until(Picos(Picos::from_micros(3_000).0 - 1));
    assert_eq!(refreshes(&fabric), before);
    fabric.run_until(Picos::from_micros(3_000));
    assert_eq!(refreshes(&fabric), before + 1);
    check(&fabric);
}

#[test]
fn sleeping_driver_processes_frames_after_wakeup_delay() {
    let wake = Nanos::from_micros(10);
    let mut fabric = Fabric::new(&topology::chain(1, LINE), Seed(1));
    impair(&mut fabric, 0, |switch, net| switch.wake_after(wake, net));
    let mut begin = Picos::ZERO;
    for frames in [100, 1] {
        fabric.begin(0, &flow(1, frames, begin));
        let awake = come(begin, 1).floor().after(wake);
        let received = fabric.hosts()[1].received();
        fabric.run_until(Picos(come(awake, 1).0 - 1));
        assert_eq!((fabric.hosts()[1].received(), fabric.missing()), (received, 0));
        fabric.run_to_rest();
        assert_eq!(got(&fabric, 1), (received + frames, come(awake, frames)));
        begin = fabric.now().after(Picos::from_micros(1));
    }
    assert_eq!((fabric.hosts()[1].out_of_order(), counts(&fabric, 0)), (0, ImpairmentCounts::default()));
    check(&fabric);
}

#[test]
fn timers_of_sleeping_driver_are_late_by_wakeup_delay() {
    let refreshed = |wake: Nanos, stalls_until: Nanos| {
        let (mut fabric, before) = held();
        impair(&mut fabric, 0, |switch, net| switch.wake_after(wake, net));
        impair(&mut fabric, 0, |switch, net| switch.stall(stalls_until, net));
        while refreshes(&fabric) == before {
            fabric.run_until(fabric.now().after(Picos::from_nanos(1)));
        }
        fabric.now().floor()
    };
    let [wake, begin] = [Nanos::from_micros(7), Nanos::from_millis(1)];
    let at_once = refreshed(Nanos::ZERO, begin);
    assert_eq!(refreshed(wake, begin), at_once.after(wake));
    assert_eq!(refreshed(wake, at_once), at_once, "wrong time of the pause refresh");
}

fn lost_in_a_stall(budget: &str, length: Nanos) -> u64 {
    let run = |begin: u64| {
        let mut fabric = star(10, &format!("[switch]\nstall_budget = \"{budget}\"\n"), |_| ());
        (1..10).for_each(|host| fabric.begin(host, &flow(0, 400, Picos::ZERO)));
        fabric.run_until(Picos::from_nanos(begin));
        impair(&mut fabric, 0, |switch, net| switch.stall(Nanos(begin).after(length), net));
        fabric.run_to_rest();
        check(&fabric);
        let node = &fabric.switches()[0];
        let lost = node.receive_drops() + node.counters().dropped(DropReason::HeadroomExhausted);
        assert_eq!(fabric.hosts()[0].received() + lost, 9 * 400, "wrong numbers of received and lost frames");
        lost
    };
    (0..60).map(|step| run(1_000 + step * 500)).max().unwrap_or(0)
}

/// Headroom also covers the peer response, two maximum frames, and the commit limit. These hosts leave almost 4 us of
/// the headroom unused, so only a stall 4 us beyond the budget loses frames.
#[test]
fn only_stall_longer_than_budget_loses_frames() {
    assert_eq!(lost_in_a_stall("10us", Nanos::from_micros(10)), 0);
    assert!(lost_in_a_stall("10us", Nanos::from_micros(14)) > 0);
    assert!(lost_in_a_stall("6us", Nanos::from_micros(10)) > 0);
}

#[test]
fn blocked_line_gets_no_frames_while_others_do() {
    let mut fabric = star(3, "", |_| ());
    fabric.begin(2, &flow(0, 10, Picos::ZERO));
    fabric.begin(0, &flow(1, 10, Picos::ZERO));
    let end = Nanos::from_micros(50);
    impair(&mut fabric, 0, |switch, net| switch.refuse(PortId(0), end, net));
    run_until_before(&mut fabric, end);
    assert_eq!([0, 1].map(|host: usize| fabric.hosts()[host].received()), [0, 10]);
    assert_eq!(fabric.switches()[0].switch().ledger().held, 10);
    fabric.run_to_rest();
    assert_eq!(got(&fabric, 0), (10, come(end, 10)));
    check(&fabric);
}

#[test]
fn frame_in_transit_arrives_despite_line_block() {
    let mut fabric = star(2, "", |_| ());
    fabric.begin(1, &flow(0, 3, Picos::ZERO));
    let begin = come(Picos::ZERO, 1);
    fabric.run_until(begin);
    let end = Nanos::from_micros(20);
    impair(&mut fabric, 0, |switch, net| switch.refuse(PortId(0), end, net));
    fabric.run_until(Picos::from(end));
    assert_eq!(got(&fabric, 0), (1, come(begin, 1)));
    fabric.run_to_rest();
    assert_eq!(got(&fabric, 0), (3, come(end, 2)));
    check(&fabric);
}

/// The block ends after 100 ns, the frame on the line after 122 ns. Another frame already waits.
#[test]
fn line_block_that_ends_during_a_frame_delays_nothing() {
    let mut fabric = star(3, COMMIT, |_| ());
    fabric.begin(1, &flow(0, 1, Picos::ZERO));
    fabric.begin(2, &flow(0, 1, Picos::from_nanos(60)));
    let begin = come(Picos::ZERO, 1);
    fabric.run_until(begin);
    let end = begin.floor().after(Nanos(100));
    impair(&mut fabric, 0, |switch, net| switch.refuse(PortId(0), end, net));
    fabric.run_to_rest();
    assert_eq!(got(&fabric, 0), (2, come(begin, 2)));
    check(&fabric);
}

#[test]
fn late_completions_delay_data_but_not_pause_frames() {
    let mut fabric = star(3, "", |_| ());
    begin_both(&mut fabric, 1_000);
    let end = Nanos::from_micros(50);
    impair(&mut fabric, 0, |switch, net| switch.complete_late(end, net));
    run_until_before(&mut fabric, end);
    assert_eq!(fabric.hosts()[0].received(), 1);
    let xoffs = fabric.switches()[0].counters().class(PortId(1), LOSSLESS).xoff_sent.get();
    assert_eq!(xoffs, 1, "wrong number of XOFFs sent while completions were late");
    assert!(fabric.hosts()[1].sent() < 300);
    check(&fabric);
    fabric.run_to_rest();
    assert_eq!(fabric.hosts()[0].received(), 2_000);
    check(&fabric);

    let mut fabric = star(2, COMMIT, |_| ());
    fabric.begin(1, &flow(0, 100, Picos::ZERO));
    impair(&mut fabric, 0, |switch, net| switch.complete_late(end, net));
    fabric.run_until(Picos::from(end));
    assert_eq!(fabric.hosts()[0].received(), 4);
    fabric.run_to_rest();
    assert_eq!(
        got(&fabric, 0),
        (100, come(end, 96)),
        "wrong number of frames, or wrong arrival of the last, after late completions"
    );
    check(&fabric);
}

#[test]
fn shorter_impairment_does_not_shorten_a_longer_one() {
    let (end, sooner) = (Nanos::from_micros(50), Nanos::from_micros(30));
    let run = |ails: &dyn Fn(&mut SwitchNode, Nanos, &mut xoff_sim::Net)| {
        let mut fabric = Fabric::new(&topology::chain(1, LINE), Seed(1));
        fabric.begin(0, &flow(1, 10, Picos::ZERO));
        for until in [end, sooner] {
            impair(&mut fabric, 0, |switch, net| ails(switch, until, net));
        }
        run_until_before(&mut fabric, end);
        let before = fabric.hosts()[1].received();
        fabric.run_to_rest();
        check(&fabric);
        (before, got(&fabric, 1))
    };
    assert_eq!(run(&|switch, until, net| switch.stall(until, net)), (0, (10, come(end, 10))));
    assert_eq!(run(&|switch, until, net| switch.refuse(PortId(1), until, net)), (0, (10, come(end, 10))));
    assert_eq!(run(&|switch, until, net| switch.complete_late(until, net)), (1, (10, come(end, 9))));
}

#[test]
fn total_stall_time_counts_overlap_of_two_stalls_once() {
    let (end, sooner) = (Nanos::from_micros(50), Nanos::from_micros(30));
    let mut fabric = Fabric::new(&topology::chain(1, LINE), Seed(1));
    let mut counted = |until: Nanos| {
        impair(&mut fabric, 0, |switch, net| switch.stall(until, net));
        fabric.run_until(fabric.now().after(Picos::from_micros(10)));
        let ImpairmentCounts { stalls, stalled, longest, .. } = counts(&fabric, 0);
        (stalls, stalled, longest)
    };
    assert_eq!([end, sooner, end].map(&mut counted), [(1, end, end); 3]);
    let later = end.after(Nanos(1));
    assert_eq!(counted(later), (2, later, end));
}

#[test]
fn random_stalls_depend_on_seed_and_switch() {
    let run = |seed: Seed, switches: &[u32]| {
        let mut fabric = Fabric::new(&topology::chain(3, LINE), Seed(1));
        let stalls = Stalls {
            gap: Nanos::from_micros(20),
            length: Nanos::from_micros(1)..=Nanos::from_micros(2),
            until: Nanos::from_micros(900),
        };
        for &number in switches {
            impair(&mut fabric, number, |switch, net| switch.stall_at_random(stalls.clone(), seed, net));
        }
        fabric.begin(0, &flow(1, 5_000, Picos::ZERO));
        fabric.run_to_rest();
        check(&fabric);
        let lost = |switch: &SwitchNode| {
            switch.receive_drops() + switch.counters().dropped(DropReason::HeadroomExhausted)
        };
        let lost: u64 = fabric.switches().iter().map(lost).sum();
        assert_eq!(fabric.hosts()[1].received() + lost, 5_000);
        (fabric.digest(), counts(&fabric, 1))
    };
    let (digest, of_one) = run(Seed(7), &[1]);
    assert!((30..54).contains(&of_one.stalls), "{of_one:?}");
    assert_eq!(run(Seed(7), &[1]), (digest, of_one));
    assert_ne!(run(Seed(8), &[1]).1, of_one);
    let (_, with_others) = run(Seed(7), &[0, 1, 2]);
    assert_eq!((with_others.stalls, with_others.stalled), (of_one.stalls, of_one.stalled));
}

#[test]
fn frame_arriving_in_a_random_stall_leaves_at_its_end() {
    let mut fabric = Fabric::new(&topology::chain(1, LINE), Seed(1));
    let length = Nanos::from_micros(5);
    let stalls = Stalls { gap: length, length: length..=length, until: Nanos::from_micros(100) };
    impair(&mut fabric, 0, |switch, net| switch.stall_at_random(stalls, Seed(1), net));
    while counts(&fabric, 0).stalls == 0 {
        fabric.step(Picos::NEVER);
    }
    let end = fabric.now().floor().after(length);
    fabric.begin(0, &flow(1, 1, fabric.now()));
    fabric.run_to_rest();
    assert_eq!(got(&fabric, 1), (1, come(end, 1)));
    check(&fabric);
}

#[test]
fn link_loss_is_noticed_at_once_while_a_line_is_blocked() {
    let mut fabric = star(3, "", |_| ());
    impair(&mut fabric, 0, |switch, net| switch.refuse(PortId(2), Nanos::from_micros(40), net));
    fabric.set_link(At::Host(0, 0), false);
    assert!(!fabric.switches()[0].switch().bridge().is_up(PortId(0)));
}

#[test]
fn link_loss_during_a_stall_is_noticed_at_its_end() {
    let mut fabric = star(3, "", |_| ());
    fabric.begin(1, &flow(0, 1_000, Picos::ZERO));
    fabric.run_until(Picos::from_micros(10));
    let end = Nanos::from_micros(40);
    impair(&mut fabric, 0, |switch, net| switch.stall(end, net));
    fabric.set_link(At::Host(0, 0), false);
    run_until_before(&mut fabric, end);
    let dropped = |fabric: &Fabric| fabric.switches()[0].counters().dropped(DropReason::LinkDown);
    assert_eq!(dropped(&fabric), 0);
    fabric.run_until(Picos::from(end));
    assert!(dropped(&fabric) > 50);
    check(&fabric);
}

#[test]
fn link_loss_wakes_a_sleeping_driver() {
    let (mut fabric, _) = held();
    impair(&mut fabric, 0, |switch, net| switch.wake_after(Nanos::from_micros(7), net));
    fabric.set_link(At::Host(0, 0), false);
    run_until_before(&mut fabric, Nanos::from_micros(1_007));
    let dropped = |fabric: &Fabric| fabric.switches()[0].counters().dropped(DropReason::LinkDown);
    assert_eq!(dropped(&fabric), 0);
    fabric.run_until(Picos::from_micros(1_007));
    assert!(dropped(&fabric) > 50);
    check(&fabric);
}

#[test]
fn ended_impairments_do_not_affect_later_frames() {
    let run = |ails: bool| {
        let mut fabric = star(3, "", |_| ());
        if ails {
            impair(&mut fabric, 0, |switch, net| {
                let end = Nanos::from_micros(3);
                switch.stall(end, net);
                switch.refuse(PortId(0), end, net);
                switch.complete_late(end, net);
            });
        }
        [1, 2].into_iter().for_each(|host| fabric.begin(host, &flow(0, 500, Picos::from_micros(5))));
        fabric.run_to_rest();
        let last = fabric.hosts()[0].last_received();
        (last, fabric.hosts()[0].received(), format!("{:?}", fabric.switches()[0].counters()))
    };
    assert_eq!(run(true), run(false));
}

//! Algorithms 1 and 2 line by line, and the paper's worked examples.

use super::*;
use crate::ledger::Counters;
use crate::policy::Trigger;
use crate::settings::{Accounting, FdbSettings, Memory, WhenFull};
use crate::testing::port_settings;
use crate::units::Class;

const C3: Class = Class::ALL[3];
/// The congested egress port of most tests; WARN and XON are 8,000 bytes, XOFF is 10,000.
const OUT: PortId = PortId(4);

/// A buffer and the policy of class 3 that watches it.
struct Bench {
    buffer: Buffer,
    policy: CaPfc,
    intents: Vec<Intent>,
}

impl Bench {
    /// Five ports; those in `silent` may not send XOFF.
    fn new(culprits: Culprits, weigh: Weigh, silent: &[u8]) -> Bench {
        let mut settings = SwitchSettings {
            ports: (0..5).map(port_settings).collect(),
            accounting: Accounting::default(),
            memory: Memory::Dedicated,
            when_full: WhenFull::Drop,
            policies: Default::default(),
            shadows: Vec::new(),
            policy: Default::default(),
            fdb: FdbSettings { capacity: 16, ageing: None, statics: Vec::new() },
            vlans: Vec::new(),
            qcn: Default::default(),
        };
        settings.policy.capfc_weigh = weigh;
        let sends = (0..5).filter(|port| !silent.contains(port)).map(PortId).collect();
        let policy = CaPfc::new(Pfc::new(C3, sends), culprits, &settings);
        Bench { buffer: Buffer::new(&settings, Counters::new(5)), policy, intents: Vec::new() }
    }

    fn stop_max() -> Bench {
        Bench::new(Culprits::Heaviest, Weigh::Frames, &[])
    }

    fn calibrate(cut: f64) -> Bench {
        Bench::new(Culprits::Share(cut), Weigh::Frames, &[])
    }

    fn enqueue(&mut self, from: u8, egress: PortId, size: u64) -> Vec<Intent> {
        let (ingress, size) = (PortId(from), Bytes(size));
        self.buffer.enter_egress(ingress, egress, C3, size);
        self.policy.observe(Event::Enqueued { ingress, egress, size }, &self.buffer, &mut self.intents);
        std::mem::take(&mut self.intents)
    }

    /// Bytes leave, not necessarily a whole frame: the rest stays as one.
    fn dequeue(&mut self, from: u8, egress: PortId, size: u64) -> Vec<Intent> {
        self.buffer.enter_egress(PortId(from), egress, C3, Bytes::ZERO);
        self.buffer.leave_egress(PortId(from), egress, C3, Bytes(size));
        self.policy.observe(Event::Dequeued { egress }, &self.buffer, &mut self.intents);
        std::mem::take(&mut self.intents)
    }

    fn receive(&mut self, port: u8, size: u64) -> Vec<Intent> {
        self.buffer.enter_ingress(PortId(port), C3, Bytes(size)).expect("there is room");
        let event = Event::Received { ingress: PortId(port) };
        self.policy.observe(event, &self.buffer, &mut self.intents);
        std::mem::take(&mut self.intents)
    }

    fn release(&mut self, port: u8, size: u64) -> Vec<Intent> {
        self.buffer.leave_ingress(PortId(port), C3, Bytes(size));
        let event = Event::Released { ingress: PortId(port) };
        self.policy.observe(event, &self.buffer, &mut self.intents);
        std::mem::take(&mut self.intents)
    }

    /// C(i,o) for all i.
    fn counts(&self, egress: PortId) -> Vec<u64> {
        self.policy.egress[egress.index()].arrivals.to_vec()
    }
}

fn xoff(port: u8, egress: PortId) -> Intent {
    Intent::Xoff { port: PortId(port), class: C3, trigger: Trigger::Egress(egress) }
}

fn xon(port: u8) -> Intent {
    Intent::Xon { port: PortId(port), class: C3 }
}

#[test]
fn line_7_arrivals_are_counted_at_warn_and_not_one_byte_below() {
    let mut bench = Bench::stop_max();
    bench.enqueue(0, OUT, 7_999);
    assert_eq!(bench.counts(OUT), [0; 5], "one byte below WARN");
    bench.enqueue(1, OUT, 1);
    assert_eq!(bench.counts(OUT), [0, 1, 0, 0, 0], "at WARN");
}

#[test]
fn line_9_the_heaviest_is_blamed_above_xoff_and_not_at_it() {
    let mut bench = Bench::stop_max();
    bench.enqueue(0, OUT, 9_000);
    assert_eq!(bench.enqueue(0, OUT, 1_000), [], "at XOFF");
    assert_eq!(bench.enqueue(1, OUT, 1), [xoff(0, OUT)], "above: port 0 has two arrivals, port 1 one");
}

#[test]
fn line_10_the_others_overtake_while_congestion_persists() {
    let mut bench = Bench::stop_max();
    bench.enqueue(2, OUT, 9_999);
    bench.enqueue(2, OUT, 1);
    assert_eq!(bench.enqueue(2, OUT, 1), [xoff(2, OUT)]);
    assert_eq!(bench.enqueue(1, OUT, 1), []);
    assert_eq!(bench.enqueue(1, OUT, 1), []);
    assert_eq!(bench.counts(OUT), [0, 2, 3, 0, 0]);
    assert_eq!(bench.enqueue(1, OUT, 1), [xoff(1, OUT)], "a tie: the lower port");
    assert_eq!(bench.enqueue(1, OUT, 1), [], "a signal travels only when it changes");
}

#[test]
fn a_tie_does_not_blame_a_higher_port() {
    let mut bench = Bench::stop_max();
    bench.enqueue(1, OUT, 9_999);
    bench.enqueue(1, OUT, 2);
    assert_eq!(bench.enqueue(2, OUT, 1), []);
    assert_eq!(bench.enqueue(2, OUT, 1), [], "both have two arrivals");
    assert_eq!(bench.enqueue(2, OUT, 1), [xoff(2, OUT)]);
}

#[test]
fn line_17_the_counts_end_at_warn_and_the_signals_at_xon() {
    let mut bench = Bench::stop_max();
    bench.policy.egress[OUT.index()].xon = Bytes(5_000);
    bench.enqueue(0, OUT, 9_000);
    assert_eq!(bench.enqueue(0, OUT, 1_001), [xoff(0, OUT)]);
    assert_eq!(bench.dequeue(0, OUT, 2_000), []);
    assert_eq!(bench.counts(OUT)[0], 2, "one byte above WARN");
    assert_eq!(bench.dequeue(0, OUT, 1), []);
    assert_eq!(bench.counts(OUT)[0], 0, "at WARN");
    assert_eq!(bench.dequeue(0, OUT, 2_999), [], "one byte above XON");
    assert_eq!(bench.dequeue(0, OUT, 1), [xon(0)], "at XON");
    assert_eq!(bench.dequeue(0, OUT, 1), []);
}

#[test]
fn a_warn_below_xon_keeps_counts_that_have_not_come_down_to_it() {
    let mut bench = Bench::stop_max();
    bench.policy.egress[OUT.index()].warn = Bytes(5_000);
    bench.enqueue(0, OUT, 10_001);
    assert_eq!(bench.dequeue(0, OUT, 2_001), [xon(0)]);
    assert_eq!(bench.counts(OUT)[0], 1);
    bench.dequeue(0, OUT, 3_000);
    assert_eq!(bench.counts(OUT)[0], 0);
}

/// II-D: "the input ports whose cumulative counter percentages pass a predefined cut-off threshold".
#[test]
fn algorithm_2_blames_the_fewest_that_reach_the_share() {
    // Of 10 arrivals, 5, 3 and 2 by ports 1, 0 and 2.
    let blamed = |cut: f64| {
        let mut bench = Bench::calibrate(cut);
        for from in [1, 1, 1, 1, 1, 0, 0, 0, 2] {
            assert_eq!(bench.enqueue(from, OUT, 1_000)[..], [], "at most 9,000 bytes");
        }
        bench.policy.egress[OUT.index()].arrivals = [3, 5, 1, 0, 0].into();
        bench.enqueue(2, OUT, 1_001)
    };
    assert_eq!(blamed(0.5), [xoff(1, OUT)], "at the share");
    assert_eq!(blamed(0.51), [xoff(1, OUT), xoff(0, OUT)]);
    assert_eq!(blamed(0.8), [xoff(1, OUT), xoff(0, OUT)]);
    assert_eq!(blamed(0.81), [xoff(1, OUT), xoff(0, OUT), xoff(2, OUT)]);
}

/// II-D: "If the threshold ratio is set as 1, then congestion signal of every input port with a packet
/// inside the egress queue is set to 1."
#[test]
fn cut_of_one_blames_every_contributor_and_nobody_else() {
    let mut bench = Bench::calibrate(1.0);
    bench.enqueue(0, OUT, 8_000);
    bench.enqueue(1, OUT, 1_000);
    bench.enqueue(2, OUT, 1_000);
    assert_eq!(bench.enqueue(2, OUT, 1), [xoff(2, OUT), xoff(0, OUT), xoff(1, OUT)]);
    assert_eq!(bench.dequeue(0, OUT, 2_001), [xon(0), xon(1), xon(2)]);
}

/// II-E: D of port 0 for class 3 of five ports is I or any of E(0,1), E(0,2), E(0,3), E(0,4).
#[test]
fn d_of_port_0_is_i_or_any_e_and_ends_with_the_last() {
    let mut bench = Bench::stop_max();
    assert_eq!(
        bench.receive(0, 20_000),
        [Intent::Xoff { port: PortId(0), class: C3, trigger: Trigger::Ingress }]
    );
    for egress in (1..5).map(PortId) {
        assert_eq!(bench.enqueue(0, egress, 10_001), [], "D is 1 already");
    }
    assert_eq!(bench.release(0, 20_000), [], "I is 0, four E are 1");
    for egress in (1..4).map(PortId) {
        assert_eq!(bench.dequeue(0, egress, 10_001), []);
    }
    assert_eq!(bench.dequeue(0, PortId(4), 10_001), [xon(0)]);
    assert_eq!(bench.enqueue(0, PortId(2), 10_001), [xoff(0, PortId(2))], "any one of them is enough");
}

#[test]
fn i_alone_is_plain_pfc_and_outlasts_e() {
    let mut bench = Bench::stop_max();
    assert_eq!(bench.receive(1, 19_999), [], "one byte below XOFF");
    assert_eq!(bench.enqueue(1, OUT, 10_001), [xoff(1, OUT)]);
    assert_eq!(bench.receive(1, 1), [], "I joins E");
    assert_eq!(bench.dequeue(1, OUT, 10_001), []);
    assert_eq!(bench.release(1, 10_000), [], "at XON");
    assert_eq!(bench.release(1, 1), [xon(1)]);
}

#[test]
fn bytes_instead_of_frames_find_another_culprit() {
    let culprit = |weigh| {
        let mut bench = Bench::new(Culprits::Heaviest, weigh, &[]);
        bench.enqueue(0, OUT, 8_000);
        bench.enqueue(1, OUT, 100);
        bench.enqueue(1, OUT, 100);
        bench.enqueue(2, OUT, 1_801)
    };
    assert_eq!(culprit(Weigh::Frames), [xoff(1, OUT)]);
    assert_eq!(culprit(Weigh::Bytes), [xoff(0, OUT)]);
}

#[test]
fn a_port_that_may_not_send_xoff_does_not_hide_the_next() {
    let mut bench = Bench::new(Culprits::Heaviest, Weigh::Frames, &[0]);
    bench.enqueue(0, OUT, 8_000);
    bench.enqueue(0, OUT, 1_000);
    assert_eq!(bench.enqueue(1, OUT, 1_001), [xoff(1, OUT)]);
}

#[test]
fn a_queue_is_not_blamed_by_its_own_port() {
    let mut bench = Bench::stop_max();
    assert_eq!(bench.enqueue(4, OUT, 10_001), [], "o is not i");
}

#[test]
fn it_takes_over_what_is_over_xoff_at_ingress() {
    let mut bench = Bench::stop_max();
    bench.buffer.enter_ingress(PortId(2), C3, Bytes(20_000)).expect("there is room");
    bench.policy.adopt(&bench.buffer, &mut bench.intents);
    let held = Intent::Xoff { port: PortId(2), class: C3, trigger: Trigger::Ingress };
    assert_eq!(bench.intents, [held]);
}

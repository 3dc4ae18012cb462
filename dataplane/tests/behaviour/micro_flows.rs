// Tests for SPECIFICATION.md: batches

use std::array;
use std::sync::Arc;

use xoff_dataplane::switch::{Switch, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{PolicyKind, SwitchSettings, Trust, VlanSettings};
use xoff_wire::units::{Bytes, Class, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::store::MemoryStore;
use crate::{C0, C3};

const NOW: Nanos = Nanos(1_000);
const HERE: PortId = PortId(0);
const A: PortId = PortId(1);
const B: PortId = PortId(2);
const LONG_ENOUGH: usize = 58;
const OTHER: [u8; 2] = [0x88, 0xb5];
const TAGGED: [u8; 4] = [0x81, 0x00, 0, 0];
const CN_TAG: [u8; 4] = [0x22, 0xe9, 0, 7];

struct MicroFlowBench {
    switch: Switch,
    store: MemoryStore,
    counters: Arc<Counters>,
}

impl MicroFlowBench {
    fn new(change: impl FnOnce(&mut SwitchSettings)) -> MicroFlowBench {
        let mut plan = plan::switch(&[LINK; 3]);
        plan.each_port(|port| {
            (port.commit, port.burst, port.trust) = (Bytes(1 << 20), Bytes(1 << 20), Trust::Both);
            port.dscp_to_class = array::from_fn(|dscp| Class::from_low_bits(dscp.to_le_bytes()[0] >> 3));
        });
        change(&mut plan.settings);
        let counters = Counters::new(3);
        let switch = Switch::new(&plan.settings, 72, Workers::single(3), Arc::clone(&counters));
        let mut bench = MicroFlowBench { switch, store: MemoryStore::new(64, 8, 16, 2000), counters };
        for from in [HERE, A, B] {
            bench.pass(from, &[frame(from, HERE, &OTHER, 60)]);
        }
        bench
    }

    fn take_in(&mut self, now: Nanos, from: PortId, frames: &[Vec<u8>]) {
        let mut batch = self.switch.batch(now);
        for bytes in frames {
            let frame = self.store.fill(bytes).expect("no slot is free");
            batch.receive(from, frame, &mut self.store);
        }
        while batch.forward(&mut self.store) {}
    }

    fn pass(&mut self, from: PortId, frames: &[Vec<u8>]) -> [Vec<Vec<u8>>; 3] {
        self.take_in(NOW, from, frames);
        self.send()
    }

    fn send(&mut self) -> [Vec<Vec<u8>>; 3] {
        [HERE, A, B].map(|port| {
            let mut out = Vec::new();
            self.switch.batch(NOW).transmit(port, &mut self.store, u32::MAX, |_, frame| out.push(frame));
            let bytes = out.iter().map(|frame| self.store.frame(frame).to_vec()).collect();
            let mut batch = self.switch.batch(NOW);
            out.into_iter().for_each(|frame| batch.release(port, frame, &mut self.store));
            bytes
        })
    }

    fn classes(&mut self, frames: &[Vec<u8>]) -> Vec<(Class, u64)> {
        let counters = Arc::clone(&self.counters);
        let received = || Class::ALL.map(|class| counters.class(HERE, class).rx_frames.get());
        let before = received();
        self.pass(HERE, frames);
        let since = received().into_iter().zip(before).map(|(after, before)| after - before);
        Class::ALL.into_iter().zip(since).filter(|&(_, frames)| frames > 0).collect()
    }
}

fn frame(from: PortId, to: PortId, after: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, to.0, 2, 0, 0, 0, 0, from.0];
    bytes.extend(after);
    bytes.resize(len, 0);
    bytes
}

fn ipv6(tags: &[u8], dscp: u8, len: usize) -> Vec<u8> {
    frame(HERE, A, &[tags, &[0x86, 0xdd, 0x60 | dscp >> 2, dscp << 6]].concat(), len)
}

#[test]
fn consecutive_frames_of_different_classes_keep_their_class() {
    let ipv4 = |tags: &[u8], dscp: u8| frame(HERE, A, &[tags, &[0x08, 0x00, 0x45, dscp << 2]].concat(), 64);
    let mut bench = MicroFlowBench::new(|_| ());
    for tags in [&[][..], &TAGGED, &CN_TAG, &[TAGGED, CN_TAG].concat()] {
        let packets = [0, 24, 24, 0].map(|dscp| ipv4(tags, dscp));
        assert_eq!(
            bench.classes(&packets),
            [(C0, 2), (C3, 2)],
            "wrong classes of IPv4 behind tags {tags:02x?}"
        );
        let packets = [0, 24, 24, 0].map(|dscp| ipv6(tags, dscp, 64));
        assert_eq!(
            bench.classes(&packets),
            [(C0, 2), (C3, 2)],
            "wrong classes of IPv6 behind tags {tags:02x?}"
        );
    }
    let tagged = [0, 3, 3, 0].map(|pcp: u8| frame(HERE, A, &[0x81, 0x00, pcp << 5, 0, 0x88, 0xb5], 60));
    assert_eq!(bench.classes(&tagged), [(C0, 2), (C3, 2)]);
}

#[test]
fn truncated_packet_joins_no_micro_flow() {
    let long = ipv6(&TAGGED, 24, LONG_ENOUGH);
    let short = ipv6(&TAGGED, 24, LONG_ENOUGH - 1);
    let mut bench = MicroFlowBench::new(|_| ());
    assert_eq!(bench.classes(&[long.clone(), short.clone()]), [(C0, 1), (C3, 1)]);
    assert_eq!(bench.classes(&[short, long]), [(C0, 1), (C3, 1)]);
}

#[test]
fn frame_dropped_at_ingress_starts_no_micro_flow() {
    let class = C0.index();
    let mut bench = MicroFlowBench::new(|settings| settings.ports[0].classes[class].ingress_max = Bytes(400));
    let [to_a, large, small] = [(A, 100), (B, 1_000), (B, 100)].map(|(to, len)| frame(HERE, to, &OTHER, len));
    let sent = bench.pass(HERE, &[to_a.clone(), large, small.clone(), small.clone()]);
    assert_eq!(bench.counters.class(HERE, C0).drops[DropReason::IngressFull.index()].get(), 1);
    assert_eq!(sent, [vec![], vec![to_a], vec![small.clone(), small]]);
}

#[test]
fn frames_leave_in_order_across_ends_of_micro_flows() {
    let mut bench = MicroFlowBench::new(|settings| settings.ports[2].mtu_frame = 100);
    let numbered = |number: u8, to: PortId, pcp: u8, len: usize| {
        let mut bytes = frame(HERE, to, &[0x81, 0x00, pcp << 5, 0, 0x88, 0xb5, 0, 0], len);
        bytes[LONG_ENOUGH] = number;
        bytes
    };
    let long = numbered(6, B, 3, 104 + 1);
    let frames = [
        numbered(0, A, 3, 60),
        numbered(1, A, 3, 60),
        numbered(2, A, 3, 200),
        numbered(3, B, 3, 60),
        numbered(4, B, 3, 60),
        numbered(5, B, 3, 104),
        long.clone(),
        numbered(7, B, 3, 60),
        numbered(8, A, 0, 60),
        numbered(9, A, 3, 60),
        numbered(10, A, 0, 60),
    ];
    let [_, at_a, at_b] = bench.pass(HERE, &frames);
    let numbers = |frames: Vec<Vec<u8>>| frames.iter().map(|bytes| bytes[LONG_ENOUGH]).collect::<Vec<_>>();
    assert_eq!(numbers(at_a), [0, 1, 2, 9, 8, 10], "frames left in the wrong order");
    assert_eq!(numbers(at_b), [3, 4, 5, 7]);
    assert_eq!(bench.counters.class(B, C3).drops[DropReason::TooLong.index()].get(), 1, "{long:?}");
}

#[test]
fn each_frame_of_a_micro_flow_records_its_own_delay() {
    let mut bench = MicroFlowBench::new(|_| ());
    let counters = Arc::clone(&bench.counters);
    let delays =
        || (counters.class(A, C0).queueing_delay.count(), counters.class(A, C0).queueing_delay.sum());
    let before = delays();
    let identical = frame(HERE, A, &OTHER, 60);
    for age in [700, 700, 30, 30, 4] {
        bench.take_in(Nanos(NOW.0 - age), HERE, &[identical.clone(), identical.clone()]);
    }
    let [_, at_a, _] = bench.send();
    assert_eq!(at_a.len(), 10);
    assert_eq!(delays(), (before.0 + 10, before.1 + 2 * (700 + 700 + 30 + 30 + 4)));
}

#[test]
fn frames_of_a_micro_flow_are_tagged_by_their_vlan() {
    let vlan = |vid, tagged, untagged| VlanSettings { vid, tagged, untagged };
    let mut bench = MicroFlowBench::new(|settings| {
        settings.vlans = vec![vlan(5, vec![HERE, A], vec![]), vlan(6, vec![HERE], vec![A])];
    });
    let of = |vid: u8| frame(HERE, A, &[0x81, 0x00, 0, vid, 0x88, 0xb5], 80);
    for from in [5, 6] {
        bench.pass(A, &[frame(A, HERE, &[0x81, 0x00, 0, from, 0x88, 0xb5], 80)]);
    }
    let [_, at_a, _] = bench.pass(HERE, &[of(6), of(6), of(5), of(5), of(6)]);
    assert_eq!(at_a.iter().map(Vec::len).collect::<Vec<_>>(), [76, 76, 80, 80, 76]);
}

#[test]
fn frame_bytes_are_independent_of_micro_flow_length() {
    let kinds: [&[u8]; 3] = [&[], &TAGGED, &[0x81, 0x00, 0, 5]];
    let sequences = (0..81).map(|n| [n % 3, n / 3 % 3, n / 9 % 3, n / 27]);
    let frame = |kind: usize| frame(HERE, A, &[kinds[kind], &OTHER].concat(), 80);
    for (is_tagged, pcps) in [(false, None), (true, None), (false, Some([2; 8])), (true, Some([2; 8]))] {
        let mut bench = MicroFlowBench::new(|settings| {
            let (tagged, untagged) = if is_tagged { (vec![A], vec![]) } else { (vec![], vec![A]) };
            settings.vlans =
                vec![VlanSettings { vid: 5, tagged: [vec![HERE, B], tagged].concat(), untagged }];
            settings.ports.iter_mut().for_each(|port| (port.pvid, port.rewrite_pcp) = (Some(5), pcps));
        });
        let mut sent = |kinds: &[usize]| {
            let [_, at_a, _] = bench.pass(HERE, &kinds.iter().map(|kind| frame(*kind)).collect::<Vec<_>>());
            at_a
        };
        let alone = [0, 1, 2].map(|kind| sent(&[kind]));
        for sequence in sequences.clone() {
            let expected = sequence.map(|kind| alone[kind].clone()).concat();
            assert_eq!(
                sent(&sequence),
                expected,
                "frames {sequence:?} sent together differ; tagged port: {is_tagged}, PCPs {pcps:?}"
            );
        }
    }
}

#[test]
fn rate_frame_waits_while_driver_has_reached_commit_limit() {
    let mut bench = MicroFlowBench::new(|settings| {
        settings.policies[C3.index()] = PolicyKind::Gfc;
        (settings.ports[0].gfc_peer, settings.ports[0].commit) = (true, Bytes(200));
        settings.ports[0].classes[C3.index()].xoff = Bytes(1_000);
    });
    let now = Nanos(NOW.0 + 10_000);
    let [short, long] = [60, 1_500].map(|len| frame(A, HERE, &OTHER, len));
    bench.take_in(now, A, &[short, long]);
    let mut out = Vec::new();
    bench.switch.batch(now).transmit(HERE, &mut bench.store, u32::MAX, |_, frame| out.push(frame));
    assert_eq!(out.len(), 2, "the second frame was not sent");
    bench.take_in(now, HERE, &[frame(HERE, A, &[0x81, 0x00, 3 << 5, 0, 0x88, 0xb5], 900)]);
    assert!(bench.switch.announcements_due().contains(HERE), "no rate request is due");
    let mut batch = bench.switch.batch(now);
    assert_eq!(batch.announce(HERE, &mut bench.store), None, "a rate frame was sent beyond the commit limit");
    out.into_iter().for_each(|frame| batch.release(HERE, frame, &mut bench.store));
    let rates =
        batch.announce(HERE, &mut bench.store).expect("no rate frame was sent although nothing is committed");
    batch.release(HERE, rates, &mut bench.store);
}

#[test]
fn refused_source_address_is_counted_for_every_frame() {
    let mut bench = MicroFlowBench::new(|settings| settings.ports[0].learn_limit = Some(0));
    let refused = |bench: &MicroFlowBench| bench.switch.bridge().fdb().refused_at(HERE);
    let before = refused(&bench);
    let frames = vec![frame(HERE, A, &OTHER, 64); 5];
    assert_eq!(bench.pass(HERE, &frames)[1].len(), 5);
    assert_eq!(refused(&bench) - before, 5);
}

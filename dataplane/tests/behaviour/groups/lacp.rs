// Tests for SPECIFICATION.md: lacp

use std::sync::Arc;

use xoff_dataplane::forward::MemberState::{self, *};
use xoff_dataplane::switch::{Revision, Switch, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::{Lacp, SwitchSettings};
use xoff_wire::lacp::Lacpdu;

use super::*;
use crate::bed::store::MemoryStore;
use crate::by_hand::{punted_by, sent};

const P0: PortId = PortId(0);
const P1: PortId = PortId(1);
const P2: PortId = PortId(2);
const P3: PortId = PortId(3);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

struct Bench {
    switch: Switch,
    counters: Arc<Counters>,
    store: MemoryStore,
    settings: SwitchSettings,
    now: Nanos,
}

impl Bench {
    fn new() -> Bench {
        let mut plan = plan::switch(&[LINK; 4]);
        let lacp = Some(Lacp { active: true, short_timeout: false });
        plan.settings.groups = vec![GroupSettings { lacp, ..group(2..4, Spread::Flow, 1) }];
        plan.settings.fdb.statics = vec![(1, BEYOND, P2)];
        let counters = Counters::new(4);
        let switch = Switch::new(&plan.settings, 128, Workers::single(4), Arc::clone(&counters));
        Bench {
            switch,
            counters,
            store: MemoryStore::new(120, 8, 64, 1600),
            settings: plan.settings,
            now: Nanos(1),
        }
    }

    fn receive(&mut self, port: PortId, bytes: &[u8]) {
        let frame = self.store.fill(bytes).expect("no slot is free");
        let mut batch = self.switch.batch(self.now);
        batch.receive(port, frame, &mut self.store);
        while batch.forward(&mut self.store) {}
        drop(batch);
        assert_eq!(self.switch.ledger().missing(), 0);
    }

    fn flows(&mut self) -> [u64; 2] {
        (0..32).for_each(|flow| self.receive(P0, &data(BEYOND, flow)));
        [P2, P3].map(|port| self.switch.buffer().egress(port, C0).0 / 64)
    }

    fn set(&mut self, port: PortId, state: MemberState) {
        self.switch.batch(self.now).set_member(port, state);
    }

    fn sent(&mut self, port: PortId) -> usize {
        sent(&mut self.switch, &mut self.store, &mut self.now, port).len()
    }

    fn dropped(&self, port: PortId, reason: DropReason) -> u64 {
        self.counters.class(port, C0).drops[reason.index()].get()
    }

    fn revise(&mut self, lacp: Option<Lacp>) {
        self.settings.groups[0].lacp = lacp;
        let revision = Revision::new(self.settings.clone(), &Workers::single(4), 128);
        drop(self.switch.batch(self.now).revise(Box::new(revision)));
    }
}

fn data(dst: MacAddr, flow: u8) -> Vec<u8> {
    let ip = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, flow, 0, 9];
    let mut bytes = [&dst.0[..], &MAC.0, &[8, 0], &ip].concat();
    bytes.resize(60, 0);
    bytes
}

#[test]
fn lacp_state_selects_group_members_that_carry_data() {
    let mut bench = Bench::new();
    let punted = punted_by(&mut bench.switch);
    let lacpdu = Lacpdu { actor: Default::default(), partner: Default::default() }.frame(MAC);
    assert_eq!(bench.flows(), [0, 0]);
    bench.receive(P3, &data(MacAddr::BROADCAST, 0));
    assert_eq!((bench.dropped(P3, DropReason::NotCollecting), bench.sent(P0)), (1, 0));
    [P2, P0].iter().for_each(|port| bench.receive(*port, &lacpdu));
    let reasons: Vec<_> = punted
        .lock()
        .expect("a test thread has panicked")
        .frames
        .iter()
        .map(|(punt, _)| (punt.port, punt.reason))
        .collect();
    assert_eq!(reasons, [(P2, PuntReason::Lacp)], "LACP is punted by members only");

    bench.set(P3, Collecting);
    bench.receive(P3, &data(MacAddr::BROADCAST, 0));
    bench.receive(P1, &data(MacAddr::BROADCAST, 0));
    assert_eq!((bench.sent(P0), bench.sent(P1), bench.sent(P2), bench.sent(P3)), (2, 1, 0, 0));
    assert_eq!(bench.flows(), [0, 0]);

    bench.set(P3, Distributing);
    assert_eq!(bench.flows(), [0, 32]);
    bench.set(P2, Distributing);
    let [left, right] = bench.flows();
    assert!(left.min(right - 32) > 8, "{left} and {right} - 32 frames");
    bench.set(P3, Detached);
    assert_eq!(bench.flows(), [left + 32, right]);
    assert_eq!((bench.sent(P2) as u64, bench.sent(P3) as u64), (left + 32, right), "queued frames were lost");
    assert_eq!([P2, P3].map(|port| bench.dropped(port, DropReason::LinkDown)), [0, 0]);
}

#[test]
fn link_loss_or_new_lacp_setting_detaches_group_members() {
    let mut bench = Bench::new();
    [P2, P3].iter().for_each(|port| bench.set(*port, Distributing));
    for up in [false, true] {
        bench.switch.batch(bench.now).set_link(P3, up, &mut bench.store);
        assert_eq!(bench.flows()[1], 0, "{up}");
    }
    let lacp = bench.settings.groups[0].lacp;
    bench.sent(P2);
    for (lacp, expected) in [(lacp, [32, 0]), (None, [32, 32]), (lacp, [0, 0])] {
        bench.revise(lacp);
        let queued = bench.flows();
        assert_eq!(queued.map(|frames| frames > 0), expected.map(|frames: u64| frames > 0), "{lacp:?}");
        for port in [P2, P3] {
            bench.sent(port);
        }
    }
    bench.set(P2, Distributing);
    assert_eq!(bench.flows(), [32, 0]);
    bench.set(P0, Detached);
    assert_eq!(bench.flows(), [64, 0], "a port without LACP was detached");
}

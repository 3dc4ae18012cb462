//! OFC's `flow_in_port_tab` of one egress port: a hash table of flows with the number of their queued frames.
//!
//! A flow keeps its number while it has queued frames, the egress port's peer pauses it (`congested`), or this switch
//! pauses it upstream (`request`). For Algorithm 1 of OFC, linked lists contain the queued flows not yet paused
//! upstream, by ingress port and `congested`.

use xoff_wire::FlowKey;
use xoff_wire::units::{PortId, PortSet};

use super::super::NO_FLOW;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PauseRequest {
    None,
    Active,
    Ending,
}

#[derive(Clone, Debug)]
pub(super) struct FlowEntry {
    pub(super) key: FlowKey,
    pub(super) packets: u32,
    next: u32,
    neighbours: [u32; 2],
    pub(super) ingress: PortId,
    pub(super) congested: bool,
    pub(super) request: PauseRequest,
}

impl FlowEntry {
    fn in_use(&self) -> bool {
        self.packets > 0 || self.congested || self.request != PauseRequest::None
    }

    fn chain(&self) -> Option<Chain> {
        let waits = self.packets > 0 && self.request != PauseRequest::Active;
        waits.then_some(Chain { ingress: self.ingress, congested: self.congested })
    }
}

/// Linked list of queued flows that no upstream peer is requested to pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) ingress: PortId,
    pub(super) congested: bool,
}

pub(super) const BYTES_PER_INGRESS: usize = size_of::<[u32; 2]>();

#[derive(Debug)]
pub(super) struct FlowTable {
    entries: Box<[FlowEntry]>,
    buckets: Box<[u32]>,
    free: u32,
    used: u32,
    chains: Box<[[u32; 2]]>,
    overflown: PortSet,
}

impl FlowTable {
    pub(super) fn new(capacity: u32, ports: usize) -> FlowTable {
        let key = FlowKey::L2 { src: Default::default(), dst: Default::default(), ether_type: 0 };
        let entry = |next| FlowEntry {
            key,
            packets: 0,
            next: if next == capacity { NO_FLOW } else { next },
            neighbours: [NO_FLOW; 2],
            ingress: PortId(0),
            congested: false,
            request: PauseRequest::None,
        };
        FlowTable {
            entries: (1..=capacity).map(entry).collect(),
            buckets: vec![NO_FLOW; capacity.max(1).next_power_of_two() as usize].into_boxed_slice(),
            free: if capacity == 0 { NO_FLOW } else { 0 },
            used: 0,
            chains: vec![[NO_FLOW; 2]; ports].into_boxed_slice(),
            overflown: PortSet::NONE,
        }
    }

    /// Counts a frame about to be queued (Algorithm 2 of OFC, line 12). Returns its flow, or [`NO_FLOW`] if the table
    /// is full.
    pub(super) fn packet_in(&mut self, key: &FlowKey, ingress: PortId) -> u32 {
        let flow = self.enter(key);
        if flow == NO_FLOW {
            self.overflown.insert(ingress);
            return NO_FLOW;
        }
        self.update(flow, |entry| {
            entry.ingress = ingress;
            entry.packets += 1;
        });
        flow
    }

    pub(super) fn packet_out(&mut self, flow: u32) {
        self.update(flow, |entry| entry.packets -= 1);
        self.forget_if_unused(flow);
    }

    pub(super) fn mark_congested(&mut self, key: &FlowKey) -> Option<u32> {
        let flow = self.enter(key);
        if flow == NO_FLOW {
            return None;
        }
        self.update(flow, |entry| entry.congested = true);
        Some(flow)
    }

    pub(super) fn clear_congested(&mut self, flow: u32) {
        self.update(flow, |entry| entry.congested = false);
        self.forget_if_unused(flow);
    }

    pub(super) fn set_request(&mut self, flow: u32, request: PauseRequest) {
        self.update(flow, |entry| entry.request = request);
        self.forget_if_unused(flow);
    }

    pub(super) fn first_in(&self, chain: Chain) -> Option<u32> {
        Some(*self.head(chain)).filter(|&flow| flow != NO_FLOW)
    }

    pub(super) fn has_overflow(&self, ingress: PortId) -> bool {
        self.overflown.contains(ingress)
    }

    pub(super) fn take_overflow(&mut self, ingress: PortId) -> bool {
        let overflown = self.overflown.contains(ingress);
        self.overflown.remove(ingress);
        overflown
    }

    pub(super) fn find(&self, key: &FlowKey) -> Option<u32> {
        let mut at = self.buckets[self.bucket(key)];
        while let Some(entry) = self.entries.get(at as usize) {
            if entry.key == *key {
                return Some(at);
            }
            at = entry.next;
        }
        None
    }

    pub(super) fn entry(&self, flow: u32) -> &FlowEntry {
        &self.entries[flow as usize]
    }

    pub(super) const fn bytes(&self) -> usize {
        self.used as usize * size_of::<FlowEntry>()
    }

    fn enter(&mut self, key: &FlowKey) -> u32 {
        if let Some(flow) = self.find(key) {
            return flow;
        }
        let flow = self.free;
        let bucket = self.bucket(key);
        if let Some(entry) = self.entries.get_mut(flow as usize) {
            self.free = entry.next;
            entry.key = *key;
            entry.next = self.buckets[bucket];
            self.buckets[bucket] = flow;
            self.used += 1;
        }
        flow
    }

    #[inline]
    fn update(&mut self, flow: u32, change: impl FnOnce(&mut FlowEntry)) {
        let entry = &mut self.entries[flow as usize];
        let before = entry.chain();
        change(entry);
        let after = entry.chain();
        if before != after {
            before.into_iter().for_each(|chain| self.unchain(flow, chain));
            after.into_iter().for_each(|chain| self.chain(flow, chain));
        }
    }

    fn head(&self, chain: Chain) -> &u32 {
        &self.chains[chain.ingress.index()][usize::from(chain.congested)]
    }

    fn set_head(&mut self, chain: Chain, flow: u32) {
        self.chains[chain.ingress.index()][usize::from(chain.congested)] = flow;
    }

    fn chain(&mut self, flow: u32, chain: Chain) {
        let second = *self.head(chain);
        self.entries[flow as usize].neighbours = [NO_FLOW, second];
        if let Some(second) = self.entries.get_mut(second as usize) {
            second.neighbours[0] = flow;
        }
        self.set_head(chain, flow);
    }

    fn unchain(&mut self, flow: u32, chain: Chain) {
        let [before, after] = self.entries[flow as usize].neighbours;
        match self.entries.get_mut(before as usize) {
            Some(before) => before.neighbours[1] = after,
            None => self.set_head(chain, after),
        }
        if let Some(after) = self.entries.get_mut(after as usize) {
            after.neighbours[0] = before;
        }
    }

    fn forget_if_unused(&mut self, flow: u32) {
        if self.entries[flow as usize].in_use() {
            return;
        }
        let bucket = self.bucket(&self.entries[flow as usize].key);
        let next = self.entries[flow as usize].next;
        if self.buckets[bucket] == flow {
            self.buckets[bucket] = next;
        } else {
            let mut at = self.buckets[bucket];
            while self.entries[at as usize].next != flow {
                at = self.entries[at as usize].next;
            }
            self.entries[at as usize].next = next;
        }
        self.entries[flow as usize].next = self.free;
        self.free = flow;
        self.used -= 1;
    }

    #[allow(clippy::cast_possible_truncation)] // the low bits are wanted
    fn bucket(&self, key: &FlowKey) -> usize {
        key.digest() as usize & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use xoff_explore::explore;

    const P0: PortId = PortId(0);
    const P1: PortId = PortId(1);

    fn key(number: u16) -> FlowKey {
        FlowKey::V4 { protocol: 17, ports: [number, 4791], src: [10, 0, 0, 1], dst: [10, 0, 0, 2] }
    }

    #[test] // Algorithm 2 line 12, Algorithm 3 lines 9 to 12
    fn flow_stays_in_table_while_frames_are_queued() {
        let mut table = FlowTable::new(4, 2);
        let flow = table.packet_in(&key(1), P0);
        assert_eq!(table.packet_in(&key(1), P0), flow);
        table.packet_out(flow);
        assert_eq!(table.find(&key(1)), Some(flow));
        table.packet_out(flow);
        assert_eq!((table.find(&key(1)), table.bytes()), (None, 0));
    }

    #[test]
    fn flow_stays_in_table_while_paused_upstream_or_downstream() {
        let mut table = FlowTable::new(4, 2);
        let flow = table.mark_congested(&key(1)).unwrap();
        assert_eq!(table.packet_in(&key(1), P0), flow);
        table.set_request(flow, PauseRequest::Active);
        table.packet_out(flow);
        table.clear_congested(flow);
        table.set_request(flow, PauseRequest::Ending);
        assert_eq!(table.find(&key(1)), Some(flow));
        table.set_request(flow, PauseRequest::None);
        assert_eq!(table.find(&key(1)), None);
    }

    #[test]
    fn full_flow_table_reports_ingress_port_of_refused_flow() {
        let mut table = FlowTable::new(2, 2);
        let [first, second] = [1, 2].map(|number| table.packet_in(&key(number), P0));
        assert!(first != NO_FLOW && second != NO_FLOW);
        assert!(!table.take_overflow(P1));
        assert_eq!(table.packet_in(&key(3), P1), NO_FLOW);
        assert!(table.mark_congested(&key(4)).is_none());
        assert!(table.take_overflow(P1) && !table.take_overflow(P1) && !table.take_overflow(P0));
        table.packet_out(first);
        assert_eq!(table.packet_in(&key(3), P1), first, "the freed flow entry must be used again");
    }

    #[test] // Algorithm 1 lines 5 to 8: whom it looks for
    fn flows_to_pause_are_listed_by_ingress_port_and_congestion() {
        let mut table = FlowTable::new(8, 2);
        let of = |table: &FlowTable, ingress, congested| table.first_in(Chain { ingress, congested });
        let [first, second, third] = [1, 2, 3].map(|number| table.packet_in(&key(number), P0));
        let away = table.packet_in(&key(4), P1);
        assert_eq!((of(&table, P0, false), of(&table, P1, false)), (Some(third), Some(away)));
        table.mark_congested(&key(2));
        assert_eq!((of(&table, P0, true), of(&table, P1, true)), (Some(second), None));
        table.set_request(third, PauseRequest::Active);
        table.packet_in(&key(3), P0);
        assert_eq!(
            of(&table, P0, false),
            Some(first),
            "the list of flows to pause must not contain a flow that is already paused"
        );
        table.set_request(third, PauseRequest::Ending);
        assert_eq!(
            of(&table, P0, false),
            Some(third),
            "the list of flows to pause must contain a flow whose resume is due"
        );
        table.packet_in(&key(3), P1);
        assert_eq!(
            (of(&table, P0, false), of(&table, P1, false)),
            (Some(first), Some(third)),
            "the flow must move to the list of its new ingress port"
        );
        table.packet_out(first);
        assert_eq!(of(&table, P0, false), None);
        table.mark_congested(&key(9));
        assert_eq!(
            of(&table, P0, true),
            Some(second),
            "the list of flows to pause must not contain a flow without queued frames"
        );
        table.clear_congested(second);
        assert_eq!((of(&table, P0, false), of(&table, P0, true)), (Some(second), None));
    }

    #[test]
    fn ofc_flow_table_entry_has_60_bytes() {
        assert_eq!(size_of::<FlowEntry>(), 60);
    }

    explore! {
        #[test]
        fn packet_counts_of_flows_match_reference_map(steps in prop::collection::vec((0..12u16, any::<bool>()), 0..200)) {
            let mut table = FlowTable::new(8, 2);
            let mut counts: BTreeMap<u16, (u32, u32)> = BTreeMap::new();
            for (number, arrives) in steps {
                if arrives {
                    let full = counts.len() == 8 && !counts.contains_key(&number);
                    let flow = table.packet_in(&key(number), P0);
                    prop_assert_eq!(flow == NO_FLOW, full);
                    if !full {
                        let count = counts.entry(number).or_insert((flow, 0));
                        prop_assert_eq!(count.0, flow, "the number of a queued flow must not change");
                        count.1 += 1;
                    }
                } else if let Some((flow, count)) = counts.get_mut(&number) {
                    table.packet_out(*flow);
                    *count -= 1;
                    if *count == 0 {
                        counts.remove(&number);
                    }
                }
                prop_assert_eq!(table.bytes(), counts.len() * size_of::<FlowEntry>());
                for (number, (flow, count)) in &counts {
                    prop_assert_eq!(table.find(&key(*number)), Some(*flow));
                    prop_assert_eq!(table.entry(*flow).packets, *count);
                }
            }
        }
    }
}

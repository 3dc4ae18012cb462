//! OFC's `congested_flow_tab` of one egress port: flows paused by its peer.

use xoff_wire::units::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PausedFlow {
    until: Nanos,
    flow: u32,
}

pub(super) const BYTES_PER_CONGESTED_FLOW: usize = size_of::<PausedFlow>();

#[derive(Debug)]
pub(super) struct CongestedFlows {
    flows: Vec<PausedFlow>,
    next_expiry: Nanos,
}

impl CongestedFlows {
    pub(super) fn new(capacity: usize) -> CongestedFlows {
        CongestedFlows { flows: Vec::with_capacity(capacity), next_expiry: Nanos::NEVER }
    }

    /// Records that the peer pauses the flow until `until`, which replaces an earlier time. The table must have space
    /// for a new flow.
    pub(super) fn pause(&mut self, flow: u32, until: Nanos) {
        match self.flows.iter_mut().find(|paused| paused.flow == flow) {
            Some(paused) => paused.until = until,
            None => self.flows.push(PausedFlow { until, flow }),
        }
        self.find_next_expiry();
    }

    pub(super) fn is_full(&self) -> bool {
        self.flows.len() == self.flows.capacity()
    }

    /// Removes a flow that the peer resumes. Returns false if it is not in the table.
    pub(super) fn resume(&mut self, flow: u32) -> bool {
        let place = self.flows.iter().position(|paused| paused.flow == flow);
        if let Some(place) = place {
            self.flows.swap_remove(place);
            self.find_next_expiry();
        }
        place.is_some()
    }

    pub(super) fn pop_expired(&mut self, now: Nanos) -> Option<u32> {
        let place = self.flows.iter().position(|paused| paused.until <= now)?;
        let flow = self.flows.swap_remove(place).flow;
        self.find_next_expiry();
        Some(flow)
    }

    pub(super) const fn next_expiry(&self) -> Nanos {
        self.next_expiry
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.flows.len() * size_of::<PausedFlow>()
    }

    fn find_next_expiry(&mut self) {
        self.next_expiry = self.flows.iter().map(|paused| paused.until).min().unwrap_or(Nanos::NEVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // Algorithm 2 lines 3-4 and 7-8
    fn paused_flow_stays_in_table_until_resume_or_expiry() {
        let mut table = CongestedFlows::new(4);
        for (flow, until) in [(1, 100), (2, 200), (3, 50)] {
            table.pause(flow, Nanos(until));
        }
        assert_eq!(table.next_expiry(), Nanos(50));
        table.pause(3, Nanos(300)); // the last value wins
        assert_eq!(table.next_expiry(), Nanos(100));
        assert_eq!(table.pop_expired(Nanos(99)), None);
        assert_eq!(table.pop_expired(Nanos(100)), Some(1));
        assert!(table.resume(2) && !table.resume(2));
        assert_eq!((table.next_expiry(), table.len()), (Nanos(300), 1));
        assert!(table.resume(3) && table.is_empty());
        assert_eq!(table.next_expiry(), Nanos::NEVER);
    }

    #[test]
    fn table_of_congested_flows_is_full_at_its_capacity() {
        let mut table = CongestedFlows::new(2);
        table.pause(1, Nanos(1));
        table.pause(1, Nanos(2));
        assert!(!table.is_full());
        table.pause(2, Nanos(1));
        assert!(table.is_full());
        assert_eq!(table.bytes(), 32);
    }
}

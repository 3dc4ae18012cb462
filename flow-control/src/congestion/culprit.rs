//! Choice of the flow to blame for a congested buffer (Chrysos et al.: "Unbiased Quantized Congestion Notification for
//! Scalable Server Fabrics", IEEE Micro 2016).
//!
//! 802.1Qau blames the arriving frame's flow, which is unfair if flows leave at different rates. Occupancy sampling
//! blames a queued frame's flow (section IV-B). Frames in a driver do not count, because their tags may have been
//! rewritten.

use xoff_wire::flow::mix;
use xoff_wire::units::Bytes;
use xoff_wire::{FlowKey, Header};

use super::flows::{Flows, NO_FLOW};

const NOWHERE: u32 = u32::MAX;
/// Bytes of a buffer unit (section V of the QCN paper). Random sampling weights frames by their number of units.
const UNIT_LEN: u64 = 256;
/// Maximum number of random picks for a sample. If none is accepted, the last picked frame is blamed.
const PICKS_MAX: u32 = 32;

/// Returns a digest of the frame's flow, identified by source and CN-TAG; without CN-TAG, by 5-tuple or addresses.
#[must_use]
pub fn flow_digest(header: &Header, head: &[u8]) -> u64 {
    let word = |bytes: [u8; 6]| bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    match header.cn_tag {
        Some(cn_tag) => mix(word(header.src.0) << 16 | u64::from(cn_tag.0)),
        None => FlowKey::of(header, head).digest(),
    }
}

#[derive(Clone, Debug)]
pub(super) struct SlotTable(Box<[SlotEntry]>);

#[derive(Clone, Copy, Debug)]
struct SlotEntry {
    at: u32,
    flow: u16,
}

impl SlotTable {
    #[must_use]
    pub(super) fn new(slots: u32) -> SlotTable {
        SlotTable(vec![SlotEntry { at: NOWHERE, flow: NO_FLOW }; slots as usize].into_boxed_slice())
    }

    #[inline]
    #[must_use]
    pub(super) fn is_in(&self, slot: u32) -> bool {
        self.0.get(slot as usize).is_some_and(|entry| entry.at != NOWHERE)
    }
}

/// Memory in bytes per frame slot: first in the table that all congestion points share, then in each point.
pub(super) const BYTES_PER_SLOT: (usize, usize) = (size_of::<SlotEntry>(), size_of::<u32>());

#[derive(Clone, Debug)]
pub(super) struct QueuedFrames {
    occupied: Vec<u32>,
    flows: Option<Flows>,
}

impl QueuedFrames {
    #[must_use]
    pub(super) fn new(slots: u32, flows_max: Option<u16>) -> QueuedFrames {
        QueuedFrames { occupied: Vec::with_capacity(slots as usize), flows: flows_max.map(Flows::new) }
    }

    pub(super) fn enter(
        &mut self,
        slots: &mut SlotTable,
        slot: u32,
        size: Bytes,
        flow: impl FnOnce() -> u64,
    ) {
        let Ok(at) = u32::try_from(self.occupied.len()) else { return };
        self.occupied.push(slot);
        let flow = self.flows.as_mut().map_or(NO_FLOW, |flows| flows.add(flow(), size));
        slots.0[slot as usize] = SlotEntry { at, flow };
    }

    pub(super) fn leave(&mut self, slots: &mut SlotTable, slot: u32, size: Bytes) {
        let entry = std::mem::replace(&mut slots.0[slot as usize], SlotEntry { at: NOWHERE, flow: NO_FLOW });
        self.occupied.swap_remove(entry.at as usize);
        if let Some(moved) = self.occupied.get(entry.at as usize) {
            slots.0[*moved as usize].at = entry.at;
        }
        if let Some(flows) = &mut self.flows {
            flows.take(entry.flow, size);
        }
    }

    #[must_use]
    pub(super) fn largest_flow(&self, slots: &SlotTable) -> Option<u32> {
        let flow = self.flows.as_ref()?.largest()?;
        self.occupied.iter().rev().copied().find(|slot| slots.0[*slot as usize].flow == flow)
    }

    #[must_use]
    pub(super) fn random_unit(
        &self,
        rng: &mut fastrand::Rng,
        size_max: Bytes,
        size: impl Fn(u32) -> Bytes,
    ) -> Option<u32> {
        let units_max = size_max.0.div_ceil(UNIT_LEN).max(1);
        let mut picked = None;
        for _ in 0..PICKS_MAX {
            let slot = *self.occupied.get(rng.usize(..self.occupied.len().max(1)))?;
            picked = Some(slot);
            if rng.u64(..units_max) < size(slot).0.div_ceil(UNIT_LEN) {
                break;
            }
        }
        picked
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use xoff_explore::explore;

    const SIZE: Bytes = Bytes(1_000);

    fn frames_of(flows: &[u64]) -> (QueuedFrames, SlotTable) {
        let (mut queued, mut slots) = (QueuedFrames::new(64, Some(16)), SlotTable::new(64));
        for (slot, flow) in (0..).zip(flows) {
            queued.enter(&mut slots, slot, SIZE, || *flow);
        }
        (queued, slots)
    }

    #[test] // proves: qcn; section IV-B: "the flow with the highest occupancy in the buffer monitored"
    fn flow_with_most_queued_bytes_is_blamed() {
        let (mut queued, mut slots) = frames_of(&[1, 2, 2, 1, 2]);
        assert_eq!(queued.largest_flow(&slots), Some(4), "flow 2 must be the largest flow");
        queued.leave(&mut slots, 4, SIZE);
        queued.leave(&mut slots, 1, SIZE);
        assert!(matches!(queued.largest_flow(&slots), Some(0 | 3)), "flow 1 must be the largest flow");
        assert!(slots.is_in(2) && !slots.is_in(4) && !slots.is_in(63));
    }

    #[test]
    fn empty_buffer_has_no_culprit() {
        let (queued, slots) = frames_of(&[]);
        assert_eq!(queued.largest_flow(&slots), None);
        assert_eq!(queued.random_unit(&mut fastrand::Rng::with_seed(1), SIZE, |_| SIZE), None);
    }

    #[test] // proves: qcn; section IV-B: P_n = q_n / q, in bytes: slot 0 occupies 6 units, the others one each
    fn flow_is_blamed_in_proportion_to_its_queued_bytes() {
        let (queued, _) = frames_of(&[0; 7]);
        let size = |slot| if slot == 0 { Bytes(1_500) } else { Bytes(64) };
        let mut rng = fastrand::Rng::with_seed(9);
        let mut hit = || queued.random_unit(&mut rng, Bytes(1_530), size).unwrap();
        let hits = (0..12_000).filter(|_| hit() == 0).count();
        assert!(
            (5_700..6_300).contains(&hits),
            "a flow with half of the buffer units must be picked in about half of 12,000 samples, not in {hits}"
        );
    }

    #[test]
    fn each_rate_limiter_of_a_station_is_a_separate_flow() {
        let frame = |src: u8, cn_tag: Option<u8>| {
            let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, src];
            bytes.extend(cn_tag.iter().flat_map(|rpid| [0x22, 0xe9, 0, *rpid]));
            bytes.extend([0x88, 0xb5]);
            bytes.resize(64, 0);
            flow_digest(&Header::parse(&bytes).unwrap(), &bytes)
        };
        let all = [frame(1, None), frame(2, None), frame(1, Some(1)), frame(1, Some(2)), frame(2, Some(1))];
        for (at, digest) in all.iter().enumerate() {
            assert!(!all[..at].contains(digest), "{at}");
        }
        assert_eq!(frame(1, Some(1)), all[2]);
    }

    explore! {
        #[test] // proves: qcn
        fn culprit_search_tracks_exactly_the_queued_frames(steps in prop::collection::vec(0u32..32, 0..300)) {
            let (mut queued, mut slots) = (QueuedFrames::new(32, None), SlotTable::new(32));
            let mut there = Vec::new();
            for slot in steps {
                if there.contains(&slot) {
                    queued.leave(&mut slots, slot, SIZE);
                    there.retain(|other| *other != slot);
                } else {
                    queued.enter(&mut slots, slot, SIZE, || unreachable!("a frame's flow must not be computed unless flows are counted"));
                    there.push(slot);
                }
                let mut occupied = queued.occupied.clone();
                occupied.sort_unstable();
                let mut expected = there.clone();
                expected.sort_unstable();
                prop_assert_eq!(&occupied, &expected);
                prop_assert!((0..32).all(|slot| slots.is_in(slot) == there.contains(&slot)));
            }
        }
    }
}

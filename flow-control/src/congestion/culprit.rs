//! Choice of the flow to blame for a congested buffer (Chrysos et al.: "Unbiased Quantized Congestion Notification
//! for Scalable Server Fabrics", IEEE Micro 2016, section IV).
//!
//! The standard blames the frame that has just arrived. That is right for a FIFO, and wrong for a buffer whose flows
//! leave at different rates: a fast flow is blamed for a slow one. Occupancy sampling blames a queued frame instead:
//! one of the flow with the most bytes, or a random one. Random sampling blames flow n with probability q_n / q
//! (section IV-B) and needs no state per flow.
//!
//! The frames of a buffer are kept as slots in an array without gaps ([`Crowd`]). A table by slot gives each frame's
//! position, so that any frame can leave. Frames handed to a driver have left the crowd, because their tags may
//! differ by then.

use xoff_wire::flow::mix;
use xoff_wire::units::Bytes;
use xoff_wire::{FlowKey, Header};

use super::flows::{Flows, NO_FLOW};

const NOWHERE: u32 = u32::MAX;
/// Bytes of the paper's buffer units (section V): a frame is hit in proportion to the units that it occupies.
const UNIT_LEN: u64 = 256;
/// Random picks before the last picked frame is taken, whatever its size.
const PICKS_MAX: u32 = 32;

/// Returns a digest of the flow to blame for a frame: its rate limiter if a CN-TAG names one, else its 5-tuple or
/// addresses.
#[must_use]
pub fn flow_digest(header: &Header, head: &[u8]) -> u64 {
    let word = |bytes: [u8; 6]| bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
    match header.cn_tag {
        Some(cn_tag) => mix(word(header.src.0) << 16 | u64::from(cn_tag.0)),
        None => FlowKey::of(header, head).digest(),
    }
}

/// Position of each slot of the store in its crowd.
#[derive(Clone, Debug)]
pub struct Places(Box<[Place]>);

#[derive(Clone, Copy, Debug)]
struct Place {
    at: u32,
    flow: u16,
}

impl Places {
    /// Creates the table for a store of `slots` slots.
    #[must_use]
    pub fn new(slots: u32) -> Places {
        Places(vec![Place { at: NOWHERE, flow: NO_FLOW }; slots as usize].into_boxed_slice())
    }

    /// Returns whether the frame in `slot` is in a crowd.
    #[inline]
    #[must_use]
    pub fn is_in(&self, slot: u32) -> bool {
        self.0.get(slot as usize).is_some_and(|place| place.at != NOWHERE)
    }
}

/// Bytes that congestion points take for each slot of the store: once in total, and once for each point.
pub(super) const BYTES_PER_SLOT: (usize, usize) = (size_of::<Place>(), size_of::<u32>());

/// Frames queued in one buffer.
#[derive(Clone, Debug)]
pub struct Crowd {
    occupied: Vec<u32>,
    /// Bytes by flow; present only with
    /// [`Culprit::OccupancyDeterministic`](crate::settings::Culprit::OccupancyDeterministic).
    flows: Option<Flows>,
}

impl Crowd {
    /// Creates a crowd for a buffer of at most `slots` frames; with `flows_max`, it counts bytes of so many flows.
    #[must_use]
    pub fn new(slots: u32, flows_max: Option<u16>) -> Crowd {
        Crowd { occupied: Vec::with_capacity(slots as usize), flows: flows_max.map(Flows::new) }
    }

    /// Adds the frame of `size` in `slot`. `flow` computes its [`flow_digest`] and is called only if flows are
    /// counted.
    pub fn enter(&mut self, places: &mut Places, slot: u32, size: Bytes, flow: impl FnOnce() -> u64) {
        let Ok(at) = u32::try_from(self.occupied.len()) else { return };
        self.occupied.push(slot);
        let flow = self.flows.as_mut().map_or(NO_FLOW, |flows| flows.add(flow(), size));
        places.0[slot as usize] = Place { at, flow };
    }

    /// Removes the frame of `size` in `slot`, which must be in this crowd.
    pub fn leave(&mut self, places: &mut Places, slot: u32, size: Bytes) {
        let place = std::mem::replace(&mut places.0[slot as usize], Place { at: NOWHERE, flow: NO_FLOW });
        self.occupied.swap_remove(place.at as usize);
        if let Some(moved) = self.occupied.get(place.at as usize) {
            places.0[*moved as usize].at = place.at;
        }
        if let Some(flows) = &mut self.flows {
            flows.take(place.flow, size);
        }
    }

    /// Returns a slot of the flow with the most bytes, the last one in the array; `None` without flows.
    #[must_use]
    pub fn largest_flow(&self, places: &Places) -> Option<u32> {
        let flow = self.flows.as_ref()?.largest()?;
        self.occupied.iter().rev().copied().find(|slot| places.0[*slot as usize].flow == flow)
    }

    /// Returns the slot of the frame that occupies a random unit. `size` returns the size of the frame in a slot, at
    /// most `size_max`.
    #[must_use]
    pub fn random_unit(
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

    /// Returns the number of queued frames.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.occupied.len()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use xoff_explore::explore;

    const SIZE: Bytes = Bytes(1_000);

    /// Creates a crowd whose slots have these flows, in this order.
    fn crowd(flows: &[u64]) -> (Crowd, Places) {
        let (mut crowd, mut places) = (Crowd::new(64, Some(16)), Places::new(64));
        for (slot, flow) in (0..).zip(flows) {
            crowd.enter(&mut places, slot, SIZE, || *flow);
        }
        (crowd, places)
    }

    // proves: qcn
    #[test] // section IV-B: "the flow with the highest occupancy in the buffer monitored"
    fn the_flow_with_the_most_bytes_is_to_blame() {
        let (mut crowd, mut places) = crowd(&[1, 2, 2, 1, 2]);
        assert_eq!(crowd.largest_flow(&places), Some(4), "flow 2");
        crowd.leave(&mut places, 4, SIZE);
        crowd.leave(&mut places, 1, SIZE);
        assert!(matches!(crowd.largest_flow(&places), Some(0 | 3)), "flow 1");
        assert!(places.is_in(2) && !places.is_in(4) && !places.is_in(63));
    }

    #[test]
    fn an_empty_buffer_has_no_culprit() {
        let (crowd, places) = crowd(&[]);
        assert_eq!(crowd.largest_flow(&places), None);
        assert_eq!(crowd.random_unit(&mut fastrand::Rng::with_seed(1), SIZE, |_| SIZE), None);
    }

    // proves: qcn
    #[test] // section IV-B: P_n = q_n / q, in bytes: slot 0 occupies 6 units, the others one each
    fn each_flow_is_hit_as_often_as_it_occupies_the_buffer() {
        let (crowd, _) = crowd(&[0; 7]);
        let size = |slot| if slot == 0 { Bytes(1_500) } else { Bytes(64) };
        let mut rng = fastrand::Rng::with_seed(9);
        let mut hit = || crowd.random_unit(&mut rng, Bytes(1_530), size).unwrap();
        let hits = (0..12_000).filter(|_| hit() == 0).count();
        assert!((5_700..6_300).contains(&hits), "{hits} of 12,000, half of the units");
    }

    #[test]
    fn a_rate_limiter_is_a_flow_of_its_own() {
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
        // proves: qcn
        #[test]
        fn who_entered_and_did_not_leave_is_there(steps in prop::collection::vec(0u32..32, 0..300)) {
            let (mut crowd, mut places) = (Crowd::new(32, None), Places::new(32));
            let mut there = Vec::new();
            for slot in steps {
                if there.contains(&slot) {
                    crowd.leave(&mut places, slot, SIZE);
                    there.retain(|other| *other != slot);
                } else {
                    crowd.enter(&mut places, slot, SIZE, || unreachable!("flows are not told apart"));
                    there.push(slot);
                }
                let mut occupied = crowd.occupied.clone();
                occupied.sort_unstable();
                let mut expected = there.clone();
                expected.sort_unstable();
                prop_assert_eq!(&occupied, &expected);
                prop_assert!((0..32).all(|slot| places.is_in(slot) == there.contains(&slot)));
            }
        }
    }
}

//! What a node has seen, as one number: the same seed gives the same traces.

use crate::time::Picos;

/// Digits of the golden ratio, as in many hashes: an odd number with its bits well mixed.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trace(u64);

impl Trace {
    #[inline]
    pub(crate) fn note(&mut self, now: Picos, subject: u32) {
        self.add(now.0 ^ u64::from(subject).rotate_left(40));
    }

    /// A frame with this mark has arrived.
    #[inline]
    pub(crate) fn note_frame(&mut self, mark: u64) {
        self.add(mark);
    }

    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    }

    /// Of all nodes, in their order.
    pub(crate) fn digest(traces: &[Trace]) -> u64 {
        let mut all = Trace::default();
        traces.iter().for_each(|Trace(of_node)| all.add(*of_node));
        all.0 ^ all.0 >> 32
    }
}

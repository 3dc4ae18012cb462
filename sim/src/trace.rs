use crate::time::Picos;

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trace(u64);

impl Trace {
    #[inline]
    pub(crate) fn note(&mut self, now: Picos, subject: u32) {
        self.add(now.0 ^ u64::from(subject).rotate_left(40));
    }

    #[inline]
    pub(crate) fn note_frame(&mut self, mark: u64) {
        self.add(mark);
    }

    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    }

    pub(crate) fn digest(traces: &[Trace]) -> u64 {
        let mut all = Trace::default();
        traces.iter().for_each(|Trace(of_node)| all.add(*of_node));
        all.0 ^ all.0 >> 32
    }
}

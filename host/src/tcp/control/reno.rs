#[derive(Clone, Copy, Debug, Default)]
pub struct Reno {
    acknowledged: u32,
}

impl Reno {
    pub(super) fn grow(&mut self, window: u32, acknowledged: u32) -> u32 {
        self.acknowledged += acknowledged;
        let steps = self.acknowledged / window.max(1);
        self.acknowledged -= steps * window;
        window.saturating_add(steps)
    }

    pub(super) const fn reduce(&mut self, window: u32) -> u32 {
        self.acknowledged = 0;
        window / 2
    }
}

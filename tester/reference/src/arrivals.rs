//! Defects of the reference switch that lose received frames.

use crate::defects::{Defect, Defects};

const SILENCE_NS: u64 = 200_000_000;
const LOSS_INTERVAL: u64 = 500;
const SMALL: usize = 60;
const STANDARD: usize = 1_514;

#[derive(Clone, Debug)]
pub struct Arrivals {
    defects: Defects,
    last: u64,
    frames: u64,
}

impl Arrivals {
    #[must_use]
    pub const fn new(defects: Defects) -> Arrivals {
        Arrivals { defects, last: 0, frames: 0 }
    }

    pub fn loses(&mut self, len: usize, now: u64) -> bool {
        let silence = now - std::mem::replace(&mut self.last, now);
        self.frames += 1;
        len <= SMALL && self.defects.has(Defect::DropsSmall)
            || len > STANDARD && self.defects.has(Defect::DropsJumbo)
            || silence > SILENCE_NS && self.frames > 1 && self.defects.has(Defect::LosesAfterIdle)
            || self.frames.is_multiple_of(LOSS_INTERVAL) && self.defects.has(Defect::LosesSome)
    }
}

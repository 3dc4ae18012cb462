//! Received pauses that a port obeys: one timer for each class, in quanta of 512 bit times at the port's speed.

use crate::defects::{Defect, Defects};
use crate::frame::CLASSES;
use crate::pfc::Pfc;

const XON_LATE_NS: u64 = 50_000_000;
const LATE_FRAMES: u32 = 200;
const XON_LOST_NS: u64 = 500_000;

#[derive(Clone, Debug)]
pub struct Pauses {
    speed_bps: u64,
    lossless: u8,
    defects: Defects,
    until: [u64; CLASSES],
    spans: [u64; CLASSES],
    obeyed_at: u64,
    /// Number of frames of each class that still leave after XOFF, with the defect `stops-late`.
    late: [u32; CLASSES],
}

impl Pauses {
    /// Creates the timers of a port that obeys pauses of the `lossless` classes (bit n: class n).
    #[must_use]
    pub const fn new(speed_bps: u64, lossless: u8, defects: Defects) -> Pauses {
        let [until, spans] = [[0; CLASSES]; 2];
        Pauses { speed_bps, lossless, defects, until, spans, obeyed_at: 0, late: [0; CLASSES] }
    }

    #[must_use]
    pub const fn is_paused(&self, class: usize, now: u64) -> bool {
        now < self.until[class] && self.late[class] == 0
    }

    pub const fn sent(&mut self, class: usize) {
        self.late[class] = self.late[class].saturating_sub(1);
    }

    pub fn link_lost(&mut self, now: u64) {
        let keeps = self.defects.has(Defect::FlapKeepsPause);
        self.until = self.until.map(|until| if keeps && until > now { u64::MAX } else { 0 });
    }

    pub fn obey(&mut self, pfc: &Pfc, now: u64) {
        let (defects, before) = (self.defects, self.until);
        let has = |defect| defects.has(defect);
        let is_resumed = |class| pfc.has(class) && pfc.times[class] == 0;
        let stays_paused = |class| before[class] > now && !is_resumed(class);
        if has(Defect::XonAfterXoffLost) && now < self.obeyed_at + XON_LOST_NS
            || has(Defect::XonOfLastOnly) && (0..CLASSES).any(is_resumed) && (0..CLASSES).any(stays_paused)
        {
            return;
        }
        self.obeyed_at = now;
        let has_xoff = pfc.times != [0; CLASSES];
        for class in (0..CLASSES).filter(|&class| has_xoff && !pfc.has(class) && before[class] > now) {
            if has(Defect::XoffEndsOthers) {
                self.until[class] = now;
            }
            if has(Defect::XoffRestartsOthers) {
                self.until[class] = now + self.spans[class];
            }
        }
        let mut obeyed = if has(Defect::PausesLossy) { 0xff } else { self.lossless };
        if has(Defect::LastClassIgnored) {
            obeyed &= !self.highest_lossless();
        }
        if has(Defect::PausesHighestLossy) {
            obeyed |= 0x80;
        }
        for class in (0..CLASSES).filter(|&class| pfc.has(class) && obeyed & 1 << class != 0) {
            let end = self.end(class, pfc.times[class], now);
            for class in self.targets(class, pfc.times[class], now) {
                if self.until[class] <= now && end > now && has(Defect::StopsLate) {
                    self.late[class] = LATE_FRAMES;
                }
                self.until[class] = end;
                self.spans[class] = end - end.min(now);
            }
        }
    }

    const fn highest_lossless(&self) -> u8 {
        match self.lossless {
            0 => 0,
            lossless => 0x80 >> lossless.leading_zeros(),
        }
    }

    /// Returns the classes that a pause of `class` affects: `class` only, unless a defect is on.
    fn targets(&self, class: usize, time: u16, now: u64) -> Vec<usize> {
        if self.defects.has(Defect::PausesAll) || time == 0 && self.defects.has(Defect::XonAll) {
            (0..CLASSES).collect()
        } else if self.defects.has(Defect::NextClass) {
            vec![(class + 1) % CLASSES]
        } else if self.defects.has(Defect::LastPausesNext) && 1 << class == self.highest_lossless() {
            vec![class, (class + 1) % CLASSES]
        } else if self.defects.has(Defect::OneTimer) {
            (0..CLASSES).filter(|&other| other == class || self.until[other] > now).collect()
        } else {
            vec![class]
        }
    }

    fn end(&self, class: usize, time: u16, now: u64) -> u64 {
        let has = |defect| self.defects.has(defect);
        let before = self.until[class];
        let is_paused = before > now;
        let quanta = match time {
            0 if has(Defect::ZeroWraps) => 65_536,
            time => u64::from(time),
        };
        if quanta == 0 {
            return match () {
                () if has(Defect::XonIgnored) => before,
                () if has(Defect::XonIgnoredLast) && 1 << class == self.highest_lossless() => before,
                () if has(Defect::XonLate) && is_paused => before.min(now + XON_LATE_NS),
                () => now,
            };
        }
        let speed = if has(Defect::QuantumOtherSpeed) { self.speed_bps * 10 } else { self.speed_bps };
        let mut span = quanta * 512 * 1_000_000_000 / speed;
        if has(Defect::QuantumHalf) || class == 7 && has(Defect::TimerOfClass7) {
            span /= 2;
        }
        if has(Defect::QuantumDouble) {
            span *= 2;
        }
        match now + span {
            _ if is_paused && has(Defect::FirstValueWins) => before,
            end if is_paused && has(Defect::LargerValueWins) => end.max(before),
            _ if is_paused && has(Defect::RefreshAdds) => before + span,
            end => end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a port of 1 Gb/s obey PFC frames in order, each given as (class, quanta, arrival in ns). Returns when the pauses of classes 3
    /// and 4 end.
    fn ends(defects: &[Defect], received: &[(usize, u16, u64)]) -> [u64; 2] {
        let mut pauses = Pauses::new(1_000_000_000, 0b1_1000, defects.iter().copied().collect());
        for &(class, time, at) in received {
            let mut pfc = Pfc::default();
            pfc.set(class, time);
            pauses.obey(&pfc, at);
        }
        [pauses.until[3], pauses.until[4]]
    }

    #[test]
    fn newer_pause_time_of_a_class_replaces_earlier_one() {
        for (received, expected) in [
            (&[(3, 1, 0)][..], [512, 0]),
            (&[(3, 65_535, 0)], [33_553_920, 0]),
            (&[(3, 1_000, 0), (3, 10, 100)], [5_220, 0]),
            (&[(3, 10, 0), (3, 1_000, 100)], [512_100, 0]),
            (&[(3, 1_000, 0), (4, 10, 0), (3, 0, 700)], [700, 5_120]),
            (&[(2, 1_000, 0), (5, 1_000, 0)], [0, 0]), // lossy
        ] {
            assert_eq!(ends(&[], received), expected, "{received:?}");
        }
    }

    #[test]
    fn each_pause_defect_changes_when_a_received_pause_ends() {
        let changed = [(3, 1_000, 0), (3, 10, 100)];
        for (defect, received, expected) in [
            (Defect::QuantumHalf, &[(3, 10, 0)][..], [2_560, 0]),
            (Defect::QuantumDouble, &[(3, 10, 0)], [10_240, 0]),
            (Defect::QuantumOtherSpeed, &[(3, 10, 0)], [512, 0]),
            (Defect::FirstValueWins, &changed, [512_000, 0]),
            (Defect::LargerValueWins, &changed, [512_000, 0]),
            (Defect::RefreshAdds, &changed, [517_120, 0]),
            (Defect::XonIgnored, &[(3, 10, 0), (3, 0, 9)], [5_120, 0]),
            (Defect::ZeroWraps, &[(3, 0, 0)], [33_554_432, 0]),
            (Defect::XonAll, &[(3, 10, 0), (4, 0, 9)], [9, 9]),
            (Defect::OneTimer, &[(3, 1_000, 0), (4, 10, 0)], [5_120, 5_120]),
            (Defect::XoffEndsOthers, &[(3, 1_000, 0), (4, 10, 100)], [100, 5_220]),
            (Defect::XoffRestartsOthers, &[(3, 1_000, 0), (4, 10, 100)], [512_100, 5_220]),
            (Defect::XonOfLastOnly, &[(3, 10, 0), (4, 10, 0), (3, 0, 9)], [5_120, 5_120]),
            (Defect::XonAfterXoffLost, &[(3, 10, 1_000_000), (3, 0, 1_000_009)], [1_005_120, 0]),
            (Defect::NextClass, &[(3, 10, 0)], [0, 5_120]),
            (Defect::LastClassIgnored, &[(3, 10, 0), (4, 10, 0)], [5_120, 0]),
        ] {
            assert_eq!(ends(&[defect], received), expected, "{defect:?}");
        }
    }

    #[test]
    fn received_pause_ends_after_its_quanta_at_line_speed() {
        let mut pauses = Pauses::new(1_000_000_000, 0x08, Defects::default());
        let mut pfc = Pfc::default();
        pfc.set(3, 2);
        pauses.obey(&pfc, 1_000);
        assert!(pauses.is_paused(3, 2_023));
        assert!(!pauses.is_paused(3, 2_024));
    }
}

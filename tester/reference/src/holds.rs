//! Pauses that a port requests from its peer: XOFF, refresh after half the pause time, XON.

use crate::defects::{Defect, Defects};
use crate::frame::CLASSES;
use crate::pfc::Pfc;

const XON_LATE_NS: u64 = 60_000_000;
const UNASKED_NS: u64 = 50_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Hold {
    is_wanted: bool,
    refresh: Option<u64>,
    ended: u64,
}

#[derive(Clone, Debug)]
pub struct Holds {
    quanta: u16,
    pause_ns: u64,
    lossless: u8,
    defects: Defects,
    holds: [Hold; CLASSES],
    unasked: u64,
}

impl Holds {
    #[must_use]
    pub const fn new(quanta: u16, speed_bps: u64, lossless: u8, defects: Defects) -> Holds {
        let pause_ns = quanta as u64 * 512 * 1_000_000_000 / speed_bps;
        let holds = [Hold { is_wanted: false, refresh: None, ended: 0 }; CLASSES];
        Holds { quanta, pause_ns, lossless, defects, holds, unasked: 0 }
    }

    pub const fn want(&mut self, class: usize, is_wanted: bool, now: u64) {
        if self.defects.has(Defect::XoffLowestOnly) && class != self.lossless.trailing_zeros() as usize {
            return;
        }
        let hold = &mut self.holds[class];
        if hold.is_wanted && !is_wanted {
            hold.ended = now;
        }
        hold.is_wanted = is_wanted;
    }

    /// Forgets all sent pauses after a link loss, so that `due` sends XOFF again for classes that must stay paused.
    pub fn link_lost(&mut self) {
        self.holds.iter_mut().for_each(|hold| hold.refresh = None);
    }

    pub fn due(&mut self, now: u64) -> Option<Pfc> {
        let mut pfc = Pfc::default();
        for class in 0..CLASSES {
            let Hold { is_wanted, refresh, ended } = self.holds[class];
            match refresh {
                None if is_wanted => self.xoff(&mut pfc, class, now),
                Some(at) if is_wanted && at <= now && !self.defects.has(Defect::NoRefresh) => {
                    self.xoff(&mut pfc, class, now);
                }
                Some(_) if !is_wanted => {
                    if self.defects.has(Defect::XonSentLate) && now < ended + XON_LATE_NS {
                        continue;
                    }
                    self.holds[class].refresh = None;
                    let is_missing = self.defects.has(Defect::NoXon)
                        || self.lossless >> class == 1 && self.defects.has(Defect::NoXonLast);
                    if !is_missing {
                        self.name(&mut pfc, class, 0);
                    }
                }
                _ => {}
            }
        }
        if self.defects.has(Defect::XoffUnasked) && now >= self.unasked {
            self.unasked = now + UNASKED_NS;
            self.name(&mut pfc, self.lossless.trailing_zeros() as usize % CLASSES, self.quanta / 100);
        }
        (pfc.vector != 0).then_some(pfc)
    }

    fn xoff(&mut self, pfc: &mut Pfc, class: usize, now: u64) {
        let interval = if self.defects.has(Defect::RefreshLate) {
            self.pause_ns + self.pause_ns / 2
        } else {
            self.pause_ns / 2
        };
        self.holds[class].refresh = Some(now + interval);
        self.name(pfc, class, self.quanta);
    }

    fn name(&self, pfc: &mut Pfc, class: usize, time: u16) {
        let mut classes = 1 << class;
        if self.defects.has(Defect::XoffAll) || time == 0 && self.defects.has(Defect::XonEnablesAll) {
            classes = 0xff;
        }
        if self.defects.has(Defect::XoffBoth) {
            classes |= self.lossless;
        }
        if self.defects.has(Defect::XoffNextClass) {
            classes = u8::rotate_left(classes, 1);
        }
        (0..CLASSES).filter(|&class| classes & 1 << class != 0).for_each(|class| pfc.set(class, time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses class 3 from 0 to 30 us, polling every 1 us. Returns for each sent frame: time in ns, enabled classes, quanta of class 3.
    fn frames(defects: &[Defect]) -> Vec<(u64, u8, u16)> {
        let mut holds = Holds::new(40, 1_000_000_000, 0b1_1000, defects.iter().copied().collect());
        let mut frames = Vec::new();
        for now in (0..60_000).step_by(1_000) {
            holds.want(3, now < 30_000, now);
            frames.extend(holds.due(now).map(|pfc| (now, pfc.vector, pfc.times[3])));
        }
        frames
    }

    #[test]
    fn reference_switch_repeats_pause_after_half_the_pause_time() {
        assert_eq!(frames(&[]), [(0, 8, 40), (11_000, 8, 40), (22_000, 8, 40), (30_000, 8, 0)]);
        for (defect, expected) in [
            (Defect::NoRefresh, &[(0, 8, 40), (30_000, 8, 0)][..]),
            (Defect::RefreshLate, &[(0, 8, 40), (30_000, 8, 0)]),
            (Defect::NoXon, &[(0, 8, 40), (11_000, 8, 40), (22_000, 8, 40)]),
            (Defect::XonEnablesAll, &[(0, 8, 40), (11_000, 8, 40), (22_000, 8, 40), (30_000, 255, 0)]),
            (Defect::XoffBoth, &[(0, 24, 40), (11_000, 24, 40), (22_000, 24, 40), (30_000, 24, 0)]),
            (Defect::XoffNextClass, &[(0, 16, 0), (11_000, 16, 0), (22_000, 16, 0), (30_000, 16, 0)]),
        ] {
            assert_eq!(frames(&[defect]), expected, "{defect:?}");
        }
    }

    #[test]
    fn reference_switch_repeats_its_pause_after_link_loss() {
        let mut holds = Holds::new(40, 1_000_000_000, 8, Defects::default());
        holds.want(3, true, 0);
        assert!(holds.due(0).is_some());
        assert_eq!(holds.due(1), None);
        holds.link_lost();
        assert!(holds.due(1).is_some());
    }
}

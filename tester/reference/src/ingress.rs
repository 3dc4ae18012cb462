//! Ingress accounting of a port: compares the bytes of each class with XOFF, XON and headroom.

use crate::defects::{Defect, Defects};
use crate::frame::CLASSES;

const FRAME: u64 = 1_518;
const LEAK: u64 = 16;
const SMALL: u64 = 60;
const CELL: u64 = 250;

/// Thresholds of a lossless ingress queue, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Thresholds {
    pub xoff: u64,
    pub xon: u64,
    pub headroom: u64,
}

#[derive(Clone, Debug)]
pub struct Ingress {
    thresholds: Thresholds,
    lossless: u8,
    defects: Defects,
    bytes: [u64; CLASSES],
    is_held: [bool; CLASSES],
    leaked: [u64; CLASSES],
}

impl Ingress {
    #[must_use]
    pub const fn new(thresholds: Thresholds, lossless: u8, defects: Defects) -> Ingress {
        let (bytes, leaked) = ([0; CLASSES], [0; CLASSES]);
        Ingress { thresholds, lossless, defects, bytes, is_held: [false; CLASSES], leaked }
    }

    /// Counts a received frame of `len` bytes. Returns false if it must be dropped, because its class would exceed XOFF plus headroom.
    #[must_use]
    pub fn admit(&mut self, class: usize, len: u64) -> bool {
        let is_small = len <= SMALL && self.defects.has(Defect::DropsSmallCongested);
        if is_small && self.bytes[class] > self.xoff() / 2 {
            return false;
        }
        let len = self.counted(len);
        if self.is_lossless(class) && self.bytes[class] + len > self.limit(class) {
            self.is_held[class] = true;
            return false;
        }
        self.bytes[class] += len;
        if self.bytes[class] > self.xoff() && !self.defects.has(Defect::XoffAfterDrop) {
            self.is_held[class] = true;
        }
        true
    }

    pub fn release(&mut self, class: usize, len: u64) {
        self.bytes[class] -= self.counted(len);
        if self.defects.has(Defect::Leaks) {
            self.leaked[class] += LEAK;
        }
        if self.bytes[class] <= self.xon(class) {
            self.is_held[class] = false;
        }
    }

    #[must_use]
    pub const fn is_held(&self, class: usize) -> bool {
        self.is_held[class] && (self.is_lossless(class) || self.defects.has(Defect::XoffLossy))
    }

    const fn is_lossless(&self, class: usize) -> bool {
        self.lossless & 1 << class != 0
    }

    const fn xoff(&self) -> u64 {
        if self.defects.has(Defect::XoffTenth) { self.thresholds.xoff / 10 } else { self.thresholds.xoff }
    }

    const fn counted(&self, len: u64) -> u64 {
        if self.defects.has(Defect::CountsCells) { len.next_multiple_of(CELL) } else { len }
    }

    fn xon(&self, class: usize) -> u64 {
        let is_highest = self.lossless >> class == 1;
        if self.defects.has(Defect::XonEarly) {
            self.xoff()
        } else if self.defects.has(Defect::XonEmpty)
            || is_highest && self.defects.has(Defect::XonEmptyLastClass)
        {
            0
        } else {
            self.thresholds.xon.min(self.xoff())
        }
    }

    const fn limit(&self, class: usize) -> u64 {
        let Thresholds { xoff, headroom, .. } = self.thresholds;
        let is_lowest = self.lossless.trailing_zeros() as usize == class;
        let missing = if self.defects.has(Defect::HeadroomShort) {
            FRAME
        } else if self.defects.has(Defect::HeadroomHalf) {
            headroom / 2
        } else if self.defects.has(Defect::HeadroomOneClass) && !is_lowest {
            headroom
        } else {
            self.leaked[class]
        };
        xoff + headroom.saturating_sub(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: Thresholds = Thresholds { xoff: 10_000, xon: 5_000, headroom: 20_000 };

    fn ingress(defects: &[Defect]) -> Ingress {
        Ingress::new(THRESHOLDS, 0b1_1000, defects.iter().copied().collect())
    }

    #[test]
    fn peer_is_paused_from_xoff_threshold_to_xon_threshold() {
        let mut it = ingress(&[]);
        for class in [3, 5] {
            assert!(it.admit(class, 10_000));
        }
        assert!(!it.is_held(3));
        assert!(it.admit(3, 1) && it.admit(5, 1));
        assert!(it.is_held(3) && !it.is_held(5) && !it.is_held(4));
        it.release(3, 5_000);
        assert!(it.is_held(3));
        it.release(3, 1);
        assert!(!it.is_held(3));
    }

    #[test]
    fn small_frame_defects_change_capacity_of_queue() {
        for (defects, expected) in
            [(&[][..], 500), (&[Defect::CountsCells], 120), (&[Defect::DropsSmallCongested], 84)]
        {
            let mut it = ingress(defects);
            assert_eq!((0..1_000).take_while(|_| it.admit(3, 60)).count(), expected, "{defects:?}");
        }
    }

    #[test]
    fn queue_of_highest_class_with_defect_empties_before_xon() {
        let mut it = ingress(&[Defect::XonEmptyLastClass]);
        for class in [3, 4] {
            assert!(it.admit(class, 10_001));
            it.release(class, 10_000);
        }
        assert!(!it.is_held(3) && it.is_held(4));
        it.release(4, 1);
        assert!(!it.is_held(4));
    }

    #[test]
    fn lossless_frame_is_dropped_above_headroom() {
        for (defects, class, limit) in [
            (&[][..], 3, 30_000),
            (&[Defect::HeadroomShort], 3, 30_000 - FRAME),
            (&[Defect::HeadroomOneClass], 3, 30_000),
            (&[Defect::HeadroomOneClass], 4, 10_000),
        ] {
            let mut it = ingress(defects);
            assert!(it.admit(class, limit), "{defects:?}");
            assert!(!it.admit(class, 1), "{defects:?}");
        }
        assert!(ingress(&[]).admit(5, 1_000_000));
    }
}

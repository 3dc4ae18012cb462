//! Congestion point of QCN (802.1Qau): when a buffer is sampled, and the feedback of a sample.
//!
//! A sample compares the occupancy Q with its set point Qeq and its previous value Qold, with weight w:
//!
//! ```text
//!   Qoff = Q - Qeq     Qdelta = Q - Qold     Fb = Qoff + w x Qdelta
//! ```
//!
//! A positive Fb means congestion. Quantized to six bits, it tells the station by how many 128ths to slow down. The
//! higher Fb is, the sooner the next sample is taken.

use xoff_wire::cnm::FEEDBACK_MAX;
use xoff_wire::units::Bytes;

use crate::settings::QcnSettings;

/// Bytes between samples for a base interval of 150 KB, indexed by the upper three bits of the feedback (802.1Q).
const INTERVALS: [u64; 8] = [150_000, 75_000, 50_000, 37_500, 30_000, 25_000, 21_500, 18_500];

/// Sample of a buffer's occupancy, with its feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Qoff: occupancy of the buffer minus its set point, in bytes.
    pub offset: i64,
    /// Qdelta: growth of the occupancy since the previous sample, in bytes.
    pub delta: i64,
    /// Quantized |Fb|, 0..=63; zero without congestion.
    pub feedback: u8,
    /// True if a CNM may be sent: nonzero feedback, and enough frames since the last CNM.
    pub notify: bool,
}

#[derive(Clone, Debug)]
pub(super) struct CongestionPoint {
    last: Bytes,
    left: u64,
    frames: u32,
}

impl CongestionPoint {
    #[must_use]
    pub(super) fn new(settings: &QcnSettings, rng: &mut fastrand::Rng) -> CongestionPoint {
        CongestionPoint { last: Bytes::ZERO, left: settings.interval(0, rng), frames: u32::MAX }
    }

    #[inline]
    pub(super) fn arrived(
        &mut self,
        settings: &QcnSettings,
        size: Bytes,
        now: Bytes,
        rng: &mut fastrand::Rng,
    ) -> Option<Sample> {
        self.frames = self.frames.saturating_add(1);
        self.left = self.left.saturating_sub(size.0);
        if self.left > 0 { None } else { Some(self.sample(settings, now, rng)) }
    }

    #[cold]
    fn sample(&mut self, settings: &QcnSettings, now: Bytes, rng: &mut fastrand::Rng) -> Sample {
        let (offset, delta) = (difference(now, settings.set_point), difference(now, self.last));
        let feedback = settings.quantized(offset, delta);
        let notify = feedback > 0 && self.frames >= settings.frames_per_cnm;
        if notify {
            self.frames = 0;
        }
        self.last = now;
        self.left = settings.interval(feedback, rng);
        Sample { offset, delta, feedback, notify }
    }
}

impl QcnSettings {
    /// Returns the feedback `offset` + `weight` x `delta`, scaled and limited to 0..=63. It is 63 if the queue grew
    /// from zero to 2 x `set_point`.
    #[must_use]
    pub fn quantized(&self, offset: i64, delta: i64) -> u8 {
        let weight = i128::from(self.weight);
        let feedback = i128::from(offset) + weight * i128::from(delta);
        let largest = (i128::from(self.set_point.0) * (2 * weight + 1)).max(1);
        let levels = feedback * i128::from(FEEDBACK_MAX) / largest;
        u8::try_from(levels.clamp(0, FEEDBACK_MAX.into())).unwrap_or(FEEDBACK_MAX)
    }

    fn interval(&self, feedback: u8, rng: &mut fastrand::Rng) -> u64 {
        let jitter = u64::from(self.jitter_percent.min(99));
        let percent = if jitter == 0 { 100 } else { rng.u64(100 - jitter..=100 + jitter) };
        (self.base(feedback) * percent / 100).max(1)
    }

    fn base(&self, feedback: u8) -> u64 {
        let step = INTERVALS[usize::from(feedback.min(FEEDBACK_MAX) >> 3)];
        let scaled = u128::from(self.sample_every.0) * u128::from(step) / u128::from(INTERVALS[0]);
        u64::try_from(scaled).unwrap_or(u64::MAX).min(u64::MAX / 200)
    }
}

fn difference(a: Bytes, b: Bytes) -> i64 {
    i64::try_from(i128::from(a.0) - i128::from(b.0)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use xoff_explore::explore;

    const EXACT: QcnSettings = QcnSettings { jitter_percent: 0, ..QcnSettings::PAPER };

    fn arrive(point: &mut CongestionPoint, settings: &QcnSettings, size: u64, now: u64) -> Option<Sample> {
        point.arrived(settings, Bytes(size), Bytes(now), &mut fastrand::Rng::with_seed(1))
    }

    fn point(settings: &QcnSettings) -> CongestionPoint {
        CongestionPoint::new(settings, &mut fastrand::Rng::with_seed(1))
    }

    #[test] // proves: qcn; section III: Is = 150 KB
    fn qcn_sample_is_due_at_last_byte_of_interval() {
        let mut point = point(&EXACT);
        assert_eq!(arrive(&mut point, &EXACT, 149_999, 0), None);
        assert!(arrive(&mut point, &EXACT, 1, 0).is_some());
        assert_eq!(arrive(&mut point, &EXACT, 149_999, 0), None);
        assert!(arrive(&mut point, &EXACT, 1, 0).is_some());
    }

    #[test] // proves: qcn; section I: Fb = Qoff + w x Qdelta
    fn qcn_feedback_is_offset_plus_weighted_growth() {
        let mut point = point(&EXACT);
        let first = arrive(&mut point, &EXACT, 150_000, 70_000).expect("no sample is due");
        assert_eq!((first.offset, first.delta), (10_000, 70_000));
        // Qoff is 10,000 bytes, Qdelta 70,000, Qeq 60,000, w 2: (10,000 + 2 x 70,000) x 63 / (60,000 x 5) = 31.5, rounded down.
        assert_eq!((first.feedback, first.notify), (31, true));
        let second = arrive(&mut point, &EXACT, 150_000, 66_000).expect("no sample is due");
        assert_eq!((second.offset, second.delta), (6_000, -4_000));
        assert_eq!(
            (second.feedback, second.notify),
            (0, false),
            "a negative Fb (6,000 - 2 x 4,000) must not count as congestion"
        );
    }

    #[test] // proves: qcn; one below, at: one 63rd of Qeq x (2w + 1) is 4761.9 bytes
    fn qcn_feedback_is_bounded_to_six_bits() {
        assert_eq!(EXACT.quantized(4_761, 0), 0);
        assert_eq!(EXACT.quantized(4_762, 0), 1);
        assert_eq!(EXACT.quantized(0, 0), 0);
        assert_eq!(EXACT.quantized(-1, 0), 0);
        assert_eq!(EXACT.quantized(60_000, 119_999), 62);
        assert_eq!(EXACT.quantized(60_000, 120_000), 63);
        assert_eq!(EXACT.quantized(i64::MAX, i64::MAX), 63);
        assert_eq!(EXACT.quantized(i64::MIN, i64::MIN), 0);
    }

    #[test] // proves: qcn; the standard's table
    fn qcn_sample_interval_shrinks_with_feedback_as_in_standard() {
        let at = |feedback| EXACT.base(feedback);
        let table = [150_000, 75_000, 50_000, 37_500, 30_000, 25_000, 21_500, 18_500];
        for (step, bytes) in (0u8..).zip(table) {
            assert_eq!((at(step * 8), at(step * 8 + 7)), (bytes, bytes));
        }
        let tenth = QcnSettings { sample_every: Bytes(15_000), ..EXACT };
        assert_eq!((tenth.base(0), tenth.base(63)), (15_000, 1_850));
    }

    #[test]
    fn qcn_feedback_63_makes_sample_due_after_18500_bytes() {
        let mut point = point(&EXACT);
        let sample = arrive(&mut point, &EXACT, 150_000, 120_000).expect("no sample is due");
        assert_eq!(sample.feedback, 63);
        assert_eq!(arrive(&mut point, &EXACT, 18_499, 120_000), None);
        assert!(arrive(&mut point, &EXACT, 1, 120_000).is_some());
    }

    #[test] // proves: qcn; section V: one CNM per 100 frames received
    fn congestion_point_sends_one_cnm_per_hundred_frames() {
        let settings = QcnSettings { sample_every: Bytes(1), ..EXACT };
        let mut point = point(&settings);
        let mut notified = || arrive(&mut point, &settings, 1_000, 90_000).expect("no sample is due").notify;
        assert!(notified(), "the first CNM must be sent");
        let next: Vec<bool> = (0..100).map(|_| notified()).collect();
        assert_eq!(next.iter().position(|&is_sent| is_sent), Some(99));
    }

    #[test]
    fn suppressed_cnm_does_not_restart_frame_count_to_next_cnm() {
        let settings = QcnSettings { sample_every: Bytes(1), frames_per_cnm: 3, ..EXACT };
        let mut point = point(&settings);
        let mut notified = |now| arrive(&mut point, &settings, 1_000, now).expect("no sample is due").notify;
        assert_eq!([90_000; 7].map(&mut notified), [true, false, false, true, false, false, true]);
        assert_eq!([0, 0, 0, 120_000].map(&mut notified), [false, false, false, true]);
    }

    explore! {
        #[test] // proves: qcn
        fn quantized_qcn_feedback_matches_formula(
            offset in -1_000_000i64..1_000_000,
            delta in -1_000_000i64..1_000_000,
            set_point in 1u64..1_000_000,
            weight in 0u32..17,
        ) {
            let settings = QcnSettings { set_point: Bytes(set_point), weight, ..EXACT };
            let feedback = offset as f64 + f64::from(weight) * delta as f64;
            let exact = feedback * 63.0 / (set_point as f64 * (2.0 * f64::from(weight) + 1.0));
            let expected = exact.clamp(0.0, 63.0);
            let quantized = f64::from(settings.quantized(offset, delta));
            prop_assert!(quantized <= expected + 1e-9 && expected < quantized + 1.0 + 1e-9);
        }

        #[test]
        fn jitter_of_qcn_sample_interval_is_bounded(seed: u64) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let drawn: Vec<u64> = (0..64).map(|_| QcnSettings::PAPER.interval(0, &mut rng)).collect();
            prop_assert!(drawn.iter().all(|bytes| (127_500..=172_500).contains(bytes)));
            prop_assert!(drawn.iter().any(|bytes| *bytes < 150_000) && drawn.iter().any(|bytes| *bytes > 150_000));
        }
    }
}

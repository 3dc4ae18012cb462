//! ECN marking and WRED: probability that a leaving frame is marked or dropped early, by the length of its queue (RFC
//! 3168, RED).
//!
//! The queue's length when a frame leaves counts, so that senders learn the newest length. The probability rises
//! linearly from 0 at `min` to `probability` just below `max`, and is 1 from `max` on.

use fastrand::Rng;
use xoff_wire::units::Bytes;

use crate::settings::EcnSettings;

/// Returns whether to mark a frame that leaves a queue of this length; decides at random between `min` and `max`.
pub fn is_congested(settings: &EcnSettings, queue: Bytes, rng: &mut Rng) -> bool {
    if queue < settings.min {
        return false;
    }
    if queue >= settings.max {
        return true;
    }
    let above = queue.saturating_sub(settings.min).0 as f64;
    let width = settings.max.saturating_sub(settings.min).0 as f64;
    rng.f64() < settings.probability * above / width
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: EcnSettings =
        EcnSettings { min: Bytes(10_000), max: Bytes(20_000), probability: 0.2, wred: false };

    fn share(queue: u64) -> usize {
        let mut rng = Rng::with_seed(1);
        (0..10_000).filter(|_| is_congested(&SETTINGS, Bytes(queue), &mut rng)).count()
    }

    #[test] // proves: ecn
    fn ecn_mark_probability_rises_from_min_to_max() {
        assert_eq!(
            (share(9_999), share(10_000)),
            (0, 0),
            "no frame may be marked while the queue is no longer than `min`"
        );
        assert!(
            (900..1_100).contains(&share(15_000)),
            "{} of 10,000 frames are marked half way to the maximum; expected a tenth",
            share(15_000)
        );
        assert!(
            (1_900..2_100).contains(&share(19_999)),
            "{} of 10,000 frames are marked just below the maximum; expected a fifth",
            share(19_999)
        );
        assert_eq!(share(20_000), 10_000, "every frame must be marked from queue length `max` on");
    }

    #[test]
    fn equal_ecn_thresholds_mark_all_frames_or_none() {
        let step = EcnSettings { min: Bytes(100), max: Bytes(100), ..SETTINGS };
        let mut rng = Rng::with_seed(1);
        assert!(!is_congested(&step, Bytes(99), &mut rng));
        assert!(is_congested(&step, Bytes(100), &mut rng));
    }

    #[test] // proves: ecn
    fn ecn_marks_same_frames_when_seed_is_same() {
        let run = |seed| {
            let mut rng = Rng::with_seed(seed);
            (0..64).map(|_| is_congested(&SETTINGS, Bytes(19_999), &mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }
}

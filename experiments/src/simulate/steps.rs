use crate::plot::Point;

const POINTS: u64 = 160;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    period: u64,
    samples: u64,
}

impl Steps {
    /// Divides the time axis, which spans `all` times (ns), into steps of one plotted point each. A step is a multiple
    /// of the sampling period, the greatest common divisor of the intervals between the (sorted, distinct) `times`.
    pub fn of(times: &[u64], all: &[u64]) -> Steps {
        let apart = times.windows(2).map(|pair| pair[1] - pair[0]);
        let period = apart.fold(0, gcd).max(1);
        let span = all.last().unwrap_or(&0) - all.first().unwrap_or(&0) + period;
        Steps { period, samples: span.div_ceil(period * POINTS) }
    }

    /// Returns all sampling times in the range of `times`, including those of omitted samples.
    pub fn every(&self, times: &[u64]) -> impl Iterator<Item = u64> + use<> {
        let end = times.last().map_or(0, |last| last + 1);
        let period = usize::try_from(self.period).unwrap_or(usize::MAX);
        (*times.first().unwrap_or(&0)..end).step_by(period)
    }

    pub fn axis(&self, one: &str) -> String {
        match self.samples {
            1 => "time (us)".into(),
            samples => format!("time (us), {one} of {} us", (self.period * samples) as f64 / 1e3),
        }
    }

    /// Returns a line's points (time in us) for `samples` (time in ns, value); `one` reduces the values in a step to
    /// one.
    pub fn line(&self, samples: &[(u64, f64)], one: impl Fn(&[f64]) -> f64) -> Vec<Point> {
        let width = self.period * self.samples;
        let of_step = |chunk: &[(u64, f64)]| {
            let values: Vec<f64> = chunk.iter().map(|(_, value)| *value).collect();
            let at = match self.samples {
                1 => chunk[0].0 as f64,
                _ => (chunk[0].0.saturating_sub(1) / width * width) as f64 + width as f64 / 2.0,
            };
            (at / 1e3, Some(one(&values)))
        };
        let step = |sample: &(u64, f64)| sample.0.saturating_sub(1) / width;
        samples.chunk_by(|a, b| step(a) == step(b)).map(of_step).collect()
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

pub fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

// Tests for SPECIFICATION.md: sim-results
#[cfg(test)]
mod tests {
    use super::*;

    fn times(count: u64) -> Vec<u64> {
        (1..=count).map(|number| number * 1_000).collect()
    }

    #[test]
    fn few_queue_samples_are_all_plotted() {
        let steps = Steps::of(&times(POINTS), &times(POINTS));
        assert_eq!(steps.axis("mean"), "time (us)");
        assert_eq!(steps.line(&[(1_000, 3.0), (2_000, 5.0)], mean), [(1.0, Some(3.0)), (2.0, Some(5.0))]);
    }

    #[test]
    fn queue_samples_closer_than_a_pixel_are_merged() {
        let steps = Steps::of(&times(3), &times(POINTS + 1));
        assert_eq!(steps.axis("mean"), "time (us), mean of 2 us");
        let samples = [(1_000, 3.0), (2_000, 5.0), (4_000, 9.0)];
        assert_eq!(steps.line(&samples, mean), [(1.0, Some(4.0)), (3.0, Some(9.0))]);
        assert_eq!(steps.line(&samples, most), [(1.0, Some(5.0)), (3.0, Some(9.0))]);
        let line = steps.line(&times(1_000).iter().map(|at| (*at, 0.0)).collect::<Vec<_>>(), most);
        assert_eq!(line.len(), 500);
    }

    #[test]
    fn plot_restores_times_of_omitted_samples() {
        let times = [2_000, 6_000, 12_000];
        let steps = Steps::of(&times, &times);
        assert_eq!(steps.every(&times).collect::<Vec<_>>(), [2_000, 4_000, 6_000, 8_000, 10_000, 12_000]);
        assert_eq!(Steps::of(&[], &[]).every(&[]).count(), 0);
        assert_eq!(Steps::of(&[7], &[7]).every(&[7]).count(), 1);
    }

    #[test]
    fn plot_accepts_zero_samples_and_one_sample() {
        assert_eq!(Steps::of(&[], &[]).line(&[], mean), []);
        assert_eq!(Steps::of(&[7], &[7]).line(&[(7, 1.0)], mean), [(0.007, Some(1.0))]);
    }
}

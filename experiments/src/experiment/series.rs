use xoff_wire::units::Nanos;

use crate::plot::Point;

#[derive(Clone, Debug, Default)]
pub struct Series {
    samples: Vec<(Nanos, u64)>,
}

impl Series {
    pub fn record(&mut self, at: Nanos, bytes: u64) {
        self.samples.push((at, bytes));
    }

    /// Returns the mean rate in Mb/s between the last sample up to `from` and the last sample up to `to`.
    pub fn rate(&self, from: Nanos, to: Nanos) -> Option<f64> {
        let at =
            |time: Nanos| self.samples.iter().rev().find(|sample| sample.0 <= time).or(self.samples.first());
        let (first, last) = (at(from)?, at(to)?);
        (last.0 > first.0).then(|| (last.1 - first.1) as f64 * 8e3 / (last.0.0 - first.0.0) as f64)
    }

    /// Returns points of a plot: the middle (s) of each interval of length `step`, and the mean rate (Mb/s) in it.
    pub fn points(&self, step: Nanos) -> Vec<Point> {
        let end = self.samples.last().map_or(Nanos::ZERO, |sample| sample.0);
        let steps = (1..).map(|number| Nanos(step.0 * number)).take_while(|&to| to <= end);
        let point = |to: Nanos| {
            let from = Nanos(to.0 - step.0);
            ((from.0 + to.0) as f64 / 2e9, self.rate(from, to))
        };
        steps.map(point).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn series() -> Series {
        let mut series = Series::default();
        for ms in 0..=2000 {
            series.record(Nanos::from_millis(ms), ms.min(1000) * 125);
        }
        series
    }

    #[test]
    fn series_computes_mean_rate_between_two_times() {
        let rate = |from, to| series().rate(Nanos::from_millis(from), Nanos::from_millis(to));
        assert!((rate(0, 1000).unwrap() - 1.0).abs() < 1e-9);
        assert!((rate(500, 1500).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(rate(100, 100), None);
    }

    #[test]
    fn plotted_rate_lies_in_the_middle_of_its_interval() {
        let points = series().points(Nanos::from_millis(500));
        let expected = [(0.25, 1.0), (0.75, 1.0), (1.25, 0.0), (1.75, 0.0)];
        for (point, expected) in points.iter().zip(expected) {
            let rate = point.1.unwrap();
            assert!((point.0 - expected.0).abs() < 1e-9 && (rate - expected.1).abs() < 1e-9, "{points:?}");
        }
        assert_eq!(points.len(), 4);
    }

    #[test] // proves: experiments
    fn interval_without_samples_has_no_plotted_rate() {
        let mut series = Series::default();
        [0, 10, 40].into_iter().for_each(|ms| series.record(Nanos::from_millis(ms), ms * 125));
        let rates: Vec<_> = series.points(Nanos::from_millis(10)).iter().map(|point| point.1).collect();
        assert_eq!(rates, [Some(1.0), None, None, Some(1.0)]);
    }
}

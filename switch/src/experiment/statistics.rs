//! Many values in a few numbers. Of no values there are none: nothing is not zero.

use serde::Serialize;

/// How values are spread: the extremes and the quartiles, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many values there are.
    pub count: usize,
    /// The least.
    pub min: f64,
    /// A quarter of them is at most this.
    pub p25: f64,
    /// Half of them.
    pub p50: f64,
    /// Three quarters.
    pub p75: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of these values, in any order; `None` where there are none. Between two values a quantile lies on the
    /// straight line from one to the other (Hyndman and Fan's type 7).
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let quantile = |quarters: usize| {
            let (below, rest) = (last * quarters / 4, last * quarters % 4);
            let above = (below + 1).min(last);
            values[below] + (values[above] - values[below]) * rest as f64 / 4.0
        };
        Some(Spread {
            count: values.len(),
            min: values[0],
            p25: quantile(1),
            p50: quantile(2),
            p75: quantile(3),
            max: values[last],
        })
    }

    /// The same, counted in units of this size.
    #[must_use]
    pub fn in_units_of(self, size: f64) -> Spread {
        let Spread { count, min, p25, p50, p75, max } = self;
        Spread { count, min: min / size, p25: p25 / size, p50: p50 / size, p75: p75 / size, max: max / size }
    }
}

/// The median of what was measured.
pub fn p50(of: Option<Spread>) -> Option<f64> {
    of.map(|spread| spread.p50)
}

/// Mean of these values; `None` where there are none.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.into_iter().fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_five_values_are_values() {
        let spread = Spread::of([5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!(spread, Some(Spread { count: 5, min: 1.0, p25: 2.0, p50: 3.0, p75: 4.0, max: 5.0 }));
    }

    #[test]
    fn a_quartile_between_two_values_lies_between_them() {
        let quartiles = |values: &[f64]| {
            Spread::of(values.iter().copied()).map(|spread| (spread.p25, spread.p50, spread.p75))
        };
        assert_eq!(quartiles(&[0.0, 10.0]), Some((2.5, 5.0, 7.5)));
        assert_eq!(quartiles(&[1.0, 2.0, 3.0, 4.0]), Some((1.75, 2.5, 3.25)));
    }

    #[test]
    fn one_value_is_all_of_them() {
        let one = Spread { count: 1, min: 7.0, p25: 7.0, p50: 7.0, p75: 7.0, max: 7.0 };
        assert_eq!(Spread::of([7.0]), Some(one));
    }

    #[test]
    fn nothing_has_no_spread_and_no_mean() {
        assert_eq!((Spread::of([]), mean([])), (None, None));
        assert_eq!(mean([1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(serde_json::to_value(Spread::of([])).ok(), Some(serde_json::Value::Null));
    }
}

//! Many values in a few numbers.

use serde::Serialize;

/// How values are spread: the extremes and the quartiles, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// How many values there are; all else is zero where there are none.
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
    /// Of these values, in any order. Between two values a quantile lies on the straight line from one to
    /// the other (Hyndman and Fan's type 7).
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let Some(last) = values.len().checked_sub(1) else { return Spread::default() };
        let quantile = |quarters: usize| {
            let (below, rest) = (last * quarters / 4, last * quarters % 4);
            let above = (below + 1).min(last);
            values[below] + (values[above] - values[below]) * rest as f64 / 4.0
        };
        Spread {
            count: values.len(),
            min: values[0],
            p25: quantile(1),
            p50: quantile(2),
            p75: quantile(3),
            max: values[last],
        }
    }

    /// The same, counted in units of this size.
    #[must_use]
    pub fn in_units_of(self, size: f64) -> Spread {
        let Spread { count, min, p25, p50, p75, max } = self;
        Spread { count, min: min / size, p25: p25 / size, p50: p50 / size, p75: p75 / size, max: max / size }
    }
}

/// Mean of these values; zero where there are none.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (count, sum) = values.into_iter().fold((0_u32, 0.0), |(count, sum), value| (count + 1, sum + value));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_five_values_are_values() {
        let spread = Spread::of([5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!(spread, Spread { count: 5, min: 1.0, p25: 2.0, p50: 3.0, p75: 4.0, max: 5.0 });
    }

    #[test]
    fn a_quartile_between_two_values_lies_between_them() {
        let spread = Spread::of([0.0, 10.0]);
        assert_eq!((spread.p25, spread.p50, spread.p75), (2.5, 5.0, 7.5));
        let spread = Spread::of([1.0, 2.0, 3.0, 4.0]);
        assert_eq!((spread.p25, spread.p50, spread.p75), (1.75, 2.5, 3.25));
    }

    #[test]
    fn one_value_is_all_of_them_and_none_are_zero() {
        let one = Spread { count: 1, min: 7.0, p25: 7.0, p50: 7.0, p75: 7.0, max: 7.0 };
        assert_eq!(Spread::of([7.0]), one);
        assert_eq!(Spread::of([]), Spread::default());
    }

    #[test]
    fn the_mean_of_nothing_is_zero() {
        assert_eq!((mean([1.0, 2.0, 6.0]), mean([])), (3.0, 0.0));
    }
}

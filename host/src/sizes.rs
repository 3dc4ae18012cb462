//! Distributions of flow sizes: fixed, uniform, and tables of sizes with cumulative shares.

use thiserror::Error;

/// Maximum payload of a flow in bytes, so that frame numbers fit in 32 bits.
pub const FLOW_BYTES_MAX: u64 = 1 << 37;
/// Limit in bytes: if all flows of a file are smaller, its sizes are probably in packets.
pub const BYTES_LIKELY: u64 = 64;

const QUOTED_MAX: usize = 60;

/// Interpolation between two rows of a size table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Uniform distribution of sizes between two rows.
    Linear,
    /// Uniform distribution of the sizes' logarithms between two rows; the first row's range begins at one byte.
    Log,
    /// Only sizes in the rows occur: a size between two rows becomes the larger one.
    Step,
}

xoff_wire::named! { Between {
    Linear: "linear",
    Log: "log",
    Step: "step",
} }

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizesError {
    #[error(
        "line {line}: {text:?} is no size in bytes up to 128 GiB and a percentage or share, such as \"1500 62.5\""
    )]
    Line { line: usize, text: String },
    #[error("line {line}: a size, percentage or share is less than that of the previous row; sort the rows")]
    Order { line: usize },
    #[error("the last percentage is not 100, nor the last share 1; add a row for the largest flows")]
    End,
    #[error(
        "all sizes are below {BYTES_LIKELY} bytes; if they are in packets, multiply them by the bytes of a packet"
    )]
    Packets,
}

/// Distribution of flow sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    points: Vec<(f64, f64)>,
    between: Between,
}

const TABLES: [(&str, &str); 5] = [
    ("data-mining", include_str!("../data/data-mining.txt")),
    ("edu1", include_str!("../data/edu1.txt")),
    ("edu2", include_str!("../data/edu2.txt")),
    ("hadoop", include_str!("../data/hadoop.txt")),
    ("web-search", include_str!("../data/web-search.txt")),
];

impl Sizes {
    #[must_use]
    pub fn fixed(bytes: u64) -> Sizes {
        Sizes { points: vec![(bytes as f64, 1.0)], between: Between::Step }
    }

    #[must_use]
    pub fn uniform(least: u64, most: u64) -> Sizes {
        Sizes { points: vec![(least as f64, 0.0), (most as f64, 1.0)], between: Between::Linear }
    }

    /// Returns a built-in table; `data/README.md` lists names and sources.
    #[must_use]
    pub fn named(name: &str, between: Between) -> Option<Sizes> {
        let (_, text) = TABLES.iter().find(|(table, _)| *table == name)?;
        Sizes::parse(text, between).ok()
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLES.iter().map(|(name, _)| *name)
    }

    /// Parses lines of a size in bytes and a cumulative percentage (a share, if the last one is 1). `#` begins a
    /// comment.
    ///
    /// # Errors
    /// If a line is malformed, values decrease, or the last value is neither 100 nor 1.
    pub fn parse(text: &str, between: Between) -> Result<Sizes, SizesError> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let content = text.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let point = numbers(content)
                .ok_or_else(|| SizesError::Line { line, text: text.chars().take(QUOTED_MAX).collect() })?;
            if points.last().is_some_and(|last| point.0 < last.0 || point.1 < last.1) {
                return Err(SizesError::Order { line });
            }
            points.push(point);
        }
        let last = points.last().map_or(0.0, |(_, share)| *share);
        let whole = [100.0, 1.0].into_iter().find(|whole| (last / whole - 1.0).abs() < 1e-9);
        let whole = whole.ok_or(SizesError::End)?;
        points.iter_mut().for_each(|(_, share)| *share /= whole);
        if points.iter().all(|(bytes, _)| *bytes < BYTES_LIKELY as f64) {
            return Err(SizesError::Packets);
        }
        Ok(Sizes { points, between })
    }

    #[must_use]
    pub fn between(&self) -> Between {
        self.between
    }

    /// Returns the flow size in bytes that the share `share` (0 to 1) of all flows does not exceed.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sizes are not negative
    pub fn at(&self, share: f64) -> u64 {
        let next = self.points.partition_point(|(_, until)| *until < share).min(self.points.len() - 1);
        let (bytes, until) = self.points[next];
        let (bytes_before, from) = if next == 0 { (0.0, 0.0) } else { self.points[next - 1] };
        let part = if until > from { ((share - from) / (until - from)).clamp(0.0, 1.0) } else { 1.0 };
        let size = match self.between {
            Between::Step => bytes,
            Between::Linear => bytes_before + part * (bytes - bytes_before),
            Between::Log => {
                let [low, high] = [bytes_before, bytes].map(|bytes| bytes.max(1.0));
                low * (high / low).powf(part)
            }
        };
        (size.round() as u64).max(1)
    }

    /// Returns the mean of `cost(size in bytes)` over all flow sizes, integrated numerically.
    pub fn mean_of(&self, cost: impl Fn(u64) -> f64) -> f64 {
        const STEPS: u32 = 100_000; // several for each row, each evaluated at its middle
        let share = |step| (f64::from(step) + 0.5) / f64::from(STEPS);
        (0..STEPS).map(|step| cost(self.at(share(step)))).sum::<f64>() / f64::from(STEPS)
    }

    #[must_use]
    pub fn draw(&self, rng: &mut fastrand::Rng) -> u64 {
        self.at(rng.f64())
    }

    #[must_use]
    pub fn mean(&self) -> f64 {
        let before = std::iter::once(&(0.0, 0.0)).chain(&self.points);
        let part = |((low, from), (high, until)): (&(f64, f64), &(f64, f64))| {
            let size = match self.between {
                Between::Step => *high,
                Between::Linear => low.midpoint(*high),
                Between::Log => {
                    let [low, high] = [low, high].map(|bytes| bytes.max(1.0));
                    if high > low { (high - low) / (high / low).ln() } else { high }
                }
            };
            (until - from) * size
        };
        before.zip(&self.points).map(part).sum()
    }
}

fn numbers(line: &str) -> Option<(f64, f64)> {
    let mut words = line.split_whitespace().map(str::parse::<f64>);
    let (bytes, percent) = (words.next()?.ok()?, words.next()?.ok()?);
    let are_fit = words.next().is_none()
        && (0.0..=FLOW_BYTES_MAX as f64).contains(&bytes)
        && (0.0..=100.0).contains(&percent);
    are_fit.then_some((bytes, percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(between: Between) -> Sizes {
        Sizes::parse("# a table\n100 0\n100 50\n\n1000 100\n", between)
            .expect("the table must exist and be valid")
    }

    #[test] // proves: scenarios
    fn flow_sizes_follow_configured_interpolation_of_table() {
        let at = |between| [0.0, 0.2, 0.5, 0.75, 1.0].map(|share| table(between).at(share));
        assert_eq!(at(Between::Linear), [100, 100, 100, 550, 1_000]);
        assert_eq!(at(Between::Log), [100, 100, 100, 316, 1_000]);
        assert_eq!(at(Between::Step), [100, 100, 100, 1_000, 1_000]);
        assert_eq!([0.0, 0.3, 1.0].map(|share| Sizes::fixed(77).at(share)), [77, 77, 77]);
        let range = Sizes::uniform(1_000, 3_000);
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|share| range.at(share)), [1_000, 1_500, 2_000, 3_000]);
        assert!((range.mean() - 2_000.0).abs() < 1e-6);
        assert!((range.mean_of(|bytes| bytes as f64) - 2_000.0).abs() < 1.0);
    }

    #[test]
    fn flow_size_table_may_use_shares_or_percentages() {
        let shares = "150 0\n300 0.12\n300 0.2\n600 0.2\n500000 1\n";
        let percent = "150 0\n300 12\n300 20\n600 20\n500000 100\n";
        let read = |text| Sizes::parse(text, Between::Step).expect("the table must be valid");
        assert_eq!(read(shares), read(percent));
        let one_percent =
            Sizes::parse("100 0.5\n200 1\n300 100\n", Between::Step).expect("the table must be valid");
        assert_eq!([0.004, 0.009, 0.02].map(|share| one_percent.at(share)), [100, 200, 300]);
    }

    #[test]
    fn mean_of_flow_size_table_equals_mean_of_drawn_sizes() {
        for between in Between::ALL {
            for name in Sizes::names().filter(|name| *name == "hadoop" || *name == "web-search") {
                let sizes = Sizes::named(name, between).expect("the table must exist and be valid");
                let mut rng = fastrand::Rng::with_seed(5);
                let drawn: f64 = (0..400_000).map(|_| sizes.draw(&mut rng) as f64).sum::<f64>() / 400_000.0;
                let off = drawn / sizes.mean() - 1.0;
                assert!(off.abs() < 0.03, "{name} {between:?}: {drawn} against {}", sizes.mean());
            }
        }
    }

    #[test]
    fn interpolation_changes_mean_of_university_flow_sizes() {
        let kilobytes = |name, between| {
            let sizes = Sizes::named(name, between).expect("the table must exist and be valid");
            (sizes.mean() / 100.0).round() / 10.0
        };
        let means = ["edu1", "edu2"].map(|name| Between::ALL.map(|between| kilobytes(name, between)));
        assert!(
            means.iter().all(|[linear, log, step]| linear / log > 2.9 && step / linear > 1.9),
            "{means:?}"
        );
    }

    #[test] // proves: sim-fabrics
    fn error_for_invalid_flow_size_table_names_the_line() {
        let why = |text: &str| Sizes::parse(text, Between::Step).expect_err("no table");
        assert_eq!(why("0 0\n1 2 3"), SizesError::Line { line: 2, text: "1 2 3".to_owned() });
        assert_eq!(why("0 0\n# fine\n-1 100"), SizesError::Line { line: 3, text: "-1 100".to_owned() });
        assert_eq!(why("0 0\n10 40\n9 100"), SizesError::Order { line: 3 });
        assert_eq!(why("0 0\n10 40"), SizesError::End);
        assert_eq!(why("0 0\n10 0.99"), SizesError::End);
        assert_eq!(why(""), SizesError::End);
        assert_eq!(why("1 40\n63 100"), SizesError::Packets);
        assert!(Sizes::parse("1 40\n64 100", Between::Step).is_ok(), "64 bytes are a likely size");
    }
}

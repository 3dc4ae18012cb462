//! Random flows, reproducible by a seed: sizes follow a measured distribution, arrivals are Poisson (open loop).
//!
//! A distribution is a list of points (size in bytes, cumulative percent), joined by straight lines. `edu1` and
//! `edu2` are university data centers (Benson, Akella and Maltz, IMC 2010).

use fastrand::Rng;
use xoff_config::visible;
use xoff_wire::units::Nanos;

const EDU1: &str = include_str!("../data/edu1-flow-size.cdf");
const EDU2: &str = include_str!("../data/edu2-flow-size.cdf");

const QUOTED_MAX: usize = 60;

#[derive(Clone, Debug, PartialEq)]
pub struct FlowSizes {
    points: Vec<(f64, f64)>,
}

#[derive(Debug, thiserror::Error, PartialEq)]
pub enum FlowSizesError {
    #[error(
        "line {line}: `{found}` is not a point; write a size in bytes and a cumulative percent, such as 1500 62.5"
    )]
    NotAPoint { line: usize, found: String },
    #[error("line {line}: the size or percent is lower than on the line before; sort the lines")]
    Falls { line: usize },
    #[error("the last cumulative percent is {last}; it must be 100")]
    Incomplete {
        /// Last cumulative percent in the list, which should be 100.
        last: f64,
    },
}

impl FlowSizes {
    #[must_use]
    pub fn named(name: &str) -> Option<FlowSizes> {
        let text = match name {
            "edu1" => EDU1,
            "edu2" => EDU2,
            _ => return None,
        };
        Some(FlowSizes::parse(text).expect("a built-in distribution is malformed"))
    }

    /// Parses a distribution: lines of "bytes percent". Skips empty lines and lines that begin with #.
    pub fn parse(text: &str) -> Result<FlowSizes, FlowSizesError> {
        let mut points: Vec<(f64, f64)> = vec![(0.0, 0.0)];
        for (index, found) in text.lines().enumerate() {
            let (line, found) = (index + 1, found.trim());
            if found.is_empty() || found.starts_with('#') {
                continue;
            }
            let (size, percent) =
                parse_point(found).ok_or_else(|| FlowSizesError::NotAPoint { line, found: quoted(found) })?;
            let share = percent / 100.0;
            if points.last().is_some_and(|&last| size < last.0 || share < last.1) {
                return Err(FlowSizesError::Falls { line });
            }
            points.push((size, share));
        }
        match points.last() {
            Some(&(size, 1.0)) if size >= 1.0 => Ok(FlowSizes { points }),
            last => Err(FlowSizesError::Incomplete { last: last.map_or(0.0, |last| last.1 * 100.0) }),
        }
    }

    /// Returns the flow size in bytes at `quantile` (0 to 1); at least 1 byte.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u32 {
        let above = self.points.partition_point(|point| point.1 < quantile).clamp(1, self.points.len() - 1);
        let ((size_a, share_a), (size_b, share_b)) = (self.points[above - 1], self.points[above]);
        let along = if share_b > share_a { (quantile - share_a) / (share_b - share_a) } else { 1.0 };
        whole(size_a + (size_b - size_a) * along)
    }

    #[must_use]
    pub fn mean(&self, cost: impl Fn(u32) -> f64) -> f64 {
        const STEPS: u32 = 100_000; // several steps per straight line, each evaluated at its middle
        (0..STEPS).map(|n| cost(self.quantile((f64::from(n) + 0.5) / f64::from(STEPS)))).sum::<f64>()
            / f64::from(STEPS)
    }
}

fn quoted(line: &str) -> String {
    visible(&line.chars().take(QUOTED_MAX).collect::<String>()).into_owned()
}

fn parse_point(line: &str) -> Option<(f64, f64)> {
    let mut words = line.split_whitespace().map(|word| word.parse::<f64>().ok().filter(|n| n.is_finite()));
    let point = (words.next()??, words.next()??);
    (words.next().is_none() && point.0 >= 0.0 && point.0 <= f64::from(u32::MAX) && point.1 >= 0.0)
        .then_some(point)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a float cast saturates
fn whole(size: f64) -> u32 {
    size.round().max(1.0) as u32
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub id: u32,
    pub bytes: u32,
    /// Time from which on frames of the flow can be sent.
    pub began: Nanos,
}

#[derive(Clone, Debug)]
pub struct Arrivals {
    sizes: FlowSizes,
    interval_mean: f64,
    rng: Rng,
    next: Flow,
}

impl Arrivals {
    #[must_use]
    pub fn new(sizes: FlowSizes, interval_mean: Nanos, start: Nanos, seed: u64) -> Arrivals {
        let mut arrivals = Arrivals {
            sizes,
            interval_mean: interval_mean.0 as f64,
            rng: Rng::with_seed(seed),
            next: Flow { id: 0, bytes: 0, began: start },
        };
        arrivals.draw();
        arrivals
    }

    #[must_use]
    pub const fn peek(&self) -> Flow {
        self.next
    }

    pub fn take(&mut self) -> Flow {
        let flow = self.next;
        self.next.id = flow.id.wrapping_add(1);
        self.draw();
        flow
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a float cast saturates
    fn draw(&mut self) {
        let interval = -(1.0 - self.rng.f64()).ln() * self.interval_mean;
        self.next.began = self.next.began.after(Nanos(interval as u64));
        self.next.bytes = self.sizes.quantile(self.rng.f64());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn built_in_flow_sizes_match_published_quantiles() {
        let edu1 = FlowSizes::named("edu1").unwrap();
        assert_eq!((edu1.quantile(0.5), edu1.quantile(0.9), edu1.quantile(0.99)), (447, 9445, 114_040));
        assert_eq!(edu1.quantile(1.0), 86_684_378);
        let edu2 = FlowSizes::named("edu2").unwrap();
        assert_eq!((edu2.quantile(0.5), edu2.quantile(0.99)), (108, 852_223));
        assert_eq!(FlowSizes::named("edu3"), None);
    }

    #[test]
    fn flow_size_quantiles_interpolate_linearly() {
        let sizes = FlowSizes::parse("1000 50\n# the rest\n3000 100\n").unwrap();
        assert_eq!(sizes.quantile(0.75), 2000);
        assert!((sizes.mean(f64::from) - 1250.0).abs() < 1.0);
    }

    #[test]
    fn error_in_flow_size_list_names_the_faulty_line() {
        assert_eq!(
            FlowSizes::parse("0 0\n10 x").unwrap_err(),
            FlowSizesError::NotAPoint { line: 2, found: "10 x".to_owned() }
        );
        assert_eq!(FlowSizes::parse("10 50\n9 100").unwrap_err(), FlowSizesError::Falls { line: 2 });
        assert_eq!(FlowSizes::parse("10 99").unwrap_err(), FlowSizesError::Incomplete { last: 99.0 });
        assert_eq!(FlowSizes::parse("").unwrap_err(), FlowSizesError::Incomplete { last: 0.0 });
    }

    #[test]
    fn same_seed_yields_same_flows() {
        let sizes = FlowSizes::named("edu1").unwrap();
        let flows = |seed| {
            let mut arrivals = Arrivals::new(sizes.clone(), Nanos(1000), Nanos(50), seed);
            std::iter::repeat_with(move || arrivals.take()).take(20_000).collect::<Vec<_>>()
        };
        let (first, again, other) = (flows(1), flows(1), flows(2));
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert!(first.windows(2).all(|pair| pair[0].began <= pair[1].began && pair[0].id + 1 == pair[1].id));
        let mean = first.last().unwrap().began.0 / 20_000;
        assert!((950..=1050).contains(&mean), "{mean}");
    }
}

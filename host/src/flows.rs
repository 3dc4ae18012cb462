//! Random flows, reproducible by a seed: sizes follow a distribution, arrivals are Poisson (open loop).

use fastrand::Rng;
use xoff_wire::units::Nanos;

use crate::sizes::Sizes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub id: u32,
    pub bytes: u32,
    /// Time from which on the flow can be sent.
    pub began: Nanos,
}

#[derive(Clone, Debug)]
pub struct Arrivals {
    sizes: Sizes,
    interval_mean: f64,
    rng: Rng,
    next: Flow,
}

impl Arrivals {
    #[must_use]
    pub fn new(sizes: Sizes, interval_mean: Nanos, start: Nanos, seed: u64) -> Arrivals {
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
        self.next.bytes = self.sizes.draw(&mut self.rng).min(u32::MAX.into()) as u32;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sizes::Between;

    #[test]
    fn same_seed_yields_same_flows() {
        let sizes = Sizes::named("edu1", Between::Linear).unwrap();
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

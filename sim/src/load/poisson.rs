use xoff_wire::units::{BitRate, Bytes, Class};

use crate::ends::NodeId;
use crate::flows::{FlowPlan, Framing};
use crate::seed::{Purpose, Seed, exponential};
use crate::time::Picos;
use xoff_host::sizes::Sizes;

/// Parameters of a load whose flows start at random (Poisson process).
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the names say it
pub struct Poisson {
    pub hosts: Vec<u32>,
    pub class: Class,
    pub sizes: Sizes,
    /// Mean load of each host as a share of `line`, headers, preambles and gaps included.
    pub load: f64,
    pub line: BitRate,
    pub framing: Framing,
    pub from: Picos,
    pub until: Picos,
}

/// Draws the flows of a Poisson load, sorted by start.
#[must_use]
pub fn poisson(load: &Poisson, seed: Seed) -> Vec<FlowPlan> {
    let bytes = mean_on_line(&load.sizes, load.framing);
    let mean = bytes * 8e12 / (load.load * load.line.bits_per_second() as f64);
    let mut flows = Vec::new();
    for &from in load.hosts.iter().filter(|_| load.load > 0.0 && load.hosts.len() > 1) {
        let mut rng = fastrand::Rng::with_seed(seed.number(NodeId(from), Purpose::Load));
        let mut at = load.from;
        loop {
            at = at.after(exponential(mean, &mut rng));
            if at >= load.until {
                break;
            }
            let to = loop {
                let to = load.hosts[rng.usize(..load.hosts.len())];
                if to != from {
                    break to;
                }
            };
            let bytes = load.sizes.draw(&mut rng);
            flows.push(FlowPlan { from, to, class: load.class, bytes, start: at, tag: 0 });
        }
    }
    flows.sort_by_key(|flow| (flow.start, flow.from));
    flows
}

/// Returns a flow's mean bytes on the line, headers and gaps included, accurate to about 1 in 10,000.
#[must_use]
pub fn mean_on_line(sizes: &Sizes, framing: Framing) -> f64 {
    const POINTS: u32 = 100_000;
    let payload_max = framing.payload_max;
    let around = Bytes::on_line(framing.longest()).0 as f64 - f64::from(payload_max);
    let frames = |share: f64| sizes.at(share).div_ceil(payload_max.into()) as f64;
    let frames_mean =
        (0..POINTS).map(|point| frames((f64::from(point) + 0.5) / f64::from(POINTS))).sum::<f64>()
            / f64::from(POINTS);
    sizes.mean() + around * frames_mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals() -> Poisson {
        Poisson {
            hosts: vec![0, 3, 5, 6],
            class: Class::ALL[3],
            sizes: Sizes::fixed(14_560),
            load: 0.5,
            line: BitRate::from_gbps(100),
            framing: Framing::roce(1_456),
            from: Picos::from_micros(100),
            until: Picos::from_micros(100_100),
        }
    }

    #[test] // proves: scenarios
    fn poisson_load_has_configured_rate_and_uniform_receivers() {
        let load = arrivals();
        let flows = poisson(&load, Seed(3));
        let expected = 0.5 * 4.0 * 0.1 * 100e9 / (8.0 * 15_380.0);
        let off = flows.len() as f64 / expected - 1.0;
        assert!(off.abs() < 3.0 / expected.sqrt(), "{} against {expected}", flows.len());
        assert!(flows.is_sorted_by_key(|flow| flow.start));
        assert!(flows.iter().all(|flow| flow.from != flow.to && load.hosts.contains(&flow.to)));
        assert!(flows.iter().all(|flow| load.from < flow.start && flow.start < load.until));
        let to_last = flows.iter().filter(|flow| (flow.from, flow.to) == (0, 6)).count() as f64;
        assert!((to_last * 12.0 / flows.len() as f64 - 1.0).abs() < 0.1, "{to_last}");
    }

    #[test]
    fn poisson_arrivals_depend_on_seed_and_differ_by_host() {
        let few = Poisson { hosts: vec![0, 3], ..arrivals() };
        assert_eq!(poisson(&few, Seed(3)), poisson(&few, Seed(3)));
        assert_ne!(poisson(&few, Seed(3)), poisson(&few, Seed(4)));
        let starts = |load: &Poisson| -> Vec<Picos> {
            poisson(load, Seed(3))
                .iter()
                .filter(|flow| flow.from == 3)
                .map(|flow| flow.start)
                .take(1)
                .collect()
        };
        assert_eq!(starts(&few), starts(&arrivals()));
    }

    #[test]
    fn poisson_load_without_rate_or_receivers_is_empty() {
        assert_eq!(poisson(&Poisson { hosts: vec![2], ..arrivals() }, Seed(1)), []);
        assert_eq!(poisson(&Poisson { load: 0.0, ..arrivals() }, Seed(1)), []);
    }
}

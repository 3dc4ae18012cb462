//! Case `map.ecn-share`: which share of the packets does the device mark in a queue between `ecn` and `ecn_max`?

use super::{CE, ECT, SIZE, send_packets};
use crate::bench::{Bench, Void};
use crate::cases::buffers::counted;
use crate::judgement::Judgement;
use crate::report::{Curve, Figure, Marker};

const SAMPLES: u64 = 2_000;
const SAMPLES_MIN: usize = 100;
const FILLS_MAX: u64 = 30;
const BINS: usize = 20;
/// Deviation that a correct device exceeds in one of two million cases.
const SIGMAS: f64 = 5.0;

struct Red {
    packet: u64,
    ecn: u64,
    ecn_max: u64,
    probability: Option<f64>,
}

pub(super) fn share(bench: &mut Bench) -> Result<Judgement, Void> {
    let device = &bench.setup.device;
    let Some([ecn, ecn_max]) = device.ecn.map(|ecn| ecn.map(|bytes| bytes.0)).filter(|[ecn, max]| ecn < max)
    else {
        return Err(Void::NotPossible(
            "the case needs `ecn`, and a larger `ecn_max`, in [device] of the setup file".into(),
        ));
    };
    let packet = counted(bench, SIZE);
    let red = Red { packet, ecn, ecn_max, probability: bench.setup.device.ecn_probability };
    let mut judgement = Judgement::new();
    let mut fills = Vec::new();
    for _ in 0..(SAMPLES * packet / (ecn_max - ecn)).clamp(4, FILLS_MAX) {
        let packets = send_packets(bench, &mut judgement, ECT, true)?;
        if packets.early > 0 {
            judgement
                .cannot_tell("packets arrived while their class was paused; see case receive.stops-class");
            return Ok(judgement);
        }
        fills.push(packets.ecn.iter().map(|ecn| *ecn == CE).collect());
    }
    let samples = red.samples(&fills);
    let longest = samples.iter().map(|(length, _)| *length).max().unwrap_or_default();
    let needed = ecn_max + ecn_max / 4 + packet;
    if red.probability.is_none() && longest <= needed {
        judgement.cannot_tell(format!(
            "the queue reached only {longest} bytes; without `ecn_probability` the case needs more than {needed}"
        ));
    }
    red.judge(&mut judgement, &samples);
    Ok(judgement)
}

impl Red {
    /// Returns for each packet its queue length, and whether it is marked: on entry, if mostly a fill's last packets are marked.
    fn samples(&self, fills: &[Vec<bool>]) -> Vec<(u64, bool)> {
        let late = |fill: &Vec<bool>| {
            let marked = fill.iter().enumerate().filter(|(_, is_marked)| **is_marked);
            marked.map(|(at, _)| 2.0 * at as f64 + 1.0 - fill.len() as f64).sum::<f64>()
        };
        let is_on_entry = fills.iter().map(late).sum::<f64>() >= 0.0;
        let length = |at: usize, all: usize| if is_on_entry { at + 1 } else { all - at };
        let of_fill = |fill: &Vec<bool>| {
            let all = fill.len();
            let marks = fill.iter().enumerate();
            marks
                .map(|(at, is_marked)| (length(at, all) as u64 * self.packet, *is_marked))
                .collect::<Vec<_>>()
        };
        fills.iter().flat_map(of_fill).collect()
    }

    fn slope(&self, probability: f64, length: f64) -> f64 {
        probability * (length - self.ecn as f64) / (self.ecn_max - self.ecn) as f64
    }

    /// Returns the possible shares of marked packets, if the queue is certainly between both lengths. Tolerates a packet and a tenth of the
    /// length. RED with even gaps between marks (Floyd and Jacobson) marks up to twice the probability.
    fn bounds(&self, probability: f64, length: u64) -> Option<[f64; 2]> {
        let (length, packet) = (length as f64, self.packet as f64);
        let [low, high] = [0.9 * length - packet, 1.1 * length + packet];
        let [least, most] = [low, high].map(|length| self.slope(probability, length));
        (low > self.ecn as f64 && high < self.ecn_max as f64).then_some([least, 2.0 * most / (1.0 + most)])
    }

    fn judge(&self, judgement: &mut Judgement, samples: &[(u64, bool)]) {
        let &Red { packet, ecn, ecn_max, .. } = self;
        let share = |is_in: &dyn Fn(u64) -> bool| {
            let marks: Vec<bool> = samples.iter().filter(|it| is_in(it.0)).map(|it| it.1).collect();
            let marked = marks.iter().filter(|is_marked| **is_marked).count();
            (!marks.is_empty()).then(|| marked as f64 / marks.len() as f64)
        };
        let below = share(&|length| length < (ecn - ecn / 4).saturating_sub(packet));
        let above = share(&|length| length > ecn_max + ecn_max / 4 + packet);
        for (name, value, limit) in [
            ("share of marked packets certainly below `ecn`", below, (None, Some(0.0))),
            ("share of marked packets certainly above `ecn_max`", above, (Some(1.0), None)),
        ] {
            let Some(value) = value else { continue };
            judgement.limits(name, value, "", limit);
            judgement.require(limit.0.or(limit.1) == Some(value), || {
                format!("the {name} is {:.1} %", 100.0 * value)
            });
        }
        if let Some(between) = share(&|length| (ecn..=ecn_max).contains(&length)) {
            judgement.measure("share of marked packets between `ecn` and `ecn_max`", between, "");
        }
        if let Some(probability) = self.probability {
            self.judge_between(judgement, samples, probability);
        }
        judgement.figures.push(self.figure(samples));
    }

    fn judge_between(&self, judgement: &mut Judgement, samples: &[(u64, bool)], probability: f64) {
        let certain = samples.iter().filter_map(|it| Some((self.bounds(probability, it.0)?, it.1)));
        let certain: Vec<([f64; 2], bool)> = certain.collect();
        let count = certain.len() as f64;
        if certain.len() < SAMPLES_MIN {
            judgement.cannot_tell(format!(
                "only {count} packets queued certainly between `ecn` and `ecn_max`; {SAMPLES_MIN} are needed"
            ));
            return;
        }
        let limit = |bound: usize, sign: f64| {
            let shares = certain.iter().map(|it| it.0[bound]);
            let variance: f64 = shares.clone().map(|share| share * (1.0 - share)).sum();
            ((shares.sum::<f64>() + sign * SIGMAS * variance.sqrt()) / count).clamp(0.0, 1.0)
        };
        let (least, most) = (limit(0, -1.0), limit(1, 1.0));
        let marked = certain.iter().filter(|it| it.1).count() as f64 / count;
        let name = "share of marked packets certainly between `ecn` and `ecn_max`";
        judgement.limits(name, marked, "", (Some(least), Some(most)));
        judgement.require((least..=most).contains(&marked), || {
            let [marked, least, most] = [marked, least, most].map(|share| 100.0 * share);
            format!("between `ecn` and `ecn_max`, {marked:.1} % of the packets were marked; expected are {least:.1} to {most:.1} %")
        });
    }

    fn figure(&self, samples: &[(u64, bool)]) -> Figure {
        let longest = samples.iter().map(|it| it.0).max().unwrap_or_default();
        let width = longest / BINS as u64 + 1;
        let mut bins = [(0_u32, 0_u32); BINS];
        for (length, is_marked) in samples {
            let bin = &mut bins[usize::try_from(length / width).unwrap_or(0).min(BINS - 1)];
            *bin = (bin.0 + u32::from(*is_marked), bin.1 + 1);
        }
        let points = bins.iter().enumerate().filter(|(_, bin)| bin.1 > 0).map(|(at, (marked, all))| {
            ((at as f64 + 0.5) * width as f64, f64::from(*marked) / f64::from(*all))
        });
        let mut curves = vec![Curve { name: "marked".to_owned(), points: points.collect() }];
        if let Some(probability) = self.probability {
            let [ecn, max] = [self.ecn, self.ecn_max].map(|bytes| bytes as f64);
            let points = vec![(0.0, 0.0), (ecn, 0.0), (max, probability), (max, 1.0), (longest as f64, 1.0)];
            curves.push(Curve { name: "configured".to_owned(), points });
        }
        let marker = |x: u64, label: &str| Marker { x: x as f64, label: label.to_owned() };
        Figure {
            title: "Share of marked packets by queue length".to_owned(),
            x: "queue (bytes)".to_owned(),
            y: "share".to_owned(),
            curves,
            markers: vec![marker(self.ecn, "ecn"), marker(self.ecn_max, "ecn_max")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    const RED: Red = Red { packet: 1_000, ecn: 20_000, ecn_max: 100_000, probability: Some(0.8) };

    /// Fills a queue 30 times with 150 packets, which are marked with `factor` times the configured probability, on entry or on exit.
    fn fills(factor: f64, is_on_entry: bool) -> Vec<Vec<bool>> {
        let mut state = 1_u64;
        let mut is_marked = |length: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = (state >> 33) as f64 / (1_u64 << 31) as f64;
            let share = if length > 100_000 { 1.0 } else { factor * RED.slope(0.8, length as f64) };
            random < share
        };
        let mut fill = || (1..=150).map(|packets| is_marked(packets * 1_000)).collect::<Vec<bool>>();
        let mut fills: Vec<Vec<bool>> = (0..30).map(|_| fill()).collect();
        if !is_on_entry {
            fills.iter_mut().for_each(|fill| fill.reverse());
        }
        fills
    }

    #[test]
    fn ecn_share_beyond_binomial_limits_fails() {
        for (factor, verdict) in
            [(1.0, Verdict::Pass), (0.5, Verdict::Fail), (0.0, Verdict::Fail), (4.0, Verdict::Fail)]
        {
            for is_on_entry in [false, true] {
                let mut judgement = Judgement::new();
                RED.judge(&mut judgement, &RED.samples(&fills(factor, is_on_entry)));
                assert_eq!(judgement.verdict(), verdict, "{factor} {is_on_entry}: {}", judgement.reason());
            }
        }
    }

    #[test]
    fn ecn_share_below_and_above_thresholds_is_exact() {
        for (length, is_marked, verdict) in [
            (13_000, true, Verdict::Fail),
            (14_000, true, Verdict::Pass),
            (126_000, false, Verdict::Pass),
            (127_000, false, Verdict::Fail),
        ] {
            let mut judgement = Judgement::new();
            Red { probability: None, ..RED }.judge(&mut judgement, &[(length, is_marked)]);
            assert_eq!(judgement.verdict(), verdict, "{length}");
        }
    }
}

// Tests for SPECIFICATION.md: tcp

use std::sync::Arc;

use xoff_flow_control::settings::EcnSettings;
use xoff_host::tcp::{Algorithm, TcpSettings};
use xoff_sim::flows::{FlowFabric, FlowPlan, HostSettings};
use xoff_sim::ideal::Ideal;
use xoff_sim::topology::{Build, Dumbbell};
use xoff_sim::{Line, Picos, Seed};
use xoff_wire::units::{BitRate, Bytes, ClassSet};

use super::{LOSSLESS, LOSSY, check, dropped, flow, line, star};

fn dctcp() -> HostSettings {
    HostSettings::tcp(TcpSettings { control: Algorithm::Dctcp, ecn: true, ..TcpSettings::default() })
}

fn step(bytes: u64) -> Option<EcnSettings> {
    Some(EcnSettings { min: Bytes(bytes), max: Bytes(bytes), probability: 1.0, wred: false })
}

/// Returns, for each half second, the payload rate in Mb/s and the mean alpha of a flow over a line of 50 Mb/s. The
/// rate is scaled to frames of 1502 bytes on the line (as in ns-3) instead of 1538.
fn rates_and_alphas(round_trip_ms: u64, seconds: u64) -> Vec<(f64, f64)> {
    let delay = Picos::from_micros(round_trip_ms * 250);
    let slow = Line { rate: BitRate::from_mbps(50), delay };
    let fast = Line { rate: BitRate::from_gbps(1), delay };
    // The marking threshold of 13.8 KB stands for ns-3's CoDel (1 ms) plus frames in its device.
    let plan = star(&[slow, fast], |class, settings| {
        if class == LOSSLESS {
            settings.ecn = step(13_800);
            settings.egress_max = Bytes(settings.egress_max.0 + 2_000_000);
            settings.xoff = Bytes(1_000_000);
            settings.xoff_frames = 1_000_000;
        }
    });
    let mut fabric = FlowFabric::new(&plan, Seed(1), dctcp());
    fabric.add(flow(1, 0, 1 << 36));
    let mut rows = Vec::new();
    for half in 0..2 * seconds {
        let (before, mut alpha) = (fabric.received(0), 0.0);
        for step in 1..=50 {
            fabric.run_until(Picos::from_micros(half * 500_000 + step * 10_000));
            alpha += fabric.tcp_sender(0).and_then(|sender| sender.control().alpha()).expect("DCTCP");
        }
        let frames = f64::from(fabric.received(0) - before);
        rows.push((frames * 1_448.0 * 8.0 / 0.5e6 * 1_538.0 / 1_502.0, alpha / 50.0));
    }
    rows
}

/// Bounds of ns-3's `tcp-validation`, whose flows begin at 5 s, not at 0. At a round trip of 80 ms, alpha exceeds
/// a bound after 34 s that ns-3 does not check; this bound is left out.
#[test]
fn dctcp_rate_and_alpha_are_within_bounds_of_ns3() {
    let rows = rates_and_alphas(10, 7);
    assert!(rows[2..].iter().all(|(mbps, _)| (48.0..49.0).contains(mbps)), "{rows:?}");
    let alpha = rows[4..].iter().map(|row| row.1).sum::<f64>() / rows[4..].len() as f64;
    assert!((0.055..0.09).contains(&alpha), "{alpha}");

    let rows = rates_and_alphas(80, 35);
    let rates = |from: usize, to: usize| rows[2 * from..2 * to].iter().map(|row| row.0);
    assert!(rates(0, 9).all(|mbps| mbps < 20.0) && rates(0, 25).all(|mbps| mbps < 48.0), "{rows:?}");
    assert!(rates(27, 35).all(|mbps| (47.5..48.5).contains(&mbps)), "{rows:?}");
    assert!(
        rows[1..5].iter().all(|row| row.1 > 0.1) && rows[12..50].iter().all(|row| row.1 < 0.01),
        "{rows:?}"
    );
}

/// Fig. 17 of the paper on DCTCP (SIGCOMM 2010), for a shorter time: two bottlenecks, at which flows of three groups
/// get 46, 475 and 54 Mb/s each.
#[test]
fn dctcp_rates_over_two_bottlenecks_are_near_those_of_paper() {
    let [slow, fast] = [1, 10].map(|gbps| line(gbps, 10_000));
    let build = Build::new(|lines, _| {
        let mut kind = Ideal::of(lines, ClassSet(1 << LOSSY.get()));
        for (port, line) in kind.settings.ports.iter_mut().zip(lines) {
            let class = &mut port.classes[LOSSY.index()];
            class.ecn = step(if *line == fast { 98_000 } else { 30_000 });
            class.egress_max = Bytes(4_000_000);
        }
        kind.slots.data += 10_000;
        Arc::new(kind)
    });
    let plan = Dumbbell { left: 30, right: 31, host_line: slow, trunk: fast }.plan(&build);
    let mut fabric = FlowFabric::new(&plan, Seed(1), dctcp());
    let receiver = 30;
    let to = |from| if (10..30).contains(&from) { from + 31 } else { receiver };
    for from in (0..30).chain(31..41) {
        let start = Picos::from_micros(u64::from(from) * 200);
        fabric.add(FlowPlan { class: LOSSY, start, ..flow(from, to(from), 1 << 36) });
    }
    let received = |fabric: &FlowFabric| (0..40).map(|flow| fabric.received(flow)).collect::<Vec<u32>>();
    fabric.run_until(Picos::from_micros(30_000));
    let before = received(&fabric);
    fabric.run_until(Picos::from_micros(90_000));
    let rates: Vec<f64> = received(&fabric)
        .iter()
        .zip(before)
        .map(|(after, before)| f64::from(after - before) * 1_538.0 * 8.0 / 0.06 / 1e6)
        .collect();
    let groups = [(&rates[..10], 46.0), (&rates[10..30], 475.0), (&rates[30..], 54.0)];
    let results = groups.map(|(rates, paper)| {
        let (sum, squares) =
            rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
        let count = rates.len() as f64;
        (sum / count, paper, sum * sum / count / squares)
    });
    let is_near = |&(mean, paper, jain): &(f64, f64, f64)| (mean / paper - 1.0).abs() < 0.03 && jain > 0.98;
    assert!(results.iter().all(is_near), "rate, paper, fairness: {results:?}");
    assert_eq!(dropped(&fabric), 0);
    check(&fabric);
}

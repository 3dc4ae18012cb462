//! Measures the simulator's speed: prints JSON about a permutation load on a 100 Gb/s fat-tree. Usage: `permutation K
//! [SEED]`.

use std::time::Instant;

use xoff_sim::{Fabric, Line, Picos, Seed, permutation, topology};
use xoff_wire::units::{BitRate, Class};

const FRAME: u32 = 1_496;
const LINE: Line = Line { rate: BitRate::from_gbps(100), delay: Picos::from_nanos(500) };
const WARM_UP: Picos = Picos::from_micros(1_000);
const HOPS: u64 = 6_000_000;
const PARTS: u64 = 60;

fn main() {
    let mut arguments =
        std::env::args().skip(1).map(|text| text.parse::<u64>().expect("K and SEED have to be numbers"));
    let k = arguments.next().and_then(|k| u8::try_from(k).ok()).unwrap_or(8);
    let seed = Seed(arguments.next().unwrap_or(1));
    let plan = topology::fat_tree(k, LINE);
    let mut fabric = Fabric::new(&plan, seed);
    permutation::begin(&mut fabric, LINE, Class::ALL[3], FRAME, seed);
    let began = Instant::now();
    fabric.run_until(WARM_UP);
    let warm_up_s = began.elapsed().as_secs_f64();
    let before = fabric.tally();
    let span = Picos(WARM_UP.0 * HOPS / before.hops.max(1)).max(WARM_UP);
    let mut parts = Vec::new();
    for part in 1..=PARTS {
        let hops = fabric.tally().hops;
        let began = Instant::now();
        fabric.run_until(WARM_UP.after(Picos(span.0 * part / PARTS)));
        parts.push((began.elapsed().as_secs_f64(), (fabric.tally().hops - hops).max(1)));
    }
    let ns_per_hop = |parts: &[(f64, u64)]| {
        let (seconds, hops) = parts.iter().fold((0.0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        seconds * 1e9 / hops as f64
    };
    let seconds: f64 = parts.iter().map(|(seconds, _)| seconds).sum();
    parts.sort_by(|one, other| ns_per_hop(&[*one]).total_cmp(&ns_per_hop(&[*other])));
    let hops = fabric.tally().hops - before.hops;
    let events = fabric.tally().events - before.events;
    assert_eq!(fabric.missing(), 0, "each frame of the pool must be at a node or on a link");
    println!(
        "{{\"k\":{k},\"hosts\":{},\"hops_per_s\":{:.0},\"events_per_s\":{:.0},\"peak_mb\":{:.0},\"ns_per_hop\":{:.1},\
         \"ns_per_hop_quiet\":{:.1},\"trace_hash\":\"{:016x}\",\"simulated_us\":{:.0},\"warm_up_s\":{warm_up_s:.2}}}",
        plan.hosts(),
        hops as f64 / seconds,
        events as f64 / seconds,
        peak_mb(),
        ns_per_hop(&parts),
        ns_per_hop(&parts[..parts.len() / 10]),
        fabric.digest(),
        fabric.now().0 as f64 / 1e6,
    );
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = line.and_then(|rest| rest.trim().split(' ').next()?.parse().ok()).unwrap_or(0.0);
    kib * 1024.0 / 1e6
}

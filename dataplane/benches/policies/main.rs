//! Benchmark that compares policies, with the frames of `journey.rs`.
//!
//! `scripts/bench policies` runs it in two ways, which hardly depend on the machine's load:
//!
//! * `count LOAD POLICY`: callgrind counts instructions of [`counted`].
//! * `time ROUNDS`: runs all policies in turn, and compares their times with plain PFC's in the same round.

#[path = "../driver/mod.rs"]
mod driver;
mod joins;

use std::process::ExitCode;
use std::time::Instant;

use xoff_flow_control::settings::PolicyKind;

use driver::{BATCH, Bench, Load, SPREADS};
use joins::Joins;

const BATCHES: u32 = 200;
const BATCHES_TIMED: u32 = 500;
const PORTS: u8 = 8;

#[inline(never)]
fn counted(mut step: impl FnMut(), times: u32) {
    (0..times).for_each(|_| step());
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["count", load, policy] => match (named(load), PolicyKind::named(policy)) {
            (Some(load), Some(policy)) => count(Bench::new(PORTS, policy, load)),
            _ => return usage(),
        },
        ["count-groups", load, name] => {
            match (named(load), SPREADS.into_iter().find(|spread| spread.name() == name)) {
                (Some(load), Some(spread)) => count(Bench::grouped(spread, load)),
                _ => return usage(),
            }
        }
        ["count-joins", flows] => match flows.parse() {
            Ok(flows) => count_joins(flows),
            Err(_) => return usage(),
        },
        ["time", rounds] => match rounds.parse() {
            Ok(rounds) => time(rounds),
            Err(_) => return usage(),
        },
        [] => time(20),
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: policies [count mixed|imix POLICY | count-groups mixed|imix SPREAD | count-joins FLOWS | time ROUNDS]"
    );
    ExitCode::from(2)
}

fn named(load: &str) -> Option<Load> {
    match load {
        "mixed" => Some(Load::Mixed),
        "imix" => Some(Load::Imix),
        _ => None,
    }
}

fn count(mut bench: Bench) {
    (0..BATCHES).for_each(|_| bench.batch());
    counted(|| bench.batch(), BATCHES);
    assert_eq!((bench.ledger().missing(), bench.ledger().held), (0, 0));
    println!("{}", BATCHES * BATCH);
}

fn count_joins(flows: u16) {
    let mut joins = Joins::new(flows);
    let before = joins.requested();
    counted(|| joins.join(), BATCH);
    assert_eq!(joins.requested() - before, BATCH as usize, "joining flow was not paused");
    println!("{BATCH}");
}

fn time(rounds: usize) {
    let mut benches = PolicyKind::ALL.map(|kind| Bench::new(PORTS, kind, Load::Mixed));
    let count = benches.len();
    let mut times = vec![Vec::with_capacity(rounds); count];
    for round in 0..rounds {
        for place in 0..count {
            let which = (round + place) % count;
            let start = Instant::now();
            (0..BATCHES_TIMED).for_each(|_| benches[which].batch());
            let frames = f64::from(BATCHES_TIMED * BATCH);
            times[which].push(start.elapsed().as_secs_f64() * 1e9 / frames);
        }
    }
    for (kind, of_kind) in PolicyKind::ALL.into_iter().zip(&times) {
        let ratios = of_kind.iter().zip(&times[0]).map(|(time, pfc)| time / pfc).collect();
        let [low, median, high] = quartiles(ratios);
        let [_, nanos, _] = quartiles(of_kind.clone());
        println!("{} {nanos:.1} {median:.3} {low:.3} {high:.3}", kind.name());
    }
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

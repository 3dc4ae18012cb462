//! Benchmark of a frame's way from receipt to release. No queue reaches a threshold, so the cost should not depend on
//! the number of ports, and hardly on the policy.

mod driver;

use criterion::{Bencher, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use xoff_flow_control::settings::PolicyKind;

use driver::{BATCH, Bench, Load, SPREADS};

fn journey(c: &mut Criterion) {
    let mut group = c.benchmark_group("journey");
    group.throughput(Throughput::Elements(BATCH.into()));
    for ports in [2, 8, 32, 128] {
        let id = BenchmarkId::new("ports", ports);
        group.bench_function(id, |b| run(b, Bench::new(ports, PolicyKind::Pfc, Load::Mixed)));
        let id = BenchmarkId::new("imix", ports);
        group.bench_function(id, |b| run(b, Bench::new(ports, PolicyKind::Pfc, Load::Imix)));
    }
    for policy in PolicyKind::ALL {
        let id = BenchmarkId::new("policy", policy.name());
        group.bench_function(id, |b| run(b, Bench::new(8, policy, Load::Mixed)));
    }
    for spread in SPREADS {
        let id = BenchmarkId::new("group", spread.name());
        group.bench_function(id, |b| run(b, Bench::grouped(spread, Load::Mixed)));
    }
    group.finish();
}

fn run(b: &mut Bencher<'_>, mut bench: Bench) {
    let before = bench.ledger();
    b.iter(|| bench.batch());
    let after = bench.ledger();
    assert_eq!((after.missing(), after.held), (0, 0));
    assert_eq!(
        after.sent - before.sent,
        after.received - before.received,
        "the switch must send all received frames"
    );
}

criterion_group!(benches, journey);
criterion_main!(benches);
